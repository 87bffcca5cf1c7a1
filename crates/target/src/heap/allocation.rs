//! Which slot a record gets: allocators of all classes, the lists of those that are used, what is freed and when.
//!
//! Records that come one after the other lie one behind the other: a class takes its slots from the allocator at the
//! head of its list until that is full. One that was full comes back, at the tail, when as many slots as the threshold
//! says are free in it (RWStore, 2010): eagerly used again, they would scatter what belongs together over all of the
//! heap. It is passed through once, and only stretches in which nothing is left are used; where too much stays free by
//! that, the emptiest one is used as it is. Pure: no I/O, no waiting.

use super::allocator::{Allocator, Found, Search};
use super::classes::{ALLOCATOR_SLOTS, Class, SLOTS};
use super::root::MOST_ALLOCATORS;
use forebay_model::heap::{HeapMode, HeapSettings, RecordId};
use std::collections::VecDeque;

/// Free slots at which an allocator of small ones is used again, where recycling is not eager.
const MANY_FREE: u32 = 4097;
/// Of a class's slots so many of a hundred may be free before the allocator with the most of them is used again though
/// they lie scattered.
const SPARE: u64 = 25;

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

/// So many units have to be added before there is a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Units; `u32::MAX`: no number of them helps.
    pub units: u32,
}

/// What a class has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassStatistics {
    /// Bytes of a slot.
    pub slot: u32,
    /// Allocators.
    pub allocators: u64,
    /// Slots that have a place, and those with a record.
    pub slots: u64,
    /// See [`ClassStatistics::slots`].
    pub used: u64,
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
    /// It has to be used though what is free in it lies scattered.
    anywhere: bool,
    /// It has changed since the last commit.
    dirty: bool,
    /// It was full before.
    worn: bool,
}

/// All allocators of a heap.
pub struct Allocation {
    settings: HeapSettings,
    allocators: Vec<Allocator>,
    standings: Vec<Standing>,
    lists: [VecDeque<u32>; SLOTS.len()],
    statistics: [ClassStatistics; SLOTS.len()],
    /// Units in use, from the first on, and those there are.
    used_units: u32,
    units: u32,
    /// Units for the table of allocators.
    table: Vec<u32>,
    per_table_unit: usize,
    /// Committed slots freed since the last commit, and those freed before the commit of each number.
    freed: Vec<Slot>,
    deferred: VecDeque<(u64, Vec<Slot>)>,
}

impl Allocation {
    /// Without allocators. `per_table_unit` of them are described in one unit.
    pub fn new(settings: HeapSettings, used_units: u32, units: u32, per_table_unit: usize) -> Allocation {
        let statistics = SLOTS.map(|slot| ClassStatistics { slot, ..ClassStatistics::default() });
        Allocation {
            settings,
            allocators: Vec::new(),
            standings: Vec::new(),
            lists: Default::default(),
            statistics,
            used_units,
            units,
            table: Vec::new(),
            per_table_unit,
            freed: Vec::new(),
            deferred: VecDeque::new(),
        }
    }

