#![allow(clippy::disallowed_methods)]

use super::{Recorder, RecorderOptions};
use crate::fake::{Chance, Fake, Kept, seed};
use forebay_model::ring::{Overflow, RingSpec};
use forebay_model::{Bytes, Cause, Gap, Kind, Timestamp};
use std::sync::Arc;
use std::time::Duration;

fn spec(overflow: Overflow) -> RingSpec {
    RingSpec { block: Bytes::kib(8), overflow, ..RingSpec::new("/a", Bytes::kib(400)) }
}

fn open(fake: &Arc<Fake>) -> Recorder {
    Recorder::open(Arc::new(fake.clone()), "/a", RecorderOptions::default()).expect("recording")
}

fn time(n: i64) -> Timestamp {
    Timestamp(n * 1_000_000)
}

fn element(n: i64, payload: &[u8]) -> Kept {
    Kept::Element { time: time(n), payload: payload.to_vec(), caller: Vec::new() }
}

fn gap(cause: Cause, count: Option<u64>, first: i64, last: i64) -> Kept {
    Kept::Gap(Gap { cause, count, first: time(first), last: time(last) })
}

#[test]
fn elements_of_any_size_arrive_as_they_were_given() {
    let fake = Fake::new(RingSpec { keys: vec!["tag=caller.u16".into()], ..spec(Overflow::Block) }, 4);
    let mut recorder = open(&fake);
    let mut chance = Chance(seed("RECORDER_SEED"));
    let mut want = Vec::new();
    for n in 0..600 {
        let length = match chance.below(4) {
            0 => chance.below(3),
            1 | 2 => chance.below(900),
            _ => chance.below(30_000),
        };
        let payload: Vec<u8> = (0..length).map(|_| chance.next() as u8).collect();
        let caller = (n as u16).to_be_bytes();
        let split = chance.below(length + 1) as usize;
        if chance.below(5) == 0 {
            recorder.begin(time(n), &caller).expect("room");
            for part in payload.chunks(1 + chance.below(5000) as usize) {
                recorder.part(part).expect("room");
                if chance.below(10) == 0 {
                    fake.pass(Duration::from_millis(100));
                    recorder.tick().expect("going on");
                }
            }
            recorder.end().expect("room");
        } else {
            recorder.element(time(n), &[&payload[..split], &payload[split..]], &caller).expect("room");
        }
        want.push(Kept::Element { time: time(n), payload, caller: caller.to_vec() });
    }
    let progress = recorder.close().expect("durable");
    assert_eq!(progress.elements, 600);
    assert!(fake.kept() == want);
}

#[test]
fn what_finds_no_room_is_counted_where_it_is_missing() {
    let fake = Fake::new(spec(Overflow::DropNewest), 2);
    fake.state().slow = true;
    let mut recorder = open(&fake);
    let mut accepted = 0;
    for n in 0..40 {
        recorder.element(time(n), &[&[n as u8; 1000]], &[]).expect("no error");
        accepted = recorder.progress().elements as i64;
    }
    assert_eq!(accepted, 14, "two blocks of seven");
    assert_eq!(recorder.progress().losses.total(), 26);
    fake.hurry();
    recorder.element(time(40), &[b"after"], &[]).expect("room");
    recorder.close().expect("durable");
    let mut want: Vec<Kept> = (0..14).map(|n| element(n, &[n as u8; 1000])).collect();
    want.extend([gap(Cause::Overflow, Some(26), 14, 39), element(40, b"after")]);
    assert_eq!(fake.kept(), want);
}

#[test]
fn a_gap_is_stored_even_if_nothing_follows_it() {
    let fake = Fake::new(spec(Overflow::DropNewest), 1);
    fake.state().slow = true;
    let mut recorder = open(&fake);
    recorder.element(time(0), &[&[0; 8000 - 300]], &[]).expect("room");
    recorder.element(time(1), &[&[1; 8000 - 300]], &[]).expect("no error");
    recorder.gap(Gap { cause: Cause::Kernel, count: Some(3), first: time(2), last: time(4) }).expect("no error");
    fake.hurry();
    recorder.close().expect("durable");
    let kept = fake.kept();
    assert_eq!(kept[1..], [gap(Cause::Overflow, Some(1), 1, 1), gap(Cause::Kernel, Some(3), 2, 4)]);
}

