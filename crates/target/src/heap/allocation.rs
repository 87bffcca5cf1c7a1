//! Which slot a record gets: allocators of all classes, the lists of those that are used, what is freed and when.
//!
//! Records that come one after the other lie one behind the other: a class takes its slots from the allocator at the
//! head of its list until that is full. One that was full comes back, at the tail, when as many slots as the threshold
//! says are free in it (RWStore, 2010): eagerly used again, they would scatter what belongs together over all of the
//! heap. It is passed through once. Where many slots of a class are free, no further block of them is begun: the emptiest
//! allocator is passed through instead. What was freed before anything was written is taken first of all, so that what is
//! committed lies close together. Blocks in which nothing is left give their units back, for slots of any size.
//! Pure: no I/O, no waiting.

use super::allocator::{Allocator, Found, Search};
use super::classes::{ALLOCATOR_SLOTS, BLOCK_SLOTS, BLOCKS, Class, SLOTS};
use super::root::{FIRST_UNIT, MOST_ALLOCATORS, MOST_TABLE, table_for};
use super::units::{Short, Units};
use forebay_model::heap::{HeapMode, HeapSettings, RecordId};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Of a class's slots so many of a hundred are free where these are used before another block is begun: on a disk with an
/// arm. (The more are free, the less is read and written beside what is put; and the larger is the heap.)
pub const SPARE_ROTATING: u64 = 10;
/// The same where none has to move: bytes count there, and not places.
pub const SPARE_FLAT: u64 = 25;

/// A slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Its allocator.
    pub allocator: u32,
    /// Which of that one's.
    pub slot: u16,
}

impl Slot {
    /// The slot of a record.
    pub fn of(id: RecordId) -> Slot {
        Slot { allocator: id.allocator(), slot: id.slot() }
    }
}

/// What a class has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassStatistics {
    /// Bytes of a slot.
    pub slot: u32,
    /// Allocators.
    pub allocators: u64,
    /// Slots that have a place, those with a record, and of the others those that are not free: with one that was freed and that
    /// an older commit has, or that is one writer's.
    pub slots: u64,
    /// See [`ClassStatistics::slots`].
    pub used: u64,
    /// See [`ClassStatistics::slots`].
    pub kept: u64,
    /// Slots handed out since opening, and those of them that had been before.
    pub taken: u64,
    /// See [`ClassStatistics::taken`].
    pub recycled: u64,
    /// Records freed since opening.
    pub freed: u64,
}

/// What is kept of an allocator beside its slots.
#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    /// It is on its class's list.
    listed: bool,
    /// A slot was taken since it came there.
    fruitful: bool,
    /// It has changed since the last commit, and since the one that is being made, or is to be described anew.
    dirty: bool,
    /// It had changed when the commit that is being made began.
    writing: bool,
    /// It was full before.
    worn: bool,
}

/// All allocators of a heap.
pub struct Allocation {
    settings: HeapSettings,
    spare: u64,
    allocators: Vec<Allocator>,
    standings: Vec<Standing>,
    lists: [VecDeque<u32>; SLOTS.len()],
    statistics: [ClassStatistics; SLOTS.len()],
    units: Units,
    /// Of each class, allocators that are not on its list and have a block without a place.
    roomy: [BTreeSet<u32>; SLOTS.len()],
    /// Units for the pages that describe allocators.
    table: Vec<u32>,
    /// Committed slots freed since the last commit, and those freed before the commit of each number.
    freed: Vec<Slot>,
    deferred: VecDeque<(u64, Vec<Slot>)>,
    /// Of each class, slots that are handed out before others: see [`Allocation::hand_out_next`].
    next: [Vec<Slot>; SLOTS.len()],
    /// Something was written since the last commit.
    has_written: bool,
}

impl Allocation {
    /// Without allocators.
    pub fn new(settings: HeapSettings, units: Units) -> Allocation {
        let statistics = SLOTS.map(|slot| ClassStatistics { slot, ..ClassStatistics::default() });
        Allocation {
            settings,
            spare: SPARE_ROTATING,
            allocators: Vec::new(),
            standings: Vec::new(),
            lists: Default::default(),
            statistics,
            units,
            roomy: Default::default(),
            table: Vec::new(),
            freed: Vec::new(),
            deferred: VecDeque::new(),
            next: Default::default(),
            has_written: false,
        }
    }

