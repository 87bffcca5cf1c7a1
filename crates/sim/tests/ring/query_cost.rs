//! What a query for a rare value reads beyond what it returns, in segments of their true size: counted at the device.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_env::Device;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Cause, Gap, Profile, Timestamp};
use forebay_sim::World;
use forebay_sim::disk::{SimDisk, presets};
use forebay_sim::feeder::Feeder;
use forebay_sim::reader::{Event, read};
use forebay_target::{Ring, Target};
use std::rc::Rc;

const NAME: &str = "/cost";
/// Keys of all streams: distinct in every element; 1 once in a segment and 0 else; one of 1000 values in no order; 0
/// in all; the same in 10 000 elements on end.
const KEYS: [&str; 5] = ["id=u64le@0", "once=u16le@8", "some=u16le@10", "zero=u16le@12", "slow=u32le@14"];
/// Of the disk.
const SEGMENT: u64 = 90 << 20;
/// Two per cent of what lies in the asked range.
const PROMISED: f64 = 0.02;

/// Odd multiples spread over 64 bits: no value comes twice.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// How many elements of `size` bytes a segment has, about.
fn per_segment(size: usize) -> u64 {
    SEGMENT / size as u64
}

/// The element number `number`; its time is its number in microseconds.
fn element(number: u64, out: &mut [u8]) {
    let once = number % per_segment(out.len()) == per_segment(out.len()) / 3;
    out[..8].copy_from_slice(&spread(number).to_le_bytes());
    out[8..10].copy_from_slice(&u16::from(once).to_le_bytes());
    out[10..12].copy_from_slice(&((spread(number) >> 20) as u16 % 1000).to_le_bytes());
    out[14..18].copy_from_slice(&((number / 10_000) as u32).to_le_bytes());
}

struct Recorded {
    world: World,
    disk: SimDisk,
    ring: Rc<Ring>,
    _target: Rc<Target>,
    size: usize,
    /// Elements in the range that is asked about, from the first on.
    asked: u64,
}

/// Records elements of `size` bytes until `segments` segments are sealed.
fn record(size: usize, keys: &[&str], index_percent: u8, segments: u64) -> Recorded {
    let world = World::new(3);
    let disk = world.disk(presets::wd15ears().scaled(180));
    let (target, ring) = world.run(async {
        let env = world.env(disk.clone());
        Target::format(env.clone(), Profile::guess(disk.geometry().size, true)).await.unwrap();
        let target = Target::open(env.clone()).await.unwrap();
        let mut spec = RingSpec::new(NAME, target.layout().group * (segments + 3));
        spec.keys = keys.iter().map(|k| (*k).to_owned()).collect();
        spec.index_percent = index_percent;
        let ring = target.create_ring(spec).await.unwrap();
        ring.ready().await.unwrap();
        assert_eq!(ring.status().spec.segment, Bytes(SEGMENT), "segments are as on a large disk");
        let mut feeder = Feeder::new(ring.clone(), env.clock.clone(), 1).unwrap();
        let mut bytes = vec![0u8; size];
        let mut number = 0;
        // All in whole segments is on the device, with its index.
        while ring.status().written.0 < segments * SEGMENT + (8 << 20) {
            for _ in 0..((1 << 18) / size).max(1) {
                element(number, &mut bytes);
                // What a busy interface drops: gaps all along.
                if number % (per_segment(size) / 200).max(1) == 0 {
                    let now = Timestamp(number as i64 * 1000);
                    feeder.gap(&Gap { cause: Cause::Kernel, count: Some(1), first: now, last: now }).await.unwrap();
                }
                feeder.element(Timestamp(number as i64 * 1000), &[&bytes]).await.unwrap();
                number += 1;
            }
        }
        feeder.durable().await.unwrap();
        (target, ring)
    });
    if segments == 0 {
        return Recorded { world, disk, ring, _target: target, size, asked: 0 };
    }
    // Opened anew, it has no tables in memory.
    drop((target, ring));
    world.kill();
    let (target, ring) = world.run(async {
        let target = Target::open(world.env(disk.clone())).await.unwrap();
        let ring = target.ring(NAME).unwrap();
        ring.ready().await.unwrap();
        (target, ring)
    });
    // A little less than the sealed segments have.
    let asked = segments * (SEGMENT / 100 * 90) / size as u64;
    Recorded { world, disk, ring, _target: target, size, asked }
}