#[test]
fn who_would_rather_wait_waits_for_room_and_can_be_called_off() {
    let fake = Fake::new(spec(Overflow::Block), 2);
    fake.state().slow = true;
    let mut recorder = open(&fake);
    let stopper = recorder.stopper();
    let recording = std::thread::spawn(move || {
        let refused = (0..).map(|n| (n, recorder.element(time(n), &[&[n as u8; 1000]], &[]))).find(|(_, r)| r.is_err());
        (refused, recorder)
    });
    while fake.state().opened == 0 || recording.is_finished() {
        std::thread::yield_now();
    }
    stopper.stop();
    let (refused, recorder) = recording.join().expect("no panic");
    let (n, result) = refused.expect("one is refused");
    assert_eq!((n, result.expect_err("refused").kind), (14, Kind::Busy));
    fake.hurry();
    assert_eq!(recorder.close().expect("durable").elements, 14);
    assert_eq!(fake.kept().len(), 14);
}

#[test]
fn what_is_missing_since_a_wait_was_called_off_is_told_as_soon_as_there_is_room() {
    let fake = Fake::new(spec(Overflow::Block), 2);
    fake.state().slow = true;
    let mut recorder = open(&fake);
    recorder.stopper().stop();
    let refused = (0..).find(|n| recorder.element(time(*n), &[&[*n as u8; 1000]], &[]).is_err());
    assert_eq!(refused, Some(14));
    recorder.gap(Gap { cause: Cause::Restart, count: None, first: time(14), last: time(14) }).expect("noted");
    fake.state().catches_up = true;
    recorder.close().expect("durable");
    let kept = fake.kept();
    assert_eq!((kept.len(), kept.last()), (15, Some(&gap(Cause::Restart, None, 14, 14))));
}

#[test]
fn a_clock_that_is_set_back_is_told_once() {
    let fake = Fake::new(spec(Overflow::Block), 4);
    let mut recorder = open(&fake);
    for n in [5000, 4500, 1000, 1001, 4000] {
        recorder.element(time(n), &[b"x"], &[]).expect("room");
    }
    recorder.close().expect("durable");
    let back = gap(Cause::ClockBack, Some(0), 1000, 5000);
    let x = |n| element(n, b"x");
    assert_eq!(fake.kept(), [x(5000), x(4500), back, x(1000), x(1001), x(4000)]);
}

#[test]
fn a_session_says_what_was_missed_since_the_last_one() {
    let fake = Fake::new(spec(Overflow::Block), 4);
    fake.state().newest = Some(time(100));
    let mut recorder = open(&fake);
    recorder.element(time(300), &[b"x"], &[]).expect("room");
    recorder.element(time(301), &[b"y"], &[]).expect("room");
    recorder.close().expect("durable");
    assert_eq!(fake.kept(), [gap(Cause::Restart, None, 100, 300), element(300, b"x"), element(301, b"y")]);
}

