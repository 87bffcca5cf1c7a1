//! The components of an open file where they really are: objects on targets of nodes, reached with capabilities.
//!
//! - A component that was never written is no object yet: it reads as nothing, and is made by the first write.
//! - A capability is renewed when it is refused as stale, or shortly before its time is over.
//! - How long the file is, is an attribute of some components, see [`length`].
//! - Intents lie in the companion of a component, see [`journal`].

mod absences;
mod asking;
#[cfg(test)]
mod fake;
mod journal;
mod length;
mod locks;

use super::components::{Absence, Asked, Begun, Components, Intent, IntentId, Lock, Slice};
use super::together::to_its_end;
use crate::control::Control;
use crate::granted::{Renewing, strange_answer};
use crate::nodes::Nodes;
use forebay_env::allowance::Allowance;
use forebay_model::layout::address::StripeId;
use forebay_model::object::{Durability, FIRST_FENCE, Placement, Scope};
use forebay_model::{Bytes, Error, Kind, Moment, Result, TargetId};
use forebay_wire::control::Change;
use forebay_wire::control::files::{FoundDamaged, Grant};
use forebay_wire::object::{Ask, MOST_AT_ONCE, ObjectAnswer, ObjectReply};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// How long the manager is not told again that something of a file is damaged.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// What all of one client have in common that have a file open, or had it.
#[derive(Default)]
pub struct Ours {
    /// The newest version of the file of which anybody has a grant.
    newest: Cell<u64>,
    /// Numbers under which it was said how long the file is, and what was said last; nobody uses them now.
    words: RefCell<Vec<(u32, Word)>>,
}

/// How often a file was cut, and how long it is since.
type Word = (u64, Bytes);

/// One time that a file is open. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    is_left: Rc<Cell<bool>>,
}

impl Opening {
    /// It was not closed: whoever mends the file has everything shut out that it has under way, also if this client opens it again.
    pub fn leave(&self) {
        self.is_left.set(true);
    }

    /// Whether it was.
    pub fn is_left(&self) -> bool {
        self.is_left.get()
    }
}

/// An open file's components. Clones are the same ones.
#[derive(Clone)]
pub struct RemoteComponents {
    shared: Rc<Shared>,
}

struct Shared {
    nodes: Nodes,
    control: Rc<dyn Control>,
    grant: RefCell<Grant>,
    /// Where targets are, as the manager said last.
    addresses: RefCell<BTreeMap<TargetId, String>>,
    /// When it was asked for that last because one did not answer; and who asks.
    looked_up: Cell<Option<Moment>>,
    looking: Allowance,
    /// Targets whose devices have become slow, as their answers said last.
    slow: RefCell<BTreeSet<TargetId>>,
    /// How often each component was left that ever was.
    left: RefCell<BTreeMap<u32, u64>>,
    /// Components that are objects, as far as this client knows.
    made: RefCell<BTreeSet<u32>>,
    /// The boot epochs of targets in which something of a component was buffered.
    epochs: RefCell<BTreeMap<u32, u64>>,
    /// The intents of this client, and how long they are.
    own: RefCell<BTreeMap<(u32, IntentId), u64>>,
    /// Those of them that may be there twice: their answers were waited for while something was asked again.
    perhaps_twice: RefCell<BTreeSet<(u32, IntentId)>>,
    /// What is known of the journals of components.
    seen: RefCell<BTreeMap<u32, journal::Seen>>,
    /// What this client said of the file's length: how often it was cut, and how long it is.
    said: Cell<Option<Word>>,
    /// How often the file was cut, and how long it is since, as far as this client has heard or said.
    known: Cell<Word>,
    /// Under which number it says how long the file is, and what was said so before it had the file open.
    number: u32,
    before: Word,
    /// Some of those that are to hear it may have heard something that others have not.
    is_unsure: Cell<bool>,
    /// Nobody else writes the file.
    is_alone: Cell<bool>,
    /// What others said of a component, if nobody else says anything any more.
    others: RefCell<BTreeMap<u32, BTreeSet<u32>>>,
    renewing: Renewing,
    /// When the manager was told that something is damaged.
    told_of_damage: Cell<Option<Moment>>,
    locks: locks::Held,
    ours: Rc<Ours>,
    /// Nobody is answered any more by what was given up, or lay elsewhere, before this version; and who asks whether that is so.
    certain: Cell<u64>,
    asking: Allowance,
    /// This client has shown this version to each component: nobody changes anything any more who shows less; and who
    /// has it raised.
    shown: Cell<u64>,
    fencing: Allowance,
    /// Nothing was asked with the grant yet.
    is_fresh: Cell<bool>,
    opening: Opening,
}

impl RemoteComponents {
    /// The components of a file that the manager has opened; `is_alone`, if nobody else writes it. `of`: what all of this client have in
    /// common that have it open, and which time of these it is.
    pub async fn open(
        nodes: Nodes,
        control: Rc<dyn Control>,
        grant: Grant,
        is_alone: bool,
        of: (Rc<Ours>, Opening),
    ) -> Result<RemoteComponents> {
        let components = RemoteComponents { shared: Rc::new(Shared::new(nodes, control, grant, is_alone, of)) };
        components.shared.look_up().await?;
        Ok(components)
    }

