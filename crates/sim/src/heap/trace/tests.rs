use super::Trace;
use crate::disk::presets;
use crate::heap::load::Work;
use crate::heap::measure::{Setup, simulated};
use forebay_model::Kind;
use forebay_model::heap::HeapSettings;
use forebay_target::heap::HeapOptions;
use std::rc::Rc;

#[test]
fn a_trace_is_played_line_by_line_and_committed_at_its_end() {
    let text = "# two records, one replaced\nput a 100\nput b/c 20000  # a chained one\ncommit\n\nget b/c\nput a 3\n\
                free b/c\nput b/c 7\nget a\n";
    let trace = Rc::new(Trace::parse("t", text).unwrap());
    let setup = Setup { settings: HeapSettings::default(), options: HeapOptions::default() };
    let disk = presets::ssd().scaled(100);
    let outcome = simulated(1, disk, setup, Work::Trace(trace), Rc::new(|_, _| ())).unwrap();
    let given = outcome.given;
    assert_eq!((given.puts, given.gets, given.frees, given.commits), (4, 2, 2, 2));
    assert_eq!(given.put_bytes.0, 20_110);
    assert_eq!(outcome.status.classes.iter().map(|class| class.used).sum::<u64>(), 2);
}

#[test]
fn an_error_names_file_and_line_and_what_was_expected() {
    for (text, line, expected) in [
        ("put a", 1, "expected `put NAME LENGTH`"),
        ("put a 5\nput b 0", 2, "expected 1 to 67108864 bytes"),
        ("put a 5\n\nput b -1", 3, "expected 1 to 67108864 bytes"),
        ("put a 99999999999", 1, "expected 1 to 67108864 bytes"),
        ("get a", 1, "expected a name that was put"),
        ("put a 5\nfree a\nfree a", 3, "expected a name that was put and not freed since"),
        ("put a 5 6", 1, "expected `put NAME LENGTH`"),
        ("commit now", 1, "or `commit`"),
        ("PUT a 5", 1, "expected `put NAME LENGTH`"),
    ] {
        let error = Trace::parse("some.trace", text).unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
        assert!(error.message.starts_with(&format!("some.trace:{line}: ")), "{error}");
        assert!(error.message.contains(expected), "{error}");
    }
    let error = Trace::parse("some.trace", "# nothing\n\n").unwrap_err();
    assert!(error.message.starts_with("some.trace has no line"), "{error}");
}
