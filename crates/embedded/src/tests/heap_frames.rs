//! Heaps as whoever speaks the protocol uses them: requests one behind the other, also odd ones.

use super::heaps::{HEAP, create, used};
use super::sharing::frames;
use super::{enter, fresh};
use crate::{FormatOptions, Measure, format};
use forebay_client::heaps::{HeapSettings, NewRoot};
use forebay_model::{Bytes, Error, Kind, TargetId};
use forebay_wire::heap::{HeapAnswer, HeapAsk, HeapReply, HeapRequest, MOST_HEAPS, MOST_RECORDS};
use forebay_wire::object::MOST_AT_ONCE;
use forebay_wire::{FrameReader, FrameWriter, RequestId};
use std::io::{Read, Write};

fn ask(writer: &mut FrameWriter<impl Write>, target: TargetId, number: u64, heap: &str, ask: HeapAsk, payload: &[u8]) {
    let request = HeapRequest { target, heap: heap.to_string(), ask };
    request.send(writer, RequestId(number), payload).expect("sent");
}

fn answer(reader: &mut FrameReader<impl Read>, number: u64) -> Result<HeapAnswer, Error> {
    let head = reader.receive().expect("a good frame").expect("an answer");
    assert_eq!(head.request, RequestId(number), "in their order");
    HeapAnswer::receive(reader, &head)
}

fn put(lengths: &[u32], from: u64, more: bool) -> HeapAsk {
    HeapAsk::Put { lengths: lengths.to_vec(), from, more }
}

#[test]
fn what_a_client_asks_without_waiting_takes_effect_in_order_and_what_is_odd_only_costs_itself() {
    let dir = fresh();
    let owner = enter(dir.path());
    drop(create(&owner));
    let target = owner.info().expect("who serves").targets[0].id;
    let (mut reader, mut writer) = frames(dir.path());
    let most = MOST_AT_ONCE.0 as usize;
    let asked: Vec<(&str, HeapAsk, Vec<u8>)> = vec![
        (HEAP, put(&[3, 2], 0, false), b"onetw".to_vec()),
        (HEAP, HeapAsk::Commit { root: NewRoot::Same }, vec![]),
        (HEAP, put(&[4], 0, true), b"part".to_vec()),
        (HEAP, HeapAsk::Commit { root: NewRoot::Same }, vec![]),
        // The part before is forgotten.
        (HEAP, put(&[4], 3, false), b"tail".to_vec()),
        (HEAP, put(&[4], 4, false), b"tail".to_vec()),
        (HEAP, put(&[], 0, true), vec![]),
        (HEAP, put(&[0], 0, false), vec![]),
        (HEAP, put(&[3, 0], 0, false), b"two".to_vec()),
        (HEAP, put(&[9], 0, false), b"short".to_vec()),
        (HEAP, put(&[most as u32 + 1], 0, false), vec![0; most + 1]),
        (HEAP, put(&vec![1; MOST_RECORDS + 1], 0, false), vec![0; MOST_RECORDS + 1]),
        ("/none", put(&[1], 0, false), b"x".to_vec()),
        ("none", HeapAsk::Abort, vec![]),
        (HEAP, put(&[1, 1], 0, true), b"ab".to_vec()),
        (HEAP, put(&[1, 1], 1, false), b"cd".to_vec()),
        (HEAP, HeapAsk::Commit { root: NewRoot::Same }, vec![]),
    ];
    for ((heap, what, payload), number) in asked.into_iter().zip(1..) {
        ask(&mut writer, target, number, heap, what, &payload);
    }
    let mut next = 1..;
    let mut answered = || answer(&mut reader, next.next().expect("a number"));
    let ids = |answer: Result<HeapAnswer, Error>| match answer.expect("an answer").reply {
        HeapReply::Ids(ids) => ids,
        other => panic!("{other:?}"),
    };
    let mut all = ids(answered());
    let committed = answered().expect("committed").reply;
    let HeapReply::Committed(commit) = committed else { panic!("{committed:?}") };
    assert_eq!(ids(answered()), [], "it has not come to its end");
    let expected = [
        (Kind::Usage, "4 bytes of a record came without its end"),
        (Kind::Usage, "goes on at byte 3 came after 4 bytes"),
        (Kind::Usage, "goes on at byte 4 came after 0 bytes"),
        (Kind::Usage, "where there is none"),
        (Kind::Usage, "1 to 67108864 bytes"),
        (Kind::Usage, "1 to 67108864 bytes"),
        (Kind::Usage, "9 bytes of records were announced, and 5 came"),
        (Kind::Usage, "4 MiB at most"),
        (Kind::Usage, "1025 records"),
        (Kind::Missing, "there is no heap /none"),
        (Kind::Usage, "is not a name"),
    ];
    for (kind, words) in expected {
        let error = answered().expect_err(words);
        assert!(error.kind == kind && error.message.contains(words), "{error}");
    }
    all.extend(ids(answered()));
    all.extend(ids(answered()));
    assert_eq!(answered().expect("committed").reply, HeapReply::Committed(commit + 1));
    let mut heap = owner.heaps().open(HEAP).expect("opened");
    let records: Vec<Vec<u8>> = all.iter().map(|id| heap.get(*id).expect("it is there")).collect();
    assert_eq!(records, [&b"one"[..], b"tw", b"a", b"bc", b"d"]);
    assert_eq!(used(&owner, HEAP), 5);
    drop((reader, writer, heap));
    owner.close().expect("closed");
}

#[test]
fn only_so_many_heaps_are_used_over_one_connection() {
    let dir = tempfile::tempdir().expect("a directory");
    format(dir.path(), &FormatOptions::file(Bytes::mib(512), Measure::Guess)).expect("formatted");
    let owner = enter(dir.path());
    let target = owner.info().expect("who serves").targets[0].id;
    let name = |number: u64| format!("/heap/{number}");
    let most = MOST_HEAPS as u64;
    for number in 0..=most {
        owner.heaps().create(&name(number), HeapSettings::default()).expect("created");
    }
    let (mut reader, mut writer) = frames(dir.path());
    let mut number = 0;
    let mut one = |heap: &str, asked: HeapAsk| {
        number += 1;
        ask(&mut writer, target, number, heap, asked, &[]);
        answer(&mut reader, number).map(|answer| answer.reply)
    };
    let root = || HeapAsk::Root { as_of: None };
    for missing in 0..=most {
        assert_eq!(one(&format!("/none/{missing}"), root()).expect_err("there is none").kind, Kind::Missing);
    }
    for number in 0..most {
        one(&name(number), root()).expect("it is there");
    }
    assert_eq!(one(&name(most), root()).expect_err("one too many").kind, Kind::Busy);
    one(&name(0), HeapAsk::Abort).expect("aborted");
    one(&name(most), root()).expect("there is room for one");
    drop((reader, writer));
    owner.close().expect("closed");
}
