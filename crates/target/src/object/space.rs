//! Free blocks in the groups that objects own: in runs, first those that continue what is there.
//!
//! Owns what is free, nothing else: what was freed and may still be read, or is not durably free yet, is not here.

mod group;

use super::rows::BLOCK;
use crate::layout::Layout;
use group::Group;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks that follow one another on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The first.
    pub at: u64,
    /// How many.
    pub blocks: u64,
}

impl Run {
    /// The block behind the last.
    pub fn end(self) -> u64 {
        self.at + self.blocks
    }
}

/// What is free in some groups of a target.
pub struct Space {
    layout: Layout,
    groups: BTreeMap<u32, Group>,
    /// Free blocks of all groups together.
    free: u64,
    /// Groups whose free runs have changed since they were last asked for.
    dirty: BTreeSet<u32>,
}

impl Space {
    /// No groups yet.
    pub fn new(layout: Layout) -> Space {
        Space { layout, groups: BTreeMap::new(), free: 0, dirty: BTreeSet::new() }
    }

    fn group_blocks(&self) -> u64 {
        self.layout.data(true).0 / BLOCK.0
    }

    fn first_block(&self, group: u32) -> u64 {
        self.layout.group_at(group).0 / BLOCK.0
    }

    fn locate(&self, at: u64) -> (u32, u32) {
        let from = at - self.layout.groups_at.0 / BLOCK.0;
        let blocks = self.layout.group.0 / BLOCK.0;
        ((from / blocks) as u32, (from % blocks) as u32)
    }

    /// Adds a group with the free runs that its row tells of; all of it is free if it has none. Only then the row is
    /// still to be written: else opening would end with all rows written anew.
    pub fn add(&mut self, group: u32, runs: Option<&[(u32, u32)]>) {
        let all = [(0, self.group_blocks() as u32)];
        let entry = Group::of(all[0].1, runs.unwrap_or(&all));
        self.free += entry.free();
        self.groups.insert(group, entry);
        if runs.is_none() {
            self.dirty.insert(group);
        }
    }

    /// Of a group these runs are free, and nothing else.
    pub fn set(&mut self, group: u32, runs: &[(u32, u32)]) {
        self.free -= self.groups.remove(&group).map_or(0, |entry| entry.free());
        self.add(group, Some(runs));
        self.dirty.insert(group);
    }

    /// Free blocks.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Blocks, free or not.
    pub fn capacity(&self) -> u64 {
        self.group_blocks() * self.groups.len() as u64
    }

    /// The free runs of a group, counted from its first block; nothing if it is not here.
    pub fn runs(&self, group: u32) -> Option<Vec<(u32, u32)>> {
        self.groups.get(&group).map(|group| group.runs().collect())
    }

    /// Groups that are wholly free.
    pub fn empty_groups(&self) -> Vec<u32> {
        let all = self.group_blocks();
        self.groups.iter().filter(|(_, group)| group.free() == all).map(|(number, _)| *number).collect()
    }

    /// Gives a group away, which must be wholly free.
    pub fn remove(&mut self, group: u32) {
        let entry = self.groups.remove(&group).expect("it was there");
        assert_eq!(entry.free(), self.group_blocks(), "group {group} is given away with what is in it");
        self.free -= entry.free();
        self.dirty.remove(&group);
    }

    /// Takes `blocks`, all of them or none: what follows block `near` if that is free, else a run that holds all of
    /// them, in the same group if there is one and else in the nearest; else the largest runs there are.
    pub fn allocate(&mut self, blocks: u64, near: Option<u64>) -> Option<Vec<Run>> {
        if blocks > self.free() {
            return None;
        }
        let mut taken = Vec::new();
        let mut wanted = blocks;
        let mut home = 0;
        if let Some(near) = near.filter(|near| *near >= self.layout.groups_at.0 / BLOCK.0) {
            let (group, at) = self.locate(near);
            home = group;
            let length = self.groups.get(&group).and_then(|g| g.run_at(at)).map_or(0, |l| u64::from(l).min(wanted));
            if length > 0 {
                self.take(group, at, length as u32, &mut taken);
                wanted -= length;
            }
        }
        while wanted > 0 {
            let (group, at, length) = self.best(wanted, home).expect("enough is free");
            self.take(group, at, length, &mut taken);
            wanted -= u64::from(length);
        }
        Some(taken)
    }

