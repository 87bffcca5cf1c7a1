//! Which log a record goes to: the one nearest to where the device's arm is (Manylogs, 2016, section 3.1: the log of
//! the group in which the last I/O that is not logged ended), or, where that is full, the nearest with room.
//!
//! Owns how far each log is filled, how many of its blocks are still needed, and which logs opening would read.

use super::rows::BLOCK;
use crate::layout::Layout;
use forebay_model::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Logs that are opened until a checkpoint is made.
pub const MANY_OPEN: usize = 12;
/// Logs that are opened until commands wait for it: opening reads no more than these.
pub const MOST_OPEN: usize = 16;
/// A log that is less than so many groups away is near enough: the arm hardly moves, and fewer logs are opened.
const NEAR: u32 = 3;
/// Blocks that each log keeps for the records that open others.
const OPENING: u32 = 2;
/// Logs that stay open over a checkpoint since the arm came back to them: who reads the same again and again, or goes to
/// and fro, needs no others.
const KEPT_OPEN: usize = 8;
/// Logs that are opened at once, in the direction in which the arm moves, each so far from the other that it is the
/// next one to be used.
pub const OPEN_AHEAD: u32 = 4;

/// A log as the catalog knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRecord {
    /// Its group.
    pub group: u32,
    /// Blocks that are filled.
    pub filled: u32,
    /// Blocks in it that are still needed.
    pub live: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Log {
    filled: u32,
    live: u32,
}

/// The logs of a target.
pub struct Logs {
    layout: Layout,
    /// Those that are not empty, and those that are open.
    logs: BTreeMap<u32, Log>,
    /// Where opening would look for records.
    open: BTreeSet<u32>,
    /// Logs that are empty once the checkpoint under way is durable; until then nothing is written to them.
    emptied: BTreeSet<u32>,
    current: Option<u32>,
    /// Logs that were written to since the last checkpoint, and those of the two periods before: what was written to
    /// again stays open.
    used: BTreeSet<u32>,
    used_before: [BTreeSet<u32>; 2],
    /// Logs of which something is needed that cannot be taken home, since it is damaged.
    stuck: BTreeSet<u32>,
}

/// Where a record goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The group of the log.
    pub group: u32,
    /// The block in it.
    pub block: u32,
    /// Logs that have to be named in another, before this record counts.
    pub opens: Vec<u32>,
}

impl Logs {
    /// The logs that a catalog names; `open` are those that opening reads.
    pub fn new(layout: Layout, records: &[LogRecord], open: &[u32]) -> Logs {
        let log = |r: &LogRecord| (r.group, Log { filled: r.filled, live: r.live });
        Logs {
            layout,
            logs: records.iter().map(log).collect(),
            open: open.iter().copied().collect(),
            emptied: BTreeSet::new(),
            current: open.first().copied(),
            used: BTreeSet::new(),
            used_before: Default::default(),
            stuck: BTreeSet::new(),
        }
    }

    /// Blocks of a log.
    pub fn capacity(&self) -> u32 {
        (self.layout.log.0 / BLOCK.0) as u32
    }

    /// The device's block where block `block` of the log of `group` lies.
    pub fn at(&self, group: u32, block: u32) -> u64 {
        (self.layout.group_at(group) + self.layout.data(true)).0 / BLOCK.0 + u64::from(block)
    }

    /// The log in which a block of the device lies.
    pub fn log_of(&self, at: u64) -> u32 {
        ((at - self.layout.groups_at.0 / BLOCK.0) / (self.layout.group.0 / BLOCK.0)) as u32
    }

    /// How far a log is filled.
    pub fn filled(&self, group: u32) -> u32 {
        self.logs.get(&group).map_or(0, |log| log.filled)
    }

    /// Which logs opening would read, and from which block on.
    pub fn to_read(&self) -> Vec<(u32, u32)> {
        self.open.iter().map(|group| (*group, self.filled(*group))).collect()
    }

