use super::cursor::{Cursor, MOST_NESTED, MOST_TEXT};
use super::{Answer, Event, check_text, conjunction, later, visit_within};
use crate::fake::{Chance, Fake, seed};
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, RingSpec};
use forebay_model::{Bytes, Cause, Gap, Kind, Result, Timestamp};
use forebay_wire::command::QueryRequest;
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq)]
enum Got {
    Element(u64, Vec<u8>, Vec<u8>),
    Gap(Gap),
    Expired(u64, u64),
}

fn collect(answer: &mut Answer) -> Result<Vec<Got>> {
    let mut got = Vec::new();
    answer.for_each(|event| {
        got.push(match event {
            Event::Element { sequence, payload, caller, .. } => {
                Got::Element(sequence, payload.to_vec(), caller.to_vec())
            }
            Event::Gap(gap) => Got::Gap(gap),
            Event::Expired { from, to } => Got::Expired(from, to),
        });
        Ok(true)
    })?;
    Ok(got)
}

fn fake() -> Arc<Fake> {
    Fake::new(RingSpec::new("/a", Bytes::mib(4)), 1)
}

fn request(limit: Option<u64>) -> QueryRequest {
    QueryRequest {
        ring: "/a".into(),
        text: "id = 7 or id = 9".into(),
        now: Timestamp(5),
        follow: false,
        limit,
        gaps_only: false,
        blocks: false,
        numbered: false,
    }
}

fn open(fake: &Arc<Fake>, limit: Option<u64>) -> Answer {
    Answer::open(Arc::new(fake.clone()), request(limit)).expect("an answer")
}

fn piece_of(sequence: u64, time: i64, bytes: &[u8], first: bool, last: bool) -> Item {
    Item::Element { sequence, time: Timestamp(time), length: bytes.len() as u32, caller: 2, cut: 0, first, last }
}

/// Elements with holes between them, some in pieces, and gaps.
fn content(chance: &mut Chance) -> (Batch, Vec<Got>) {
    let (mut batch, mut want, mut sequence) = (Batch::default(), Vec::new(), 1);
    for n in 0..60 {
        if chance.below(4) == 0 {
            let gap = Gap { cause: Cause::Kernel, count: Some(n), first: Timestamp(0), last: Timestamp(1) };
            batch.items.push(Item::Gap(gap));
            want.push(Got::Gap(gap));
        }
        // Sometimes one that was cut off by its source, and sometimes the next has its number.
        if chance.below(6) == 0 {
            for piece in 0..1 + chance.below(3) {
                let bytes: Vec<u8> = (0..chance.below(9)).map(|_| chance.next() as u8).collect();
                batch.items.push(piece_of(sequence, n as i64, &bytes, piece == 0, false));
                batch.payload.extend_from_slice(&bytes);
                batch.payload.extend_from_slice(b"kk");
            }
            for count in 0..1 + chance.below(2) {
                let gap = Gap { cause: Cause::Rejected, count: Some(count), first: Timestamp(0), last: Timestamp(1) };
                batch.items.push(Item::Gap(gap));
                want.push(Got::Gap(gap));
            }
            sequence += chance.below(2);
        }
        let pieces = if chance.below(3) == 0 { 1 + chance.below(4) } else { 1 };
        let mut whole = Vec::new();
        for piece in 0..pieces {
            let bytes: Vec<u8> = (0..chance.below(9)).map(|_| chance.next() as u8).collect();
            batch.items.push(piece_of(sequence, n as i64, &bytes, piece == 0, piece + 1 == pieces));
            batch.payload.extend_from_slice(&bytes);
            batch.payload.extend_from_slice(b"kk");
            whole.extend_from_slice(&bytes);
        }
        want.push(Got::Element(sequence, whole, b"kk".to_vec()));
        sequence += 1 + chance.below(3);
    }
    (batch, want)
}

#[test]
fn an_answer_that_breaks_off_anywhere_goes_on_as_if_it_had_not() {
    let first = seed("ANSWER_SEED");
    for round in first..first + 500 {
        let mut chance = Chance(round);
        let (items, want) = content(&mut chance);
        let fake = fake();
        {
            let mut state = fake.state();
            state.items = items;
            state.chance = chance;
            state.query_breaks = true;
        }
        let mut answer = open(&fake, None);
        let got = collect(&mut answer).expect("it goes on");
        assert_eq!(got, want, "ANSWER_SEED={round}");
        assert_eq!(answer.summary().map(|s| s.elements), Some(60));
        assert!(fake.state().queries.iter().all(|q| q.now == Timestamp(5)));
    }
}

