use super::*;

fn findings(page: &str) -> Vec<String> {
    let tests = "#[test]\nfn a_ring_keeps_what_it_was_promised() {}";
    let tree = Tree::of(&[
        ("docs/promises/ring.md", page),
        ("docs/benchmarks.md", "`a_test_that_is_not_there`"),
        ("crates/target/src/ring/tests.rs", tests),
        ("crates/target/src/ring.rs", "fn a_function_that_is_no_test() {}"),
    ]);
    shown(&tree).iter().map(ToString::to_string).collect()
}

#[test]
fn tests_that_are_there_are_fine() {
    for page in [
        "shown by: `a_ring_keeps_what_it_was_promised` (`crates/target/src/ring/tests.rs`)",
        "shown by: `a_ring_keeps_what_...`, and `read_bytes_per_second`",
        "shown by `crates/target/src/a_file_that_is_not_there.rs`",
    ] {
        assert!(findings(page).is_empty(), "{page}: {:?}", findings(page));
    }
}

#[test]
fn tests_that_are_not_there_are_found_with_their_line() {
    for name in [
        "a_ring_keeps_what_it_was_told",
        "a_ring_keeps_what_it_was",
        "a_ring_keeps_nothing_of_...",
        "a_function_that_is_no_test",
    ] {
        let found = findings(&format!("shown\nby: `{name}`"));
        let beginning = format!("docs/promises/ring.md:2: shown: there is no test {name}");
        assert!(found.len() == 1 && found[0].starts_with(&beginning), "{found:?}");
    }
}
