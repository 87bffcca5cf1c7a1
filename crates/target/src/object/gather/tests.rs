use super::{Loose, MOST_RESERVED, Origin, newest, pieces, ways};
use crate::object::rows::{BLOCK, Crcs};
use crate::object::testing::device;
use crate::object::{How, Scope};
use crate::seeds::each;
use forebay_env::Buffer;
use forebay_model::object::Durability;
use forebay_model::{Bytes, ObjectId};
use std::collections::BTreeMap;
use std::sync::Arc;

fn id(object: u64) -> ObjectId {
    ObjectId { volume: 1, object }
}

#[test]
fn of_blocks_that_are_the_same_the_newest_stays_and_all_are_sorted() {
    each(50, |chance| {
        let mut known: BTreeMap<(ObjectId, u64), u64> = BTreeMap::new();
        let mut loose = Vec::new();
        for at in 0..200 {
            let (id, block) = (id(chance.below(4)), chance.below(40));
            known.insert((id, block), at);
            loose.push(Loose { id, block, at, crc: 0, from: Origin::Plain(&[]) });
        }
        for n in (1..loose.len()).rev() {
            loose.swap(n, chance.below(n as u64 + 1) as usize);
        }
        newest(&mut loose);
        let found: Vec<_> = loose.iter().map(|l| ((l.id, l.block), l.at)).collect();
        assert_eq!(found, known.into_iter().collect::<Vec<_>>());
    });
}

#[test]
fn blocks_that_follow_one_another_in_their_object_and_at_home_are_one_piece_as_far_as_a_piece_goes() {
    let blocks: Vec<(u64, Loose<'_>)> = [(1, 0, 100), (1, 1, 101), (1, 2, 105), (1, 4, 106), (2, 5, 107)]
        .into_iter()
        .map(|(object, block, home)| {
            (home, Loose { id: id(object), block, at: 0, crc: home as u32, from: Origin::Plain(&[]) })
        })
        .collect();
    let found = pieces(blocks.iter().map(|(home, l)| (*home, l)));
    let of = |object| found[&id(object)].iter().map(|(n, p)| (*n, p.at, p.crcs.clone())).collect::<Vec<_>>();
    let crcs = |crcs: &[u32]| Crcs(crcs.to_vec());
    assert_eq!(of(1), [(0, 100, crcs(&[100, 101])), (2, 105, crcs(&[105])), (4, 106, crcs(&[106]))]);
    assert_eq!(of(2), [(5, 107, crcs(&[107]))]);
    let long: Vec<Loose<'_>> =
        (0..2500).map(|n| Loose { id: id(1), block: n, at: 0, crc: 0, from: Origin::Plain(&[]) }).collect();
    let found = pieces((7..).zip(&long));
    let lengths: Vec<u64> = found[&id(1)].iter().map(|(_, piece)| piece.blocks()).collect();
    assert_eq!(lengths, [1024, 1024, 452]);
}

#[test]
fn what_lies_together_in_memory_for_io_goes_from_there_and_what_is_scattered_is_gathered() {
    let memory = || Arc::new(Buffer::alone(BLOCK * 100).unwrap());
    let (one, other) = (memory(), memory());
    let block = BLOCK.0 as usize;
    let from = |whole, n: u64| Origin::Aligned(whole, n as usize * block);
    let loose = |n, from| Loose { id: id(1), block: n, at: 0, crc: 0, from };
    // Enough of one, too few of it, enough of the other with a hole between their places, plain ones, and too few of each in turn.
    let mut placed: Vec<(u64, Loose<'_>)> = (0..40).map(|n| (n, loose(n, from(&one, n)))).collect();
    placed.extend((40..60).map(|n| (n, loose(n, from(&one, n + 10)))));
    placed.extend((60..130).map(|n| (n + u64::from(n >= 100), loose(n, from(&other, n - 60)))));
    placed.extend((131..200).map(|n| (n, loose(n, Origin::Plain(&[])))));
    placed.extend((200..240).map(|n| (n, loose(n, from(if n % 2 == 0 { &one } else { &other }, n - 200)))));
    let directly: Vec<u64> = ways(&placed).filter(|(_, going)| going.directly).map(|(at, _)| at.start).collect();
    assert_eq!(directly, (0..40).chain(60..100).collect::<Vec<_>>());
}

#[test]
fn of_room_that_is_kept_behind_an_object_nothing_is_lost_wherever_it_goes_on() {
    // Over the beginning again and again; and on and on, in pieces of a part of the longest, of just that, and of more.
    for (moves, blocks) in [(false, 256), (true, 256), (true, 1024), (true, 1500)] {
        let (fake, target) = device(Bytes::gib(1));
        let (objects, stream) = (target.objects(), target.stream());
        fake.run(objects.create(id(1), Vec::new())).unwrap();
        let how = How { durability: Durability::Buffered, ..How::default() };
        let bytes = vec![1; (blocks * BLOCK.0) as usize];
        let pieces = 12;
        for n in 0..pieces {
            let at = if moves { n * blocks * BLOCK.0 } else { 0 };
            fake.run(objects.write_as(stream, id(1), Some(at), &bytes, &how)).unwrap();
            fake.run(objects.flush_buffered(Scope::Target, None)).unwrap();
        }
        let has = if moves { pieces * blocks } else { blocks };
        let work = objects.work();
        let kept: u64 = work.reserved.values().map(|run| run.blocks).sum();
        assert!(kept <= MOST_RESERVED, "{kept} blocks are kept");
        assert_eq!(work.meta.data.free() + kept, work.meta.data.capacity() - has, "pieces of {blocks}, on: {moves}");
        drop(work);
        let extents = fake.run(objects.extents(id(1))).unwrap().len() as u64;
        assert!(extents <= 1 + has * BLOCK.0 / Bytes::mib(8).0, "pieces of {blocks} lie in {extents} places");
    }
}
