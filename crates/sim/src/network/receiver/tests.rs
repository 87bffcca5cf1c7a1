use super::*;
use crate::network::segment::{Purpose, SocketId};
use forebay_model::Bytes;

fn receiver() -> Receiver {
    Receiver::new(&NetworkSpec { segment: Bytes(100), receive_buffer: Bytes(1000), ..NetworkSpec::default() })
}

fn segment(sequence: u64, length: u32, purpose: Purpose) -> Segment {
    Segment {
        from_host: 0,
        to_host: 1,
        from: SocketId::NOBODY,
        to: SocketId::NOBODY,
        purpose,
        length,
        sequence,
        ack: 0,
        edge: 0,
        sent: sequence + 1,
        echo: 0,
    }
}

fn take(receiver: &mut Receiver, sequence: u64, length: u32) -> Taken {
    receiver.take(0, &segment(sequence, length, Purpose::Data))
}

#[test]
fn every_second_segment_is_acknowledged_at_once_and_a_single_one_later() {
    let mut receiver = receiver();
    assert_eq!(take(&mut receiver, 0, 100), Taken { bytes: 100, ended: false, tell: false });
    assert_eq!(receiver.due(), 40_000_000);
    assert_eq!(take(&mut receiver, 100, 100), Taken { bytes: 100, ended: false, tell: true });
    // The time of the first of the two is what comes back.
    assert_eq!(receiver.tell(), (200, 1000, 1));
    assert_eq!(receiver.due(), NEVER);
}

#[test]
fn what_comes_after_a_hole_can_be_read_when_the_hole_is_filled() {
    let mut receiver = receiver();
    for (sequence, length) in [(300, 100), (100, 100), (500, 100), (150, 200)] {
        assert_eq!(take(&mut receiver, sequence, length), Taken { tell: true, ..Taken::default() });
    }
    assert_eq!(receiver.islands, [(100, 400), (500, 600)]);
    assert_eq!(take(&mut receiver, 0, 100), Taken { bytes: 400, ended: false, tell: true });
    assert_eq!(take(&mut receiver, 400, 100).bytes, 200);
    assert!(receiver.islands.is_empty());
    assert_eq!(receiver.readable(), 600);
}

#[test]
fn what_was_had_before_is_acknowledged_and_not_taken() {
    let mut receiver = receiver();
    take(&mut receiver, 0, 100);
    assert_eq!(take(&mut receiver, 0, 100), Taken { tell: true, ..Taken::default() });
    assert_eq!(take(&mut receiver, 50, 100).bytes, 50);
}

#[test]
fn what_there_is_no_room_for_is_not_taken() {
    let mut receiver = receiver();
    assert_eq!(take(&mut receiver, 950, 100), Taken { tell: true, ..Taken::default() });
    assert!(receiver.islands.is_empty());
}

#[test]
fn the_end_comes_after_all_that_is_before_it() {
    let mut receiver = receiver();
    receiver.take(0, &segment(100, 100, Purpose::Final));
    assert!(!receiver.is_ended());
    assert_eq!(take(&mut receiver, 0, 100), Taken { bytes: 200, ended: true, tell: true });
    assert_eq!(receiver.tell().0, 201);
    assert!(!receiver.read(200));
}

#[test]
fn new_room_is_told_when_it_is_as_much_again_as_was_left() {
    let mut receiver = receiver();
    for sequence in (0..800).step_by(100) {
        take(&mut receiver, sequence, 100);
    }
    receiver.tell();
    assert!(!receiver.read(100));
    assert!(receiver.read(100));
    assert_eq!(receiver.tell(), (800, 1200, 1));
}
