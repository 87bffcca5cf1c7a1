//! What is refused, and that nothing is written or lost by refusing: outcomes 29, 30, 38 and 43 of the list in
//! `docs/promises/ring.md`.

#![allow(clippy::unwrap_used)]

use forebay_env::pipe::pipe;
use forebay_model::block::crc32c;
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, PinPolicy, RingSpec};
use forebay_model::{Bytes, Error, Kind, Timestamp};
use forebay_sim::disk::presets;
use forebay_sim::feeder::Feeder;
use forebay_sim::stage::{Ending, NAME, Stage, element, record};
use forebay_target::Target;
use forebay_target::query::{Limits, run};
use std::time::Duration;

fn stage() -> Stage {
    Stage::new(21, presets::ssd().scaled(15_000), |_| ())
}

/// Why the target does not open, and that the disk is afterwards as it was.
fn refused(stage: &Stage) -> Error {
    let before = stage.image();
    let error = stage.world.run(Target::open(stage.env())).err().expect("it is refused");
    stage.world.kill();
    assert!(stage.image() == before, "something was written after: {error}");
    error
}

fn flip(stage: &Stage, at: u64) {
    let mut byte = [0];
    stage.disk.peek(Bytes(at), &mut byte);
    stage.disk.poke(Bytes(at), &[byte[0] ^ 4]);
}

#[test]
fn both_copies_damaged_are_refused_and_nothing_is_written() {
    let stage = stage();
    stage.record(50, Ending::Closed);
    // Any bit of version, length, checksum and body of both superblocks, or a superblock and the other's checkpoint.
    for at in [8, 11, 12, 16, 20, 60] {
        flip(&stage, at);
        flip(&stage, (64 << 10) + at);
        let error = refused(&stage);
        assert_eq!(error.kind, Kind::Damaged, "{error}");
        flip(&stage, (64 << 10) + at);
        let layout = stage.world.run(Target::inspect(stage.env())).unwrap().0.layout;
        flip(&stage, layout.area_at(1).0 + 3);
        let error = refused(&stage);
        assert!(error.kind == Kind::Damaged && error.message.contains("no whole superblock"), "{error}");
        flip(&stage, layout.area_at(1).0 + 3);
        flip(&stage, at);
    }
    assert!(stage.look().unwrap().answer.told.is_empty());
}

#[test]
fn a_version_that_is_not_known_is_refused_and_nothing_is_written() {
    let stage = stage();
    stage.record(50, Ending::Closed);
    // A newer program has written one copy, with its checksum, before it was stopped.
    let mut root = vec![0; 64 << 10];
    stage.disk.peek(Bytes::ZERO, &mut root);
    let old = root.clone();
    root[8..12].copy_from_slice(&2u32.to_le_bytes());
    let length = u32::from_le_bytes(root[12..16].try_into().unwrap()) as usize;
    let checksum = crc32c(&root[..16]) ^ crc32c(&root[20..20 + length]);
    root[16..20].copy_from_slice(&checksum.to_le_bytes());
    stage.disk.poke(Bytes::ZERO, &root);
    let error = refused(&stage);
    assert!(error.kind == Kind::Version && error.message.contains("version 2"), "{error}");
    stage.disk.poke(Bytes::ZERO, &old);
    assert!(stage.look().unwrap().answer.told.is_empty());
}

#[test]
fn a_full_target_refuses_and_can_still_delete() {
    let stage = stage();
    let (env, book) = (stage.env(), stage.book.clone());
    stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        let spec = |name: &str| {
            let mut spec = RingSpec::new(name, Bytes::mib(3));
            (spec.block, spec.segment, spec.pin_policy) = (Bytes::kib(16), Bytes::kib(256), PinPolicy::Refuse);
            spec
        };
        let mut made = 0;
        let error = loop {
            match target.create_ring(spec(&format!("/r{made}"))).await {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
        };
        assert!(made > 1 && matches!(error.kind, Kind::Refused | Kind::Full), "{made} rings, then {error}");
        record(&env, &target, &book, 100).await.unwrap();
        let error = target.resize_ring(NAME, Bytes::mib(12)).await.unwrap_err();
        assert!(matches!(error.kind, Kind::Refused | Kind::Full), "{error}");
        // Pins up to the budget, and no further.
        let now = env.clock.wall();
        target.pin(NAME, "", now.before(Duration::from_millis(10)), now).await.unwrap();
        record(&env, &target, &book, 1500).await.unwrap();
        let error = target.pin(NAME, "", Timestamp::MIN, env.clock.wall()).await.unwrap_err();
        assert_eq!(error.kind, Kind::Refused, "{error}");
        target.delete_ring("/r0").await.unwrap();
        target.create_ring(spec("/again")).await.unwrap();
        target.close().await.unwrap();
    });
    stage.world.kill();
    // Between what is pinned and what is new, the ring has run on: expired, and nothing else.
    let answer = stage.look().unwrap().answer;
    assert_eq!(answer.told, answer.expired);
}

#[test]
fn a_reader_that_is_lapped_is_told_and_sees_no_mixed_lap() {
    let stage = Stage::new(22, presets::ssd().scaled(15_000), |spec| spec.capacity = Bytes::mib(8));
    stage.record(2500, Ending::Closed);
    let (env, book) = (stage.env(), stage.book.clone());
    let (items, wrong) = stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        let ring = target.ring(NAME).unwrap();
        ring.ready().await.unwrap();
        let query = Query::parse("all", &ring.keys, env.clock.wall()).unwrap();
        let (inlet, mut outlet) = pipe::<Batch>(64 << 10);
        let limits = Limits { follow: false, elements: u64::MAX, gaps_only: false, blocks: false, numbered: false };
        let reading = ring.clone();
        let task = env.spawner.spawn(async move { run(reading, query, limits, &inlet).await });
        let (mut items, mut wrong) = (Vec::new(), 0);
        let mut next = outlet.receive().await;
        // While it holds the first batch, the ring goes round twice.
        let mut feeder = Feeder::new(ring.clone(), env.clock.clone(), 5).unwrap();
        for number in ring.status().next_sequence..ring.status().next_sequence + 9000 {
            let known = element(env.clock.wall(), number, 1500);
            feeder.element(known.time, &[&known.bytes]).await.unwrap();
            book.borrow_mut().known.insert(number, known);
        }
        feeder.durable().await.unwrap();
        while let Some(batch) = next {
            let mut at = 0;
            for item in &batch.items {
                if let Item::Element { sequence, length, first: true, last: true, .. } = *item {
                    let known = &book.borrow().known[&sequence];
                    wrong += u32::from(known.bytes != batch.payload[at..at + length as usize]);
                }
                if let Item::Element { length, caller, .. } = *item {
                    at += length as usize + usize::from(caller);
                }
                items.push(*item);
            }
            next = outlet.receive().await;
        }
        task.await.unwrap();
        (items, wrong)
    });
    assert_eq!(wrong, 0, "elements with wrong bytes");
    assert!(items.iter().any(|item| matches!(item, Item::Expired { .. })), "the reader is not told");
    let numbers: Vec<u64> = items
        .iter()
        .filter_map(|i| if let Item::Element { sequence, .. } = i { Some(*sequence) } else { None })
        .collect();
    assert!(numbers.is_sorted() && numbers.len() > 10, "{} elements", numbers.len());
    let damage =
        items.iter().filter(|item| matches!(item, Item::Gap(gap) if gap.cause == forebay_model::Cause::Damaged));
    assert_eq!(damage.count(), 0, "what was overwritten is not damaged");
}
