//! Frames and the handshake.

use super::change;
use crate::frame::{Command, Flags, HEADER, Head, Limits, NO_LIMIT, RequestId};
use crate::handshake::{ClientHello, PROTOCOL_VERSION, ServerHello, accept, connect};
use crate::sink::Frame;
use crate::source::tests::{now, source};
use crate::tests::counting;
use crate::tests::seeds::{self, Chance};
use crate::{FrameReader, FrameWriter, crc32c};
use forebay_model::{Kind, Result, TargetId};

/// Memory that a reader takes whatever comes: its read-ahead, a step of a body, and the words of an error.
const FIXED: usize = 256 << 10;

/// A head under a checksum that holds.
fn sealed(bytes: &mut [u8]) {
    let checksum = crc32c(&bytes[..HEADER - 4]);
    bytes[HEADER - 4..HEADER].copy_from_slice(&checksum.to_le_bytes());
}

fn a_frame(chance: &Chance) -> Vec<u8> {
    let flags = [0u16, 1, 2, 3, 4, 5, 7, 8, 9, 16, 20].map(|bits| {
        [Flags::RESPONSE, Flags::ERROR, Flags::END, Flags::MORE, Flags::SHOWN]
            .into_iter()
            .enumerate()
            .filter(|(bit, _)| bits >> bit & 1 == 1)
            .fold(Flags::NONE, |all, (_, one)| all.and(one))
    });
    let (id, command) = (RequestId(chance.next() >> chance.below(64)), Command(chance.below(80) as u16));
    let most = if chance.once_in(20) { 70_000 } else { 200 };
    let (body, payload) = (chance.bytes(most), chance.bytes(if chance.once_in(2) { 0 } else { most }));
    let frame = Frame::new(id, command, *chance.of(&flags), NO_LIMIT, &body, payload);
    let mut bytes = frame.expect("it fits").to_bytes();
    if chance.once_in(2) {
        let field = *chance.of(&[0usize, 4, 6, 8, 16, 18, 20, 24, 28, 32, 36, 40, 59]);
        let value = *chance.of(&[0, 1, 63, 255, 4096, 4097, 1 << 20, (1 << 20) + 1, 16 << 20, u32::MAX / 2, u32::MAX]);
        bytes[field] = value as u8;
        if (20..40).contains(&field) {
            bytes[field..field + 4].copy_from_slice(&value.to_le_bytes());
        }
        sealed(&mut bytes);
    }
    if chance.once_in(4) && bytes.len() >= HEADER {
        change(chance, &mut bytes, &[]);
        if bytes.len() >= HEADER && !chance.once_in(4) {
            sealed(&mut bytes);
        }
    }
    bytes
}

/// What was accepted, as it is written, and how it ended.
type Accepted = (Vec<u8>, Result<()>);

fn take(limits: Limits, input: &[u8]) -> Accepted {
    let mut reader = FrameReader::new(input);
    reader.set_limits(limits);
    let mut accepted = Vec::new();
    loop {
        let head = match reader.receive() {
            Ok(Some(head)) => head,
            Ok(None) => return (accepted, Ok(())),
            Err(error) => return (accepted, Err(error)),
        };
        let before = accepted.len();
        accepted.extend(head.encode());
        accepted.extend(reader.body());
        if let Err(error) = reader.payload_onto(&mut accepted) {
            accepted.truncate(before);
            return (accepted, Err(error));
        }
    }
}

fn take_in_tasks(limits: Limits, input: &[u8]) -> Accepted {
    let mut source = source(input.to_vec(), input.len() as u64);
    source.set_limits(limits);
    now(async move {
        let mut accepted = Vec::new();
        loop {
            let head = match source.receive().await {
                Ok(Some(head)) => head,
                Ok(None) => return (accepted, Ok(())),
                Err(error) => return (accepted, Err(error)),
            };
            let before = accepted.len();
            accepted.extend(head.encode());
            accepted.extend(source.body());
            if let Err(error) = source.payload_onto(&mut accepted).await {
                accepted.truncate(before);
                return (accepted, Err(error));
            }
        }
    })
}

