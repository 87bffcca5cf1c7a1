//! Frames from a blocking stream.
//!
//! The caller is told the payload's length and says where it goes, so bulk data lands in its destination at once; at
//! most [`READ_AHEAD`] bytes of it pass through the read-ahead that makes small frames cost one system call.
//! After an error the reader returns that error for ever: the stream may be out of step, so the connection is over.

use crate::body;
use crate::checksum::crc32c;
use crate::frame::{Flags, HEADER, Head, Limits};
use forebay_model::sums::Sum;
use forebay_model::{Error, Result};
use serde::de::DeserializeOwned;
use std::io::{BufReader, ErrorKind, Read};

/// Bytes read at once when a frame begins.
pub const READ_AHEAD: usize = 4 << 10;
/// Memory for a body is taken as its bytes arrive, in steps of this size; payloads are summed in such pieces, while
/// they are still in the processor's cache.
const STEP: usize = 64 << 10;

/// Reads frames: [`FrameReader::receive`], then [`FrameReader::decode`] its body, then take its payload.
pub struct FrameReader<R> {
    stream: BufReader<R>,
    limits: Limits,
    body: Vec<u8>,
    /// The payload that is next in the stream: its length and checksum.
    payload: Option<(usize, u32)>,
    failed: Option<Error>,
}

impl<R: Read> FrameReader<R> {
    /// Reads from `stream` what a session may send. For a connection's first frame, see [`crate::handshake`].
    pub fn new(stream: R) -> FrameReader<R> {
        FrameReader {
            stream: BufReader::with_capacity(READ_AHEAD, stream),
            limits: Limits::SESSION,
            body: Vec::new(),
            payload: None,
            failed: None,
        }
    }

    /// Accepts no more than `limits` from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The next frame, with its body read and checked; `None` when the other side ended the connection between two
    /// frames. A payload of the last frame that was not taken is skipped.
    pub fn receive(&mut self) -> Result<Option<Head>> {
        self.watched(|reader| {
            reader.pass_payload(|_| {})?;
            let Some(head) = reader.read_head()? else { return Ok(None) };
            reader.read_body(&head)?;
            reader.payload = Some((head.payload as usize, head.payload_checksum)).filter(|(length, _)| *length > 0);
            if head.payload == 0 && head.payload_checksum != 0 {
                return Err(Error::damaged(format!(
                    "a frame of {} has no payload but a checksum for one: its sender is broken",
                    head.request
                )));
            }
            Ok(Some(head))
        })
    }

    /// The bytes of the last frame's body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The last frame's body as a `T`, with nothing left over.
    pub fn decode<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.watched(|reader| body::read(&reader.body))
    }

    /// What `read` makes of the last frame's body; if that is an error, the connection is over.
    pub(crate) fn parse<T>(&mut self, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.watched(|reader| read(&reader.body))
    }

    /// The last frame's body as a `T`, whatever a later version has put behind it.
    pub(crate) fn decode_beginning<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.watched(|reader| body::read_beginning(&reader.body))
    }

    /// The answer that `head` brought: its body as a `T`, or the error that the other side sent. An error of the
    /// other side leaves the connection as good as it was.
    pub fn answer<T: DeserializeOwned>(&mut self, head: &Head) -> Result<T> {
        if head.flags.has(Flags::ERROR) { Err(self.decode::<Error>()?) } else { self.decode() }
    }

    /// Reads the last frame's payload into `destination`, which is exactly as long.
    /// After an error its content is whatever came.
    pub fn payload_into(&mut self, destination: &mut [u8]) -> Result<()> {
        let expected = self.payload.map_or(0, |(length, _)| length);
        if destination.len() != expected {
            let given = destination.len();
            return Err(Error::usage(format!("a payload of {expected} bytes cannot be read into {given} bytes")));
        }
        self.watched(|reader| {
            let Some((_, checksum)) = reader.payload.take() else { return Ok(()) };
            let mut sum = Sum::default();
            for piece in destination.chunks_mut(STEP) {
                reader.fill(piece, "payload")?;
                sum.update(piece);
            }
            same_checksum("payload", checksum, sum.finish())
        })
    }

    /// Appends the last frame's payload to `destination`, which on an error is as it was.
    pub fn payload_onto(&mut self, destination: &mut Vec<u8>) -> Result<()> {
        let before = destination.len();
        let result = self.watched(|reader| reader.pass_payload(|piece| destination.extend_from_slice(piece)));
        if result.is_err() {
            destination.truncate(before);
        }
        result
    }

    /// Runs `step` unless something failed before, and remembers its failure.
    fn watched<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = step(self);
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    fn read_head(&mut self) -> Result<Option<Head>> {
        let mut bytes = [0; HEADER];
        // A connection may end before a frame, not within one.
        let first = loop {
            match self.stream.read(&mut bytes) {
                Ok(count) => break count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(lost("header", &e)),
            }
        };
        if first == 0 {
            return Ok(None);
        }
        self.fill(&mut bytes[first..], "header")?;
        Head::decode(&bytes, self.limits).map(Some)
    }

    fn read_body(&mut self, head: &Head) -> Result<()> {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let length = head.body as usize;
        while body.len() < length {
            let from = body.len();
            body.resize(length.min(from + STEP), 0);
            self.fill(&mut body[from..], "body")?;
        }
        same_checksum("body", head.body_checksum, crc32c(&body))?;
        self.body = body;
        Ok(())
    }

    /// Hands the payload that is next in the stream to `take`, piece by piece, and checks it at its end.
    fn pass_payload(&mut self, mut take: impl FnMut(&[u8])) -> Result<()> {
        let Some((length, checksum)) = self.payload.take() else { return Ok(()) };
        let mut sum = Sum::default();
        let mut left = length;
        let mut piece = [0; 8 << 10];
        while left > 0 {
            let count = left.min(piece.len());
            self.fill(&mut piece[..count], "payload")?;
            sum.update(&piece[..count]);
            take(&piece[..count]);
            left -= count;
        }
        same_checksum("payload", checksum, sum.finish())
    }

    fn fill(&mut self, destination: &mut [u8], part: &str) -> Result<()> {
        self.stream.read_exact(destination).map_err(|e| lost(part, &e))
    }
}

/// What a stream itself says is wrong with it, in our words.
pub(crate) fn told(reason: &std::io::Error) -> Option<Error> {
    reason.get_ref()?.downcast_ref::<Error>().cloned()
}

pub(crate) fn lost(part: &str, reason: &std::io::Error) -> Error {
    if let Some(error) = told(reason) {
        return error;
    }
    let reason = match reason.kind() {
        ErrorKind::UnexpectedEof => "the other side went away".to_string(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "the other side sends nothing more".to_string(),
        _ => reason.to_string(),
    };
    Error::disconnected(format!("the connection ended within the {part} of a frame: {reason}; connect again and ask"))
}

pub(crate) fn same_checksum(part: &str, stored: u32, computed: u32) -> Result<()> {
    if stored == computed {
        return Ok(());
    }
    Err(Error::damaged(format!(
        "the {part} of a frame has checksum {stored:08x} and its bytes give {computed:08x}: it was changed on its way; connect again and repeat the request"
    )))
}

#[cfg(test)]
mod tests;
