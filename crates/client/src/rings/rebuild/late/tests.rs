use super::*;
use forebay_model::{Cause, Timestamp};

fn row(component: u32, number: u64, time: i64) -> Row {
    let times = (time, time + 5);
    Row { component, absent: true, writer: 7, number, length: 64, crc: 0, elements: 3, times }
}

fn table() -> Rc<Table> {
    Rc::new(Table { writer: 7, number: 1, rows: Vec::new() })
}

fn gap(time: i64) -> Gap {
    Gap { cause: Cause::TargetAway, count: None, first: Timestamp(time), last: Timestamp(time + 5) }
}

/// The component and number of what is given, and of a gap its time.
fn given(late: &mut Late, all: bool) -> Vec<(u32, u64)> {
    let name = |told| match told {
        Told::Block(_, row) => (row.component, row.number),
        Told::Gap(gap) => (u32::MAX, gap.first.0 as u64),
    };
    std::iter::from_fn(|| late.next(all)).map(name).collect()
}

#[test]
fn what_is_told_late_is_given_in_the_order_of_time_and_what_one_part_has_in_its_order() {
    let mut late = Late::of(3);
    // One is given up at once, and another one ten seconds later. Of the third a clock was set back.
    late.block(&table(), row(0, 4, 10), 1);
    late.block(&table(), row(2, 8, 90), 2);
    late.block(&table(), row(2, 9, 5), 3);
    late.block(&table(), row(0, 5, 40), 4);
    late.gap(gap(60), 5);
    late.block(&table(), row(1, 3, 70), 6);
    late.block(&table(), row(1, 1, 20), 7);
    late.block(&table(), row(1, 2, 50), 8);
    // What begins with a gap of long before is as late as its elements.
    late.block(&table(), Row { times: (2, 100), ..row(0, 6, 0) }, 9);
    assert!(given(&mut late, false).is_empty() && late.first() == Some(1));
    let names = [(0, 4), (1, 1), (0, 5), (1, 2), (u32::MAX, 60), (1, 3), (2, 8), (2, 9), (0, 6)];
    assert_eq!(given(&mut late, true), names);
    assert_eq!(late.first(), None);
}

#[test]
fn what_nothing_earlier_can_be_told_of_is_given_and_no_more_is_kept_than_may_be() {
    let (mut late, minute) = (Late::of(1), LATE.as_nanos() as i64);
    late.block(&table(), row(0, 1, 0), 1);
    late.block(&table(), row(0, 2, 10), 1);
    late.block(&table(), row(0, 3, minute + 1), 2);
    assert_eq!((given(&mut late, false), late.first()), (vec![(0, 1)], Some(1)));
    for number in 4..MOST as u64 + 4 {
        late.block(&table(), row(0, number, minute), number);
    }
    assert_eq!((given(&mut late, false), late.first()), (vec![(0, 2), (0, 3)], Some(4)));
}