    /// Takes what is free from block `at` on without a hole, `most` blocks of it at most.
    pub fn following(&mut self, at: u64, most: u64) -> Option<Run> {
        if at < self.layout.groups_at.0 / BLOCK.0 {
            return None;
        }
        let (group, from) = self.locate(at);
        let length = u64::from(self.groups.get(&group)?.run_at(from)?).min(most);
        let mut taken = Vec::new();
        self.take(group, from, length as u32, &mut taken);
        taken.pop()
    }

    /// Takes `blocks` that follow one another, in the group of block `near` or the nearest to it that has so many.
    pub fn whole(&mut self, blocks: u64, near: Option<u64>) -> Option<Run> {
        let near = near.filter(|near| *near >= self.layout.groups_at.0 / BLOCK.0);
        let (group, at, length) = self.best(blocks, near.map_or(0, |near| self.locate(near).0))?;
        if u64::from(length) < blocks {
            return None;
        }
        let mut taken = Vec::new();
        self.take(group, at, length, &mut taken);
        taken.pop()
    }

    fn take(&mut self, group: u32, at: u32, blocks: u32, taken: &mut Vec<Run>) {
        let entry = self.groups.get_mut(&group).expect("it was there");
        assert!(entry.take(at, blocks), "blocks are taken that are not free");
        self.free -= u64::from(blocks);
        self.dirty.insert(group);
        taken.push(Run { at: self.first_block(group) + u64::from(at), blocks: u64::from(blocks) });
    }

    /// A run of at most `wanted` blocks: whole if there is such a run, the nearest one to `home`; else the largest.
    fn best(&self, wanted: u64, home: u32) -> Option<(u32, u32, u32)> {
        let whole = self.groups.iter().filter(|(_, g)| u64::from(g.largest()) >= wanted);
        if let Some((number, group)) = whole.min_by_key(|(number, _)| number.abs_diff(home)) {
            let (at, _) = group.runs().find(|(_, length)| u64::from(*length) >= wanted)?;
            return Some((*number, at, wanted as u32));
        }
        let (number, group) = self.groups.iter().max_by_key(|(_, g)| g.largest())?;
        let (at, length) = group.runs().max_by_key(|(_, length)| *length)?;
        Some((*number, at, length))
    }

    /// Takes exactly this run, which a record of a log says was taken; whether it was free.
    pub fn claim(&mut self, run: Run) -> bool {
        let (group, at) = self.locate(run.at);
        self.dirty.insert(group);
        let free = self.groups.get_mut(&group).is_some_and(|entry| entry.take(at, run.blocks as u32));
        self.free -= if free { run.blocks } else { 0 };
        free
    }

    /// Makes a run free.
    pub fn give(&mut self, run: Run) {
        let (group, at) = self.locate(run.at);
        self.dirty.insert(group);
        self.groups.get_mut(&group).expect("what is freed is in a group of objects").give(at, run.blocks as u32);
        self.free += run.blocks;
    }

    /// Groups whose rows [`Space::changed_rows`] would say.
    pub fn changed(&self, also: &[Run]) -> BTreeSet<u32> {
        self.dirty.iter().copied().chain(also.iter().map(|run| self.locate(run.at).0)).collect()
    }

    /// How many groups have changed since their rows were asked for.
    pub fn changed_groups(&self) -> usize {
        self.dirty.len()
    }

    /// Free runs in groups that have changed since their rows were asked for.
    pub fn changed_runs(&self) -> usize {
        self.dirty.iter().filter_map(|group| self.groups.get(group)).map(|group| group.count() as usize).sum()
    }

    /// The free runs of each group that has changed since the last call, were `also` free too; and notes that those
    /// with some of `also` will change again.
    pub fn changed_rows(&mut self, also: &[Run]) -> Vec<(u32, Vec<(u32, u32)>)> {
        let changed = self.changed(also);
        self.dirty.clear();
        let mut with: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for run in also {
            let (group, at) = self.locate(run.at);
            with.entry(group).or_default().push((at, run.blocks as u32));
        }
        let mut rows = Vec::new();
        for number in changed {
            let Some(group) = self.groups.get(&number) else { continue };
            let mut group = group.clone();
            for (at, blocks) in with.get(&number).into_iter().flatten() {
                group.give(*at, *blocks);
                self.dirty.insert(number);
            }
            rows.push((number, group.runs().collect()));
        }
        rows
    }
}

#[cfg(test)]
mod tests;
