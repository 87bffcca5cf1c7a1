//! What a crash undid lies where the ring goes on: it is never taken for what was written since, which was acknowledged.

#![allow(clippy::unwrap_used)]

use forebay_model::Bytes;
use forebay_sim::anatomy::Kind;
use forebay_sim::disk::presets;
use forebay_sim::stage::{Ending, Stage};
use forebay_target::Target;
use forebay_target::catalog::{Segment, Writers};
use forebay_target::segment::{Builder, IndexBudget, TRAILER_LEN, Trailer, encode_footer};

/// Segments were under way one after the other when the power went, and of one of them the trailer alone reached the disk. The one
/// before it was written anew, and into the slot of that one: opening took the trailer for the segment behind it, which had never been
/// acknowledged, and erased the slot.
#[test]
fn the_trailer_of_a_segment_that_a_crash_undid_is_not_the_next_one_where_the_open_one_lies() {
    for (count, blocks) in [(800, 4), (830, 1), (120, 7)] {
        let stage = Stage::new(count, presets::ssd().scaled(15_000), |_| ());
        stage.record(count, Ending::Closed);
        let before = stage.look().unwrap();
        let parts = stage.parts();
        let open = parts.iter().find(|part| part.open && part.kind == Kind::Header).unwrap();
        let (superblock, catalog, _) = stage.world.run(Target::inspect(stage.env())).unwrap();
        let (id, record) = catalog.rings.iter().next().unwrap();
        let slots = 0..record.slots.len() as u32;
        assert!(slots.len() <= 16, "opening looks all around");
        let at = |slot: u32| record.slot_at(&superblock.layout, slot);
        let slot = slots.into_iter().find(|slot| (at(*slot)..at(*slot) + record.segment).contains(&open.at)).unwrap();
        assert_eq!((&record.path[..], record.path_segment), (&[slot][..], open.owner.1));
        let trailer = Trailer {
            target: superblock.target.0,
            ring: id.0,
            slot,
            epoch: 1,
            summary: Segment::opened(open.owner.1 + 1, before.status.next_sequence + 50),
            blocks,
            durable_blocks: 0,
            tables_at: 0,
            tables_len: 0,
            tables_crc: 0,
            writers: Writers::default(),
            description: None,
        };
        let keys = record.spec.key_set().unwrap();
        let budget = IndexBudget::for_segment(record.segment, record.spec.index_percent, keys.len());
        let (_, footer, _) = encode_footer(Builder::new(keys, budget), record.segment, trailer).unwrap();
        let place = at(slot) + record.segment - Bytes(TRAILER_LEN);
        stage.disk.poke(place, &footer[footer.len() - TRAILER_LEN as usize..]);
        let found = stage.verify();
        assert!(found.rings[0].damage.is_empty() && found.rings[0].repairs.is_empty(), "{found:?}");
        let after = stage.look().unwrap();
        assert_eq!(after.status.next_sequence, before.status.next_sequence);
        assert_eq!((after.answer.returned, after.answer.told), (before.answer.returned, before.answer.told));
        stage.record(50, Ending::Closed);
        let then = stage.look().unwrap().answer;
        assert!(then.told.is_subset(&then.expired));
    }
}
