//! A value that one task gives and another awaits, on one thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Shared<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// The end that gives the value.
pub struct Giver<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// The end that awaits it.
pub struct Promise<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// A fresh promise.
pub fn promise<T>() -> (Giver<T>, Promise<T>) {
    let shared = Rc::new(RefCell::new(Shared { value: None, waker: None }));
    (Giver { shared: shared.clone() }, Promise { shared })
}

impl<T> Giver<T> {
    /// Whether somebody still awaits the value.
    pub fn is_awaited(&self) -> bool {
        Rc::strong_count(&self.shared) > 1
    }

    /// Keeps the promise.
    pub fn give(self, value: T) {
        let waker = {
            let mut shared = self.shared.borrow_mut();
            shared.value = Some(value);
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Promise<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut shared = self.shared.borrow_mut();
        match shared.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Wakes all who wait whenever something changed.
#[derive(Default)]
pub struct Signal {
    waiting: RefCell<Vec<Waker>>,
    changes: std::cell::Cell<u64>,
}

impl Signal {
    /// Something changed.
    pub fn notify(&self) {
        self.changes.set(self.changes.get() + 1);
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits for the next change after this call.
    pub fn changed(&self) -> impl Future<Output = ()> + '_ {
        let seen = self.changes.get();
        std::future::poll_fn(move |context| {
            if self.changes.get() != seen {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
    }

    /// Waits until `done` says so; it is asked now and after each change.
    pub async fn until(&self, mut done: impl FnMut() -> bool) {
        while !done() {
            self.changed().await;
        }
    }
}

/// A number that grows. Wakes those who wait for what it has reached, and nobody else.
#[derive(Default)]
pub struct Mark {
    at: std::cell::Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Vec<Waker>>>,
}

impl Mark {
    /// It is at `number` now, if that is more than before.
    pub fn to(&self, number: u64) {
        self.at.set(self.at.get().max(number));
        let reached = {
            let mut waiting = self.waiting.borrow_mut();
            let rest = number.checked_add(1).map(|next| waiting.split_off(&next)).unwrap_or_default();
            std::mem::replace(&mut *waiting, rest)
        };
        reached.into_values().flatten().for_each(Waker::wake);
    }

    /// Waits until it has reached `number`.
    pub fn reached(&self, number: u64) -> impl Future<Output = ()> + '_ {
        std::future::poll_fn(move |context| {
            if self.at.get() >= number {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            let same = waiting.entry(number).or_default();
            if !same.iter().any(|waker| waker.will_wake(context.waker())) {
                same.push(context.waker().clone());
            }
            Poll::Pending
        })
    }
}
