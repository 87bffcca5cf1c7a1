use super::Chain;
use crate::copies::record::{HEAD, Record};
use crate::keys;
use forebay_model::{Kind, TargetId, Timestamp};
use forebay_wire::control::names::FileId;

const OLD: u64 = 1 << 20 | 1;
const NEW: u64 = 5 << 20 | 1;

fn begin(base: u64, after: u64) -> Record {
    Record::Begin { cluster: 7, term: base >> 20, base, after, begun: Timestamp(1) }
}

fn piece(pairs: &[(&str, &str)]) -> Record {
    let bytes = |text: &str| text.as_bytes().to_vec();
    Record::Piece { pairs: pairs.iter().map(|(key, value)| (bytes(key), bytes(value))).collect() }
}

fn changes(batch: u64, key: &str, value: Option<&str>) -> Record {
    let writes = vec![(key.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec()))];
    Record::Changes { batch, more: false, at: Timestamp(2), writes }
}

fn whole() -> Record {
    Record::Whole { at: Timestamp(0) }
}

/// Reads an object of a target.
fn read(chain: &mut Chain, target: u128, object: u64, records: &[Record]) {
    chain.begin(TargetId(target), object);
    records.iter().for_each(|record| chain.take(&record.to_bytes().unwrap()).unwrap());
}

fn said(chain: &Chain) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let pairs = chain.state.iter().map(|(key, value)| format!("{}={}", text(key), text(value)));
    pairs.collect::<Vec<String>>().join(" ")
}

/// A copy of four keys, which is whole.
fn old() -> Chain {
    let mut chain = Chain::default();
    read(
        &mut chain,
        1,
        OLD,
        &[begin(OLD, 3), piece(&[("a", "1"), ("b", "1")]), piece(&[("c", "1"), ("d", "1")]), whole()],
    );
    assert!(chain.is_whole() && chain.counts());
    chain
}

#[test]
fn a_new_chain_says_what_it_has_over_the_one_before_until_it_is_whole() {
    let steps = [
        (begin(NEW, 3), "a=1 b=1 c=1 d=1"),
        (changes(4, "d", None), "a=1 b=1 c=1"),
        (changes(5, "e", Some("2")), "a=1 b=1 c=1 e=2"),
        // Behind the first piece nothing of the keys up to there is of the one before.
        (piece(&[("aa", "2"), ("b", "2")]), "aa=2 b=2 c=1 e=2"),
        (changes(6, "a", Some("3")), "a=3 aa=2 b=2 c=1 e=2"),
        (piece(&[("bb", "2")]), "a=3 aa=2 b=2 bb=2 c=1 e=2"),
        // Between what two pieces have, and so in none.
        (changes(7, "bc", Some("4")), "a=3 aa=2 b=2 bb=2 bc=4 c=1 e=2"),
        (piece(&[("e", "2")]), "a=3 aa=2 b=2 bb=2 bc=4 e=2"),
        (changes(8, "f", Some("5")), "a=3 aa=2 b=2 bb=2 bc=4 e=2 f=5"),
    ];
    let mut chain = old();
    chain.begin(TargetId(1), NEW);
    for (record, expected) in steps {
        // As where a connection ended before the answer.
        (0..2).for_each(|_| chain.take(&record.to_bytes().unwrap()).unwrap());
        assert_eq!(said(&chain), expected, "{record:?}");
        assert!(chain.counts() && !chain.is_whole());
    }
    chain.take(&whole().to_bytes().unwrap()).unwrap();
    assert!(chain.is_whole());
    assert_eq!(said(&chain), "a=3 aa=2 b=2 bb=2 bc=4 e=2 f=5");
}

#[test]
fn what_is_behind_the_last_piece_of_a_whole_one_is_of_none_before() {
    let mut chain = old();
    read(&mut chain, 1, NEW, &[begin(NEW, 3), piece(&[("b", "2")]), whole()]);
    assert_eq!(said(&chain), "b=2");
}

