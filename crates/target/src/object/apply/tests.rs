use super::{Meta, needs, touching};
use crate::layout::Layout;
use crate::object::logs::Logs;
use crate::object::record::{Change, Write};
use crate::object::rows::{BLOCK, Crcs, Head, Key, PIECE_BLOCKS, Part, Piece, Quota, Row, Shared, Volume, decode_leaf};
use crate::object::space::{Run, Space};
use crate::object::testing::id;
use crate::object::tree::Tree;
use crate::seeds::{Chance, each};
use forebay_model::{Bytes, Kind, ObjectId, TargetId, Timestamp};
use std::collections::BTreeMap;

const VOLUME: ObjectId = ObjectId::volume(1);
const TARGET: TargetId = TargetId(1);

fn layout() -> Layout {
    Layout::for_device(Bytes::mib(64)).expect("64 MiB can be formatted")
}

fn head(volume: Option<Volume>) -> Head {
    let now = Timestamp(1);
    Head { size: 0, created: now, modified: now, changed: now, version: 1, blocks: 0, volume }
}

/// Everything, with one volume.
fn meta() -> Meta {
    let mut data = Space::new(layout());
    (0..20).for_each(|group| data.add(group, None));
    let (tree, tables, logs) = (Tree::new(TARGET, &[]), Space::new(layout()), Logs::new(layout(), &[], &[]));
    let mut meta = Meta { tree, data, tables, logs, buffered: BTreeMap::new(), unshared: 0 };
    give(&mut meta, &Change::Create { id: VOLUME, head: head(Some(Volume::default())) });
    meta
}

/// Lets a change take effect; what it frees is free at once.
fn give(meta: &mut Meta, change: &Change) {
    let freed = meta.apply(change, &mut 0).expect("the object is there");
    freed.iter().for_each(|run| meta.data.give(*run));
}

fn write(id: ObjectId) -> Write {
    Write {
        id,
        time: Timestamp(2),
        size: 0,
        commands: 1,
        dropped: None,
        logged: Vec::new(),
        inline: None,
        pieces: Vec::new(),
    }
}

/// What a plain map knows of a block: where it lies at home, and where in a log, each with its checksum; or its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    home: Option<(u64, u32)>,
    logged: Option<(u64, u32)>,
    inline: Option<[u8; 4]>,
}

type Blocks = BTreeMap<u64, Known>;
type Model = BTreeMap<u64, Blocks>;

/// What the rows say of an object.
fn rows_of(meta: &Meta, object: u64) -> Blocks {
    let mut found = Blocks::new();
    let mut behind = 0;
    for (key, row) in meta.tree.range(Key::head(id(object)), Key::end_of(id(object))) {
        match (key.part, row) {
            (Part::Piece(first), Row::Piece(piece)) => {
                assert!(first >= behind && piece.blocks() > 0, "pieces overlap at {first}");
                assert!(piece.blocks() <= u64::from(PIECE_BLOCKS), "a piece of {} blocks", piece.blocks());
                behind = first + piece.blocks();
                put_home(&mut found, &[(first, piece.clone())]);
            }
            (Part::Logged(block), Row::Logged(logged)) => {
                found.entry(block).or_default().logged = Some((logged.at, logged.crc));
            }
            (Part::Inline, Row::Inline(bytes)) => {
                found.entry(0).or_default().inline = Some(bytes[..].try_into().expect("four bytes"));
            }
            _ => {}
        }
    }
    found
}

fn put_home(known: &mut Blocks, pieces: &[(u64, Piece)]) {
    for (first, piece) in pieces {
        for (n, crc) in (0..).zip(&piece.crcs.0) {
            known.insert(first + n, Known { home: Some((piece.at + n, *crc)), ..Known::default() });
        }
    }
}

