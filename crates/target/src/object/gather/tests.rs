use super::{Loose, newest, pieces};
use crate::object::rows::Crcs;
use crate::seeds::each;
use forebay_model::ObjectId;
use std::collections::BTreeMap;

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
            loose.push(Loose { id, block, at, crc: 0, bytes: &[] });
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
        .map(|(object, block, home)| (home, Loose { id: id(object), block, at: 0, crc: home as u32, bytes: &[] }))
        .collect();
    let found = pieces(blocks.iter().map(|(home, l)| (*home, l)));
    let of = |object| found[&id(object)].iter().map(|(n, p)| (*n, p.at, p.crcs.clone())).collect::<Vec<_>>();
    let crcs = |crcs: &[u32]| Crcs(crcs.to_vec());
    assert_eq!(of(1), [(0, 100, crcs(&[100, 101])), (2, 105, crcs(&[105])), (4, 106, crcs(&[106]))]);
    assert_eq!(of(2), [(5, 107, crcs(&[107]))]);
    let long: Vec<Loose<'_>> = (0..2500).map(|n| Loose { id: id(1), block: n, at: 0, crc: 0, bytes: &[] }).collect();
    let found = pieces((7..).zip(&long));
    let lengths: Vec<u64> = found[&id(1)].iter().map(|(_, piece)| piece.blocks()).collect();
    assert_eq!(lengths, [1024, 1024, 452]);
}
