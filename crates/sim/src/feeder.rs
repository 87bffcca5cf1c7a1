//! A recorder in virtual time: packs elements as a client does and hands the blocks to a ring on the same loop.

use forebay_env::{Buffer, Clock};
use forebay_model::block::Packer;
use forebay_model::{Bytes, Cause, Gap, Moment, Result, Timestamp};
use forebay_target::{Arrival, Ring};
use std::rc::Rc;
use std::time::Duration;

/// The headers of packets lie in so many of their first bytes.
const HEADERS_WITHIN: usize = 4096;

/// Packs elements into a ring's staging memory.
pub struct Feeder {
    ring: Rc<Ring>,
    clock: Rc<dyn Clock>,
    packer: Packer<Buffer>,
    writer: u64,
    /// Blocks handed in so far.
    number: u64,
    /// The first piece of an element that goes on in the next block is at least this long.
    keys_within: usize,
    /// When the oldest element of the open block was accepted.
    oldest: Option<Moment>,
}

impl Feeder {
    /// Becomes the ring's writer.
    pub fn new(ring: Rc<Ring>, clock: Rc<dyn Clock>, writer: u64) -> Result<Feeder> {
        ring.attach(writer)?;
        let keys_within = HEADERS_WITHIN.max(ring.keys.reach() as usize);
        Ok(Feeder { ring, clock, packer: Packer::new(writer), writer, number: 0, keys_within, oldest: None })
    }

    /// Adds an element, waiting for staging memory if there is none.
    pub async fn element(&mut self, time: Timestamp, parts: &[&[u8]]) -> Result<()> {
        self.element_cut(time, parts, 0).await
    }

    /// Adds an element of which whoever captured it had cut off the last `cut` bytes.
    pub async fn element_cut(&mut self, time: Timestamp, parts: &[&[u8]], cut: u32) -> Result<()> {
        let length: usize = parts.iter().map(|p| p.len()).sum();
        if self.packer.has_buffer() && self.packer.push_cut(time, parts, &[], cut) {
            return Ok(());
        }
        let largest = self.packer.largest(self.ring.staging().capacity().0 as usize, 0);
        // Elements of more than half a block go on in the next one rather than leave blocks half empty.
        // Their keys must lie in the first piece.
        if length <= largest / 2 || self.packer.room(0) < self.keys_within.min(largest) {
            self.send()?;
            self.take().await;
            if length <= largest {
                assert!(self.packer.push_cut(time, parts, &[], cut), "a fresh block takes an element of its size");
                return Ok(());
            }
        }
        self.begin(time, cut).await?;
        for part in parts {
            self.part(part).await?;
        }
        self.packer.end();
        Ok(())
    }

    /// Adds the beginning of an element that its source then cuts off. Whether it has taken a number, since a part of it
    /// had left.
    pub async fn torn(&mut self, time: Timestamp, beginning: &[u8]) -> Result<bool> {
        self.begin(time, 0).await?;
        let before = self.number;
        self.part(beginning).await?;
        let has_left = self.number > before;
        self.packer.abandon();
        self.gap(&Gap { cause: Cause::Rejected, count: Some(1), first: time, last: time }).await?;
        Ok(has_left)
    }

    async fn begin(&mut self, time: Timestamp, cut: u32) -> Result<()> {
        if !self.packer.begin(time, &[], cut) {
            self.send()?;
            self.take().await;
            assert!(self.packer.begin(time, &[], cut), "a fresh block takes the beginning of an element");
        }
        Ok(())
    }

    async fn part(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = self.packer.part(rest);
            rest = &rest[n..];
            if !rest.is_empty() {
                self.send()?;
                self.take().await;
            }
        }
        Ok(())
    }

    /// Whether an element of `length` bytes can be added without waiting for memory; a source that cannot wait asks.
    pub fn room_or_take(&mut self, length: usize) -> bool {
        if self.packer.has_buffer() && self.packer.room(0) >= length {
            return true;
        }
        let capacity = self.ring.staging().capacity().0 as usize;
        let blocks = length.div_ceil(self.packer.largest(capacity, 0)) + 1;
        // An element larger than staging memory goes through it in pieces.
        self.ring.staging().available() >= blocks.min(self.ring.staging().count() / 2)
    }

    /// Records a gap.
    pub async fn gap(&mut self, gap: &Gap) -> Result<()> {
        if !self.packer.has_buffer() || !self.packer.gap(gap) {
            self.send()?;
            self.take().await;
            assert!(self.packer.gap(gap), "a fresh block takes a gap");
        }
        Ok(())
    }

    async fn take(&mut self) {
        self.packer.give(self.ring.staging().take().await);
        self.oldest = Some(self.clock.now());
    }

    /// Hands the open block in if its oldest element has waited for `age`.
    pub fn tick(&mut self, age: Duration) -> Result<()> {
        match self.oldest {
            Some(oldest) if self.clock.now().since(oldest) >= age => self.send(),
            _ => Ok(()),
        }
    }

    /// Hands the open block in; the number that says when all so far is durable.
    pub fn flush(&mut self) -> Result<u64> {
        self.send()?;
        Ok(self.number)
    }

    /// Waits until everything so far is durable; the sequence after it.
    pub async fn durable(&mut self) -> Result<u64> {
        let number = self.flush()?;
        if number == 0 {
            return Ok(self.ring.progress().sequence);
        }
        self.ring.durable(self.writer, number).await
    }

    fn send(&mut self) -> Result<()> {
        if let Some(mut sealed) = self.packer.seal() {
            sealed.buffer.set_len(sealed.length);
            self.number += 1;
            self.ring.accept(Arrival { buffer: sealed.buffer, accepted: self.oldest.unwrap_or(self.clock.now()) })?;
            self.oldest = None;
        }
        Ok(())
    }

    /// Bytes of one block.
    pub fn block(&self) -> Bytes {
        self.ring.staging().capacity()
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.ring.detach(self.writer);
    }
}
