//! Whether what is in the components agrees, and what was asked of them.

use super::component::Component;
use super::world::World;

/// What was asked of components.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::file) struct Counts {
    pub(in crate::file) reads: u64,
    pub(in crate::file) read_bytes: u64,
    pub(in crate::file) writes: u64,
    pub(in crate::file) written_bytes: u64,
    pub(in crate::file) intents: u64,
    pub(in crate::file) locks: u64,
}

impl World {
    pub(in crate::file) fn intents(&self) -> usize {
        let missing = self.missing.borrow();
        let components = self.components.borrow();
        let left = (0..).zip(components.iter()).filter(|(nth, _)| !missing.contains_key(nth));
        left.map(|(_, component)| component.intents.len()).sum()
    }

    /// Whether parity, and copies, agree everywhere, but for components that missed something, and for what is damaged.
    pub(in crate::file) fn check(&self) {
        let (components, missing) = (self.components.borrow(), self.missing.borrow());
        let together = self.striping.family(0).len();
        let all: Vec<(u32, &Component)> = (0..).zip(components.iter()).collect();
        for family in all.chunks(together) {
            let whole = family.iter().all(|(nth, _)| !missing.contains_key(nth));
            let longest = family.iter().map(|(_, one)| one.now.len()).max().unwrap_or(0);
            let byte = |one: &Component, at: usize| one.now.get(at).copied().unwrap_or(0);
            let is_there = |at: &usize| {
                let is_damaged = |one: &Component| one.damaged.iter().any(|range| range.contains(&(*at as u64)));
                !family.iter().any(|(_, one)| is_damaged(one))
            };
            if self.striping.raid().parity_units() == 1 {
                if let Some(at) = (0..longest)
                    .find(|at| family.iter().fold(0, |sum, (_, one)| sum ^ byte(one, *at)) != 0 && is_there(at))
                {
                    assert!(!whole, "parity of {:?} and behind disagrees at byte {at}", family[0].0);
                }
            } else {
                let left: Vec<&Component> =
                    family.iter().filter(|(nth, _)| !missing.contains_key(nth)).map(|(_, one)| *one).collect();
                let differs =
                    (0..longest).find(|at| left.iter().any(|one| byte(one, *at) != byte(left[0], *at)) && is_there(at));
                assert!(differs.is_none(), "copies of {:?} disagree at {differs:?}", family[0].0);
            }
        }
    }

    pub(in crate::file) fn take_counts(&self) -> Counts {
        self.counts.take()
    }

    pub(in crate::file) fn most_pending(&self) -> u64 {
        self.writing.get().1
    }

    /// The most bytes that were written by one request.
    pub(in crate::file) fn largest_write(&self) -> u64 {
        self.largest_write.get()
    }

    pub(in crate::file) fn took_crash(&self) -> bool {
        self.crashed.take()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}
