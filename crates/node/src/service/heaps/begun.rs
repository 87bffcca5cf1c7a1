//! What came of a record that is put in parts, of which no more is held than may be of all such.

use forebay_model::heap::LARGEST_RECORD;
use forebay_model::{Bytes, Error, Result};
use std::cell::Cell;
use std::rc::Rc;

/// The most bytes of records that are put in parts and have not come to their end, of all connections.
const MOST_BEGUN: usize = 512 << 20;

/// What came of a record that is put in parts.
pub(super) struct Begun {
    bytes: Vec<u8>,
    /// Of all such records.
    all: Rc<Cell<usize>>,
}

impl Begun {
    pub(super) fn new(all: &Rc<Cell<usize>>) -> Begun {
        Begun { bytes: Vec::new(), all: all.clone() }
    }

    /// Nothing yet of the record behind this one.
    pub(super) fn next(&self) -> Begun {
        Begun::new(&self.all)
    }

    /// What came.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn add(&mut self, part: &[u8]) -> Result<()> {
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
