//! A device on io_uring with direct I/O.
//!
//! What is under way owns its buffer, here, never in the future that waits for it: dropping the future loses the
//! result and nothing else. I/O is gathered and handed to the kernel once per turn of the loop; what exceeds the
//! kernel's queue waits here in order. No thread is started for it. The thread that makes the device must drive it.

mod flight;
mod service;
mod slabs;

use super::open::{OpenMode, Opened, patiently};
use crate::buffer::Buffer;
use crate::device::{Device, DeviceFuture, Geometry};
use flight::{Action, Flight, Flushing, Reply, Step, Transfer};
use forebay_model::{Bytes, Error, Result};
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::event::EventfdFlags;
use rustix::fs::FlockOperation;
use service::{GRACE, deepest_ring, out_of_memory};
use slabs::Slabs;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub use slabs::Registration;

/// Marks the completion of the poll on the wake-up descriptor.
const WAKE: u64 = u64::MAX;

/// What is so large is handed over at once, and not with the rest of the turn: the device has it while the next is copied.
const LARGE: usize = 256 << 10;

/// How long a turn may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Not at all.
    No,
    /// Until something happens, or this long.
    For(Duration),
    /// Until something happens.
    Forever,
}

/// A block device or preallocated file, read and written with direct I/O through an io_uring of its own.
pub struct UringDevice {
    core: RefCell<Core>,
    geometry: Geometry,
    mode: OpenMode,
}

struct Core {
    ring: IoUring,
    /// Requests that the kernel has at most.
    depth: usize,
    opened: Opened,
    /// Whether the file is in the kernel's table at index 0.
    fixed_file: bool,
    slabs: Slabs,
    flights: Vec<Option<Flight>>,
    /// Unused places in `flights`.
    vacant: Vec<usize>,
    /// Places in `flights` that wait for a place in the kernel's queue.
    pending: VecDeque<usize>,
    /// Flights that the kernel has or gets with the next submission.
    submitted: usize,
    wake: Arc<OwnedFd>,
    wake_armed: bool,
    /// Space for a batch of completions.
    completions: Vec<(u64, i32, u32)>,
}

impl UringDevice {
    /// Takes `opened` for this thread.
    pub fn new(opened: Opened) -> Result<UringDevice> {
        let ring = patiently(GRACE, deepest_ring, out_of_memory).map_err(|e| {
            let remedy = match e.raw_os_error() {
                Some(libc::ENOSYS) => "it needs Linux 5.19 or newer",
                Some(libc::EPERM | libc::EACCES) => "allow it in kernel.io_uring_disabled and the container's profile",
                Some(libc::ENOMEM) => "raise the limit of locked memory (ulimit -l)",
                _ => "see the kernel's log",
            };
            Error::refused(format!("the kernel gives no io_uring for {}: {e}; {remedy}", opened.geometry.name))
        })?;
        UringDevice::with(opened, ring, true)
    }

    /// On `ring`; `registering` the file and the buffers with the kernel, as far as it takes them, or not.
    fn with(opened: Opened, ring: IoUring, registering: bool) -> Result<UringDevice> {
        let fixed_file = registering && ring.submitter().register_files(&[opened.file.as_raw_fd()]).is_ok();
        let slabs = if registering { Slabs::new(&ring.submitter()) } else { Slabs::unregistered("not asked for") };
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| super::io_error("making", "an event descriptor", &e.into()))?;
        let geometry = opened.geometry.clone();
        let mode = opened.mode;
        let depth = ring.params().sq_entries() as usize;
        let core = Core {
            ring,
            depth,
            opened,
            fixed_file,
            slabs,
            flights: Vec::new(),
            vacant: Vec::new(),
            pending: VecDeque::new(),
            submitted: 0,
            wake: Arc::new(wake),
            wake_armed: false,
            completions: Vec::with_capacity(depth),
        };
        Ok(UringDevice { core: RefCell::new(core), geometry, mode })
    }

    /// How much buffer memory is registered with the kernel, and why the rest is not.
    pub fn registered(&self) -> Registration {
        self.core.borrow().slabs.registration()
    }

    /// I/Os that have started and not ended.
    pub fn in_flight(&self) -> usize {
        let core = self.core.borrow();
        core.flights.len() - core.vacant.len()
    }

    /// Writing to this descriptor, on any thread, ends a waiting turn.
    pub(super) fn wake_descriptor(&self) -> Arc<OwnedFd> {
        self.core.borrow().wake.clone()
    }

    /// Hands what is pending to the kernel, waits as told for something to end, and delivers what has ended.
    pub(super) fn turn(&self, wait: Wait) -> Result<()> {
        let mut completions = {
            let mut core = self.core.borrow_mut();
            core.fill();
            core.enter(wait).map_err(|e| Error::device(format!("io_uring on {} failed: {e}", self.geometry.name)))?;
            core.collect()
        };
        for (token, result, flags) in completions.drain(..) {
            let ended = self.core.borrow_mut().complete(token, result, flags, &self.geometry);
            // Delivered without the borrow: whoever is woken or dropped by it may use the device.
            if let Some((flight, result)) = ended {
                flight.deliver(result);
            }
        }
        self.core.borrow_mut().completions = completions;
        Ok(())
    }

    /// Turns until nothing is in flight.
    pub(super) fn drain(&self) -> Result<()> {
        while self.in_flight() > 0 {
            self.turn(Wait::Forever)?;
        }
        Ok(())
    }

    fn check(&self, action: Action, offset: Bytes, length: usize) -> Result<()> {
        if action != Action::Read && self.mode != OpenMode::Exclusive {
            return Err(Error::usage(format!("{} was opened for reading only", self.geometry.name)));
        }
        self.geometry.check(action.name(), offset, length)
    }

    fn transfer(&self, action: Action, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        if let Err(error) = self.check(action, offset, buffer.len()) {
            return Box::pin(std::future::ready((buffer, Err(error))));
        }
        assert!(action != Action::Read || buffer.is_own(), "nothing is read into a part of a buffer that others see");
        let large = buffer.len() >= LARGE;
        let mut core = self.core.borrow_mut();
        let reply = core.start(action, offset.0, Some(buffer));
        if large {
            core.fill();
            // Whatever is wrong is seen at the end of the turn.
            let _ = core.enter(Wait::No);
        }
        Box::pin(Transfer { reply })
    }
}

