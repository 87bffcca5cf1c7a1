use super::*;

#[test]
fn comments_and_strings_are_not_code() {
    let source = scan("let a = \"thread::spawn // no\"; // a comment\nlet b = 1; /* two\nlines */ let c = 2;\n");
    assert_eq!(
        source.code.lines().map(str::trim_end).collect::<Vec<_>>(),
        ["let a = \"                   \";", "let b = 1;", "         let c = 2;"]
    );
    let comments: Vec<_> = source.comments.iter().map(|c| (c.line, c.doc, c.text.trim())).collect();
    assert_eq!(comments, [(1, false, "a comment"), (2, false, "two"), (3, false, "lines")]);
    assert_eq!(source.strings, [(1, "thread::spawn // no".to_string())]);
}

#[test]
fn documentation_is_told_from_comments() {
    let source = scan("//! one\n/// two\n// three\n//// four\n/** five */\n");
    let doc: Vec<_> = source.comments.iter().map(|c| c.doc).collect();
    assert_eq!(doc, [true, true, false, false, true]);
}

#[test]
fn strings_of_every_kind_end_where_they_end() {
    for string in [r##"r#"a " b"#"##, r#""a \" b""#, r#"b"ab""#, r###"br##"a "# b"##"###, "c\"x\"", "\"\\\\\""] {
        let source = scan(&format!("f({string}, END) // c"));
        assert!(source.code.contains("END"), "{string}: {}", source.code);
        assert!(!source.code.contains('a'), "{string}: {}", source.code);
        assert_eq!((source.strings.len(), source.comments.len()), (1, 1), "{string}");
    }
}

#[test]
fn quotes_of_characters_and_lifetimes_begin_no_string() {
    let source = scan(r#"fn f<'a>(x: &'a str) { g('"', '\'', '\u{41}', b'"', 'x') } // c"#);
    assert!(source.strings.is_empty(), "{source:?}");
    assert_eq!(source.comments.len(), 1);
}

#[test]
fn what_never_ends_ends_with_the_file() {
    for text in ["\"", "/* /* */", "r#\"", "'", "b'", "'\\", "//", "r#raw", "\u{d7} \u{1f980}'\u{d7}'"] {
        scan(text);
    }
}

#[test]
fn words_and_signs_come_with_their_lines() {
    let words: Vec<_> = tokens("use a::b;\nx1!").into_iter().map(|t| (t.line, t.text)).collect();
    assert_eq!(words, [(1, "use"), (1, "a"), (1, "::"), (1, "b"), (1, ";"), (2, "x1"), (2, "!")]);
}