#[test]
fn whatever_comes_frames_are_exactly_what_came_and_memory_is_for_that_alone() {
    let (accepted, whole) = (std::cell::Cell::new(0u32), std::cell::Cell::new(0u32));
    seeds::each(20, |chance| {
        for _ in 0..1500 {
            let limits = *chance.of(&[Limits::HELLO, Limits::STRANGER, Limits::SESSION]);
            let mut input = a_frame(chance);
            while chance.once_in(2) {
                input.extend(a_frame(chance));
            }
            let ((taken, end), memory) = counting::most(|| take(limits, &input));
            assert!(input.starts_with(&taken), "other bytes were accepted than came");
            assert!(end.is_err() || taken == input, "something was left out");
            let said = end.as_ref().err().map(|error| error.kind);
            let known = [Kind::Damaged, Kind::Version, Kind::Disconnected];
            assert!(said.is_none_or(|said| known.contains(&said)), "{end:?}");
            // What is announced and does not come takes none.
            assert!(memory <= FIXED + 6 * input.len(), "{memory} bytes for {} that came", input.len());
            let ((others, ending), memory) = counting::most(|| take_in_tasks(limits, &input));
            assert!(others == taken && ending == end, "{ending:?} and {end:?}");
            // Here one payload that is wanted has its place before it comes.
            let most = FIXED + 6 * input.len() + limits.payload as usize;
            assert!(memory <= most, "{memory} bytes for {} that came", input.len());
            accepted.set(accepted.get() + u32::from(!taken.is_empty()));
            whole.set(whole.get() + u32::from(end.is_ok()));
        }
    });
    assert!(seeds::is_replay() || accepted.get() > 3000 && whole.get() > 1000, "{accepted:?} and {whole:?}");
}

#[test]
fn a_head_is_read_as_exactly_its_bytes_or_refused() {
    seeds::each(10, |chance| {
        let mut read = 0;
        for _ in 0..5000 {
            let mut bytes = a_frame(chance);
            bytes.resize(HEADER, 0);
            for _ in 0..chance.below(3) {
                bytes[chance.below(HEADER)] = chance.next() as u8;
            }
            sealed(&mut bytes);
            let bytes = bytes.try_into().expect("it is as long as a head");
            for limits in [Limits::HELLO, Limits::SESSION] {
                let Ok(head) = Head::decode(&bytes, limits) else { continue };
                assert_eq!(head.encode(), bytes, "{head:?}");
                assert!(head.body <= limits.body && head.payload <= limits.payload, "{head:?}");
                read += 1;
            }
        }
        assert!(read > 500, "{read} were read");
    });
}

/// What one side says first, changed.
fn first<T: serde::Serialize>(chance: &Chance, flags: Flags, hello: &T) -> Vec<u8> {
    let mut body = crate::write_body(hello).expect("it fits");
    if !chance.once_in(20) {
        change(chance, &mut body, b"attic");
    }
    let mut writer = FrameWriter::new(Vec::new());
    let flags = if chance.once_in(20) { flags.and(Flags::RESPONSE) } else { flags };
    writer.send_body(RequestId(0), Command::HELLO, flags, &body, &[]).expect("it fits");
    let mut bytes = writer.into_inner();
    if chance.once_in(5) {
        change(chance, &mut bytes, b"attic");
    }
    bytes
}

#[test]
fn whatever_is_said_first_is_a_hello_of_this_version_or_ends_the_connection() {
    let server = ServerHello { version: PROTOCOL_VERSION, target: TargetId(42), process: 1234, nonce: [7; 16] };
    seeds::each(10, |chance| {
        let (mut welcome, mut refused) = (0, 0);
        for _ in 0..2000 {
            let client = ClientHello { replaces: Some([9; 16]), ..ClientHello::new(Some("attic"), [5; 16]) };
            let said = first(chance, Flags::NONE, &client);
            let mut answer = FrameWriter::new(Vec::new());
            let mut reader = FrameReader::new(said.as_slice());
            let (heard, memory) = counting::most(|| accept(&mut reader, &mut answer, &server, Some("attic")));
            // Before anybody has shown who he is.
            assert!(memory < 64 << 10, "{memory} bytes for {}", said.len());
            let answer = answer.into_inner();
            match heard {
                Ok(Some(client)) => {
                    assert_eq!(client.version, PROTOCOL_VERSION);
                    assert!(client.cluster.is_none_or(|cluster| cluster == "attic"));
                    welcome += 1;
                }
                Ok(None) => assert!(said.is_empty()),
                Err(_) => refused += 1,
            }
            // The client understands what it is told, and that is changed as well.
            assert!(answer.is_empty() || take(Limits::HELLO, &answer) == (answer.clone(), Ok(())));
            let told = first(chance, Flags::RESPONSE, &server);
            let mut reader = FrameReader::new(told.as_slice());
            let (met, memory) =
                counting::most(|| connect(&mut reader, &mut FrameWriter::new(Vec::new()), Some("attic")));
            assert!(memory < 64 << 10, "{memory} bytes for {}", told.len());
            assert!(met.is_err() || met.is_ok_and(|server| server.version == PROTOCOL_VERSION));
        }
        assert!(welcome > 100 && refused > 100, "{welcome} were welcome, and {refused} refused");
    });
}
