use crate::fake::{Fake, Writer, sequences, small};
use crate::{Arrival, Ring, Target};
use forebay_env::Buffer;
use forebay_model::block::Packer;
use forebay_model::ring::{RingSpec, Spread};
use forebay_model::{Bytes, Kind, Timestamp};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// A pin that is open ends so much later.
const AHEAD: Duration = Duration::from_millis(1500);

fn device() -> (Fake, Rc<Target>) {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    (fake, target)
}

/// Records elements of 1000 bytes, a millisecond apart by the target's clock, with the times that another one has then, until they are
/// durable; these times.
fn record(fake: &Fake, ring: &Rc<Ring>, count: u64, clock_of: impl Fn(Timestamp) -> Timestamp) -> Vec<Timestamp> {
    let (writer, clock, element) = (1 + fake.below(1 << 40), fake.env().clock, [7u8; 1000]);
    let mut packer: Packer<Buffer> = Packer::new(writer);
    let (mut blocks, mut times) = (0u64, Vec::new());
    let send = |packer: &mut Packer<Buffer>| {
        let sealed = packer.seal();
        sealed.map_or(0u64, |mut sealed| {
            sealed.buffer.set_len(sealed.length);
            ring.accept(Arrival { buffer: sealed.buffer, accepted: clock.now() }).unwrap();
            1
        })
    };
    ring.attach(writer).unwrap();
    fake.run(async {
        for _ in 0..count {
            let mut time = clock_of(clock.wall());
            if !packer.push(time, &[&element], &[]) {
                blocks += send(&mut packer);
                packer.give(ring.staging().take().await);
                time = clock_of(clock.wall());
                assert!(packer.push(time, &[&element], &[]));
            }
            times.push(time);
            clock.sleep(Duration::from_millis(1)).await;
        }
        blocks += send(&mut packer);
        ring.durable(writer, blocks).await.unwrap();
    });
    ring.detach(writer);
    times
}

/// All elements of the range are there, which have these times in their order, and the ring has run over others.
fn assert_held(fake: &Fake, ring: &Rc<Ring>, times: &[Timestamp], (from, to): (Timestamp, Timestamp)) {
    let kept: BTreeSet<u64> = sequences(&fake.ask(ring, "all").0).into_iter().collect();
    assert!(kept.len() < times.len(), "the ring has come round");
    let wanted = (0u64..).zip(times).filter(|(_, time)| (from..=to).contains(*time));
    let lost: Vec<u64> = wanted.map(|(sequence, _)| sequence).filter(|sequence| !kept.contains(sequence)).collect();
    assert!(lost.is_empty(), "{} of the range are gone, from {:?} on", lost.len(), lost.first());
}

#[test]
fn an_open_pin_holds_what_comes_after_a_clock_was_set_back() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(8))).unwrap();
    let mut times = record(&fake, &ring, 100, |now| now);
    // Longer than a segment, so that the one that is written has none of the range.
    times.extend(record(&fake, &ring, 300, |now| now.after(HOUR)));
    let to = fake.now().after(AHEAD);
    let pinned = fake.run(target.pin("/a", "p", Timestamp(0), to)).unwrap();
    assert!(pinned.open_end);
    times.extend(record(&fake, &ring, 12_000, |now| now));
    assert_held(&fake, &ring, &times, (Timestamp(0), to));
}

#[test]
fn an_open_pin_holds_what_comes_of_a_recorder_whose_clock_is_behind() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(8))).unwrap();
    let behind = |now: Timestamp| now.before(HOUR);
    let mut times = record(&fake, &ring, 100, behind);
    let to = behind(fake.now()).after(AHEAD);
    let pinned = fake.run(target.pin("/a", "p", Timestamp::MIN, to)).unwrap();
    assert!(pinned.open_end, "more of it may come");
    times.extend(record(&fake, &ring, 12_000, behind));
    assert_held(&fake, &ring, &times, (Timestamp::MIN, to));
}

#[test]
fn an_open_pin_ends_when_both_clocks_are_beyond_its_end() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(8))).unwrap();
    record(&fake, &ring, 100, |now| now);
    let to = fake.now().after(AHEAD);
    fake.run(target.pin("/a", "p", Timestamp(0), to)).unwrap();
    record(&fake, &ring, 4000, |now| now);
    let held = ring.status().pinned_segments;
    assert!(!ring.core.with_ring(ring.id, |record| record.pins[0].open_end));
    record(&fake, &ring, 1000, |now| now);
    assert_eq!(ring.status().pinned_segments, held, "what comes later is not held");
}

#[test]
fn a_pin_of_what_is_still_to_come_is_kept_across_a_crash_and_holds_it_as_it_comes() {
    for before in [0, 100] {
        let (fake, target) = device();
        let ring = fake.create(&target, small("/a", Bytes::mib(8))).unwrap();
        let mut times = if before > 0 { record(&fake, &ring, before, |now| now) } else { Vec::new() };
        fake.wait(Duration::from_millis(10));
        let (from, to) = (fake.now(), fake.now().after(AHEAD));
        let pinned = fake.run(target.pin("/a", "p", from, to)).expect("it is held as it comes");
        assert!(pinned.open_end);
        assert_eq!((pinned.pin.bytes, pinned.pin.end_sequence), (Bytes::ZERO, 0), "there is nothing of it yet");
        drop((ring, target));
        fake.kill();
        let target = fake.run(Target::open(fake.env())).unwrap();
        let ring = target.ring("/a").unwrap();
        fake.run(ring.ready()).unwrap();
        assert_eq!(ring.status().pins, [pinned.pin]);
        times.extend(record(&fake, &ring, 12_000, |now| now));
        assert_held(&fake, &ring, &times, (from, to));
    }
}

#[test]
fn a_pin_of_what_is_past_and_was_never_there_is_none_but_on_one_of_several_targets() {
    let (fake, target) = device();
    let alone = fake.create(&target, small("/alone", Bytes::mib(4))).unwrap();
    let spread = Spread { targets: 3, parity: false };
    let part = fake.create(&target, RingSpec { spread, ..small("/part", Bytes::mib(4)) }).unwrap();
    for ring in [&alone, &part] {
        record(&fake, ring, 10, |now| now);
    }
    fake.wait(Duration::from_secs(1));
    let (from, to) = (fake.now().before(Duration::from_millis(500)), fake.now());
    let refused = fake.run(target.pin("/alone", "p", from, to)).expect_err("there is nothing of it");
    assert_eq!(refused.kind, Kind::Missing, "{refused}");
    // Others may have what was recorded with what is on its way here.
    let pinned = fake.run(target.pin("/part", "p", from, to)).unwrap();
    assert_eq!((pinned.open_end, pinned.pin.bytes), (true, Bytes::ZERO));
}

#[test]
fn a_pin_says_what_had_expired_also_after_the_ring_was_made_larger() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(2))).unwrap();
    let mut writer = Writer::new(&fake, &ring);
    fake.run(async {
        for _ in 0..3000 {
            writer.element(&[3; 1000]).await.unwrap();
            fake.env().clock.sleep(Duration::from_millis(1)).await;
        }
        writer.durable().await.unwrap();
    });
    let oldest = ring.status().oldest;
    assert!(ring.status().first_sequence > 0, "it has run over what came first");
    fake.run(target.resize_ring("/a", Bytes::mib(8))).unwrap();
    let pinned = fake.run(target.pin("/a", "p", Timestamp(0), fake.now())).unwrap();
    assert_eq!(pinned.expired_until, oldest);
}
