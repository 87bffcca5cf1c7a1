//! Turns: of tasks on one thread that want the same, each has it alone, in the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Something that one task at a time has.
#[derive(Default)]
pub(crate) struct Turns {
    next: Cell<u64>,
    /// Turns that are over.
    over: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
}

/// A place in the row that is not waited for yet. It has to be: those behind it wait for it.
#[must_use]
pub(crate) struct Ticket(u64);

/// A turn; it lasts until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Turns {
    /// The next place in the row.
    pub(crate) fn ticket(&self) -> Ticket {
        let number = self.next.get();
        self.next.set(number + 1);
        Ticket(number)
    }

    /// Waits until it is the turn of this place.
    pub(crate) async fn wait(&self, Ticket(number): Ticket) -> Turn<'_> {
        let turn = poll_fn(|context| {
            if self.over.get() == number {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().insert(number, context.waker().clone());
            Poll::Pending
        });
        turn.await;
        Turn { turns: self, number }
    }

    /// Waits for a turn behind all that were asked for.
    pub(crate) async fn take(&self) -> Turn<'_> {
        self.wait(self.ticket()).await
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let next = self.number + 1;
        self.turns.over.set(next);
        let waiting = self.turns.waiting.borrow_mut().remove(&next);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;
