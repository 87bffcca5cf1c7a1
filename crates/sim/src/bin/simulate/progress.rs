//! How far it is: one line on a terminal, nothing elsewhere.

use std::io::{IsTerminal, Write};

/// Seeds that are to come.
pub(crate) struct Progress {
    count: u64,
    shown: bool,
}

impl Progress {
    /// Before the first of so many seeds. Whoever panics from now on has a line of its own.
    pub(crate) fn new(count: u64) -> Progress {
        let shown = std::io::stderr().is_terminal();
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |said| {
            clear(shown);
            usual(said);
        }));
        Progress { count, shown }
    }

    /// So many seeds have ended, and so many of them failed.
    pub(crate) fn tell(&self, ended: u64, failed: usize) {
        if self.shown {
            let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
            eprint!("\r{ended} of {} seeds{failed}\x1b[K", self.count);
            // Who watches sees the next one.
            drop(std::io::stderr().flush());
        }
    }

    /// The line is gone.
    pub(crate) fn clear(&self) {
        clear(self.shown);
    }
}

fn clear(shown: bool) {
    if shown {
        eprint!("\r\x1b[K");
    }
}
