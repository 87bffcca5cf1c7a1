//! What is free in one group: a list of runs where they are few, a bit for each block where they are many, so that a
//! group takes no more memory than its bits however scattered its free blocks are.

use std::cell::Cell;
use std::collections::BTreeMap;

/// Blocks of a group for each run that a list may have: at a dozen bytes a run, a list takes about what bits do.
const BLOCKS_A_RUN: u32 = 128;
/// Bits in a word.
const WORD: u32 = u64::BITS;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Free runs by their first block.
    Runs(BTreeMap<u32, u32>),
    /// Free blocks.
    Bits(Vec<u64>),
}

/// The free blocks of a group, counted from its first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    form: Form,
    blocks: u32,
    free: u32,
    runs: u32,
    /// The length of the longest run, unless it has to be looked for.
    largest: Cell<Option<u32>>,
}

impl Group {
    /// A group of so many blocks, of which these runs are free: in order, with something between them.
    pub(super) fn of(blocks: u32, runs: &[(u32, u32)]) -> Group {
        let mut bits = vec![0; blocks.div_ceil(WORD) as usize];
        for (at, length) in runs {
            assert!(next(&bits, *at, true).is_none(), "blocks are freed that are free");
            flip(&mut bits, *at, *length);
        }
        let free = runs.iter().map(|(_, length)| length).sum();
        let mut group =
            Group { form: Form::Bits(bits), blocks, free, runs: runs.len() as u32, largest: Cell::new(None) };
        group.fit();
        group
    }

    /// Free blocks.
    pub(super) fn free(&self) -> u64 {
        u64::from(self.free)
    }

    /// The length of the longest run.
    pub(super) fn largest(&self) -> u32 {
        let look = || self.runs().map(|(_, length)| length).max().unwrap_or(0);
        let largest = self.largest.get().unwrap_or_else(look);
        self.largest.set(Some(largest));
        largest
    }

    /// How many runs there are.
    pub(super) fn count(&self) -> u32 {
        self.runs
    }

    /// The runs, in order: first block and length.
    pub(super) fn runs(&self) -> Box<dyn Iterator<Item = (u32, u32)> + '_> {
        match &self.form {
            Form::Runs(runs) => Box::new(runs.iter().map(|(at, length)| (*at, *length))),
            Form::Bits(bits) => {
                let mut from = 0;
                Box::new(std::iter::from_fn(move || {
                    let at = next(bits, from, true)?;
                    from = next(bits, at, false).unwrap_or(bits.len() as u32 * WORD);
                    Some((at, from - at))
                }))
            }
        }
    }

    /// The length of the run that begins at `at`, if one does.
    pub(super) fn run_at(&self, at: u32) -> Option<u32> {
        match &self.form {
            Form::Runs(runs) => runs.get(&at).copied(),
            Form::Bits(bits) => {
                let begins = next(bits, at, true) == Some(at) && (at == 0 || next(bits, at - 1, true) == Some(at));
                begins.then(|| next(bits, at, false).unwrap_or(self.blocks) - at)
            }
        }
    }

    /// Makes blocks free, none of which is.
    pub(super) fn give(&mut self, mut at: u32, mut blocks: u32) {
        self.free += blocks;
        self.runs = self.runs + 1 - self.neighbours(at, blocks);
        match &mut self.form {
            Form::Runs(runs) => {
                if let Some((&before, &length)) = runs.range(..at).next_back() {
                    assert!(before + length <= at, "blocks are freed that are free");
                    if before + length == at {
                        runs.remove(&before);
                        (at, blocks) = (before, length + blocks);
                    }
                }
                if let Some((&after, &length)) = runs.range(at..).next() {
                    assert!(at + blocks <= after, "blocks are freed that are free");
                    if at + blocks == after {
                        runs.remove(&after);
                        blocks += length;
                    }
                }
                runs.insert(at, blocks);
            }
            Form::Bits(bits) => {
                assert!(next(bits, at, true).is_none_or(|free| free >= at + blocks), "blocks are freed that are free");
                flip(bits, at, blocks);
            }
        }
        self.largest.set(None);
        self.fit();
    }

    /// How many runs end where these blocks begin, or begin where they end.
    fn neighbours(&self, at: u32, blocks: u32) -> u32 {
        let end = at + blocks;
        let free = |block: u32| match &self.form {
            Form::Runs(runs) => runs.range(..=block).next_back().is_some_and(|(first, length)| block < first + length),
            Form::Bits(bits) => bits.get((block / WORD) as usize).is_some_and(|word| word >> (block % WORD) & 1 == 1),
        };
        u32::from(at > 0 && free(at - 1)) + u32::from(free(end))
    }

    /// Takes `blocks` from `at` on; whether they were free.
    pub(super) fn take(&mut self, at: u32, blocks: u32) -> bool {
        match &mut self.form {
            Form::Runs(runs) => {
                let Some((&first, &length)) = runs.range(..=at).next_back() else { return false };
                if at + blocks > first + length {
                    return false;
                }
                runs.remove(&first);
                if at > first {
                    runs.insert(first, at - first);
                }
                if first + length > at + blocks {
                    runs.insert(at + blocks, first + length - at - blocks);
                }
            }
            Form::Bits(bits) => {
                let inside = at + blocks <= self.blocks;
                if !inside || next(bits, at, false).is_some_and(|taken| taken < at + blocks) {
                    return false;
                }
                flip(bits, at, blocks);
            }
        }
        self.free -= blocks;
        self.runs = self.runs + self.neighbours(at, blocks) - 1;
        self.largest.set(None);
        self.fit();
        true
    }

    /// Changes the form if the other one is the smaller by far.
    fn fit(&mut self) {
        let many = (self.blocks / BLOCKS_A_RUN).max(2);
        match &self.form {
            Form::Runs(_) if self.runs > many => {
                let mut bits = vec![0; self.blocks.div_ceil(WORD) as usize];
                self.runs().for_each(|(at, length)| flip(&mut bits, at, length));
                self.form = Form::Bits(bits);
            }
            Form::Bits(_) if self.runs < many / 2 => self.form = Form::Runs(self.runs().collect()),
            _ => {}
        }
    }
}

/// The first block from `from` on that is `free`, or not; none behind the last word.
fn next(bits: &[u64], from: u32, free: bool) -> Option<u32> {
    let at = (from / WORD) as usize;
    let turned = |word: u64| if free { word } else { !word };
    let mut word = turned(*bits.get(at)?) & (u64::MAX << (from % WORD));
    let mut n = at;
    while word == 0 {
        n += 1;
        word = turned(*bits.get(n)?);
    }
    Some(n as u32 * WORD + word.trailing_zeros())
}

/// Changes `blocks` bits from `at` on, all of which are the same.
fn flip(bits: &mut [u64], at: u32, blocks: u32) {
    let (mut from, end) = (at, at + blocks);
    while from < end {
        let length = (WORD - from % WORD).min(end - from);
        bits[(from / WORD) as usize] ^= (u64::MAX >> (WORD - length)) << (from % WORD);
        from += length;
    }
}

#[cfg(test)]
mod tests;