#[test]
fn of_an_object_on_several_targets_each_record_counts_once_and_the_longest_is_read_to_its_end() {
    let all = [begin(OLD, 3), changes(4, "a", Some("4")), changes(5, "a", Some("5"))];
    for order in [[1, 3, 2], [3, 2, 1], [2, 1, 3]] {
        let mut chain = old();
        for (target, records) in (1..).zip(order) {
            read(&mut chain, target, OLD + 1, &all[..records]);
        }
        assert_eq!(said(&chain), "a=5 b=1 c=1 d=1", "{order:?}");
        assert!(chain.is_whole());
        let far: Vec<bool> = chain.targets().map(|(_, is_furthest, _)| is_furthest).collect();
        assert_eq!(far, order.map(|records| records == 3));
    }
}

#[test]
fn an_object_whose_beginning_another_target_lacks_goes_on_with_what_is_known() {
    let mut chain = old();
    read(&mut chain, 2, OLD + 1, &[begin(OLD, 3), changes(4, "a", Some("4"))]);
    read(&mut chain, 3, OLD + 2, &[begin(OLD, 4), changes(5, "b", None)]);
    assert!(chain.is_whole());
    assert_eq!(said(&chain), "a=4 c=1 d=1");
    // One in between is missing.
    read(&mut chain, 3, OLD + 4, &[begin(OLD, 9), changes(10, "c", None)]);
    assert!(!chain.is_whole() && chain.counts());
    assert_eq!(said(&chain), "a=4 d=1");
}

#[test]
fn what_was_never_whole_does_not_count() {
    let mut chain = Chain::default();
    read(&mut chain, 1, OLD, &[begin(OLD, 3), piece(&[("a", "1")]), changes(4, "b", Some("1"))]);
    read(&mut chain, 1, NEW, &[begin(NEW, 3), piece(&[("a", "2")])]);
    assert!(!chain.counts() && chain.cluster() == Some(7));
}

#[test]
fn copies_of_two_clusters_are_not_put_together() {
    let other = Record::Begin { cluster: 8, term: 5, base: NEW, after: 0, begun: Timestamp(0) };
    for (target, kind) in [(1, Kind::Damaged), (2, Kind::Usage)] {
        let mut chain = old();
        chain.begin(TargetId(target), OLD);
        let error = chain.take(&other.to_bytes().unwrap()).unwrap_err();
        assert!(error.kind == kind && error.message.contains("two clusters"), "{error}");
    }
}

#[test]
fn a_record_that_is_there_once_more_behind_others_counts_once() {
    let all = [
        begin(OLD, 3),
        changes(4, "a", Some("4")),
        piece(&[("a", "4"), ("b", "1")]),
        changes(5, "a", Some("5")),
        changes(6, "c", None),
        changes(7, "d", Some("7")),
    ];
    // What the first connection was asked is done when it was done over the second one, and what came next as well.
    let once_more = |late: usize, behind: usize| {
        let mut records = all[..=behind].to_vec();
        records.push(all[late].clone());
        records
    };
    for late in 0..4 {
        for behind in late..5 {
            for is_first in [true, false] {
                let mut chain = old();
                let has_twice = once_more(late, behind);
                let of: [(u128, &[Record]); 2] = [(1, &has_twice), (2, &all)];
                let order: Vec<(u128, &[Record])> = if is_first { of.to_vec() } else { of.into_iter().rev().collect() };
                order.into_iter().for_each(|(target, records)| read(&mut chain, target, OLD + 1, records));
                assert_eq!(said(&chain), "a=5 b=1 d=7", "{late} behind {behind}");
                let far: Vec<bool> = chain.targets().map(|(_, is_furthest, _)| is_furthest).collect();
                assert_eq!(far, [false, true], "{late} behind {behind}");
                assert!(chain.is_whole());
            }
        }
    }
}