impl Device for UringDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        self.transfer(Action::Read, offset, buffer)
    }

    fn write(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        self.transfer(Action::Write, offset, buffer)
    }

    fn write_durable(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        self.transfer(Action::WriteDurable, offset, buffer)
    }

    fn flush(&self) -> DeviceFuture<Result<()>> {
        let reply = self.core.borrow_mut().start(Action::Flush, 0, None);
        Box::pin(Flushing { reply })
    }
}

impl Drop for UringDevice {
    fn drop(&mut self) {
        let drained = self.drain();
        let core = self.core.get_mut();
        if drained.is_err() {
            // The kernel may still use these buffers; losing the memory is the only safe thing left. And it may still write: the lock
            // stays with the open file, which the kernel has until the last of it has ended.
            core.flights.drain(..).for_each(std::mem::forget);
            return;
        }
        // The kernel takes a ring apart at its leisure and would keep the file and its lock until then.
        let _ = core.ring.submitter().unregister_files();
        let _ = rustix::fs::flock(&core.opened.file, FlockOperation::Unlock);
    }
}

impl Core {
    fn start(&mut self, action: Action, offset: u64, buffer: Option<Buffer>) -> Rc<RefCell<Reply>> {
        let slot = buffer.as_ref().and_then(|buffer| self.slabs.slot(&self.ring.submitter(), buffer));
        let reply = Rc::new(RefCell::new(Reply::Waiting(None)));
        let flight = Flight { action, offset, buffer, slot, done: 0, attempts: 0, reply: reply.clone() };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.flights[index] = Some(flight);
                index
            }
            None => {
                self.flights.push(Some(flight));
                self.flights.len() - 1
            }
        };
        self.pending.push_back(index);
        reply
    }

    /// Moves pending flights into the submission queue while there is room.
    fn fill(&mut self) {
        let Core { ring, depth, opened, fixed_file, flights, pending, submitted, wake, wake_armed, .. } = self;
        let mut queue = ring.submission();
        if !*wake_armed {
            let poll = opcode::PollAdd::new(types::Fd(wake.as_raw_fd()), libc::POLLIN as u32).multi(true);
            // SAFETY: the descriptor lives as long as the ring, and the request refers to no memory.
            *wake_armed = unsafe { queue.push(&poll.build().user_data(WAKE)) }.is_ok();
        }
        while *submitted < *depth
            && let Some(index) = pending.front().copied()
        {
            let flight = flights[index].as_mut().expect("a pending flight is in the table");
            let entry = flight.entry(opened.file.as_raw_fd(), *fixed_file).user_data(index as u64);
            // SAFETY: the flight owns the buffer until its completion has been seen, and no future can take it.
            if unsafe { queue.push(&entry) }.is_err() {
                break;
            }
            pending.pop_front();
            *submitted += 1;
        }
    }

    /// One call into the kernel, or none if there is nothing to tell or ask it.
    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let (submitter, mut submission, mut completion) = self.ring.split();
        submission.sync();
        completion.sync();
        let nothing_to_tell = submission.is_empty() && !submission.taskrun() && !submission.cq_overflow();
        // What has ended already is delivered rather than waited upon.
        let wait = if completion.is_empty() { wait } else { Wait::No };
        let entered = match wait {
            Wait::No if nothing_to_tell => return Ok(()),
            Wait::No => submitter.submit(),
            Wait::Forever => submitter.submit_and_wait(1),
            Wait::For(span) => {
                let span = types::Timespec::from(span);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&span))
            }
        };
        match entered {
            Ok(_) => Ok(()),
            // Time is up, a signal came, or the kernel wants its completions collected or is short of memory for a
            // moment: what it did not take stays in the queue for the next turn.
            Err(e) => match e.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(e),
            },
        }
    }

    fn collect(&mut self) -> Vec<(u64, i32, u32)> {
        let mut completions = std::mem::take(&mut self.completions);
        completions.extend(self.ring.completion().map(|c| (c.user_data(), c.result(), c.flags())));
        completions
    }

    /// Books one completion; gives what to deliver if that I/O has ended.
    fn complete(&mut self, token: u64, result: i32, flags: u32, geometry: &Geometry) -> Option<(Flight, Result<()>)> {
        if token == WAKE {
            self.wake_armed = cqueue::more(flags);
            return None;
        }
        self.submitted -= 1;
        let index = token as usize;
        let flight = self.flights.get_mut(index)?.as_mut()?;
        match flight.advance(result, geometry) {
            Step::Again => {
                self.pending.push_front(index);
                None
            }
            Step::Ended(result) => {
                let flight = self.flights[index].take()?;
                self.vacant.push(index);
                Some((flight, result))
            }
        }
    }
}

#[cfg(test)]
mod tests;
