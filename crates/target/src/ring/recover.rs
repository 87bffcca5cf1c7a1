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
//!    durable proves damage instead: the chain goes on with whatever is whole behind it, and a gap tells of it. So does
//!    the checkpoint: what it calls durable was acknowledged, and if it is gone, the ring goes on after it. A block of an
//!    earlier opening where a later one found nothing ends the chain, whole as it looks by now ([`Floor`]).
//! 5. What lies beyond the tail was never acknowledged. Where it could be taken for data later (the first block and the
//!    trailer of a slot with a sequence still to come; the block that a crash left torn where the next one goes), it is
//!    erased before anything is written. So whatever fits behind the tail later was written behind it.
//!
//! 6. Epochs never fall along the ring. What a crash undid has the sequence of what was written in its place later, but
//!    a lower epoch: a trailer older than the first block of its slot, or anything older than the segment before it,
//!    is not there. Nor is a segment where an earlier one of the walk is.
//!
//! Cut off at any point, it can be done again: it writes nothing but zeros over what is not data. Until it is done the catalog
//! says what it said when the target was opened, for others make it durable meanwhile.

use super::durable::Accepted;
use super::{Open, Ring, Written, pins};
use crate::catalog::{RingRecord, Segment, Writers};
use crate::layout::ROOTS;
use crate::salvage::{Salvage, Window};
use crate::schedule::StreamId;
use crate::segment::{Builder, Description, TRAILER_LEN, Trailer, encode_footer};
use forebay_env::Buffer;
use forebay_model::block::{BLOCK_ALIGN, Header, View};
use forebay_model::gap::Cause;
use forebay_model::{Bytes, Error, Result};
use std::cell::RefCell;
use std::rc::Rc;

/// Reads that may be spent on finding out what exactly cannot be read.
const PATIENCE: u32 = 65_536;
/// How many slots further the expected segment is looked for, should a pin have been made but not told. What lies further is not
/// written to before the catalog says why ([`crate::walk`]).
pub(crate) const LOOK_AHEAD: usize = 16;
/// Bytes erased at once.
const ERASED_AT_ONCE: Bytes = Bytes::mib(1);

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
    /// Whether `summary.first` is known, and not only the first that was found.
    first_known: bool,
    builder: Builder,
    end: u32,
    written: Vec<Written>,
    /// Epoch of the last block.
    epoch: u64,
    /// Whose blocks were found, and the last of each.
    writers: Writers,
    /// Whether any block says that blocks of this segment were durable.
    proof: bool,
    /// Whether a block of this segment begins at `end`, and is not data.
    undone: bool,
}

/// What an opening found was durable before it wrote anything. So a block of it says how many those were at the most, and
/// what an earlier one wrote behind them is not data: a block that a crash left torn, of which the sectors that were
/// missing came later, with a newer block that was torn there. Opening erases such a block; this is for one that it could
/// not read, or that the device did not erase.
struct Floor {
    /// Blocks from this one on ...
    from: u32,
    /// ... are of this opening or a later one.
    epoch: u64,
}

/// What is known of a segment before its blocks are read.
struct Known {
    /// Sequence of its first element.
    first: Option<u64>,
    /// Sequence of the first element of the segment after it.
    bound: u64,
    /// Opening that wrote that one last: where this one was written on later, that one was undone before.
    bound_epoch: u64,
    /// Blocks before this number had been durable.
    durable: u32,
}

/// Where a ring stands: the segments from its last checkpoint on, and which of them is its last.
pub(crate) struct Survey {
    steps: Vec<Step>,
    scans: Vec<Option<Scan>>,
    tail: usize,
    /// Whether the last one is sealed.
    sealed: bool,
    /// Elements after the tail's end that had been acknowledged and are gone.
    lost_end: u64,
}

/// Brings the ring to where it can go on.
pub(super) async fn recover(ring: &Rc<Ring>) -> Result<()> {
    let stream = StreamId(u64::MAX - ring.id.0);
    let salvage = Salvage::new(ring.core.disk.clone(), stream, PATIENCE);
    let recovery = Recovery::new(ring, salvage);
    let result = recovery.run().await;
    ring.core.disk.end_stream(stream);
    if result? {
        // What is missing at the end has its place in a segment of its own.
        ring.next_segment(Accepted::now(ring.core.disk.env().clock.now()), None).await?;
    }
    Ok(())
}