#[test]
fn a_device_that_dies_is_told_with_what_is_there_and_what_is_not_and_the_next_session_tells_of_it() {
    let fake = Fake::new(spec(Overflow::Block), 6);
    let mut recorder = open(&fake);
    let mut recorded = 0;
    let mut record = |recorder: &mut Recorder, up_to| {
        for n in recorded..up_to {
            recorder.element(time(n), &[&[n as u8; 1000]], &[]).expect("room");
        }
        recorded = up_to;
    };
    // Seven fill a block: two of them are there, two are not, two elements more are in none yet.
    record(&mut recorder, 15);
    fake.state().slow = true;
    record(&mut recorder, 30);
    let progress = recorder.progress();
    assert_eq!((progress.elements, progress.durable_elements, progress.durable_blocks), (30, 14, 2));
    fake.state().dead = true;
    let error = recorder.tick().expect_err("dead");
    assert_eq!(error.kind, Kind::Device);
    assert!(error.message.contains("last 16 of 30 elements") && error.message.contains("/a"), "{error}");
    // Also where the block at hand has room: an element that can never be stored is not accepted.
    for again in [
        recorder.element(time(30), &[b"x"], &[]),
        recorder.begin(time(30), &[]),
        recorder.tick(),
        recorder.flush().map(drop),
    ] {
        assert_eq!(again.expect_err("dead"), error);
    }
    let progress = recorder.progress();
    assert_eq!((progress.elements, progress.durable_elements, progress.durable_blocks), (30, 14, 2));
    assert_eq!(recorder.close().expect_err("dead"), error);
    let kept = fake.kept();
    assert!(kept == (0..14).map(|n| element(n, &[n as u8; 1000])).collect::<Vec<_>>());

    // The same ring, on a device that works: its last element is the last that was durable.
    let fake = Fake::new(spec(Overflow::Block), 4);
    fake.state().newest = Some(time(13));
    let mut recorder = open(&fake);
    recorder.element(time(50), &[b"x"], &[]).expect("room");
    recorder.close().expect("durable");
    assert_eq!(fake.kept(), [gap(Cause::Restart, None, 13, 50), element(50, b"x")]);
}

#[test]
fn an_element_too_large_for_the_ring_is_refused_with_numbers_and_told() {
    let fake = Fake::new(spec(Overflow::Block), 4);
    let mut recorder = open(&fake);
    let large = vec![9; 100 * 1024 + 1];
    let error = recorder.element(time(1), &[&large], &[]).expect_err("too large");
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.message.contains("100 KiB") && error.message.contains("400 KiB"), "{error}");
    recorder.element(time(2), &[&large[1..]], &[]).expect("as large as can be");
    recorder.begin(time(3), &[]).expect("room");
    recorder.part(&large[..100_000]).expect("room");
    assert_eq!(recorder.part(&large[..5000]).expect_err("too large").kind, Kind::Usage);
    recorder.element(time(4), &[b"x"], &[]).expect("room");
    let losses = recorder.progress().losses;
    assert_eq!(losses.elements[Cause::Rejected.index()], 2);
    recorder.close().expect("durable");
    let rejected = |n| gap(Cause::Rejected, Some(1), n, n);
    let want = [rejected(1), element(2, &large[1..]), rejected(3), element(4, b"x")];
    assert!(fake.kept() == want);
}

#[test]
fn an_element_that_is_given_up_is_told_as_a_gap_wherever_it_had_come_to() {
    for bytes in [0, 10, 7000, 8000, 20_000, 90_000] {
        let fake = Fake::new(RingSpec { keys: vec!["tag=caller.u16".into()], ..spec(Overflow::Block) }, 4);
        let mut recorder = open(&fake);
        let with = |n, payload: &[u8], caller: u16| Kept::Element {
            time: time(n),
            payload: payload.to_vec(),
            caller: caller.to_be_bytes().to_vec(),
        };
        recorder.element(time(1), &[b"before"], &1u16.to_be_bytes()).expect("room");
        recorder.begin(time(2), &2u16.to_be_bytes()).expect("room");
        vec![7; bytes].chunks(777).for_each(|part| recorder.part(part).expect("room"));
        recorder.abandon(Cause::Rejected).expect("it was begun");
        assert_eq!(recorder.abandon(Cause::Rejected).expect_err("nothing is begun").kind, Kind::Usage);
        recorder.element(time(3), &[b"after"], &3u16.to_be_bytes()).expect("room");
        recorder.begin(time(4), &4u16.to_be_bytes()).expect("room");
        vec![8; bytes].chunks(777).for_each(|part| recorder.part(part).expect("room"));
        let progress = recorder.progress();
        assert_eq!((progress.elements, progress.losses.total()), (2, 1));
        recorder.close().expect("durable");
        let (first, second) = (gap(Cause::Rejected, Some(1), 2, 2), gap(Cause::Restart, Some(1), 4, 4));
        assert_eq!(fake.kept(), [with(1, b"before", 1), first, with(3, b"after", 3), second], "{bytes} bytes");
    }
}

