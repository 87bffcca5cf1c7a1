//! The places that connections have at a node, and who makes room when all are taken.
//!
//! A connection that has not shown a capability that counts is a *stranger*. Always: no more connections have a place than may,
//! and no more strangers of one machine than may. If all places are taken, the stranger that is there longest makes room; of a
//! machine with as many strangers as it may have, the longest of its own. Whoever has shown a capability keeps its place;
//! only where there are no strangers, the one that is there longest makes room of which nothing counts any more and that holds nothing.

use super::cuts::Cuts;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The places of a node.
pub(super) struct Places {
    most: usize,
    /// Strangers of one machine.
    most_strangers: usize,
    open: RefCell<Open>,
    cuts: Rc<Cuts>,
}

#[derive(Default)]
struct Open {
    /// In the order in which they came.
    connections: BTreeMap<u64, Rc<Seat>>,
    /// Those of them that are strangers, by machine.
    strangers: BTreeMap<String, BTreeSet<u64>>,
    next: u64,
}

/// Whether a connection that was known may go.
type MayGo = Box<dyn Fn() -> bool>;

#[derive(Default)]
struct Seat {
    is_lost: Cell<bool>,
    may_go: RefCell<Option<MayGo>>,
    waiting: RefCell<Option<Waker>>,
}

/// The place of a connection among the others, until it is dropped or lost.
pub(super) struct Place {
    number: u64,
    machine: String,
    is_stranger: Cell<bool>,
    seat: Rc<Seat>,
    places: Rc<Places>,
}

impl Places {
    pub(super) fn new(most: usize, most_strangers: usize, cuts: Rc<Cuts>) -> Rc<Places> {
        Rc::new(Places { most, most_strangers: most_strangers.max(1), open: RefCell::default(), cuts })
    }

    /// Places that are taken.
    pub(super) fn taken(&self) -> usize {
        self.open.borrow().connections.len()
    }

    /// A place for a connection from `machine`, which is a stranger; none if nobody is there who makes room.
    pub(super) fn join(self: &Rc<Self>, machine: &str) -> Option<Place> {
        let mut open = self.open.borrow_mut();
        let own = open.strangers.get(machine).filter(|own| own.len() >= self.most_strangers);
        let leaves = match own.and_then(|own| own.first().copied()) {
            Some(own) => Some((Some(machine.to_string()), own)),
            None if open.connections.len() < self.most => None,
            None => match open.longest_stranger() {
                Some((of, stranger)) => Some((Some(of), stranger)),
                None => Some((None, open.longest_that_may_go()?)),
            },
        };
        if let Some((stranger_of, number)) = leaves {
            if let Some(machine) = stranger_of {
                open.no_stranger(&machine, number);
            }
            if let Some(seat) = open.connections.remove(&number) {
                seat.lose();
                self.cuts.stranger();
            }
        }
        let (number, seat) = (open.next, Rc::<Seat>::default());
        open.next += 1;
        open.connections.insert(number, seat.clone());
        open.strangers.entry(machine.to_string()).or_default().insert(number);
        let (machine, is_stranger) = (machine.to_string(), Cell::new(true));
        Some(Place { number, machine, is_stranger, seat, places: self.clone() })
    }
}

impl Open {
    fn longest_stranger(&self) -> Option<(String, u64)> {
        let firsts = self.strangers.iter().filter_map(|(of, all)| Some((of, *all.first()?)));
        firsts.min_by_key(|(_, number)| *number).map(|(of, number)| (of.clone(), number))
    }

    fn longest_that_may_go(&self) -> Option<u64> {
        self.connections.iter().find(|(_, seat)| seat.may_go()).map(|(number, _)| *number)
    }

    fn no_stranger(&mut self, machine: &str, number: u64) {
        if let Some(all) = self.strangers.get_mut(machine) {
            all.remove(&number);
            if all.is_empty() {
                self.strangers.remove(machine);
            }
        }
    }
}

impl Seat {
    fn may_go(&self) -> bool {
        self.may_go.borrow().as_ref().is_some_and(|may_go| may_go())
    }

    fn lose(&self) {
        self.is_lost.set(true);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

impl Place {
    /// The connection has shown a capability that counts.
    pub(super) fn known(&self) {
        // Whoever has made room already is not there any more.
        if self.is_stranger.replace(false) {
            self.places.open.borrow_mut().no_stranger(&self.machine, self.number);
        }
    }

    /// Whether the connection may go, although it has shown a capability that counted, when somebody needs its place.
    pub(super) fn may_go_when(&self, may_go: impl Fn() -> bool + 'static) {
        self.seat.may_go.replace(Some(Box::new(may_go)));
    }

    /// Whether the connection has shown nothing yet that counts.
    pub(super) fn is_stranger(&self) -> bool {
        self.is_stranger.get()
    }

    /// Waits until the connection has to make room. To be awaited by one task.
    pub(super) async fn lost(&self) {
        poll_fn(|context| {
            if self.seat.is_lost.get() {
                return Poll::Ready(());
            }
            self.seat.waiting.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.places.open.borrow_mut();
        open.connections.remove(&self.number);
        open.no_stranger(&self.machine, self.number);
    }
}

#[cfg(test)]
mod tests;
