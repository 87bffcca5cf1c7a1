//! Intents beside a component, in its companion: appended one behind the other, each at a multiple of [`GRAIN`], and punched
//! out when they are settled.
//!
//! A record is: magic, version, length and checksum of what follows, then the client and the intent in postcard, then zeros up
//! to the grain. `docs/format/files.md` has the table. What has no valid checksum was never answered, since an append is
//! atomic; what is punched out reads as zeros.

use super::super::components::{Intent, IntentId, Redo, Slice};
use super::{Shared, strange_answer};
use forebay_model::layout::address::{Place, StripeId};
use forebay_model::layout::update::Extent;
use forebay_model::object::{Durability, Placement};
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::object::{Ask, MOST_AT_ONCE, ObjectAnswer, ObjectReply, companion};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Records begin at multiples of this.
pub(super) const GRAIN: usize = 512;
const MAGIC: [u8; 4] = *b"FBIN";
const VERSION: u32 = 1;
/// Magic, version, length, checksum.
const HEADER: usize = 16;

/// An intent as it is kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    client: u64,
    stripe: u64,
    cut: Option<u64>,
    /// Components, places in them, and how many of the bytes that follow go there.
    writes: Vec<(u32, u64, u64)>,
    /// Components, places in them, lengths.
    agree: Vec<(u32, u64, u64)>,
}

/// The bytes of a record.
pub(super) fn encode(client: u64, intent: &Intent) -> Result<Vec<u8>> {
    let kept = Kept {
        client,
        stripe: intent.stripe.0,
        cut: intent.cut.map(|cut| cut.0),
        writes: intent.writes.iter().map(|w| (w.place.component, w.place.at.0, w.bytes.len() as u64)).collect(),
        agree: intent.agree.iter().map(|e| (e.place.component, e.place.at.0, e.length.0)).collect(),
    };
    let head = forebay_wire::write_body(&kept)?;
    let bytes: usize = intent.writes.iter().map(|write| write.bytes.len()).sum();
    let mut record = Vec::with_capacity((HEADER + 4 + head.len() + bytes).next_multiple_of(GRAIN));
    record.extend_from_slice(&MAGIC);
    record.extend_from_slice(&VERSION.to_le_bytes());
    record.extend_from_slice(&[0; 8]);
    record.extend_from_slice(&(head.len() as u32).to_le_bytes());
    record.extend_from_slice(&head);
    intent.writes.iter().for_each(|write| record.extend_from_slice(&write.bytes));
    let length = record.len() - HEADER;
    let too_long = |_| Error::usage(format!("an intent of {length} bytes is too long"));
    let (length, sum) = (u32::try_from(length).map_err(too_long)?, forebay_wire::crc32c(&record[HEADER..]));
    record[8..12].copy_from_slice(&length.to_le_bytes());
    record[12..16].copy_from_slice(&sum.to_le_bytes());
    record.resize(record.len().next_multiple_of(GRAIN), 0);
    Ok(record)
}

/// The record at the beginning of these bytes: who wrote it, what, and how long it is with what fills it up. `None` if there
/// is none.
pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Intent, usize)> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    if bytes.get(..4)? != MAGIC || word(4)? != VERSION {
        return None;
    }
    let length = word(8)? as usize;
    let body = bytes.get(HEADER..HEADER.checked_add(length)?)?;
    if forebay_wire::crc32c(body) != word(12)? {
        return None;
    }
    let head = u32::from_le_bytes(body.get(..4)?.try_into().ok()?) as usize;
    let kept: Kept = forebay_wire::read_body(body.get(4..4usize.checked_add(head)?)?).ok()?;
    let mut rest = Slice::copy_from_slice(body.get(4 + head..)?);
    let mut writes = Vec::new();
    for (component, at, length) in kept.writes {
        let length = usize::try_from(length).ok().filter(|length| *length <= rest.len())?;
        writes.push(Redo { place: Place { component, at: Bytes(at) }, bytes: rest.split_to(length) });
    }
    let extent = |(component, at, length)| Extent { place: Place { component, at: Bytes(at) }, length: Bytes(length) };
    let intent = Intent {
        stripe: StripeId(kept.stripe),
        cut: kept.cut.map(Bytes),
        writes,
        agree: kept.agree.into_iter().map(extent).collect(),
    };
    Some((kept.client, intent, (HEADER + length).next_multiple_of(GRAIN)))
}

