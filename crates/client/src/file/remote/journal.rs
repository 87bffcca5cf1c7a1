//! Intents beside a component, in its companion: appended one behind the other, each at a multiple of [`record::GRAIN`], and
//! punched out when they are settled. What has no valid checksum was never answered, since an append is atomic; what is
//! punched out reads as zeros.
//!
//! Whoever gets a lock looks for what was not ended. A journal only grows, so a client remembers how far it has looked and
//! where something was left, and reads from there. A target shows appends to an object in their order, so nothing appears
//! behind what was looked at; but what was shown and not yet durable may vanish and give place to something else when the
//! target is opened again. So all is forgotten when its boot epoch is another one. Much that is a hole is not read
//! ([`holes`]).

mod holes;
mod record;

use super::super::components::{Begun, Intent, IntentId, Slice};
use super::Shared;
use crate::granted::strange_answer;
use forebay_model::layout::address::StripeId;
use forebay_model::object::{Durability, Placement};
use forebay_model::{Error, Kind, Result, TargetId};
use forebay_wire::object::{Ask, MOST_AT_ONCE, ObjectAnswer, ObjectReply, companion};
use holes::Extent;
use record::GRAIN;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What is read first behind what is known: mostly there is little.
const FIRST: u64 = 64 << 10;
/// Intents of a component that a client remembers; if there are more, it looks at all of the journal again.
const MOST_REMEMBERED: usize = 1 << 16;

/// How far a journal was looked at, and what was left in it.
pub(super) struct Seen {
    /// The target and its boot epoch.
    by: (TargetId, u64),
    /// Where what is not known begins.
    end: u64,
    /// What was not settled when it was looked at, by its place.
    left: BTreeMap<u64, (StripeId, u64)>,
}

#[cfg(test)]
impl Seen {
    /// A journal in which nothing was left up to here.
    pub(super) fn up_to(by: (TargetId, u64), end: u64) -> Seen {
        Seen { by, end, left: BTreeMap::new() }
    }
}

