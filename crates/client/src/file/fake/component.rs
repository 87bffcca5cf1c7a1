//! One component, and what happens to it: it is away, restarts, is slow or damaged.

use super::super::components::{Absence, Intent, Slice};
use super::world::World;
use forebay_model::object::Durability;
use forebay_model::ranges::Ranges;
use forebay_model::{Bytes, Error, Result};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
pub(super) struct Component {
    pub(super) now: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// What was written since all was durable, and whether it was durably.
    pub(super) buffered: Vec<(usize, Vec<u8>, bool)>,
    pub(super) damaged: Ranges,
    pub(super) down: bool,
    /// It takes no bytes: there is no room.
    pub(super) full: bool,
    /// What tells of its bytes is damaged: it takes none, and has none.
    pub(super) unknown: bool,
    /// Reads and writes from now on until this fails.
    pub(super) fails_after: Option<u64>,
    /// How often it lost its buffers.
    pub(super) restarts: u64,
    pub(super) intents: BTreeMap<u64, (Intent, u64)>,
    /// None of what was intended beside it can be read.
    pub(super) intents_damaged: bool,
    pub(super) delay: Duration,
    /// Its node says that its device has become slow.
    pub(super) slow: bool,
    /// So many locks are held there that it gives no more.
    pub(super) crowded: bool,
}

