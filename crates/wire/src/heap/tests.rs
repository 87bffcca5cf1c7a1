use super::{HeapAnswer, HeapAsk, HeapReply, HeapRequest, HeapStamp, MOST_UNITS, NewRoot};
use super::{MOST_COMMITS, MOST_HEAPS, MOST_RECORDS, MOST_UNCOMMITTED};
use crate::frame::{Command, HEADER, RequestId};
use crate::object::MOST_AT_ONCE;
use crate::tests::with_body;
use crate::{FrameReader, FrameWriter};
use forebay_model::heap::{CommitInfo, LARGEST_SLOT, RecordId};
use forebay_model::{Error, Kind, TargetId, Timestamp};

fn last() -> RecordId {
    RecordId::from_number(u64::MAX)
}

pub(crate) fn one_of_each() -> Vec<HeapRequest> {
    let id = RecordId::new(70_000, 5, 77, false);
    let asks = vec![
        HeapAsk::Put { lengths: vec![1, 300, 70_000], from: 0, more: false },
        HeapAsk::Put { lengths: vec![9], from: u64::MAX, more: true },
        HeapAsk::Get { ids: vec![id, last()], from: 0, as_of: None },
        HeapAsk::Get { ids: vec![], from: 7, as_of: Some(u64::MAX) },
        HeapAsk::Free { ids: vec![last(); 20] },
        HeapAsk::Commit { root: NewRoot::Same },
        HeapAsk::Commit { root: NewRoot::None },
        HeapAsk::Commit { root: NewRoot::Record(last()) },
        HeapAsk::Abort,
        HeapAsk::Root { as_of: Some(3) },
        HeapAsk::History { before: Some(u64::MAX), most: 1024 },
        HeapAsk::History { before: None, most: 1 },
    ];
    let (target, heap) = (TargetId(u128::MAX - 1), "/pages".to_string());
    asks.into_iter().map(|ask| HeapRequest { target, heap: heap.clone(), ask }).collect()
}

/// One of each by which a heap is moved: over the network only.
pub(crate) fn of_moves() -> Vec<HeapRequest> {
    let stamp = HeapStamp { target: u128::MAX - 7, heap: 3 };
    let asks = vec![
        HeapAsk::Unread { watch: None, from: 0 },
        HeapAsk::Unread { watch: Some(u64::MAX), from: u32::MAX },
        HeapAsk::ReadUnits { watch: 7, first: u32::MAX - 64, count: MOST_UNITS },
        HeapAsk::Receive { stamp, units: u32::MAX },
        HeapAsk::WriteUnits { first: 8 },
        HeapAsk::Received { units: 300 },
    ];
    let (target, heap) = (TargetId(9), "/heap/1/2".to_string());
    asks.into_iter().map(|ask| HeapRequest { target, heap: heap.clone(), ask }).collect()
}

fn frame(request: &HeapRequest, payload: &[u8]) -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new());
    request.send(&mut writer, RequestId(7), payload).expect("it fits");
    writer.into_inner()
}

#[test]
fn every_request_arrives_as_it_was_sent_with_its_payload() {
    for request in one_of_each() {
        let payload = if matches!(request.ask, HeapAsk::Put { .. }) { vec![9; 5000] } else { Vec::new() };
        let bytes = frame(&request, &payload);
        let mut reader = FrameReader::new(bytes.as_slice());
        let head = reader.receive().expect("a good frame").expect("a frame");
        assert_eq!((head.request, head.command), (RequestId(7), request.command()));
        assert_eq!(HeapRequest::receive(&mut reader, &head).expect("a good body"), Some(request));
        let mut taken = vec![0; head.payload as usize];
        reader.payload_into(&mut taken).expect("a good payload");
        assert_eq!(taken, payload);
    }
}

#[test]
fn a_request_whose_body_is_cut_off_or_longer_is_damaged_and_never_another_one() {
    for request in one_of_each() {
        let whole = frame(&request, &[]);
        let body = &whole[HEADER..];
        let longer = [body, &[0][..]].concat();
        for bytes in (0..body.len()).map(|length| &body[..length]).chain([&longer[..]]) {
            let mut reader = FrameReader::new(std::io::Cursor::new(with_body(request.command(), bytes)));
            let head = reader.receive().expect("a good frame").expect("a frame");
            let error = HeapRequest::receive(&mut reader, &head).expect_err("it is no request");
            assert_eq!(error.kind, Kind::Damaged, "{request:?} in {} bytes: {error}", bytes.len());
        }
    }
}

