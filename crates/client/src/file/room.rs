//! Room for so many bytes that are under way: who comes first has it first, and whoever needs more than there is at all has
//! it alone.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Room for bytes.
pub(super) struct Room {
    most: u64,
    used: Cell<u64>,
    next: Cell<u64>,
    waiting: RefCell<VecDeque<Waiting>>,
}

struct Waiting {
    number: u64,
    bytes: u64,
    waker: Option<Waker>,
}

/// Bytes that have room, until it is dropped.
pub(super) struct Held {
    room: Rc<Room>,
    bytes: u64,
}

impl Room {
    pub(super) fn of(most: u64) -> Rc<Room> {
        Rc::new(Room { most, used: Cell::new(0), next: Cell::new(0), waiting: RefCell::default() })
    }

    /// Whether `bytes` have room at once.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.waiting.borrow().is_empty() && self.has_room(bytes)
    }

    /// Whether somebody waits for room of which nothing is used but `idle`.
    pub(super) fn is_stuck(&self, idle: u64) -> bool {
        let waiting = self.waiting.borrow();
        self.used.get() == idle && waiting.front().is_some_and(|first| !self.has_room(first.bytes))
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.used.get() == 0 || self.used.get().saturating_add(bytes) <= self.most
    }

    /// Waits for room.
    pub(super) async fn hold(self: &Rc<Self>, bytes: u64) -> Held {
        let place = Place { room: self.clone(), number: self.next.get() };
        self.next.set(place.number + 1);
        self.waiting.borrow_mut().push_back(Waiting { number: place.number, bytes, waker: None });
        std::future::poll_fn(|context| {
            let mut waiting = self.waiting.borrow_mut();
            if waiting.front().is_some_and(|first| first.number == place.number) && self.has_room(bytes) {
                return Poll::Ready(());
            }
            if let Some(mine) = waiting.iter_mut().find(|one| one.number == place.number) {
                mine.waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
        self.used.set(self.used.get() + bytes);
        Held { room: self.clone(), bytes }
    }

    fn wake_first(&self) {
        let waker = self.waiting.borrow_mut().front_mut().and_then(|first| first.waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Held {
    /// How many.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes room for some of its bytes apart.
    pub(super) fn split(&mut self, bytes: u64) -> Held {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Held { room: self.room.clone(), bytes }
    }

    /// Makes one of two that hold room in the same place.
    pub(super) fn join(&mut self, mut other: Held) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

/// A place in the queue.
struct Place {
    room: Rc<Room>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.waiting.borrow_mut().retain(|one| one.number != self.number);
        self.room.wake_first();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.used.set(self.room.used.get() - self.bytes);
        self.room.wake_first();
    }
}

#[cfg(test)]
mod tests;