#[test]
fn of_changes_in_several_records_each_counts_once() {
    let part = |keys: &[&str], more| {
        let writes = keys.iter().map(|key| (key.as_bytes().to_vec(), Some(b"5".to_vec()))).collect();
        Record::Changes { batch: 5, more, at: Timestamp(2), writes }
    };
    let parts = [part(&["a"], true), part(&["b"], true), part(&["c"], false)];
    let [first, second, third] = &parts;
    for twice in [
        [first, first, second, third, second],
        [first, second, first, second, third],
        [first, second, third, first, third],
    ] {
        let mut chain = old();
        let records: Vec<Record> =
            [begin(OLD, 3)].into_iter().chain(twice.into_iter().cloned()).chain([changes(6, "b", None)]).collect();
        read(&mut chain, 1, OLD + 1, &records);
        assert_eq!(said(&chain), "a=5 c=5 d=1");
    }
}

/// The same records, of which one is damaged at this byte.
fn damaged(records: &[Record], which: usize, at: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, record) in records.iter().enumerate() {
        let mut bytes = record.to_bytes().unwrap();
        if number == which {
            bytes[at] ^= 1;
        }
        all.extend(bytes);
    }
    all
}

#[test]
fn what_has_damage_within_is_whole_only_if_another_target_has_as_much() {
    let all = [
        begin(OLD, 3),
        changes(4, "a", Some("4")),
        changes(5, "a", Some("5")),
        changes(6, "b", None),
        changes(7, "b", Some("7")),
    ];
    // In its magic, in its length, in its body; and read in parts of any size.
    for (at, step) in [(0, 1000), (13, 1000), (HEAD, 7), (HEAD, 1000), (14, 3)] {
        for (which, other, is_whole) in
            [(1, 5, true), (2, 5, true), (2, 4, false), (2, 2, false), (3, 0, false), (0, 0, false)]
        {
            for is_first in [true, false] {
                let mut chain = old();
                let read_other = |chain: &mut Chain| {
                    if other > 0 {
                        read(chain, 2, OLD + 1, &all[..other]);
                    }
                };
                if !is_first {
                    read_other(&mut chain);
                }
                chain.begin(TargetId(1), OLD + 1);
                damaged(&all, which, at).chunks(step).for_each(|some| chain.take(some).unwrap());
                if is_first {
                    read_other(&mut chain);
                }
                assert_eq!(chain.is_whole(), is_whole, "byte {at} of record {which}, another with {other}");
                assert!(chain.counts() && chain.damaged().into_iter().eq([TargetId(1)]));
                assert_eq!(said(&chain).contains("b=7"), other == 5, "{}", said(&chain));
            }
        }
    }
}

#[test]
fn what_a_target_says_is_damaged_is_missing_as_well() {
    let all = [begin(OLD, 3), changes(4, "a", Some("4"))];
    let more = changes(5, "a", Some("5"));
    let length = more.to_bytes().unwrap().len() as u64;
    for (other, is_whole) in [(vec![more.clone()], true), (vec![], false)] {
        let mut chain = old();
        read(&mut chain, 1, OLD + 1, &all);
        chain.take_damaged(length);
        read(&mut chain, 2, OLD + 1, &[&all[..], &other].concat());
        assert_eq!(chain.is_whole(), is_whole);
        assert!(chain.damaged().into_iter().eq([TargetId(1)]));
        // What follows knows whether anything is missing.
        let mut next = old();
        read(&mut next, 1, OLD + 1, &all);
        next.take_damaged(length);
        read(&mut next, 1, OLD + 2, &[]);
        assert!(!next.is_whole());
        read(&mut next, 2, OLD + 2, &[begin(OLD, 4 + u64::from(!is_whole))]);
        assert_eq!(next.is_whole(), is_whole);
    }
}

