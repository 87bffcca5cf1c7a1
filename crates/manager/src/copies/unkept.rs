//! What is committed and in no copy yet.
//!
//! Always: while copies are written, what the engine has under [`keys::COPIED`] names every key that was changed since the batch
//! that all of them have; so whoever opens the engine next can go on with them, whatever this manager came to.

use crate::draft::View;
use crate::engine::{Condition, MOST_BYTES, Snapshot, Transaction, Write};
use crate::keys;
use crate::records::{Copied, check, encode};
use forebay_model::Result;
use std::collections::BTreeMap;

/// Values by their keys; `None` where one was deleted.
pub(crate) type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The most bytes of keys that are waited for: what is named in the engine is written with each commit.
const MOST_KEYS: usize = MOST_BYTES / 4;

/// Whether copies are written, and what is not in them.
pub(crate) enum Copying {
    /// They are not; the engine may say so still of some that were.
    Off { is_named: bool },
    /// They are.
    On(Unkept),
}

/// What copies lack.
pub(crate) struct Unkept {
    /// The object with which they began.
    base: u64,
    /// The last batch that all of them have.
    kept: u64,
    /// The last batch. Numbers of batches rise, also from one opening to the next, so that none is given twice.
    batch: u64,
    writes: Writes,
    /// Bytes of their keys.
    bytes: usize,
}

impl Copying {
    /// As an engine says, in this opening.
    pub(crate) fn load(view: &dyn Snapshot, term: u64) -> Result<Copying> {
        let copied: Option<Copied> = view.read(keys::COPIED)?;
        let Some(Copied { base, batch: kept, keys }) = copied else { return Ok(Copying::Off { is_named: false }) };
        let bytes = keys.iter().map(Vec::len).sum();
        let batch = first_batch(term);
        let mut writes = Writes::new();
        for key in keys {
            let value = view.get(&key)?;
            // What is damaged is not copied over what is whole.
            value.as_ref().map_or(Ok(()), |value| check(&key, value))?;
            writes.insert(key, value);
        }
        Ok(Copying::On(Unkept { base, kept, batch, writes, bytes }))
    }

    pub(crate) fn is_on(&self) -> bool {
        matches!(self, Copying::On(_))
    }

    /// There are no copies any more.
    pub(super) fn stop(&mut self) {
        if self.is_on() {
            *self = Copying::Off { is_named: true };
        }
    }

    /// An object of copies begins: with which one the chain did, and the batch up to which those before it have everything.
    pub(super) fn begin(&mut self, object: u64, term: u64) -> (u64, u64) {
        if let Copying::On(Unkept { base, kept, .. }) = self {
            return (*base, *kept);
        }
        let first = first_batch(term);
        *self = Copying::On(Unkept { base: object, kept: first, batch: first, writes: Writes::new(), bytes: 0 });
        (object, first)
    }

    /// What copies lack, and the last batch of it.
    pub(super) fn unkept(&self) -> Option<(u64, &Writes)> {
        match self {
            Copying::On(Unkept { kept, batch, writes, .. }) if batch > kept => Some((*batch, writes)),
            _ => None,
        }
    }

    /// Copies have all up to this batch, which is the last one.
    pub(super) fn kept(&mut self, batch: u64) {
        if let Copying::On(unkept) = self {
            unkept.kept = batch;
            unkept.writes.clear();
            unkept.bytes = 0;
        }
    }

    /// Takes note of what is committed, and says with which transaction before it that is named.
    pub(crate) fn note(&mut self, transactions: &[Transaction], fence: &Condition) -> Result<Option<Transaction>> {
        if let Copying::On(unkept) = self {
            let writes = transactions.iter().flat_map(|transaction| &transaction.writes);
            let mut is_more = false;
            for Write { key, value } in writes.filter(|write| super::is_copied(&write.key)) {
                is_more = true;
                if unkept.writes.insert(key.clone(), value.clone()).is_none() {
                    unkept.bytes += key.len();
                }
            }
            if !is_more {
                return Ok(None);
            }
            unkept.batch += 1;
            if unkept.bytes > MOST_KEYS {
                *self = Copying::Off { is_named: true };
            }
        }
        let value = match self {
            Copying::Off { is_named: false } => return Ok(None),
            Copying::Off { is_named } => {
                *is_named = false;
                None
            }
            Copying::On(Unkept { base, kept, writes, .. }) => Some(encode(
                keys::COPIED,
                &Copied { base: *base, batch: *kept, keys: writes.keys().cloned().collect() },
            )?),
        };
        let write = Write { key: keys::COPIED.to_vec(), value };
        Ok(Some(Transaction { conditions: vec![fence.clone()], writes: vec![write] }))
    }
}

/// The number behind which those of an opening's batches are.
fn first_batch(term: u64) -> u64 {
    term << 32
}
