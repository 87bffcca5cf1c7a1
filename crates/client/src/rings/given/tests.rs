use super::*;

fn last(writer: u64, number: u64, time: i64) -> Last {
    Last { writer, number, time: Timestamp(time) }
}

#[test]
fn what_was_given_is_known_by_sessions_and_numbers_whatever_the_times() {
    let mut given = Given::default();
    assert_eq!((given.of(1, 1), given.last()), (Depth::NOTHING, None));
    given.element(last(1, 4, 100), 6);
    given.gap(1, 4);
    assert_eq!((given.of(1, 3), given.of(1, 4)), (Depth::ALL, Depth { elements: 7, gaps: 1 }));
    assert_eq!((given.of(1, 5), given.of(2, 1)), (Depth::NOTHING, Depth::NOTHING));
    given.element(last(2, 1, 50), 0);
    assert_eq!(given.last(), Some(last(2, 1, 50)));
    assert_eq!((given.of(1, 4), given.of(2, 1)), (Depth { elements: 7, gaps: 1 }, Depth { elements: 1, gaps: 0 }));
    given.gap(2, 2);
    assert_eq!((given.of(2, 1), given.of(2, 2)), (Depth::ALL, Depth { elements: 0, gaps: 1 }));
}

#[test]
fn what_comes_again_does_not_take_back_what_was_given() {
    let mut given = Given::default();
    given.element(last(1, 4, 100), 6);
    given.element(last(1, 3, 90), 20);
    given.gap(1, 3);
    assert_eq!(given.of(1, 4), Depth { elements: 7, gaps: 0 });
}

#[test]
fn sessions_that_came_first_are_forgotten_when_there_are_too_many() {
    let mut given = Given::default();
    (0..=MOST as u64).for_each(|writer| given.element(last(MOST as u64 - writer, 1, 0), 0));
    assert_eq!(given.of(MOST as u64, 1), Depth::NOTHING);
    assert_eq!((given.of(MOST as u64 - 1, 1).elements, given.of(0, 1).elements), (1, 1));
}
