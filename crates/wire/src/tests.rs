#![allow(clippy::disallowed_methods)]

pub(crate) mod counting;
pub(crate) mod fuzz;
pub(crate) mod seeds;

use crate::frame::{Command, Flags, HEADER, RequestId};
use crate::{FrameReader, FrameWriter};
use std::io::{self, IoSlice, Read, Write};

/// A stream that gives and takes as few bytes at a time as chance wants, like a slow network.
struct Trickle<S> {
    inner: S,
    state: u64,
}

impl<S> Trickle<S> {
    fn some(&mut self, most: usize) -> usize {
        (next(&mut self.state) % 200) as usize % most.max(1) + 1
    }
}

impl<S: Read> Read for Trickle<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.some(buffer.len()).min(buffer.len());
        self.inner.read(&mut buffer[..count])
    }
}

impl Write for Trickle<Vec<u8>> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if next(&mut self.state).is_multiple_of(5) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let count = self.some(all.len()).min(all.len());
        self.inner.extend_from_slice(&all[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// splitmix64
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

struct Sent {
    request: RequestId,
    command: Command,
    flags: Flags,
    body: Vec<u8>,
    pieces: Vec<Vec<u8>>,
}

fn chance_bytes(state: &mut u64, most: u64) -> Vec<u8> {
    let length = match next(state) % 4 {
        0 => 0,
        1 => next(state) % 16,
        2 => next(state) % 1000,
        _ => next(state) % most,
    };
    (0..length).map(|_| next(state) as u8).collect()
}

/// A frame whose body is these bytes.
pub(crate) fn with_body(command: Command, body: &[u8]) -> Vec<u8> {
    /// As they are, without a length before them.
    struct Raw<'a>(&'a [u8]);
    impl serde::Serialize for Raw<'_> {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::SerializeTuple;
            let mut tuple = serializer.serialize_tuple(self.0.len())?;
            self.0.iter().try_for_each(|byte| tuple.serialize_element(byte))?;
            tuple.end()
        }
    }
    let mut writer = FrameWriter::new(Vec::new());
    writer.send(RequestId(7), command, Flags::NONE, &Raw(body), &[]).expect("it fits");
    writer.into_inner()
}

#[test]
fn random_frames_arrive_as_they_were_sent_however_the_stream_cuts_them() {
    let seed = std::env::var("WIRE_SEED").ok().map_or(1, |text| text.parse().expect("WIRE_SEED is a number"));
    println!("WIRE_SEED={seed}");
    let mut state = seed;
    let combinations =
        [Flags::NONE, Flags::RESPONSE, Flags::MORE, Flags::RESPONSE.and(Flags::END), Flags::RESPONSE.and(Flags::MORE)];
    let frames: Vec<Sent> = (0..60)
        .map(|_| Sent {
            request: RequestId(next(&mut state)),
            command: Command(next(&mut state) as u16),
            flags: combinations[(next(&mut state) % 5) as usize],
            body: chance_bytes(&mut state, 150_000),
            pieces: (0..next(&mut state) % 40).map(|_| chance_bytes(&mut state, 30_000)).collect(),
        })
        .collect();
    let mut writer = FrameWriter::new(Trickle { inner: Vec::new(), state: next(&mut state) });
    for frame in &frames {
        let pieces: Vec<&[u8]> = frame.pieces.iter().map(Vec::as_slice).collect();
        writer.send(frame.request, frame.command, frame.flags, &frame.body, &pieces).expect("it fits");
    }
    let bytes = writer.into_inner().inner;
    let mut reader = FrameReader::new(Trickle { inner: bytes.as_slice(), state: next(&mut state) });
    for frame in &frames {
        let head = reader.receive().expect("a good frame").expect("another frame");
        assert_eq!((head.request, head.command, head.flags), (frame.request, frame.command, frame.flags));
        let whole = frame.pieces.concat();
        assert_eq!(head.payload as usize, whole.len());
        assert_eq!(reader.decode::<Vec<u8>>().expect("a good body"), frame.body);
        match next(&mut state) % 3 {
            0 => {
                let mut destination = vec![0; whole.len()];
                reader.payload_into(&mut destination).expect("a good payload");
                assert!(destination == whole);
            }
            1 => {
                let mut destination = b"before".to_vec();
                reader.payload_onto(&mut destination).expect("a good payload");
                assert!(destination.strip_prefix(b"before") == Some(whole.as_slice()));
            }
            // Not taken: the next receive skips it.
            _ => {}
        }
    }
    assert_eq!(reader.receive().expect("the end"), None);
}

#[test]
fn a_changed_bit_anywhere_is_noticed_and_ends_the_connection() {
    let mut writer = FrameWriter::new(Vec::new());
    writer.send(RequestId(7), Command(20), Flags::NONE, "a body", &[b"a pay", b"load"]).expect("it fits");
    writer.send(RequestId(8), Command(20), Flags::NONE, "the next", &[]).expect("it fits");
    let good = writer.into_inner();
    let first = HEADER + 7 + 9;
    for bit in 0..first * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut reader = FrameReader::new(bytes.as_slice());
        let mut payload = Vec::new();
        let error = match reader.receive() {
            Err(error) => error,
            Ok(head) => {
                assert!(head.is_some(), "bit {bit}: the frame vanished");
                reader.payload_onto(&mut payload).expect_err("a changed payload")
            }
        };
        assert_eq!(error.kind, forebay_model::Kind::Damaged, "bit {bit}: {error}");
        assert!(payload.is_empty(), "bit {bit}: damaged bytes were handed out");
        assert_eq!(reader.receive(), Err(error), "bit {bit}: the connection went on");
    }
}

#[test]
fn noise_is_never_a_frame() {
    let mut state = 99;
    for _ in 0..2000 {
        let mut bytes = chance_bytes(&mut state, 5000);
        if next(&mut state).is_multiple_of(2) && bytes.len() > 4 {
            bytes[..4].copy_from_slice(b"FBAY");
        }
        let mut reader = FrameReader::new(bytes.as_slice());
        let result = reader.receive();
        assert!(if bytes.is_empty() { result == Ok(None) } else { result.is_err() }, "{result:?}");
    }
}

#[test]
fn the_kinds_of_errors_keep_their_numbers() {
    use forebay_model::{Error, Kind};
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(kind.code()), number + 1, "{kind:?}");
        let bytes = postcard::to_allocvec(&Error::new(kind, "why")).expect("it fits");
        assert_eq!(bytes, [number as u8, 3, b'w', b'h', b'y'], "{kind:?}");
    }
    let next = postcard::from_bytes::<Error>(&[Kind::ALL.len() as u8, 0]);
    assert!(next.is_err(), "a kind is not among all of them: {next:?}");
}
