use super::*;

fn asked(words: &[&str]) -> Result<String, String> {
    let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    Asked::of(&words).map(|asked| format!("{asked:?}"))
}

#[test]
fn what_is_asked_for_is_understood_or_refused() {
    let all = asked(&[]).unwrap();
    assert!(INPUTS.iter().all(|input| all.contains(input)) && all.contains("60"), "{all}");
    let one = Asked { seconds: "5", keep: true, inputs: vec!["frames"], file: None };
    assert_eq!(asked(&["--seconds", "5", "frames", "--keep"]), Ok(format!("{one:?}")));
    let again = Asked { seconds: SECONDS, keep: false, inputs: vec!["frames"], file: Some("found") };
    assert_eq!(asked(&["frames", "found"]), Ok(format!("{again:?}")));
    for wrong in [&["found"][..], &["--seconds"], &["--seconds", "long"], &["frames", "bodies", "found"], &["--all"]] {
        assert!(asked(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn of_each_input_something_is_kept_and_of_nothing_else() {
    let corpus = crate::tree::root().join("fuzz/corpus");
    let mut kept: Vec<String> =
        std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    kept.sort();
    assert_eq!(kept, INPUTS.map(|input| format!("{input}.hex")));
}

#[test]
fn what_is_kept_is_unpacked_as_it_was() {
    let all = [&b""[..], b"\x00", b"\xff\x01abc"];
    for bytes in all {
        assert_eq!(bytes_of(line_of(bytes).trim_end()).as_deref(), Some(bytes));
    }
    assert_eq!([bytes_of("abc"), bytes_of("zz"), bytes_of("\u{e9}")], [None, None, None]);
}