fn compare(meta: &Meta, model: &Model) {
    let mut at_home: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut blocks, mut in_logs) = (0, 0);
    for (object, known) in model {
        assert_eq!(&rows_of(meta, *object), known, "object {object}");
        let counted: u64 = known.len() as u64;
        assert_eq!(meta.head(id(*object)).expect("it is there").blocks, counted, "object {object}");
        blocks += counted;
        in_logs += known.values().filter(|k| k.logged.is_some()).count() as u64;
        for (at, _) in known.values().filter_map(|k| k.home) {
            *at_home.entry(at).or_default() += 1;
        }
    }
    let volume = meta.head(VOLUME).and_then(|head| head.volume.clone()).expect("the volume is there");
    assert_eq!((volume.objects, volume.blocks), (model.len() as u64, blocks));
    assert_eq!(meta.data.free(), meta.data.capacity() - at_home.len() as u64);
    let mut sharers = BTreeMap::new();
    for (key, row) in meta.tree.range(Key::shared(0), Key::shared(u64::MAX)) {
        let (Part::Shared(at), Row::Shared(Shared { blocks, more })) = (key.part, row) else { panic!("{key:?}") };
        assert!(*blocks > 0 && *blocks <= PIECE_BLOCKS && *more > 0, "{blocks} blocks belong to {more} more");
        (at..at + u64::from(*blocks)).for_each(|at| assert_eq!(sharers.insert(at, more + 1), None));
    }
    at_home.retain(|_, objects| *objects > 1);
    assert_eq!(sharers, at_home, "blocks that belong to several");
    assert_eq!(meta.logs.live(), in_logs);
}

/// Pieces for blocks `from..from + blocks` at fresh places, as commands take them.
fn fresh(meta: &mut Meta, random: &Chance, from: u64, blocks: u64, near: Option<u64>) -> Vec<(u64, Piece)> {
    let mut next = from;
    let mut pieces = Vec::new();
    for run in meta.data.allocate(blocks, near).expect("there is room") {
        let crcs = (0..run.blocks).map(|_| random.next() as u32).collect();
        pieces.push((next, Piece { at: run.at, crcs: Crcs(crcs) }));
        next += run.blocks;
    }
    pieces
}

/// What a step from a log home makes of blocks that lie in logs: over what is at home, else at fresh places.
fn homed<'a>(meta: &mut Meta, known: impl Iterator<Item = (&'a u64, &'a mut Known)>) -> Vec<(u64, Piece)> {
    let mut pieces: Vec<(u64, Piece)> = Vec::new();
    for (block, k) in known {
        let Some((_, crc)) = k.logged.take() else { continue };
        let own = k.home.filter(|(at, _)| !meta.is_shared(*at));
        let (at, _) = own.unwrap_or_else(|| (meta.data.allocate(1, None).expect("there is room")[0].at, 0));
        k.home = Some((at, crc));
        let follows =
            |(first, piece): &&mut (u64, Piece)| *first + piece.blocks() == *block && piece.at + piece.blocks() == at;
        match pieces.last_mut().filter(follows) {
            Some((_, piece)) => piece.crcs.0.push(crc),
            None => pieces.push((*block, Piece { at, crcs: Crcs(vec![crc]) })),
        }
    }
    pieces
}

