use super::*;
use forebay_model::Kind;
use forebay_wire::control::access::Hidden;

#[test]
fn a_key_reads_as_it_was_written_and_nothing_else_does() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let path = dir.path().join("key");
    let issued = IssuedKey { key: 0x1234, secret: Hidden((0..32).collect()) };
    let key = of_issued(&issued).expect("a secret of 32 bytes");
    create(&path, &key).expect("it is written");
    let back = read(&path).expect("it is a key");
    assert_eq!((back.key, back.secret.to_vec()), (0x1234, issued.secret.0.clone()));
    assert_eq!(create(&path, &key).expect_err("it is there").kind, Kind::Exists);
    for text in ["", "forebay-key 1 12 34", "forebay-key 2 12 34", "forebay-key 1 12", &"0".repeat(90)] {
        assert!(parse(text).is_none(), "{text}");
    }
    let long = format!("forebay-key 1 12 {}", "0".repeat(66));
    assert!(parse(&long).is_none());
}
