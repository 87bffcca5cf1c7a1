use super::*;

#[test]
fn the_reports_of_all_crates_are_added_up() {
    let mut count = Count::default();
    for line in [
        "running 3 tests",
        "test a ... ok",
        "test result: ok. 34 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2.66s",
        "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        "test result: something else",
    ] {
        count.add(line);
    }
    assert_eq!(count, Count { passed: 36, failed: 3, skipped: 1 });
}
