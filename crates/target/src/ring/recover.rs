//! Finds the tail of a ring after the target was opened, whatever the last run left.
//!
//! The catalog knows the ring as of a checkpoint: a *path* of slots whose segments were not durable as a whole then.
//! From there:
//! 1. Walk: a slot whose trailer names the expected segment holds a sealed one; go on with the slot after it.
//! 2. The first without is the open segment, unless the next segment is there too: then its trailer is damaged, and
//!    its blocks are read instead.
//! 3. A sealed segment is *proven* if its trailer, or anything written after it, says that its blocks were durable. An
//!    unproven one is read as if it were open; where its chain of blocks ends, nothing was acknowledged, and the ring
//!    goes on there.
//! 4. In the open segment the chain of valid blocks ends at the tail. A later block that says the missing one had been
//!    durable proves damage instead: the chain goes on behind it, and a gap tells of it.
//! 5. What lies beyond the tail was never acknowledged. Where it could be taken for data later (the first block and the
//!    trailer of a slot with a sequence still to come), it is erased before anything is written.
//!
//! 6. Epochs never fall along the ring. What a crash undid has the sequence of what was written in its place later, but
//!    a lower epoch: a trailer older than the first block of its slot, or anything older than the segment before it,
//!    is not there.
//!
//! Cut off at any point, it can be done again: it writes nothing but zeros over what is not data.

use super::{Open, Ring};
use crate::catalog::Segment;
use crate::schedule::StreamId;
use crate::segment::{Builder, TRAILER_LEN, Trailer, encode_footer};
use forebay_env::Buffer;
use forebay_model::block::{BLOCK_ALIGN, Header, MAX_BLOCK, View};
use forebay_model::gap::Cause;
use forebay_model::{Bytes, Error, Result};
use std::rc::Rc;

/// How many slots further the expected segment is looked for, should a pin have been made but not told.
const LOOK_AHEAD: usize = 16;
/// Bytes read at once; at least two blocks of the largest size, so that one is always whole.
const WINDOW: usize = 2 * MAX_BLOCK;

/// A segment of the walk.
struct Step {
    slot: u32,
    sequence: u64,
    trailer: Option<Trailer>,
    /// Epoch of the segment before it: nothing in this one is older.
    least_epoch: u64,
}

/// What reading a segment's blocks found.
struct Scan {
    summary: Segment,
    builder: Builder,
    end: u32,
    written: Vec<(u32, u32)>,
    /// Epoch of the last block.
    epoch: u64,
    /// Last block's writer session and number.
    writer: (u64, u64),
    /// Whether any block says that blocks of this segment were durable.
    proof: bool,
    /// Whether what was read ends where the chain ended for want of a valid block.
    damaged: u64,
}

/// Brings the ring to where it can go on.
pub(super) async fn recover(ring: &Rc<Ring>) -> Result<()> {
    let stream = StreamId(u64::MAX - ring.id.0);
    let result = Recovery { ring: ring.clone(), stream }.run().await;
    ring.core.disk.end_stream(stream);
    result
}

struct Recovery {
    ring: Rc<Ring>,
    stream: StreamId,
}

impl Recovery {
    async fn run(&self) -> Result<()> {
        let steps = self.walk().await?;
        if steps.is_empty() {
            return Ok(());
        }
        // From the end to the beginning: the last segment is scanned, then the ones before it as long as none is proven.
        let mut proven = false;
        let mut scans: Vec<Option<Scan>> = steps.iter().map(|_| None).collect();
        for (i, step) in steps.iter().enumerate().rev() {
            let own = step.trailer.as_ref().is_some_and(|t| t.durable_blocks == t.blocks);
            if !proven && !own || step.trailer.is_none() {
                let first = step.trailer.as_ref().map(|t| t.summary.first);
                scans[i] = Some(self.scan(step, first).await?);
            }
            let said = step.trailer.as_ref().is_some_and(|t| t.durable_blocks > 0)
                || scans[i].as_ref().is_some_and(|s| s.proof);
            proven |= own || said;
        }
        self.settle(steps, scans).await
    }