#[test]
fn writes_drops_and_moves_do_to_the_rows_what_they_do_to_a_plain_map() {
    each(60, |random| {
        let (mut meta, mut model) = (meta(), Model::new());
        let mut next_logged = meta.logs.at(0, 0);
        for step in 0..250 {
            let object = 1 + random.below(4);
            let Some(known) = model.get_mut(&object) else {
                let Some(of) = model.keys().copied().find(|_| random.once_in(3)) else {
                    give(&mut meta, &Change::Create { id: id(object), head: head(None) });
                    model.insert(object, Blocks::new());
                    continue;
                };
                let mut blocks = model[&of].clone();
                let pieces = homed(&mut meta, blocks.iter_mut());
                give(&mut meta, &Change::Move { id: id(of), pieces });
                give(&mut meta, &Change::Snapshot { id: id(object), of: id(of), time: Timestamp(3) });
                model.extend([(of, blocks.clone()), (object, blocks)]);
                compare(&meta, &model);
                continue;
            };
            let (from, blocks) = (random.below(60), 1 + random.below(20));
            match random.below(22) {
                0..6 => {
                    let before = known.range(..from).next_back().and_then(|(_, k)| k.home).map(|(at, _)| at + 1);
                    let pieces = fresh(&mut meta, random, from, blocks, before);
                    put_home(known, &pieces);
                    give(&mut meta, &Change::Write(Write { pieces, ..write(id(object)) }));
                }
                6..12 => {
                    // One run of blocks, or two that are apart.
                    let crcs = |n: u64| Crcs((0..n).map(|_| random.next() as u32).collect());
                    let mut logged = vec![(from, crcs(1 + blocks % 4))];
                    if random.once_in(3) {
                        logged.push((from + 10, crcs(2)));
                    }
                    let mut at = next_logged;
                    let change = Change::Write(Write { logged: logged.clone(), ..write(id(object)) });
                    assert_eq!(meta.apply(&change, &mut next_logged).expect("it is there"), []);
                    for (first, crcs) in logged {
                        for (block, crc) in (first..).zip(crcs.0) {
                            let known = known.entry(block).or_default();
                            (known.logged, known.inline) = (Some((at, crc)), None);
                            at += 1;
                        }
                    }
                    assert_eq!(at, next_logged, "each block has its place behind the record");
                    next_logged = meta.logs.at(step % 15, 0) + u64::from(step % 8);
                }
                12..15 => {
                    let size = 7 + u64::from(step);
                    let to = if random.once_in(4) { 1 << 40 } else { from + blocks };
                    known.retain(|block, _| *block < from || *block >= to);
                    let dropped = Some((from, to));
                    give(&mut meta, &Change::Write(Write { dropped, size, ..write(id(object)) }));
                    assert_eq!(meta.head(id(object)).map(|head| head.size), Some(size));
                }
                15..19 => {
                    let version = meta.head(id(object)).map(|head| head.version);
                    let pieces = homed(&mut meta, known.iter_mut().skip(random.below(5) as usize));
                    give(&mut meta, &Change::Move { id: id(object), pieces });
                    assert_eq!(meta.head(id(object)).map(|head| head.version), version, "its bytes are the same");
                }
                19..21 => {
                    let bytes = (random.next() as u32).to_le_bytes();
                    known.insert(0, Known { inline: Some(bytes), ..Known::default() });
                    give(&mut meta, &Change::Write(Write { inline: Some(bytes.to_vec()), ..write(id(object)) }));
                }
                _ => {
                    model.remove(&object);
                    give(&mut meta, &Change::Remove { id: id(object) });
                    assert_eq!(meta.tree.range(Key::head(id(object)), Key::end_of(id(object))).count(), 0);
                }
            }
            compare(&meta, &model);
        }
        while let Some((object, _)) = model.pop_first() {
            give(&mut meta, &Change::Remove { id: id(object) });
        }
        compare(&meta, &model);
    });
}

#[test]
fn pieces_that_continue_one_another_become_one() {
    let (mut meta, mut known) = (meta(), Blocks::new());
    give(&mut meta, &Change::Create { id: id(1), head: head(None) });
    let start = layout().group_at(0).0 / BLOCK.0;
    let at = |block: u64| start + block;
    // Every second one first, then those between.
    for block in (0..200u64).step_by(2).chain((1..200).step_by(2)) {
        assert!(meta.data.claim(Run { at: at(block), blocks: 1 }));
        let pieces = vec![(block, Piece { at: at(block), crcs: Crcs(vec![block as u32]) })];
        put_home(&mut known, &pieces);
        give(&mut meta, &Change::Write(Write { pieces, ..write(id(1)) }));
    }
    compare(&meta, &Model::from([(1, known)]));
    let pieces = |meta: &Meta| meta.tree.range(Key::piece(id(1), 0), Key::piece(id(1), 1 << 40)).count();
    assert_eq!(pieces(&meta), 1);
    // A hole cuts it, and what fills the hole joins it.
    give(&mut meta, &Change::Write(Write { dropped: Some((50, 60)), ..write(id(1)) }));
    assert_eq!(pieces(&meta), 2);
    assert!(meta.data.claim(Run { at: at(50), blocks: 10 }), "what was dropped is free");
    let back = vec![(50, Piece { at: at(50), crcs: Crcs(vec![7; 10]) })];
    give(&mut meta, &Change::Write(Write { pieces: back, ..write(id(1)) }));
    assert_eq!(pieces(&meta), 1);
}

