//! Whether the rows of all objects agree with one another, with the free space and with the logs.
//!
//! Pure: rows are shown in the order of their keys, each once. Memory: a bit for each block in a group of objects (32
//! MiB for a TiB), and 16 bytes for each run of blocks that several objects share, once for each of them.

use super::inline::INLINE_UP_TO;
use super::logs::Logs;
use super::repair::Repair;
use super::rows::{BLOCK, Head, Key, Part, Row, Shared, Volume};
use super::space::{Run, Space};
use crate::layout::Layout;
use forebay_model::ObjectId;
use forebay_model::scrub::Finding;
use std::collections::BTreeMap;

/// Contradictions that are told one by one.
const MOST_TOLD: usize = 64;

/// What was found of the objects of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectsFound {
    /// Volumes.
    pub volumes: u64,
    /// Users' objects.
    pub objects: u64,
    /// Blocks of bytes that were compared with their checksums.
    pub blocks: u64,
    /// Records in logs that opening will let take effect.
    pub records: u64,
    /// What is damaged.
    pub damage: Vec<Finding>,
    /// What the rows say against one another.
    pub contradictions: Vec<Contradiction>,
}

/// Something that cannot be so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// What is said, and what is so, in a sentence.
    pub what: String,
    /// Whether [`super::Objects::repair`] puts it right.
    pub repairable: bool,
}

/// The object whose rows are shown.
struct Shown {
    id: ObjectId,
    head: Option<Head>,
    blocks: u64,
    /// Whether its first block is inline.
    inline: bool,
    /// What of it has a place at home, neighbours as one.
    home: Vec<(u64, u64)>,
}

/// What the rows have said so far.
pub struct Audit {
    layout: Layout,
    /// A bit for each block of a group that some object has at home.
    owned: BTreeMap<u32, Vec<u64>>,
    /// Runs that an object has beside another one, and runs that are said to be shared, with how many more have them.
    again: Vec<Run>,
    shared: Vec<(Run, u32)>,
    /// Blocks in the log of each group that objects point to, by their place.
    logged: BTreeMap<u32, Vec<u32>>,
    shown: Option<Shown>,
    /// What each volume holds by its head, and by its objects.
    volumes: BTreeMap<u64, (Option<Volume>, Volume)>,
    objects: u64,
    /// Some rows could not be read: what is missing in sums says nothing.
    partial: bool,
    contradictions: Vec<Contradiction>,
    more: usize,
    repairs: Vec<Repair>,
}

impl Audit {
    /// Of a target with this layout.
    pub fn new(layout: Layout) -> Audit {
        Audit {
            layout,
            owned: BTreeMap::new(),
            again: Vec::new(),
            shared: Vec::new(),
            logged: BTreeMap::new(),
            shown: None,
            volumes: BTreeMap::new(),
            objects: 0,
            partial: false,
            contradictions: Vec::new(),
            more: 0,
            repairs: Vec::new(),
        }
    }

    /// A contradiction of which nobody knows what is true.
    fn say(&mut self, what: String) {
        self.tell(what, false);
    }

    /// A contradiction, and what is true, unless rows are missing that might say otherwise.
    fn mend(&mut self, what: String, repair: Repair) {
        self.tell(what, true);
        self.repairs.push(repair);
    }

    fn tell(&mut self, what: String, repairable: bool) {
        if self.contradictions.len() < MOST_TOLD {
            self.contradictions.push(Contradiction { what, repairable });
        } else {
            self.more += 1;
        }
    }

    /// Rows that follow could not be read.
    pub fn skipped(&mut self) {
        self.partial = true;
        // What was shown of the object may not be all.
        self.shown = None;
    }

