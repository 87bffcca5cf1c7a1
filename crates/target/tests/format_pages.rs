//! The pages about the bytes on a device name every field, in the order in which it is written.

use forebay_model::block::crc32c;
use forebay_model::heap::{HeapMode, HeapSettings};
use forebay_model::key::KeySet;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, ObjectId, Profile, RingId, TargetId, Timestamp};
use forebay_target::catalog::{
    Catalog, GroupClass, HeapRecord, ObjectsRecord, Origin, RingRecord, ScrubPlace, ScrubRecord, Segment, Writers,
};
use forebay_target::heap;
use forebay_target::layout::Layout;
use forebay_target::object::logs::LogRecord;
use forebay_target::object::record::{self, Change, Stamp, Write};
use forebay_target::object::rows::{
    self, Crcs, Head, Key, LEAF_MAGIC, LEAF_VERSION, Logged, Part, Piece, Quota, Row, Rows, Shared, Volume, encode_leaf,
};
use forebay_target::object::tree::{LeafRecord, Place};
use forebay_target::ring::portrait::Portrait;
use forebay_target::segment::{Builder, Description, IndexBudget, KeyIndex, Span, Trailer, encode_footer};
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
        mark: 5 << 90,
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
        description: None,
    }
}

#[test]
fn the_page_of_the_superblock_has_its_fields() {
    let (page, superblock) = (include_str!("../../../docs/format/superblock.md"), superblock());
    let own = fields(&superblock);
    assert_eq!(
        own,
        ["target", "mark", "formatted", "layout", "generation", "checkpoint_len", "checkpoint_crc", "profile"]
    );
    let body = page.split_once("## Body").unwrap().1;
    names_in_order(
        body,
        "",
        &["target".into(), "mark".into(), "formatted".into(), "layout".into(), "generation".into()],
    );
    names_in_order(body, "layout.", &fields(&superblock.layout));
    names_in_order(body, "profile.", &fields(&superblock.profile));
    names_in_order(body.split_once("A point is").unwrap().1, "", &fields(&superblock.profile.points[0]));
    let mut root = vec![0; 65536];
    superblock.encode(&mut root).unwrap();
    let word = |at: usize| u32::from_le_bytes(root[at..at + 4].try_into().unwrap());
    assert_eq!((&root[..8], word(8)), (&b"FOREBAY\0"[..], 1));
    assert_eq!(word(16), crc32c(&root[..16]) ^ crc32c(&root[20..20 + word(12) as usize]));
    assert_eq!(&root[20..29], [0xef, 0x9b, 0xaf, 0xcd, 0xf8, 0xac, 0xd1, 0x91, 0x01], "the target, as a varint");
    assert_eq!(
        root[29..44],
        [&[0x80; 12][..], &[0xc0, 2, 9][..]].concat(),
        "the mark, and the time as a zigzag varint"
    );
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
        fence: 0,
        begins: 0,
        origin: Origin::here(1, RingId(1)),
        since: 0,
        anew: None,
    };
    names_in_order(page.split_once("`spec.spread`").unwrap().1, "", &fields(&record)[1..]);
    let place = ScrubPlace::Ring(RingId(1), 1);
    let scrub = ScrubRecord { began: Timestamp(0), place, done: 0, damaged: 0 };
    names_in_order(page.split_once("Scrub:").unwrap().1, "", &fields(&scrub));
    let places = [place, ScrubPlace::Objects(Key::FIRST), ScrubPlace::Heap(1, 1)];
    for (place, words) in places.iter().zip(["0 ring(", "1 objects(", "2 heap("]) {
        assert_eq!(case(place).to_string(), words[..1]);
        assert!(page.contains(words), "{words} is missing");
    }
    let segment = fields(&Segment::opened(1, 2));
    names_in_order(page.split_once("Segment (also").unwrap().1, "", &segment);
}

#[test]
fn the_page_of_heaps_has_their_fields() {
    let page = include_str!("../../../docs/format/heap.md");
    let root = heap::root::Root {
        target: 1,
        heap: 1,
        commit: 1,
        time: Timestamp(0),
        root: None,
        settings: HeapSettings::default(),
        used_units: 8,
        allocators: 0,
        table: Vec::new(),
        pages: Vec::new(),
        places: 0,
        oldest: 1,
        archived: 0,
        archive_slots: 0,
        ladder: Vec::new(),
    };
    let own = fields(&root);
    let (before, behind) = own.split_at(own.iter().position(|name| name == "settings").unwrap());
    names_in_order(page, "", before);
    names_in_order(page, "settings.", &fields(&root.settings));
    names_in_order(page, "", &behind[1..]);
    for (mode, words) in [(HeapMode::ReadWrite, "0 read and write"), (HeapMode::Worm, "1 write once")] {
        assert_eq!(case(&mode).to_string(), words[..1]);
        assert!(page.contains(words), "{words} is missing");
    }
    let sizes = heap::classes::SLOTS.map(|slot| slot.to_string());
    let (last, others) = sizes.split_last().unwrap();
    assert!(page.contains(&format!("{} and {last} bytes", others.join(", "))), "sizes of slots");
    let most = heap::root::MOST_ALLOCATORS;
    assert!(page.contains(&format!("at most {},{:03}", most / 1000, most % 1000)), "allocators at most: {most}");
    let checkpoint = include_str!("../../../docs/format/checkpoint.md");
    let stamp = heap::slot::Stamp { target: 1, heap: 2 };
    let record = HeapRecord { name: String::new(), groups: Vec::new(), stamp };
    names_in_order(checkpoint.split_once("\nHeap: ").unwrap().1, "", &fields(&record));
}

