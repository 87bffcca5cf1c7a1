//! Which log a record goes to: the one nearest to where the device's arm is (Manylogs, 2016, section 3.1: the log of
//! the group in which the last I/O that is not logged ended), or, where that is full, the nearest with room.
//!
//! Owns how far each log is filled, how many of its blocks are still needed, and which logs opening would read.

use super::commands::MOST_WRITTEN;
use super::read::CACHE;
use super::rows::BLOCK;
use crate::layout::Layout;
use forebay_model::settings::TargetSettings;
use forebay_model::{Bytes, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Logs that are opened until a checkpoint is made.
pub const MANY_OPEN: usize = 12;
/// Logs that are opened until commands wait for it: opening reads no more than these.
pub const MOST_OPEN: usize = 16;
/// Logs up to so many groups away are hot: a few cylinders in a thousand.
const HOT_ZONE: u32 = 32;
/// Blocks that each log keeps for the records that open others.
const OPENING: u32 = 2;
/// Logs that stay open over a checkpoint since the arm came back to them: who reads the same again and again, or goes to
/// and fro, needs no others.
const KEPT_OPEN: usize = 8;
/// The most memory that may be chosen for what is read ahead.
pub const MOST_CACHE: Bytes = Bytes::gib(64);
/// The most groups that may be called near.
const FARTHEST_NEAR: u32 = 10_000;
/// In zones, logs are opened so far from each other that there are no more than this on the device.
const FAR_BETWEEN: u32 = 8;
/// So many records from one place go to a log that is open elsewhere before one is opened there: by then the ways to and
/// fro took as long as that and its part of a checkpoint.
const WORTH_OPENING: u32 = 64;
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

/// What may be chosen of logs, and of memory. Kept in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Writes of up to so many bytes go to a log, where neither the object nor its volume says otherwise.
    pub logged_up_to: u64,
    /// A log near the arm that is filled to so many percent is emptied into another one when there is a pause.
    pub hot_percent: u32,
    /// A log that is less than so many groups away is near enough: the arm hardly moves, and fewer logs are opened.
    pub near_groups: u32,
    /// Bytes that what is read ahead takes in memory at most.
    pub cache: u64,
}

impl Default for Settings {
    /// As published (Manylogs, 2016): 256 KiB for raw blocks, 80 %; three groups by measurement.
    fn default() -> Settings {
        Settings { logged_up_to: Bytes::kib(256).0, hot_percent: 80, near_groups: 3, cache: CACHE.0 }
    }
}

impl Settings {
    /// The usual ones for a layout. Where the small writes of a whole device go to logs in zones, few logs are open at
    /// a time, and spread over it.
    pub fn for_layout(layout: &Layout) -> Settings {
        let usual = Settings::default();
        if !layout.is_zoned() {
            return usual;
        }
        Settings { near_groups: (layout.groups / FAR_BETWEEN).clamp(1, FARTHEST_NEAR), ..usual }
    }

    /// Whether they can be.
    pub fn check(&self) -> Result<()> {
        if !(1..=100).contains(&self.hot_percent) {
            return Err(Error::usage(format!("a log is hot at {} percent; give 1 to 100", self.hot_percent)));
        }
        if !(1..=FARTHEST_NEAR).contains(&self.near_groups) {
            return Err(Error::usage(format!(
                "logs less than {} groups away are near; give 1 to {FARTHEST_NEAR}",
                self.near_groups
            )));
        }
        check_threshold(Bytes(self.logged_up_to))?;
        if self.cache > MOST_CACHE.0 {
            return Err(Error::usage(format!(
                "{} cannot be kept of what is read ahead; give {MOST_CACHE} at most",
                Bytes(self.cache)
            )));
        }
        Ok(())
    }
}

/// Refuses a size up to which writes are to go to logs if no write is as long.
pub(super) fn check_threshold(most: Bytes) -> Result<()> {
    if most > MOST_WRITTEN {
        return Err(Error::usage(format!(
            "writes of up to {most} cannot go to logs, since none is longer than {MOST_WRITTEN}; give that at most"
        )));
    }
    Ok(())
}

impl From<TargetSettings> for Settings {
    fn from(chosen: TargetSettings) -> Settings {
        let TargetSettings { logged_up_to, hot_percent, near_groups, cache } = chosen;
        Settings { logged_up_to: logged_up_to.0, hot_percent, near_groups, cache: cache.0 }
    }
}

