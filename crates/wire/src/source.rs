//! Frames from a stream that many tasks of one loop share: what [`crate::reader`] does of a blocking one.
//!
//! After an error the source returns that error for ever: the stream may be out of step, so the connection is over.

use crate::body;
use crate::checksum::crc32c;
use crate::frame::{Flags, HEADER, Head, Limits};
use crate::reader::{lost, same_checksum};
use forebay_model::sums::{SUMMED, Sum};
use forebay_model::{Error, Result};
use futures_io::AsyncRead;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;

/// Bytes read at once when a frame begins: of small frames, many.
const READ_AHEAD: usize = 32 << 10;
/// Memory is taken as its bytes arrive, in steps of this size; payloads are summed in such pieces, while they are still in
/// the processor's cache.
const STEP: usize = 128 << 10;
const _: () = assert!(STEP.is_multiple_of(SUMMED), "blocks are summed step by step");

/// With what whoever speaks TLS answers somebody who does not: no frame begins so.
pub const TLS_ALERT: [u8; 2] = [21, 3];

/// Reads frames: [`FrameSource::receive`], then its body, then its payload.
pub struct FrameSource {
    stream: Box<dyn AsyncRead + Unpin>,
    ahead: Box<[u8]>,
    /// What of it has arrived and was not taken.
    from: usize,
    to: usize,
    limits: Limits,
    body: Vec<u8>,
    /// The payload that is next in the stream: its length and checksum.
    payload: Option<(usize, u32)>,
    failed: Option<Error>,
    is_changed: bool,
    frames: u64,
    begun: Rc<Cell<Option<u64>>>,
    came: Rc<Cell<u64>>,
    told: Option<Box<dyn Fn(u64)>>,
}

impl FrameSource {
    /// Reads from `stream` what strangers may send, until the handshake is done.
    pub fn new(stream: Box<dyn AsyncRead + Unpin>) -> FrameSource {
        FrameSource {
            stream,
            ahead: vec![0; READ_AHEAD].into_boxed_slice(),
            from: 0,
            to: 0,
            limits: Limits::HELLO,
            body: Vec::new(),
            payload: None,
            failed: None,
            is_changed: false,
            frames: 0,
            begun: Rc::default(),
            came: Rc::default(),
            told: None,
        }
    }

    /// Accepts no more than `limits` from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The next frame, with its body read and checked; `None` when the other side ended the connection between two
    /// frames. A payload of the last frame that was not taken is skipped.
    pub async fn receive(&mut self) -> Result<Option<Head>> {
        self.check()?;
        let received = self.next_frame().await;
        self.note(received)
    }

    /// Which frame has begun to come and did not come to its end, counted from 1.
    pub fn begun(&self) -> Rc<Cell<Option<u64>>> {
        self.begun.clone()
    }

    /// Bytes that have come.
    pub fn came(&self) -> Rc<Cell<u64>> {
        self.came.clone()
    }

    /// Whether a checksum said that something was changed on its way, which is the end then.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Tells `told` from now on how many bytes have come, each time that some did.
    pub fn tell(&mut self, told: impl Fn(u64) + 'static) {
        self.told = Some(Box::new(told));
    }

    /// The bytes of the last frame's body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The last frame's body as a `T`, with nothing left over.
    pub fn decode<T: DeserializeOwned>(&mut self) -> Result<T> {
        let read = body::read(&self.body);
        self.note(read)
    }

    /// The last frame's body as a `T`, whatever a later version has put behind it.
    pub(crate) fn decode_beginning<T: DeserializeOwned>(&mut self) -> Result<T> {
        let read = body::read_beginning(&self.body);
        self.note(read)
    }

    /// The answer that `head` brought: its body as a `T`, or the error that the other side sent. An error of the other
    /// side leaves the connection as good as it was.
    pub fn answer<T: DeserializeOwned>(&mut self, head: &Head) -> Result<T> {
        if head.flags.has(Flags::ERROR) { Err(self.decode::<Error>()?) } else { self.decode() }
    }