#[test]
fn an_end_that_was_not_written_wholly_is_no_damage() {
    let (all, next) = ([begin(OLD, 3), changes(4, "a", Some("4"))], changes(5, "a", Some("5")).to_bytes().unwrap());
    for written in 0..next.len() {
        let mut chain = old();
        read(&mut chain, 1, OLD + 1, &all);
        chain.take(&next[..written]).unwrap();
        assert!(chain.is_whole() && chain.damaged().is_empty(), "{written} bytes");
        // Some of it may be other bytes than were to be there.
        chain.begin(TargetId(1), OLD + 1);
        all.iter().for_each(|record| chain.take(&record.to_bytes().unwrap()).unwrap());
        chain.take(&[&next[..written], &vec![0; next.len() - written]].concat()).unwrap();
        assert!(chain.is_whole() && chain.damaged().is_empty(), "{written} bytes, then zeros");
    }
}

fn raw(pairs: &[(Vec<u8>, &str)]) -> Record {
    Record::Piece { pairs: pairs.iter().map(|(key, value)| (key.clone(), value.as_bytes().to_vec())).collect() }
}

#[test]
fn what_pieces_do_not_have_any_more_is_gone_until_the_list_of_what_is_removed_was_read() {
    let (inode, layout) = (|file| keys::inode(FileId(file)), |file| keys::layout(FileId(file)));
    let first =
        raw(&[(inode(2), "i"), (inode(3), "i"), (inode(4), "i"), (layout(2), "l"), (layout(3), "l"), (layout(4), "l")]);
    let removed = |file| Record::Changes { batch: 4, more: false, at: Timestamp(2), writes: vec![(inode(file), None)] };
    // A manager that was made anew of copies begins behind none of its batches.
    for after in [3, 0] {
        let mut chain = Chain::default();
        read(&mut chain, 1, OLD, &[begin(OLD, 3), first.clone(), whole()]);
        assert!(chain.gone.is_empty());
        read(&mut chain, 1, NEW, &[begin(NEW, after), removed(4), raw(&[(inode(3), "i"), (inode(5), "i")])]);
        let gone = |chain: &Chain| chain.gone.keys().cloned().collect::<Vec<_>>();
        let expected = |keys: &[Vec<u8>]| if after > 0 { keys.to_vec() } else { vec![] };
        assert_eq!(gone(&chain), expected(&[inode(2)]));
        // Where it lay is known as long as its layout is there, and that of others is of no use.
        chain.take(&raw(&[(layout(5), "l")]).to_bytes().unwrap()).unwrap();
        assert_eq!(gone(&chain), expected(&[inode(2), layout(2)]));
        // One that was made anew of these says what it found to be gone.
        let mut anew = Chain::default();
        read(&mut anew, 1, OLD, &[begin(OLD, 3), first.clone(), whole()]);
        read(&mut anew, 1, NEW, &[begin(NEW, 3), raw(&[(inode(3), "i"), (inode(5), "i")])]);
        read(&mut anew, 1, NEW + 1, &[begin(NEW + 1, 0)]);
        assert_eq!(gone(&anew), [inode(2), inode(4)]);
        anew.take(&changes(9, "x", None).to_bytes().unwrap()).unwrap();
        assert!(anew.gone.is_empty());
        chain.take(&whole().to_bytes().unwrap()).unwrap();
        assert!(chain.gone.is_empty());
    }
}

#[test]
fn where_parts_of_a_ring_that_is_gone_lie_beside_its_layout_is_known_as_well() {
    let (inode, layout) = (|file| keys::inode(FileId(file)), |file| keys::layout(FileId(file)));
    let moves = |file| keys::ring_moves(FileId(file));
    let first =
        [(inode(2), "i"), (inode(3), "i"), (moves(2), "m"), (moves(3), "m"), (layout(2), "l"), (layout(3), "l")];
    let mut chain = Chain::default();
    read(&mut chain, 1, OLD, &[begin(OLD, 3), raw(&first), whole()]);
    // The other ring is there, and has no other places any more.
    read(&mut chain, 1, NEW, &[begin(NEW, 3), raw(&[(inode(3), "i"), (layout(3), "l")])]);
    assert!(chain.gone.keys().cloned().eq([inode(2), moves(2), layout(2)]));
}