#[test]
fn the_first_piece_of_a_large_element_has_all_of_its_keys() {
    let mut ring = RingSpec { block: Bytes::kib(256), ..RingSpec::new("/a", Bytes::mib(8)) };
    ring.keys = vec!["tag=u32le@200000".into()];
    let fake = Fake::new(RingSpec { overflow: Overflow::Block, ..ring }, 8);
    let mut recorder = open(&fake);
    for n in 0..20 {
        recorder.element(time(n), &[&vec![1; 5000 * n as usize]], &[]).expect("room");
        recorder.element(time(n), &[&[2; 300_000]], &[]).expect("room");
    }
    recorder.close().expect("durable");
    let mut begun = 0;
    for block in &fake.state().blocks {
        for entry in forebay_model::block::View::of_sealed(block).expect("a block").entries() {
            let entry = entry.expect("a directory");
            if entry.first && !entry.last {
                begun += 1;
                assert!(entry.payload.len() >= 200_004, "a first piece of {} bytes", entry.payload.len());
            }
        }
    }
    assert_eq!(begun, 20);
}

#[test]
fn elements_leave_memory_after_half_of_the_flush_interval() {
    let fake = Fake::new(spec(Overflow::Block), 4);
    let mut recorder = open(&fake);
    recorder.element(time(1), &[b"x"], &[]).expect("room");
    fake.pass(Duration::from_millis(499));
    recorder.tick().expect("going on");
    assert_eq!(fake.kept(), []);
    fake.pass(Duration::from_millis(1));
    recorder.tick().expect("going on");
    assert_eq!(fake.kept().len(), 1);

    let fake = Fake::new(RingSpec { flush_interval: Duration::ZERO, ..spec(Overflow::Block) }, 4);
    let mut recorder = open(&fake);
    recorder.element(time(1), &[b"x"], &[]).expect("room");
    recorder.tick().expect("going on");
    assert_eq!(fake.kept().len(), 1);
}

#[test]
fn keys_of_another_width_are_refused() {
    let fake = Fake::new(RingSpec { keys: vec!["tag=caller.u16".into()], ..spec(Overflow::Block) }, 4);
    let mut recorder = open(&fake);
    assert_eq!(recorder.element(time(1), &[b"x"], &[1]).expect_err("one byte").kind, Kind::Usage);
    assert_eq!(recorder.begin(time(1), &[1, 2, 3]).expect_err("three bytes").kind, Kind::Usage);
    recorder.element(time(1), &[b"x"], &[1, 2]).expect("two bytes");
}

#[test]
fn whoever_serves_may_go_away_at_any_block_and_nothing_is_lost_or_doubled() {
    let first = seed("RECORDER_SEED");
    for round in first..first + 200 {
        let mut chance = Chance(round);
        let fake = Fake::new(spec(Overflow::Block), 6);
        fake.state().chance = Chance(round);
        let mut recorder = open(&fake);
        let mut want = Vec::new();
        for n in 0..300 {
            if chance.below(20) == 0 {
                fake.state().breaks_after = Some(chance.below(3));
            }
            let payload = vec![n as u8; chance.below(12_000) as usize];
            recorder.element(time(n), &[&payload], &[]).expect("room");
            if chance.below(10) == 0 {
                fake.pass(Duration::from_secs(1));
                recorder.tick().expect("going on");
            }
            want.push(element(n, &payload));
        }
        fake.state().breaks_after = None;
        recorder.close().expect("durable");
        assert!(fake.kept() == want, "RECORDER_SEED={round}");
    }
}