/// A segment from the last checkpoint on, as opening would find it.
pub(crate) struct Standing {
    pub(crate) slot: u32,
    pub(crate) summary: Segment,
    /// Where its blocks end, if they had to be read one by one.
    pub(crate) end: Option<u32>,
    /// Whether it is the one that goes on, which has no footer.
    pub(crate) open: bool,
}

/// Where a ring stands, found out without changing anything: its segments from the last checkpoint on, what opening
/// would change on the device, and how many elements are gone behind the last segment.
pub(crate) async fn standings(ring: &Rc<Ring>, salvage: Salvage) -> Result<(Vec<Standing>, Vec<String>, u64)> {
    let recovery = Recovery::new(ring, salvage);
    let survey = recovery.survey().await?;
    if survey.steps.is_empty() {
        let lost = recovery.with(|r| r.durable_end.saturating_sub(r.path_element));
        return Ok((Vec::new(), Vec::new(), lost));
    }
    let Survey { steps, mut scans, tail, sealed, lost_end } = survey;
    let mut repairs: Vec<String> = Vec::new();
    repairs.extend(
        steps[tail + 1..]
            .iter()
            .map(|step| format!("segment {} was never acknowledged; opening erases it", step.sequence)),
    );
    let standings = steps[..=tail].iter().zip(&mut scans).enumerate().map(|(at, (step, scan))| {
        let open = at == tail && !sealed;
        if scan.is_some() && !open {
            repairs.push(format!("opening writes tables and trailer of segment {} anew", step.sequence));
        }
        match (scan.take(), &step.trailer) {
            (Some(scan), _) => Standing { slot: step.slot, summary: scan.summary, end: Some(scan.end), open },
            (None, Some(trailer)) => Standing { slot: step.slot, summary: trailer.summary, end: None, open },
            (None, None) => unreachable!("what has no trailer is scanned"),
        }
    });
    let standings = standings.collect();
    Ok((standings, repairs, if sealed { lost_end } else { 0 }))
}

struct Recovery {
    ring: Rc<Ring>,
    salvage: Salvage,
    /// The ring as far as it is found.
    record: RefCell<RingRecord>,
}

impl Recovery {
    fn new(ring: &Rc<Ring>, salvage: Salvage) -> Recovery {
        let record = RefCell::new(ring.core.with_ring(ring.id, RingRecord::clone));
        Recovery { ring: ring.clone(), salvage, record }
    }

    /// Whether elements are missing behind a sealed tail.
    async fn run(&self) -> Result<bool> {
        let survey = self.survey().await?;
        if survey.steps.is_empty() {
            self.install(&[]);
            return Ok(self.lose_the_end(self.with(|r| r.path_element)));
        }
        self.settle(survey).await
    }

    /// The catalog says from now on what was found; these segments it did not know.
    fn install(&self, new: &[(u32, Segment)]) {
        let RingRecord { slots, path, path_segment, path_element, writers, .. } = self.record.borrow().clone();
        let now = self.ring.core.disk.env().clock.wall();
        self.ring.core.with_ring_mut(self.ring.id, |r| {
            (r.slots, r.path, r.path_segment, r.path_element, r.writers) =
                (slots, path, path_segment, path_element, writers);
            pins::hold_found(r, new, now);
        });
    }

    /// Nothing is found behind `end`: whether something had been acknowledged.
    fn lose_the_end(&self, end: u64) -> bool {
        let durable_end = self.with(|r| r.durable_end);
        let mut work = self.ring.work.borrow_mut();
        work.next_element = end.max(durable_end);
        work.progress.sequence = work.next_element;
        work.lost_before = work.next_element - end;
        work.lost_before > 0
    }