#[test]
fn a_piece_is_never_longer_than_those_who_look_for_it_expect() {
    let mut meta = meta();
    give(&mut meta, &Change::Create { id: id(1), head: head(None) });
    let most = u64::from(PIECE_BLOCKS);
    for (first, blocks) in [(0, 1000), (1000, 24), (1024, most), (2048, 1), (2049, 1)] {
        let pieces = vec![(first, Piece { at: 1 << 20 | first, crcs: Crcs(vec![0; blocks as usize]) })];
        meta.apply(&Change::Write(Write { pieces, ..write(id(1)) }), &mut 0).unwrap();
    }
    let pieces: Vec<(Part, u64)> = meta
        .tree
        .range(Key::piece(id(1), 0), Key::piece(id(1), 1 << 40))
        .map(|(key, row)| (key.part, if let Row::Piece(piece) = row { piece.blocks() } else { 0 }))
        .collect();
    assert_eq!(pieces, [(Part::Piece(0), most), (Part::Piece(most), most), (Part::Piece(2 * most), 2)]);
    let [(low, _), _] = touching(id(1), 2047, 2048);
    assert!(low <= Key::piece(id(1), 1024), "the piece that covers block 2047 is looked at");
}

#[test]
fn attributes_and_quotas_change_the_version_and_nothing_else() {
    let mut meta = meta();
    give(&mut meta, &Change::Create { id: id(1), head: head(None) });
    let set = vec![(9, 1, Some(vec![1, 2])), (9, 2, Some(Vec::new()))];
    give(&mut meta, &Change::Attributes { id: id(1), time: Timestamp(5), set });
    give(&mut meta, &Change::Attributes { id: id(1), time: Timestamp(6), set: vec![(9, 1, None), (9, 3, None)] });
    let at = |number| Key { id: id(1), part: Part::Attribute { page: 9, number } };
    assert_eq!((meta.tree.get(&at(1)), meta.tree.get(&at(2))), (None, Some(&Row::Attribute(Vec::new()))));
    assert_eq!(meta.head(id(1)), Some(&Head { changed: Timestamp(6), version: 3, ..head(None) }));
    let quota = Quota { hard_bytes: 77, ..Quota::default() };
    give(&mut meta, &Change::Quota { id: VOLUME, time: Timestamp(7), quota });
    let volume = meta.head(VOLUME).unwrap().volume.clone().unwrap();
    assert_eq!((volume.objects, volume.quota), (1, quota));
}

#[test]
fn a_record_of_an_object_that_is_not_there_is_damage() {
    let (mut meta, time) = (meta(), Timestamp(1));
    for change in [
        Change::Remove { id: id(1) },
        Change::Write(write(id(1))),
        Change::Move { id: id(1), pieces: Vec::new() },
        Change::Quota { id: ObjectId::volume(8), time, quota: Quota::default() },
        Change::Attributes { id: id(1), time, set: Vec::new() },
    ] {
        let error = meta.apply(&change, &mut 0).expect_err("there is no such object");
        assert_eq!(error.kind, Kind::Damaged, "{error}");
    }
}