    /// For a device of this kind.
    pub fn on(mut self, rotates: bool) -> Allocation {
        self.spare = if rotates { SPARE_ROTATING } else { SPARE_FLAT };
        self
    }

    /// With the allocators of a commit, in order, and the units in which they are described.
    pub fn with(mut self, allocators: Vec<Allocator>, table: Vec<u32>) -> Allocation {
        self.table = table;
        self.standings = vec![Standing::default(); allocators.len()];
        self.allocators = allocators;
        self.units.keep_only(FIRST_UNIT, &used(&self.allocators, &self.table));
        for number in 0..self.allocators.len() as u32 {
            self.consider(number);
            // One with a block that was never started is used before another is made.
            let unstarted = self.get(number).started() < ALLOCATOR_SLOTS;
            self.standings[number as usize].worn = !unstarted;
            if unstarted && !self.standings[number as usize].listed {
                self.join(number);
            }
        }
        self
    }

    /// Allocators there are.
    pub fn count(&self) -> u32 {
        self.allocators.len() as u32
    }

    /// An allocator, which must be there.
    pub fn get(&self, number: u32) -> &Allocator {
        &self.allocators[number as usize]
    }

    /// An allocator, if it is there.
    pub fn find(&self, number: u32) -> Option<&Allocator> {
        self.allocators.get(number as usize)
    }

    /// Units in use.
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// Units in which allocators are described.
    pub fn table(&self) -> &[u32] {
        &self.table
    }

    /// There are so many units now.
    pub fn set_units(&mut self, units: u32) {
        self.units.set_all(units);
    }

    fn is_eager(&self) -> bool {
        self.settings.threshold <= 1
    }

    fn search(&self) -> Search {
        if self.is_eager() { Search::First } else { Search::Onwards }
    }

    /// Free slots at which an allocator is used again.
    fn bar(&self) -> u32 {
        self.settings.threshold.max(1)
    }

    fn join(&mut self, number: u32) {
        let class = self.get(number).class();
        self.allocators[number as usize].rejoin();
        let standing = &mut self.standings[number as usize];
        (standing.listed, standing.fruitful) = (true, false);
        self.roomy[usize::from(class.0)].remove(&number);
        self.lists[usize::from(class.0)].push_back(number);
    }

    /// Puts an allocator on the list again if enough is free in it.
    fn consider(&mut self, number: u32) {
        let allocator = self.get(number);
        if !self.standings[number as usize].listed && allocator.free() >= self.bar() {
            self.join(number);
        }
    }

    /// Takes a slot of a class.
    pub fn take(&mut self, class: Class) -> Result<Slot, Short> {
        let list = usize::from(class.0);
        if let Some(slot) = self.take_next(class) {
            return Ok(slot);
        }
        loop {
            let Some(number) = self.lists[list].front().copied() else {
                match self.emptiest(class).or_else(|| self.roomy[list].first().copied()) {
                    Some(number) => self.join(number),
                    None => self.make(class)?,
                }
                continue;
            };
            let at = number as usize;
            match self.allocators[at].take() {
                Found::Slot(slot) => {
                    let standing = &mut self.standings[at];
                    (standing.fruitful, standing.dirty) = (true, true);
                    let statistics = &mut self.statistics[list];
                    statistics.taken += 1;
                    statistics.recycled += u64::from(standing.worn);
                    return Ok(Slot { allocator: number, slot });
                }
                Found::Unstarted(block) if self.is_sparse(class) => self.allocators[at].pass(block),
                Found::Unstarted(block) => {
                    let first = self.units.take(class.units())?;
                    self.allocators[at].start(block, first);
                    self.standings[at].dirty = true;
                }
                Found::Nothing => {
                    self.lists[list].pop_front();
                    let fruitful = self.standings[at].fruitful;
                    self.standings[at] = Standing { listed: false, fruitful: false, worn: true, ..self.standings[at] };
                    if fruitful {
                        self.consider(number);
                    }
                    if !self.standings[at].listed && self.allocators[at].has_room() {
                        self.roomy[list].insert(number);
                    }
                }
            }
        }
    }

    /// A slot whose record was freed while it waited to be written. As long as nothing has been written since the last
    /// commit, such slots are handed out before others: what is committed lies close together, however much of what was
    /// put is freed before. (Later they would lie scattered in what has been written. Eager use has no need of this.)
    pub fn hand_out_next(&mut self, slot: Slot) {
        if !self.has_written && !self.is_eager() {
            let class = self.get(slot.allocator).class();
            self.next[usize::from(class.0)].push(slot);
        }
    }