    /// The next row.
    pub fn row(&mut self, key: &Key, row: &Row, logs: &Logs) {
        let id = key.id;
        if self.shown.as_ref().is_none_or(|shown| shown.id != id) {
            self.finish();
            self.shown = Some(Shown { id, head: None, blocks: 0, inline: false, home: Vec::new() });
        }
        let Some(shown) = &mut self.shown else { return };
        match (key.part, row) {
            (Part::Head, Row::Head(head)) => shown.head = Some(head.clone()),
            (Part::Attribute { .. }, Row::Attribute(_)) | (Part::Free(_), Row::Free(_)) => {}
            (Part::Inline, Row::Inline(bytes)) => {
                (shown.inline, shown.blocks) = (true, shown.blocks + 1);
                if bytes.len() as u64 > INLINE_UP_TO.0 {
                    self.say(format!("{id} has {} bytes inline, and {INLINE_UP_TO} is the most", bytes.len()));
                }
            }
            (Part::Shared(at), Row::Shared(Shared { blocks, more })) => {
                self.shared.push((Run { at, blocks: u64::from(*blocks) }, *more));
            }
            (Part::Piece(first), Row::Piece(piece)) => {
                let (behind, end) = (shown.home.last().map_or(0, |last| last.1), first + piece.blocks());
                let overlaps = first < behind;
                let twice = first == 0 && shown.inline;
                match shown.home.last_mut().filter(|last| last.1 == first) {
                    Some(last) => last.1 = end,
                    None => shown.home.push((first, end)),
                }
                shown.blocks += piece.blocks();
                if overlaps {
                    self.say(format!("{id} has two pieces for its block {first}"));
                }
                if twice {
                    self.say(format!("{id} has its first block inline and at home"));
                }
                self.own(id, piece.at, piece.blocks());
            }
            (Part::Logged(block), Row::Logged(logged)) => {
                // What has a place at home, too, counts once.
                let before = shown.home.partition_point(|(first, _)| *first <= block);
                shown.blocks += u64::from(before == 0 || block >= shown.home[before - 1].1);
                if block == 0 && shown.inline {
                    self.say(format!("{id} has its first block inline and in a log"));
                }
                let group = logs.log_of(logged.at);
                let start = logs.at(group, 0);
                match logged.at.checked_sub(start).filter(|at| *at < u64::from(logs.filled(group))) {
                    Some(at) => self.logged.entry(group).or_default().push(at as u32),
                    None => {
                        self.say(format!("block {block} of {id} is in no log ({} of the device)", BLOCK * logged.at))
                    }
                }
            }
            _ => self.say(format!("{id} has a row that is not what its key says")),
        }
    }

    fn own(&mut self, id: ObjectId, at: u64, blocks: u64) {
        let per_group = self.layout.group.0 / BLOCK.0;
        let data = self.layout.data(true).0 / BLOCK.0;
        let outside = || format!("{id} has blocks outside of all groups ({} of the device)", BLOCK * at);
        let Some(from) = at.checked_sub(self.layout.groups_at.0 / BLOCK.0) else { return self.say(outside()) };
        let (group, first) = (from / per_group, from % per_group);
        if group >= u64::from(self.layout.groups) || first + blocks > data {
            return self.say(outside());
        }
        let bits = self.owned.entry(group as u32).or_insert_with(|| vec![0; data.div_ceil(64) as usize]);
        for n in first..first + blocks {
            let (word, bit) = (&mut bits[(n / 64) as usize], 1 << (n % 64));
            if *word & bit != 0 {
                let block = at + (n - first);
                match self.again.last_mut().filter(|run| run.end() == block) {
                    Some(run) => run.blocks += 1,
                    None => self.again.push(Run { at: block, blocks: 1 }),
                }
            }
            *word |= bit;
        }
    }

    /// The object that was shown is over.
    fn finish(&mut self) {
        let Some(Shown { id, head, blocks, .. }) = self.shown.take() else { return };
        if id == ObjectId::ROOT {
            return;
        }
        let Some(head) = head else {
            if !self.partial {
                self.say(format!("{id} has rows and no head"));
            }
            return;
        };
        if head.blocks != blocks && !self.partial {
            let what = format!("{id} says that it has {} blocks, and has {blocks}", head.blocks);
            self.mend(what, Repair::Blocks(id, blocks));
        }
        let (of_head, summed) = self.volumes.entry(id.volume).or_default();
        if id.is_user() {
            self.objects += 1;
            summed.objects += 1;
            summed.blocks += blocks;
        } else {
            *of_head = Some(head.volume.unwrap_or_default());
        }
    }

