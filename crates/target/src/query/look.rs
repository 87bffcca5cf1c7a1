//! Looks through blocks that were read: verifies each, tests its elements, and puts what matches into batches, with
//! gaps and what is missing in their places.

use super::{Run, Stretch};
use crate::catalog::Segment;
use forebay_model::block::{Header, View, parse_stamped};
use forebay_model::gap::{Cause, Gap};
use forebay_model::ring::Item;
use forebay_model::{Bytes, Timestamp};

/// A batch goes out when it has this many bytes of payload,
const BATCH_BYTES: usize = 1 << 20;
/// or this many items.
const BATCH_ITEMS: usize = 64 << 10;

impl Run<'_> {
    /// Elements `from..to` of the segment being read are not where they should be. In the oldest segments that is what
    /// a crash leaves of a slot that was being taken; elsewhere it is damage.
    pub(super) async fn missing(&mut self, from: u64, to: u64, near: Timestamp) {
        if self.overtaking || self.ring.is_doubtful(self.segment) {
            self.expired(from, to).await;
        } else {
            self.damaged(Some(to - from), near, near);
            self.seen = Some(to);
        }
    }

    pub(super) fn unreadable(&mut self, segment: &Segment) {
        self.damaged(None, Timestamp(segment.min_time), Timestamp(segment.max_time));
    }

    fn damaged(&mut self, count: Option<u64>, first: Timestamp, last: Timestamp) {
        self.batch.items.push(Item::Gap(Gap { cause: Cause::Damaged, count, first, last }));
        self.open_element = None;
    }

    /// Looks through a stretch that begins and ends anywhere; `rest` is what the one before left over.
    pub(super) async fn joined(&mut self, rest: &mut Vec<u8>, bytes: &[u8], stretch: Stretch, slot: u32, segment: u64) {
        let mut used = 0;
        if !rest.is_empty() {
            // Only the block on the border is copied.
            let total = Header::read(rest).map_or(0, |h| h.total_len.get() as usize);
            let missing = total.saturating_sub(rest.len());
            if missing > 0 && missing <= bytes.len() {
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
        let (target, ring) = (self.core.target_id(), self.ring.id.0);
        let mut pos = 0usize;
        while pos < bytes.len() {
            let offset = from + pos as u32;
            let parsed = parse_stamped(&bytes[pos..], target, ring, segment, slot, offset);
            let view = match parsed.and_then(|view| view.verify().map(|()| view)) {
                Ok(view) => view,
                Err(_) => {
                    let length = Header::read(&bytes[pos..]).map_or(0, |h| h.total_len.get() as usize);
                    if pos + length > bytes.len() {
                        return pos;
                    }
                    // The next block that is whole says how much is missing.
                    pos += 4096;
                    continue;
                }
            };
            pos += view.header().total_len.get() as usize;
            if offset < self.offset {
                continue;
            }
            self.offset = offset + view.header().total_len.get();
            self.summary.blocks += 1;
            self.block(&view).await;
            if self.enough {
                break;
            }
        }
        bytes.len().min(pos)
    }

    /// Looks through one block.
    async fn block(&mut self, view: &View<'_>) {
        let header = view.header();
        let first = header.first_sequence.get();
        if let Some(seen) = self.seen.filter(|seen| *seen < first && self.continuous()) {
            self.missing(seen, first, Timestamp(header.min_time.get())).await;
        }
        let number = (header.writer.get(), header.number.get());
        let follows = self.last_block.replace(number).is_some_and(|last| (last.0, last.1 + 1) == number);
        if header.starts_within() && !follows {
            // The beginning of this element is gone, and with it the element.
            self.open_element = None;
            if self.continuous() {
                match self.began {
                    true => self.missing(first, first + 1, Timestamp(header.min_time.get())).await,
                    false => self.expired(first, first + 1).await,
                }
            }
        }
        self.began = true;
        self.seen = Some(header.next_sequence().max(self.seen.unwrap_or(0)));
        let mut gaps = view.gaps().peekable();
        let bytes = view.bytes();
        for entry in view.entries() {
            let Ok(entry) = entry else {
                self.damaged(None, Timestamp(header.min_time.get()), Timestamp(header.max_time.get()));
                return;
            };
            while let Some((_, gap)) = gaps.next_if(|(before, _)| *before <= entry.index) {
                self.gap(gap);
            }
            let wanted = if entry.first {
                if self.query.needs_keys() {
                    self.ring.keys.extract(
                        &bytes[entry.payload.clone()],
                        &bytes[entry.caller_keys.clone()],
                        &mut self.keys,
                    );
                }
                self.query.matches(entry.sequence, entry.time, &self.keys)
            } else {
                self.open_element == Some(entry.sequence)
            };
            self.open_element = (wanted && !entry.last).then_some(entry.sequence);
            if !wanted {
                continue;
            }
            self.batch.payload.extend_from_slice(&bytes[entry.payload.clone()]);
            self.batch.payload.extend_from_slice(&bytes[entry.caller_keys.clone()]);
            self.batch.items.push(Item::Element {
                sequence: entry.sequence,
                time: entry.time,
                length: entry.payload.len() as u32,
                caller: entry.caller_keys.len() as u16,
                first: entry.first,
                last: entry.last,
            });
            self.summary.bytes += Bytes(entry.payload.len() as u64);
            if entry.last {
                self.summary.elements += 1;
                if self.summary.elements >= self.limits.elements {
                    self.enough = true;
                    break;
                }
            }
            if self.batch.payload.len() >= BATCH_BYTES || self.batch.items.len() >= BATCH_ITEMS {
                self.send().await;
                if self.enough {
                    return;
                }
            }
        }
        for (_, gap) in gaps {
            self.gap(gap);
        }
    }

    /// Whether every block in the range is read, so that a jump in the sequence means that something is missing.
    pub(super) fn continuous(&self) -> bool {
        self.times == (Timestamp::MIN, Timestamp::MAX) && self.sequences == (0, u64::MAX) && !self.query.needs_keys()
    }

    fn gap(&mut self, gap: Gap) {
        if gap.first <= self.times.1 && gap.last >= self.times.0 {
            self.batch.items.push(Item::Gap(gap));
        }
    }

    pub(super) async fn send(&mut self) {
        if self.batch.items.is_empty() {
            self.enough |= !self.answer.is_open();
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        let weight = batch.payload.len() + batch.items.len() * size_of::<Item>();
        if !self.answer.send(batch, weight).await {
            self.enough = true;
        }
    }
}
