use super::{Tally, disk, live};
use crate::anatomy::Kind;
use crate::feeder::Feeder;
use crate::seeds;
use crate::stage::{NAME, Stage};
use forebay_model::Bytes;
use forebay_target::Target;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn a_ring_survives_any_crash_with_everything_it_acknowledged() {
    let total = Cell::new(Tally::default());
    seeds::each(2000, |seed| {
        let mut tally = total.get();
        tally.add(&live(seed, disk(seed), 5));
        total.set(tally);
    });
    let tally = total.get();
    if seeds::are_the_suites() {
        // A search that hardly crashed, lapped or pinned has shown nothing.
        assert!(tally.crashes >= 10_000 && tally.cut_tails > 10 && tally.laps > 10 && tally.pins > 10, "{tally:?}");
    }
}

/// Full blocks, all in the open segment, of elements of a thousand bytes each.
fn fill(stage: &Stage, count: u64) {
    let env = stage.env();
    stage.world.run(async move {
        let (clock, writer) = (env.clock.clone(), env.random.next_u64());
        let target = Target::open(env).await.expect("the target opens");
        let ring = target.ring(NAME).expect("the ring is there");
        ring.ready().await.expect("the tail is found");
        let mut feeder = Feeder::new(ring, clock.clone(), writer).expect("nobody else records");
        for number in 0..count {
            feeder.element(clock.wall(), &[&vec![number as u8; 1000]]).await.expect("a healthy disk takes elements");
        }
        feeder.durable().await.expect("a healthy disk makes it durable");
    });
    stage.world.kill();
}

/// Opens the target, and ends: where the ring goes on.
fn open(stage: &Stage) -> u64 {
    let env = stage.env();
    let next = stage.world.run(async move {
        let target = Target::open(env).await.expect("the target opens");
        let ring = target.ring(NAME).expect("the ring is there");
        ring.ready().await.expect("the tail is found");
        ring.status().next_sequence
    });
    stage.world.kill();
    next
}

/// The blocks of the open segment: where each lies, and its first element.
fn blocks(stage: &Stage) -> BTreeMap<u32, (Bytes, u64)> {
    let parts = stage.parts().into_iter().filter(|part| part.open && part.kind == Kind::Header);
    parts.map(|part| (part.block.0, (part.at, part.elements.start))).collect()
}

/// A crash tears a block; the next one tears what was written there since, and the first becomes whole of it, for in the
/// sectors it had lost both held the same bytes.
#[test]
fn a_torn_block_that_becomes_whole_after_the_ring_went_on_there_is_not_its_data() {
    let stage = Stage::new(1, disk(0), |spec| spec.flush_interval = Duration::from_secs(600));
    let wipe = |from: u32| {
        for (_, (at, _)) in blocks(&stage).range(from..) {
            stage.disk.poke(*at, &[0; 4096]);
        }
    };
    fill(&stage, 64);
    let (at, begins) = blocks(&stage)[&2];
    let mut torn = vec![0; 16 << 10];
    stage.disk.peek(at, &mut torn);
    wipe(2);
    fill(&stage, 64);
    assert_eq!(blocks(&stage)[&2], (at, begins), "the ring went on where the block was torn");
    wipe(4);
    stage.disk.poke(at, &torn);
    assert_eq!(open(&stage), begins, "what was behind it was of a later opening, and lacked its beginning");
}

/// As above, and nothing whole is left of what was written since: only the sectors that the first block had lost.
#[test]
fn a_torn_block_that_becomes_whole_brings_nothing_back_that_an_opening_did_not_find() {
    // Behind others, and where it is the first one of its segment.
    for (block, lost) in [(2, 1), (2, 3), (0, 1)] {
        let stage = Stage::new(1, disk(0), |spec| spec.flush_interval = Duration::from_secs(600));
        fill(&stage, 64);
        let (at, begins) = blocks(&stage)[&block];
        let place = at + Bytes::kib(4) * lost;
        let mut sectors = vec![0; 4 << 10];
        stage.disk.peek(place, &mut sectors);
        stage.disk.poke(place, &[0; 4 << 10]);
        assert_eq!(open(&stage), begins, "the ring ends before the torn block {block}");
        stage.disk.poke(place, &sectors);
        assert_eq!(open(&stage), begins, "block {block} and what is whole behind it were not there before");
    }
}
