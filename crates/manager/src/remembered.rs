//! What clients were answered, so that a change that is asked for again is not done again.
//!
//! A client has [`REMEMBERED`] slots, and a change is remembered in the one of its number: that bounds what is kept of a client,
//! and a number that is not remembered any more is known to be too low, because a higher one is in its slot. Always: a
//! change is remembered in the transaction that carries it out; and no change is ever carried out twice, unless it was
//! forgotten with its client.

use crate::draft::{Draft, View};
use crate::keys;
use crate::principal::Principal;
use crate::records::{Answer, ClientRecord, Remembered};
use forebay_model::{Error, Result, Timestamp};
use forebay_wire::control::{Change, REMEMBERED};
use std::time::Duration;

/// How exactly it is known when a client changed something last.
pub(crate) const USED_EVERY: Duration = Duration::from_secs(3600);

/// What tells a change from others.
pub(crate) fn hash(change: &Change) -> Result<[u8; 16]> {
    let bytes = postcard::to_stdvec(change)
        .map_err(|error| Error::usage(format!("the change cannot be encoded: {error}; ask for less at a time")))?;
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
    Ok(hash)
}

/// [`forebay_model::Kind::Forbidden`] if the client's number is another user's.
pub(crate) fn require_own(view: &impl View, by: &Principal) -> Result<()> {
    let client: Option<ClientRecord> = view.read(&keys::client(by.client))?;
    match client {
        Some(client) if client.user != by.user => Err(Error::forbidden(format!(
            "client {:x} is not one of user {}; take another number, by chance",
            by.client, by.user
        ))),
        _ => Ok(()),
    }
}

/// What was answered when this was asked for before; `None` if it was not.
pub(crate) fn find(view: &impl View, client: u64, sequence: u64, hash: &[u8; 16]) -> Result<Option<Answer>> {
    let slot: Option<Remembered> = view.read(&keys::remembered(client, slot(sequence)))?;
    match slot {
        Some(there) if there.sequence == sequence && there.asked == *hash => Ok(Some(there.answer)),
        Some(there) if there.sequence == sequence => Err(Error::exists(format!(
            "number {sequence} of client {client:x} was another change; ask for this one under a new number"
        ))),
        Some(there) if there.sequence > sequence => Err(Error::stale(format!(
            "number {sequence} of client {client:x} is too low: {} was used, and what was answered before is forgotten; look \
             how things are, and ask under a new number",
            there.sequence
        ))),
        _ => Ok(None),
    }
}

/// Remembers what is answered.
pub(crate) fn remember(
    draft: &mut Draft<'_>,
    by: &Principal,
    now: Timestamp,
    sequence: u64,
    asked: [u8; 16],
    answer: &Answer,
) -> Result<()> {
    let key = keys::client(by.client);
    let client: Option<ClientRecord> = draft.read(&key)?;
    if client.is_none_or(|client| now.since(client.used) > USED_EVERY) {
        draft.put(key, &ClientRecord { user: by.user, used: now })?;
    }
    let remembered = Remembered { sequence, asked, answer: answer.clone() };
    draft.put(keys::remembered(by.client, slot(sequence)), &remembered)
}

fn slot(sequence: u64) -> u16 {
    (sequence % REMEMBERED) as u16
}

#[cfg(test)]
mod tests;
