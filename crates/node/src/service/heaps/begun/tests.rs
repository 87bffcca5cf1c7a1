use super::{Begun, LARGEST_RECORD, MOST_BEGUN, PATIENCE};
use forebay_model::{Kind, Moment};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const NOW: Moment = Moment(7);

#[test]
fn a_record_in_parts_is_as_large_as_one_may_be_and_all_of_them_take_no_more_than_they_may() {
    let all = Rc::new(Cell::new(0));
    let part = vec![1; LARGEST_RECORD / 2];
    let mut begun = Begun::new(&all);
    begun.add(&part, NOW).expect("a half");
    begun.add(&part, NOW).expect("another");
    assert_eq!(begun.add(&[1], NOW).expect_err("too large").kind, Kind::Usage);
    assert_eq!((begun.bytes.len(), all.get()), (LARGEST_RECORD, LARGEST_RECORD));
    all.set(MOST_BEGUN - 1);
    let mut other = Begun::new(&all);
    assert_eq!(other.add(&[1, 2], NOW).expect_err("too much of all").kind, Kind::Busy);
    other.add(&[1], NOW).expect("the last byte");
    drop(other);
    drop(begun);
    assert_eq!(all.get(), MOST_BEGUN - 1 - LARGEST_RECORD, "what is over takes nothing");
}

#[test]
fn what_came_of_a_record_keeps_its_room_for_a_minute_after_its_last_part_and_is_then_known_to_be_given_up() {
    let all = Rc::new(Cell::new(0));
    let mut begun = Begun::new(&all);
    begun.give_up(NOW + PATIENCE);
    assert!(begun.is_empty() && begun.check().is_ok(), "nothing came");
    begun.add(&[1; 10], NOW).expect("there is room");
    begun.add(&[1; 10], NOW + Duration::from_secs(30)).expect("there is room");
    begun.give_up(NOW + PATIENCE);
    assert_eq!((all.get(), begun.check()), (20, Ok(())));
    begun.give_up(NOW + Duration::from_secs(30) + PATIENCE);
    assert_eq!((all.get(), begun.bytes().len(), begun.is_empty()), (0, 0, false));
    assert_eq!(begun.check().expect_err("it was given up").kind, Kind::Busy);
    drop(begun);
    assert_eq!(all.get(), 0);
}
