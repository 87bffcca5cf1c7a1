use super::{MOST_ALLOCATORS, PER_PAGE, PageRecord, Root, decode_page, encode_page};
use crate::heap::allocator::{Allocator, Found};
use crate::heap::classes::{BLOCKS, Class};
use crate::heap::slot::{self, Stamp};
use forebay_model::block::crc32c;
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_model::{Kind, Timestamp};

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
        pages: vec![PageRecord { side: false, crc: 7 }, PageRecord { side: true, crc: 8 }],
    }
}

#[test]
fn the_bytes_are_those_of_version_1() {
    let of_root = crc32c(&root().encode());
    let mut allocator = Allocator::new(Class(3));
    allocator.start(0, 9);
    assert_eq!(allocator.take(), Found::Slot(0));
    let of_page = crc32c(&encode_page(STAMP, 4, [&allocator]));
    let of_slot = crc32c(&slot::header(STAMP, RecordId::new(1, 2, 3, false), b"record"));
    assert_eq!([of_root, of_page, of_slot], [3_356_426_209, 4_103_506_579, 399_255_047]);
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
fn a_root_has_room_for_as_many_allocators_as_a_heap_may_have() {
    let pages = MOST_ALLOCATORS.div_ceil(PER_PAGE) as usize;
    let full = Root {
        time: Timestamp(i64::MIN),
        root: Some(u64::MAX),
        allocators: MOST_ALLOCATORS,
        used_units: u32::MAX,
        table: vec![u32::MAX - 1; pages.div_ceil(8)],
        pages: vec![PageRecord { side: true, crc: u32::MAX }; pages],
        ..root()
    };
    assert_eq!(Root::decode(STAMP, &full.encode()).unwrap(), Some(full));
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
    let root = Root { allocators: PER_PAGE + 3, pages: vec![PageRecord { side: false, crc }; 2], ..root() };
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