    /// Shows the newest version of the file to all components: nobody changes anything any more who has an older one.
    pub async fn show(&self) -> Result<()> {
        self.shared.show().await
    }

    /// Starts at once, and proceeds on its own.
    fn start<T: 'static>(&self, future: impl Future<Output = Result<T>> + 'static) -> Asked<T> {
        Box::pin(to_its_end(&self.shared.nodes.env().spawner, future))
    }
}

impl Shared {
    fn new(
        nodes: Nodes,
        control: Rc<dyn Control>,
        grant: Grant,
        is_alone: bool,
        (ours, opening): (Rc<Ours>, Opening),
    ) -> Shared {
        ours.newest.set(ours.newest.get().max(grant.entry.attributes.version));
        let word = ours.words.borrow_mut().pop();
        let (number, before) = word.unwrap_or_else(|| ((nodes.env().random.next_u64() as u32).max(1), Word::default()));
        Shared {
            nodes,
            control,
            grant: RefCell::new(grant),
            addresses: RefCell::default(),
            looked_up: Cell::default(),
            looking: Allowance::new(1),
            slow: RefCell::default(),
            left: RefCell::default(),
            made: RefCell::default(),
            epochs: RefCell::default(),
            own: RefCell::default(),
            perhaps_twice: RefCell::default(),
            seen: RefCell::default(),
            said: Cell::new(None),
            known: Cell::default(),
            number,
            before,
            is_unsure: Cell::new(false),
            is_alone: Cell::new(is_alone),
            others: RefCell::default(),
            renewing: Renewing::default(),
            told_of_damage: Cell::new(None),
            locks: locks::Held::default(),
            ours,
            // Of the first version nothing was ever given up.
            certain: Cell::new(1),
            shown: Cell::new(FIRST_FENCE),
            fencing: Allowance::new(1),
            asking: Allowance::new(1),
            is_fresh: Cell::new(true),
            opening,
        }
    }

    async fn read(self: &Rc<Self>, component: u32, at: Bytes, length: Bytes) -> Result<Slice> {
        let mut pieces = Vec::new();
        let (mut offset, end) = (at.0, at.0.saturating_add(length.0));
        while offset < end {
            let piece = (end - offset).min(MOST_AT_ONCE.0) as u32;
            let answer = self.ask(component, |id| Ask::Read { id, offset, length: piece }, Vec::new()).await;
            let some = match answer {
                Ok(answer) => answer.payload.into_bytes(),
                Err(error) if error.kind == Kind::Missing => Slice::new(),
                Err(error) => return Err(error),
            };
            offset += some.len() as u64;
            let is_last = (some.len() as u64) < u64::from(piece);
            pieces.push(some);
            if is_last {
                break;
            }
        }
        match pieces.len() {
            1 => Ok(pieces.swap_remove(0)),
            _ => Ok(pieces.concat().into()),
        }
    }

    async fn write(
        self: &Rc<Self>,
        component: u32,
        at: Bytes,
        bytes: Vec<Slice>,
        durability: Durability,
    ) -> Result<()> {
        let length: usize = bytes.iter().map(Slice::len).sum();
        if length as u64 > MOST_AT_ONCE.0 {
            return Err(Error::usage(format!(
                "{length} bytes at once are too many for a component: {MOST_AT_ONCE} at most"
            )));
        }
        let write = |id| Ask::Write { id, offset: at.0, placement: Placement::Auto, durability };
        let is_made = self.made.borrow().contains(&component);
        if !is_made {
            self.make(component, |id| id).await?;
            self.made.borrow_mut().insert(component);
        }
        let answer = self.ask_of_made(component, |id| id, write, bytes).await?;
        if durability == Durability::Buffered {
            self.epochs.borrow_mut().entry(component).or_insert(answer.receipt.epoch);
        }
        Ok(())
    }

    async fn lose(self: &Rc<Self>, component: u32, at: Bytes, length: Bytes) -> Result<()> {
        let (end, mut offset) = ((at + length).0, at.0);
        while offset < end {
            let length = (end - offset).min(MOST_AT_ONCE.0);
            self.ask_of_made(component, |id| id, |id| Ask::Lose { id, offset, length }, Vec::new()).await?;
            offset += length;
        }
        Ok(())
    }

    async fn flush(self: &Rc<Self>, component: u32) -> Result<()> {
        let epoch = self.epochs.borrow_mut().remove(&component);
        let flush = |id| Ask::Flush { scope: Scope::Object(id), epoch };
        match self.ask(component, flush, Vec::new()).await {
            // What others buffered becomes durable too; of what was never made there is nothing.
            Err(error) if epoch.is_none() && error.kind == Kind::Missing => Ok(()),
            flushed => flushed.map(drop),
        }
    }

