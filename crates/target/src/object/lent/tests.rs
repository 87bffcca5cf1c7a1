use super::{Answer, Held, Lending, WORTH, joined};
use forebay_env::{Buffer, Slab};
use forebay_model::Bytes;
use std::sync::Arc;

const LARGE: Bytes = Bytes::kib(64);

fn buffer(slab: &Slab, byte: u8) -> Buffer {
    let mut buffer = slab.try_take().expect("a buffer is free");
    buffer.fill(byte);
    buffer
}

/// Whether a piece lies where the buffer does.
fn is_within(piece: &[u8], held: &Held) -> bool {
    held.as_ptr_range().contains(&piece.as_ptr())
}

#[test]
fn what_is_read_lies_where_it_was_read_to_and_small_parts_between_are_copied_together() {
    let slab = Slab::new(LARGE, 2).unwrap();
    let lending = Lending::new(Bytes::mib(1));
    let (one, two) = (lending.hold(buffer(&slab, 1)), lending.hold(buffer(&slab, 2)));
    let mut answer = Answer::default();
    lending.give(&one, 100..100 + WORTH, &[], &mut answer);
    lending.give(&one, 7..9, &[], &mut answer);
    answer.zeros(3);
    answer.copy(b"abc");
    lending.give(&two, 0..LARGE.0 as usize, &[5; 16], &mut answer);
    let pieces = answer.into_pieces();
    let lengths: Vec<usize> = pieces.iter().map(|piece| piece.bytes.len()).collect();
    assert_eq!(lengths, [WORTH, 8, LARGE.0 as usize]);
    assert_eq!(pieces[2].crcs, [5; 16]);
    assert!(is_within(&pieces[0].bytes, &one) && is_within(&pieces[2].bytes, &two));
    assert_eq!(joined(pieces), [&vec![1; WORTH + 2][..], b"\0\0\0abc", &vec![2; LARGE.0 as usize]].concat());
}

#[test]
fn no_more_than_the_bound_is_lent_and_what_is_lent_stays_taken_until_the_last_part_of_it_has_gone() {
    let slab = Slab::new(LARGE, 3).unwrap();
    let lending = Lending::new(LARGE + LARGE);
    let held: Vec<Arc<Held>> = (1..=3).map(|n| lending.hold(buffer(&slab, n))).collect();
    let give = |nth: usize, part: std::ops::Range<usize>| {
        let mut answer = Answer::default();
        lending.give(&held[nth], part, &[], &mut answer);
        answer.into_pieces().pop().expect("a piece").bytes
    };
    let first = [give(0, 0..WORTH), give(0, WORTH..3 * WORTH)];
    let second = give(1, 0..WORTH);
    assert_eq!(lending.lent(), 2 * LARGE.0);
    let third = give(2, 0..WORTH);
    assert!(!is_within(&third, &held[2]), "{} are lent", lending.lent());
    assert!(is_within(&give(1, 0..WORTH), &held[1]), "of a buffer that is lent, more costs nothing");

    drop(held);
    assert_eq!(slab.available(), 1, "only what is not lent is free");
    let [one, other] = first;
    forebay_env::real::thread::spawn("elsewhere", move || drop(one)).unwrap().join().expect("it is dropped elsewhere");
    assert_eq!((lending.lent(), slab.available(), other[0]), (2 * LARGE.0, 1, 1));
    drop(other);
    assert_eq!((lending.lent(), slab.available(), second[0]), (LARGE.0, 2, 2));
    drop(second);
    assert_eq!((lending.lent(), slab.available(), third[0]), (0, 3, 3));
}