    /// Records are going to be written before the next commit.
    pub fn begin_writing(&mut self) {
        self.has_written = true;
        self.next.iter_mut().for_each(Vec::clear);
    }

    fn take_next(&mut self, class: Class) -> Option<Slot> {
        // One that was taken otherwise, or has no place any more, is passed over.
        while let Some(slot) = self.next[usize::from(class.0)].pop() {
            let at = slot.allocator as usize;
            if self.allocators[at].take_this(slot.slot) {
                self.standings[at].dirty = true;
                let statistics = &mut self.statistics[usize::from(class.0)];
                statistics.taken += 1;
                statistics.recycled += 1;
                return Some(slot);
            }
        }
        None
    }

    /// Takes a slot of a class that is free anywhere, where there are no units for others.
    pub fn take_left(&mut self, class: Class) -> Option<Slot> {
        let (_, number) = self.of_class(class).map(|(number, allocator)| (allocator.free(), number)).max()?;
        let slot = self.allocators[number as usize].take_left()?;
        self.standings[number as usize].dirty = true;
        let statistics = &mut self.statistics[usize::from(class.0)];
        statistics.taken += 1;
        statistics.recycled += 1;
        Some(Slot { allocator: number, slot })
    }

    /// Makes another allocator, with a place in the table.
    fn make(&mut self, class: Class) -> Result<(), Short> {
        let number = self.count();
        if number == MOST_ALLOCATORS {
            return Err(Short { units: u32::MAX });
        }
        while self.table.len() < table_for(number + 1) {
            self.add_to_table()?;
        }
        self.allocators.push(Allocator::new(class));
        // The next commit counts it, so that it has to be described, also if nothing is taken from it before.
        self.standings.push(Standing { dirty: true, ..Standing::default() });
        self.join(number);
        Ok(())
    }

    /// Takes one more unit for pages that describe allocators.
    pub fn add_to_table(&mut self) -> Result<(), Short> {
        if self.table.len() == MOST_TABLE {
            return Err(Short { units: u32::MAX });
        }
        let unit = self.units.take(1)?;
        self.table.push(unit);
        Ok(())
    }

    /// Slots that were freed by a commit, and that those before have: an older one than all that were said so far.
    pub fn keep(&mut self, commit: u64, slots: Vec<Slot>) {
        slots.iter().for_each(|slot| self.allocators[slot.allocator as usize].keep(slot.slot));
        self.deferred.push_front((commit, slots));
    }

    /// A slot that was taken is not the record of all, but of one writer.
    pub fn hide(&mut self, slot: Slot) {
        self.allocators[slot.allocator as usize].hide(slot.slot);
    }

    /// It is the record of all.
    pub fn reveal(&mut self, slot: Slot) {
        self.standings[slot.allocator as usize].dirty = true;
        self.allocators[slot.allocator as usize].reveal(slot.slot);
    }

    /// A slot that was hidden is free again.
    pub fn free_hidden(&mut self, slot: Slot) {
        let search = self.search();
        self.allocators[slot.allocator as usize].free_hidden(slot.slot, search);
        self.freed(slot);
    }

    /// Where many of a class's slots are free, the allocator that has the most of them.
    fn emptiest(&self, class: Class) -> Option<u32> {
        if !self.is_sparse(class) {
            return None;
        }
        let (_, number) = self.of_class(class).map(|(number, allocator)| (allocator.free(), number)).max()?;
        Some(number)
    }

    /// Whether many of a class's slots are free, so that no block has to be begun for others.
    fn is_sparse(&self, class: Class) -> bool {
        let slots: u64 = self.of_class(class).map(|(_, allocator)| u64::from(allocator.started())).sum();
        let free: u64 = self.of_class(class).map(|(_, allocator)| u64::from(allocator.free())).sum();
        !self.is_eager() && free * 100 > slots * self.spare
    }

    fn of_class(&self, class: Class) -> impl Iterator<Item = (u32, &Allocator)> {
        (0..).zip(&self.allocators).filter(move |(_, allocator)| allocator.class() == class)
    }

    /// Frees the record in a live slot. Whether nobody can see it any more, so that nothing of it has to be written.
    pub fn free(&mut self, slot: Slot) -> bool {
        let at = slot.allocator as usize;
        let class = self.allocators[at].class();
        let search = self.search();
        self.standings[at].dirty = true;
        self.statistics[usize::from(class.0)].freed += 1;
        let at_once = self.allocators[at].free_slot(slot.slot, search);
        match at_once {
            true => self.freed(slot),
            false if self.settings.mode == HeapMode::ReadWrite => self.freed.push(slot),
            false => {}
        }
        at_once
    }

