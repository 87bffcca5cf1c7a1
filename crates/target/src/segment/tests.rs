use super::postings::{encode, entry};
use super::{Owner, PAGE_LEN, is_page, look_up};

const OWNER: Owner = Owner { ring: 1, segment: 2 };

/// A stand-in for a value's hash: odd multiples spread over 64 bits.
fn hash(value: u64) -> u64 {
    value.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn every_posting_is_found_in_one_or_two_pages_and_strangers_hardly_ever() {
    let mut postings: Vec<u64> = (0..100_000u64).map(|v| entry(hash(v), (v % 180) as u16)).collect();
    postings.sort_unstable();
    let mut pages = Vec::new();
    let index = encode(&postings, None, 0, OWNER, &mut pages);
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
    let index = encode(&postings, None, 0, OWNER, &mut pages);
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
    encode(&[entry(hash(1), 0)], None, 0, OWNER, &mut first);
    let mut postings = [entry(hash(1), 0), entry(hash(2), 0)];
    postings.sort_unstable();
    let index = encode(&postings, None, 0, OWNER, &mut second);
    assert!(is_page(&index, 0, &second) && !is_page(&index, 0, &first));
}

#[test]
fn a_damaged_page_is_noticed() {
    let mut pages = Vec::new();
    let index = encode(&[entry(hash(1), 0)], None, 0, OWNER, &mut pages);
    assert!(
        look_up(&index, &pages, Owner { segment: 1, ..OWNER }, hash(1), &mut |_| ()).is_err(),
        "a page of an earlier lap"
    );
    pages[20] ^= 1;
    assert!(look_up(&index, &pages, OWNER, hash(1), &mut |_| ()).is_err());
}
