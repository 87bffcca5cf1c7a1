//! Stopping in order: the first SIGINT or SIGTERM asks for it, the second ends the process at once.

use super::io_error;
use forebay_model::Result;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A request to stop, once made never withdrawn. Cheap to clone; shared by all threads.
#[derive(Clone)]
pub struct Stop {
    shared: Arc<Shared>,
}

struct Shared {
    flag: Arc<AtomicBool>,
    /// Readable once the stop is asked for, and never read.
    reader: PipeReader,
    writer: PipeWriter,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// The stop was asked for, whatever else is ready.
    Stopped,
    /// There is something to read, or the other side is gone.
    Input,
    /// The time is over.
    Late,
}

impl Stop {
    /// One that only [`Stop::set`] sets.
    pub fn new() -> Result<Stop> {
        let (reader, writer) = std::io::pipe().map_err(|e| io_error("making", "a pipe", &e))?;
        Ok(Stop { shared: Arc::new(Shared { flag: Arc::default(), reader, writer }) })
    }

    /// One that SIGINT and SIGTERM set too; the second of them ends the process with 128 + its number.
    pub fn on_signals() -> Result<Stop> {
        let stop = Stop::new()?;
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let flag = &stop.shared.flag;
            // The order matters: the flag that the first signal sets must not end the process by itself.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, flag.clone())
                .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
                .and_then(|_| signal_hook::low_level::pipe::register(signal, stop.shared.writer.try_clone()?))
                .map_err(|e| io_error("catching", format_args!("signal {signal}"), &e))?;
        }
        Ok(stop)
    }

    /// Asks for the stop.
    pub fn set(&self) {
        self.shared.flag.store(true, Ordering::SeqCst);
        // A pipe too full to take this byte is readable already.
        let _ = (&self.shared.writer).write(&[0]);
    }

    /// Whether the stop was asked for.
    pub fn is_set(&self) -> bool {
        self.shared.flag.load(Ordering::SeqCst)
    }

    /// Waits on this thread until the stop is asked for; with a limit, at most so long. True if it was.
    pub fn wait(&self, limit: Option<Duration>) -> Result<bool> {
        self.poll(None, limit).map(|ready| ready == Ready::Stopped)
    }

    /// Waits on this thread until `input` has something to read, the stop is asked for, or `limit` is over.
    pub fn wait_input(&self, input: impl AsFd, limit: Option<Duration>) -> Result<Ready> {
        self.poll(Some(input.as_fd()), limit)
    }

    fn poll(&self, input: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> Result<Ready> {
        let start = super::clock::now();
        loop {
            let left = limit.map(|limit| limit.saturating_sub(super::clock::now().since(start)));
            let left = left.map(|l| Timespec { tv_sec: l.as_secs() as i64, tv_nsec: i64::from(l.subsec_nanos()) });
            let reader = self.shared.reader.as_fd();
            // Without an input the second place repeats the first, so that one call serves both.
            let mut places = [
                PollFd::from_borrowed_fd(reader, PollFlags::IN),
                PollFd::from_borrowed_fd(input.unwrap_or(reader), PollFlags::IN),
            ];
            match rustix::event::poll(&mut places, left.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) if self.is_set() => return Ok(Ready::Stopped),
                Ok(0) => return Ok(Ready::Late),
                Ok(_) if input.is_some() && !places[1].revents().is_empty() => return Ok(Ready::Input),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(io_error("waiting for", "input", &e.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests;
