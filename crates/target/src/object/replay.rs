//! Opening: the map as of the last checkpoint, and the records since.
//!
//! Reads only the logs that the catalog names and those that records in them name. Records count in the order of their
//! numbers, up to the first that is not there whole: nobody was told of that one, unless a later record proves that it
//! was durable; then it is damage, and is said. Ends with a checkpoint, so that what lies behind never counts again.

use super::Objects;
use super::record;
use super::record::{Change, Found, Record, decode};
use super::rows::{BLOCK, Key, Row};
use crate::catalog::GroupClass;
use crate::schedule::StreamId;
use forebay_env::Buffer;
use forebay_model::{Bytes, Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Bytes of a log that are read at once.
const READ_AT_ONCE: Bytes = Bytes::mib(1);
/// How many of these are under way: a turn's worth, also where turns are short.
const READS_UNDER_WAY: usize = 8;

/// What the logs hold.
#[derive(Default)]
struct Harvest {
    records: BTreeMap<u64, Record>,
    /// Records whose body is not whole.
    torn: BTreeMap<u64, record::Stamp>,
    /// All records up to this one were durable.
    proven: u64,
}

impl Objects {
    pub(super) async fn replay(&self) -> Result<()> {
        match self.replay_in_memory().await? {
            Some(_) => self.checkpoint().await,
            None => Ok(()),
        }
    }

    /// As [`Objects::replay`], without changing anything on the device. How many records there were; nothing if no log
    /// may have any.
    pub(super) async fn replay_in_memory(&self) -> Result<Option<u64>> {
        let record = self.core.with_objects(Clone::clone);
        self.load_space(&record.leaves).await?;
        if record.open.is_empty() {
            return Ok(None);
        }
        let harvest = self.harvest(record.epoch, record.number).await?;
        let last = self.count(&harvest, record.number)?;
        for (number, found) in harvest.records.range(record.number + 1..last + 1) {
            self.again(*number, found).await?;
        }
        {
            let mut work = self.work.borrow_mut();
            (work.last, work.durable) = (last, last);
        }
        Ok(Some(last - record.number))
    }

    /// What is free, as of the checkpoint.
    async fn load_space(&self, leaves: &[super::tree::LeafRecord]) -> Result<()> {
        // One after the other: all of these rows need not fit in memory.
        for group in self.core.groups_of(GroupClass::Objects) {
            let row = Key::free(group);
            self.bring(&[(row, row)]).await?;
            let mut work = self.work.borrow_mut();
            let meta = &mut work.meta;
            match meta.tree.get(&row) {
                Some(Row::Free(runs)) => meta.data.add(group, Some(runs)),
                _ => meta.data.add(group, None),
            }
        }
        let tables = self.core.groups_of(GroupClass::Tables);
        let mut work = self.work.borrow_mut();
        let meta = &mut work.meta;
        tables.into_iter().for_each(|group| meta.tables.add(group, None));
        for leaf in leaves {
            let run = super::space::Run { at: leaf.place.at, blocks: u64::from(leaf.place.blocks) };
            if !meta.tables.claim(run) {
                return Err(Error::damaged(format!(
                    "the catalog has two tables of objects at one place, or one outside of its groups ({})",
                    BLOCK * leaf.place.at
                )));
            }
        }
        Ok(())
    }

    /// Reads the logs that may hold records after `number`.
    async fn harvest(&self, epoch: u64, number: u64) -> Result<Harvest> {
        let mut harvest = Harvest { proven: number, ..Harvest::default() };
        // Each takes a block at least, and no log begins anew without a checkpoint: what has a higher number is none.
        let most = number + u64::from(self.core.layout().groups) * u64::from(self.work.borrow().meta.logs.capacity());
        let may_count = |stamp: &record::Stamp| stamp.epoch == epoch && stamp.number > number && stamp.number <= most;
        let mut read = BTreeSet::new();
        loop {
            let next = {
                let work = self.work.borrow();
                work.meta.logs.to_read().into_iter().find(|(group, _)| !read.contains(group))
            };
            let Some((group, from)) = next else { return Ok(harvest) };
            read.insert(group);
            // To the end of it: what lies behind a record that is not whole tells whether that was acknowledged.
            let to = self.work.borrow().meta.logs.capacity();
            let (bytes, unreadable) = self.read_log(self.stream, group, from, to).await?;
            self.work.borrow_mut().counters.replayed += u64::from(to - from);
            let mut newer = None;
            // Where the next record would begin: nobody was told of any behind a place without one.
            let mut end = from;
            let mut hidden = None;
            scan_counting(self.core.mark(), group, from, &bytes, may_count, |at, found| match found {
                Found::Record(record) if may_count(&record.stamp) => {
                    if at.start == end {
                        end = at.end;
                    }
                    harvest.proven = harvest.proven.max(record.stamp.durable);
                    let mut work = self.work.borrow_mut();
                    for change in &record.changes {
                        if let Change::Opens(groups) = change {
                            work.meta.logs.named(groups);
                        }
                    }
                    harvest.records.insert(record.stamp.number, *record);
                }
                Found::Torn(stamp) if may_count(&stamp) => {
                    harvest.proven = harvest.proven.max(stamp.durable);
                    harvest.torn.insert(stamp.number, stamp);
                }
                Found::Newer(version) => newer = Some(version),
                Found::Nothing if at.start == end && unreadable.contains(&at.start) => hidden = Some(at.start),
                _ => {}
            });
            if let Some(version) = newer {
                return Err(Error::version(format!(
                    "a record of the logs has version {version}, and this Forebay knows {}; use the newer one",
                    record::VERSION
                )));
            }
            if let Some(block) = hidden {
                return Err(Error::damaged(format!(
                    "block {block} of the log of group {group} cannot be read, and may hold what was acknowledged; \
                     objects are not served, rings are; look at it with `forebay check`"
                )));
            }
        }
    }

    /// Blocks `from..to` of the log of `group`, and which of them cannot be read: those are zeros.
    pub(super) async fn read_log(
        &self,
        stream: StreamId,
        group: u32,
        from: u32,
        to: u32,
    ) -> Result<(Vec<u8>, BTreeSet<u32>)> {
        let start = self.work.borrow().meta.logs.at(group, 0);
        let step = (READ_AT_ONCE / BLOCK) as u32;
        let mut parts = (from..to).step_by(step as usize).map(|first| (first, (to - first).min(step)));
        let mut bytes: Vec<u8> = Vec::with_capacity((BLOCK * u64::from(to - from)).0 as usize);
        let mut unreadable = BTreeSet::new();
        // Several at once: whoever asks for one part after the other waits for the turns of all others in between.
        let mut reading = VecDeque::new();
        loop {
            while reading.len() < READS_UNDER_WAY
                && let Some((first, blocks)) = parts.next()
            {
                let buffer = Buffer::alone(BLOCK * u64::from(blocks))?;
                self.count_own(stream, BLOCK * u64::from(blocks));
                let (disk, at) = (self.core.disk.clone(), BLOCK * (start + u64::from(first)));
                let read = async move { disk.read(stream, at, buffer).await };
                reading.push_back((first, blocks, self.core.disk.env().spawner.spawn(read)));
            }
            let Some((first, blocks, read)) = reading.pop_front() else { return Ok((bytes, unreadable)) };
            let (buffer, read) = read.await;
            if read.is_ok() {
                bytes.extend_from_slice(&buffer);
                continue;
            }
            for block in first..first + blocks {
                let mut one = [0; BLOCK.0 as usize];
                if self.read_blocks(stream, start + u64::from(block), &mut one).await.is_err() {
                    one.fill(0);
                    unreadable.insert(block);
                }
                bytes.extend_from_slice(&one);
            }
        }
    }

    /// The last record that counts.
    fn count(&self, harvest: &Harvest, checkpointed: u64) -> Result<u64> {
        let mut last = checkpointed;
        while harvest.records.get(&(last + 1)).is_some_and(|r| r.whole || r.stamp.number <= harvest.proven) {
            last += 1;
        }
        if last < harvest.proven {
            let place = harvest.torn.get(&(last + 1)).map_or(String::new(), |stamp| {
                format!(" (in the log of group {}, block {})", stamp.group, stamp.block)
            });
            return Err(Error::damaged(format!(
                "record {} of the logs is damaged{place}, and {} after it were acknowledged; objects are not served, rings are; look at it with `forebay check`",
                last + 1,
                harvest.proven - last - 1
            )));
        }
        Ok(last)
    }

    /// Lets a record take effect again.
    async fn again(&self, number: u64, record: &Record) -> Result<()> {
        let mut data_at = {
            let logs = &mut self.work.borrow_mut().meta.logs;
            let (group, end) = (record.stamp.group, record.stamp.block + record.blocks + record.data);
            logs.found(group, end);
            logs.at(group, record.stamp.block + record.blocks)
        };
        for change in &record.changes {
            // For each by itself: what one lets go may be what another one before it in the record has just put there.
            self.bring_for(std::slice::from_ref(change)).await?;
            let mut work = self.work.borrow_mut();
            let meta = &mut work.meta;
            let pieces = match change {
                Change::Write(write) => &write.pieces,
                Change::Move { pieces, .. } => pieces,
                _ => &Vec::new(),
            };
            // What it takes was free, or is what it frees itself.
            let mut taken = Vec::new();
            for (_, piece) in pieces {
                let run = super::space::Run { at: piece.at, blocks: piece.blocks() };
                if meta.data.claim(run) {
                    taken.push(run);
                } else if matches!(change, Change::Move { .. }) {
                    // A part of it may have been taken anew, beside what was at home already.
                    for at in run.at..run.end() {
                        meta.data.claim(super::space::Run { at, blocks: 1 });
                    }
                }
            }
            for run in meta.apply(change, &mut data_at)? {
                meta.data.give(run);
            }
            let stray = matches!(change, Change::Write(_)) && taken.len() != pieces.len();
            if stray {
                return Err(Error::damaged(format!("record {number} of the logs takes blocks that are not free")));
            }
        }
        Ok(())
    }
}

/// Shows `look` all records in `bytes`, which are the log of `group` from block `from` on.
pub(super) fn scan(mark: u128, group: u32, from: u32, bytes: &[u8], mut look: impl FnMut(Found)) {
    scan_counting(mark, group, from, bytes, |_| true, |_, found| look(found));
}

/// As [`scan`], with the blocks of each. One that does not count, from before the log was emptied, is stepped over by its
/// first block alone: where a write was lost that was to replace it, records that count lie in the blocks behind. Bytes of
/// users there are no records: nobody who writes them knows the mark.
fn scan_counting(
    mark: u128,
    group: u32,
    from: u32,
    bytes: &[u8],
    counts: impl Fn(&record::Stamp) -> bool,
    mut look: impl FnMut(Range<u32>, Found),
) {
    let mut at = from;
    while let Some(rest) = bytes.get((at - from) as usize * BLOCK.0 as usize..).filter(|rest| !rest.is_empty()) {
        let found = decode(mark, group, at, rest);
        let end = match &found {
            Found::Record(record) if counts(&record.stamp) => at + record.blocks + record.data,
            _ => at + 1,
        };
        look(at..end, found);
        at = end;
    }
}

#[cfg(test)]
mod tests;
