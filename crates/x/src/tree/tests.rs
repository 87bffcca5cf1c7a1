use super::*;

#[test]
fn what_is_compiled_for_tests_alone_is_known_under_whatever_name() {
    let key = "//! Keys.\n#[cfg(test)]\npub(crate) mod chance;\nmod real;\n#[cfg(test)]\nmod inline {\n}\n";
    let tree = Tree::of(&[
        ("crates/a/src/lib.rs", "#[cfg(test)]\nmod helpers;\n#[cfg(test)]\nuse x;\nmod key;\n"),
        ("crates/a/src/helpers/mod.rs", ""),
        ("crates/a/src/helpers/deep.rs", ""),
        ("crates/a/src/helpers_too.rs", ""),
        ("crates/a/src/key.rs", key),
        ("crates/a/src/key/chance.rs", ""),
        ("crates/a/src/key/real.rs", ""),
        ("crates/a/src/key/tests.rs", ""),
        ("crates/a/tests/end_to_end.rs", ""),
    ]);
    let tests: Vec<&str> = tree.files.iter().filter(|file| file.test).map(|file| file.path.as_str()).collect();
    let expected = [
        "crates/a/src/helpers/mod.rs",
        "crates/a/src/helpers/deep.rs",
        "crates/a/src/key/chance.rs",
        "crates/a/src/key/tests.rs",
        "crates/a/tests/end_to_end.rs",
    ];
    assert_eq!(tests, expected);
}

#[test]
fn this_repository_can_be_read() {
    let tree = Tree::read(&root()).expect("the repository is readable");
    assert!(tree.paths.contains("crates/x/src/tree.rs"));
    assert!(tree.files.iter().any(|file| file.path == "clippy.toml"));
    assert!(tree.files.iter().all(|file| !file.path.starts_with("target/")));
}