#[test]
fn a_limit_counts_over_a_break() {
    for round in 1..100 {
        let mut chance = Chance(round);
        let (items, want) = content(&mut chance);
        let want: Vec<Got> = want.into_iter().filter(|got| matches!(got, Got::Element(..))).take(20).collect();
        let fake = fake();
        {
            let mut state = fake.state();
            state.items = items;
            state.chance = chance;
            state.query_breaks = true;
        }
        let got = collect(&mut open(&fake, Some(20))).expect("it goes on");
        let got: Vec<Got> = got.into_iter().filter(|got| matches!(got, Got::Element(..))).collect();
        assert_eq!(got, want, "round {round}");
    }
}

#[test]
fn an_answer_that_never_comes_is_given_up() {
    let fake = fake();
    fake.state().silent = true;
    let mut answer = open(&fake, None);
    assert_eq!(collect(&mut answer).expect_err("nobody answers").kind, Kind::Disconnected);
    assert_eq!(fake.state().queries.len(), 9);
    assert_eq!(answer.next_batch(), Ok(None), "an answer ends once");
}

#[test]
fn an_element_that_is_too_large_to_be_joined_is_named_with_the_numbers_and_smaller_ones_are_whole() {
    let mut batch = Batch::default();
    for (sequence, pieces) in [(1, &[4, 6][..]), (2, &[50]), (3, &[5, 5, 1])] {
        for (n, length) in pieces.iter().enumerate() {
            let bytes = vec![7; *length];
            batch.items.push(piece_of(sequence, 0, &bytes, n == 0, n + 1 == pieces.len()));
            batch.payload.extend_from_slice(&bytes);
            batch.payload.extend_from_slice(b"k1");
        }
    }
    let (mut joined, mut got) = (Vec::new(), Vec::new());
    let mut visit = |event: Event<'_>| {
        if let Event::Element { sequence, payload, .. } = event {
            got.push((sequence, payload.len()));
        }
        Ok(true)
    };
    let error = visit_within(Bytes(10), &batch, &mut joined, &mut visit).expect_err("too large");
    assert_eq!(got, [(1, 10), (2, 50)], "what comes in one piece is not joined");
    assert!(error.message.contains("element 3 has 11 B") && error.message.contains("10 B"), "{error}");
    assert!(joined.len() <= 10);
}

#[test]
fn what_expires_before_the_first_element_of_a_broken_answer_is_told_and_no_new_gap_is_taken_for_an_old_one() {
    let gap = |n: i64| Item::Gap(Gap { cause: Cause::Kernel, count: Some(1), first: Timestamp(n), last: Timestamp(n) });
    let expired = |from: u64, to: u64| Item::Expired { from, to };
    let batch = |items: &[Item]| Batch { items: items.to_vec(), payload: Vec::new() };
    let mut cursor = Cursor::default();
    let mut answered = |items: &[Item]| {
        assert_eq!(cursor.resume(&request(None)), request(None), "no element was given");
        cursor.pass(batch(items)).items
    };
    let first = [expired(0, 100), gap(1), gap(2)];
    assert_eq!(answered(&first), first);
    assert_eq!(answered(&first), [], "nothing is given twice");
    assert_eq!(answered(&[expired(0, 200), gap(2), gap(3)]), [expired(100, 200), gap(3)]);
    assert_eq!(answered(&[expired(0, 200), gap(2), gap(3), gap(4)]), [gap(4)]);
    // All that was given is overwritten.
    assert_eq!(answered(&[expired(0, 300), gap(5)]), [expired(200, 300), gap(5)]);
}

#[test]
fn a_query_that_is_taken_is_read_as_well_when_its_answer_goes_on_after_breaks_and_others_are_refused_with_the_limit() {
    let keys = RingSpec::new("/a", Bytes::mib(4)).key_set().expect("it has none");
    let nested = |depth: usize| format!("{}seq >= 1{}", "(".repeat(depth), ")".repeat(depth));
    let long = |length: usize| format!("seq >= 1{}or seq = 7", " ".repeat(length - 18));
    for text in [nested(MOST_NESTED), long(MOST_TEXT)] {
        check_text(&text).expect("it is taken");
        // A tail, of a part over several, which goes on, as does the whole.
        let mut asked = later(&text, Timestamp(1_700_000_000_123_456_789));
        for _ in 0..3 {
            asked = conjunction(&asked, u64::MAX);
        }
        Query::parse(&asked, &keys, Timestamp(0)).expect("it is read");
    }
    let fake = fake();
    let refused = |text: &str| {
        let cluster = crate::Cluster::over(Arc::new(fake.clone()));
        let error = cluster.query("/a", text).err().expect("it is refused");
        assert_eq!(error.kind, Kind::Usage);
        error.message
    };
    assert!(refused(&nested(MOST_NESTED + 1)).contains("60 deep at most"));
    assert!(refused(&long(MOST_TEXT + 1)).contains("65024 at most"));
    assert!(fake.state().queries.is_empty(), "nobody was asked");
    check_text(&format!("id = \"{}\"", "(".repeat(100))).expect("what is quoted is not nested");
}
