//! Bodies of frames: each type that is read from one.

use super::change;
use crate::arrived::Arrived;
use crate::command::{self, Append, CancelQuery, CloseWriter, OpenWriter, QueryRequest, Request, WriterEvent};
use crate::control::{self, Call, Question};
use crate::frame::{Command, HEADER, RequestId};
use crate::handshake::{ClientHello, ServerHello};
use crate::heap::network::{self, NetworkRequest};
use crate::heap::{self, HeapReply, HeapRequest};
use crate::lock::{Lock, Locked, Unlock};
use crate::object::{self, ObjectAnswer, ObjectRequest};
use crate::ring::{self, PartHead, RingRequest};
use crate::tests::counting;
use crate::tests::seeds::{self, Chance};
use crate::{FrameReader, FrameWriter};
use control::access::{Challenge, Hello, Proven};
use control::cluster::{Report, Reported};
use forebay_model::ring::{Item, QuerySummary};
use forebay_model::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most that a body of a few bytes may take: what a list reserves before its first element.
const FIXED: usize = 2 << 20;

/// What a body is read as, and written again: `None` if it is refused.
type Reading = Box<dyn Fn(&[u8]) -> Option<Vec<u8>>>;

/// Its name, how it is read, and some that are good.
type Kind = (String, Reading, Vec<Vec<u8>>);

fn of<T: Serialize + DeserializeOwned>() -> Reading {
    Box::new(|bytes| {
        let value: T = crate::read_body(bytes).ok()?;
        Some(crate::write_body(&value).expect("what was read can be written"))
    })
}

/// A frame with this body, as far as whoever reads its body has come, and its command.
fn framed<T>(command: Command, body: &[u8], read: impl FnOnce(&mut FrameReader<&[u8]>) -> Option<T>) -> Option<T> {
    let mut writer = FrameWriter::new(Vec::new());
    writer.send_body(RequestId(7), command, crate::Flags::NONE, body, &[]).ok()?;
    let bytes = writer.into_inner();
    let mut reader = FrameReader::new(bytes.as_slice());
    reader.receive().expect("a good frame").expect("a frame");
    read(&mut reader)
}

fn sent(send: impl FnOnce(&mut FrameWriter<Vec<u8>>) -> Result<()>) -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new());
    send(&mut writer).expect("what was read can be sent");
    writer.into_inner()[HEADER..].to_vec()
}

fn head(command: Command) -> crate::Head {
    let bytes = crate::tests::with_body(command, &[]);
    let head = bytes[..HEADER].try_into().expect("it is a frame");
    crate::Head::decode(head, crate::Limits::SESSION).expect("it is a good one")
}

/// Requests and answers, with bodies that are good.
fn with_good_ones() -> Vec<Kind> {
    let mut all: Vec<Kind> = Vec::new();
    for request in command::tests::one_of_each() {
        let (command, good) = (request.command(), sent(|writer| request.send(writer, RequestId(1))));
        let read = move |body: &[u8]| {
            let request = framed(command, body, |reader| Request::receive(reader, &head(command)).ok()?)?;
            assert_eq!(request.command(), command);
            Some(sent(|writer| request.send(writer, RequestId(1))))
        };
        all.push((format!("{request:?}"), Box::new(read), vec![good]));
    }
    for request in object::tests::one_of_each() {
        let (command, good) = (request.command(), request.body().expect("it fits"));
        let read = move |body: &[u8]| {
            let request = ObjectRequest::read(command, body).ok()??.ok()?;
            assert_eq!(request.command(), command);
            Some(request.body().expect("what was read can be sent"))
        };
        all.push((format!("{request:?}"), Box::new(read), vec![good]));
    }
    for request in heap::tests::one_of_each() {
        let (command, good) = (request.command(), sent(|writer| request.send(writer, RequestId(1), &[])));
        let read = move |body: &[u8]| {
            let request = framed(command, body, |reader| HeapRequest::receive(reader, &head(command)).ok()?)?;
            assert_eq!(request.command(), command);
            // Whatever it says of its payload: it is said what is wrong with it.
            drop(request.check(body.len()));
            Some(sent(|writer| request.send(writer, RequestId(1), &[])))
        };
        all.push((format!("{request:?}"), Box::new(read), vec![good]));
    }
    for request in network::tests::one_of_each() {
        let (command, good) = (request.command(), request.body().expect("it fits"));
        let read = move |body: &[u8]| {
            let request = NetworkRequest::read(command, body).ok()??;
            assert_eq!(request.command(), command);
            Some(request.body().expect("what was read can be sent"))
        };
        all.push((format!("{request:?}"), Box::new(read), vec![good]));
    }
    for request in ring::tests::one_of_each() {
        let (command, good) = (request.command(), request.body().expect("it fits"));
        let read = move |body: &[u8]| {
            let request = RingRequest::read(command, body).ok()??;
            assert_eq!(request.command(), command);
            Some(request.body().expect("what was read can be sent"))
        };
        all.push((format!("{request:?}"), Box::new(read), vec![good]));
    }
    all
}

