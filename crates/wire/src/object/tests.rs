use super::{
    Ask, LARGEST, MOST_AT_ONCE, MOST_ATTRIBUTES, MOST_PENDING, MOST_RIDING, ObjectAnswer, ObjectInfo, ObjectReply,
};
use super::{ObjectRequest, Receipt, Riders, WINDOW};
use crate::frame::{Command, HEADER, RequestId};
use crate::tests::with_body;
use crate::{FrameReader, FrameWriter};
use forebay_model::object::{Durability, ObjectHead, OverQuota, Placement, Quota, Scope, VolumeUse};
use forebay_model::{Bytes, Error, Kind, ObjectId, TargetId, Timestamp};

pub(crate) fn one_of_each() -> Vec<ObjectRequest> {
    let id = ObjectId { volume: 1, object: u64::MAX - 7 };
    let quota = Quota { hard_bytes: Bytes::gib(3), ..Quota::default() };
    let asks = vec![
        Ask::CreateVolume { volume: 9, quota },
        Ask::SetQuota { volume: 9, quota: Quota::default() },
        Ask::Create { id, attributes: vec![(1, 1, b"/data/x".to_vec()), (1, 2, Vec::new())] },
        Ask::Remove { id },
        Ask::Stat { id, page: Some(1) },
        Ask::Stat { id, page: None },
        Ask::List { volume: 1, from: 77, most: 100, page: Some(3) },
        Ask::Read { id, offset: 1 << 40, length: 4096 },
        Ask::Write { id, offset: 5, placement: Placement::Log, durability: Durability::Buffered },
        Ask::Append { id, placement: Placement::Auto, durability: Durability::Durable },
        Ask::Truncate { id, size: 0 },
        Ask::Punch { id, offset: 7, length: u64::MAX },
        Ask::Lose { id, offset: 1 << 20, length: 4096 },
        Ask::Flush { scope: Scope::Object(id), epoch: Some(u64::MAX) },
        Ask::Flush { scope: Scope::Range(id, 1, u64::MAX), epoch: None },
        Ask::Flush { scope: Scope::Volume(3), epoch: Some(0) },
        Ask::Flush { scope: Scope::Target, epoch: None },
        Ask::Attributes { id, page: 1, from: 0 },
        Ask::SetAttributes { id, changes: vec![(1, 1, None), (2, 0, Some(vec![7; 300]))] },
        Ask::Snapshot { id, of: ObjectId { volume: 2, object: 3 } },
    ];
    let riding = Riders { set: vec![(7, 1, Some(vec![3; 20])), (7, 2, None)], get: Some(u32::MAX) };
    let riders = [Riders::default(), riding].into_iter().cycle();
    let target = TargetId(u128::MAX - 1);
    asks.into_iter().zip(riders).map(|(ask, riders)| ObjectRequest { target, riders, ask }).collect()
}

fn frame(request: &ObjectRequest, payload: &[u8]) -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new());
    request.send(&mut writer, RequestId(7), payload).expect("it fits");
    writer.into_inner()
}

#[test]
fn every_request_arrives_as_it_was_sent_with_its_payload() {
    for request in one_of_each() {
        let payload = if matches!(request.ask, Ask::Write { .. }) { vec![9; 5000] } else { Vec::new() };
        let bytes = frame(&request, &payload);
        let mut reader = FrameReader::new(bytes.as_slice());
        let head = reader.receive().expect("a good frame").expect("a frame");
        assert_eq!((head.request, head.command), (RequestId(7), request.command()));
        assert_eq!(ObjectRequest::receive(&mut reader, &head).expect("a good body"), Some(Ok(request)));
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
            let error = ObjectRequest::receive(&mut reader, &head).expect_err("it is no request");
            assert_eq!(error.kind, Kind::Damaged, "{request:?} in {} bytes: {error}", bytes.len());
        }
    }
}

#[test]
fn a_level_of_durability_that_is_not_known_is_refused_and_the_stream_stays_in_step() {
    let id = ObjectId { volume: 1, object: 1 };
    let ask = Ask::Append { id, placement: Placement::Auto, durability: Durability::Durable };
    let request = ObjectRequest::new(TargetId(1), ask);
    let bytes = frame(&request, &[]);
    let mut body = bytes[HEADER..].to_vec();
    *body.last_mut().expect("the level is the last byte") = 9;
    let both = [with_body(Command::APPEND_OBJECT, &body), bytes].concat();
    let mut reader = FrameReader::new(std::io::Cursor::new(both));
    let head = reader.receive().expect("a good frame").expect("a frame");
    let refused = ObjectRequest::receive(&mut reader, &head).expect("a good body").expect("a request");
    let error = refused.expect_err("level 9");
    assert!(error.kind == Kind::Usage && error.message.contains("level of durability 9"), "{error}");
    let head = reader.receive().expect("a good frame").expect("a frame");
    assert_eq!(ObjectRequest::receive(&mut reader, &head), Ok(Some(Ok(request))));
}

