//! Who of one client may use which stripes: whoever changes some has them alone, whoever reads some may share them.
//! Those that came first go first, so nobody waits for ever, and what was asked for later is done later.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Those who have stripes, or wait for them.
#[derive(Default)]
pub(super) struct Order {
    entries: RefCell<BTreeMap<u64, Entry>>,
    next: Cell<u64>,
}

struct Entry {
    stripes: Range<u64>,
    alone: bool,
    waker: Option<Waker>,
}

impl Entry {
    fn excludes(&self, other: &Entry) -> bool {
        let meet = self.stripes.start < other.stripes.end && other.stripes.start < self.stripes.end;
        meet && (self.alone || other.alone)
    }
}

/// A place in the order, until it is dropped.
pub(super) struct Ticket {
    order: Rc<Order>,
    number: u64,
}

impl Order {
    /// Takes a place behind all that there are. The stripes are not to be used before [`Ticket::granted`].
    pub(super) fn enter(self: &Rc<Self>, stripes: Range<u64>, alone: bool) -> Ticket {
        let number = self.next.get();
        self.next.set(number + 1);
        self.entries.borrow_mut().insert(number, Entry { stripes, alone, waker: None });
        Ticket { order: self.clone(), number }
    }

    /// Waits until all that are there now are done, and keeps others away.
    pub(super) async fn everything(self: &Rc<Self>) -> Ticket {
        let ticket = self.enter(0..u64::MAX, true);
        ticket.granted().await;
        ticket
    }
}

impl Ticket {
    /// Waits until the stripes are free.
    pub(super) async fn granted(&self) {
        std::future::poll_fn(|context| {
            let mut entries = self.order.entries.borrow_mut();
            let Some(mine) = entries.get(&self.number) else { return Poll::Ready(()) };
            if !entries.range(..self.number).any(|(_, earlier)| earlier.excludes(mine)) {
                return Poll::Ready(());
            }
            if let Some(mine) = entries.get_mut(&self.number) {
                mine.waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut entries = self.order.entries.borrow_mut();
        let Some(mine) = entries.remove(&self.number) else { return };
        let waiting = entries.range_mut(self.number..).filter(|(_, later)| later.excludes(&mine));
        let wakers: Vec<Waker> = waiting.filter_map(|(_, later)| later.waker.take()).collect();
        drop(entries);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