    /// With the allocators of a commit, in order, and the units in which they are described.
    pub fn with(mut self, allocators: Vec<Allocator>, table: Vec<u32>) -> Allocation {
        self.table = table;
        self.standings = vec![Standing::default(); allocators.len()];
        self.allocators = allocators;
        for number in 0..self.allocators.len() as u32 {
            self.consider(number);
            // One with a block that was never started is used before another is made.
            let unstarted = self.get(number).started() < ALLOCATOR_SLOTS;
            self.standings[number as usize].worn = !unstarted;
            if unstarted && !self.standings[number as usize].listed {
                self.join(number);
                self.allocators[number as usize].go_on();
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
    pub fn used_units(&self) -> u32 {
        self.used_units
    }

    /// Units in which allocators are described.
    pub fn table(&self) -> &[u32] {
        &self.table
    }

    /// There are so many units now.
    pub fn set_units(&mut self, units: u32) {
        self.units = units;
    }

    fn is_eager(&self) -> bool {
        self.settings.threshold <= 1
    }

    fn search(&self, standing: Standing) -> Search {
        if self.is_eager() {
            Search::First
        } else if standing.anywhere {
            Search::Anywhere
        } else {
            Search::Onwards
        }
    }

    /// Free slots at which an allocator is used again.
    fn bar(&self, class: Class) -> u32 {
        match class.is_small() && !self.is_eager() {
            true => self.settings.threshold.max(MANY_FREE),
            false => self.settings.threshold.max(1),
        }
    }

    fn join(&mut self, number: u32) {
        let class = self.get(number).class();
        self.allocators[number as usize].rejoin();
        let standing = &mut self.standings[number as usize];
        (standing.listed, standing.fruitful) = (true, false);
        self.lists[usize::from(class.0)].push_back(number);
    }

    /// Puts an allocator on the list again if enough is free in it.
    fn consider(&mut self, number: u32) {
        let allocator = self.get(number);
        if !self.standings[number as usize].listed && allocator.free() >= self.bar(allocator.class()) {
            self.join(number);
        }
    }

    /// Takes a slot of a class.
    pub fn take(&mut self, class: Class) -> Result<Slot, Short> {
        let list = usize::from(class.0);
        loop {
            let Some(number) = self.lists[list].front().copied() else {
                match self.barely_used(class) {
                    Some(number) => self.join(number),
                    None => self.make(class)?,
                }
                continue;
            };
            let at = number as usize;
            let search = self.search(self.standings[at]);
            match self.allocators[at].take(search) {
                Found::Slot(slot) => {
                    let standing = &mut self.standings[at];
                    (standing.fruitful, standing.dirty) = (true, true);
                    let statistics = &mut self.statistics[list];
                    statistics.taken += 1;
                    statistics.recycled += u64::from(standing.worn);
                    return Ok(Slot { allocator: number, slot });
                }
                Found::Unstarted(block) => {
                    let first = self.take_units(class.units())?;
                    self.allocators[at].start(block, first);
                    self.standings[at].dirty = true;
                }
                Found::Nothing => {
                    self.lists[list].pop_front();
                    let fruitful = self.standings[at].fruitful;
                    self.standings[at] =
                        Standing { dirty: self.standings[at].dirty, worn: true, ..Standing::default() };
                    if fruitful {
                        self.consider(number);
                    }
                }
            }
        }
    }

    /// Takes units that follow one another.
    fn take_units(&mut self, units: u32) -> Result<u32, Short> {
        let short = (self.used_units + units).saturating_sub(self.units);
        if short > 0 {
            return Err(Short { units: short });
        }
        self.used_units += units;
        Ok(self.used_units - units)
    }

    /// Makes another allocator, with a place in the table.
    fn make(&mut self, class: Class) -> Result<(), Short> {
        let number = self.count();
        if number == MOST_ALLOCATORS {
            return Err(Short { units: u32::MAX });
        }
        if self.allocators.len() == self.table.len() * self.per_table_unit {
            let unit = self.take_units(1)?;
            self.table.push(unit);
        }
        self.allocators.push(Allocator::new(class));
        self.standings.push(Standing::default());
        self.join(number);
        Ok(())
    }

    /// Where many of a class's slots are free, the allocator that has the most of them.
    fn barely_used(&mut self, class: Class) -> Option<u32> {
        if self.is_eager() {
            return None;
        }
        let of_class = (0..).zip(&self.allocators).filter(|(_, allocator)| allocator.class() == class);
        let (mut slots, mut free, mut most) = (0, 0, (0, 0));
        for (number, allocator) in of_class {
            slots += u64::from(allocator.started());
            free += u64::from(allocator.free());
            most = most.max((allocator.free(), number));
        }
        let (_, number) = most;
        (free * 100 > slots * SPARE).then(|| {
            self.standings[number as usize].anywhere = true;
            number
        })
    }

    /// Frees the record in a live slot. Whether nobody can see it any more, so that nothing of it has to be written.
    pub fn free(&mut self, slot: Slot) -> bool {
        let at = slot.allocator as usize;
        let class = self.allocators[at].class();
        let search = self.search(self.standings[at]);
        self.standings[at].dirty = true;
        self.statistics[usize::from(class.0)].freed += 1;
        let at_once = self.allocators[at].free_slot(slot.slot, search);
        match at_once {
            true => self.consider(slot.allocator),
            false if self.settings.mode == HeapMode::ReadWrite => self.freed.push(slot),
            false => {}
        }
        at_once
    }

    /// Allocators that have changed since the last commit.
    pub fn changed(&self) -> Vec<u32> {
        (0..).zip(&self.standings).filter(|(_, standing)| standing.dirty).map(|(number, _)| number).collect()
    }

    /// All that is as [`Allocation::changed`] said is durable, as commit `number`; what was at commit `oldest` and later
    /// can still be seen.
    pub fn committed(&mut self, number: u64, oldest: u64) {
        for (allocator, standing) in self.allocators.iter_mut().zip(&mut self.standings) {
            if std::mem::take(&mut standing.dirty) {
                allocator.commit();
            }
        }
        let freed = std::mem::take(&mut self.freed);
        if !freed.is_empty() {
            self.deferred.push_back((number, freed));
        }
        while self.deferred.front().is_some_and(|(freed_by, _)| *freed_by <= oldest)
            && let Some((_, slots)) = self.deferred.pop_front()
        {
            for slot in slots {
                let at = slot.allocator as usize;
                let search = self.search(self.standings[at]);
                self.allocators[at].release(slot.slot, search);
                self.consider(slot.allocator);
            }
        }
    }

    /// Everything is as at the last commit. What was given a place keeps it.
    pub fn abort(&mut self) {
        self.freed.clear();
        for number in self.changed() {
            self.allocators[number as usize].abort();
            self.consider(number);
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
        }
        all.to_vec()
    }
}

#[cfg(test)]
mod tests;
