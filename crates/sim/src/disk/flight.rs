//! One I/O under way in a simulated disk, and the future that waits for it.

use super::faults::Fate;
use super::mechanics::Op;
use forebay_env::{Buffer, DeviceFuture};
use forebay_model::Result;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What the disk knows of it.
pub(super) struct InFlight {
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) fate: Fate,
    /// What a flush covers.
    pub(super) mark: u64,
    pub(super) buffer: Option<Buffer>,
    /// Whether a flush of it alone comes behind it, and it ends with that; or it is such a flush.
    pub(super) flushed: bool,
    pub(super) ticket: Rc<RefCell<Ticket>>,
}

/// Where an I/O leaves its result for its future.
#[derive(Default)]
pub(super) struct Ticket {
    pub(super) outcome: Option<(Option<Buffer>, Result<()>)>,
    pub(super) waker: Option<Waker>,
}

impl InFlight {
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

/// Ready once the I/O has ended.
pub(super) struct Pending {
    pub(super) ticket: Rc<RefCell<Ticket>>,
}

impl Future for Pending {
    type Output = (Option<Buffer>, Result<()>);
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut ticket = self.ticket.borrow_mut();
        match ticket.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                ticket.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

pub(super) fn with_buffer(pending: Pending) -> DeviceFuture<(Buffer, Result<()>)> {
    Box::pin(async move {
        let (buffer, result) = pending.await;
        (buffer.expect("an I/O gives its buffer back"), result)
    })
}
