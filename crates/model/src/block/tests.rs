use super::{HEADER_LEN, Header, Packer, Stamp, View, parse_stamped};
use crate::error::Kind;
use crate::gap::{Cause, Gap};
use crate::time::Timestamp;

const STAMP: Stamp = Stamp {
    target: 7,
    ring: 3,
    segment: 9,
    slot: 2,
    index: 0,
    offset: 8192,
    durable_blocks: 0,
    epoch: 1,
    first_sequence: 100,
};

fn stamped(packer: &mut Packer<Vec<u8>>, stamp: &Stamp) -> Vec<u8> {
    let sealed = packer.seal().expect("something was packed");
    let mut bytes = sealed.buffer;
    bytes.truncate(sealed.length);
    Header::set_stamp(&mut bytes, stamp);
    bytes
}

#[test]
fn what_was_packed_is_read_back_in_order_with_its_gaps() {
    let mut packer = Packer::new(42);
    packer.give(vec![0xAA; 64 << 10]);
    let gap = Gap { cause: Cause::Kernel, count: Some(5), first: Timestamp(990), last: Timestamp(995) };
    assert!(packer.push(Timestamp(1000), &[b"he", b"llo"], b"k1"));
    assert!(packer.gap(&gap));
    assert!(packer.push(Timestamp(900), &[b""], b"k2"));
    assert!(packer.push(Timestamp(i64::MAX), &[b"x"], b"k3"));
    let bytes = stamped(&mut packer, &STAMP);
    assert_eq!(bytes.len(), 4096);
    let view = parse_stamped(&bytes, 7, 3, 9, 2, 8192).unwrap();
    view.verify().unwrap();
    let entries: Vec<_> = view.entries().map(Result::unwrap).collect();
    let read: Vec<_> = entries
        .iter()
        .map(|e| (e.sequence, e.time.0, &bytes[e.payload.clone()], &bytes[e.caller_keys.clone()]))
        .collect();
    assert_eq!(
        read,
        [
            (100, 1000, &b"hello"[..], &b"k1"[..]),
            (101, 900, &b""[..], &b"k2"[..]),
            (102, i64::MAX, &b"x"[..], &b"k3"[..])
        ]
    );
    assert_eq!(view.gaps().collect::<Vec<_>>(), [(1, gap)]);
    assert_eq!((view.header().min_time.get(), view.header().max_time.get()), (900, i64::MAX));
    assert_eq!(view.header().next_sequence(), 103);
}

#[test]
fn a_block_that_gaps_fill_has_room_for_its_directory() {
    let gap = Gap { cause: Cause::Rejected, count: Some(1), first: Timestamp(0), last: Timestamp(0) };
    for count in [1, 2, 3, 9, 40, 64, 65, 200, 1000] {
        for size in 0..90 {
            let mut packer = Packer::new(1);
            packer.give(vec![0; 128 << 10]);
            for n in 0..count {
                assert!(packer.push(Timestamp(n * 1_000_000), &[&[7; 90][..size]], b""));
            }
            let mut gaps = 0;
            while packer.gap(&gap) {
                gaps += 1;
            }
            let bytes = stamped(&mut packer, &STAMP);
            let view = parse_stamped(&bytes, 7, 3, 9, 2, 8192).unwrap();
            view.verify().unwrap();
            assert_eq!((view.entries().count(), view.gaps().count()), (count as usize, gaps), "{count} of {size}");
            assert!(bytes.len() == 128 << 10, "{count} of {size}: it is full");
        }
    }
}

#[test]
fn a_block_whose_elements_have_no_numbers_is_damaged() {
    let block = |first_sequence| {
        let mut packer = Packer::new(1);
        packer.give(vec![0; 4096]);
        (0..3).for_each(|n| assert!(packer.push(Timestamp(n), &[b"x"], b"")));
        stamped(&mut packer, &Stamp { first_sequence, ..STAMP })
    };
    assert_eq!(View::parse(&block(u64::MAX - 3)).unwrap().header().next_sequence(), u64::MAX);
    for first in [u64::MAX - 2, u64::MAX] {
        assert_eq!(View::parse(&block(first)).err().map(|error| error.kind), Some(Kind::Damaged));
    }
}