    /// Finds out where the ring stands. Writes nothing.
    async fn survey(&self) -> Result<Survey> {
        let steps = self.walk().await?;
        // From the end to the beginning: the last segment is scanned, then the ones before it as long as none is proven.
        let mut proven = false;
        let (mut bound, mut bound_epoch) = (u64::MAX, u64::MAX);
        let mut scans: Vec<Option<Scan>> = steps.iter().map(|_| None).collect();
        for (i, step) in steps.iter().enumerate().rev() {
            let own = step.trailer.as_ref().is_some_and(|t| t.durable_blocks == t.blocks);
            if !proven && !own || step.trailer.is_none() {
                let mut known = Known { first: None, bound, bound_epoch, durable: if proven { u32::MAX } else { 0 } };
                if let Some(trailer) = &step.trailer {
                    known.first = Some(trailer.summary.first);
                    known.durable = known.durable.max(trailer.durable_blocks);
                } else if i == 0 {
                    known.first = Some(self.with(|r| r.path_element));
                }
                scans[i] = Some(self.scan(step, known).await?);
            }
            let first = match (&step.trailer, &scans[i]) {
                (Some(trailer), _) => Some(trailer.summary.first),
                (None, scan) => scan.as_ref().filter(|s| !s.written.is_empty()).map(|s| s.summary.first),
            };
            if let Some(first) = first {
                let epoch = scans[i].as_ref().map(|scan| scan.epoch).or(step.trailer.as_ref().map(|t| t.epoch));
                (bound, bound_epoch) = (first, epoch.unwrap_or(u64::MAX));
            }
            let said = step.trailer.as_ref().is_some_and(|t| t.durable_blocks > 0)
                || scans[i].as_ref().is_some_and(|s| s.proof);
            proven |= own || said;
        }
        // A scanned segment that has a trailer is whole if its chain reaches all the blocks the trailer tells of.
        // Without one it is the tail, or damaged: then what follows is proven.
        let broken = |at: usize| match (&scans[at], &steps[at].trailer) {
            (None, _) => false,
            (Some(scan), Some(trailer)) => scan.builder.blocks() < trailer.blocks,
            (Some(_), None) => true,
        };
        let torn = (0..steps.len()).find(|at| broken(*at) && !proven_after(&steps, &scans, *at));
        let tail = torn.unwrap_or(steps.len().saturating_sub(1));
        let sealed = steps.get(tail).is_some_and(|step| step.trailer.is_some()) && torn != Some(tail);
        let mut survey = Survey { steps, scans, tail, sealed, lost_end: 0 };
        self.tie(&mut survey);
        if self.salvage.lost() > Bytes::ZERO {
            self.can_read().await?;
        }
        Ok(survey)
    }

    /// A time that nothing in segment `sequence` is before, as well as it is known.
    fn time_before(&self, sequence: u64) -> i64 {
        let before = self.with(|r| r.slots.iter().flatten().find(|s| s.sequence + 1 == sequence).map(|s| s.max_time));
        before.unwrap_or(self.ring.core.formatted().0)
    }

    /// Whether it is a place that cannot be read, and not the device: what a dead device does not show is not missing.
    async fn can_read(&self) -> Result<()> {
        for root in ROOTS {
            let (_, result) = self.ring.core.disk.read_metadata(root, Buffer::alone(Bytes(BLOCK_ALIGN as u64))?).await;
            if result.is_ok() {
                return Ok(());
            }
        }
        Err(Error::device(format!(
            "{} does not read any more, so that the end of its rings cannot be found; check the device and open the target again",
            self.ring.core.disk.geometry().name
        )))
    }

    /// Each segment begins where the one before it ends: what is missing between two belongs to one of them.
    fn tie(&self, survey: &mut Survey) {
        let Survey { steps, scans, tail, sealed, lost_end } = survey;
        if steps.is_empty() {
            return;
        }
        let mut end = self.with(|r| r.path_element);
        let mut time = self.time_before(steps[0].sequence);
        for (at, step) in steps.iter().enumerate().take(*tail + 1) {
            let (before, here) = scans.split_at_mut(at);
            let before = before.last_mut().and_then(Option::as_mut);
            let Some(scan) = &mut here[0] else {
                let trailer = step.trailer.as_ref().expect("what was not scanned has its trailer");
                if let Some(before) = before {
                    before.lose_up_to(trailer.summary.first, trailer.summary.min_time);
                }
                (end, time) = (trailer.summary.end, trailer.summary.max_time);
                continue;
            };
            if scan.written.is_empty() {
                scan.summary = Segment::opened(step.sequence, end);
            } else if scan.summary.first > end {
                match before.filter(|_| scan.first_known) {
                    Some(before) => before.lose_up_to(scan.summary.first, scan.summary.min_time),
                    None => {
                        scan.summary.losses.add(Cause::Damaged, Some(scan.summary.first - end));
                        scan.summary.first = end;
                    }
                }
            }
            if scan.written.first().is_some_and(|block| block.elements.0 > scan.summary.first) {
                // What is missing at its beginning is later than what came before.
                scan.summary.min_time = scan.summary.min_time.min(time);
            }
            (end, time) = (scan.summary.end, time.max(scan.summary.max_time));
        }
        let durable_end = self.with(|r| r.durable_end);
        *lost_end = durable_end.saturating_sub(end);
        if !*sealed && let Some(scan) = &mut scans[*tail] {
            let now = self.ring.core.disk.env().clock.wall().0;
            if scan.written.is_empty() && durable_end > end {
                scan.summary.min_time = time.min(now);
                scan.summary.max_time = time;
            }
            scan.lose_up_to(durable_end, now);
        }
    }