    /// Follows the ring from the last checkpoint to where nothing expected is left.
    async fn walk(&self) -> Result<Vec<Step>> {
        let layout = self.ring.core.layout();
        let (mut planned, mut sequence) =
            self.with(|r| (r.path.clone().into_iter().collect::<std::collections::VecDeque<_>>(), r.path_segment));
        let mut steps: Vec<Step> = Vec::new();
        let mut least_epoch = 0;
        // The walk fills in what the catalog does not know, so that the same rule finds the same slots.
        self.ring.core.with_ring_mut(self.ring.id, |r| r.path.clear());
        loop {
            let slot = match planned.pop_front() {
                Some(slot) => slot,
                None => {
                    let last = steps.last().map_or(self.with(|r| r.slots.len() as u32) - 1, |s| s.slot);
                    match self.with(|r| r.slot_after(&layout, last)) {
                        Some(slot) => slot,
                        None => break,
                    }
                }
            };
            let Some((slot, trailer)) = self.find(slot, sequence, least_epoch).await? else { break };
            let summary = trailer.as_ref().map_or(Segment::opened(sequence, 0), |t| t.summary);
            self.ring.core.with_ring_mut(self.ring.id, |r| {
                r.slots[slot as usize] = Some(summary);
            });
            let epoch = trailer.as_ref().map_or(least_epoch, |t| t.epoch);
            steps.push(Step { slot, sequence, trailer, least_epoch });
            least_epoch = epoch;
            sequence += 1;
        }
        Ok(steps)
    }

    /// Where segment `sequence` is: at `slot`, or a little further. With its trailer, if that is whole.
    async fn find(&self, slot: u32, sequence: u64, least_epoch: u64) -> Result<Option<(u32, Option<Trailer>)>> {
        let layout = self.ring.core.layout();
        let mut candidate = slot;
        for _ in 0..LOOK_AHEAD {
            let begins = self
                .first_block(candidate)
                .await?
                .filter(|h| h.segment.get() == sequence && h.epoch.get() >= least_epoch);
            let written = begins.map_or(least_epoch, |h| h.epoch.get());
            let trailer = self.trailer(candidate, sequence).await?;
            if let Some(trailer) = trailer.filter(|t| t.durable_blocks == t.blocks || t.epoch >= written) {
                return Ok(Some((candidate, Some(trailer))));
            }
            if begins.is_some() {
                return Ok(Some((candidate, None)));
            }
            let n = self.with(|r| r.slots.len() as u32);
            let next = (1..n).map(|step| (candidate + step) % n).find(|s| self.with(|r| r.exists(&layout, *s)));
            match next {
                Some(next) => candidate = next,
                None => break,
            }
        }
        Ok(None)
    }

    async fn trailer(&self, slot: u32, sequence: u64) -> Result<Option<Trailer>> {
        let (at, segment) = self.place(slot);
        let bytes = self.read(at + segment - Bytes(TRAILER_LEN), TRAILER_LEN as usize).await;
        Ok(match bytes.and_then(|b| Trailer::decode(&b)) {
            Ok(t) if t.is_at(self.ring.core.target_id(), self.ring.id.0, slot, sequence) => Some(t),
            Ok(_) => None,
            Err(error) if error.kind == forebay_model::Kind::Version => return Err(error),
            Err(_) => None,
        })
    }

    /// The header of the block at the beginning of the slot, if it is one of this ring.
    async fn first_block(&self, slot: u32) -> Result<Option<Header>> {
        let (at, _) = self.place(slot);
        let Ok(bytes) = self.read(at, BLOCK_ALIGN).await else { return Ok(None) };
        Ok(Header::read(&bytes).ok().filter(|h| self.belongs(h, slot) && h.index.get() == 0))
    }

