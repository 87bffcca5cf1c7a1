use super::*;

#[test]
fn a_commit_of_freed_records_that_was_not_answered_may_have_been_made_and_that_is_said() {
    let away = || Err(Error::disconnected("the owner went away"));
    let mut freeing = Freeing { every: 2, ..Freeing::default() };
    assert_eq!(freeing.left("/h"), None);
    freeing.freed = 2;
    assert_eq!(freeing.made(away()).unwrap_err().kind, Kind::Disconnected);
    assert_eq!(freeing.left("/h").unwrap(), "all that were to be freed of /h were, or none");
    freeing.made(Ok(5)).unwrap();
    assert_eq!(freeing.left("/h").unwrap(), "of /h 2 records were freed before");
    freeing.freed = 4;
    freeing.made(Err(Error::busy("there is no room just now"))).unwrap_err();
    assert_eq!(freeing.left("/h").unwrap(), "of /h 2 records were freed before");
    freeing.made(away()).unwrap_err();
    let left = freeing.left("/h").unwrap();
    assert_eq!(left, "of /h 2 records were freed before; all that came after were freed as well, or none");
    assert_eq!((freeing.committed, freeing.commit), (2, Some(5)));
}
