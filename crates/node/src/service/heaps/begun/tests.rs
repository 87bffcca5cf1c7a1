use super::{Begun, LARGEST_RECORD, MOST_BEGUN};
use forebay_model::Kind;
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn a_record_in_parts_is_as_large_as_one_may_be_and_all_of_them_take_no_more_than_they_may() {
    let all = Rc::new(Cell::new(0));
    let part = vec![1; LARGEST_RECORD / 2];
    let mut begun = Begun::new(&all);
    begun.add(&part).expect("a half");
    begun.add(&part).expect("another");
    assert_eq!(begun.add(&[1]).expect_err("too large").kind, Kind::Usage);
    assert_eq!((begun.bytes.len(), all.get()), (LARGEST_RECORD, LARGEST_RECORD));
    all.set(MOST_BEGUN - 1);
    let mut other = Begun::new(&all);
    assert_eq!(other.add(&[1, 2]).expect_err("too much of all").kind, Kind::Busy);
    other.add(&[1]).expect("the last byte");
    drop(other);
    drop(begun);
    assert_eq!(all.get(), MOST_BEGUN - 1 - LARGEST_RECORD, "what is over takes nothing");
}
