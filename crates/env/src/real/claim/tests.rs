use super::{Claimed, claim};

#[test]
fn a_name_is_had_once_and_is_free_when_it_is_let_go() {
    let name = format!("forebay-test-{}", std::process::id());
    let Ok(Claimed::Ours(first)) = claim(&name) else { panic!("nobody has it") };
    match claim(&name) {
        Ok(Claimed::Others(process)) => assert_eq!(process, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    assert!(matches!(claim(&(name.clone() + ".other")), Ok(Claimed::Ours(_))));
    drop(first);
    assert!(matches!(claim(&name), Ok(Claimed::Ours(_))));
}
