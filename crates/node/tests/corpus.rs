//! What `cargo x fuzz` has found to reach something of its own, given to what takes it once more.
//!
//! Exempt from the lint about doors: its subject are files.

#![allow(clippy::disallowed_methods)]

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use std::path::Path;

#[test]
fn what_was_found_by_coverage_breaks_nothing() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, take) in fuzz::ALL {
        let kept = corpus.join(format!("{name}.hex"));
        let lines = std::fs::read_to_string(&kept).unwrap_or_else(|error| panic!("{}: {error}", kept.display()));
        let mut count = 0;
        for line in lines.lines() {
            let bytes = (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16));
            let bytes: Vec<u8> =
                bytes.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{name}: {line}: {error}"));
            let taken = std::panic::catch_unwind(|| take(&bytes));
            assert!(taken.is_ok(), "{name} is broken by {line}");
            count += 1;
        }
        assert!(count > 10, "{name}: {count} are kept");
    }
}
