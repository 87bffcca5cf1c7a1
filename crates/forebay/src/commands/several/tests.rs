use super::*;
use forebay_model::Kind;

#[test]
fn what_fails_on_one_of_several_targets_says_on_how_many_it_was_done_before() {
    let mut asked = Vec::new();
    let mut until = |bad: u32| {
        asked.clear();
        each_target(vec![1, 2, 3], |target| {
            asked.push(target);
            if target == bad { Err(Error::busy("the third is away")) } else { Ok(target * 10) }
        })
    };
    assert_eq!(until(0), Ok(vec![10, 20, 30]));
    assert_eq!(until(1), Err(Error::busy("the third is away")));
    let error = until(3).unwrap_err();
    assert_eq!(error, Error::busy("the third is away; it was done on 2 of 3 targets before"));
    assert_eq!(until(2).unwrap_err().kind, Kind::Busy);
    assert_eq!(asked, [1, 2], "nothing is tried after that");
}

#[test]
fn what_ends_a_removal_says_how_much_was_removed_before() {
    let error = || Error::forbidden("it may not be removed");
    assert_eq!(removed_before(error(), 0, "file"), error());
    assert_eq!(removed_before(error(), 1, "file").message, "it may not be removed; 1 file had been removed before");
    assert_eq!(removed_before(error(), 2, "file").message, "it may not be removed; 2 files had been removed before");
}