impl Shared {
    /// Keeps an intent beside a component.
    pub(super) async fn intend(self: &Rc<Self>, component: u32, intent: Intent) -> Result<IntentId> {
        let record = Slice::from(record::encode(self.control.client(), &intent)?);
        let length = record.len() as u64;
        if length > MOST_AT_ONCE.0 {
            return Err(Error::usage(format!(
                "a stripe with an intent of {length} bytes cannot be overwritten; {MOST_AT_ONCE} are the most: take smaller units"
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
        self.own.borrow_mut().insert((component, IntentId(at)), length);
        Ok(IntentId(at))
    }

    /// Forgets an intent, also where it was kept a second time because the first answer was lost: whoever finds that one
    /// later would undo what was written since.
    pub(super) async fn settle(self: &Rc<Self>, component: u32, id: IntentId) -> Result<()> {
        let length = match self.known_length(component, id) {
            Some(length) => length,
            None => record::length(&self.journal(component, id.0, GRAIN as u64).await?.0).unwrap_or(GRAIN as u64),
        };
        if self.perhaps_twice.borrow().contains(&(component, id)) {
            let (record, _) = self.journal(component, id.0, length).await?;
            for (other, found) in self.intents(component).await? {
                if record::encode(self.control.client(), &found)? == record {
                    self.punch(component, other, length).await?;
                }
            }
            self.perhaps_twice.borrow_mut().remove(&(component, id));
        }
        self.punch(component, id, length).await?;
        self.own.borrow_mut().remove(&(component, id));
        Ok(())
    }

    fn known_length(&self, component: u32, id: IntentId) -> Option<u64> {
        let own = self.own.borrow().get(&(component, id)).copied();
        own.or_else(|| Some(self.seen.borrow().get(&component)?.left.get(&id.0)?.1))
    }

    async fn punch(self: &Rc<Self>, component: u32, id: IntentId, length: u64) -> Result<()> {
        let punch = |object| Ask::Punch { id: companion(object), offset: id.0, length };
        self.ask(component, punch, Vec::new()).await?;
        if let Some(seen) = self.seen.borrow_mut().get_mut(&component) {
            seen.left.remove(&id.0);
        }
        Ok(())
    }

    /// The intents of others beside a component, in their order.
    pub(super) async fn intents(self: &Rc<Self>, component: u32) -> Result<Vec<(IntentId, Intent)>> {
        let mut found = self.unsettled(component, None).await?;
        found.retain(|(id, _)| !self.own.borrow().contains_key(&(component, *id)));
        Ok(found)
    }

    /// The intents beside a component, or only those for a stripe, in their order.
    pub(super) async fn unsettled(
        self: &Rc<Self>,
        component: u32,
        of: Option<StripeId>,
    ) -> Result<Vec<(IntentId, Intent)>> {
        self.look_on(component).await?;
        let wanted: Vec<(u64, u64)> = match self.seen.borrow().get(&component) {
            Some(seen) => {
                let left = seen.left.iter().filter(|(_, (stripe, _))| of.is_none_or(|of| of == *stripe));
                left.map(|(at, (_, length))| (*at, *length)).collect()
            }
            None => Vec::new(),
        };
        let mut found = Vec::new();
        for (at, length) in wanted {
            let (bytes, _) = self.journal(component, at, length).await?;
            match record::decode(&bytes) {
                Some((_, intent, _)) => found.push((IntentId(at), intent)),
                // Somebody has settled it since.
                None => drop(self.seen.borrow_mut().get_mut(&component).and_then(|seen| seen.left.remove(&at))),
            }
        }
        if self.seen.borrow().get(&component).is_some_and(|seen| seen.left.len() > MOST_REMEMBERED) {
            self.seen.borrow_mut().remove(&component);
        }
        Ok(found)
    }

    /// What was begun beside a component; nothing as long as a change of this stripe is not ended.
    pub(super) async fn begun(self: &Rc<Self>, component: u32, stripe: StripeId) -> Result<Option<Begun>> {
        let left = self.unsettled(component, Some(stripe)).await?;
        let seen = self.seen.borrow();
        let (by, end) = seen.get(&component).map_or((None, 0), |seen| (Some(seen.by), seen.end));
        Ok(left.is_empty().then(|| Begun { version: self.version(), by, end }))
    }

    /// Looks at what a journal has behind what is known of it.
    async fn look_on(self: &Rc<Self>, component: u32) -> Result<()> {
        let mut length = FIRST;
        loop {
            let at = self.seen.borrow().get(&component).map_or(0, |seen| seen.end);
            let (bytes, by) = self.journal(component, at, length).await?;
            let Some(by) = by else {
                self.seen.borrow_mut().remove(&component);
                return Ok(());
            };
            let is_all = (bytes.len() as u64) < length;
            {
                let mut all = self.seen.borrow_mut();
                let seen = all.entry(component).or_insert_with(|| Seen { by, end: 0, left: BTreeMap::new() });
                if seen.by != by || seen.end < at {
                    // It was opened again, and what is known need not be so any more.
                    *seen = Seen { by, end: 0, left: BTreeMap::new() };
                    length = FIRST;
                    continue;
                }
                let mut within = 0;
                while within < bytes.len() {
                    match record::decode(&bytes.slice(within..)) {
                        Some((_, intent, length)) => {
                            seen.left.insert(at + within as u64, (intent.stripe, length as u64));
                            within += length;
                        }
                        // A record is at most as long as the longest read, and this one may go on behind it.
                        None if !is_all
                            && record::begins(&bytes[within..])
                            && (within > 0 || length < MOST_AT_ONCE.0) =>
                        {
                            break;
                        }
                        None => within += GRAIN,
                    }
                }
                seen.end = seen.end.max(at + within as u64);
            }
            if is_all {
                return Ok(());
            }
            if length == FIRST {
                self.pass_holes(component, by).await?;
            }
            length = MOST_AT_ONCE.0;
        }
    }

    /// Takes for looked at what comes next in a journal, as far as it is a hole: nearly all of one that was much used is.
    async fn pass_holes(self: &Rc<Self>, component: u32, by: (TargetId, u64)) -> Result<()> {
        let known = self.seen.borrow().get(&component).map_or(0, |seen| seen.end);
        let extent = async || self.extent(component).await;
        let read = async |at: u64, length: u64| self.journal(component, at, length).await;
        let passed = holes::passed(known, by, extent, read).await?;
        // Unless all was forgotten meanwhile: nobody has looked for it at what comes before that.
        if let Some(seen) = self.seen.borrow_mut().get_mut(&component).filter(|seen| seen.by == by && seen.end >= known)
        {
            seen.end = seen.end.max(passed);
        }
        Ok(())
    }

    /// How long a journal is, and what it takes; nothing, if there is no journal.
    async fn extent(self: &Rc<Self>, component: u32) -> Result<Option<Extent<(TargetId, u64)>>> {
        let (target, ..) = self.way(component)?;
        let stat = |id| Ask::Stat { id: companion(id), page: None };
        match self.ask(component, stat, Vec::new()).await {
            Ok(ObjectAnswer { reply: ObjectReply::Info(info), receipt, .. }) => {
                let by = (target, receipt.epoch);
                Ok(Some(Extent { by, size: info.head.size, used: info.head.used, version: info.head.version }))
            }
            Ok(answer) => Err(strange_answer(&answer.reply)),
            Err(error) if error.kind == Kind::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Bytes of a journal, and by whom they were read; nobody, if there is no journal.
    async fn journal(
        self: &Rc<Self>,
        component: u32,
        at: u64,
        length: u64,
    ) -> Result<(Slice, Option<(TargetId, u64)>)> {
        let (target, ..) = self.way(component)?;
        let read = |id| Ask::Read { id: companion(id), offset: at, length: length as u32 };
        match self.ask(component, read, Vec::new()).await {
            Ok(ObjectAnswer { payload, receipt, .. }) => Ok((payload.into_vec().into(), Some((target, receipt.epoch)))),
            Err(error) if error.kind == Kind::Missing => Ok((Slice::new(), None)),
            Err(error) => Err(error),
        }
    }
}