#[test]
fn more_records_or_bytes_than_may_come_at_once_and_lengths_that_are_not_those_of_the_bytes_are_refused() {
    let request = |ask| HeapRequest { target: TargetId(1), heap: "/h".into(), ask };
    let put = |lengths| request(HeapAsk::Put { lengths, from: 0, more: false });
    let most = MOST_AT_ONCE.0 as usize;
    assert_eq!(put(vec![most as u32 - 1, 1]).check(most), Ok(()));
    assert_eq!(put(vec![0; MOST_RECORDS]).check(0), Ok(()));
    let ids = |count| vec![last(); count];
    let odd = [
        (put(vec![0; MOST_RECORDS + 1]), 0, "1025 records at once"),
        (put(vec![most as u32 + 1]), most + 1, "4 MiB at most"),
        (put(vec![3, u32::MAX]), 2, "4294967298 bytes of records were announced, and 2 came"),
        (put(vec![3]), 4, "3 bytes of records were announced, and 4 came"),
        (request(HeapAsk::Get { ids: ids(MOST_RECORDS + 1), from: 0, as_of: None }), 0, "1025 records"),
        (request(HeapAsk::Free { ids: ids(MOST_RECORDS + 1) }), 0, "1025 records"),
        (request(HeapAsk::Commit { root: NewRoot::Same }), 1, "and 1 came"),
        (request(HeapAsk::History { before: None, most: MOST_COMMITS as u32 + 1 }), 0, "1025 commits at once"),
    ];
    for (request, payload, words) in odd {
        let error = request.check(payload).expect_err("it is too much, or wrong");
        assert!(error.kind == Kind::Usage && error.message.contains(words), "{error}");
        assert!(error.message.contains("nothing was changed"), "{error}");
    }
}

#[test]
fn every_answer_arrives_as_it_was_sent_and_so_does_an_error() {
    let missing = Error::missing("there is no record 0000000000000001: it was freed, or is that of another heap");
    let replies = vec![
        HeapReply::Done,
        HeapReply::Ids(vec![last(); MOST_RECORDS]),
        HeapReply::Records(vec![Ok(70), Err(missing.clone()), Ok(u64::MAX)]),
        HeapReply::Committed(u64::MAX),
        HeapReply::Root { commit: 7, root: Some(last()) },
        HeapReply::Root { commit: 7, root: None },
        HeapReply::History(vec![
            CommitInfo { commit: u64::MAX, time: Timestamp(i64::MIN), root: Some(last()) };
            MOST_COMMITS
        ]),
        HeapReply::History(vec![CommitInfo { commit: 1, time: Timestamp(5), root: None }]),
    ];
    let mut writer = FrameWriter::new(Vec::new());
    for reply in &replies {
        let answer = HeapAnswer { reply: reply.clone(), payload: vec![3; 70] };
        answer.send(&mut writer, RequestId(1), Command::GET_RECORDS).expect("it fits");
    }
    writer.send_error(RequestId(2), Command::GET_RECORDS, &missing).expect("it fits");
    let bytes = writer.into_inner();
    let mut reader = FrameReader::new(bytes.as_slice());
    for reply in replies {
        let head = reader.receive().expect("a good frame").expect("a frame");
        let answer = HeapAnswer::receive(&mut reader, &head).expect("an answer");
        assert_eq!(answer, HeapAnswer { reply, payload: vec![3; 70] });
    }
    let head = reader.receive().expect("a good frame").expect("a frame");
    assert_eq!(HeapAnswer::receive(&mut reader, &head), Err(missing));
}

#[test]
fn the_largest_requests_and_answers_fit_a_frame() {
    let ids = vec![last(); MOST_RECORDS];
    let ask = HeapAsk::Get { ids, from: u64::MAX, as_of: Some(u64::MAX) };
    frame(&HeapRequest { target: TargetId(u128::MAX), heap: "/".repeat(255), ask }, &[]);
    // Sentences about records are shorter than this.
    let error = Error::missing("x".repeat(900));
    let answer = HeapAnswer { reply: HeapReply::Records(vec![Err(error); MOST_RECORDS]), payload: Vec::new() };
    answer.send(&mut FrameWriter::new(Vec::new()), RequestId(1), Command::GET_RECORDS).expect("it fits");
}

#[test]
fn every_command_and_every_bound_is_described() {
    let page = include_str!("../../../../docs/protocol/commands.md");
    for request in one_of_each() {
        let row = format!("| {} |", request.command().0);
        assert!(page.lines().any(|line| line.starts_with(&row)), "{row} is missing");
    }
    let bounds = [
        format!("at most {MOST_RECORDS} records and {MOST_AT_ONCE} of their bytes"),
        format!("at most {} records put and freed", MOST_UNCOMMITTED),
        format!("at most {MOST_HEAPS} heaps"),
        format!("usage: more than {MOST_COMMITS}"),
    ];
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for bound in bounds {
        assert!(page.contains(&bound), "'{bound}' is missing");
    }
}

#[test]
fn a_get_counts_what_its_answer_can_have_and_no_more_than_fits_one() {
    let get = |ids: Vec<RecordId>| {
        let ask = HeapAsk::Get { ids, from: 0, as_of: None };
        HeapRequest { target: TargetId(1), heap: "/pages".to_string(), ask }.weight(0)
    };
    let [small, large] = [false, true].map(|chain| RecordId::new(1, 2, 3, chain));
    assert_eq!(get(vec![small]), LARGEST_SLOT as usize);
    assert_eq!(get(vec![small; 10]), 10 * LARGEST_SLOT as usize);
    let most = MOST_AT_ONCE.0 as usize;
    assert_eq!([vec![small; MOST_RECORDS], vec![large], vec![small, large]].map(get), [most; 3]);
}
