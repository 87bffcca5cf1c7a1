//! Memory for what is written: a request has some before its payload comes, and until its target has answered. It never waits for
//! a client that is slow for as long as that likes: while others wait for memory, the slower half of the payloads that are coming,
//! by the bytes that they hold, has to come within patience, and whoever is slower tries it ([`super::patience`]).
//!
//! The slower half alone: where the network is what is slow, the others come to their end and so all do, one after the other.
//!
//! Whoever waits for memory has its connection wait, over which other targets are asked as well. So nobody waits long for a target that
//! has all that it may have, to which nothing is coming, and that gives nothing of it back: it hangs.

use super::divided::{Divided, Portion};
use super::session::OVERHEAD;
use forebay_env::Clock;
use forebay_env::race::{First, race};
use forebay_model::{Bytes, Error, Moment, Rate, Result, TargetId};
use forebay_wire::object::{LARGEST, WINDOW};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// For so many times the patience a request waits for others, whose connection is not listened to meanwhile: it is asked of other targets
/// as well. By then whoever is slow was cut.
const WAITS: u32 = 4;
/// A target hangs that gives nothing back for so long, or for the longest of so many parts of the patience.
const STUCK: Duration = Duration::from_secs(5);
const STUCK_PARTS: u32 = 6;

/// The memory of a node.
pub(super) struct Incoming {
    clock: Rc<dyn Clock>,
    patience: Duration,
    all: Divided,
    /// What is larger than a connection's window.
    large: Divided,
    /// How many wait: behind others for the same target, or (`None`) for all.
    waiting: RefCell<BTreeMap<Option<TargetId>, usize>>,
    coming: RefCell<BTreeMap<u64, Coming>>,
    next: Cell<u64>,
    held: Rc<RefCell<BTreeMap<TargetId, Held>>>,
}

/// What one target has of it.
struct Held {
    /// For so many requests.
    requests: usize,
    /// When it was given the last one, or gave something back.
    moved: Moment,
}

/// What a request has of it, until this is dropped.
pub(super) struct Taken {
    target: TargetId,
    held: Rc<RefCell<BTreeMap<TargetId, Held>>>,
    clock: Rc<dyn Clock>,
    _memory: (Option<Portion>, Portion),
}

/// A payload that is coming.
struct Coming {
    target: TargetId,
    length: u64,
    began: Moment,
    /// Bytes of its connection that had come by then, and that have come.
    from: u64,
    came: Rc<Cell<u64>>,
}

/// Somebody waits, until this is dropped.
struct Waits<'a> {
    incoming: &'a Incoming,
    of: Option<TargetId>,
}

/// Whether a request of this weight is one of the large, of which few are let in.
pub(super) fn is_large(weight: usize) -> bool {
    weight > WINDOW.0 as usize + OVERHEAD
}

/// Where the large have room: one of each target, and two of all.
pub(super) fn for_large() -> Divided {
    let one = LARGEST.0 as usize + OVERHEAD;
    Divided::new(2 * one, one)
}

impl Incoming {
    /// Of `most` bytes, of which one target has one of so many `parts`.
    pub(super) fn new(most: Bytes, parts: usize, clock: Rc<dyn Clock>, patience: Duration) -> Rc<Incoming> {
        let most = most.0 as usize;
        Rc::new(Incoming {
            clock,
            patience,
            all: Divided::new(most, most / parts),
            large: for_large(),
            waiting: RefCell::default(),
            coming: RefCell::default(),
            next: Cell::new(0),
            held: Rc::default(),
        })
    }

    /// Waits until there is memory for a payload of so many bytes that goes to a target. [`forebay_model::Kind::Busy`] if that hangs, or
    /// others that go there have what they may for long, or those to all targets have all there is.
    pub(super) async fn take(&self, target: TargetId, length: usize) -> Result<Taken> {
        let weight = length + OVERHEAD;
        let end = self.clock.now() + WAITS * self.patience;
        let of_one = async {
            let _waits = self.waits(Some(target));
            let large = match is_large(weight) {
                true => Some(self.large.of_one(target, weight).await),
                false => None,
            };
            (large, self.all.of_one(target, weight).await)
        };
        let over = race(self.hangs(target), self.clock.sleep_until(end));
        let First::Left((large, of_one)) = race(of_one, over).await else {
            return Err(Error::busy(format!(
                "what is to be written to target {target} has all the memory that it may have, and has had for long: its device \
                 hangs, or is far slower than what is asked of it; ask again later (nothing was changed)"
            )));
        };
        let of_all = async {
            let _waits = self.waits(None);
            let large = match large {
                Some(large) => Some(self.large.with(large, weight).await),
                None => None,
            };
            (large, self.all.with(of_one, weight).await)
        };
        match race(of_all, self.clock.sleep_until(end)).await {
            First::Left(memory) => Ok(self.taken(target, memory)),
            First::Right(()) => Err(Error::busy(
                "what is to be written to other targets of the node has all the memory that there is for it, and has had for long: their \
                 devices hang, or are far slower than what is asked of them; ask again later (nothing was changed)",
            )),
        }
    }

