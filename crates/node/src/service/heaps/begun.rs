//! What came of a record that is put in parts, of which no more is held than may be of all such.
//!
//! Who stops in the middle of one keeps that room from others for a while only: then what came is given up where they need it, and the
//! transaction cannot be committed without it.

use forebay_model::heap::LARGEST_RECORD;
use forebay_model::{Bytes, Error, Moment, Result};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The most bytes of records that are put in parts and have not come to their end, of all connections.
const MOST_BEGUN: usize = 512 << 20;
/// So long after its last part came what there is of a record keeps its room, whoever needs it.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What came of a record that is put in parts.
pub(super) struct Begun {
    bytes: Vec<u8>,
    /// When the last part came.
    grown: Moment,
    is_given_up: bool,
    /// Of all such records.
    all: Rc<Cell<usize>>,
}

impl Begun {
    pub(super) fn new(all: &Rc<Cell<usize>>) -> Begun {
        Begun { bytes: Vec::new(), grown: Moment(0), is_given_up: false, all: all.clone() }
    }

    /// Nothing yet of the record behind this one.
    pub(super) fn next(&self) -> Begun {
        Begun::new(&self.all)
    }

    /// What came.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether nothing came that is not put, also of what was given up.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.is_given_up
    }

    /// Says so if what came was given up: nothing goes on then before an abort.
    pub(super) fn check(&self) -> Result<()> {
        if !self.is_given_up {
            return Ok(());
        }
        Err(Error::busy(format!(
            "a record was begun of which nothing more came for {} s, and was given up since others needed its room; abort, and do \
             it again",
            PATIENCE.as_secs()
        )))
    }

    /// Gives up what came if nothing more did for a while.
    pub(super) fn give_up(&mut self, now: Moment) {
        if self.bytes.is_empty() || now.since(self.grown) < PATIENCE {
            return;
        }
        self.all.set(self.all.get() - self.bytes.len());
        (self.bytes, self.is_given_up) = (Vec::new(), true);
    }

    pub(super) fn add(&mut self, part: &[u8], now: Moment) -> Result<()> {
        if self.bytes.len() + part.len() > LARGEST_RECORD {
            return Err(Error::usage(format!(
                "a record has {LARGEST_RECORD} bytes at most; cut it into several, or keep it as an object (nothing was \
                 changed)"
            )));
        }
        if self.all.get() + part.len() > MOST_BEGUN {
            return Err(Error::busy(format!(
                "large records of others have {} already while they are put; try again (nothing was changed)",
                Bytes(self.all.get() as u64)
            )));
        }
        self.bytes.extend_from_slice(part);
        self.all.set(self.all.get() + part.len());
        self.grown = now;
        Ok(())
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.all.set(self.all.get() - self.bytes.len());
    }
}

#[cfg(test)]
mod tests;