impl From<Settings> for TargetSettings {
    fn from(chosen: Settings) -> TargetSettings {
        let Settings { logged_up_to, hot_percent, near_groups, cache } = chosen;
        TargetSettings { logged_up_to: Bytes(logged_up_to), hot_percent, near_groups, cache: Bytes(cache) }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Log {
    filled: u32,
    live: u32,
}

/// Blocks of all logs together.
#[derive(Debug, Clone, Copy, Default)]
struct All {
    filled: u64,
    live: u64,
}

/// The logs of a target.
pub struct Logs {
    layout: Layout,
    /// See [`Settings::near_groups`].
    near_groups: u32,
    /// Those that are not empty, and those that are open.
    logs: BTreeMap<u32, Log>,
    /// What they have together: each write asks, and there may be thousands.
    all: All,
    /// Where opening would look for records.
    open: BTreeSet<u32>,
    /// Where it would look, too, until the catalog that was cut last is durable.
    open_before: BTreeSet<u32>,
    /// Logs that are empty once the checkpoint under way is durable; until then nothing is written to them.
    emptied: BTreeSet<u32>,
    current: Option<u32>,
    /// Logs that were written to since the last checkpoint and how often, and those of the two periods before: of what
    /// was written to again the most used stays open.
    used: BTreeMap<u32, u32>,
    used_before: [BTreeMap<u32, u32>; 2],
    /// Where logs are far between: records from each [`HOT_ZONE`] that went to a log elsewhere.
    strayed: BTreeMap<u32, u32>,
    /// Logs of which something is needed that cannot be taken home, since it is damaged.
    stuck: BTreeSet<u32>,
    /// Blocks that are to stay in a log, as many as were found when it was emptied.
    staying: BTreeMap<u32, u32>,
    /// Logs that are about to be none.
    barred: BTreeSet<u32>,
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
        let logs: BTreeMap<u32, Log> = records.iter().map(log).collect();
        let sum = |of: fn(&Log) -> u32| logs.values().map(|log| u64::from(of(log))).sum();
        Logs {
            all: All { filled: sum(|log| log.filled), live: sum(|log| log.live) },
            layout,
            near_groups: Settings::default().near_groups,
            logs,
            open: open.iter().copied().collect(),
            open_before: BTreeSet::new(),
            emptied: BTreeSet::new(),
            current: open.first().copied(),
            used: BTreeMap::new(),
            used_before: Default::default(),
            strayed: BTreeMap::new(),
            stuck: BTreeSet::new(),
            staying: BTreeMap::new(),
            barred: BTreeSet::new(),
        }
    }

    /// See [`Settings::near_groups`].
    pub fn set_near(&mut self, groups: u32) {
        self.near_groups = groups.max(1);
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
        let fits = |logs: &Logs, group: u32| logs.filled(group) + blocks <= most && logs.takes(group);
        let current = self.current.filter(|group| usable(*group) && fits(self, *group));
        let near = self.near(tracker);
        let beside = self.near_groups.min(HOT_ZONE);
        if let Some(group) = current.filter(|group| stay || group.abs_diff(near) < beside) {
            return Some(self.put(group, blocks, Vec::new()));
        }
        // Where logs are far between, an open one costs less than one that would have to be opened.
        let spread = self.near_groups > HOT_ZONE;
        let opened = self.open.iter().copied().filter(|group| spread && usable(*group) && fits(self, *group));
        let nearest = opened.min_by_key(|group| group.abs_diff(near)).filter(|g| g.abs_diff(near) < self.near_groups);
        if let Some(group) = nearest
            && !self.strays(near, group)
        {
            return Some(self.put(group, blocks, Vec::new()));
        }
        let group = self.nearest(near, |group| usable(group) && fits(self, group))?;
        if self.open.contains(&group) {
            return Some(self.put(group, blocks, Vec::new()));
        }
        let ahead = if nearest.is_some() { 1 } else { OPEN_AHEAD as usize };
        let most = MANY_OPEN.saturating_sub(self.looked_at()).clamp(1, ahead);
        let ahead = (group..self.layout.groups).step_by(self.near_groups as usize).take(most);
        let fresh = ahead.filter(|g| *g == group || usable(*g) && fits(self, *g) && !self.open.contains(g)).collect();
        Some(self.put(group, blocks, fresh))
    }

    /// Counts a record of `near` that would go to the open log `other`. Whether a log is to be opened near instead,
    /// though that one is not too far away: so many records went there from here that another would have cost less, or
    /// the one that was opened here is full.
    fn strays(&mut self, near: u32, other: u32) -> bool {
        if other.abs_diff(near) <= self.zone() {
            return false;
        }
        let here = self.open.iter().any(|group| group.abs_diff(near) <= self.zone());
        let strayed = self.strayed.entry(near / HOT_ZONE).or_default();
        *strayed += 1;
        let worth = here || *strayed > WORTH_OPENING;
        if !worth || self.looked_at() >= MANY_OPEN {
            return false;
        }
        self.strayed.remove(&(near / HOT_ZONE));
        true
    }

    /// Logs that opening would look at after a crash now: at most [`MOST_OPEN`].
    pub fn looked_at(&self) -> usize {
        self.open.union(&self.open_before).count()
    }

    /// A place for a record of `blocks` in one log, which stays beside the one that is written to.
    pub fn place_in(&mut self, group: u32, blocks: u32) -> Option<Spot> {
        if self.filled(group) + blocks > self.largest() || !self.takes(group) {
            return None;
        }
        let opens = if self.open.contains(&group) { Vec::new() } else { vec![group] };
        let (current, used) = (self.current, self.used.get(&group).copied());
        let spot = self.put(group, blocks, opens);
        self.current = current;
        match used {
            Some(times) => self.used.insert(group, times),
            None => self.used.remove(&group),
        };
        Some(spot)
    }

    /// Whether anything may be written to the log of a group now.
    fn takes(&self, group: u32) -> bool {
        !self.emptied.contains(&group) && !self.barred.contains(&group)
    }

    /// Nothing more is written to the logs of these groups, or is again.
    pub fn bar(&mut self, groups: &[u32], barred: bool) {
        if barred {
            self.barred.extend(groups);
        } else {
            self.barred.retain(|group| !groups.contains(group));
        }
    }

    /// How far from the arm logs are hot: the arm hardly moves to them.
    fn zone(&self) -> u32 {
        HOT_ZONE.min(self.layout.groups / 8)
    }

    /// Whether the nearest log with room is so far from the arm that records cost more than they should.
    pub fn pressed(&self, tracker: Bytes, usable: impl Fn(u32) -> bool) -> bool {
        let near = self.near(tracker);
        let room = |group: u32| usable(group) && self.takes(group) && self.filled(group) < self.largest();
        self.nearest(near, room).is_some_and(|group| group.abs_diff(near) > self.zone())
    }

    /// A log near the arm that is filled to `percent` at least and is not written to, with the least in it that is
    /// needed: it is to change places with a cold one. How far it is filled.
    pub fn hot(&self, tracker: Bytes, percent: u32) -> Option<(u32, u32)> {
        let (near, full) = (self.near(tracker), u64::from(self.largest()) * u64::from(percent));
        let hot = |(group, log): &(&u32, &Log)| {
            group.abs_diff(near) <= self.zone()
                && u64::from(log.filled) * 100 >= full
                && log.live > 0
                && self.current != Some(**group)
                && !self.stuck.contains(group)
        };
        self.logs.iter().filter(hot).min_by_key(|(_, log)| log.live).map(|(group, log)| (*group, log.filled))
    }

    /// A log with room for `blocks` away from the arm, but no further than need be: one that is open if there is one,
    /// else one that is nearly empty.
    pub fn cold(&self, tracker: Bytes, blocks: u32, usable: impl Fn(u32) -> bool) -> Option<u32> {
        let near = self.near(tracker);
        let away = |group: u32| {
            group.abs_diff(near) > 2 * self.zone()
                && usable(group)
                && self.takes(group)
                && self.filled(group) + blocks <= self.largest()
        };
        let open = self.open.iter().copied().find(|group| away(*group));
        open.or_else(|| self.nearest(near, |group| away(group) && self.filled(group) < self.largest() / 5))
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

    /// So many blocks in the log of `group` are needed, whatever was counted.
    pub fn recount(&mut self, group: u32, needed: u32) {
        if let Some(log) = self.logs.get_mut(&group) {
            self.all.live = self.all.live + u64::from(needed) - u64::from(log.live);
            log.live = needed;
        }
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
        *self.used.entry(group).or_default() += 1;
        let log = self.logs.entry(group).or_default();
        let block = log.filled;
        log.filled += blocks;
        self.all.filled += u64::from(blocks);
        Spot { group, block, opens }
    }

    /// Makes a record that ends at block `end` longer by `blocks`, if nothing follows it and there is room.
    pub fn extend(&mut self, group: u32, end: u32, blocks: u32, empties: bool) -> bool {
        let most = if empties { self.capacity() - OPENING } else { self.largest() };
        let fits = self.current == Some(group) && self.filled(group) == end && end + blocks <= most;
        if fits {
            self.logs.entry(group).or_default().filled += blocks;
            self.all.filled += u64::from(blocks);
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
        self.all.filled += 1;
        Some((group, block))
    }

    /// Found when opening: a record ends before block `end`.
    pub fn found(&mut self, group: u32, end: u32) {
        let log = self.logs.entry(group).or_default();
        self.all.filled += u64::from(end.saturating_sub(log.filled));
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
        self.all.live -= 1;
        self.stuck.remove(&group);
        // It may have been one of those.
        if let Some(staying) = self.staying.get_mut(&group) {
            *staying = staying.saturating_sub(1);
        }
    }

    /// A block in the log of `group` is needed (again).
    pub fn needed(&mut self, group: u32) {
        self.logs.entry(group).or_default().live += 1;
        self.all.live += 1;
        self.stuck.remove(&group);
    }

    /// How many logs opening would read; none until the first checkpoint.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// All blocks in logs that are still needed.
    pub fn live(&self) -> u64 {
        self.all.live
    }

    /// Blocks in logs that are filled.
    pub fn filled_in_all(&self) -> u64 {
        self.all.filled
    }

    /// What is needed in the log of `group` cannot be taken home.
    pub fn set_stuck(&mut self, group: u32) {
        self.stuck.insert(group);
    }

    /// So many blocks in the log of `group` are to stay there.
    pub fn set_staying(&mut self, group: u32, blocks: u32) {
        self.staying.insert(group, blocks);
    }

    /// The logs with the most blocks to be taken home, the fullest first: those with something in them that can be, and
    /// unless it is `all`, that is not to stay. As many as are filled with `most` blocks together, and at least one.
    pub fn fullest(&self, all: bool, most: u32) -> Vec<(u32, u32)> {
        let staying = |group: &u32| if all { 0 } else { self.staying.get(group).copied().unwrap_or(0) };
        let full = self.logs.iter().filter(|(group, log)| log.live > staying(group) && !self.stuck.contains(group));
        let mut full: Vec<(u32, u32)> = full.map(|(group, log)| (*group, log.filled)).collect();
        full.sort_by_key(|(_, filled)| std::cmp::Reverse(*filled));
        let mut together = full.first().map_or(0, |(_, filled)| *filled);
        let fit = full.iter().skip(1).take_while(|(_, filled)| {
            together += filled;
            together <= most
        });
        let logs = full.len().min(1 + fit.count());
        full.truncate(logs);
        full
    }

    /// Blocks in logs that are filled and of which none is needed: the next checkpoint makes them room.
    pub fn spent(&self) -> u64 {
        let spent = self.logs.iter().filter(|(group, log)| log.live == 0 && self.current != Some(**group));
        spent.map(|(_, log)| u64::from(log.filled)).sum()
    }

    /// Whether so many percent of the room in `logs` logs is filled, beside `spent` blocks.
    pub fn filled_to(&self, percent: u64, logs: u64, spent: u64) -> bool {
        (self.filled_in_all() - spent) * 100 > u64::from(self.capacity()) * logs * percent
    }

    /// Whether a checkpoint would make a log empty.
    pub fn any_to_settle(&self) -> bool {
        let spent =
            |(group, log): (&u32, &Log)| log.live == 0 && !self.open.contains(group) && !self.emptied.contains(group);
        self.logs.iter().any(spent)
    }

    /// The log that stays open over a checkpoint: the one written to, or one near the arm with room.
    pub fn stays_open(&self, tracker: Bytes, usable: impl Fn(u32) -> bool) -> Option<u32> {
        let usable = |group: u32| usable(group) && !self.barred.contains(&group);
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
        let before = |group: &u32| self.used_before.iter().any(|before| before.contains_key(group));
        let again = |group: &u32| used.contains_key(group) && before(group);
        let room = |group: &u32| usable(*group) && !self.barred.contains(group) && self.filled(*group) < self.largest();
        let mut kept: Vec<u32> = self.open.iter().copied().filter(|g| again(g) && room(g)).collect();
        kept.sort_by_key(|group| std::cmp::Reverse(used.get(group)));
        kept.truncate(KEPT_OPEN);
        let before = std::mem::replace(&mut self.open, open.into_iter().chain(kept).collect());
        self.open_before.extend(before);
        self.used_before.swap(0, 1);
        self.used_before[0] = used;
        let needed = |(group, log): &(&u32, &Log)| log.live > 0 || self.open.contains(group);
        self.emptied = self.logs.iter().filter(|entry| !needed(entry)).map(|(group, _)| *group).collect();
        let record = |(group, log): (&u32, &Log)| LogRecord { group: *group, filled: log.filled, live: log.live };
        (self.logs.iter().filter(needed).map(record).collect(), self.open.iter().copied().collect())
    }

    /// The checkpoint is durable: logs of which nothing is needed are empty again.
    pub fn settle(&mut self) {
        self.open_before.clear();
        for group in std::mem::take(&mut self.emptied) {
            let log = self.logs.remove(&group).unwrap_or_default();
            self.all.filled -= u64::from(log.filled);
            self.all.live -= u64::from(log.live);
            self.staying.remove(&group);
        }
    }
}

#[cfg(test)]
mod tests;
