//! Several requests that somebody waits for together.

use forebay_model::{Error, Result};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Counts requests that are under way, and keeps the first error.
#[derive(Default)]
pub(super) struct Batch {
    left: Cell<usize>,
    error: RefCell<Option<Error>>,
    waker: RefCell<Option<Waker>>,
}

impl Batch {
    /// One more is under way.
    pub(super) fn add(&self) {
        self.left.set(self.left.get() + 1);
    }

    /// One has ended.
    pub(super) fn end(&self, result: Result<()>) {
        if let Err(error) = result {
            self.error.borrow_mut().get_or_insert(error);
        }
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0
            && let Some(waker) = self.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }
}

/// Waits until all of a batch have ended.
pub(super) struct Ended(pub(super) Rc<Batch>);

impl Future for Ended {
    type Output = Result<()>;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.0.left.get() > 0 {
            *self.0.waker.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(self.0.error.borrow_mut().take().map_or(Ok(()), Err))
    }
}
