//! Engines that keep values under keys, used as stores of pages: what is put and freed waits in memory, and goes to the
//! engine at a commit, in the order of keys; earlier if it has become too much for the memory that an engine was given.
//! A page that is freed before that never reaches it. So they have what a heap has in its write cache.

pub mod fjall;
pub mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;

use forebay_btree::PageStore;
use forebay_model::{Error, Kind, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::rc::Rc;

/// What changes under each key: a value, or that it has none any more.
pub type Changes = BTreeMap<u64, Option<Vec<u8>>>;

/// An engine.
pub trait Engine {
    /// The value of a key, in what was applied.
    fn get(&self, key: u64) -> Result<Option<Vec<u8>>>;

    /// Applies changes, before a commit: they need not be durable.
    fn apply(&self, changes: &Changes) -> Result<()>;

    /// Applies changes and sets the root, and makes durable all that was applied.
    fn commit(&self, changes: &Changes, root: Option<u64>) -> Result<()>;
}

/// An engine as a store of pages.
pub struct Buffered<E>(Rc<Inside<E>>);

struct Inside<E> {
    engine: E,
    /// Bytes that wait at most.
    most: usize,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    changes: Changes,
    bytes: usize,
    next: u64,
    root: Option<u64>,
}

impl<E> Clone for Buffered<E> {
    fn clone(&self) -> Buffered<E> {
        Buffered(self.0.clone())
    }
}

impl<E: Engine> Buffered<E> {
    /// A new engine, beside which `most` bytes may wait.
    pub fn new(engine: E, most: usize) -> Buffered<E> {
        Buffered(Rc::new(Inside { engine, most, state: RefCell::default() }))
    }
}

impl<E: Engine> PageStore for Buffered<E> {
    async fn put(&self, bytes: &[u8]) -> Result<u64> {
        let mut state = self.0.state.borrow_mut();
        state.next += 1;
        let id = state.next;
        state.bytes += bytes.len();
        state.changes.insert(id, Some(bytes.to_vec()));
        if state.bytes > self.0.most {
            self.0.engine.apply(&state.changes)?;
            state.changes.clear();
            state.bytes = 0;
        }
        Ok(id)
    }

    async fn get(&self, id: u64) -> Result<Vec<u8>> {
        let found = match self.0.state.borrow().changes.get(&id) {
            Some(change) => change.clone(),
            None => self.0.engine.get(id)?,
        };
        found.ok_or_else(|| Error::missing(format!("there is no page {id}")))
    }

    async fn free(&self, id: u64) -> Result<()> {
        let mut state = self.0.state.borrow_mut();
        match state.changes.remove(&id) {
            Some(Some(bytes)) => state.bytes -= bytes.len(),
            _ => {
                state.changes.insert(id, None);
            }
        }
        Ok(())
    }

    async fn commit(&self, root: Option<u64>) -> Result<()> {
        let mut state = self.0.state.borrow_mut();
        self.0.engine.commit(&state.changes, root)?;
        state.changes.clear();
        state.bytes = 0;
        state.root = root;
        Ok(())
    }

    async fn abort(&self) -> Result<()> {
        Err(Error::usage("what was applied cannot be undone in every engine, and no load here asks for it"))
    }

    fn root(&self) -> Option<u64> {
        self.0.state.borrow().root
    }
}

/// What an engine says, as an error of ours.
pub fn failed(engine: &str) -> impl Fn(&dyn Display) -> Error {
    move |error| Error::new(Kind::Device, format!("{engine} failed: {error}"))
}

#[cfg(test)]
mod tests;
