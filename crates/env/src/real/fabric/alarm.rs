//! What wakes the loop when a timer is due: a timer of the kernel among the sockets, since tokio's own are rounded to a
//! millisecond.
//!
//! It is set anew only when something is due before what it is set to: limits that are nearly always dropped before they
//! are reached cost no system call, and at worst a wake-up for nothing.

use crate::real::io_error;
use forebay_model::{Moment, Result};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const NANOS: u64 = 1_000_000_000;

/// The alarm of one loop.
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    set_to: Option<Moment>,
}

impl Alarm {
    /// One that is set to nothing. Only inside the runtime whose loop it wakes.
    pub(super) fn new() -> Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
            .map_err(|e| failed(&e.into()))?;
        // SAFETY: the descriptor is ours, and nobody closes or replaces it while the alarm has it.
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
        Ok(Alarm { timer: timer.map_err(|e| failed(&e.into()))?, set_to: None })
    }

    /// Has `context` woken at `due`, or somewhat before.
    pub(super) fn wait_for(&mut self, due: Option<Moment>, context: &mut Context<'_>) -> Result<()> {
        // What has gone off is no longer set; reading makes it silent.
        while let Poll::Ready(ready) = self.timer.poll_read_ready(context) {
            let mut ready = ready.map_err(|e| failed(&e))?;
            let read = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut [0; 8])?));
            if matches!(read, Ok(Ok(_))) {
                self.set_to = None;
            }
        }
        let Some(due) = due.filter(|due| self.set_to.is_none_or(|set_to| set_to > *due)) else { return Ok(()) };
        // Zero would switch it off; what is past goes off at once.
        let at = due.0.max(1);
        let at = Timespec { tv_sec: (at / NANOS) as i64, tv_nsec: (at % NANOS) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &once).map_err(|e| failed(&e.into()))?;
        self.set_to = Some(due);
        Ok(())
    }
}

fn failed(error: &io::Error) -> forebay_model::Error {
    io_error("setting", "the alarm of the loop", error)
}
