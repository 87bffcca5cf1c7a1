use super::*;

const PATH: &str = "crates/model/src/size.rs";

fn lines(rule: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
    rule(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
}

#[test]
fn a_character_beyond_ascii_is_found_in_source_and_not_in_prose() {
    assert_eq!(lines(ascii, PATH, "//! good\n// n \u{d7} m\n"), [2]);
    assert_eq!(lines(ascii, "README.md", "n \u{d7} m\n"), []);
}

#[test]
fn a_file_that_is_too_long_is_found_and_tests_may_be_longer() {
    let text = "\n".repeat(LINES + 1);
    assert_eq!(lines(length, PATH, &text), [LINES + 1]);
    assert_eq!(lines(length, "crates/model/src/size/tests.rs", &text), []);
    assert_eq!(lines(length, PATH, &"\n".repeat(LINES)), []);
}

#[test]
fn a_module_without_documentation_is_found() {
    assert_eq!(lines(documented, PATH, "use a::b;\n//! too late\n"), [1]);
    assert_eq!(lines(documented, PATH, "#![allow(x)]\n\n//! Sizes.\n"), []);
    assert_eq!(lines(documented, PATH, "//! Sizes.\n\npub(crate) mod inner {\n}\n"), [3]);
    assert_eq!(lines(documented, PATH, "//! Sizes.\n\n/// Inner.\n#[x]\nmod inner {\n}\n"), []);
    assert_eq!(lines(documented, PATH, "//! Sizes.\n\n#[cfg(test)]\nmod tests {\n}\n"), []);
    assert_eq!(lines(documented, PATH, "//! Sizes.\n\nmod inner {\n    //! Inner.\n}\n"), []);
    assert_eq!(lines(documented, "crates/model/src/size/tests.rs", "use super::*;\n"), []);
}

#[test]
fn what_is_marked_as_unfinished_is_found() {
    assert_eq!(
        lines(finished, PATH, "let a = 1; // TODO: more\n/// FIXME\ntodo!()\nunimplemented!(\"x\")\n"),
        [1, 2, 3, 4]
    );
    assert_eq!(lines(finished, PATH, "let a = \"TODO\"; // todos are a noun, HACKING.md a file\n"), []);
    assert_eq!(lines(finished, "README.md", "see HACKING.md\nTODO: write\n"), [2]);
    assert_eq!(lines(finished, "Cargo.toml", "a = \"TODO\"\nb = 1 # TODO\n"), [2]);
}

#[test]
fn code_in_comments_is_found() {
    for text in [
        "let a = 1;",
        "use std::fs;",
        "self.count += f(x);",
        "foo.bar(1);",
        "assert_eq!(a, b);",
        "fn f() {",
        "if a == b {",
        "} else {",
        "}",
        "#[cfg(test)]",
        "return;",
    ] {
        assert_eq!(lines(no_dead_code, PATH, &format!("// {text}\n")), [1], "{text}");
    }
}

#[test]
fn sentences_are_not_taken_for_code() {
    for text in [
        "if the slot is free, it is taken;",
        "let the caller decide;",
        "use the newer one (it is right);",
        "return early, so that nothing is held;",
        "a write (of one block);",
        "see `f(x);`",
        "SAFETY: the index is below the count.",
        "for each of them {a, b}",
        "[1, 2, 3]",
    ] {
        assert_eq!(lines(no_dead_code, PATH, &format!("// {text}\n")), [], "{text}");
    }
    assert_eq!(lines(no_dead_code, PATH, "/// let a = 1;\n//! fn f() {\n"), []);
}