impl Shared {
    /// Keeps an intent beside a component.
    pub(super) async fn intend(self: &Rc<Self>, component: u32, intent: Intent) -> Result<IntentId> {
        let record = Slice::from(encode(self.control.client(), &intent)?);
        if record.len() as u64 > MOST_AT_ONCE.0 {
            return Err(Error::usage(format!(
                "a stripe with an intent of {} bytes cannot be overwritten; {MOST_AT_ONCE} are the most: take smaller units",
                record.len()
            )));
        }
        let (placement, durability) = (Placement::Log, Durability::Durable);
        let append = |id| Ask::Append { id, placement, durability };
        let repeated = self.nodes.repeated();
        let answer = self.ask_of_made(component, companion, append, vec![record]).await?;
        let ObjectReply::At(at) = answer.reply else { return Err(strange_answer(&answer.reply)) };
        if self.nodes.repeated() != repeated {
            self.perhaps_twice.borrow_mut().insert((component, IntentId(at)));
        }
        self.own.borrow_mut().insert((component, IntentId(at)));
        Ok(IntentId(at))
    }

    /// Forgets an intent, also where it was kept a second time because the first answer was lost: whoever finds that one
    /// later would undo what was written since.
    pub(super) async fn settle(self: &Rc<Self>, component: u32, id: IntentId) -> Result<()> {
        let first = self.journal(component, id.0, GRAIN as u64).await?;
        let length = first.get(8..12).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
        let length = (HEADER + length).next_multiple_of(GRAIN) as u64;
        if self.perhaps_twice.borrow().contains(&(component, id)) {
            let record = self.journal(component, id.0, length).await?;
            for (other, found) in self.intents(component).await? {
                if encode(self.control.client(), &found)? == record {
                    self.punch(component, other, length).await?;
                }
            }
            self.perhaps_twice.borrow_mut().remove(&(component, id));
        }
        self.punch(component, id, length).await?;
        self.own.borrow_mut().remove(&(component, id));
        Ok(())
    }

    async fn punch(self: &Rc<Self>, component: u32, id: IntentId, length: u64) -> Result<()> {
        let punch = |object| Ask::Punch { id: companion(object), offset: id.0, length };
        self.ask(component, punch, Vec::new()).await.map(drop)
    }

    /// The intents of others beside a component, in their order.
    pub(super) async fn intents(self: &Rc<Self>, component: u32) -> Result<Vec<(IntentId, Intent)>> {
        let mut found = self.unsettled(component).await?;
        found.retain(|(id, _)| !self.own.borrow().contains(&(component, *id)));
        Ok(found)
    }

    /// All intents beside a component, in their order.
    pub(super) async fn unsettled(self: &Rc<Self>, component: u32) -> Result<Vec<(IntentId, Intent)>> {
        let (mut found, mut at, mut bytes) = (Vec::new(), 0, Vec::new());
        // A record is at most as long as one read.
        loop {
            let missing = (MOST_AT_ONCE.0 as usize).saturating_sub(bytes.len());
            let more = self.journal(component, at + bytes.len() as u64, missing as u64).await?;
            let is_all = more.len() < missing;
            bytes.extend_from_slice(&more);
            let mut within = 0;
            while within < bytes.len() {
                let rest = &bytes[within..];
                let might_go_on = rest.get(..4) == Some(&MAGIC) && !is_all && within > 0;
                match decode(rest) {
                    Some((_, intent, length)) => {
                        let id = IntentId(at + within as u64);
                        found.push((id, intent));
                        within += length;
                    }
                    None if might_go_on => break,
                    None => within += GRAIN,
                }
            }
            if is_all {
                return Ok(found);
            }
            let taken = within.min(bytes.len());
            bytes.drain(..taken);
            at += taken as u64;
        }
    }

    async fn journal(self: &Rc<Self>, component: u32, at: u64, length: u64) -> Result<Vec<u8>> {
        let read = |id| Ask::Read { id: companion(id), offset: at, length: length as u32 };
        match self.ask(component, read, Vec::new()).await {
            Ok(ObjectAnswer { payload, .. }) => Ok(payload),
            Err(error) if error.kind == Kind::Missing => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