/// Leaves on a device, by their first block.
#[derive(Default)]
struct Leaves {
    there: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl Leaves {
    /// Nothing of `meta` is in memory from now on.
    fn forget(&mut self, meta: &mut Meta) {
        let next = &mut self.next;
        let allocate = |blocks| {
            *next += u64::from(blocks);
            Ok(*next - u64::from(blocks))
        };
        let cut = meta.tree.cut(allocate).unwrap();
        self.there.extend(cut.writes);
        meta.tree.written();
        meta.tree.shrink(0);
    }

    fn bring(&self, meta: &mut Meta, ranges: &[(Key, Key)]) {
        for (low, high) in ranges {
            while let Some(record) = meta.tree.missing(*low, *high) {
                let bytes = &self.there[&record.place.at];
                let rows = decode_leaf(TARGET, record.first, record.place.crc, bytes).unwrap();
                meta.tree.bring(&record, rows);
            }
        }
    }

    /// Lets a change take effect with nothing in memory but what it needs: a row that is looked at and was not brought would
    /// end the test.
    fn give(&mut self, meta: &mut Meta, change: &Change) {
        self.forget(meta);
        self.bring(meta, &needs(change));
        let sharing = meta.sharing(std::slice::from_ref(change));
        self.bring(meta, &sharing);
        give(meta, change);
    }
}

#[test]
fn the_rows_that_a_change_needs_are_all_that_it_touches() {
    each(60, |random| {
        let (mut meta, mut leaves) = (meta(), Leaves::default());
        // Down to a leaf for each row.
        meta.tree.set_split([64, 300, 1000, 48 << 10][random.below(4) as usize]);
        let mut there: Vec<u64> = Vec::new();
        let mut near = None;
        for step in 0..200 {
            let (n, from) = (1 + random.below(20), random.below(30));
            let object = id(n);
            if !there.contains(&n) {
                let of = there.get(random.below(8) as usize).copied();
                let change = match of {
                    Some(of) => Change::Snapshot { id: object, of: id(of), time: Timestamp(3) },
                    None => Change::Create { id: object, head: head(None) },
                };
                leaves.give(&mut meta, &change);
                there.push(n);
                continue;
            }
            let change = match random.below(8) {
                0 => Change::Write(Write { dropped: Some((from, from + 5)), ..write(object) }),
                1..4 => {
                    let pieces = fresh(&mut meta, random, from, 1 + random.below(3), near);
                    near = pieces.last().map(|(_, piece)| piece.at + piece.blocks());
                    Change::Write(Write { pieces, ..write(object) })
                }
                4 => Change::Write(Write { inline: Some(vec![1; 9]), ..write(object) }),
                5 => Change::Attributes { id: object, time: Timestamp(1), set: vec![(1, step, Some(vec![1; 99]))] },
                6 => {
                    there.retain(|other| *other != n);
                    Change::Remove { id: object }
                }
                _ => Change::Move { id: object, pieces: fresh(&mut meta, random, from, 1, near) },
            };
            leaves.give(&mut meta, &change);
        }
        for n in there {
            leaves.give(&mut meta, &Change::Remove { id: id(n) });
        }
        assert_eq!(meta.data.free(), meta.data.capacity(), "all of it was let go, each block once");
    });
}

#[test]
fn what_a_piece_may_follow_is_brought_with_it_also_where_that_is_as_long_as_a_piece_can_be() {
    let (mut meta, mut leaves) = (meta(), Leaves::default());
    meta.tree.set_split(64);
    give(&mut meta, &Change::Create { id: id(1), head: head(None) });
    let mut put = |meta: &mut Meta, first: u64| {
        let at = meta.data.allocate(1, None).expect("there is room")[0].at;
        // One is left between, so that they are not joined.
        meta.data.allocate(1, None).expect("there is room");
        let pieces = vec![(first, Piece { at, crcs: Crcs(vec![7]) })];
        leaves.give(meta, &Change::Write(Write { pieces, ..write(id(1)) }));
    };
    put(&mut meta, 0);
    put(&mut meta, 1);
    leaves.give(&mut meta, &Change::Write(Write { dropped: Some((1, 2)), ..write(id(1)) }));
    let pieces = vec![(u64::from(PIECE_BLOCKS), Piece { at: 1 << 20, crcs: Crcs(vec![7]) })];
    leaves.give(&mut meta, &Change::Write(Write { pieces, ..write(id(1)) }));
}