    fn belongs(&self, header: &Header, slot: u32) -> bool {
        header.target.get() == self.ring.core.target_id()
            && header.ring.get() == self.ring.id.0
            && header.slot.get() == slot
    }

    /// Reads a segment's blocks from its start to where the chain ends.
    async fn scan(&self, step: &Step, first: Option<u64>) -> Result<Scan> {
        let (at, segment) = self.place(step.slot);
        let budget = self.ring.index_budget();
        let mut scan = Scan {
            summary: Segment::opened(step.sequence, first.unwrap_or(0)),
            builder: Builder::new(self.ring.keys.clone(), budget),
            end: 0,
            written: Vec::new(),
            epoch: step.least_epoch,
            writer: (0, 0),
            proof: false,
            damaged: 0,
        };
        let mut epoch = step.least_epoch;
        // The footer is not looked at: where it begins is not known, and it does not look like a block.
        let limit = segment.0 as usize;
        let mut window: Option<(usize, Buffer)> = None;
        let mut pos = 0usize;
        let mut lost_from: Option<u32> = None;
        while pos + BLOCK_ALIGN <= limit {
            let covered = window.as_ref().is_some_and(|(start, bytes)| {
                pos >= *start && (pos + MAX_BLOCK <= start + bytes.len() || start + bytes.len() >= limit)
            });
            if !covered {
                let length = WINDOW.min(limit - pos);
                // A sector that cannot be read is like one that does not match: the chain decides what it means.
                window = Some((pos, self.read_lenient(at + Bytes(pos as u64), length).await?));
            }
            let (start, bytes) = window.as_ref().expect("a window was read");
            let here = &bytes[pos - start..];
            let expected = scan.builder.blocks();
            let found = View::parse(here).ok().filter(|view| {
                let h = view.header();
                self.belongs(h, step.slot)
                    && h.segment.get() == step.sequence
                    && h.offset.get() as usize == pos
                    && h.epoch.get() >= epoch
                    && h.index.get() >= expected
                    && (lost_from.is_some() || h.index.get() == expected)
                    && view.verify().is_ok()
            });
            let Some(view) = found else {
                lost_from.get_or_insert(expected);
                pos += BLOCK_ALIGN;
                continue;
            };
            let header = *view.header();
            if let Some(lost) = lost_from {
                if header.durable_blocks.get() <= lost {
                    // Written after the missing one, and never acknowledged: it is not data.
                    pos += header.total_len.get() as usize;
                    continue;
                }
                let missing = header.first_sequence.get().saturating_sub(scan.summary.end);
                scan.summary.losses.add(Cause::Damaged, Some(missing));
                scan.damaged += 1;
                lost_from = None;
                scan.builder.skip_to(header.index.get());
            }
            epoch = header.epoch.get();
            if scan.written.is_empty() {
                scan.summary.first = header.first_sequence.get();
            }
            scan.builder.add(&view, pos as u32, header.first_sequence.get())?;
            scan.builder.stamped(header.header_crc.get());
            view.gaps().for_each(|(_, gap)| scan.summary.losses.add(gap.cause, gap.count));
            let summary = &mut scan.summary;
            summary.end = header.next_sequence();
            summary.min_time = summary.min_time.min(header.min_time.get());
            summary.max_time = summary.max_time.max(header.max_time.get());
            summary.bytes += header.total_len.get();
            scan.epoch = epoch;
            scan.written.push((pos as u32, header.total_len.get()));
            scan.writer = (header.writer.get(), header.number.get());
            scan.proof |= header.durable_blocks.get() > 0;
            pos += header.total_len.get() as usize;
            scan.end = pos as u32;
        }
        Ok(scan)
    }

