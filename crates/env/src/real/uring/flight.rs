//! One I/O under way: what it asks of the kernel, what the answer means, and the future that waits for it.

use crate::buffer::Buffer;
use crate::device::Geometry;
use forebay_model::{Error, Result};
use io_uring::{opcode, squeue, types};
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The most bytes in one request; longer I/O is continued. Below the kernel's own limit of 2 GiB.
const LONGEST: usize = 1 << 30;

/// How often a request that the kernel could not take is tried again before it counts as failed.
const ATTEMPTS: u8 = 100;

/// What is asked of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    Write,
    /// A write that has ended when it is durable: the kernel flushes behind it, or tells the device to.
    WriteDurable,
    Flush,
}

/// One I/O under way.
pub(super) struct Flight {
    pub(super) action: Action,
    pub(super) offset: u64,
    pub(super) buffer: Option<Buffer>,
    pub(super) slot: Option<u16>,
    /// Bytes that have been moved.
    pub(super) done: usize,
    pub(super) attempts: u8,
    pub(super) reply: Rc<RefCell<Reply>>,
}

/// Where the result of an I/O meets the future that waits for it.
pub(super) enum Reply {
    Waiting(Option<Waker>),
    Done(Option<Buffer>, Result<()>),
    Taken,
}

/// What follows from an answer of the kernel.
pub(super) enum Step {
    Again,
    Ended(Result<()>),
}

impl Flight {
    pub(super) fn entry(&mut self, file: i32, fixed_file: bool) -> squeue::Entry {
        let offset = self.offset + self.done as u64;
        let (address, length) = match &self.buffer {
            // The rest of the buffer begins where the last short transfer ended.
            Some(buffer) => (buffer.address().wrapping_add(self.done), (buffer.len() - self.done).min(LONGEST) as u32),
            None => (std::ptr::null_mut(), 0),
        };
        let flags = if self.action == Action::WriteDurable { libc::RWF_DSYNC } else { 0 };
        macro_rules! entry {
            ($file:expr) => {
                match (self.action, self.slot) {
                    (Action::Read, Some(slot)) => {
                        opcode::ReadFixed::new($file, address, length, slot).offset(offset).build()
                    }
                    (Action::Read, None) => opcode::Read::new($file, address, length).offset(offset).build(),
                    (Action::Write | Action::WriteDurable, Some(slot)) => {
                        opcode::WriteFixed::new($file, address, length, slot).offset(offset).rw_flags(flags).build()
                    }
                    (Action::Write | Action::WriteDurable, None) => {
                        opcode::Write::new($file, address, length).offset(offset).rw_flags(flags).build()
                    }
                    (Action::Flush, _) => opcode::Fsync::new($file).flags(types::FsyncFlags::DATASYNC).build(),
                }
            };
        }
        if fixed_file { entry!(types::Fixed(0)) } else { entry!(types::Fd(file)) }
    }

    /// Leaves the result for whoever waits; if nobody does, the buffer goes back to its slab.
    pub(super) fn deliver(self, result: Result<()>) {
        let before = self.reply.replace(Reply::Done(self.buffer, result));
        if let Reply::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Takes in the kernel's answer.
    pub(super) fn advance(&mut self, result: i32, geometry: &Geometry) -> Step {
        let length = self.buffer.as_ref().map_or(0, |b| b.len());
        let what = || match self.action {
            Action::Flush => format!("flushing {}", geometry.name),
            _ => format!("{} {length} bytes at offset {} of {}", self.action.name(), self.offset, geometry.name),
        };
        if result < 0 {
            let error = io::Error::from_raw_os_error(-result);
            // What had no memory for itself was not begun; but of what a flush had none for, the kernel says nothing the next time.
            let may_be_again = match -result {
                libc::EAGAIN | libc::EINTR => true,
                libc::ENOMEM => matches!(self.action, Action::Read | Action::Write),
                _ => false,
            };
            if may_be_again && self.attempts < ATTEMPTS {
                self.attempts += 1;
                return Step::Again;
            }
            return Step::Ended(Err(Error::device(format!("{} failed: {error}", what()))));
        }
        if self.action == Action::Flush {
            return Step::Ended(Ok(()));
        }
        let moved = result as usize;
        let done = self.done + moved;
        if done == length {
            return Step::Ended(Ok(()));
        }
        if moved == 0 || done > length || !moved.is_multiple_of(geometry.block.0 as usize) {
            return Step::Ended(Err(Error::device(format!("{} stopped after {done} bytes", what()))));
        }
        self.done = done;
        Step::Again
    }
}

impl Action {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Action::Read => "reading",
            Action::Write | Action::WriteDurable => "writing",
            Action::Flush => "flushing",
        }
    }
}

/// Ready once the I/O has ended.
fn poll_reply(reply: &RefCell<Reply>, context: &mut Context<'_>) -> Poll<(Option<Buffer>, Result<()>)> {
    let mut reply = reply.borrow_mut();
    match std::mem::replace(&mut *reply, Reply::Taken) {
        Reply::Done(buffer, result) => Poll::Ready((buffer, result)),
        Reply::Waiting(_) => {
            *reply = Reply::Waiting(Some(context.waker().clone()));
            Poll::Pending
        }
        Reply::Taken => panic!("an I/O was polled after it had given its result"),
    }
}

/// A read or a write.
pub(super) struct Transfer {
    pub(super) reply: Rc<RefCell<Reply>>,
}

impl Future for Transfer {
    type Output = (Buffer, Result<()>);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        poll_reply(&self.reply, context)
            .map(|(buffer, result)| (buffer.expect("a transfer gives its buffer back"), result))
    }
}

/// A flush.
pub(super) struct Flushing {
    pub(super) reply: Rc<RefCell<Reply>>,
}

impl Future for Flushing {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        poll_reply(&self.reply, context).map(|(_, result)| result)
    }
}
