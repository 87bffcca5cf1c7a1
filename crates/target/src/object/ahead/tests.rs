use super::{ACTIVE, Contexts, FURTHEST, SKIP, Touched};
use crate::object::testing::id;
use crate::seeds::each;
use forebay_model::{Bytes, Moment};
use std::collections::BTreeMap;
use std::time::Duration;

const CACHE: Bytes = Bytes(150_000_000);
const ALL: Bytes = Bytes(u64::MAX);
const SIZE: u64 = 1 << 40;
const PIECE: u64 = 64 << 10;

fn at(seconds: u64) -> Moment {
    Moment(0) + Duration::from_secs(seconds)
}

/// A read of [`PIECE`] bytes in a cache of [`CACHE`].
fn read(contexts: &mut Contexts, object: u64, offset: u64, seconds: u64) -> Touched {
    contexts.read((id(object), SIZE), offset, PIECE, at(seconds), (CACHE, ALL))
}

#[test]
fn who_goes_on_has_more_and_more_read_ahead_up_to_six_mebibytes() {
    let mut contexts = Contexts::default();
    assert_eq!(read(&mut contexts, 1, 0, 0).ahead, 0..0, "one read tells nothing");
    let mut furthest = 0;
    let mut depths = Vec::new();
    for n in 1..200 {
        let end = (n + 1) * PIECE;
        let touched = read(&mut contexts, 1, n * PIECE, 0);
        assert_eq!(touched.number, 1, "it is the same context");
        if !touched.ahead.is_empty() {
            assert!(touched.ahead.start == furthest.max(end), "{:?} behind {furthest}", touched.ahead);
            furthest = touched.ahead.end;
            depths.push(furthest - end);
        }
        assert!(furthest - end <= FURTHEST.0 && furthest - end >= 448 << 10, "{} ahead", furthest - end);
    }
    assert!(depths.starts_with(&[512 << 10]) && depths.ends_with(&[FURTHEST.0]), "{depths:?}");
}

#[test]
fn a_skip_of_a_mebibyte_goes_on_and_a_longer_one_or_one_backwards_does_not() {
    for (offset, goes_on) in
        [(PIECE, true), (PIECE + SKIP.0, true), (PIECE + SKIP.0 + 1, false), (PIECE - 1, false), (0, false)]
    {
        let mut contexts = Contexts::default();
        read(&mut contexts, 1, 0, 0);
        let second = read(&mut contexts, 1, offset, 0);
        assert_eq!(second.number == 1, goes_on, "at {offset}");
        assert_eq!(!second.ahead.is_empty(), goes_on, "at {offset}");
    }
}

#[test]
fn an_object_has_as_many_contexts_as_readers_whoever_they_are() {
    let mut contexts = Contexts::default();
    for n in 0..100 {
        for reader in 0..20 {
            let touched = read(&mut contexts, 1, (reader << 30) + n * PIECE, 0);
            assert_eq!(touched.number, reader + 1);
        }
    }
    assert_eq!(contexts.streams(), 20);
}

#[test]
fn two_at_one_place_are_one() {
    let mut contexts = Contexts::default();
    for n in 0..5 {
        read(&mut contexts, 1, n * PIECE, 0);
    }
    let other = read(&mut contexts, 1, 4 * PIECE, 0);
    assert_eq!((other.number, other.forgotten), (1, vec![2]), "the one that went on is kept");
    assert_eq!(contexts.streams(), 1);
}

#[test]
fn shares_shrink_with_the_number_of_readers_and_grow_again_when_they_are_silent() {
    let mut contexts = Contexts::default();
    let furthest = |contexts: &mut Contexts, object, from, seconds| {
        let mut furthest = 0;
        for n in from..from + 100 {
            let touched = read(contexts, object, n * PIECE, seconds);
            if !touched.ahead.is_empty() {
                furthest = touched.ahead.end - (n + 1) * PIECE;
            }
        }
        furthest
    };
    for object in 2..=60 {
        read(&mut contexts, object, 0, 0);
        read(&mut contexts, object, PIECE, 0);
    }
    let crowded = furthest(&mut contexts, 1, 0, 0);
    assert!(crowded <= CACHE.0 / 60 && crowded > CACHE.0 / 60 - 4096, "{crowded} among 60");
    assert_eq!(contexts.share(CACHE), CACHE / 60);
    let alone = furthest(&mut contexts, 1, 100, ACTIVE.as_secs() + 1);
    assert_eq!((alone, contexts.streams()), (FURTHEST.0, 1));
}