    /// Decides where the ring goes on, erases what must not be taken for data, and opens the segment there.
    async fn settle(&self, steps: Vec<Step>, mut scans: Vec<Option<Scan>>) -> Result<()> {
        // A scanned segment that has a trailer is whole if its chain reaches all the blocks the trailer tells of.
        let broken = steps.iter().zip(&scans).position(|(step, scan)| match (scan, &step.trailer) {
            (None, _) => false,
            (Some(scan), Some(trailer)) => scan.builder.blocks() < trailer.blocks,
            // Without a trailer it is the tail, or damaged: then what follows is proven.
            (Some(_), None) => true,
        });
        let last = steps.len() - 1;
        let tail = match broken {
            Some(at) if self.proven_after(&steps, &scans, at) => last,
            Some(at) => at,
            None => last,
        };
        let writer = scans[..=tail].iter().rev().flatten().map(|s| s.writer).find(|w| w.0 != 0).unwrap_or((0, 0));
        for step in &steps[tail + 1..] {
            self.erase(step.slot).await?;
            self.ring.core.with_ring_mut(self.ring.id, |r| r.slots[step.slot as usize] = None);
        }
        let step = &steps[tail];
        let sealed = step.trailer.as_ref().filter(|_| broken != Some(tail));
        // What had to be read block by block has a footer that may be torn or lost: it is written anew.
        let whole = if sealed.is_some() { tail + 1 } else { tail };
        for (step, scan) in steps.iter().zip(&mut scans).take(whole) {
            if let Some(scan) = scan.take() {
                self.ring.core.with_ring_mut(self.ring.id, |r| r.slots[step.slot as usize] = Some(scan.summary));
                self.write_footer(step, scan).await?;
            }
        }
        let next_element = match sealed {
            Some(trailer) => trailer.summary.end,
            None => {
                let scan = scans[tail].as_mut().expect("the tail was scanned");
                if scan.written.is_empty() {
                    let before = tail.checked_sub(1).and_then(|i| steps[i].trailer.as_ref()).map(|t| t.summary.end);
                    scan.summary = Segment::opened(step.sequence, before.unwrap_or(self.with(|r| r.path_element)));
                }
                scan.summary.end
            }
        };
        let mut path: Vec<u32> = Vec::new();
        if sealed.is_none() {
            if step.trailer.is_some() {
                self.erase_trailer(step.slot).await?;
            }
            path.push(step.slot);
        }
        let path_segment = if sealed.is_some() { step.sequence + 1 } else { step.sequence };
        self.ring.core.disk.flush().await?;
        // What would be taken for the next segment, were it still there when the ring gets to it.
        self.erase_followers(step.slot, step.sequence).await?;
        let summary = scans[tail].as_ref().map(|s| s.summary);
        self.ring.core.with_ring_mut(self.ring.id, |r| {
            r.path = path;
            r.path_segment = path_segment;
            r.path_element = summary.filter(|_| sealed.is_none()).map_or(next_element, |s| s.first);
            if sealed.is_none() {
                r.slots[step.slot as usize] = summary;
            }
        });
        let (at, _) = self.place(step.slot);
        let mut work = self.ring.work.borrow_mut();
        work.next_element = next_element;
        work.progress.writer = writer.0;
        work.progress.durable = writer.1;
        work.progress.sequence = next_element;
        if sealed.is_none() {
            let scan = scans[tail].take().expect("the tail was scanned");
            let durable_blocks = scan.builder.blocks();
            work.open = Some(Open {
                slot: step.slot,
                at,
                summary: scan.summary,
                builder: scan.builder,
                end: scan.end,
                written: scan.written,
                next_written: durable_blocks,
                durable_blocks,
            });
        }
        Ok(())
    }