#[test]
fn an_element_larger_than_a_block_goes_on_in_the_next() {
    let mut packer = Packer::new(1);
    let data: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
    packer.give(vec![0; 4096]);
    assert!(packer.begin(Timestamp(5), b"key", 0));
    let mut rest = &data[..];
    let mut blocks = Vec::new();
    let mut sequence = 7;
    while !rest.is_empty() {
        let n = packer.part(rest);
        rest = &rest[n..];
        if rest.is_empty() {
            packer.end();
        }
        let bytes = stamped(&mut packer, &Stamp { first_sequence: sequence, ..STAMP });
        sequence = View::parse(&bytes).unwrap().header().next_sequence();
        blocks.push(bytes);
        packer.give(vec![0; 4096]);
    }
    assert_eq!((blocks.len(), sequence), (3, 8));
    let mut whole = Vec::new();
    for (i, bytes) in blocks.iter().enumerate() {
        let entries: Vec<_> = View::parse(bytes).unwrap().entries().map(Result::unwrap).collect();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].first, entries[0].last, entries[0].sequence), (i == 0, i == 2, 7));
        assert_eq!(&bytes[entries[0].caller_keys.clone()], b"key");
        whole.extend_from_slice(&bytes[entries[0].payload.clone()]);
    }
    assert_eq!(whole, data);
}

#[test]
fn an_element_that_is_abandoned_where_it_began_leaves_nothing() {
    let mut packer = Packer::new(1);
    packer.give(vec![0; 4096]);
    assert!(packer.push(Timestamp(1), &[b"before"], b"k1"));
    assert!(packer.begin(Timestamp(2), b"k2", 9));
    assert_eq!(packer.part(b"cut off"), 7);
    packer.abandon();
    assert!(packer.push(Timestamp(3), &[b"after"], b"k3"));
    let bytes = stamped(&mut packer, &STAMP);
    let view = View::parse(&bytes).unwrap();
    view.verify().unwrap();
    let entries: Vec<_> = view.entries().map(Result::unwrap).collect();
    let read: Vec<_> =
        entries.iter().map(|e| (e.sequence, &bytes[e.payload.clone()], &bytes[e.caller_keys.clone()])).collect();
    assert_eq!(read, [(100, &b"before"[..], &b"k1"[..]), (101, &b"after"[..], &b"k3"[..])]);
    assert_eq!((view.header().is_torn(), view.header().next_sequence()), (false, 102));
}

#[test]
fn an_element_that_is_abandoned_in_a_later_block_ends_there_torn() {
    let mut packer = Packer::new(1);
    packer.give(vec![0; 4096]);
    assert!(packer.begin(Timestamp(5), b"key", 0));
    assert!(packer.part(&[7; 5000]) < 5000);
    let first = stamped(&mut packer, &STAMP);
    assert!(View::parse(&first).unwrap().header().continues());
    // With bytes in the second block, or before there is a buffer for it.
    for bytes in [0, 100] {
        let mut packer = Packer::new(1);
        packer.give(vec![0; 4096]);
        assert!(packer.begin(Timestamp(5), b"key", 0));
        packer.part(&[7; 5000]);
        stamped(&mut packer, &STAMP);
        if bytes > 0 {
            packer.give(vec![0; 4096]);
            assert_eq!(packer.part(&vec![8; bytes]), bytes);
        }
        packer.abandon();
        if bytes == 0 {
            packer.give(vec![0; 4096]);
        }
        let gap = Gap { cause: Cause::Rejected, count: Some(1), first: Timestamp(5), last: Timestamp(5) };
        assert!(packer.gap(&gap));
        assert!(packer.push(Timestamp(6), &[b"next"], b"yek"));
        let second = stamped(&mut packer, &STAMP);
        let view = View::parse(&second).unwrap();
        view.verify().unwrap();
        let entries: Vec<_> = view.entries().map(Result::unwrap).collect();
        let read: Vec<_> = entries.iter().map(|e| (e.first, e.last, e.torn, &second[e.payload.clone()])).collect();
        assert_eq!(read, [(false, true, true, &b""[..]), (true, true, false, &b"next"[..])]);
        assert_eq!(&second[entries[1].caller_keys.clone()], b"yek");
        assert_eq!(view.gaps().collect::<Vec<_>>(), [(1, gap)]);
        assert_eq!(view.header().next_sequence(), 102, "the torn element keeps its number");
    }
}

