//! One line on a terminal that is written over and over, for what takes more than a second.

use forebay_env::real::clock;
use forebay_env::real::file::{self, File};
use forebay_env::real::process::{self, Standard};
use forebay_model::{Bytes, Moment};
use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

/// How often the line changes at most.
const PERIOD: Duration = Duration::from_millis(500);

/// The line. On what is no terminal it writes nothing.
pub struct Live {
    terminal: Option<File>,
    shown: bool,
    due: Moment,
}

impl Live {
    /// On standard error, if that is a terminal and `wanted`.
    pub fn new(wanted: bool) -> Live {
        let terminal = if wanted && process::is_terminal(Standard::Error) { file::stderr().ok() } else { None };
        Live { terminal, shown: false, due: clock::now() + PERIOD }
    }

    /// Whether it is time for another line; at most once a period.
    pub fn is_due(&mut self) -> bool {
        if self.terminal.is_none() {
            return false;
        }
        let now = clock::now();
        if now < self.due {
            return false;
        }
        self.due = now + PERIOD;
        true
    }

    /// Shows `text` in place of what was shown.
    pub fn show(&mut self, text: &str) {
        let Some(terminal) = &mut self.terminal else { return };
        let width = usize::from(process::terminal_width().unwrap_or(120)).saturating_sub(1);
        let cut: String = text.chars().take(width).collect();
        // A terminal that is gone is no reason to stop what it showed.
        let _ = terminal.write_all(format!("\r\x1b[K{cut}").as_bytes());
        self.shown = true;
    }

    /// Shows how much of `total` is done, if it is time to.
    pub fn progress(&mut self, doing: impl Display, done: Bytes, total: Bytes) {
        if self.is_due() {
            self.show(&format!("{doing} {} {done} of {total}", bar(done.0, total.0, 30)));
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if let Some(terminal) = &mut self.terminal
            && self.shown
        {
            let _ = terminal.write_all(b"\r\x1b[K");
            self.shown = false;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A bar of `width` characters for `done` of `total`.
pub fn bar(done: u64, total: u64, width: usize) -> String {
    let share = (done as f64 / total.max(1) as f64).clamp(0.0, 1.0);
    let full = (share * width as f64).round() as usize;
    format!("[{}{}] {:>3.0} %", "#".repeat(full), ".".repeat(width - full), share * 100.0)
}

#[cfg(test)]
mod tests;
