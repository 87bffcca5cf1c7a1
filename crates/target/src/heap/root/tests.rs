use super::{MOST_ALLOCATORS, MOST_TABLE, PAGE, PER_PAGE, PLACES_PER_UNIT, PageRecord, ROOT_LEN, Root};
use super::{decode_page, encode_page};
use crate::heap::allocator::{Allocator, Found};
use crate::heap::classes::{BLOCKS, Class};
use crate::heap::slot::{self, Stamp};
use forebay_model::block::crc32c;
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_model::{Bytes, Kind, Timestamp};

const STAMP: Stamp = Stamp { target: 1, heap: 2 };

fn root() -> Root {
    Root {
        target: STAMP.target,
        heap: STAMP.heap,
        commit: 3,
        time: Timestamp(4),
        root: Some(5),
        settings: HeapSettings::default(),
        used_units: 5000,
        allocators: 5,
        table: vec![8],
        pages: vec![PageRecord { place: 0, crc: 7 }, PageRecord { place: 5, crc: 8 }],
        places: 6,
        oldest: 2,
        archived: 1,
        archive_slots: 1,
        ladder: vec![(2, 77)],
    }
}

#[test]
fn the_bytes_are_those_of_version_1() {
    let of_root = crc32c(&root().encode());
    let mut allocator = Allocator::new(Class(3));
    allocator.start(0, 9);
    assert_eq!(allocator.take(), Found::Slot(0));
    let of_page = crc32c(&encode_page(STAMP, 4, [&allocator]));
    let of_slot = crc32c(&slot::header(STAMP, RecordId::new(1, 2, 3, false), slot::Role::Record, b"record"));
    assert_eq!([of_root, of_page, of_slot], [5_367_445, 4_103_506_579, 399_255_047]);
}

#[test]
fn a_root_goes_through_its_bytes_and_any_flipped_bit_is_noticed() {
    let bytes = root().encode();
    assert_eq!(Root::decode(STAMP, &bytes).unwrap(), Some(root()));
    for bit in 64..800 {
        let mut spoilt = bytes.clone();
        spoilt[bit / 8] ^= 1 << (bit % 8);
        let whole = bit / 8 >= super::PREFIX + postcard::to_stdvec(&root()).unwrap().len();
        assert_eq!(Root::decode(STAMP, &spoilt).is_ok(), whole, "bit {bit}");
    }
    assert_eq!(Root::decode(STAMP, &[0; 4096]).unwrap(), None);
    let error = Root::decode(Stamp { heap: 9, ..STAMP }, &bytes).unwrap_err();
    assert_eq!(error.kind, Kind::Damaged);
}

#[test]
fn a_root_says_in_its_first_page_how_long_it_is_and_no_longer_than_its_place() {
    let pages = |count: u32| Root {
        allocators: count * PER_PAGE,
        pages: vec![PageRecord { place: 15, crc: u32::MAX }; count as usize],
        places: 16,
        ..root()
    };
    for count in [2, 1000, 10_000] {
        let bytes = pages(count).encode();
        assert_eq!(Root::rest(&bytes[..PAGE]), Bytes((bytes.len() - PAGE) as u64), "{count}");
        assert_eq!(Root::decode(STAMP, &bytes).unwrap(), Some(pages(count)));
    }
    assert_eq!(Root::rest(&[0; PAGE]), Bytes(0));
    let mut spoilt = root().encode();
    spoilt[12..16].fill(0xff);
    assert_eq!(Root::rest(&spoilt[..PAGE]), ROOT_LEN - Bytes(PAGE as u64));
}

#[test]
fn a_root_has_room_for_as_many_allocators_as_a_heap_may_have() {
    let pages = MOST_ALLOCATORS.div_ceil(PER_PAGE) as usize;
    let places = MOST_TABLE as u32 * PLACES_PER_UNIT;
    let full = Root {
        commit: u64::MAX,
        time: Timestamp(i64::MIN),
        root: Some(u64::MAX),
        allocators: MOST_ALLOCATORS,
        used_units: u32::MAX,
        table: vec![u32::MAX - 1; MOST_TABLE],
        pages: vec![PageRecord { place: places - 1, crc: u32::MAX }; pages],
        places,
        oldest: u64::MAX,
        archived: u64::MAX,
        archive_slots: u64::MAX,
        ladder: vec![(u64::MAX, u64::MAX); 64],
        ..root()
    };
    assert_eq!(Root::decode(STAMP, &full.encode()).unwrap(), Some(full));
}

#[test]
fn from_any_commit_it_is_not_far_to_any_that_was_kept_before() {
    let mut roots = vec![Root { commit: 1, oldest: 1, archived: 0, ladder: vec![], ..root() }];
    for commit in 2..2000u64 {
        let last = roots.last().unwrap();
        // The id says which commit the record keeps.
        let ladder = last.ladder_with(RecordId::from_number(last.commit));
        assert!(ladder.len() <= 12);
        roots.push(Root { commit, archived: last.archived + 1, ladder, ..last.clone() });
    }
    for (from, to) in [(2000, 1), (1999, 1), (1999, 1998), (1500, 777), (1025, 1024), (1024, 3)] {
        let mut at = &roots[(from - 1).min(roots.len() - 1)];
        let mut steps = 0;
        while at.commit != to {
            let (commit, id) = at.towards(to).unwrap();
            assert!(commit == id.number() && commit < at.commit && commit >= to);
            at = &roots[commit as usize - 1];
            steps += 1;
        }
        assert!(steps <= 22, "{from} to {to}: {steps}");
    }
    assert_eq!(roots[0].towards(1), None);
}

#[test]
fn allocators_go_through_their_page() {
    let allocators: Vec<Allocator> = (0..3u8)
        .map(|class| {
            let mut allocator = Allocator::new(Class(class));
            (0..BLOCKS.min(usize::from(class) + 1)).for_each(|block| allocator.start(block, 20 + block as u32 * 10));
            for _ in 0..900 * (u32::from(class) + 1) {
                assert!(matches!(allocator.take(), Found::Slot(_)));
            }
            allocator
        })
        .collect();
    let page = encode_page(STAMP, PER_PAGE, &allocators);
    let crc = crc32c(&page);
    let root = Root { allocators: PER_PAGE + 3, pages: vec![PageRecord { place: 0, crc }; 2], ..root() };
    let read = decode_page(STAMP, &root, 1, &page).unwrap();
    assert_eq!(read.len(), 3);
    for (read, written) in read.iter().zip(&allocators) {
        assert_eq!((read.class(), read.starts(), read.live()), (written.class(), written.starts(), written.live()));
        assert_eq!(read.free(), written.free());
    }
    let mut spoilt = page.clone();
    spoilt[1500] ^= 1;
    assert_eq!(decode_page(STAMP, &root, 1, &spoilt).unwrap_err().kind, Kind::Damaged);
    assert_eq!(decode_page(STAMP, &root, 0, &page).unwrap_err().kind, Kind::Damaged, "another page");
}