#[test]
fn the_page_of_the_segment_has_its_fields() {
    let page = include_str!("../../../docs/format/segment.md");
    names_in_order(page.split_once("## Trailer").unwrap().1, "", &fields(&trailer()));
    let spec = RingSpec::new("/a", Bytes::mib(1));
    let record = RingRecord::empty(spec, Vec::new(), false, Origin::here(1, RingId(1)));
    let description = Description::of(1, RingId(1), &record).expect("it is short");
    names_in_order(page.split_once("\nDescription:").unwrap().1, "", &fields(&description));
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

fn head() -> Head {
    let now = Timestamp(0);
    Head { size: 0, created: now, modified: now, changed: now, version: 0, blocks: 0, volume: None }
}

/// The number of a case, as postcard writes it.
fn case(value: &impl serde::Serialize) -> u8 {
    postcard::to_stdvec(value).expect("it can be encoded")[0]
}

#[test]
fn the_page_of_objects_has_their_fields_and_cases() {
    let page = include_str!("../../../docs/format/objects.md");
    let part = |title: &str| page.split_once(title).unwrap_or_else(|| panic!("there is no {title}")).1;
    names_in_order(part("\nHead:"), "", &fields(&head()));
    let volume = Volume::default();
    names_in_order(part("\nVolume:"), "", &fields(&volume)[..2]);
    names_in_order(part("\nVolume:"), "quota.", &fields(&volume.quota));
    let piece = Piece { at: 1, crcs: Crcs(vec![2]) };
    names_in_order(part("\nPiece:"), "", &fields(&piece));
    let logged = Logged { at: 1, crc: 2 };
    names_in_order(part("\nLogged:"), "", &fields(&logged));
    let shared = Shared { blocks: 1, more: 2 };
    names_in_order(part("\nShared:"), "", &fields(&shared));
    names_in_order(part("## In the catalog"), "", &fields(&ObjectsRecord::default()));
    let record = LeafRecord { first: Key::FIRST, place: Place { at: 1, blocks: 2, crc: 3 } };
    assert_eq!(fields(&record), ["first", "place"]);
    names_in_order(part("\nNamed leaf:"), "place.", &fields(&record.place));
    names_in_order(part("\nLog:"), "", &fields(&LogRecord { group: 1, filled: 2, live: 3 }));
    let rows = [
        Row::Head(head()),
        Row::Attribute(Vec::new()),
        Row::Inline(Vec::new()),
        Row::Piece(piece),
        Row::Logged(logged),
        Row::Free(Vec::new()),
        Row::Shared(shared),
    ];
    let parts = [
        Part::Head,
        Part::Attribute { page: 0, number: 0 },
        Part::Inline,
        Part::Piece(0),
        Part::Logged(0),
        Part::Free(0),
        Part::Shared(0),
    ];
    let words = ["head", "attribute(", "inline", "piece(", "logged(", "free(", "shared("];
    let mut rest = part("Key: `id.volume` `u64`, `id.object` `u64`, then `part`");
    for (n, (row, (part, word))) in (0..).zip(rows.iter().zip(parts.iter().zip(words))) {
        assert_eq!((case(row), case(part)), (n, n));
        let name = format!("{row:?}");
        let name = &name[..name.find('(').unwrap()];
        assert!(page.contains(&format!("| {n} `{name}` |")), "case {n} of a row is {name}");
        rest = rest.split_once(&format!("{n} {word}")).unwrap_or_else(|| panic!("case {n} of a key is {word}")).1;
    }
    let key = Key { id: ObjectId { volume: 300, object: 5 }, part: Part::Logged(7) };
    assert_eq!(postcard::to_stdvec(&key).unwrap(), [0xac, 2, 5, 4, 7]);
}

#[test]
fn the_page_of_objects_has_the_bytes_of_a_leaf() {
    let page = include_str!("../../../docs/format/objects.md");
    let rows = Rows::from([(Key::free(2), Row::Free(vec![(3, 4)]))]);
    let leaf = encode_leaf(TargetId(5), Key::FIRST, &rows).unwrap();
    let word = |at: usize| u32::from_le_bytes(leaf[at..at + 4].try_into().unwrap());
    assert_eq!((&leaf[..8], word(8), leaf.len()), (&LEAF_MAGIC[..], LEAF_VERSION, 4096));
    assert_eq!((&LEAF_MAGIC, LEAF_VERSION), (b"FBLEAF\0\0", 1));
    let body = &leaf[20..20 + word(12) as usize];
    assert_eq!(word(16), crc32c(&leaf[..16]) ^ crc32c(body));
    // The target, the leaf's key, one row: its key, its case, its runs.
    assert_eq!(body, [5, 0, 0, 0, 1, 0, 0, 5, 2, 5, 1, 3, 4]);
    assert!(leaf[20 + body.len()..].iter().all(|byte| *byte == 0));
    assert!(page.contains("| 0 | 8 | magic: `FBLEAF` and two zero bytes |"));
    assert_eq!((rows::BLOCK, rows::PIECE_BLOCKS, rows::LEAF_SPLIT), (Bytes(4096), 1024, 48 << 10));
}

#[test]
fn the_page_of_logs_has_the_bytes_of_a_record_and_all_changes() {
    let page = include_str!("../../../docs/format/log.md");
    let (id, time) = (ObjectId { volume: 1, object: 2 }, Timestamp(0));
    let write =
        Write { id, time, size: 0, commands: 1, dropped: None, logged: Vec::new(), inline: None, pieces: Vec::new() };
    names_in_order(page.split_once("Write:").unwrap().1, "", &fields(&write));
    let changes = [
        Change::Create { id, head: head() },
        Change::Remove { id },
        Change::Write(write),
        Change::Move { id, pieces: Vec::new() },
        Change::Attributes { id, time, set: Vec::new() },
        Change::Quota { id, time, quota: Quota::default() },
        Change::Opens(vec![7]),
        Change::Snapshot { id, of: id, time },
        Change::Copy { id, logged: vec![(1, Crcs(vec![2]))] },
    ];
    for (n, change) in (0..).zip(&changes) {
        assert_eq!(case(change), n);
        let debug = format!("{change:?}");
        let name = debug.split([' ', '(']).next().unwrap();
        let row = page.lines().find(|line| line.starts_with(&format!("| {n} `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("case {n} of a change is {name}"));
        if !matches!(change, Change::Write(_) | Change::Opens(_)) {
            names_in_order(row, "", &fields(change));
        }
    }
    let stamp = Stamp { mark: 1 << 100 | 16, epoch: 32, number: 40, durable: 48, group: 56, block: 60 };
    let mut bytes = record::encode(&changes).unwrap();
    record::finish(&mut bytes, &stamp, 72);
    let table = page.split_once("| at | bytes | field |").unwrap().1;
    names_in_order(table, "", &fields(&stamp));
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((&bytes[..8], word(8), bytes.len()), (&b"FBLOGREC"[..], 1, 4096));
    assert_eq!(word(12), crc32c(&bytes[..12]) ^ crc32c(&bytes[16..80]));
    assert_eq!((long(16), long(24)), (16, 1 << 36));
    let mut next = 16;
    for (name, at, length) in
        [("mark", 16, 16), ("epoch", 32, 8), ("number", 40, 8), ("durable", 48, 8), ("group", 56, 4), ("block", 60, 4)]
    {
        assert!(table.contains(&format!("| {at} | {length} | `{name}`")), "{name}");
        let value = if length == 4 { u64::from(word(at)) } else { long(at) };
        assert_eq!((value, next), (at as u64, at), "{name}");
        next += length;
    }
    let body = &bytes[80..80 + word(64) as usize];
    assert_eq!((word(68), word(72), word(76)), (crc32c(body), 72, 0));
    assert_eq!(body[0] as usize, changes.len());
    assert_eq!(record::HEADER, 80);
}

#[test]
fn the_page_of_the_checkpoint_has_all_owners_of_groups() {
    let page = include_str!("../../../docs/format/checkpoint.md");
    let owners = [
        (GroupClass::Free, "0 free"),
        (GroupClass::Ring(RingId(1)), "1 ring("),
        (GroupClass::RingWithoutLog(RingId(1)), "2 ring without logs("),
        (GroupClass::Objects, "3 objects' bytes"),
        (GroupClass::Tables, "4 tables of objects"),
        (GroupClass::Heap(1), "5 heap("),
    ];
    let mut rest = page.split_once("| `groups` | [owner] |").unwrap().1;
    for (owner, words) in owners {
        assert_eq!(case(&owner).to_string(), words[..1]);
        rest = rest.split_once(words).unwrap_or_else(|| panic!("{words} is missing")).1;
    }
}

#[test]
fn the_page_of_commands_has_the_fields_of_a_portrait() {
    let page = include_str!("../../../docs/protocol/commands.md");
    let portrait = Portrait {
        spec: RingSpec::new("/a", Bytes::mib(1)),
        places: vec![true],
        without_logs: false,
        slots: 3,
        segments: vec![(0, Segment::opened(1, 2))],
        path: vec![1],
        path_segment: 2,
        path_element: 3,
        durable_end: 4,
        doubtful_before: 5,
        pins: Vec::new(),
        writers: Writers::default(),
        begins: 6,
        origin: Origin::here(7, RingId(8)),
    };
    names_in_order(page.split_once("A portrait is postcard").unwrap().1, "", &fields(&portrait));
}
