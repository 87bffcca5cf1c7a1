//! The numbers under which a client asks for changes.
//!
//! Always: a number is given only while all that are asked for are lower than it by less than [`REMEMBERED`]. The manager
//! would take what is lower by more for something that it has forgotten, however often it was asked for before.

use forebay_wire::control::REMEMBERED;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Gives numbers, each once.
pub(super) struct Numbers {
    given: Mutex<Given>,
    /// Told when one that was given is not asked for any more.
    returned: Notify,
}

struct Given {
    next: u64,
    /// Those that are asked for.
    under_way: BTreeSet<u64>,
}

/// A number, for as long as it is asked for.
pub(super) struct Number<'a> {
    sequence: u64,
    of: &'a Numbers,
}

impl Numbers {
    /// The first is `next`.
    pub(super) fn from(next: u64) -> Numbers {
        Numbers { given: Mutex::new(Given { next, under_way: BTreeSet::new() }), returned: Notify::new() }
    }

    /// The next one, when the oldest that is asked for is near enough.
    pub(super) async fn next(&self) -> Number<'_> {
        loop {
            // Made before it is looked, so that nothing is missed that happens in between.
            let returned = self.returned.notified();
            if let Some(sequence) = self.lock().take() {
                return Number { sequence, of: self };
            }
            returned.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Given {
    fn take(&mut self) -> Option<u64> {
        let sequence = self.next;
        let oldest = self.under_way.first().copied().unwrap_or(sequence);
        if sequence - oldest >= REMEMBERED {
            return None;
        }
        self.next += 1;
        self.under_way.insert(sequence);
        Some(sequence)
    }
}

impl Number<'_> {
    /// The number.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        self.of.lock().under_way.remove(&self.sequence);
        self.of.returned.notify_waiters();
    }
}
