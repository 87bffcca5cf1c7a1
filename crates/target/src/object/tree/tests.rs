use super::{LeafRecord, Place, Sums, Tree};
use crate::object::rows::{BLOCK, Key, LEAF_SPLIT, Part, Row, Rows, decode_leaf};
use crate::seeds::{Chance, each};
use forebay_model::{Error, ObjectId, TargetId};
use std::collections::{BTreeMap, BTreeSet};

const TARGET: TargetId = TargetId(9);

/// Leaves on a device, by their first block.
#[derive(Default)]
struct Device {
    leaves: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl Device {
    fn rows(&self, record: &LeafRecord) -> Rows {
        let bytes = &self.leaves[&record.place.at];
        assert_eq!(bytes.len() as u64, BLOCK.0 * u64::from(record.place.blocks));
        decode_leaf(TARGET, record.first, record.place.crc, bytes).expect("a leaf that is named is whole")
    }

    fn bring(&self, tree: &mut Tree, from: Key, to: Key) {
        while let Some(record) = tree.missing(from, to) {
            let rows = self.rows(&record);
            tree.bring(&record, rows);
        }
    }

    /// Makes what has changed durable; the leaves as they are named then.
    fn cut(&mut self, tree: &mut Tree, named: &[LeafRecord]) -> Vec<LeafRecord> {
        assert_eq!(tree.sums, Sums::of(&tree.leaves, tree.split), "what is kept up is what a count gives");
        let (expected, names) = (tree.cut_blocks(), tree.named_then());
        let mut next = self.next;
        let cut = tree.cut(|blocks| {
            next += u64::from(blocks);
            Ok(next - u64::from(blocks))
        });
        let cut = cut.expect("there is room");
        assert!(next - self.next <= expected, "{} blocks instead of {expected}", next - self.next);
        self.next = next;
        let named_now: usize = cut.leaves.iter().map(|leaf| postcard::to_stdvec(leaf).unwrap().len()).sum();
        assert_eq!(tree.named(), named_now as u64);
        assert!(tree.named() <= names, "{} bytes of names instead of {names}", tree.named());
        for (at, bytes) in cut.writes {
            assert!(bytes.len() <= LEAF_SPLIT + 8192, "a leaf of {} bytes", bytes.len());
            assert!(self.leaves.insert(at, bytes).is_none(), "a leaf is overwritten");
        }
        // What is left behind is exactly what is not named any more, each once.
        let places = |records: &[LeafRecord]| records.iter().map(|r| r.place.at).collect::<BTreeSet<u64>>();
        let gone: Vec<u64> = places(named).difference(&places(&cut.leaves)).copied().collect();
        let mut left: Vec<u64> = cut.left.iter().map(|place| place.at).collect();
        left.sort_unstable();
        assert_eq!(left, gone);
        left.iter().for_each(|at| drop(self.leaves.remove(at)));
        assert!(cut.leaves.is_sorted_by(|a, b| a.first < b.first));
        assert!(!tree.is_dirty() && tree.dirty() == 0 && tree.cut_blocks() == 0);
        cut.leaves
    }
}

fn key(random: &Chance) -> Key {
    let id = ObjectId { volume: 1, object: random.below(30) };
    Key { id, part: Part::Attribute { page: 1, number: random.below(12) as u32 } }
}

fn row(random: &Chance) -> Row {
    let length = if random.once_in(8) { 4096 } else { random.below(900) };
    Row::Attribute(vec![random.next() as u8; length as usize])
}

fn compare(device: &Device, tree: &mut Tree, model: &Rows, from: Key, to: Key) {
    device.bring(tree, from, to);
    let got: Vec<(&Key, &Row)> = tree.range(from, to).collect();
    assert_eq!(got, model.range(from..=to).collect::<Vec<_>>());
}

#[test]
fn a_tree_is_a_map_whatever_is_put_taken_cut_forgotten_and_read_again() {
    each(60, |random| {
        let (mut device, mut tree, mut model) = (Device::default(), Tree::new(TARGET, &[]), Rows::new());
        let (mut named, mut durable) = (Vec::new(), Rows::new());
        // Growing, then shrinking, so that leaves are split and joined.
        for step in 0..1200 {
            let growing = !(500..=1000).contains(&step);
            match random.below(100) {
                0..70 if growing || random.once_in(6) => {
                    let (key, row) = (key(random), row(random));
                    device.bring(&mut tree, key, key);
                    tree.put(key, row.clone());
                    model.insert(key, row);
                }
                0..80 => {
                    let key = key(random);
                    device.bring(&mut tree, key, key);
                    assert_eq!(tree.take(&key), model.remove(&key));
                    assert_eq!(tree.get(&key), None);
                }
                80..82 => {
                    let (key, row) = (key(random), row(random));
                    device.bring(&mut tree, key, key);
                    tree.alter(&key, |old| *old = row.clone());
                    model.entry(key).and_modify(|old| *old = row.clone());
                    assert_eq!(tree.get(&key), model.get(&key));
                }
                82..86 => {
                    named = device.cut(&mut tree, &named);
                    durable = model.clone();
                }
                86..90 => tree.shrink(random.below(200_000) as usize),
                90 => {
                    tree = Tree::new(TARGET, &named);
                    model = durable.clone();
                }
                _ => {
                    let (a, b) = (key(random), key(random));
                    compare(&device, &mut tree, &model, a.min(b), a.max(b));
                    device.bring(&mut tree, a, a);
                    assert_eq!(tree.get(&a), model.get(&a));
                    let mut near = [a, b, key(random)];
                    near.sort();
                    let [low, from, to] = near;
                    device.bring(&mut tree, low, to);
                    assert!(tree.leaves_of(&[(low, to)]) <= tree.leaves());
                    let before = model.range(low..from).next_back();
                    let reaching: Vec<(&Key, &Row)> = before.into_iter().chain(model.range(from..=to)).collect();
                    assert_eq!(tree.reaching(low, from, to).collect::<Vec<_>>(), reaching);
                }
            }
        }
        compare(&device, &mut tree, &model, Key::FIRST, Key::end_of(ObjectId::LAST));
        named = device.cut(&mut tree, &named);
        compare(&device, &mut Tree::new(TARGET, &named), &model, Key::FIRST, Key::end_of(ObjectId::LAST));
        assert_eq!(device.leaves.len(), named.len(), "leaves that nobody names");
    });
}

#[test]
fn leaves_are_cut_in_two_when_they_grow_and_joined_when_they_shrink() {
    let (mut device, mut tree) = (Device::default(), Tree::new(TARGET, &[]));
    let key = |n: u64| Key::head(ObjectId { volume: 1, object: n });
    (0..300).for_each(|n| drop(tree.put(key(n), Row::Attribute(vec![1; 1000]))));
    let named = device.cut(&mut tree, &[]);
    assert!(named.len() > 6 && named.len() < 20, "{} leaves", named.len());
    (0..295).for_each(|n| drop(tree.take(&key(n))));
    let named = device.cut(&mut tree, &named);
    assert_eq!(named.len(), 1);
    compare(
        &device,
        &mut Tree::new(TARGET, &named),
        &(295..300).map(|n| (key(n), Row::Attribute(vec![1; 1000]))).collect(),
        Key::FIRST,
        key(400),
    );
}

#[test]
fn only_what_has_changed_is_written() {
    let (mut device, mut tree) = (Device::default(), Tree::new(TARGET, &[]));
    let key = |n: u64| Key::head(ObjectId { volume: 1, object: n });
    (0..300).for_each(|n| drop(tree.put(key(n), Row::Attribute(vec![1; 1000]))));
    let before = device.cut(&mut tree, &[]);
    tree.put(key(150), Row::Attribute(vec![2; 1000]));
    let after = device.cut(&mut tree, &before);
    assert_eq!(before.iter().filter(|record| !after.contains(record)).count(), 1);
    assert_eq!(device.cut(&mut tree, &after), after);
}

#[test]
fn what_has_changed_is_never_forgotten_and_the_rest_is_bounded() {
    let (mut device, mut tree) = (Device::default(), Tree::new(TARGET, &[]));
    let key = |n: u64| Key::head(ObjectId { volume: 1, object: n });
    (0..300).for_each(|n| drop(tree.put(key(n), Row::Attribute(vec![1; 1000]))));
    tree.shrink(0);
    assert_eq!(tree.missing(Key::FIRST, key(300)), None, "nothing of it is on the device");
    let named = device.cut(&mut tree, &[]);
    tree.shrink(0);
    assert_eq!(tree.missing(Key::FIRST, key(300)), None, "it is on its way to the device");
    tree.written();
    tree.put(key(7), Row::Attribute(vec![2; 10]));
    tree.shrink(0);
    assert_eq!(tree.get(&key(7)), Some(&Row::Attribute(vec![2; 10])));
    assert!(tree.memory() < 120_000, "{} bytes in memory", tree.memory());
    assert!(tree.missing(Key::FIRST, key(300)).is_some());
    // What is brought too late does not replace what has changed since.
    let stale = LeafRecord { first: named[0].first, place: Place { at: 1 << 40, ..named[0].place } };
    tree.bring(&stale, Rows::new());
    assert_eq!(tree.get(&key(7)), Some(&Row::Attribute(vec![2; 10])));
}

#[test]
fn a_cut_that_finds_no_room_leaves_everything_as_it_was() {
    each(40, |random| {
        let (mut device, mut tree, mut model) = (Device::default(), Tree::new(TARGET, &[]), Rows::new());
        let mut named = Vec::new();
        for _ in 0..4 {
            for _ in 0..200 {
                let (key, row) = (key(random), row(random));
                device.bring(&mut tree, key, key);
                tree.put(key, row.clone());
                model.insert(key, row);
            }
            let mut left = random.below(8);
            let refused = tree.cut(|_| {
                left = left.checked_sub(1).ok_or_else(|| Error::full("no room"))?;
                Ok((1 << 40) + left)
            });
            if refused.is_err() {
                assert!(tree.is_dirty());
                tree.shrink(0);
                compare(&device, &mut tree, &model, Key::FIRST, Key::end_of(ObjectId::LAST));
                named = device.cut(&mut tree, &named);
            } else {
                return;
            }
        }
        compare(&device, &mut Tree::new(TARGET, &named), &model, Key::FIRST, Key::end_of(ObjectId::LAST));
    });
}

#[test]
fn what_was_cut_and_not_written_is_cut_again_and_what_lay_there_before_is_left_only_then() {
    let (mut device, mut tree) = (Device::default(), Tree::new(TARGET, &[]));
    let key = |n: u64| Key::head(ObjectId { volume: 1, object: n });
    (0..300).for_each(|n| drop(tree.put(key(n), Row::Attribute(vec![1; 1000]))));
    let named = device.cut(&mut tree, &[]);
    tree.written();
    (0..300).step_by(7).for_each(|n| drop(tree.put(key(n), Row::Attribute(vec![2; 1000]))));
    let mut next = 1 << 40;
    let lost = tree.cut(|blocks| {
        next += u64::from(blocks);
        Ok(next - u64::from(blocks))
    });
    let lost = lost.unwrap();
    let mut given: Vec<u64> = tree.uncut(lost.left).iter().map(|place| place.at).collect();
    given.sort_unstable();
    assert_eq!(given, lost.writes.iter().map(|(at, _)| *at).collect::<Vec<u64>>());
    tree.shrink(0);
    // This looks at what is left, too.
    let named = device.cut(&mut tree, &named);
    let row = |n: u64| Row::Attribute(vec![if n.is_multiple_of(7) { 2 } else { 1 }; 1000]);
    let rows: Rows = (0..300).map(|n| (key(n), row(n))).collect();
    compare(&device, &mut Tree::new(TARGET, &named), &rows, Key::FIRST, key(300));
    assert_eq!(device.leaves.len(), named.len(), "leaves that nobody names");
}

#[test]
fn rows_that_are_put_before_a_cut_take_no_more_than_was_said() {
    each(40, |random| {
        let (mut device, mut tree) = (Device::default(), Tree::new(TARGET, &[]));
        let free = |random: &Chance| Row::Free(vec![(1, 1); random.below(60) as usize]);
        for group in 0..random.below(1000) as u32 {
            tree.put(Key::free(group), free(random));
        }
        device.cut(&mut tree, &[]);
        tree.written();
        let row = |_| (Key::free(random.below(1200) as u32), free(random));
        let rows: Rows = (0..1 + random.below(300)).map(row).collect();
        let weight = rows.values().map(Row::weight).sum();
        let most = tree.blocks_for(Key::free(0), Key::free(u32::MAX), rows.len(), weight);
        rows.into_iter().for_each(|(key, row)| drop(tree.put(key, row)));
        let mut taken = 0;
        let cut = tree.cut(|blocks| {
            taken += u64::from(blocks);
            Ok(taken)
        });
        assert!(cut.is_ok() && taken <= most, "{taken} blocks instead of {most}");
    });
}
