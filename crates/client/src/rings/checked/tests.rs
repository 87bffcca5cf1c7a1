use super::*;
use crate::rings::parts;
use forebay_model::ring::{Losses, RingSpec, Spread};
use forebay_model::{Kind, Timestamp};
use forebay_wire::command::Durable;
use std::collections::BTreeSet;

const TARGET: TargetId = TargetId(0x77);

/// What makes a status absurd.
type Change = fn(&mut RingStatus);

fn a_status() -> RingStatus {
    RingStatus {
        spec: RingSpec::new("/ring", Bytes::mib(64)),
        state: RingState::Ready,
        segments: 16,
        pinned_segments: 1,
        first_sequence: 10,
        next_sequence: 110,
        readable_sequence: 100,
        oldest: Some(Timestamp(1)),
        newest: Some(Timestamp(2)),
        written: Bytes::mib(3),
        elements: 100,
        missed_deadlines: 0,
        losses: Losses::default(),
        staging_peak: Bytes::mib(1),
        staging: Bytes::mib(2),
        index_memory: Bytes::mib(1),
        memory_limit: Bytes::mib(8),
        recording: false,
        pins: vec![a_pin()],
        begins: 0,
    }
}

fn a_pin() -> Pin {
    Pin {
        id: 4,
        label: "mine".into(),
        from: Timestamp(1),
        to: Timestamp(2),
        first_sequence: 20,
        end_sequence: 30,
        segments: 1,
        bytes: Bytes::mib(1),
        relatives: Vec::new(),
    }
}

fn an_opening() -> WriterOpened {
    let spec = RingSpec::new("/ring", Bytes::mib(64));
    WriterOpened { spec, newest: None, received: 0, durable: Durable::default(), buffers: 64 }
}

fn assert_names_it<T: std::fmt::Debug>(answer: Result<T>, what: &str) {
    let error = answer.expect_err(what);
    assert!(error.kind == Kind::Damaged && error.message.contains(&TARGET.to_string()), "{what}: {error:?}");
}

#[test]
fn absurd_numbers_in_a_status_are_an_error_that_names_the_target() {
    let spread = Spread { targets: 3, parity: false };
    let sane = status(TARGET, a_status()).expect("it is sane");
    let parts: Vec<Option<RingStatus>> = (0..3).map(|_| Some(sane.clone())).collect();
    let whole = parts::status("/ring", spread, &parts, &BTreeSet::new()).expect("they add up");
    assert_eq!((whole.next_sequence, whole.readable_sequence, whole.elements), (300, 270, 300));
    let changes: [(&str, Change); 17] = [
        ("capacity", |s| s.spec.capacity = Bytes(u64::MAX)),
        ("guarantee", |s| s.spec.guarantee.0 = u64::MAX),
        ("block", |s| s.spec.block = Bytes(7)),
        ("segments", |s| s.segments = u64::MAX),
        ("pinned segments", |s| s.pinned_segments = u64::MAX),
        ("next", |s| s.next_sequence = u64::MAX),
        ("order", |s| s.first_sequence = s.next_sequence + 1),
        ("readable", |s| s.readable_sequence = u64::MAX),
        ("written", |s| s.written = Bytes(u64::MAX)),
        ("elements", |s| s.elements = u64::MAX),
        ("missed", |s| s.missed_deadlines = u64::MAX),
        ("memory", |s| s.memory_limit = Bytes(u64::MAX)),
        ("staging", |s| s.staging = Bytes(u64::MAX)),
        ("lost elements", |s| s.losses.elements[3] = u64::MAX),
        ("gaps", |s| s.losses.gaps[0] = u64::MAX),
        ("a pin that ends first", |s| s.pins[0].end_sequence = 19),
        ("a pin of everything", |s| s.pins[0].bytes = Bytes(u64::MAX)),
    ];
    for (what, change) in changes {
        let mut absurd = a_status();
        change(&mut absurd);
        assert_names_it(status(TARGET, absurd), what);
    }
}

#[test]
fn the_largest_numbers_that_are_believed_of_each_part_add_up_without_an_overflow() {
    let mut largest = a_status();
    let most = MOST - 1;
    (largest.first_sequence, largest.next_sequence, largest.readable_sequence) = (0, most, most);
    (largest.segments, largest.elements, largest.written) = (most, most, Bytes(most));
    (largest.losses.elements, largest.losses.gaps) = ([most; _], [most; _]);
    (largest.pins[0].first_sequence, largest.pins[0].end_sequence, largest.pins[0].bytes) = (0, most, Bytes(most));
    (largest.spec.capacity, largest.spec.guarantee.0) = (Bytes(most), most);
    let spread = Spread { targets: Spread::MOST_TARGETS, parity: true };
    let sane = status(TARGET, largest).expect("it is believed");
    let parts: Vec<Option<RingStatus>> = (0..spread.components()).map(|_| Some(sane.clone())).collect();
    let whole = parts::status("/ring", spread, &parts, &BTreeSet::new()).expect("they add up");
    assert_eq!(whole.next_sequence, u64::from(Spread::MOST_TARGETS) * most);
    assert_eq!(whole.pins[0].end_sequence, u64::from(Spread::MOST_TARGETS) * most);
}

#[test]
fn a_part_that_is_being_opened_may_not_know_yet_what_it_has() {
    let opening = RingStatus { state: RingState::Recovering, first_sequence: 50, next_sequence: 20, ..a_status() };
    let sane = status(TARGET, opening).expect("it is sane");
    let spread = Spread { targets: 1, parity: false };
    let whole = parts::status("/ring", spread, &[Some(sane)], &BTreeSet::new()).expect("it adds up");
    assert_eq!(whole.next_sequence, 0);
}

#[test]
fn absurd_pins_capacities_and_sessions_are_errors_that_name_the_target() {
    assert_eq!(pins(TARGET, vec![a_pin()]).expect("it is sane"), [a_pin()]);
    assert_names_it(pins(TARGET, vec![a_pin(), Pin { first_sequence: 31, ..a_pin() }]), "a pin");
    let made = |pin| Pinned { pin, expired_until: None, open_end: false };
    assert!(pinned(TARGET, made(a_pin())).is_ok());
    assert_names_it(pinned(TARGET, made(Pin { segments: u64::MAX, ..a_pin() })), "a pin that was made");
    assert_eq!(capacity(TARGET, Bytes::gib(4)).expect("it is sane"), Bytes::gib(4));
    assert_names_it(capacity(TARGET, Bytes(u64::MAX)), "a capacity");
    assert!(opened(TARGET, an_opening()).is_ok());
    assert_names_it(opened(TARGET, WriterOpened { buffers: u32::MAX, ..an_opening() }), "buffers");
    let mut spec = an_opening().spec;
    spec.block = Bytes(u64::MAX);
    assert_names_it(opened(TARGET, WriterOpened { spec, ..an_opening() }), "a block");
}