    /// All rows were shown: compares them with `space` in `groups`, and with `logs`. What can be put right.
    pub fn end(mut self, groups: &[u32], space: &Space, logs: &Logs, found: &mut ObjectsFound) -> Vec<Repair> {
        self.finish();
        for (volume, (of_head, summed)) in std::mem::take(&mut self.volumes) {
            match of_head {
                _ if self.partial => {}
                None => self.say(format!("{} objects are in volume {volume:x}, which does not exist", summed.objects)),
                Some(says) if (says.objects, says.blocks) != (summed.objects, summed.blocks) => self.mend(
                    format!(
                        "volume {volume:x} says that it holds {} objects with {} blocks, and holds {} with {}",
                        says.objects, says.blocks, summed.objects, summed.blocks
                    ),
                    Repair::Volume(volume, summed.objects, summed.blocks),
                ),
                Some(_) => {}
            }
            found.volumes += 1;
        }
        self.compare_shared();
        let mut owned = std::mem::take(&mut self.owned);
        for group in groups {
            self.compare_free(*group, &owned.remove(group).unwrap_or_default(), space);
        }
        for group in owned.keys() {
            self.say(format!("objects have blocks in group {group}, which is not theirs"));
        }
        for (group, mut places) in std::mem::take(&mut self.logged) {
            let all = places.len();
            places.sort_unstable();
            places.dedup();
            if places.len() < all {
                self.say(format!("{} blocks in the log of group {group} belong to two", all - places.len()));
            }
            let live = logs.state(group).1 as usize;
            if live != all && !self.partial {
                let what = format!("{live} blocks in the log of group {group} are said to be needed, and {all} are");
                self.mend(what, Repair::Log(group, all as u32));
            }
        }
        if self.partial {
            self.repairs.clear();
            self.contradictions.iter_mut().for_each(|contradiction| contradiction.repairable = false);
        }
        if self.more > 0 {
            let what = format!("and {} contradictions more", self.more);
            self.contradictions.push(Contradiction { what, repairable: !self.repairs.is_empty() });
        }
        found.objects = self.objects;
        found.contradictions.append(&mut self.contradictions);
        self.repairs
    }

    /// Holds what objects have in common against what is said to be shared.
    fn compare_shared(&mut self) {
        let mut steps: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
        for run in std::mem::take(&mut self.again) {
            steps.entry(run.at).or_default().0 += 1;
            steps.entry(run.end()).or_default().0 -= 1;
        }
        for (run, more) in std::mem::take(&mut self.shared) {
            steps.entry(run.at).or_default().1 += i64::from(more);
            steps.entry(run.end()).or_default().1 -= i64::from(more);
        }
        let (mut have, mut said) = (0, 0);
        let ends: Vec<u64> = steps.keys().skip(1).copied().collect();
        for ((at, step), end) in steps.into_iter().zip(ends) {
            (have, said) = (have + step.0, said + step.1);
            let (blocks, place) = (end - at, BLOCK * at);
            let what = match have - said {
                0 => continue,
                1.. => format!(
                    "{blocks} blocks belong to {} objects more than is said ({place} of the device)",
                    have - said
                ),
                _ if self.partial => continue,
                _ => format!(
                    "{blocks} blocks are said to belong to {} objects more than have them ({place} of the device)",
                    said - have
                ),
            };
            self.mend(what, Repair::Shared(Run { at, blocks }, have as u32));
        }
    }

    /// Holds what objects have in a group, a bit for each block, against what is said to be free there.
    fn compare_free(&mut self, group: u32, bits: &[u64], space: &Space) {
        let data = (self.layout.data(true).0 / BLOCK.0) as u32;
        let owned = |n: usize| bits.get(n / 64).is_some_and(|word| word >> (n % 64) & 1 != 0);
        let mut free = vec![false; data as usize];
        for (at, blocks) in space.runs(group).unwrap_or_default() {
            free[at as usize..(at + blocks) as usize].fill(true);
        }
        let both = (0..free.len()).filter(|n| free[*n] && owned(*n)).count();
        let neither = (0..free.len()).filter(|n| !free[*n] && !owned(*n)).count();
        let mut wrong = Vec::new();
        if both > 0 {
            wrong.push(format!("{both} blocks of group {group} are said to be free, and objects have them"));
        }
        if neither > 0 && !self.partial {
            wrong.push(format!("{neither} blocks of group {group} are not free, and no object has them"));
        }
        if wrong.is_empty() {
            return;
        }
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for n in (0..data).filter(|n| !owned(*n as usize)) {
            match runs.last_mut().filter(|(at, length)| at + length == n) {
                Some((_, length)) => *length += 1,
                None => runs.push((n, 1)),
            }
        }
        self.mend(wrong.join("; "), Repair::Free(group, runs));
    }
}

#[cfg(test)]
mod tests;
