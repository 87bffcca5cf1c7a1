//! Which places for pages of allocators are taken: by the last commits, and by those that can still be read. No I/O.

use super::root::PLACES_PER_UNIT;
use std::collections::VecDeque;

/// Places for pages.
#[derive(Debug, Default)]
pub struct Places {
    taken: Vec<bool>,
    /// Places that were replaced by the commit of each number.
    replaced: VecDeque<(u64, Vec<u32>)>,
}

impl Places {
    /// Those below `used` are taken.
    pub fn new(used: u32) -> Places {
        Places { taken: vec![true; used as usize], replaced: VecDeque::new() }
    }

    /// There are so many units of them.
    pub fn set_units(&mut self, units: usize) {
        self.taken.resize(units * PLACES_PER_UNIT as usize, false);
    }

    /// A place is taken already.
    pub fn take_this(&mut self, place: u32) {
        self.taken[place as usize] = true;
    }

    /// Places that are free.
    pub fn free(&self) -> usize {
        self.taken.iter().filter(|taken| !**taken).count()
    }

    /// Places up to the last one that is taken.
    pub fn used(&self) -> u32 {
        self.taken.iter().rposition(|taken| *taken).map_or(0, |last| last as u32 + 1)
    }

    /// Takes the first ones that are free; there must be so many.
    pub fn take(&mut self, count: usize) -> Vec<u32> {
        let free = (0..).zip(&self.taken).filter(|(_, taken)| !**taken);
        let places: Vec<u32> = free.map(|(place, _)| place).take(count).collect();
        assert!(places.len() == count, "{count} places for pages are wanted, and {} are free", places.len());
        places.iter().for_each(|place| self.taken[*place as usize] = true);
        places
    }

    /// The commit of this number has other places than these, which those before it have. An earlier number than before
    /// only if `older`.
    pub fn replaced(&mut self, commit: u64, places: Vec<u32>, older: bool) {
        match older {
            true => self.replaced.push_front((commit, places)),
            false => self.replaced.push_back((commit, places)),
        }
    }

    /// What only commits before `oldest` have is free.
    pub fn release(&mut self, oldest: u64) {
        while self.replaced.front().is_some_and(|(by, _)| *by <= oldest)
            && let Some((_, places)) = self.replaced.pop_front()
        {
            places.into_iter().for_each(|place| self.taken[place as usize] = false);
        }
    }
}

#[cfg(test)]
mod tests;
