use super::{Given, MOST};
use forebay_model::Timestamp;

const fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000_000_000)
}

#[test]
fn of_a_key_those_are_known_that_have_something_which_still_counts() {
    let mut given = Given::default();
    assert!(!given.knows_all(at(0)), "nothing is known before the time is");
    given.begin(at(400));
    given.note(7, 1, at(300), at(0));
    given.note(7, 1, at(200), at(0));
    given.note(7, 2, at(500), at(200));
    given.note(8, 3, at(500), at(200));
    given.begin(at(900));
    assert!(!given.knows_all(at(399)), "another manager may have given something");
    assert!(given.knows_all(at(400)));
    assert_eq!(given.with(7, at(400)), [(2, at(500))]);
    assert_eq!(given.with(9, at(400)), []);
}

#[test]
fn where_too_many_have_something_it_is_not_known_who_has_until_all_of_that_is_over() {
    let mut given = Given::default();
    given.begin(at(0));
    for client in 0..MOST as u64 {
        given.note(7, client, at(300), at(1));
    }
    given.note(7, 5, at(350), at(2));
    assert!(given.knows_all(at(3)));
    assert_eq!(given.with(7, at(3)).len(), MOST, "as many as can be remembered");
    given.note(7, MOST as u64, at(310), at(3));
    assert!(!given.knows_all(at(349)));
    assert!(given.knows_all(at(350)));
    assert_eq!(given.with(7, at(350)), []);
}
