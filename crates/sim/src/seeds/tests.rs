use super::*;

#[test]
fn a_seed_that_fails_says_which_command_replays_it() {
    if is_replay() {
        return;
    }
    let failed = catch_unwind(|| each(3, |seed| assert!(seed < 2, "it is {seed}"))).unwrap_err();
    let said = failed.downcast_ref::<String>().unwrap();
    assert_eq!(*said, failure(2, number(DRAWS), std::thread::current().name(), "it is 2"));
    let test = "seeds::tests::a_seed_that_fails_says_which_command_replays_it";
    assert_eq!(
        failure(7, None, Some(test), "no"),
        format!("seed 7 failed: no\nreplay with: FOREBAY_SEED=7 cargo test -p forebay-sim {test} -- --exact")
    );
    assert!(failure(7, None, Some("main"), "no").ends_with("cargo test -p forebay-sim"));
    assert!(failure(7, Some(3), None, "no").contains("replay with: FOREBAY_DRAWS=3 FOREBAY_SEED=7 cargo test"));
}
