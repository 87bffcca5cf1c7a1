//! How a file is read and written: bounds, each in bytes.

use forebay_model::{Bytes, Error, Result};
use std::time::Duration;

/// With whom an open file is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody else has the file open for writing, or rebuilds or scrubs it: writes are gathered, reads read ahead, and stripes
    /// need no locks. To the manager: nobody else is let in who writes it.
    Alone,
    /// Others may write it: a write is durable when it is answered, and all of it is done under locks.
    Beside,
    /// One or the other, as the manager says, and it says so again when others come or go. Only files that are opened by their
    /// names have a manager that does.
    Cached,
}

/// How one open file is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// With whom it is shared.
    pub sharing: Sharing,
    /// What is written and not yet done, and what is read and not yet taken: so much of each at most.
    pub window: Bytes,
    /// What is under way with one component.
    pub component_window: Bytes,
    /// What is gathered before it is written, at most.
    pub gather: Bytes,
    /// Requests of one component are of so much at most.
    pub request: Bytes,
    /// Rather than ask twice, so much that nobody wants is read between. Less than a unit of parity usually has: targets know readers that
    /// leave it out, and links would carry a tenth in vain.
    pub bridge: Bytes,
    /// How far one reader is read ahead of.
    pub ahead: Bytes,
    /// What is read ahead for all readers together.
    pub cache: Bytes,
    /// No component is slow that answers faster than this.
    pub hedge_after: Duration,
}

impl Options {
    /// Nobody else has it open to write.
    pub fn alone() -> Options {
        Options { sharing: Sharing::Alone, ..Options::default() }
    }

    /// Others may write it.
    pub fn beside() -> Options {
        Options { sharing: Sharing::Beside, ..Options::default() }
    }

    /// Whether what is gathered has room.
    pub(super) fn check(&self) -> Result<()> {
        match self.gather <= self.window && self.request > Bytes::ZERO {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "{} are to be gathered in a window of {}, in requests of {}; make the window as large as what is gathered, \
                 and requests of at least a byte",
                self.gather, self.window, self.request
            ))),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sharing: Sharing::Cached,
            window: Bytes::mib(64),
            component_window: Bytes::mib(4),
            gather: Bytes::mib(16),
            request: Bytes::mib(1),
            bridge: Bytes::kib(32),
            ahead: Bytes::mib(16),
            cache: Bytes::mib(64),
            hedge_after: Duration::from_millis(20),
        }
    }
}
