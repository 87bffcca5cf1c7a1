//! Bodies of frames: what is accepted is written as something that says the same.

use forebay_model::Error;
use forebay_model::ring::{Item, QuerySummary};
use forebay_wire::arrived::Arrived;
use forebay_wire::command::{self, Append, CancelQuery, CloseWriter, OpenWriter, QueryRequest, WriterEvent};
use forebay_wire::control::access::{Challenge, Hello, Proven};
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{self, Call, Question};
use forebay_wire::frame::NO_LIMIT;
use forebay_wire::handshake::{ClientHello, ServerHello};
use forebay_wire::heap::network::NetworkRequest;
use forebay_wire::heap::{HeapReply, HeapRequest};
use forebay_wire::lock::{Lock, Locked, Unlock};
use forebay_wire::object::{ObjectAnswer, ObjectRequest};
use forebay_wire::pieces::Pieces;
use forebay_wire::ring::{PartHead, RingRequest};
use forebay_wire::sink::Frame;
use forebay_wire::{Command, Flags, FrameReader, FrameWriter, RequestId, read_body, write_body};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Two bytes say as what it is read: a command, or a value by itself.
pub(super) fn take(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first_chunk::<2>() else { return };
    match kind[0] % 32 {
        0 => request(Command(u16::from(kind[1])), body),
        1 => value::<command::Reply>(body),
        2 => value::<QueryRequest>(body),
        3 => value::<CancelQuery>(body),
        4 => value::<OpenWriter>(body),
        5 => value::<Append>(body),
        6 => value::<CloseWriter>(body),
        7 => value::<command::WriterOpened>(body),
        8 => value::<command::Durable>(body),
        9 => value::<PartHead>(body),
        10 => value::<WriterEvent>(body),
        11 => value::<Vec<Item>>(body),
        12 => value::<QuerySummary>(body),
        13 => value::<HeapReply>(body),
        14 => value::<Lock>(body),
        15 => value::<Locked>(body),
        16 => value::<Unlock>(body),
        17 => value::<Call>(body),
        18 => value::<Question>(body),
        19 => value::<control::Change>(body),
        20 => value::<control::Reply>(body),
        21 => value::<Report>(body),
        22 => value::<Reported>(body),
        23 => value::<Hello>(body),
        24 => value::<Challenge>(body),
        25 => value::<Proven>(body),
        26 => value::<ClientHello>(body),
        27 => value::<ServerHello>(body),
        28 => value::<Error>(body),
        _ => again(body, |bytes| {
            Some(ObjectAnswer::read(bytes, Arrived::default()).ok()?.body().expect("what was read can be written"))
        }),
    }
}

/// What is read of it, and written again, is read as the same.
fn again(body: &[u8], read: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    if let Some(written) = read(body) {
        assert_eq!(read(&written).as_ref(), Some(&written), "it says two things");
    }
}

fn value<T: Serialize + DeserializeOwned>(body: &[u8]) {
    again(body, |bytes| {
        let value: T = read_body(bytes).ok()?;
        Some(write_body(&value).expect("what was read can be written"))
    });
}

fn request(command: Command, body: &[u8]) {
    again(body, |bytes| {
        let request = ObjectRequest::read(command, bytes).ok()??.ok()?;
        assert_eq!(request.command(), command);
        Some(request.body().expect("what was read can be sent"))
    });
    again(body, |bytes| {
        let request = NetworkRequest::read(command, bytes).ok()??;
        assert_eq!(request.command(), command);
        Some(request.body().expect("what was read can be sent"))
    });
    again(body, |bytes| {
        let request = RingRequest::read(command, bytes).ok()??;
        assert_eq!(request.command(), command);
        Some(request.body().expect("what was read can be sent"))
    });
    again(body, |bytes| {
        let request = framed(command, bytes, |reader, head| command::Request::receive(reader, head).ok()?)?;
        Some(sent(|writer| request.send(writer, RequestId(7))))
    });
    again(body, |bytes| {
        let request = framed(command, bytes, |reader, head| HeapRequest::receive(reader, head).ok()?)?;
        // Whatever it says of its payload: it is said what is wrong with it.
        drop(request.check(bytes.len()));
        Some(sent(|writer| request.send(writer, RequestId(7), &[])))
    });
}

/// What is read of a frame with this body.
fn framed<T>(
    command: Command,
    body: &[u8],
    read: impl FnOnce(&mut FrameReader<&[u8]>, &forebay_wire::Head) -> Option<T>,
) -> Option<T> {
    let frame = Frame::new(RequestId(7), command, Flags::NONE, NO_LIMIT, body, Pieces::default()).ok()?;
    let bytes = frame.to_bytes();
    let mut reader = FrameReader::new(bytes.as_slice());
    reader.set_limits(forebay_wire::Limits::SESSION);
    let head = reader.receive().ok()??;
    read(&mut reader, &head)
}

/// The body that is sent.
fn sent(send: impl FnOnce(&mut FrameWriter<Vec<u8>>) -> forebay_model::Result<()>) -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new());
    send(&mut writer).expect("what was read can be sent");
    writer.into_inner()[forebay_wire::frame::HEADER..].to_vec()
}