    /// Reads the last frame's payload behind what is in `destination`. After an error there is whatever came.
    pub async fn payload_onto(&mut self, destination: &mut Vec<u8>) -> Result<()> {
        self.check()?;
        let read = self.take_payload(destination, None).await;
        self.note(read)
    }

    /// As [`FrameSource::payload_onto`]; the checksums of its blocks of [`SUMMED`] bytes, of those that it fills.
    pub async fn payload_summed_onto(&mut self, destination: &mut Vec<u8>) -> Result<Vec<u32>> {
        self.check()?;
        let mut sums = Vec::new();
        let read = self.take_payload(destination, Some(&mut sums)).await;
        self.note(read.map(|()| sums))
    }

    /// As [`FrameSource::payload_into`]; the checksums of its blocks of [`SUMMED`] bytes, of those that it fills.
    pub async fn payload_summed_into(&mut self, destination: &mut [u8]) -> Result<Vec<u32>> {
        self.check()?;
        let mut sums = Vec::new();
        let read = self.fill_with_payload(destination, Some(&mut sums)).await;
        self.note(read.map(|()| sums))
    }

    /// Reads the last frame's payload into `destination`, which has its length. After an error there is whatever came.
    pub async fn payload_into(&mut self, destination: &mut [u8]) -> Result<()> {
        self.check()?;
        let read = self.fill_with_payload(destination, None).await;
        self.note(read)
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.failed.get_or_insert_with(|| error.clone());
        }
        result
    }

    async fn next_frame(&mut self) -> Result<Option<Head>> {
        self.skip_payload().await?;
        // A connection may end before a frame, not within one.
        if self.from == self.to && self.look().await.map_err(|e| lost("header", &e))? == 0 {
            return Ok(None);
        }
        self.frames += 1;
        self.begun.set(Some(self.frames));
        if self.ahead[self.from..self.to].starts_with(&TLS_ALERT) {
            return Err(Error::usage(
                "the other side speaks TLS, and this one does not: name the authority that vouches for it (--ca)",
            ));
        }
        let mut header = [0; HEADER];
        self.fill(&mut header, "header").await?;
        let head = Head::decode(&header, self.limits).inspect_err(|_| self.is_changed |= Head::is_changed(&header))?;
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let read = self.fill_onto(&mut body, head.body as usize, "body").await;
        self.body = body;
        read?;
        self.same("body", head.body_checksum, crc32c(&self.body))?;
        self.payload = Some((head.payload as usize, head.payload_checksum)).filter(|(length, _)| *length > 0);
        if head.payload == 0 && head.payload_checksum != 0 {
            return Err(Error::damaged(format!(
                "a frame of {} has no payload but a checksum for one: its sender is broken",
                head.request
            )));
        }
        if self.payload.is_none() {
            self.begun.set(None);
        }
        Ok(Some(head))
    }

    /// Passes over the payload that is next in the stream, if there is one, and checks it: it takes no memory.
    async fn skip_payload(&mut self) -> Result<()> {
        let Some((mut left, checksum)) = self.payload.take() else { return Ok(()) };
        let mut sum = Sum::default();
        while left > 0 {
            if self.from == self.to && self.look().await.map_err(|e| lost("payload", &e))? == 0 {
                return Err(lost("payload", &ErrorKind::UnexpectedEof.into()));
            }
            let count = left.min(self.to - self.from);
            sum.update(&self.ahead[self.from..self.from + count]);
            self.from += count;
            left -= count;
        }
        self.begun.set(None);
        self.same("payload", checksum, sum.finish())
    }

    /// Takes the payload that is next in the stream, if there is one, and checks it; adds the checksums of its blocks to `sums`.
    async fn take_payload(&mut self, destination: &mut Vec<u8>, mut sums: Option<&mut Vec<u32>>) -> Result<()> {
        let Some((length, checksum)) = self.payload.take() else { return Ok(()) };
        let mut sum = Sum::default();
        let mut left = length;
        destination.reserve(length);
        while left > 0 {
            let from = destination.len();
            let step = left.min(STEP);
            self.fill_onto(destination, step, "payload").await?;
            add(&destination[from..], &mut sum, sums.as_deref_mut());
            left -= step;
        }
        self.begun.set(None);
        self.same("payload", checksum, sum.finish())
    }

    async fn fill_with_payload(&mut self, destination: &mut [u8], mut sums: Option<&mut Vec<u32>>) -> Result<()> {
        let Some((_, checksum)) = self.payload.take_if(|(length, _)| *length == destination.len()) else {
            return Err(Error::usage("a payload is read into a place of another length"));
        };
        let mut sum = Sum::default();
        for piece in destination.chunks_mut(STEP) {
            self.fill(piece, "payload").await?;
            add(piece, &mut sum, sums.as_deref_mut());
        }
        self.begun.set(None);
        self.same("payload", checksum, sum.finish())
    }

    /// Whether a part of a frame is as its checksum says.
    fn same(&mut self, part: &str, stored: u32, computed: u32) -> Result<()> {
        same_checksum(part, stored, computed).inspect_err(|_| self.is_changed = true)
    }

    /// Reads so many bytes behind what is in `destination`, which grows as they come.
    async fn fill_onto(&mut self, destination: &mut Vec<u8>, length: usize, part: &str) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let (from, step) = (destination.len(), left.min(STEP));
            destination.resize(from + step, 0);
            self.fill(&mut destination[from..], part).await?;
            left -= step;
        }
        Ok(())
    }

    async fn fill(&mut self, mut destination: &mut [u8], part: &str) -> Result<()> {
        while !destination.is_empty() {
            if self.from == self.to && destination.len() >= READ_AHEAD {
                // Bulk goes where it belongs at once.
                let count = read(&mut self.stream, destination).await.map_err(|e| lost(part, &e))?;
                if count == 0 {
                    return Err(lost(part, &ErrorKind::UnexpectedEof.into()));
                }
                self.arrived(count);
                destination = &mut destination[count..];
                continue;
            }
            if self.from == self.to && self.look().await.map_err(|e| lost(part, &e))? == 0 {
                return Err(lost(part, &ErrorKind::UnexpectedEof.into()));
            }
            let count = destination.len().min(self.to - self.from);
            destination[..count].copy_from_slice(&self.ahead[self.from..self.from + count]);
            self.from += count;
            destination = &mut destination[count..];
        }
        Ok(())
    }

    /// Waits for more; how many bytes came.
    async fn look(&mut self) -> std::io::Result<usize> {
        (self.from, self.to) = (0, 0);
        self.to = read(&mut self.stream, &mut self.ahead).await?;
        self.arrived(self.to);
        Ok(self.to)
    }

    fn arrived(&self, count: usize) {
        self.came.set(self.came.get() + count as u64);
        if let Some(told) = &self.told {
            told(self.came.get());
        }
    }
}

/// Goes on with a step of a payload, and puts the checksums of the blocks that it fills into `sums`.
fn add(step: &[u8], sum: &mut Sum, sums: Option<&mut Vec<u32>>) {
    let mut rest = step;
    if let Some(sums) = sums {
        let (blocks, behind) = step.as_chunks::<SUMMED>();
        let from = sums.len();
        sums.extend(blocks.iter().map(|block| crc32c(block)));
        sums[from..].iter().for_each(|of_block| sum.update_block(*of_block));
        rest = behind;
    }
    sum.update(rest);
}

async fn read(stream: &mut (dyn AsyncRead + Unpin), destination: &mut [u8]) -> std::io::Result<usize> {
    poll_fn(|context| {
        loop {
            match Pin::new(&mut *stream).poll_read(context, destination) {
                std::task::Poll::Ready(Err(e)) if e.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    })
    .await
}

#[cfg(test)]
pub(crate) mod tests;