    fn taken(&self, target: TargetId, memory: (Option<Portion>, Portion)) -> Taken {
        let fresh = Held { requests: 0, moved: self.clock.now() };
        self.held.borrow_mut().entry(target).or_insert(fresh).requests += 1;
        Taken { target, held: self.held.clone(), clock: self.clock.clone(), _memory: memory }
    }

    /// Waits until a target has given nothing back for long of what it has, while nothing comes to it.
    async fn hangs(&self, target: TargetId) {
        let stuck = STUCK.max(self.patience / STUCK_PARTS);
        loop {
            let now = self.clock.now();
            let moved = self.held.borrow().get(&target).map_or(now, |held| held.moved);
            let is_coming = self.coming.borrow().values().any(|coming| coming.target == target);
            let left = if is_coming { stuck } else { (moved + stuck).since(now) };
            if left.is_zero() {
                return;
            }
            self.clock.sleep(left).await;
        }
    }

    /// Bytes that are used.
    pub(super) fn used(&self) -> usize {
        self.all.used()
    }

    /// A payload begins to come that has memory, over a connection of which so many bytes `came`: its number.
    pub(super) fn begins(&self, target: TargetId, length: usize, came: Rc<Cell<u64>>) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        let coming = Coming { target, length: length as u64, began: self.clock.now(), from: came.get(), came };
        self.coming.borrow_mut().insert(number, coming);
        number
    }

    /// It has come, or does not come any more.
    pub(super) fn ends(&self, number: u64) {
        let Some(Coming { target, .. }) = self.coming.borrow_mut().remove(&number) else { return };
        if let Some(held) = self.held.borrow_mut().get_mut(&target) {
            held.moved = self.clock.now();
        }
    }

    /// The rate with which a payload has to come now: that with which it is there within patience, if somebody waits for what it has
    /// and it is of the slower half.
    pub(super) fn hurries(&self, number: u64) -> Option<Rate> {
        let coming = self.coming.borrow();
        let own = coming.get(&number)?;
        if !self.is_waited_for(own.target) {
            return None;
        }
        let now = self.clock.now();
        // Of those that are as slow as one another the first is the slowest, so that they do not take turns.
        let is_slower = |other: &u64, it: &Coming| {
            let (others, owns) = (it.takes(now), own.takes(now));
            others > owns || others == owns && *other < number
        };
        let slower: u64 = coming.iter().filter(|(other, it)| is_slower(other, it)).map(|(_, it)| it.length).sum();
        let all: u64 = coming.values().map(|it| it.length).sum();
        if slower >= all.div_ceil(2) {
            return None;
        }
        let within = u128::from(own.length) * 1_000_000_000 / self.patience.as_nanos().max(1);
        Some(Rate(u64::try_from(within).unwrap_or(u64::MAX)))
    }

    fn is_waited_for(&self, target: TargetId) -> bool {
        let waiting = self.waiting.borrow();
        waiting.contains_key(&None) || waiting.contains_key(&Some(target))
    }

    fn waits(&self, of: Option<TargetId>) -> Waits<'_> {
        *self.waiting.borrow_mut().entry(of).or_default() += 1;
        Waits { incoming: self, of }
    }
}

impl Coming {
    /// How long all of it takes if it goes on as it has come, in nanoseconds.
    fn takes(&self, now: Moment) -> u128 {
        let came = self.came.get().saturating_sub(self.from).max(1);
        now.since(self.began).as_nanos() * u128::from(self.length) / u128::from(came)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut all = self.held.borrow_mut();
        let Some(held) = all.get_mut(&self.target) else { return };
        (held.requests, held.moved) = (held.requests - 1, self.clock.now());
        if held.requests == 0 {
            all.remove(&self.target);
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut waiting = self.incoming.waiting.borrow_mut();
        if let Some(count) = waiting.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests;