    /// Whether a slot of a class is free once no commit before this one can be read any more.
    pub fn releases(&self, oldest: u64, class: Class) -> bool {
        let due = self.deferred.iter().take_while(|(freed_by, _)| *freed_by <= oldest);
        due.flat_map(|(_, slots)| slots).any(|slot| self.get(slot.allocator).class() == class)
    }

    /// Allocators that have changed since the last commit.
    pub fn changed(&self) -> Vec<u32> {
        (0..).zip(&self.standings).filter(|(_, standing)| standing.dirty).map(|(number, _)| number).collect()
    }

    /// An allocator, which must be there, is described anew by the next commit, whether or not it changes.
    pub fn describe_anew(&mut self, number: u32) {
        self.standings[number as usize].dirty = true;
    }

    /// As [`Allocation::changed`]; they are going to be written.
    pub fn begin_commit(&mut self) -> Vec<u32> {
        let changed = self.changed();
        for number in &changed {
            let standing = &mut self.standings[*number as usize];
            (standing.dirty, standing.writing) = (false, true);
        }
        changed
    }

    /// All that [`Allocation::begin_commit`] said is durable, as commit `number`; what was at commit `oldest` and later
    /// can still be seen.
    pub fn committed(&mut self, number: u64, oldest: u64) {
        for (allocator, standing) in self.allocators.iter_mut().zip(&mut self.standings) {
            if std::mem::take(&mut standing.writing) {
                allocator.commit();
            }
        }
        self.next.iter_mut().for_each(Vec::clear);
        self.has_written = false;
        let search = self.search();
        let freed = std::mem::take(&mut self.freed);
        if !freed.is_empty() {
            self.deferred.push_back((number, freed));
        }
        while self.deferred.front().is_some_and(|(freed_by, _)| *freed_by <= oldest)
            && let Some((_, slots)) = self.deferred.pop_front()
        {
            for slot in slots {
                self.allocators[slot.allocator as usize].release(slot.slot, search);
                self.freed(slot);
            }
        }
    }

    /// A slot can be handed out again: what is empty by that can be used for slots of other sizes.
    fn freed(&mut self, slot: Slot) {
        let (number, at) = (slot.allocator, slot.allocator as usize);
        let class = self.get(number).class();
        // Where slots are written once, what was handed out stays where it is: it is not told from what is free there.
        if self.settings.mode == HeapMode::ReadWrite
            && let Some(start) = self.allocators[at].give_back(slot.slot)
        {
            self.units.give(start..start + class.units());
            self.standings[at].dirty = true;
            if !self.standings[at].listed {
                self.roomy[usize::from(class.0)].insert(number);
            }
        }
        self.consider(number);
    }

    /// Everything is as at the last commit.
    pub fn abort(&mut self) {
        self.freed.clear();
        self.next.iter_mut().for_each(Vec::clear);
        for allocator in self.changed() {
            self.allocators[allocator as usize].abort();
            (0..BLOCKS).for_each(|block| self.freed(Slot { allocator, slot: (block * BLOCK_SLOTS as usize) as u16 }));
        }
    }

    /// What each class has.
    pub fn statistics(&self) -> Vec<ClassStatistics> {
        let mut all = self.statistics;
        for allocator in &self.allocators {
            let class = &mut all[usize::from(allocator.class().0)];
            class.allocators += 1;
            class.slots += u64::from(allocator.started());
            class.used += u64::from(allocator.used());
            class.kept += u64::from(allocator.started() - allocator.free() - allocator.used());
        }
        all.to_vec()
    }
}

/// The runs of units of these allocators and of the table that describes them, in order.
pub fn used(allocators: &[Allocator], table: &[u32]) -> Vec<Range<u32>> {
    let blocks = allocators.iter().flat_map(|allocator| {
        let units = allocator.class().units();
        allocator.starts().iter().filter(|start| **start > 0).map(move |start| *start..*start + units)
    });
    let mut used: Vec<Range<u32>> = blocks.chain(table.iter().map(|unit| *unit..unit + 1)).collect();
    used.sort_unstable_by_key(|units| units.start);
    used
}

#[cfg(test)]
mod tests;