    /// Blocks that are left in each log for what empties logs, and for the records that open others.
    fn reserve(&self) -> u32 {
        (self.capacity() / 4).clamp(2, 16)
    }

    /// Blocks that a record may have, with those that it redirects.
    pub fn largest(&self) -> u32 {
        self.capacity().saturating_sub(self.reserve())
    }

    /// A place for a record of `blocks`, near where the arm is. `usable` says whether a group has its log. `stay` keeps
    /// to the log that is written to already, since more is on its way there. What empties logs may use the reserve.
    /// `None` if no log has room.
    pub fn place(
        &mut self,
        blocks: u32,
        tracker: Bytes,
        stay: bool,
        empties: bool,
        usable: impl Fn(u32) -> bool,
    ) -> Option<Spot> {
        let most = if empties { self.capacity() - OPENING } else { self.largest() };
        let fits = |logs: &Logs, group: u32| logs.filled(group) + blocks <= most && !logs.emptied.contains(&group);
        let current = self.current.filter(|group| usable(*group) && fits(self, *group));
        let near = self.near(tracker);
        if let Some(group) = current.filter(|group| stay || group.abs_diff(near) < NEAR) {
            return Some(self.put(group, blocks, Vec::new()));
        }
        let group = self.nearest(near, |group| usable(group) && fits(self, group))?;
        if self.open.contains(&group) {
            return Some(self.put(group, blocks, Vec::new()));
        }
        let most = MANY_OPEN.saturating_sub(self.open.len()).clamp(1, OPEN_AHEAD as usize);
        let ahead = (group..self.layout.groups).step_by(NEAR as usize).take(most);
        let fresh = ahead.filter(|g| *g == group || usable(*g) && fits(self, *g) && !self.open.contains(g)).collect();
        Some(self.put(group, blocks, fresh))
    }

    /// The group in which `tracker` lies, or nearly.
    fn near(&self, tracker: Bytes) -> u32 {
        let group = tracker.saturating_sub(self.layout.groups_at) / self.layout.group;
        group.min(u64::from(self.layout.groups.saturating_sub(1))) as u32
    }

    /// How many blocks of a log are filled, and how many of them are needed.
    pub fn state(&self, group: u32) -> (u32, u32) {
        self.logs.get(&group).map_or((0, 0), |log| (log.filled, log.live))
    }

    /// Whether opening would read the log of `group`.
    pub fn is_open(&self, group: u32) -> bool {
        self.open.contains(&group)
    }

    fn nearest(&self, from: u32, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        (0..self.layout.groups).find_map(|distance| {
            let above = from.checked_add(distance).filter(|group| *group < self.layout.groups && wanted(*group));
            above.or_else(|| from.checked_sub(distance).filter(|group| wanted(*group)))
        })
    }

    fn put(&mut self, group: u32, blocks: u32, opens: Vec<u32>) -> Spot {
        self.current = Some(group);
        self.used.insert(group);
        let log = self.logs.entry(group).or_default();
        let block = log.filled;
        log.filled += blocks;
        Spot { group, block, opens }
    }

    /// Makes a record that ends at block `end` longer by `blocks`, if nothing follows it and there is room.
    pub fn extend(&mut self, group: u32, end: u32, blocks: u32, empties: bool) -> bool {
        let most = if empties { self.capacity() - OPENING } else { self.largest() };
        let fits = self.current == Some(group) && self.filled(group) == end && end + blocks <= most;
        if fits {
            self.logs.entry(group).or_default().filled += blocks;
        }
        fits
    }

    /// A place of one block for the record that opens other logs: in one that is open already. There always is one,
    /// since each log that is open keeps a block for it, and each that is opened brings another.
    pub fn place_opening(&mut self) -> Option<(u32, u32)> {
        let capacity = self.capacity();
        let current = self.current.filter(|group| self.open.contains(group));
        let group =
            current.into_iter().chain(self.open.iter().copied()).find(|group| self.filled(*group) < capacity)?;
        let block = self.filled(group);
        self.logs.entry(group).or_default().filled += 1;
        Some((group, block))
    }