fn info(attributes: usize) -> ObjectInfo {
    let (most, time) = (u64::MAX, Timestamp::MIN);
    let volume = VolumeUse { objects: most, used: Bytes(most), quota: Quota::default() };
    let head = ObjectHead {
        size: most,
        created: time,
        modified: time,
        changed: time,
        version: most,
        used: Bytes(most),
        volume: Some(volume),
    };
    ObjectInfo { id: ObjectId::LAST, head, attributes: vec![(u32::MAX, vec![1; attributes])] }
}

fn receipt() -> Receipt {
    let (used, soft_bytes) = (Bytes(u64::MAX), Bytes::mib(1));
    let over = OverQuota { volume: 1, used, soft_bytes, objects: 7, soft_objects: u64::MAX };
    Receipt { epoch: u64::MAX, over: Some(over), attributes: vec![(u32::MAX, vec![5; MOST_RIDING - 16])], slow: true }
}

#[test]
fn every_answer_arrives_as_it_was_sent_and_so_does_an_error() {
    let replies = vec![
        ObjectReply::Done,
        ObjectReply::Info(Box::new(info(10))),
        ObjectReply::List { objects: vec![info(0), info(3)], next: Some(u64::MAX) },
        ObjectReply::Bytes,
        ObjectReply::At(1 << 50),
        ObjectReply::Attributes { values: vec![(3, b"value".to_vec())], next: None },
    ];
    let mut writer = FrameWriter::new(Vec::new());
    for reply in &replies {
        let answer = ObjectAnswer { reply: reply.clone(), receipt: receipt(), payload: vec![3; 70].into() };
        answer.send(&mut writer, RequestId(1), Command::READ_OBJECT).expect("it fits");
    }
    let error = Error::missing("there is no object 1/2");
    writer.send_error(RequestId(2), Command::READ_OBJECT, &error).expect("it fits");
    let bytes = writer.into_inner();
    let mut reader = FrameReader::new(bytes.as_slice());
    for reply in replies {
        let head = reader.receive().expect("a good frame").expect("a frame");
        let answer = ObjectAnswer::receive(&mut reader, &head).expect("an answer");
        assert_eq!(answer, ObjectAnswer { reply, receipt: receipt(), payload: vec![3; 70].into() });
    }
    let head = reader.receive().expect("a good frame").expect("a frame");
    assert_eq!(ObjectAnswer::receive(&mut reader, &head), Err(error));
}

#[test]
fn the_largest_answers_fit_a_frame() {
    let listed = MOST_ATTRIBUTES / MOST_RIDING;
    let list = ObjectReply::List { objects: vec![info(MOST_RIDING); listed], next: Some(u64::MAX) };
    let values = vec![(u32::MAX, vec![1; MOST_ATTRIBUTES])];
    for reply in [list, ObjectReply::Attributes { values, next: Some(7) }] {
        let answer = ObjectAnswer { reply, receipt: receipt(), payload: vec![0; LARGEST.0 as usize].into() };
        answer.send(&mut FrameWriter::new(Vec::new()), RequestId(1), Command::LIST_OBJECTS).expect("it fits");
    }
}

#[test]
fn every_command_and_every_bound_is_described() {
    let page = include_str!("../../../../docs/protocol/commands.md");
    for request in one_of_each() {
        let row = format!("| {} |", request.command().0);
        assert!(page.lines().any(|line| line.starts_with(&row)), "{row} is missing");
    }
    let bounds = [
        format!("at most {LARGEST} of bytes (*lose object* {MOST_AT_ONCE})"),
        format!("at most {MOST_PENDING} requests and {WINDOW}"),
        format!("at most {} of attributes", Bytes(MOST_ATTRIBUTES as u64)),
        format!("at most {} of that page", Bytes(MOST_RIDING as u64)),
    ];
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for bound in bounds {
        assert!(page.contains(&bound), "'{bound}' is missing");
    }
}
