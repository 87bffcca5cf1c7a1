//! What is committed and in no copy yet.
//!
//! Always: while copies are written, or may be written again, what the engine has under [`keys::COPIED`] names every key that was
//! changed since the batch that all of them have; so whoever opens the engine next can go on with them, whatever this manager came to.

use crate::draft::View;
use crate::engine::{Condition, MOST_BYTES, Snapshot, Transaction, Write};
use crate::keys;
use crate::records::{Copied, CopiedOn, Written, check, encode};
use forebay_model::{Result, TargetId};
use std::collections::BTreeMap;

/// Values by their keys; `None` where one was deleted.
pub(crate) type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The most bytes of keys that are waited for: what is named in the engine is written with each commit.
pub(crate) const MOST_KEYS: usize = MOST_BYTES / 4;
/// The same while no copy can be written: each commit is longer by that, and copies that lack more are made anew.
const MOST_WAITING: usize = MOST_BYTES / 16;

/// Whether copies are written, and what is not in them.
pub(crate) enum Copying {
    /// They are not; the engine may say so still of some that were.
    Off { is_named: bool },
    /// They are.
    On(Unkept),
}

/// What copies lack.
pub(crate) struct Unkept {
    /// The object with which they began; 0 if none was begun yet.
    base: u64,
    /// The last batch that all of them have.
    kept: u64,
    /// The last batch. Numbers of batches rise, also from one chain and from one opening to the next, so that none is given twice.
    batch: u64,
    writes: Writes,
    /// Bytes of their keys.
    bytes: usize,
    /// The targets that have the chain up to that batch, and whether the engine says so.
    having: Vec<TargetId>,
    is_having_named: bool,
    /// Whether these have what there was before as well, as far as this opening knows.
    is_whole: bool,
    /// What is committed is answered though no copy has it: there was none that could be written.
    is_waiting: bool,
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
        let CopiedOn(having) = view.read(keys::COPIED_ON)?.unwrap_or_default();
        Ok(Copying::On(Unkept {
            base,
            kept,
            batch,
            writes,
            bytes,
            having,
            is_having_named: true,
            is_whole: false,
            is_waiting: false,
        }))
    }

    /// The targets that have everything that was answered since the chain began, and whether they have what there was before. None if
    /// something was answered that no target has.
    pub(crate) fn told(&self) -> (Vec<TargetId>, bool) {
        match self {
            Copying::On(Unkept { writes, having, is_whole, is_waiting, .. }) if !is_waiting || writes.is_empty() => {
                (having.clone(), *is_whole && !having.is_empty())
            }
            _ => (Vec::new(), false),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        matches!(self, Copying::On(_))
    }

    /// No copy can be written. Whoever has the chain may be back before it lacks much, and one that is to begin does so later; if not,
    /// there are no copies any more.
    pub(super) fn wait(&mut self) {
        let Copying::On(Unkept { base, bytes, having, is_waiting, .. }) = self else { return };
        *is_waiting = true;
        let is_too_much = match *base {
            0 => *bytes > MOST_KEYS,
            _ => *bytes > MOST_WAITING || having.is_empty(),
        };
        if is_too_much {
            *self = Copying::Off { is_named: true };
        }
    }

    /// The targets that have all that was changed since the chain began.
    pub(super) fn having(&self) -> &[TargetId] {
        match self {
            Copying::On(Unkept { having, .. }) => having,
            Copying::Off { .. } => &[],
        }
    }

    /// An object of copies begins on these targets: with which one the chain did, and the batch up to which those before it have
    /// everything; `last` is the last batch of this opening.
    pub(super) fn begin(&mut self, object: u64, last: u64, on: &[TargetId]) -> (u64, u64) {
        if let Copying::On(Unkept { base, kept, having, is_having_named, is_whole, .. }) = self {
            if *base == 0 {
                *base = object;
            }
            if *kept == 0 {
                // Nothing of it is anywhere else.
                (*having, *is_having_named, *is_whole) = (on.to_vec(), false, false);
            }
            return (*base, *kept);
        }
        *self = Copying::On(Unkept {
            base: object,
            kept: last,
            batch: last,
            writes: Writes::new(),
            bytes: 0,
            having: on.to_vec(),
            is_having_named: false,
            is_whole: false,
            is_waiting: false,
        });
        (object, last)
    }

    /// On these is all that there is.
    pub(super) fn whole(&mut self, on: &[TargetId]) {
        let Copying::On(unkept) = self else { return };
        unkept.is_whole = true;
        if unkept.having != on {
            (unkept.having, unkept.is_having_named) = (on.to_vec(), false);
        }
    }

    /// What copies lack, and the last batch of it.
    pub(super) fn unkept(&self) -> Option<(u64, &Writes)> {
        match self {
            Copying::On(Unkept { kept, batch, writes, .. }) if batch > kept => Some((*batch, writes)),
            _ => None,
        }
    }

    /// Copies on these have all up to this batch, which is the last one. Whoever is left out lacks it, and whoever is new has nothing
    /// of what was before.
    pub(super) fn kept(&mut self, batch: u64, on: &[TargetId]) {
        if let Copying::On(unkept) = self {
            let before = unkept.having.len();
            unkept.having.retain(|target| on.contains(target));
            unkept.is_having_named &= unkept.having.len() == before;
            (unkept.kept, unkept.is_waiting) = (batch, false);
            unkept.writes.clear();
            unkept.bytes = 0;
        }
    }

    /// Takes note of what is committed, and says with which transaction before it that is named, with how far copies can come if this
    /// opening has begun any.
    pub(crate) fn note(
        &mut self,
        transactions: &[Transaction],
        fence: &Condition,
        (written, is_begun): (&mut Written, bool),
    ) -> Result<Option<Transaction>> {
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
            written.batch = unkept.batch;
            if unkept.bytes > MOST_KEYS {
                *self = Copying::Off { is_named: true };
            }
        }
        let write = |key: &[u8], value| Write { key: key.to_vec(), value };
        let mut writes = match self {
            Copying::Off { is_named: false } => return Ok(None),
            Copying::Off { is_named } => {
                *is_named = false;
                vec![write(keys::COPIED, None), write(keys::COPIED_ON, None)]
            }
            Copying::On(Unkept { base, kept, writes, having, is_having_named, .. }) => {
                let copied = Copied { base: *base, batch: *kept, keys: writes.keys().cloned().collect() };
                let mut named = vec![write(keys::COPIED, Some(encode(keys::COPIED, &copied)?))];
                if !std::mem::replace(is_having_named, true) {
                    let on = encode(keys::COPIED_ON, &CopiedOn(having.clone()))?;
                    named.push(write(keys::COPIED_ON, Some(on)));
                }
                named
            }
        };
        if is_begun {
            writes.push(write(keys::WRITTEN, Some(encode(keys::WRITTEN, &*written)?)));
        }
        Ok(Some(Transaction { conditions: vec![fence.clone()], writes }))
    }
}

/// The number behind which those of an opening's batches are.
pub(crate) fn first_batch(term: u64) -> u64 {
    term << 32
}
