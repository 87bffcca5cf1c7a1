//! The pages about the bytes on a device name every field, in the order in which it is written.

use forebay_model::block::crc32c;
use forebay_model::key::KeySet;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Profile, TargetId, Timestamp};
use forebay_target::catalog::{Catalog, RingRecord, Segment, Writers};
use forebay_target::layout::Layout;
use forebay_target::segment::{Builder, IndexBudget, KeyIndex, Span, Trailer, encode_footer};
use forebay_target::superblock::Superblock;
use std::fmt::Debug;

/// The names of a structure's own fields, as its declaration has them: postcard writes them in this order.
fn fields(value: &impl Debug) -> Vec<String> {
    let text = format!("{value:#?}");
    let own = text.lines().filter_map(|line| line.strip_prefix("    "));
    own.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Whether `page` has `names`, each as `prefix.name` or as a word in backquotes, in this order.
fn names_in_order(page: &str, prefix: &str, names: &[String]) {
    let mut rest = page;
    assert!(!names.is_empty());
    for name in names {
        let whole = format!("`{prefix}{name}");
        let at = rest.find(&whole).unwrap_or_else(|| panic!("{whole}` is missing, or before its place"));
        rest = &rest[at + whole.len()..];
    }
}

fn superblock() -> Superblock {
    let size = Bytes::mib(64);
    Superblock {
        target: TargetId(0x0123_4567_89ab_cdef),
        formatted: Timestamp(-5),
        layout: Layout::for_device(size).expect("64 MiB can be formatted"),
        generation: 300,
        checkpoint_len: 1000,
        checkpoint_crc: 7,
        profile: Profile::guess(size, true),
    }
}

fn trailer() -> Trailer {
    Trailer {
        target: 1,
        ring: 2,
        slot: 3,
        epoch: 4,
        summary: Segment::opened(5, 6),
        blocks: 0,
        durable_blocks: 0,
        tables_at: 0,
        tables_len: 0,
        tables_crc: 0,
        writers: Writers::default(),
    }
}

#[test]
fn the_page_of_the_superblock_has_its_fields() {
    let (page, superblock) = (include_str!("../../../docs/format/superblock.md"), superblock());
    let own = fields(&superblock);
    assert_eq!(own, ["target", "formatted", "layout", "generation", "checkpoint_len", "checkpoint_crc", "profile"]);
    let body = page.split_once("## Body").unwrap().1;
    names_in_order(body, "", &["target".into(), "formatted".into(), "layout".into(), "generation".into()]);
    names_in_order(body, "layout.", &fields(&superblock.layout));
    names_in_order(body, "profile.", &fields(&superblock.profile));
    names_in_order(body.split_once("A point is").unwrap().1, "", &fields(&superblock.profile.points[0]));
    let mut root = vec![0; 65536];
    superblock.encode(&mut root).unwrap();
    let word = |at: usize| u32::from_le_bytes(root[at..at + 4].try_into().unwrap());
    assert_eq!((&root[..8], word(8)), (&b"FOREBAY\0"[..], 1));
    assert_eq!(word(16), crc32c(&root[..16]) ^ crc32c(&root[20..20 + word(12) as usize]));
    assert_eq!(&root[20..29], [0xef, 0x9b, 0xaf, 0xcd, 0xf8, 0xac, 0xd1, 0x91, 0x01], "the target, as a varint");
    assert_eq!(root[29], 9, "the time, as a zigzag varint");
}

#[test]
fn the_page_of_the_checkpoint_has_its_fields() {
    let page = include_str!("../../../docs/format/checkpoint.md");
    let layout = superblock().layout;
    names_in_order(page.split_once("## Catalog").unwrap().1, "", &fields(&Catalog::fresh(&layout)));
    let spec = RingSpec::new("/a", Bytes::mib(1));
    names_in_order(page, "spec.", &fields(&spec));
    let record = RingRecord {
        spec,
        groups: Vec::new(),
        without_logs: false,
        segment: Bytes(0),
        slots: Vec::new(),
        path: Vec::new(),
        path_segment: 0,
        path_element: 0,
        durable_end: 0,
        doubtful_before: 0,
        pins: Vec::new(),
        writers: Writers::default(),
    };
    names_in_order(page.split_once("`spec.relatives`").unwrap().1, "", &fields(&record)[1..]);
    let segment = fields(&Segment::opened(1, 2));
    names_in_order(page.split_once("Segment (also").unwrap().1, "", &segment);
}

#[test]
fn the_page_of_the_segment_has_its_fields() {
    let page = include_str!("../../../docs/format/segment.md");
    names_in_order(page.split_once("## Trailer").unwrap().1, "", &fields(&trailer()));
    let span = Span {
        offset: 0,
        length: 0,
        first_block: 0,
        blocks: 0,
        first: 0,
        end: 0,
        min_time: 0,
        max_time: 0,
        gaps: false,
        continues: false,
        crc: 0,
        keys: Vec::new(),
    };
    names_in_order(page.split_once("| span |").unwrap().1, "", &fields(&span));
    let index = KeyIndex {
        at: 0,
        firsts: Vec::new(),
        hash_bits: 1,
        group_bits: 0,
        group: 0,
        rice: 0,
        dense_from: None,
        checksums: Vec::new(),
    };
    names_in_order(page.split_once("| key index |").unwrap().1, "", &fields(&index));
    let segment = Bytes::kib(256);
    let builder = Builder::new(KeySet::default(), IndexBudget::for_segment(segment, 0, 0));
    let (start, footer, _) = encode_footer(builder, segment, trailer()).unwrap();
    let end = &footer[footer.len() - 4096..];
    assert_eq!(u64::from(start) + footer.len() as u64, segment.0, "a footer ends with the segment");
    assert_eq!((&end[..8], end[8]), (&b"FBRTRAIL"[..], 1));
    assert_eq!(Trailer::decode(end).unwrap().summary.sequence, 5);
}
