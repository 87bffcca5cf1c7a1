use super::{Run, runs, write_all};
use crate::fake::Fake;
use forebay_model::{Bytes, Error, Kind};
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn what_is_near_is_one_run_whatever_order_it_came_in_and_what_overlaps_always_is() {
    let pieces = vec![(30..31, 'd'), (10..12, 'a'), (13..15, 'c'), (11..13, 'b'), (33..40, 'e')];
    let run = |at, pieces: &str| Run { at, pieces: pieces.chars().collect() };
    assert_eq!(
        runs(pieces.clone(), |_, _, _| false),
        [run(10..13, "ab"), run(13..15, "c"), run(30..31, "d"), run(33..40, "e")]
    );
    let near = |run: &Run<char>, next: &std::ops::Range<u64>, _: &char| next.start - run.at.end <= 2;
    assert_eq!(runs(pieces.clone(), near), [run(10..15, "abc"), run(30..40, "de")]);
    let short = |run: &Run<char>, _: &std::ops::Range<u64>, piece: &char| run.pieces.len() < 2 && *piece != 'e';
    assert_eq!(runs(pieces, short), [run(10..13, "ab"), run(13..31, "cd"), run(33..40, "e")]);
}

#[test]
fn after_a_write_that_failed_none_is_begun_and_those_under_way_are_waited_for() {
    let fake = Fake::new(Bytes::mib(16), false);
    let spawner = fake.env().spawner;
    let seen = Rc::new(RefCell::new(Vec::new()));
    let write = |n: usize| {
        let seen = seen.clone();
        async move {
            seen.borrow_mut().push(n);
            if n % 4 == 1 { Err(Error::damaged(format!("write {n}"))) } else { Ok(()) }
        }
    };
    assert_eq!(fake.run(write_all(&spawner, 3, [0, 2, 3, 4, 6].into_iter().map(write))), Ok(()));
    assert_eq!(*seen.borrow(), [0, 2, 3, 4, 6]);
    seen.borrow_mut().clear();
    let error = fake.run(write_all(&spawner, 3, (0..9).map(write))).unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (Kind::Damaged, "write 1"));
    assert_eq!(*seen.borrow(), [0, 1, 2, 3], "the fifth would have been begun when the second had ended");
}
