//! Looks through blocks that were read: verifies each, tests its elements, and puts what matches into batches, with
//! gaps and what is missing in their places.

use super::Run;
use super::plan::Stretch;
use crate::catalog::Origin;
use forebay_env::yield_now;
use forebay_model::block::{Entries, Header, View, parse_stamped};
use forebay_model::gap::{Cause, Gap};
use forebay_model::ring::{Batch, Item};
use forebay_model::{Bytes, Timestamp};
use std::iter::Peekable;

/// A batch goes out when it has this many bytes of payload,
const BATCH_BYTES: usize = 1 << 20;
/// or this many items.
const BATCH_ITEMS: usize = 16 << 10;

/// Tests that are made before others have their turn: about a millisecond.
const TESTS_AT_ONCE: usize = 256 << 10;

/// How taking a block's entries ended.
enum Taken {
    /// There are no more.
    All,
    /// Others have their turn.
    Pause,
    /// The batch is full.
    Full,
    /// No more are wanted.
    Enough,
    /// The directory of the block contradicts itself.
    Damaged,
}

impl Run<'_> {
    /// Elements `from..to` of the segment being read, none later than `until`, are not where they should be. In the
    /// oldest segments that is what a crash leaves of a slot that was being taken; elsewhere it is damage.
    pub(super) async fn missing(&mut self, from: u64, to: u64, until: i64) {
        let (first, last) = (Timestamp(self.near.min(until)), Timestamp(self.near.max(until)));
        let (asked, end) = (from.max(self.sequences.0), to.min(self.sequences.1.saturating_add(1)));
        if asked < end && first <= self.times.1 && last >= self.times.0 {
            if self.overtaking || self.ring.is_doubtful(self.segment) {
                self.expired(asked, end).await;
            } else {
                self.damaged(Some(end - asked), first, last);
            }
        }
        self.seen = Some(to);
        self.open_element = None;
        (self.lost_before, self.goes_on, self.pending) = (true, false, None);
    }

    /// Some blocks are not where they should be, and no element ends in them: what comes next says whether they held a
    /// part of an element, or nothing but gap records.
    pub(super) fn lost_blocks(&mut self, until: i64) {
        if !self.goes_on && !self.lost_before {
            self.pending.get_or_insert((self.near.min(until), self.near.max(until)));
        }
    }

    /// The blocks that are missing held gap records: nobody knows how many elements those told of.
    pub(super) fn lost_records(&mut self) {
        let Some((first, last)) = self.pending.take() else { return };
        let (first, last) = (Timestamp(first), Timestamp(last));
        let damage = !self.overtaking && !self.ring.is_doubtful(self.segment);
        if damage && first <= self.times.1 && last >= self.times.0 {
            self.damaged(None, first, last);
        }
    }

    fn damaged(&mut self, count: Option<u64>, first: Timestamp, last: Timestamp) {
        let gap = Gap { cause: Cause::Damaged, count, first, last };
        match self.batch.items.last_mut() {
            Some(Item::Gap(before)) if self.lost_before && before.cause == Cause::Damaged => before.merge(gap),
            _ => self.batch.items.push(Item::Gap(gap)),
        }
        self.open_element = None;
    }

    /// Looks through a stretch that begins and ends anywhere; `rest` is what the one before left over.
    pub(super) async fn joined(&mut self, rest: &mut Vec<u8>, bytes: &[u8], stretch: Stretch, slot: u32, segment: u64) {
        let mut used = 0;
        if !rest.is_empty() {
            // Only the block on the border is copied.
            let total = Header::read(rest).map_or(0, |h| h.total_len.get() as usize);
            let missing = total.saturating_sub(rest.len());
            if missing > bytes.len() {
                // It goes on in the next stretch as well; what its header says is checked, and a block is not longer.
                rest.extend_from_slice(bytes);
                return;
            }
            if missing > 0 {
                rest.extend_from_slice(&bytes[..missing]);
                used = missing;
            }
            let from = stretch.offset + used as u32 - rest.len() as u32;
            self.stretch(rest, from, slot, segment).await;
            rest.clear();
        }
        let done = used + self.stretch(&bytes[used..], stretch.offset + used as u32, slot, segment).await;
        rest.extend_from_slice(&bytes[done..]);
    }

    /// Looks through the blocks of a stretch that lies at `from`; how far, if the last block is cut off.
    pub(super) async fn stretch(&mut self, bytes: &[u8], from: u32, slot: u32, segment: u64) -> usize {
        let Origin { target, ring, .. } = self.ring.origin;
        let mut pos = 0usize;
        while pos < bytes.len() {
            let offset = from + pos as u32;
            let parsed = parse_stamped(&bytes[pos..], target, ring, segment, slot, offset);
            if let Ok(view) = &parsed
                && offset < self.offset
            {
                pos += view.header().total_len.get() as usize;
                continue;
            }
            let view = match parsed.ok().filter(|view| self.follows(view) && view.verify().is_ok()) {
                Some(view) => view,
                None => {
                    let here = Header::read(&bytes[pos..]).ok().filter(|header| {
                        let stamp = header.stamp();
                        (stamp.target, stamp.ring, stamp.segment, stamp.slot, stamp.offset)
                            == (target, ring, segment, slot, offset)
                    });
                    if here.is_some_and(|header| pos + header.total_len.get() as usize > bytes.len()) {
                        return pos;
                    }
                    // The next block that is whole says how much is missing.
                    pos += 4096;
                    continue;
                }
            };
            pos += view.header().total_len.get() as usize;
            self.offset = offset + view.header().total_len.get();
            self.summary.blocks += 1;
            self.block(&view).await;
            if self.enough {
                break;
            }
        }
        bytes.len().min(pos)
    }

    /// Whether a block that bears its place is also of its time: what a crash undid is older than what was written in its
    /// place, and what lies behind the last block is not data.
    fn follows(&self, view: &View<'_>) -> bool {
        let header = view.header();
        header.epoch.get() >= self.epoch
            && self.next_index.is_none_or(|next| header.index.get() >= next)
            && header.first_sequence.get() >= self.next_first
            && header.next_sequence() <= self.limit
    }

    /// Looks through one block.
    async fn block(&mut self, view: &View<'_>) {
        let header = view.header();
        let first = header.first_sequence.get();
        let within = header.starts_within();
        if let Some(seen) = self.seen.filter(|seen| *seen < first) {
            self.missing(seen, first, header.min_time.get()).await;
        } else if self.next_index.is_some_and(|next| next < header.index.get()) {
            self.lost_blocks(header.min_time.get());
        }
        let number = (header.writer.get(), header.number.get());
        let follows = self.last_block.replace(number).is_some_and(|last| (last.0, last.1 + 1) == number);
        let before = self.headless.take().filter(|(sequence, _)| within && *sequence == first);
        if within && (!follows || before.is_some()) && self.seen.is_none_or(|seen| seen <= first) {
            // The beginning of this element is gone, and with it the element; unless it has no end either: then it was
            // never recorded as a whole, and another one has its number.
            let told = self.lost_before || self.pending.take().is_some() || self.open_element == Some(first);
            let adjoins = header.index.get() == 0 && self.read_whole.is_some_and(|s| s + 1 == self.segment);
            let told = told || before.is_some_and(|(_, told)| told) || adjoins || self.continuous() && self.began;
            self.open_element = None;
            if header.next_sequence() == first {
                self.headless = Some((first, told));
            } else if told {
                self.missing(first, first + 1, header.min_time.get()).await;
            } else if self.continuous() || self.after_hole == Some(first) && self.asks_for(first) {
                self.expired(first, first + 1).await;
            }
        } else if within && !follows {
            // Told already.
            (self.open_element, self.pending) = (None, None);
        }
        self.lost_records();
        self.began |= self.headless.is_none();
        self.lost_before = false;
        self.goes_on = header.continues();
        self.epoch = header.epoch.get();
        self.next_index = Some(header.index.get() + 1);
        self.next_first = header.next_sequence();
        self.near = header.max_time.get();
        self.seen = Some(header.next_sequence().max(self.seen.unwrap_or(0)));
        if self.limits.gaps_only {
            view.gaps().for_each(|(_, gap)| self.gap(gap));
            if self.batch.items.len() >= BATCH_ITEMS {
                self.send().await;
            }
            return;
        }
        if self.limits.blocks {
            self.whole(view).await;
            return;
        }
        if self.limits.numbered {
            let is_there = self.core.has_ring(self.ring.id);
            let durable = if is_there { self.core.with_ring(self.ring.id, |record| record.durable_end) } else { 0 };
            self.batch.items.push(Item::Block { writer: number.0, number: number.1, first, durable });
        }
        let (mut entries, mut gaps) = (view.entries(), view.gaps().peekable());
        loop {
            match self.take(&mut entries, &mut gaps, view.bytes()) {
                Taken::All => {
                    // Nothing comes of it.
                    self.batch.items.pop_if(|item| matches!(item, Item::Block { .. }));
                    break;
                }
                Taken::Enough => return,
                Taken::Pause => yield_now().await,
                Taken::Full => {
                    self.send().await;
                    if self.enough {
                        return;
                    }
                }
                Taken::Damaged => {
                    self.damaged(None, Timestamp(header.min_time.get()), Timestamp(header.max_time.get()));
                    return;
                }
            }
        }
    }

    fn asks_for(&self, sequence: u64) -> bool {
        (self.sequences.0..=self.sequences.1).contains(&sequence)
    }

    /// Gives a block as it lies there, if it has a time that is asked for.
    async fn whole(&mut self, view: &View<'_>) {
        let header = view.header();
        let (from, to) = self.times;
        if header.min_time.get() > to.0 || header.max_time.get() < from.0 {
            return;
        }
        self.batch.payload.extend_from_slice(view.bytes());
        self.batch.items.push(Item::Element {
            sequence: header.first_sequence.get(),
            time: Timestamp(header.min_time.get()),
            length: view.bytes().len() as u32,
            caller: 0,
            cut: 0,
            first: true,
            last: true,
        });
        self.summary.bytes += Bytes(view.bytes().len() as u64);
        if self.batch.payload.len() >= BATCH_BYTES {
            self.send().await;
        }
    }

    /// Puts what matches of the entries that are left, and gaps, into the batch, until that is full. The elements of a
    /// run of matches lie together in the block, and are copied at once.
    fn take<'b>(
        &mut self,
        entries: &mut Entries<'b>,
        gaps: &mut Peekable<impl Iterator<Item = (u32, Gap)>>,
        bytes: &'b [u8],
    ) -> Taken {
        let (from, to) = self.times;
        let Run { query, ring, keys, needs_keys, batch, summary, limits, open_element, tests, .. } = self;
        let Batch { items, payload } = batch;
        let tell = |items: &mut Vec<Item>, gap: Gap| {
            if gap.first <= to && gap.last >= from {
                items.push(Item::Gap(gap));
            }
        };
        let mut run = 0..0;
        let mut taken = Taken::All;
        for entry in entries {
            let Ok(entry) = entry else {
                taken = Taken::Damaged;
                break;
            };
            while let Some((_, gap)) = gaps.next_if(|(before, _)| *before <= entry.index) {
                tell(items, gap);
            }
            if entry.torn {
                // What was returned of it ends here; the gap that follows tells of it.
                *open_element = None;
                continue;
            }
            let wanted = if entry.first {
                if *needs_keys {
                    ring.keys.extract(&bytes[entry.payload.clone()], &bytes[entry.caller_keys.clone()], keys);
                }
                *tests += 1 + query.tests();
                query.matches(entry.sequence, entry.time, keys)
            } else {
                *open_element == Some(entry.sequence)
            };
            *open_element = (wanted && !entry.last).then_some(entry.sequence);
            if !wanted {
                if *tests >= TESTS_AT_ONCE {
                    *tests = 0;
                    taken = Taken::Pause;
                    break;
                }
                continue;
            }
            let (length, caller) = (entry.payload.len(), entry.caller_keys.len());
            if run.end != entry.payload.start || caller > 0 {
                payload.extend_from_slice(&bytes[run]);
                run = entry.payload.start..entry.payload.start;
            }
            run.end = entry.payload.end;
            if caller > 0 {
                payload.extend_from_slice(&bytes[run]);
                payload.extend_from_slice(&bytes[entry.caller_keys]);
                run = 0..0;
            }
            items.push(Item::Element {
                sequence: entry.sequence,
                time: entry.time,
                length: length as u32,
                caller: caller as u16,
                cut: entry.cut,
                first: entry.first,
                last: entry.last,
            });
            summary.bytes += Bytes(length as u64);
            summary.elements += u64::from(entry.last);
            if entry.last && summary.elements >= limits.elements {
                taken = Taken::Enough;
                break;
            }
            if payload.len() + run.len() >= BATCH_BYTES || items.len() >= BATCH_ITEMS {
                taken = Taken::Full;
                break;
            }
        }
        payload.extend_from_slice(&bytes[run]);
        match taken {
            Taken::All => gaps.for_each(|(_, gap)| tell(items, gap)),
            Taken::Enough => self.enough = true,
            Taken::Pause | Taken::Full | Taken::Damaged => {}
        }
        taken
    }

    /// Whether every block in the range is read, so that a jump in the sequence means that something is missing.
    pub(super) fn continuous(&self) -> bool {
        self.is_everything() && !self.limits.gaps_only
    }

    /// Whether all of the ring is asked for.
    pub(super) fn is_everything(&self) -> bool {
        self.times == (Timestamp::MIN, Timestamp::MAX) && self.sequences == (0, u64::MAX) && !self.needs_keys
    }

    pub(super) fn gap(&mut self, gap: Gap) {
        if gap.first <= self.times.1 && gap.last >= self.times.0 {
            self.batch.items.push(Item::Gap(gap));
        }
    }

    pub(super) async fn send(&mut self) {
        if self.batch.items.is_empty() {
            self.enough |= !self.answer.is_open();
            return;
        }
        // The next one will be about as large.
        let next = Batch {
            items: Vec::with_capacity(self.batch.items.len()),
            payload: Vec::with_capacity(self.batch.payload.len()),
        };
        let batch = std::mem::replace(&mut self.batch, next);
        let weight = batch.payload.len() + batch.items.len() * size_of::<Item>();
        if !self.answer.send(batch, weight).await {
            self.enough = true;
        }
    }
}
