use super::*;
use forebay_model::Kind;

#[test]
fn a_directory_remembers_as_which_node_it_serves_and_what_says_so_in_other_words_is_refused() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let dir = dir.path();
    assert!(read(dir).expect("nothing is there").is_none());
    let key = AccessKey { key: 5, secret: [9; 32] };
    let first = Membership { node: 7, cluster: 0xabc, manager: "127.0.0.1:7400".into() };
    first.write(dir, &key).expect("it is written");
    assert_eq!(read(dir).expect("it reads"), Some((first.clone(), key.clone())));
    first.moved(dir, "[::1]:7400").expect("it is written");
    let moved = Membership { manager: "[::1]:7400".into(), ..first };
    assert_eq!(read(dir).expect("it reads"), Some((moved.clone(), key)));
    // It may join anew, with another key.
    let other = AccessKey { key: 6, secret: [8; 32] };
    moved.write(dir, &other).expect("it is written");
    assert_eq!(read(dir).expect("it reads"), Some((moved, other)));
    for text in ["", "forebay-node 1 7\n", "forebay-node 2 7 0 x\n", "forebay-node 1 7 abc x\n"] {
        file::replace(dir.join(MEMBER), text.as_bytes()).expect("it is written");
        assert_eq!(read(dir).expect_err("it says nothing").kind, Kind::Damaged, "{text}");
    }
}