    /// Found when opening: a record ends before block `end`.
    pub fn found(&mut self, group: u32, end: u32) {
        let log = self.logs.entry(group).or_default();
        log.filled = log.filled.max(end);
    }

    /// Found when opening: records may be in these logs, too.
    pub fn named(&mut self, groups: &[u32]) {
        self.open.extend(groups);
    }

    /// A block in the log of `group` is not needed any more.
    pub fn dropped(&mut self, group: u32) {
        let log = self.logs.get_mut(&group).expect("a block that was needed is in a log");
        log.live -= 1;
        self.stuck.remove(&group);
    }

    /// A block in the log of `group` is needed (again).
    pub fn needed(&mut self, group: u32) {
        self.logs.entry(group).or_default().live += 1;
        self.stuck.remove(&group);
    }

    /// How many logs opening would read; none until the first checkpoint.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// All blocks in logs that are still needed.
    pub fn live(&self) -> u64 {
        self.logs.values().map(|log| u64::from(log.live)).sum()
    }

    /// Blocks in logs that are filled.
    pub fn filled_in_all(&self) -> u64 {
        self.logs.values().map(|log| u64::from(log.filled)).sum()
    }

    /// What is needed in the log of `group` cannot be taken home.
    pub fn set_stuck(&mut self, group: u32) {
        self.stuck.insert(group);
    }

    /// The log with the most blocks to be taken home: the fullest one with something in it that can be.
    pub fn fullest(&self) -> Option<(u32, u32)> {
        let full = self.logs.iter().filter(|(group, log)| log.live > 0 && !self.stuck.contains(group));
        full.max_by_key(|(_, log)| log.filled).map(|(group, log)| (*group, log.filled))
    }

    /// The log that stays open over a checkpoint: the one written to, or one near the arm with room.
    pub fn stays_open(&self, tracker: Bytes, usable: impl Fn(u32) -> bool) -> Option<u32> {
        let room = |group: u32| usable(group) && self.filled(group) < self.largest();
        let some = |group: u32| usable(group) && self.filled(group) + OPENING <= self.capacity();
        let nearest = || self.nearest(self.near(tracker), room).or_else(|| self.nearest(self.near(tracker), some));
        self.current.filter(|group| room(*group)).or_else(nearest)
    }

    /// What the catalog of a checkpoint is to name, taken when nothing is on its way: the logs with something in them,
    /// and those that opening would read: `open`, which is written to next, and with it those with room to which the
    /// arm came back. Others have to be named again before they are written to. Until that catalog is durable the one
    /// before counts, so `open` must have been named since that one.
    pub fn cut(&mut self, open: Option<u32>, usable: impl Fn(u32) -> bool) -> (Vec<LogRecord>, Vec<u32>) {
        self.current = open;
        let used = std::mem::take(&mut self.used);
        let again = |group: &u32| used.contains(group) && self.used_before.iter().any(|before| before.contains(group));
        let room = |group: &u32| usable(*group) && self.filled(*group) < self.largest();
        let kept: Vec<u32> = self.open.iter().copied().filter(|g| again(g) && room(g)).take(KEPT_OPEN).collect();
        self.open = open.into_iter().chain(kept).collect();
        self.used_before.swap(0, 1);
        self.used_before[0] = used;
        let needed = |(group, log): &(&u32, &Log)| log.live > 0 || self.open.contains(group);
        self.emptied = self.logs.iter().filter(|entry| !needed(entry)).map(|(group, _)| *group).collect();
        let record = |(group, log): (&u32, &Log)| LogRecord { group: *group, filled: log.filled, live: log.live };
        (self.logs.iter().filter(needed).map(record).collect(), self.open.iter().copied().collect())
    }

    /// The checkpoint is durable: logs of which nothing is needed are empty again.
    pub fn settle(&mut self) {
        for group in std::mem::take(&mut self.emptied) {
            self.logs.remove(&group);
        }
    }
}

#[cfg(test)]
mod tests;