/// All that is a value by itself.
fn values() -> Vec<Kind> {
    macro_rules! readings {
        ($($of:ty),* $(,)?) => { vec![$((stringify!($of).to_string(), of::<$of>())),*] };
    }
    let mut all: Vec<(String, Reading)> = readings![
        command::Reply,
        QueryRequest,
        CancelQuery,
        OpenWriter,
        Append,
        CloseWriter,
        command::WriterOpened,
        command::Durable,
        PartHead,
        WriterEvent,
        Vec<Item>,
        QuerySummary,
        HeapReply,
        Lock,
        Locked,
        Unlock,
        Call,
        Question,
        control::Change,
        control::Reply,
        Report,
        Reported,
        Hello,
        Challenge,
        Proven,
        ClientHello,
        ServerHello,
        Error,
    ];
    let answer = |bytes: &[u8]| {
        let answer = ObjectAnswer::read(bytes, Arrived::default()).ok()?;
        Some(answer.body().expect("what was read can be written"))
    };
    all.push(("ObjectAnswer".into(), Box::new(answer)));
    let with_one_of_each_case = |(name, read): (String, Reading)| {
        let zeros = |case: u8| (1..400).map(move |length| [vec![case], vec![0; length - 1]].concat());
        let good = (0..40).filter_map(|case| zeros(case).find(|body| read(body).is_some())).collect();
        (name, read, good)
    };
    all.into_iter().map(with_one_of_each_case).collect()
}

/// Reads bodies that were changed, and then those that came of it; how many were accepted.
fn bodies(chance: &Chance, (name, read, mut known): Kind, count: u32) -> u32 {
    let good = known.len();
    let mut accepted = 0;
    for _ in 0..count {
        let mut body = chance.of(&known).clone();
        let other = chance.of(&known);
        change(chance, &mut body, other);
        let (written, memory) = counting::most(|| read(&body));
        assert!(memory <= FIXED + 600 * body.len(), "{name}: {memory} bytes for {}", body.len());
        let Some(written) = written else { continue };
        // A number may be longer than it need be, and a duration have more than a second of nanoseconds. As it is written
        // then it is itself.
        assert_eq!(read(&written), Some(written.clone()), "{name}: of {body:02x?}");
        accepted += 1;
        if known.len() < good + 64 {
            known.push(body);
        } else {
            let at = good + chance.below(64);
            known[at] = body;
        }
    }
    accepted
}

#[test]
fn whatever_a_request_says_it_says_one_thing_or_is_refused() {
    seeds::each(8, |chance| {
        for one in with_good_ones() {
            let name = one.0.clone();
            let accepted = bodies(chance, one, 300);
            assert!(accepted > 3, "{name}: {accepted} were accepted");
        }
    });
}

#[test]
fn whatever_else_comes_in_a_body_says_one_thing_or_is_refused() {
    seeds::each(8, |chance| {
        for one in values() {
            let name = one.0.clone();
            let accepted = bodies(chance, one, 500);
            assert!(accepted > 3, "{name}: {accepted} were accepted");
        }
    });
}