fn put(to: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    to.resize(to.len().max(at + bytes.len()), 0);
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Component {
    pub(super) fn write(&mut self, at: Bytes, slices: &[Slice], durability: Durability) {
        let bytes = slices.concat();
        let at = at.0 as usize;
        put(&mut self.now, at, &bytes);
        let (start, end) = (at as u64, (at + bytes.len()) as u64);
        self.replace_damaged(start, end);
        self.buffered.push((at, bytes, durability == Durability::Durable));
    }

    /// What was damaged there is no longer.
    pub(super) fn replace_damaged(&mut self, start: u64, end: u64) {
        let mut left = Ranges::default();
        for range in self.damaged.iter() {
            left.add(range.start..range.end.min(start).max(range.start));
            left.add(range.start.max(end).min(range.end)..range.end);
        }
        self.damaged = left;
    }

    /// What was intended beside it, and by whom.
    pub(super) fn intents(&self, component: u32) -> Result<&BTreeMap<u64, (Intent, u64)>> {
        match self.intents_damaged {
            true => Err(Error::damaged(format!("what was intended beside component {component} is damaged"))),
            false => Ok(&self.intents),
        }
    }

    pub(super) fn make_durable(&mut self) {
        self.durable.clone_from(&self.now);
        self.buffered.clear();
    }
}

impl World {
    pub(in crate::file) fn with<T>(&self, component: u32, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        change(&mut self.components.borrow_mut()[component as usize].now)
    }

    /// A component cannot be reached from now on, or can be again.
    pub(in crate::file) fn set_down(&self, component: u32, down: bool) {
        self.components.borrow_mut()[component as usize].down = down;
    }

    /// It can be reached again, for as long as it is asked.
    pub(in crate::file) fn heal(&self, component: u32) {
        let one = &mut self.components.borrow_mut()[component as usize];
        (one.down, one.fails_after) = (false, None);
        if std::mem::take(&mut one.slow) {
            one.delay = Duration::ZERO;
        }
    }

    pub(in crate::file) fn is_down(&self, component: u32) -> bool {
        self.components.borrow()[component as usize].down
    }

    /// It fails after so many requests, and stays away.
    pub(in crate::file) fn fail_after(&self, component: u32, requests: u64) {
        self.components.borrow_mut()[component as usize].fails_after = Some(requests);
    }

    /// It has no room for what is written, or has again.
    pub(in crate::file) fn set_full(&self, component: u32, full: bool) {
        self.components.borrow_mut()[component as usize].full = full;
    }

    /// It gives no locks, or does again.
    pub(in crate::file) fn set_crowded(&self, component: u32, crowded: bool) {
        self.components.borrow_mut()[component as usize].crowded = crowded;
    }

    /// How many locks a client holds.
    pub(in crate::file) fn locks_of(&self, client: u64) -> usize {
        let locks = self.locks.borrow();
        locks.values().filter(|queue| queue.front().is_some_and(|(_, of)| *of == client)).count()
    }

    /// What a client has locked is locked elsewhere by now: it changes nothing before it has given that back.
    pub(in crate::file) fn lose_locks(&self, client: u64) {
        let locks = self.locks.borrow();
        let held = locks.values().filter_map(|queue| queue.front()).filter(|(_, of)| *of == client);
        self.lost.borrow_mut().extend(held.map(|(number, _)| *number));
    }

    /// Whether a client still has all that it locked.
    pub(super) fn check_locks(&self, client: u64) -> Result<()> {
        let (locks, lost) = (self.locks.borrow(), self.lost.borrow());
        let mut held = locks.values().flatten().filter(|(_, of)| *of == client);
        match held.any(|(number, _)| lost.contains(number)) {
            true => Err(Error::refused("a stripe is locked elsewhere by now")),
            false => Ok(()),
        }
    }

    /// Each request takes so long, and its node says that its device has become slow.
    pub(in crate::file) fn slow_down(&self, component: u32, delay: Duration) {
        let mut components = self.components.borrow_mut();
        let one = &mut components[component as usize];
        (one.delay, one.slow) = (delay, true);
    }

    /// What tells of its bytes cannot be read.
    pub(in crate::file) fn forget(&self, component: u32) {
        self.components.borrow_mut()[component as usize].unknown = true;
    }

    /// What was intended beside it cannot be read any more, and its bytes can.
    pub(in crate::file) fn damage_intents(&self, component: u32) {
        self.components.borrow_mut()[component as usize].intents_damaged = true;
    }

    pub(in crate::file) fn set_delay(&self, component: u32, delay: Duration) {
        self.components.borrow_mut()[component as usize].delay = delay;
    }

    /// Bytes that cannot be read before they are written again.
    pub(in crate::file) fn damage(&self, component: u32, range: std::ops::Range<u64>) {
        let mut components = self.components.borrow_mut();
        let one = &mut components[component as usize];
        one.damaged.add(range.start..range.end.min(one.now.len() as u64).max(range.start));
    }

    /// The target of a component has no power for a moment: of what was buffered, some is there.
    pub(in crate::file) fn restart(&self, component: u32) {
        let mut components = self.components.borrow_mut();
        let one = &mut components[component as usize];
        one.restarts += 1;
        let mut bytes = one.durable.clone();
        for (at, written, durably) in std::mem::take(&mut one.buffered) {
            if durably || self.chance.once_in(2) {
                put(&mut bytes, at, &written);
            }
        }
        one.now.clone_from(&bytes);
        one.durable = bytes;
    }

    /// Whether a component answers a client at all.
    pub(super) fn check_reach(&self, component: u32, client: u64, writes: bool) -> Result<()> {
        let mut components = self.components.borrow_mut();
        let one = &mut components[component as usize];
        match &mut one.fails_after {
            Some(0) => one.down = true,
            Some(left) => *left -= 1,
            None => {}
        }
        if one.down {
            return Err(Error::disconnected(format!("component {component} cannot be reached")));
        }
        if one.unknown {
            return Err(Error::damaged(format!("what tells of component {component} is damaged")));
        }
        match self.missing.borrow().get(&component) {
            Some(Absence::Missed) => return Err(Error::stale("it missed something")),
            Some(Absence::Filling) if !writes => return Err(Error::stale("it is being rebuilt")),
            _ => {}
        }
        let clients = self.clients.borrow();
        match clients.get(&client).and_then(|client| client.wrote.get(&component)) {
            Some(known) if *known != one.restarts => Err(Error::restarted("it lost what was buffered")),
            _ => Ok(()),
        }
    }
}
