//! Where metadata is kept: keys in order, and transactions, behind one trait.
//!
//! What the trait asks for is what etcd 3.4 can do as well, and no more: a transaction has conditions on single keys, and
//! puts and deletes of single keys; it is small; what is read is read from a snapshot. Always: a transaction takes effect
//! wholly or not at all, and what [`Engine::commit`] said is committed is there after a crash.

mod memory;
mod recent;
mod redb;

pub use self::memory::Memory;
pub(crate) use self::recent::Recent;
pub use self::redb::Redb;

use forebay_model::{Error, Result};
use std::fmt;

/// The most conditions, puts and deletes of a transaction.
pub const MOST_OPERATIONS: usize = 128;
/// The most bytes of all keys and values of a transaction.
pub const MOST_BYTES: usize = 1 << 20;

/// What has to hold for a transaction to take effect.
#[derive(Clone, PartialEq, Eq)]
pub enum Condition {
    /// There is nothing under the key.
    Absent(Vec<u8>),
    /// Exactly this value is there.
    Is(Vec<u8>, Vec<u8>),
}

/// What a transaction does to a key: puts a value, or deletes what is there.
#[derive(Clone, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: Vec<u8>,
    /// Its value; `None` deletes it.
    pub value: Option<Vec<u8>>,
}

/// Changes that are made together, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// All of these have to hold before.
    pub conditions: Vec<Condition>,
    /// What is done then; no key twice.
    pub writes: Vec<Write>,
}

/// What has become of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect, durably.
    Committed,
    /// A condition did not hold: it did nothing.
    Refused,
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Durable keys and values, by the order of the keys' bytes.
pub trait Engine {
    /// All that is committed now, whatever is committed later.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>>;

    /// Carries out transactions in their order; each sees what those before it did. When this returns, they are durable.
    /// After a crash within it, those up to some point are there, and none behind that. After an error it is unknown what
    /// is there: the engine has to be opened again.
    fn commit(&mut self, transactions: &[Transaction]) -> Result<Vec<Outcome>>;
}

/// What was committed at some moment.
pub trait Snapshot {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The first `most` keys from `from` on and before `to`, in order, with their values.
    fn scan(&self, from: &[u8], to: &[u8], most: usize) -> Result<Vec<Pair>>;
}

impl Condition {
    /// The key that it is about.
    pub fn key(&self) -> &[u8] {
        match self {
            Condition::Absent(key) | Condition::Is(key, _) => key,
        }
    }

    /// Whether it holds, if this is there.
    pub fn holds(&self, there: Option<&[u8]>) -> bool {
        match self {
            Condition::Absent(_) => there.is_none(),
            Condition::Is(_, value) => there == Some(value),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Condition::Absent(key) => key.len(),
            Condition::Is(key, value) => key.len() + value.len(),
        }
    }
}

impl Write {
    /// The bytes of its key and value.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// Values may be secret, and are in no message.
impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key().escape_ascii();
        match self {
            Condition::Absent(_) => write!(f, "Absent({key})"),
            Condition::Is(_, value) => write!(f, "Is({key}, {} bytes)", value.len()),
        }
    }
}

/// Likewise.
impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.escape_ascii();
        match &self.value {
            Some(value) => write!(f, "Put({key}, {} bytes)", value.len()),
            None => write!(f, "Delete({key})"),
        }
    }
}

impl Transaction {
    /// Whether it is within the bounds that every engine keeps.
    pub fn check(&self) -> Result<()> {
        let operations = self.conditions.len() + self.writes.len();
        let bytes = self.conditions.iter().map(Condition::bytes).sum::<usize>()
            + self.writes.iter().map(Write::bytes).sum::<usize>();
        if operations > MOST_OPERATIONS || bytes > MOST_BYTES {
            return Err(Error::refused(format!(
                "a transaction of {operations} operations and {bytes} bytes is too large: {MOST_OPERATIONS} operations and \
                 {MOST_BYTES} bytes are the most; ask for less at a time"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
mod tests;