    async fn size(self: &Rc<Self>, component: u32) -> Result<Bytes> {
        match self.ask(component, |id| Ask::Stat { id, page: None }, Vec::new()).await {
            Ok(ObjectAnswer { reply: ObjectReply::Info(info), .. }) => Ok(Bytes(info.head.size)),
            Ok(answer) => Err(strange_answer(&answer.reply)),
            Err(error) if error.kind == Kind::Missing => Ok(Bytes::ZERO),
            Err(error) => Err(error),
        }
    }
}

impl Components for RemoteComponents {
    fn read(&self, component: u32, at: Bytes, length: Bytes) -> Asked<Slice> {
        let shared = self.shared.clone();
        self.start(async move { shared.read(component, at, length).await })
    }

    fn write(&self, component: u32, at: Bytes, bytes: Vec<Slice>, durability: Durability) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.write(component, at, bytes, durability).await })
    }

    fn lose(&self, component: u32, at: Bytes, length: Bytes) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.lose(component, at, length).await })
    }

    fn truncate(&self, component: u32, size: Bytes) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move {
            let truncate = |id| Ask::Truncate { id, size: size.0 };
            match shared.ask(component, truncate, Vec::new()).await {
                Err(error) if error.kind == Kind::Missing && size == Bytes::ZERO => Ok(()),
                Err(error) if error.kind == Kind::Missing => {
                    shared.ask_of_made(component, |id| id, truncate, Vec::new()).await.map(drop)
                }
                answer => answer.map(drop),
            }
        })
    }

    fn size(&self, component: u32) -> Asked<Bytes> {
        let shared = self.shared.clone();
        self.start(async move { shared.size(component).await })
    }

    fn flush(&self, component: u32) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.flush(component).await })
    }

    fn lock(&self, component: u32, stripe: StripeId) -> Asked<Lock> {
        let shared = self.shared.clone();
        self.start(async move { shared.lock(component, stripe).await })
    }

    fn may_write(&self) -> bool {
        self.shared.grant.borrow().write
    }

    fn found_damaged(&self) {
        let (shared, now) = (self.shared.clone(), self.shared.nodes.env().clock.now());
        if shared.told_of_damage.get().is_some_and(|told| now.since(told) < TOLD_AGAIN) {
            return;
        }
        shared.told_of_damage.set(Some(now));
        self.shared.nodes.env().spawner.detach(async move {
            let file = shared.grant.borrow().entry.file;
            // Whoever finds it the next time says so again.
            drop(shared.control.change(Change::FoundDamaged(FoundDamaged { file })).await);
        });
    }

    fn set_alone(&self, alone: bool) {
        self.shared.is_alone.set(alone);
        // Who says something now is not one of those that had ended.
        self.shared.others.borrow_mut().clear();
    }

    fn begun(&self, component: u32, stripe: StripeId) -> Asked<Option<Begun>> {
        let shared = self.shared.clone();
        self.start(async move { shared.begun(component, stripe).await })
    }

    fn intend(&self, component: u32, intent: Intent) -> Asked<IntentId> {
        let shared = self.shared.clone();
        self.start(async move { shared.intend(component, intent).await })
    }

    fn settle(&self, component: u32, id: IntentId) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.settle(component, id).await })
    }

    fn intents(&self, component: u32) -> Asked<Vec<(IntentId, Intent)>> {
        let shared = self.shared.clone();
        self.start(async move { shared.intents(component).await })
    }

    fn shut_out(&self) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.fence(shared.version() + 1).await })
    }

    fn missed(&self, components: Vec<u32>) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.give_up(components).await })
    }

    fn missing(&self) -> Asked<Vec<(u32, Absence)>> {
        let shared = self.shared.clone();
        self.start(async move {
            if !shared.is_fresh.get() {
                shared.renew().await?;
            }
            Ok(shared.absent())
        })
    }

    fn absent(&self) -> Vec<(u32, Absence)> {
        self.shared.absent()
    }

    fn is_slow(&self, component: u32) -> bool {
        self.shared.is_slow(component)
    }

    fn is_silent(&self, component: u32) -> bool {
        self.shared.is_silent(component)
    }

    fn leave(&self, component: u32) {
        *self.shared.left.borrow_mut().entry(component).or_default() += 1;
    }

    fn filling(&self, component: u32) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.refill(component).await })
    }

    fn rebuilt(&self, component: u32) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.filled(component).await })
    }

    fn grown(&self, size: Bytes) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.grown(size).await })
    }

    fn cut(&self, size: Bytes) -> Asked<()> {
        let shared = self.shared.clone();
        self.start(async move { shared.cut(size).await })
    }

    fn length(&self) -> Asked<Bytes> {
        let shared = self.shared.clone();
        self.start(async move { Ok(shared.heard().await?.1) })
    }

    fn cuts(&self) -> u64 {
        self.shared.known.get().0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What may be there in part would count against less that is said later.
        if !self.is_unsure.get() {
            let word = self.said.get().unwrap_or_default().max(self.before);
            self.ours.words.borrow_mut().push((self.number, word));
        }
    }
}

fn restarted(component: u32) -> Error {
    Error::new(
        Kind::Restarted,
        format!(
            "the target of component {component} was opened again, and what was buffered may be lost: write it again"
        ),
    )
}

#[cfg(test)]
mod tests;