#[test]
fn what_was_cut_off_a_frame_is_told_with_each_of_its_pieces() {
    let mut packer = Packer::new(1);
    packer.give(vec![0; 4096]);
    assert!(packer.push(Timestamp(1), &[b"whole"], b""));
    assert!(packer.push_cut(Timestamp(2), &[b"short"], b"", 1400));
    assert!(packer.push_cut(Timestamp(3), &[b"whole, too"], b"", 0));
    assert!(packer.begin(Timestamp(4), b"", 77));
    assert!(packer.part(&[1; 4000]) < 4000);
    let first = stamped(&mut packer, &STAMP);
    packer.give(vec![0; 4096]);
    packer.part(b"end");
    packer.end();
    let second = stamped(&mut packer, &STAMP);
    let cuts = |bytes: &[u8]| View::parse(bytes).unwrap().entries().map(|e| e.unwrap().cut).collect::<Vec<_>>();
    assert_eq!((cuts(&first), cuts(&second)), (vec![0, 1400, 0, 77], vec![77]));
    assert_eq!(View::parse(&first).unwrap().cuts().collect::<Vec<_>>(), [(1, 1400), (3, 77)]);
    View::parse(&first).unwrap().verify().unwrap();
}

#[test]
fn a_block_full_of_cut_frames_still_has_room_for_their_records() {
    let mut packer = Packer::new(1);
    packer.give(vec![0; 8192]);
    let mut n = 0;
    while packer.push_cut(Timestamp(n * n * 977), &[&[n as u8; 3][..n as usize % 4]], b"", n as u32 + 1) {
        n += 1;
    }
    let bytes = stamped(&mut packer, &STAMP);
    let view = View::parse(&bytes).unwrap();
    view.verify().unwrap();
    assert!(view.entries().enumerate().all(|(i, entry)| entry.unwrap().cut == i as u32 + 1));
    assert_eq!(view.header().entries.get() as i64, n);
}

#[test]
fn every_flipped_bit_is_found() {
    let mut packer = Packer::new(1);
    packer.give(vec![0; 4096]);
    assert!(packer.push_cut(Timestamp(1), &[&[7; 1000]], b"", 500));
    let bytes = stamped(&mut packer, &STAMP);
    let end = View::parse(&bytes).unwrap().header().end();
    assert!(end > HEADER_LEN + 1000);
    for bit in 0..end * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let found = View::parse(&flipped).and_then(|view| view.verify());
        assert!(found.is_err(), "bit {bit} was not missed");
    }
}

#[test]
fn a_block_read_from_another_place_is_not_there() {
    let mut packer = Packer::new(1);
    packer.give(vec![0; 4096]);
    assert!(packer.push(Timestamp(1), &[b"x"], b""));
    let bytes = stamped(&mut packer, &STAMP);
    for (target, ring, segment, slot, offset) in
        [(8, 3, 9, 2, 8192), (7, 4, 9, 2, 8192), (7, 3, 8, 2, 8192), (7, 3, 9, 1, 8192), (7, 3, 9, 2, 0)]
    {
        assert!(parse_stamped(&bytes, target, ring, segment, slot, offset).is_err());
    }
}

#[test]
fn a_full_block_refuses_and_keeps_what_it_has() {
    let mut packer = Packer::new(1);
    packer.give(vec![0; 8192]);
    let mut n = 0;
    while packer.push(Timestamp(n), &[&[n as u8; 20]], b"") {
        n += 1;
    }
    let bytes = stamped(&mut packer, &STAMP);
    assert_eq!(bytes.len(), 8192);
    assert_eq!(View::parse(&bytes).unwrap().entries().count() as i64, n);
    assert!(n > 8192 / 24, "{n} elements of 20 bytes");
}

#[test]
fn the_documented_table_is_the_code() {
    let doc = include_str!("../../../../docs/format/block.md");
    assert!(doc.contains(&super::table()), "docs/format/block.md must contain:\n{}", super::table());
}
