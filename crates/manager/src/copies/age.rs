//! Whether an engine is older than its copies: one that was put back from a backup, after which a newer one was used.
//!
//! Always: an engine says how far whoever has it can have written ([`Written`]), before the first object of an opening begins, and with each
//! commit before what that changed is in any. So what goes beyond that was written with a newer one, whatever was killed when; and
//! what cannot be read says nothing.

use super::record::{Found, Record};
use super::targets::{list, strange};
use super::{COUNT_BITS, SECOND_BITS, VOLUME};
use crate::draft::View;
use crate::engine::Snapshot;
use crate::keys;
use crate::records::{Copied, Meta, Term, Written};
use forebay_model::{Error, Kind, ObjectId, Result, TargetId};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectInfo, ObjectReply};

/// So much is read at once, and of an object at most: behind what an engine knows there is little, if it is as new as the object.
const AT_ONCE: u64 = 1 << 20;
const MOST_READ: u64 = 64 << 20;

/// How far copies go that are no newer than an engine.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    cluster: u128,
    /// The last opening that can have begun an object.
    term: u64,
    /// How far it can have come; `None` if a release had the engine since that does not say so.
    written: Option<Written>,
    /// What numbers of objects begin with that are written in this opening.
    own: Option<u64>,
}

impl Known {
    /// As an engine says that is not open yet.
    pub(crate) fn load(view: &dyn Snapshot) -> Result<Known> {
        let Meta { cluster, .. } = view.require(keys::META)?;
        let Term(opened) = view.require(keys::TERM)?;
        let written: Option<Written> = view.read(keys::WRITTEN)?;
        let copied: Option<Copied> = view.read(keys::COPIED)?;
        let since = copied.map_or(0, |copied| copied.batch >> 32);
        let written = written.filter(|written| written.term >= since);
        Ok(Known { cluster, term: written.map_or(opened, |written| written.term), written, own: None })
    }

    /// The same for who writes objects whose numbers begin so.
    pub(super) fn beside(self, own: u64) -> Known {
        Known { own: Some(own), ..self }
    }

    /// Whether an object can go beyond it.
    fn is_to_be_read(&self, object: u64) -> bool {
        let opening = object >> (COUNT_BITS + SECOND_BITS);
        let may_be_longer = || self.written.is_some_and(|written| object >= written.object);
        self.own != Some(object >> COUNT_BITS) && (opening > self.term || opening == self.term && may_be_longer())
    }

    /// Whether a record goes beyond it; `None` if it is of another cluster.
    fn is_exceeded_by(&self, record: &Record) -> Option<bool> {
        match record {
            Record::Begin { cluster, .. } if *cluster != self.cluster => None,
            Record::Begin { term, .. } => Some(*term > self.term),
            Record::Changes { batch, .. } => Some(self.written.is_some_and(|written| *batch > written.batch)),
            Record::Piece { .. } | Record::Whole { .. } => Some(false),
        }
    }
}

/// Whether copies on a target that is asked like this go beyond what is known.
pub(crate) async fn is_ahead(
    asking: impl AsyncFn(Ask) -> Result<ObjectAnswer>,
    target: TargetId,
    known: Known,
) -> Result<bool> {
    let there = list(async |ask| asking(ask).await, target, VOLUME, None).await?;
    for ObjectInfo { id, head, .. } in there.into_iter().filter(|info| known.is_to_be_read(info.id.object)) {
        let from = known.written.filter(|written| written.object == id.object).map_or(0, |written| written.at);
        let mut goes_beyond = goes_beyond_from(&asking, target, (id, head.size), from, known).await?;
        if goes_beyond.is_none() && from > 0 {
            // What was sent again after a connection ended is there twice, and what follows lies further back.
            goes_beyond = goes_beyond_from(&asking, target, (id, head.size), 0, known).await?;
        }
        if goes_beyond == Some(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an object does from there on; `None` if no record begins there.
async fn goes_beyond_from(
    asking: &impl AsyncFn(Ask) -> Result<ObjectAnswer>,
    target: TargetId,
    (id, size): (ObjectId, u64),
    from: u64,
    known: Known,
) -> Result<Option<bool>> {
    let end = size.min(from.saturating_add(MOST_READ));
    let (mut part, mut offset, mut is_first) = (Vec::new(), from, true);
    while offset < end {
        let length = (end - offset).min(AT_ONCE) as u32;
        match asking(Ask::Read { id, offset, length }).await {
            Ok(ObjectAnswer { reply: ObjectReply::Bytes, payload, .. }) => part.extend(payload.into_vec()),
            Ok(answer) => return Err(strange(target, &answer.reply)),
            // Nor does what was removed meanwhile.
            Err(error) if matches!(error.kind, Kind::Damaged | Kind::Missing) => return Ok(Some(false)),
            Err(error) => return Err(error.of(format!("reading a copy of metadata on target {target}"))),
        }
        offset += u64::from(length);
        let mut at = 0;
        loop {
            match Record::find(&part[at..])? {
                Found::Record(record, bytes) => {
                    at += bytes;
                    is_first = false;
                    match known.is_exceeded_by(&record) {
                        Some(false) => {}
                        other => return Ok(Some(other.is_some())),
                    }
                }
                Found::Part => break,
                Found::Nothing => return Ok((!is_first).then_some(false)),
            }
        }
        part.drain(..at);
    }
    Ok(Some(false))
}

/// What is said of an engine that is older than a copy.
pub(crate) fn outdated(target: TargetId) -> Error {
    Error::stale(format!(
        "the manager's metadata are older than their copies on target {target}, since which names were made, and numbers of files given, \
         of which they know nothing; end the manager, and put the newest ones back or have them made anew of the targets with `forebay \
         manager recover --over`"
    ))
}

#[cfg(test)]
mod tests;
