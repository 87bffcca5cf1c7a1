use super::*;
use forebay_model::ring::Losses;

/// What a place says that has the elements from `first` to before `next`.
fn a_place(first: u64, next: u64) -> RingStatus {
    let time = (first < next).then_some(Timestamp(1));
    RingStatus {
        spec: RingSpec::new("/ring", Bytes::mib(64)),
        state: RingState::Ready,
        segments: 16,
        pinned_segments: 0,
        first_sequence: first,
        next_sequence: next,
        readable_sequence: next,
        oldest: time,
        newest: time,
        written: Bytes::mib(3),
        elements: next - first,
        missed_deadlines: 0,
        losses: Losses::default(),
        staging_peak: Bytes::mib(1),
        staging: Bytes::mib(2),
        index_memory: Bytes::mib(1),
        memory_limit: Bytes::mib(8),
        recording: false,
        pins: Vec::new(),
        begins: first,
    }
}

#[test]
fn a_part_has_what_it_had_before_it_goes_on_in_its_new_place() {
    let (before, now) = (RingStatus { readable_sequence: 95, ..a_place(10, 100) }, a_place(0, 0));
    let both = joined(before, now);
    let RingStatus { begins, first_sequence, readable_sequence, next_sequence, .. } = both;
    assert_eq!((begins, first_sequence, readable_sequence, next_sequence), (10, 10, 95, 100));
    assert_eq!(both.state, RingState::Ready);
    let both = joined(a_place(10, 100), RingStatus { readable_sequence: 120, ..a_place(100, 130) });
    assert_eq!((both.first_sequence, both.readable_sequence, both.next_sequence), (10, 120, 130));
}

#[test]
fn how_much_a_part_has_is_not_known_while_that_is_looked_for_where_it_lay_and_it_does_not_go_on_yet() {
    let recovering = || RingStatus { state: RingState::Recovering, ..a_place(10, 40) };
    assert_eq!(joined(recovering(), a_place(0, 0)).state, RingState::Recovering);
    assert_eq!(joined(recovering(), a_place(100, 130)).state, RingState::Ready);
}
