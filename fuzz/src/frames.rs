//! Frames on a connection: what is read is exactly what came, by both readers, and an error ends it.

use bytes::Buf;
use forebay_model::{Kind, Result};
use forebay_wire::frame::HEADER;
use forebay_wire::source::FrameSource;
use forebay_wire::{FrameReader, Limits, crc32c};
use futures_io::AsyncRead;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// The first byte says what may come; frames are behind it.
pub(super) fn take(bytes: &[u8]) {
    let Some((first, stream)) = bytes.split_first() else { return };
    let limits = [Limits::HELLO, Limits::STRANGER, Limits::SESSION][usize::from(first % 3)];
    let mut stream = stream.to_vec();
    if first & 0x80 == 0 {
        seal(&mut stream);
    }
    let (taken, end) = blocking(limits, &stream);
    assert!(stream.starts_with(&taken), "other bytes were taken than came");
    assert!(end.is_err() || taken == stream, "something was left out");
    let known = [Kind::Damaged, Kind::Version, Kind::Disconnected];
    assert!(end.as_ref().err().is_none_or(|error| known.contains(&error.kind)), "{end:?}");
    assert_eq!(shared(limits, &stream), (taken, end), "both readers read the same");
}

/// Checksums that hold, as far as everything is there that they are of.
fn seal(stream: &mut [u8]) {
    let mut at = 0;
    while stream.len() >= at + HEADER {
        let number = |field: usize| {
            let mut bytes = &stream[at + field..];
            bytes.get_u32_le() as usize
        };
        let (body, payload) = (number(20), number(24));
        let part = |from: usize, length: usize| stream.get(from..from.checked_add(length)?).map(crc32c);
        let sums = [(28, part(at + HEADER, body), body), (32, part(at + HEADER + body, payload), payload)];
        for (field, sum, length) in sums {
            let sum = if length == 0 { Some(0) } else { sum };
            if let Some(sum) = sum {
                stream[at + field..at + field + 4].copy_from_slice(&sum.to_le_bytes());
            }
        }
        let sum = crc32c(&stream[at..at + HEADER - 4]);
        stream[at + HEADER - 4..at + HEADER].copy_from_slice(&sum.to_le_bytes());
        at += HEADER + body + payload;
    }
}

/// What was taken, as it is written, and how it ended.
type Taken = (Vec<u8>, Result<()>);

fn blocking(limits: Limits, stream: &[u8]) -> Taken {
    let mut reader = FrameReader::new(stream);
    reader.set_limits(limits);
    let mut taken = Vec::new();
    loop {
        let head = match reader.receive() {
            Ok(Some(head)) => head,
            Ok(None) => return (taken, Ok(())),
            Err(error) => return (taken, Err(error)),
        };
        let before = taken.len();
        taken.extend(head.encode());
        taken.extend(reader.body());
        if let Err(error) = reader.payload_onto(&mut taken) {
            taken.truncate(before);
            return (taken, Err(error));
        }
    }
}

/// Bytes that are all there.
struct Came(Vec<u8>, usize);

impl AsyncRead for Came {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<std::io::Result<usize>> {
        let count = (self.0.len() - self.1).min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[self.1..self.1 + count]);
        self.1 += count;
        Poll::Ready(Ok(count))
    }
}

fn shared(limits: Limits, stream: &[u8]) -> Taken {
    let mut source = FrameSource::new(Box::new(Came(stream.to_vec(), 0)));
    source.set_limits(limits);
    let reading = async {
        let mut taken = Vec::new();
        loop {
            let head = match source.receive().await {
                Ok(Some(head)) => head,
                Ok(None) => return (taken, Ok(())),
                Err(error) => return (taken, Err(error)),
            };
            let before = taken.len();
            taken.extend(head.encode());
            taken.extend(source.body());
            if let Err(error) = source.payload_onto(&mut taken).await {
                taken.truncate(before);
                return (taken, Err(error));
            }
        }
    };
    match pin!(reading).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(taken) => taken,
        Poll::Pending => panic!("all bytes are there, and it waits"),
    }
}