    /// Follows the ring from the last checkpoint to where nothing expected is left.
    async fn walk(&self) -> Result<Vec<Step>> {
        let layout = self.ring.core.layout();
        let (mut planned, mut sequence) =
            self.with(|r| (r.path.clone().into_iter().collect::<std::collections::VecDeque<_>>(), r.path_segment));
        let mut steps: Vec<Step> = Vec::new();
        let mut least_epoch = 0;
        // The walk fills in what the catalog does not know, so that the same rule finds the same slots.
        self.with_mut(|r| r.path.clear());
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
            let taken: Vec<u32> = steps.iter().map(|step| step.slot).collect();
            if taken.contains(&slot) {
                break;
            }
            let Some((slot, trailer, epoch)) = self.find(slot, (sequence, least_epoch), &taken).await? else { break };
            let summary = trailer.as_ref().map_or(Segment::opened(sequence, 0), |t| t.summary);
            self.with_mut(|r| r.slots[slot as usize] = Some(summary));
            steps.push(Step { slot, sequence, trailer, least_epoch });
            least_epoch = epoch;
            sequence += 1;
        }
        Ok(steps)
    }

    /// Where segment `sequence` is: at `slot`, or a little further, but where none of those before it is. What a crash undid may
    /// have left a trailer behind one of these, which would be taken for the next one. With its trailer, if that is whole, and the
    /// epoch of that or of its first block.
    async fn find(
        &self,
        slot: u32,
        (sequence, least_epoch): (u64, u64),
        taken: &[u32],
    ) -> Result<Option<(u32, Option<Trailer>, u64)>> {
        let layout = self.ring.core.layout();
        let mut candidate = slot;
        for step in 0..LOOK_AHEAD {
            let is_it = |h: &Header| h.segment.get() == sequence && h.epoch.get() >= least_epoch;
            let mut begins = self.first_block(candidate).await?.filter(is_it);
            if step == 0 && begins.is_none() {
                // Where it must be, it may be there with its first block damaged.
                begins = self.early_block(candidate, is_it).await?;
            }
            let written = begins.map_or(least_epoch, |h| h.epoch.get());
            let trailer = self.trailer(candidate, sequence).await?;
            if let Some(trailer) = trailer.filter(|t| t.durable_blocks == t.blocks || t.epoch >= written) {
                let epoch = trailer.epoch;
                return Ok(Some((candidate, Some(trailer), epoch)));
            }
            if begins.is_some() {
                return Ok(Some((candidate, None, written)));
            }
            let n = self.with(|r| r.slots.len() as u32);
            let is_free = |s: &u32| !taken.contains(s) && self.with(|r| r.exists(&layout, *s));
            let next = (1..n).map(|step| (candidate + step) % n).find(is_free);
            match next {
                Some(next) => candidate = next,
                None => break,
            }
        }
        Ok(None)
    }

    async fn trailer(&self, slot: u32, sequence: u64) -> Result<Option<Trailer>> {
        let (at, segment) = self.place(slot);
        let bytes = self.salvage.read(at + segment - Bytes(TRAILER_LEN), TRAILER_LEN as usize).await?;
        Ok(match Trailer::decode(&bytes) {
            Ok(t) if t.is_at(self.ring.origin.target, self.ring.origin.ring, slot, sequence) => Some(t),
            Ok(_) => None,
            Err(error) if error.kind == forebay_model::Kind::Version => return Err(error),
            Err(_) => None,
        })
    }

    /// The header of the block at the beginning of the slot, if it is one of this ring.
    async fn first_block(&self, slot: u32) -> Result<Option<Header>> {
        let (at, _) = self.place(slot);
        let bytes = self.salvage.read(at, BLOCK_ALIGN).await?;
        Ok(Header::read(&bytes).ok().filter(|h| self.belongs(h, slot) && h.index.get() == 0))
    }

    /// The header of the first block that is found where the second or the third one of the slot could begin.
    async fn early_block(&self, slot: u32, is_it: impl Fn(&Header) -> bool) -> Result<Option<Header>> {
        let (at, segment) = self.place(slot);
        let length = (self.with(|r| r.spec.block).0 * 2 + BLOCK_ALIGN as u64).min(segment.0) as usize;
        let bytes = self.salvage.read(at, length).await?;
        Ok((0..length).step_by(BLOCK_ALIGN).find_map(|pos| {
            Header::read(&bytes[pos..])
                .ok()
                .filter(|h| self.belongs(h, slot) && h.offset.get() as usize == pos && is_it(h))
        }))
    }

    fn belongs(&self, header: &Header, slot: u32) -> bool {
        header.target.get() == self.ring.origin.target
            && header.ring.get() == self.ring.origin.ring
            && header.slot.get() == slot
    }

    /// Reads a segment's blocks from its start to where the chain ends.
    async fn scan(&self, step: &Step, known: Known) -> Result<Scan> {
        // Each turn bars a block that the one before took, so that there is a last one.
        let mut floors = Vec::new();
        loop {
            if let Some(scan) = self.scan_above(step, &known, &mut floors).await? {
                return Ok(scan);
            }
        }
    }

    /// As [`Recovery::scan`], of what no floor bars; nothing if another floor was found.
    async fn scan_above(&self, step: &Step, known: &Known, floors: &mut Vec<Floor>) -> Result<Option<Scan>> {
        let (at, segment) = self.place(step.slot);
        let budget = self.ring.index_budget();
        let mut scan = Scan {
            summary: Segment::opened(step.sequence, known.first.unwrap_or(0)),
            first_known: known.first.is_some(),
            builder: Builder::new(self.ring.keys.clone(), budget),
            end: 0,
            written: Vec::new(),
            epoch: step.least_epoch,
            writers: Writers::default(),
            proof: false,
            undone: false,
        };
        // The footer is not looked at: where it begins is not known, and it does not look like a block.
        let limit = segment.0 as usize;
        let mut window = Window::new(&self.salvage, at, limit);
        let mut pos = 0usize;
        let mut durable = known.durable;
        let durable_end = self.with(|r| r.durable_end);
        // The place from which on nothing fits the chain.
        let mut hole: Option<usize> = None;
        while pos + BLOCK_ALIGN <= limit {
            // A sector that cannot be read is like one that does not match: the chain decides what it means.
            let here = window.from(pos).await?;
            let expected = scan.builder.blocks();
            let found = View::parse(here).ok().filter(|view| {
                let h = view.header();
                self.belongs(h, step.slot)
                    && h.segment.get() == step.sequence
                    && h.offset.get() as usize == pos
                    && h.epoch.get() >= scan.epoch
                    && h.index.get() >= expected
                    && floors.iter().all(|floor| h.index.get() < floor.from || h.epoch.get() >= floor.epoch)
                    && (hole.is_some() || h.index.get() == expected)
                    && h.first_sequence.get() >= scan.summary.end
                    && (h.next_sequence() <= known.bound || h.epoch.get() > known.bound_epoch)
                    && view.verify().is_ok()
            });
            let Some(view) = found else {
                if hole.is_none() {
                    let begins = |h: Header| self.belongs(&h, step.slot) && h.segment.get() == step.sequence;
                    scan.undone = Header::read(here).is_ok_and(begins);
                    hole = Some(pos);
                }
                pos += BLOCK_ALIGN;
                continue;
            };
            let header = *view.header();
            if let Some(last) = scan.written.last()
                && last.index >= header.durable_blocks.get()
                && scan.epoch < header.epoch.get()
            {
                floors.push(Floor { from: header.durable_blocks.get(), epoch: header.epoch.get() });
                return Ok(None);
            }
            if let Some(from) = hole {
                if header.durable_blocks.get() > durable.max(expected) {
                    // Proof that what is missing was acknowledged, and with it what lies between.
                    durable = header.durable_blocks.get();
                    pos = from;
                    continue;
                }
                let was_durable = header.first_sequence.get() < durable_end && header.next_sequence() <= durable_end;
                if header.index.get() > durable && !was_durable {
                    // Written after the missing one, and never acknowledged: it is not data.
                    pos += header.total_len.get() as usize;
                    continue;
                }
                let missing = header.first_sequence.get() - scan.summary.end;
                if scan.first_known || !scan.written.is_empty() {
                    scan.summary.losses.add(Cause::Damaged, Some(missing));
                }
                hole = None;
                scan.builder.skip_to(header.index.get());
            }
            if scan.written.is_empty() && !scan.first_known {
                scan.summary.first = header.first_sequence.get();
                scan.first_known = header.index.get() == 0;
            }
            scan.builder.add(&view, pos as u32, header.first_sequence.get())?;
            scan.builder.stamped(header.header_crc.get());
            view.gaps().for_each(|(_, gap)| scan.summary.losses.add(gap.cause, gap.count));
            let summary = &mut scan.summary;
            summary.end = header.next_sequence();
            summary.min_time = summary.min_time.min(header.min_time.get());
            summary.max_time = summary.max_time.max(header.max_time.get());
            summary.bytes += header.total_len.get();
            scan.epoch = header.epoch.get();
            scan.written.push(Written {
                index: header.index.get(),
                offset: pos as u32,
                length: header.total_len.get(),
                elements: (header.first_sequence.get(), header.next_sequence()),
                times: (header.min_time.get(), header.max_time.get()),
            });
            scan.writers.saw(header.writer.get(), header.number.get());
            scan.proof |= header.durable_blocks.get() > 0;
            scan.undone = false;
            pos += header.total_len.get() as usize;
            scan.end = pos as u32;
        }
        if let Some(trailer) = &step.trailer
            && trailer.blocks <= durable
            && scan.builder.blocks() < trailer.blocks
        {
            // The last ones are missing, and they had been acknowledged.
            scan.lose_up_to(trailer.summary.end, trailer.summary.max_time);
            scan.builder.skip_to(trailer.blocks);
        }
        Ok(Some(scan))
    }

    /// Erases what must not be taken for data, and opens the segment where the ring goes on. Whether elements are missing
    /// behind a sealed tail.
    async fn settle(&self, survey: Survey) -> Result<bool> {
        let Survey { steps, mut scans, tail, sealed, lost_end } = survey;
        // Everything up to the tail is durable: whoever recorded it need not send it again.
        let writers = self.with_mut(|r| {
            for (step, scan) in steps[..=tail].iter().zip(&scans) {
                let found = scan.as_ref().map(|s| &s.writers).or(step.trailer.as_ref().map(|t| &t.writers));
                found.into_iter().for_each(|found| r.writers.merge(found));
            }
            r.writers.clone()
        });
        for step in &steps[tail + 1..] {
            self.erase(step.slot).await?;
            self.with_mut(|r| r.slots[step.slot as usize] = None);
        }
        let step = &steps[tail];
        // What had to be read block by block has a footer that may be torn or lost: it is written anew.
        let whole = if sealed { tail + 1 } else { tail };
        let mut end = self.with(|r| r.path_element);
        for (step, scan) in steps.iter().zip(&mut scans).take(whole) {
            end = match scan.take() {
                Some(scan) => {
                    let summary = scan.summary;
                    self.with_mut(|r| r.slots[step.slot as usize] = Some(summary));
                    self.write_footer(step, scan).await?;
                    summary.end
                }
                None => step.trailer.as_ref().map_or(end, |t| t.summary.end),
            };
        }
        let mut path: Vec<u32> = Vec::new();
        if !sealed {
            if step.trailer.is_some() {
                self.erase_trailer(step.slot).await?;
            }
            if let Some(scan) = scans[tail].as_ref().filter(|scan| scan.undone) {
                // The next crash may tear what is written there, and leave just the sectors that this one has lost.
                let (at, _) = self.place(step.slot);
                self.zero(at + Bytes(u64::from(scan.end)), Bytes(BLOCK_ALIGN as u64)).await?;
            }
            path.push(step.slot);
        }
        let path_segment = if sealed { step.sequence + 1 } else { step.sequence };
        self.ring.core.disk.flush().await?;
        // What would be taken for the next segment, were it still there when the ring gets to it.
        self.erase_followers(step.slot, step.sequence).await?;
        let open = scans[tail].take().filter(|_| !sealed);
        let new: Vec<(u32, Segment)> = self.with_mut(|r| {
            r.path = path;
            r.path_segment = path_segment;
            r.path_element = open.as_ref().map_or(end, |scan| scan.summary.first);
            if let Some(scan) = &open {
                r.slots[step.slot as usize] = Some(scan.summary);
            }
            steps[..=tail]
                .iter()
                .filter_map(|step| r.slots[step.slot as usize].map(|found| (step.slot, found)))
                .collect()
        });
        self.install(&new);
        let next_element = open.as_ref().map_or(end, |scan| scan.summary.end);
        {
            let mut work = self.ring.work.borrow_mut();
            work.next_element = next_element;
            (work.progress.writer, work.progress.durable) = writers.last().unwrap_or((0, 0));
            work.progress.sequence = next_element;
        }
        let Some(scan) = open else { return Ok(lost_end > 0 && self.lose_the_end(end)) };
        let (at, _) = self.place(step.slot);
        let durable_blocks = scan.builder.blocks();
        self.ring.work.borrow_mut().open = Some(Open {
            slot: step.slot,
            at,
            summary: scan.summary,
            builder: scan.builder,
            end: scan.end,
            written: scan.written,
            next_written: durable_blocks,
            durable_blocks,
            writers: scan.writers,
        });
        Ok(false)
    }

    async fn write_footer(&self, step: &Step, scan: Scan) -> Result<()> {
        let (at, segment) = self.place(step.slot);
        let blocks = scan.builder.blocks();
        let trailer = Trailer {
            target: self.ring.origin.target,
            ring: self.ring.origin.ring,
            slot: step.slot,
            // Not this opening's: the segments behind it were written before.
            epoch: step.trailer.as_ref().map_or(scan.epoch, |t| t.epoch),
            summary: scan.summary,
            blocks,
            durable_blocks: blocks,
            tables_at: 0,
            tables_len: 0,
            tables_crc: 0,
            writers: scan.writers,
            description: self.with(|record| Description::of(self.ring.core.target_id(), self.ring.id, record)),
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

    /// Leaves nothing in `slot` that could be taken for a block. What says that something is there goes last: cut off in
    /// between, it is found and erased again.
    async fn erase(&self, slot: u32) -> Result<()> {
        let (at, segment) = self.place(slot);
        let first = Bytes(BLOCK_ALIGN as u64);
        let mut done = first;
        while done < segment - Bytes(TRAILER_LEN) {
            let length = ERASED_AT_ONCE.min(segment - Bytes(TRAILER_LEN) - done);
            self.zero(at + done, length).await?;
            done += length;
        }
        self.ring.core.disk.flush().await?;
        self.zero(at, first).await?;
        self.erase_trailer(slot).await
    }

    async fn zero(&self, at: Bytes, length: Bytes) -> Result<()> {
        let mut zeros = Buffer::alone(length)?;
        zeros.fill(0);
        self.ring.core.disk.write_metadata(at, zeros).await.1
    }

    async fn erase_trailer(&self, slot: u32) -> Result<()> {
        let (at, segment) = self.place(slot);
        self.zero(at + segment - Bytes(TRAILER_LEN), Bytes(TRAILER_LEN)).await
    }

    fn place(&self, slot: u32) -> (Bytes, Bytes) {
        let layout = self.ring.core.layout();
        self.with(|r| (r.slot_at(&layout, slot), r.segment))
    }

    fn with<T>(&self, look: impl FnOnce(&RingRecord) -> T) -> T {
        look(&self.record.borrow())
    }

    fn with_mut<T>(&self, change: impl FnOnce(&mut RingRecord) -> T) -> T {
        change(&mut self.record.borrow_mut())
    }
}

impl Scan {
    /// Elements up to `end` had been acknowledged, and are not here.
    fn lose_up_to(&mut self, end: u64, near: i64) {
        let Some(missing) = end.checked_sub(self.summary.end).filter(|n| *n > 0) else { return };
        let summary = &mut self.summary;
        summary.losses.add(Cause::Damaged, Some(missing));
        summary.end = end;
        if summary.min_time > summary.max_time {
            (summary.min_time, summary.max_time) = (near, near);
        }
        summary.max_time = summary.max_time.max(near);
        // The hole lies between two spans.
        let blocks = self.builder.blocks();
        self.builder.skip_to(blocks);
    }
}

/// Whether anything behind step `at` says that it had been durable.
fn proven_after(steps: &[Step], scans: &[Option<Scan>], at: usize) -> bool {
    steps.iter().zip(scans).skip(at + 1).any(|(step, scan)| {
        step.trailer.as_ref().is_some_and(|t| t.durable_blocks > 0) || scan.as_ref().is_some_and(|s| s.proof)
    })
}
