//! Reads around what cannot be read.

use crate::schedule::{MOST_IN_BACKGROUND, Scheduler, StreamId};
use forebay_env::Buffer;
use forebay_model::block::MAX_BLOCK;
use forebay_model::{Bytes, Error, Kind, Result};
use std::cell::Cell;

/// The least that is given up.
const UNIT: usize = 4096;
/// Bytes read at once where blocks are looked for: two of the largest, so that one is always whole.
const WINDOW: usize = 2 * MAX_BLOCK;

/// Reads for one stream that give zeros for what the device does not.
pub(crate) struct Salvage {
    disk: Scheduler,
    /// The background if there is none.
    stream: Option<StreamId>,
    /// How many more reads may be spent on finding out what exactly cannot be read.
    patience: Cell<u32>,
    /// Bytes given up so far.
    lost: Cell<u64>,
}

impl Salvage {
    /// Spends at most `patience` extra reads; when they are used up, a read that fails is given up as a whole.
    pub(crate) fn new(disk: Scheduler, stream: StreamId, patience: u32) -> Salvage {
        Salvage { disk, stream: Some(stream), patience: Cell::new(patience), lost: Cell::new(0) }
    }

    /// The same, when nothing else is to be done.
    pub(crate) fn in_background(disk: Scheduler, patience: u32) -> Salvage {
        Salvage { disk, stream: None, patience: Cell::new(patience), lost: Cell::new(0) }
    }

    async fn ask(&self, at: Bytes, buffer: Buffer) -> (Buffer, Result<()>) {
        match self.stream {
            Some(stream) => self.disk.read(stream, at, buffer).await,
            None => self.disk.read_background(at, buffer).await,
        }
    }

    /// Bytes that could not be read so far.
    pub(crate) fn lost(&self) -> Bytes {
        Bytes(self.lost.get())
    }

    /// Reads `length` bytes at `at`; what cannot be read is zeros.
    pub(crate) async fn read(&self, at: Bytes, length: usize) -> Result<Buffer> {
        if self.stream.is_none() && length as u64 > MOST_IN_BACKGROUND.0 {
            return self.read_in_parts(at, length).await;
        }
        let (buffer, result) = self.ask(at, Buffer::alone(Bytes(length as u64))?).await;
        match result {
            Ok(()) => Ok(buffer),
            Err(error) => self.again(at, length, &error).await,
        }
    }

    async fn read_in_parts(&self, at: Bytes, length: usize) -> Result<Buffer> {
        let mut whole = Buffer::alone(Bytes(length as u64))?;
        for (n, part) in (0..).zip(whole.chunks_mut(MOST_IN_BACKGROUND.0 as usize)) {
            let at = at + MOST_IN_BACKGROUND * n;
            let (buffer, result) = self.ask(at, Buffer::alone(Bytes(part.len() as u64))?).await;
            match result {
                Ok(()) => part.copy_from_slice(&buffer),
                Err(error) => part.copy_from_slice(&self.again(at, part.len(), &error).await?),
            }
        }
        Ok(whole)
    }

    /// Reads what can be read of a place where a read has failed.
    pub(crate) async fn again(&self, at: Bytes, length: usize, error: &Error) -> Result<Buffer> {
        let mut whole = Buffer::alone(Bytes(length as u64))?;
        whole.fill(0);
        if error.kind == Kind::Disconnected {
            return Err(Error::device(error.message.clone()));
        }
        // Halves, and halves of those; the least part is asked for twice, since a failure may pass.
        let mut failed = vec![(0, length)];
        while let Some((from, length)) = failed.pop() {
            let half = (length / 2).next_multiple_of(UNIT);
            let parts =
                if length > UNIT { [(from, half), (from + half, length - half)] } else { [(from, length), (0, 0)] };
            for (from, part) in parts.into_iter().filter(|(_, part)| *part > 0) {
                let Some(left) = self.patience.get().checked_sub(1) else {
                    self.lost.set(self.lost.get() + part as u64);
                    continue;
                };
                self.patience.set(left);
                let buffer = Buffer::alone(Bytes(part as u64))?;
                let (buffer, result) = self.ask(at + Bytes(from as u64), buffer).await;
                match result {
                    Ok(()) => whole[from..from + part].copy_from_slice(&buffer),
                    Err(_) if length > UNIT => failed.push((from, part)),
                    Err(_) => self.lost.set(self.lost.get() + part as u64),
                }
            }
        }
        Ok(whole)
    }
}

/// A segment, looked at block by block; what cannot be read is zeros.
pub(crate) struct Window<'a> {
    salvage: &'a Salvage,
    /// Where the segment begins on the device.
    at: Bytes,
    /// Bytes of it that are looked at.
    limit: usize,
    /// The bytes that were read last, and where in the segment they begin.
    held: Option<(usize, Buffer)>,
}

impl Window<'_> {
    /// The first `limit` bytes of the segment at `at`.
    pub(crate) fn new(salvage: &Salvage, at: Bytes, limit: usize) -> Window<'_> {
        Window { salvage, at, limit, held: None }
    }

    /// The bytes from `pos` on: a block of the largest size or more, or all up to the limit.
    pub(crate) async fn from(&mut self, pos: usize) -> Result<&[u8]> {
        let limit = self.limit;
        let covers = |start: usize, end: usize| pos >= start && (pos + MAX_BLOCK <= end || end >= limit);
        if !self.held.as_ref().is_some_and(|(start, bytes)| covers(*start, start + bytes.len())) {
            let length = WINDOW.min(limit - pos);
            self.held = Some((pos, self.salvage.read(self.at + Bytes(pos as u64), length).await?));
        }
        let (start, bytes) = self.held.as_ref().expect("it was just read");
        Ok(&bytes[pos - start..])
    }
}
