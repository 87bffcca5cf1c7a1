//! Memory for what is written: a request has some before its payload comes, and until its target has answered. It never waits for
//! a client that is slow for as long as that likes: while others wait for memory, the slower half of the payloads that are coming,
//! by the bytes that they hold, has to come within patience, and whoever is slower tries it ([`super::patience`]).
//!
//! The slower half alone: where the network is what is slow, the others come to their end and so all do, one after the other.

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

/// For so many times the patience a request waits for others to the same target, whose connection is not listened to meanwhile: it is
/// asked of other targets as well. By then whoever is slow was cut.
const WAITS: u32 = 4;

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
}

/// What a request has of it.
pub(super) type Taken = (Option<Portion>, Portion);

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
        })
    }

    /// Waits until there is memory for a payload of so many bytes that goes to a target. [`forebay_model::Kind::Busy`] if others that
    /// go there have what they may for long.
    pub(super) async fn take(&self, target: TargetId, length: usize) -> Result<Taken> {
        let weight = length + OVERHEAD;
        let of_one = async {
            let _waits = self.waits(Some(target));
            let large = match is_large(weight) {
                true => Some(self.large.of_one(target, weight).await),
                false => None,
            };
            (large, self.all.of_one(target, weight).await)
        };
        let First::Left((large, of_one)) = race(of_one, self.clock.sleep(WAITS * self.patience)).await else {
            return Err(Error::busy(format!(
                "what is to be written to target {target} has all the memory that it may have, and has had for long: its device \
                 hangs, or is far slower than what is asked of it; ask again later (nothing was changed)"
            )));
        };
        let _waits = self.waits(None);
        let large = match large {
            Some(large) => Some(self.large.with(large, weight).await),
            None => None,
        };
        Ok((large, self.all.with(of_one, weight).await))
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
        self.coming.borrow_mut().remove(&number);
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
