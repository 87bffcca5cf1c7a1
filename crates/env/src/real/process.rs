//! What this process costs, and what it talks to.

use forebay_model::Bytes;
use std::io::{IsTerminal, Write};
use std::mem::MaybeUninit;
use std::time::Duration;

/// One of the three standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standard {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// CPU time of all threads of this process, user and system.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The most memory that this process has had at once.
pub fn peak_memory() -> Bytes {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills in the structure, which is valid as zeros if it does not.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    Bytes::kib(usage.ru_maxrss as u64)
}

/// Keeps memory that was freed for what is allocated next, up to 128 MiB: answers of many MiB come and go by the
/// hundred a second, and the kernel would clear their pages for each (a quarter of what a large read costs).
pub(super) fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the calls set two numbers of the allocator, under its own lock.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, Bytes::mib(128).0 as libc::c_int);
        libc::mallopt(libc::M_MMAP_THRESHOLD, Bytes::mib(32).0 as libc::c_int);
    }
}

/// The number of this process.
pub fn id() -> u32 {
    std::process::id()
}

/// Does `work`, and if that panics, says so and ends the process at once. For work whose thread others wait for, and which
/// holds what must not be written to after a panic: they would wait for ever.
pub fn or_end<T>(what: &str, work: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        // Where it cannot be said, it still ends.
        let _ = writeln!(
            std::io::stderr(),
            "forebay: {what} panicked, as said above: that is a fault of Forebay. This process ends at once, so that nothing \
             is written by what cannot be trusted any more; what was acknowledged as durable is on the device, and the next \
             process goes on"
        );
        std::process::abort()
    })
}

/// Whether a process of this machine is stopped: by a signal, or by a debugger.
pub fn is_stopped(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// Whether people sit at the other end.
pub fn is_terminal(stream: Standard) -> bool {
    match stream {
        Standard::Input => std::io::stdin().is_terminal(),
        Standard::Output => std::io::stdout().is_terminal(),
        Standard::Error => std::io::stderr().is_terminal(),
    }
}

/// Columns of the terminal that standard output or standard error is.
pub fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stderr()))
        .ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

#[cfg(test)]
mod tests;
