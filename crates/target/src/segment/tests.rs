use super::postings::{COARSEST, FINEST, Gathered, bound, encode, entry};
use super::{
    Builder, Description, IndexBudget, Owner, PAGE_LEN, TRAILER_LEN, Trailer, encode_footer, is_page, look_up,
};
use crate::catalog::{Origin, RingRecord, Segment, Writers};
use forebay_model::block::{Header, Packer, Stamp, View};
use forebay_model::key::{KeySet, KeyValue};
use forebay_model::query::Term;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Rate, RingId, Timestamp};

const OWNER: Owner = Owner { ring: 1, segment: 2 };

/// A stand-in for a value's hash: odd multiples spread over 64 bits.
fn hash(value: u64) -> u64 {
    value.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn gathered(postings: &[u64]) -> Gathered {
    Gathered { postings: postings.to_vec(), group: 0, dense_from: None }
}

#[test]
fn every_posting_is_found_in_one_or_two_pages_and_strangers_hardly_ever() {
    let mut postings: Vec<u64> = (0..100_000u64).map(|v| entry(hash(v), (v % 180) as u16)).collect();
    postings.sort_unstable();
    let mut pages = Vec::new();
    let index = encode(gathered(&postings), 180, FINEST, 0, OWNER, &mut pages);
    let spans = |h: u64| {
        let range = index.pages(h);
        assert!(range.len() <= 2, "{} pages for one value", range.len());
        let mut spans = Vec::new();
        for page in range {
            look_up(&index, &pages[page * PAGE_LEN..(page + 1) * PAGE_LEN], OWNER, h, &mut |s| spans.push(s)).unwrap();
        }
        spans
    };
    for v in 0..100_000 {
        assert!(spans(hash(v)).contains(&((v % 180) as u16)), "value {v}");
    }
    let strangers = (1_000_000..1_020_000).filter(|v| !spans(hash(*v)).is_empty()).count();
    assert!(strangers < 20_000 / 40, "{strangers} false spans in 20000 look-ups");
    assert!(pages.len() < 100_000 * 11 / 4, "{} bytes for 100000 postings", pages.len());
}

#[test]
fn a_value_in_all_spans_is_found_across_pages() {
    let mut postings: Vec<u64> =
        (0..180u16).map(|s| entry(hash(7), s)).chain((0..5000).map(|v| entry(hash(v + 100), 3))).collect();
    postings.sort_unstable();
    let mut pages = Vec::new();
    let index = encode(gathered(&postings), 180, FINEST, 0, OWNER, &mut pages);
    let mut spans = Vec::new();
    for page in index.pages(hash(7)) {
        look_up(&index, &pages[page * PAGE_LEN..(page + 1) * PAGE_LEN], OWNER, hash(7), &mut |s| spans.push(s))
            .unwrap();
    }
    spans.sort_unstable();
    spans.dedup();
    assert!((0..180).all(|s| spans.contains(&s)), "{spans:?}");
}

#[test]
fn a_page_of_an_earlier_life_of_the_segment_is_not_taken_for_it() {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    encode(gathered(&[entry(hash(1), 0)]), 1, FINEST, 0, OWNER, &mut first);
    let mut postings = [entry(hash(1), 0), entry(hash(2), 0)];
    postings.sort_unstable();
    let index = encode(gathered(&postings), 1, FINEST, 0, OWNER, &mut second);
    assert!(is_page(&index, 0, &second) && !is_page(&index, 0, &first));
}

#[test]
fn a_damaged_page_is_noticed() {
    let mut pages = Vec::new();
    let index = encode(gathered(&[entry(hash(1), 0)]), 1, FINEST, 0, OWNER, &mut pages);
    assert!(
        look_up(&index, &pages, Owner { segment: 1, ..OWNER }, hash(1), &mut |_| ()).is_err(),
        "a page of an earlier lap"
    );
    pages[20] ^= 1;
    assert!(look_up(&index, &pages, OWNER, hash(1), &mut |_| ()).is_err());
}

#[test]
fn pages_never_take_more_than_the_bound_whatever_the_values() {
    for (count, repeats) in [(1u64, 1u64), (2, 180), (900, 180), (40_000, 3), (150_000, 1), (5000, 30)] {
        for precision in COARSEST..=FINEST {
            for group in [0u8, 1, 7] {
                let spread = |v: u64, r: u64| entry(hash(v), (((v * 7 + r) % 180) >> group) as u16);
                let mut postings: Vec<u64> = (0..count).flat_map(|v| (0..repeats).map(move |r| spread(v, r))).collect();
                postings.sort_unstable();
                postings.dedup();
                let most = bound(postings.len() as u64, 180, group, precision);
                let mut pages = Vec::new();
                let gathered = Gathered { postings: postings.clone(), group, dense_from: None };
                let index = encode(gathered, 180, precision, 0, OWNER, &mut pages);
                let taken = pages.len() as u64 + 16 * index.firsts.len() as u64;
                assert!(taken <= most, "{count} values {repeats} times at {precision}, {group}: {taken} of {most}");
                for v in (0..count).step_by((count / 50).max(1) as usize) {
                    let mut spans = Vec::new();
                    for page in index.pages(hash(v)) {
                        let page = &pages[page * PAGE_LEN..(page + 1) * PAGE_LEN];
                        look_up(&index, page, OWNER, hash(v), &mut |s| spans.push(s)).unwrap();
                    }
                    assert!((0..repeats).all(|r| spans.contains(&(((v * 7 + r) % 180) as u16))), "value {v}");
                }
            }
        }
    }
}

/// A segment that is filled as a ring fills it, with elements of 20 bytes whose first eight say `value(number)`.
struct Filled {
    builder: Builder,
    end: u32,
    elements: u64,
    peak: Bytes,
}

const BLOCK: usize = 256 << 10;

fn fill(segment: Bytes, percent: u8, value: impl Fn(u64) -> u64) -> Filled {
    let keys = KeySet::parse(["id=u64le@0"]).unwrap();
    let mut builder = Builder::new(keys, IndexBudget::for_segment(segment, percent, 1));
    let (mut end, mut elements, mut peak) = (0, 0, Bytes::ZERO);
    let mut packer: Packer<Vec<u8>> = Packer::new(1);
    let mut next = 0;
    loop {
        packer.give(vec![0; BLOCK]);
        let mut element = [0u8; 20];
        loop {
            element[..8].copy_from_slice(&value(next).to_le_bytes());
            if !packer.push(Timestamp(0), &[&element], &[]) {
                break;
            }
            next += 1;
        }
        let mut sealed = packer.seal().unwrap();
        let bound = builder.footer_bound(sealed.entries);
        if u64::from(end) + sealed.length as u64 + bound > segment.0 {
            return Filled { builder, end, elements, peak };
        }
        let stamp = Stamp {
            target: 1,
            ring: 1,
            segment: 2,
            slot: 0,
            index: builder.blocks(),
            offset: end,
            durable_blocks: 0,
            epoch: 1,
            first_sequence: elements,
        };
        let view = View::of_sealed(&sealed.buffer).unwrap();
        builder.add(&view, end, elements).unwrap();
        Header::set_stamp(&mut sealed.buffer, &stamp);
        builder.stamped(Header::read(&sealed.buffer).unwrap().header_crc.get());
        (end, elements, peak) = (end + sealed.length as u32, next, peak.max(builder.memory()));
    }
}

fn trailer() -> Trailer {
    Trailer {
        target: 1,
        ring: 1,
        slot: 0,
        epoch: 1,
        summary: Segment::opened(2, 0),
        blocks: 0,
        durable_blocks: 0,
        tables_at: 0,
        tables_len: 0,
        tables_crc: 0,
        writers: Default::default(),
        description: None,
    }
}

#[test]
fn an_index_stays_within_its_budget_and_degrades_without_leaving_anything_out() {
    let segment = Bytes::mib(24);
    // Distinct in every element, in no order; 3000 values that come in every span; values that come for a while.
    let distinct = |n: u64| hash(n);
    let values: [(&str, &dyn Fn(u64) -> u64); 3] = [
        ("distinct", &distinct),
        ("again and again", &|n| hash(n * 31 % 30_000)),
        ("for a while", &|n| hash(n / 40_000 * 3000 + n % 3000)),
    ];
    for (name, value) in values {
        for percent in [1, 3, 8, 12] {
            let Filled { builder, end, elements, peak } = fill(segment, percent, value);
            let budget = IndexBudget::for_segment(segment, percent, 1);
            let (term, open) = (|n| Term::Equals { key: 0, value: KeyValue::unsigned(value(n), 8) }, &builder);
            let spans_of: Vec<(u64, u64)> = open.spans().iter().map(|s| (s.first, s.end)).collect();
            let in_memory: Vec<_> = (0..elements).step_by(997).map(|n| (n, open.holding(&term(n)))).collect();
            assert!(peak <= budget.memory(1), "{name}, {percent} %: {peak} of memory");
            let (start, bytes, tables) = encode_footer(builder, segment, trailer()).unwrap();
            assert!(start >= end, "{name}, {percent} %: the footer begins in the blocks");
            let index = &tables.keys[0];
            let pages = index.firsts.len() as u64 * PAGE_LEN as u64;
            assert!(pages <= budget.bytes, "{name}, {percent} %: {pages} of {}", budget.bytes);
            let owner = Owner { ring: 1, segment: 2 };
            let look = |n: u64| {
                let mut found = vec![false; tables.spans.len()];
                for page in index.pages(KeyValue::unsigned(value(n), 8).hash()) {
                    let at = (index.at - start) as usize + page * PAGE_LEN;
                    let hash = KeyValue::unsigned(value(n), 8).hash();
                    // The last group may reach beyond the last span.
                    let mut set = |s| found.get_mut(usize::from(s)).into_iter().for_each(|found| *found = true);
                    look_up(index, &bytes[at..at + PAGE_LEN], owner, hash, &mut set).unwrap();
                }
                (index.dense_from.map_or(found.len(), usize::from)..found.len()).for_each(|s| found[s] = true);
                found
            };
            let mut read = 0;
            for (n, set) in &in_memory {
                let span = spans_of.iter().position(|(first, end)| (first..end).contains(&n)).unwrap();
                let found = look(*n);
                assert!(found[span] && set.get(span), "{name}, {percent} %: element {n} is left out");
                read += found.iter().filter(|f| **f).count();
            }
            let mean = read as f64 / in_memory.len() as f64 / tables.spans.len() as f64;
            let (group, dense) = (index.group, index.dense_from);
            println!("{name}, {percent} %: {pages} B, group {group}, dense from {dense:?}, reads {:.3}", mean);
            match (name, percent) {
                ("distinct", 8 | 12) => assert!(mean < 0.04, "{mean} of a segment for one value"),
                // Of what cannot be told, a part is: not all of it is read.
                ("distinct", _) => assert!(mean < 1.0 && dense.is_some(), "{mean} of a segment for one value"),
                ("for a while", _) => assert!(dense.is_none(), "values that come again are told by groups"),
                _ => {}
            }
        }
    }
}

#[test]
fn no_budget_means_no_postings_and_everything_is_looked_at() {
    let Filled { builder, .. } = fill(Bytes::mib(2), 0, hash);
    let (_, _, tables) = encode_footer(builder, Bytes::mib(2), trailer()).unwrap();
    assert_eq!((tables.keys[0].firsts.len(), tables.keys[0].dense_from), (0, Some(0)));
}

#[test]
fn a_trailer_has_room_for_what_is_said_of_any_ring() {
    let mut spec = RingSpec::new(format!("/{}", "n".repeat(254)), Bytes(u64::MAX));
    (spec.guarantee, spec.segment, spec.block) = (Rate(u64::MAX), Bytes(u64::MAX), Bytes(u64::MAX));
    spec.keys = (0..16).map(|n| format!("a-long-name-of-a-key-{n}=u32le@4294967{n}")).collect();
    let mut record = RingRecord::empty(spec, Vec::new(), false, Origin { target: 1, ring: 2, epochs: u64::MAX });
    (record.since, record.fence) = (u64::MAX, u64::MAX);
    let mut writers = Writers::default();
    (0..40).for_each(|n| writers.saw(u64::MAX - n, u64::MAX));
    let mut summary = Segment::opened(u64::MAX, u64::MAX);
    (summary.end, summary.bytes) = (u64::MAX, u32::MAX);
    (summary.losses.elements, summary.losses.gaps) = ([u64::MAX; 8], [u64::MAX; 8]);
    (summary.min_time, summary.max_time) = (i64::MIN, i64::MAX);
    let mut said = Vec::new();
    for relatives in [0, 3, 100] {
        record.spec.relatives = (0..relatives).map(|n| format!("/{n}{}", "r".repeat(250))).collect();
        let description = Description::of(u128::MAX, RingId(u64::MAX), &record);
        said.push(description.as_ref().map(|it| it.spec.relatives.len()));
        let trailer = Trailer {
            target: u128::MAX,
            ring: u64::MAX,
            slot: u32::MAX,
            epoch: u64::MAX,
            summary,
            blocks: u32::MAX,
            durable_blocks: u32::MAX,
            tables_at: u32::MAX,
            tables_len: u32::MAX,
            tables_crc: u32::MAX,
            writers: writers.clone(),
            description,
        };
        let mut bytes = vec![0; TRAILER_LEN as usize];
        trailer.encode(&mut bytes).unwrap();
        assert_eq!(Trailer::decode(&bytes).unwrap(), trailer);
    }
    record.spec.keys = vec!["k".repeat(5000)];
    said.push(Description::of(1, RingId(1), &record).map(|it| it.spec.relatives.len()));
    assert_eq!(said, [Some(0), Some(3), Some(0), None]);
}
