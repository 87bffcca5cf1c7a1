use super::*;
use forebay_model::Bytes;
use std::time::Duration;

const MILLI: u64 = 1_000_000;

fn sender() -> Sender {
    let spec = NetworkSpec {
        segment: Bytes(100),
        shortest_timeout: Duration::from_millis(200),
        patience: Duration::from_secs(30),
        ..NetworkSpec::default()
    };
    let mut sender = Sender::new(&spec);
    sender.open(1_000_000, Some(MILLI));
    sender
}

/// All that goes at once.
fn burst(sender: &mut Sender, now: u64) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| sender.offer(now)).map(|piece| (piece.sequence, piece.length)).collect()
}

/// An acknowledgement of what was sent a millisecond before.
fn ack(sender: &mut Sender, now: u64, ack: u64) -> Acked {
    sender.ack(now, ack, 1_000_000, now - MILLI, true)
}

#[test]
fn ten_segments_go_at_first_and_each_acknowledged_one_brings_two() {
    let mut sender = sender();
    sender.write(100_000);
    assert_eq!(burst(&mut sender, 0).len(), 10);
    assert!(ack(&mut sender, MILLI, 100).advanced);
    assert_eq!(burst(&mut sender, MILLI), [(1000, 100), (1100, 100)]);
}

#[test]
fn three_duplicates_repeat_the_first_piece_and_halve_the_window() {
    let mut sender = sender();
    sender.write(100_000);
    burst(&mut sender, 0);
    let repeats: Vec<bool> = (0..4).map(|_| ack(&mut sender, MILLI, 0).repeat).collect();
    assert_eq!(repeats, [false, false, true, false]);
    assert_eq!(sender.first(MILLI), Piece { sequence: 0, length: 100, last: false });
    // Half of ten, and one for each of four duplicates, less the ten that are under way.
    assert_eq!(burst(&mut sender, MILLI), []);
    assert!(ack(&mut sender, 2 * MILLI, 1000).advanced);
    assert_eq!(burst(&mut sender, 2 * MILLI).len(), 5);
}

#[test]
fn the_next_hole_is_repeated_as_soon_as_it_shows() {
    let mut sender = sender();
    sender.write(100_000);
    burst(&mut sender, 0);
    for _ in 0..3 {
        ack(&mut sender, MILLI, 0);
    }
    assert!(ack(&mut sender, 2 * MILLI, 300).repeat);
    assert_eq!(sender.first(2 * MILLI).sequence, 300);
}

#[test]
fn after_a_timeout_all_is_sent_again_from_one_segment_on() {
    let mut sender = sender();
    sender.write(100_000);
    burst(&mut sender, 0);
    assert_eq!(sender.deadline(), 200 * MILLI);
    assert_eq!(sender.time_out(200 * MILLI), TimedOut::Repeat);
    assert_eq!(burst(&mut sender, 200 * MILLI), [(0, 100)]);
    assert_eq!(sender.deadline(), 600 * MILLI);
    // The other side had all the rest.
    ack(&mut sender, 201 * MILLI, 1000);
    assert_eq!(burst(&mut sender, 201 * MILLI), [(1000, 100), (1100, 100), (1200, 100)]);
}

#[test]
fn a_repeated_piece_does_not_say_that_it_is_the_last_before_that_was_said() {
    let mut sender = sender();
    sender.write(1000);
    burst(&mut sender, 0);
    sender.close();
    sender.ack(MILLI, 900, 1000, 0, true);
    assert_eq!(sender.first(MILLI), Piece { sequence: 900, length: 100, last: false });
    assert_eq!(sender.offer(MILLI), Some(Piece { sequence: 1000, length: 0, last: true }));
    assert!(sender.first(MILLI).last);
    assert!(sender.ack(2 * MILLI, 1001, 1000, MILLI, true).advanced && sender.is_done());
}

#[test]
fn a_window_without_room_is_probed_for_a_while_whether_probes_are_answered_or_not() {
    let mut sender = sender();
    sender.write(2_000_000);
    let mut now = 0;
    while !burst(&mut sender, now).is_empty() {
        now += MILLI;
        let sent = sender.highest;
        ack(&mut sender, now, sent);
    }
    assert_eq!(sender.acked(), 1_000_000);
    for (edge, answered) in [(1_000_000, true), (1_000_100, true), (1_000_200, false)] {
        // Each time that there is room for a piece, patience begins anew.
        sender.ack(now, sender.acked(), edge, now, true);
        for (sequence, length) in burst(&mut sender, now) {
            sender.ack(now, sequence + length, edge, now, true);
        }
        assert_eq!((burst(&mut sender, now), sender.acked()), (Vec::new(), edge));
        let last = now;
        loop {
            now = sender.deadline();
            if sender.time_out(now) != TimedOut::Probe {
                break;
            }
            if answered {
                sender.ack(now + MILLI, edge, edge, now, true);
            }
        }
        assert!(now - last >= 30_000 * MILLI && now - last <= 45_000 * MILLI, "{}", now - last);
    }
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_ignored() {
    let mut sender = sender();
    sender.write(100);
    burst(&mut sender, 0);
    assert_eq!(ack(&mut sender, MILLI, 101), Acked::default());
    assert_eq!(sender.acked(), 0);
}
