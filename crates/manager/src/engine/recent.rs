//! A snapshot that knows again what was read from it lately: the directories at the top of a tree are on the way to
//! everything, and a search of an engine costs ten times what it takes to find them here.
//!
//! Always: it answers as the snapshot below it does, which never changes; it keeps [`MOST`] values at most.

use super::{Pair, Snapshot};
use forebay_model::Result;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The most values that are kept; then all are dropped, since those that matter are soon back.
const MOST: usize = 4096;
/// The largest value that is kept.
const LARGEST: usize = 512;

/// A snapshot and what was read from it lately.
pub(crate) struct Recent {
    below: Box<dyn Snapshot>,
    known: RefCell<BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
}

impl Recent {
    /// On a snapshot, with nothing known yet.
    pub(crate) fn new(below: Box<dyn Snapshot>) -> Recent {
        Recent { below, known: RefCell::new(BTreeMap::new()) }
    }
}

impl Snapshot for Recent {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(value) = self.known.borrow().get(key) {
            return Ok(value.clone());
        }
        let value = self.below.get(key)?;
        if value.as_ref().is_none_or(|value| value.len() <= LARGEST) {
            let mut known = self.known.borrow_mut();
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(key.to_vec(), value.clone());
        }
        Ok(value)
    }

    fn scan(&self, from: &[u8], to: &[u8], most: usize) -> Result<Vec<Pair>> {
        self.below.scan(from, to, most)
    }
}

#[cfg(test)]
mod tests;
