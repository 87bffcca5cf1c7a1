//! What threads share and wait for changes of.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A value that one thread at a time has, and whose changes others wait for. A thread that panics while it has it leaves
/// it to the others as it is: so it must be whole whenever something may panic.
#[derive(Debug, Default)]
pub struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    /// Shares `value`.
    pub fn new(value: T) -> Watched<T> {
        Watched { value: Mutex::new(value), changed: Condvar::new() }
    }

    /// Waits for whoever has the value.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value, and tells all who wait.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.tell();
        result
    }

    /// Wakes all who wait for a change.
    pub fn tell(&self) {
        self.changed.notify_all();
    }

    /// Wakes one of those who wait for a change, where any of them will do.
    pub fn tell_one(&self) {
        self.changed.notify_one();
    }

    /// Lets others have the value until one of them tells of a change, or for no reason.
    pub fn wait<'a>(&self, value: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.changed.wait(value).unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others have the value as long as `waits` says so.
    pub fn wait_while<'a>(&self, value: MutexGuard<'a, T>, waits: impl FnMut(&mut T) -> bool) -> MutexGuard<'a, T> {
        self.changed.wait_while(value, waits).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Watched::wait_while`], and no longer than `limit`.
    pub fn wait_while_within<'a>(
        &self,
        value: MutexGuard<'a, T>,
        limit: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.changed.wait_timeout_while(value, limit, waits).unwrap_or_else(PoisonError::into_inner).0
    }
}
