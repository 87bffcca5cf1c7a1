use super::*;
use forebay_model::Kind;

fn options() -> MakeOptions {
    MakeOptions { names: vec!["localhost".to_string()], days: 9 }
}

#[test]
fn an_authority_of_which_only_the_key_was_made_is_made_with_that_key() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let (own, authority) = (dir.path().join("own"), dir.path().join("authority"));
    assert!(make(&own, &authority, &options()).expect("it is made"));
    let key = file::read(authority.join(AUTHORITY_KEY)).expect("it is there");
    file::remove(authority.join(AUTHORITY)).expect("it is there");
    assert!(make(&own, &authority, &options()).expect("it is made again"));
    assert_eq!(file::read(authority.join(AUTHORITY_KEY)).expect("it is there"), key);
    assert!(!make(&own, &authority, &options()).expect("the authority is there"));
}

#[test]
fn each_failure_says_what_helps_against_it() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let (own, authority) = (dir.path().join("own"), dir.path().join("authority"));
    let strange = MakeOptions { names: vec!["na\u{ef}ve".to_string()], days: 9 };
    let refused = make(&own, &authority, &strange).expect_err("no such name");
    assert!(refused.kind == Kind::Usage && refused.message.contains("node.example"), "{refused:?}");
    file::replace(authority.join(AUTHORITY_KEY), b"nothing").expect("it is written");
    let damaged = make(&own, &authority, &options()).expect_err("no key");
    assert!(damaged.kind == Kind::Damaged && !damaged.message.contains("node.example"), "{damaged:?}");
}