impl Recorded {
    /// Asks about the range; the elements found, and the bytes read from the device beyond what was returned, as a share
    /// of the bytes in the range.
    fn ask(&self, text: &str) -> (u64, f64) {
        let range = format!("({text}) and time < {}", Timestamp(self.asked as i64 * 1000));
        let before = self.disk.counters().bytes_read;
        let (events, summary) = self
            .world
            .run(async { read(self.ring.clone(), &range, &self.world.clock(), &self.world.spawner()).await.unwrap() });
        let read = (self.disk.counters().bytes_read - before).0;
        let found = events.iter().filter(|e| matches!(e, Event::Element { .. })).count() as u64;
        let gaps = events.iter().filter(|e| matches!(e, Event::Gap(_))).count() as u64;
        assert_eq!(gaps, self.asked.div_ceil((per_segment(self.size) / 200).max(1)), "{} B: {text}: gaps", self.size);
        let share = read.saturating_sub(summary.bytes.0) as f64 / (self.asked * self.size as u64) as f64;
        println!("{} B: {text}: {found} elements, {:.3} % beyond", self.size, 100.0 * share);
        (found, share)
    }

    /// Asks, and holds the answer to what was promised.
    fn promised(&self, text: &str, elements: u64) {
        let (found, share) = self.ask(text);
        assert_eq!(found, elements, "{} B: {text}", self.size);
        assert!(share <= PROMISED, "{} B: {text} read {:.2} % beyond what it returned", self.size, 100.0 * share);
    }
}

/// A value in the middle of the range.
fn id(recorded: &Recorded, share: f64) -> u64 {
    spread((recorded.asked as f64 * share) as u64)
}

#[test]
fn a_rare_value_costs_at_most_two_percent_of_the_range_beyond_what_is_returned() {
    for size in [64, 1024] {
        let r = record(size, &KEYS, 0, 2);
        let (a, b, stranger) = (id(&r, 0.3), id(&r, 0.8), spread(u64::MAX / 3));
        r.promised(&format!("id={a}"), 1);
        r.promised(&format!("id={stranger}"), 0);
        r.promised("once=1", 2);
        r.promised("once=2", 0);
        r.promised("slow=3", 10_000.min(r.asked - 30_000));
        r.promised(&format!("id={a} and zero=0"), 1);
        r.promised(&format!("id={a} and not zero=0"), 0);
        r.promised(&format!("id={a} and once=1"), 0);
        r.promised(&format!("id={a} or id={b}"), 2);
        r.promised(&format!("once=1 and not (id={stranger} or some=1001)"), 2);
        r.promised(&format!("id in ({a}, {stranger}) and some < 1000"), 1);
    }
}

#[test]
fn elements_of_twenty_bytes_cost_no_more_with_an_index_that_has_room_for_them() {
    let r = record(20, &KEYS[..1], 8, 2);
    r.promised(&format!("id={}", id(&r, 0.3)), 1);
    r.promised(&format!("id={}", spread(u64::MAX / 3)), 0);
    r.promised(&format!("id={} or id={}", id(&r, 0.3), id(&r, 0.8)), 2);
    let coarse = record(20, &["some=u16le@10", "once=u16le@8"], 0, 2);
    coarse.promised("once=1", 2);
    coarse.promised("some=1001", 0);
}

#[test]
fn an_element_that_goes_on_in_the_next_block_is_followed_to_its_end_and_no_further() {
    for size in [64 << 10, 1 << 20, 60_000_000] {
        let r = record(size, &KEYS[..2], 0, 2);
        r.promised(&format!("id={}", spread(u64::MAX / 3)), 0);
        r.promised(&format!("id={}", id(&r, 0.6)), 1);
    }
}

#[test]
fn what_is_still_being_written_is_found_by_its_index_too() {
    let r = record(64, &KEYS[..1], 0, 0);
    let number = r.ring.status().next_sequence / 2;
    let before = r.disk.counters().bytes_read;
    let text = format!("id={}", spread(number));
    let (events, _) =
        r.world.run(async { read(r.ring.clone(), &text, &r.world.clock(), &r.world.spawner()).await.unwrap() });
    let found: Vec<_> = events.iter().filter(|e| matches!(e, Event::Element { .. })).collect();
    assert!(matches!(found[..], [Event::Element { sequence, .. }] if *sequence == number), "{} found", found.len());
    assert!(r.disk.counters().bytes_read - before <= Bytes::mib(2), "one or two blocks");
}