#[test]
fn little_slack_reads_little_ahead_and_none_reads_nothing() {
    for (most, depth) in [(Bytes::kib(100), 100 << 10), (Bytes(0), 0), (Bytes(3000), 0)] {
        let mut contexts = Contexts::default();
        let mut furthest = 0;
        for n in 0..50 {
            let touched = contexts.read((id(1), SIZE), n * PIECE, PIECE, at(0), (CACHE, most));
            furthest = furthest.max(touched.ahead.end.saturating_sub((n + 1) * PIECE));
        }
        assert_eq!(furthest, depth, "with {most} to spare");
    }
}

#[test]
fn nothing_is_read_ahead_behind_the_end() {
    let mut contexts = Contexts::default();
    let size = 3 * PIECE + 100;
    let mut last = 0;
    for n in 0..4 {
        let length = PIECE.min(size - n * PIECE);
        let touched = contexts.read((id(1), size), n * PIECE, length, at(0), (CACHE, ALL));
        last = last.max(touched.ahead.end);
    }
    assert_eq!(last, size.next_multiple_of(4096));
}

#[test]
fn the_contexts_of_those_who_never_go_on_are_forgotten_first() {
    let mut contexts = Contexts::default();
    for n in 0..3 {
        read(&mut contexts, 1, n * PIECE, 0);
    }
    let mut forgotten = 0;
    for n in 0..100_000 {
        let gone = read(&mut contexts, 2, (n * 7_919 % 100_003) << 22, 0).forgotten;
        assert!(!gone.contains(&1), "the one that goes on stays");
        forgotten += gone.len();
    }
    assert!(forgotten > 90_000 && contexts.contexts.len() <= super::MOST, "{forgotten}");
    assert_eq!(contexts.contexts.len(), contexts.places.len());
    assert_eq!(contexts.contexts.len(), contexts.active.len() + contexts.idle.len());
    assert_eq!(read(&mut contexts, 1, 3 * PIECE, 0).number, 1);
}

#[test]
fn what_is_matched_is_what_a_plain_list_matches() {
    each(40, |random| {
        let mut contexts = Contexts::default();
        // Number of each context by object and last address.
        let mut model: BTreeMap<(u64, u64), (u64, u8)> = BTreeMap::new();
        let mut made = 0;
        for _ in 0..500 {
            let object = 1 + random.below(3);
            let last = model.keys().filter(|(o, _)| *o == object).map(|(_, last)| *last).collect::<Vec<_>>();
            let from = last.get(random.below(last.len().max(1) as u64) as usize).copied().unwrap_or(0);
            let offset = match random.below(4) {
                0 => random.below(1 << 24),
                1 => from + random.below(SKIP.0 + 2),
                _ => from,
            };
            let length = 1 + random.below(200_000);
            let touched = contexts.read((id(object), SIZE), offset, length, at(0), (CACHE, ALL));
            let near = model.range((object, offset.saturating_sub(SKIP.0))..=(object, offset)).next_back();
            let mut expected = match near.map(|(place, _)| *place) {
                Some(place) => model.remove(&place).map(|(number, count)| (number, (count + 1).min(5))).unwrap(),
                None => {
                    made += 1;
                    (made, 0)
                }
            };
            if let Some(other) = model.remove(&(object, offset + length))
                && other.1 > expected.1
            {
                expected = other;
            }
            model.insert((object, offset + length), expected);
            assert_eq!(touched.number, expected.0);
        }
        assert_eq!(contexts.contexts.len(), model.len());
    });
}
