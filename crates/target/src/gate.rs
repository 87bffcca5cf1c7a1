//! What only one task at a time may do: the others wait for their turn.

use crate::promise::Signal;
use std::cell::Cell;

/// What one task at a time may do.
#[derive(Default)]
pub(crate) struct Gate {
    taken: Cell<bool>,
    left: Signal,
}

/// Whoever has this is the one; it lasts until it is dropped.
pub(crate) struct Turn<'a>(&'a Gate);

impl Gate {
    pub(crate) async fn take(&self) -> Turn<'_> {
        while self.taken.replace(true) {
            self.left.until(|| !self.taken.get()).await;
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.taken.set(false);
        self.0.left.notify();
    }
}