    async fn write_footer(&self, step: &Step, scan: Scan) -> Result<()> {
        let (at, segment) = self.place(step.slot);
        let blocks = scan.builder.blocks();
        let trailer = Trailer {
            target: self.ring.core.target_id(),
            ring: self.ring.id.0,
            slot: step.slot,
            // Not this opening's: the segments behind it were written before.
            epoch: step.trailer.as_ref().map_or(scan.epoch, |t| t.epoch),
            summary: scan.summary,
            blocks,
            durable_blocks: blocks,
            tables_at: 0,
            tables_len: 0,
            tables_crc: 0,
        };
        // The blocks are durable before a trailer says so.
        self.ring.core.disk.flush().await?;
        let (start, bytes, _) = encode_footer(scan.builder, segment, trailer)?;
        assert!(start >= scan.end, "the footer at {start} would overwrite blocks up to {}", scan.end);
        for (i, part) in bytes.chunks(Bytes::mib(1).0 as usize).enumerate() {
            let mut buffer = Buffer::alone(Bytes(part.len() as u64))?;
            buffer.copy_from_slice(part);
            let place = at + Bytes(u64::from(start)) + Bytes::mib(1) * i as u64;
            self.ring.core.disk.write_metadata(place, buffer).await.1?;
        }
        Ok(())
    }

    /// Whether anything behind step `at` says that it had been durable.
    fn proven_after(&self, steps: &[Step], scans: &[Option<Scan>], at: usize) -> bool {
        steps.iter().zip(scans).skip(at + 1).any(|(step, scan)| {
            step.trailer.as_ref().is_some_and(|t| t.durable_blocks > 0) || scan.as_ref().is_some_and(|s| s.proof)
        })
    }

    async fn erase_followers(&self, slot: u32, sequence: u64) -> Result<()> {
        let layout = self.ring.core.layout();
        let Some(next) = self.with(|r| r.slot_after(&layout, slot)) else { return Ok(()) };
        let stale = self.first_block(next).await?.is_some_and(|h| h.segment.get() > sequence)
            || self.trailer(next, sequence + 1).await?.is_some();
        if stale {
            self.erase(next).await?;
            self.ring.core.disk.flush().await?;
        }
        Ok(())
    }

    async fn erase(&self, slot: u32) -> Result<()> {
        let (at, _) = self.place(slot);
        let mut zeros = Buffer::alone(Bytes(BLOCK_ALIGN as u64))?;
        zeros.fill(0);
        self.ring.core.disk.write_metadata(at, zeros).await.1?;
        self.erase_trailer(slot).await
    }

    async fn erase_trailer(&self, slot: u32) -> Result<()> {
        let (at, segment) = self.place(slot);
        let mut zeros = Buffer::alone(Bytes(TRAILER_LEN))?;
        zeros.fill(0);
        self.ring.core.disk.write_metadata(at + segment - Bytes(TRAILER_LEN), zeros).await.1
    }

    fn place(&self, slot: u32) -> (Bytes, Bytes) {
        let layout = self.ring.core.layout();
        self.with(|r| (r.slot_at(&layout, slot), r.segment))
    }

    fn with<T>(&self, look: impl FnOnce(&crate::catalog::RingRecord) -> T) -> T {
        self.ring.core.with_ring(self.ring.id, look)
    }

    async fn read(&self, at: Bytes, length: usize) -> Result<Buffer> {
        let (buffer, result) = self.ring.core.disk.read(self.stream, at, Buffer::alone(Bytes(length as u64))?).await;
        result.map(|()| buffer)
    }

    /// Reads what can be read; what cannot is zeros.
    async fn read_lenient(&self, at: Bytes, length: usize) -> Result<Buffer> {
        match self.read(at, length).await {
            Ok(buffer) => Ok(buffer),
            Err(_) => {
                let mut whole = Buffer::alone(Bytes(length as u64))?;
                for start in (0..length).step_by(BLOCK_ALIGN) {
                    let part = &mut whole[start..start + BLOCK_ALIGN];
                    match self.read(at + Bytes(start as u64), BLOCK_ALIGN).await {
                        Ok(bytes) => part.copy_from_slice(&bytes),
                        Err(error) if error.kind == forebay_model::Kind::Disconnected => {
                            return Err(Error::device(error.message));
                        }
                        Err(_) => part.fill(0),
                    }
                }
                Ok(whole)
            }
        }
    }
}
