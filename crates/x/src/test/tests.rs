use super::*;

#[test]
fn the_reports_of_all_crates_are_added_up() {
    let mut count = Count::default();
    for line in [
        "running 3 tests",
        "test a ... ok",
        "test b::c ... FAILED",
        "test d - should panic ... ok",
        "test result: ok. 34 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2.66s",
        "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        "test result: something else",
    ] {
        count.add(line);
    }
    assert_eq!(count, Count { passed: 36, failed: 3, skipped: 1, names: vec!["b::c".into()] });
}

#[test]
fn programs_with_tests_are_told_from_others_that_cargo_built() {
    let message = |test: bool, executable: &str| {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/crates/sim/Cargo.toml\",\"target\":{{\"kind\":[\"lib\"],\"test\":true}},\
             \"profile\":{{\"opt_level\":\"1\",\"test\":{test}}},\"features\":[],\"executable\":{executable},\"fresh\":true}}"
        )
    };
    let found = Program::of(&message(true, "\"/w/target/debug/deps/forebay_sim-0\"")).expect("it has tests");
    assert_eq!(found.path, Path::new("/w/target/debug/deps/forebay_sim-0"));
    assert!(found.only_computes() && found.has_the_longest());
    let other = Program::of(&message(true, "\"/w/target/debug/deps/ring-0\"")).expect("it has tests");
    assert!(other.only_computes() && !other.has_the_longest());
    assert_eq!(Program::of(&message(false, "\"/w/target/debug/forebay\"")), None);
    assert_eq!(Program::of(&message(true, "null")), None);
    assert_eq!(Program::of("{\"reason\":\"build-finished\",\"success\":true}"), None);
}
