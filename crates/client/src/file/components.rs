//! What can be asked of one open file's components: plain commands about objects, and locks.
//!
//! A component is an object on a target. What an engine relies on:
//!
//! - A request proceeds on its own from when it is made, also if nobody polls it. Requests about the same bytes of a
//!   component may be done in any order while both are under way; the engine never has two such of which one writes.
//! - Of what fails, [`is_lost`] says whether the component is lost for now. Whoever implements this has asked again
//!   until there was no hope, renewed what was stale, and connected anew.
//! - What a client acknowledged without a component, that component must never serve: [`Components::missed`].
//! - Of a client that is gone nothing is done any more, at any component, once its locks are handed on or its intents are
//!   told: its connections have ended everywhere, or what it may do was revoked.
//! - What a client began and did not end, whoever comes next ends: [`Components::intents`], [`Lock::left`].

use forebay_model::layout::address::{Place, StripeId};
use forebay_model::layout::update::Extent;
use forebay_model::object::Durability;
use forebay_model::{Bytes, Error, Kind, Result, TargetId};
use std::any::Any;
use std::future::Future;
use std::pin::Pin;

/// Bytes that several may hold, and parts of which are taken without a copy.
pub use bytes::Bytes as Slice;

/// Something that was asked. It starts when it is asked, and proceeds on its own.
pub type Asked<T> = Pin<Box<dyn Future<Output = Result<T>>>>;

/// Holds a lock until it is dropped.
pub type Guard = Box<dyn Any>;

/// Which intent of those beside a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IntentId(pub u64);

/// Bytes that are written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redo {
    /// Where they belong.
    pub place: Place,
    /// The bytes.
    pub bytes: Slice,
}

/// What a client is about to do, in one stripe or at the end of the file: enough to do it again from the beginning,
/// however much of it was done, and also without one component. In this order: cut, written, made equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intent {
    /// The stripe; the first one, if it is about copies in several.
    pub stripe: StripeId,
    /// The file is cut to so many bytes.
    pub cut: Option<Bytes>,
    /// What is written, with parity.
    pub writes: Vec<Redo>,
    /// Copies that may differ then: those of these parts of a first copy. Each of them has, of each write, all or nothing.
    pub agree: Vec<Extent>,
}

/// A stripe that nobody else updates.
pub struct Lock {
    /// Until this is dropped.
    pub guard: Guard,
    /// What was begun with this stripe and not settled, as kept beside the component that was asked: it is done first.
    pub left: Vec<(IntentId, Intent)>,
}

/// Why a component is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// It missed something: it is not written either.
    Missed,
    /// It is being rebuilt: it is written.
    Filling,
}

/// What was begun beside a component by some moment: equal to what it was at another one if nothing was begun between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Begun {
    /// The version of the file.
    pub version: u64,
    /// By which target this was said, and since when that is open.
    pub by: Option<(TargetId, u64)>,
    /// How much was kept there.
    pub end: u64,
}

/// What can be asked of one open file's components.
pub trait Components {
    /// Whether this client may write the file, and lock its stripes.
    fn may_write(&self) -> bool {
        true
    }

    /// Something was damaged and made of the others, and this client may not write it again: somebody else is to.
    fn found_damaged(&self) {}

    /// Nobody else writes the file from now on, or others may.
    fn set_alone(&self, _: bool) {}

    /// What was begun beside a component; nothing as long as a change of this stripe is not ended.
    fn begun(&self, component: u32, stripe: StripeId) -> Asked<Option<Begun>>;

    /// Bytes of a component, as many as there are up to `length`: what was never written inside is zero, behind its end it
    /// is short. A component that was never made has none. [`Kind::Damaged`] if some of these bytes are lost.
    fn read(&self, component: u32, at: Bytes, length: Bytes) -> Asked<Slice>;

    /// Written wholly or not at all; `bytes` one behind the other.
    fn write(&self, component: u32, at: Bytes, bytes: Vec<Slice>, durability: Durability) -> Asked<()>;

    /// These bytes of a component are lost: reading any of them is [`Kind::Damaged`] until they are written again. Durable. In whole
    /// blocks of [`forebay_wire::object::LOST_TOGETHER`], but for a last one in which the component ends; it is so long at least.
    fn lose(&self, component: u32, at: Bytes, length: Bytes) -> Asked<()>;

    /// Cuts a component, or lengthens it with zeros. Durable.
    fn truncate(&self, component: u32, size: Bytes) -> Asked<()>;

    /// Bytes of a component from the first to the last; zero if it was never made.
    fn size(&self, component: u32) -> Asked<Bytes>;

    /// Makes durable all that was written. [`Kind::Restarted`], once, if some that this client wrote may be lost; until then
    /// whatever else is asked of the component answers the same.
    fn flush(&self, component: u32) -> Asked<()>;

    /// Serialises updates of a stripe (of RAID 1: of one unit and its copies) among all clients, until the guard is dropped
    /// or the client's connection ends. Every client asks the same component: the first that is not missing of those that
    /// have the stripe's parity and data, or the unit's copies, in this order. Of three copies or more, all that are not
    /// missing are asked, in this order.
    fn lock(&self, component: u32, stripe: StripeId) -> Asked<Lock>;

    /// Keeps, durably, what is about to be done, beside a component.
    fn intend(&self, component: u32, intent: Intent) -> Asked<IntentId>;

    /// It was done: forgotten, durably.
    fn settle(&self, component: u32, id: IntentId) -> Asked<()>;

    /// What was intended and not settled by other clients, in the order in which it was intended.
    fn intents(&self, component: u32) -> Asked<Vec<(IntentId, Intent)>>;

    /// Of whoever had the file open before and is gone nothing is done any more when this is answered, also nothing that is under way
    /// to a component; who is still there asks again.
    fn shut_out(&self) -> Asked<()>;

    /// These components lack something that is about to be acknowledged. When this is answered it is durable, and no
    /// client will be answered by them any more, by [`Kind::Stale`] if at all, until somebody has rebuilt them.
    fn missed(&self, components: Vec<u32>) -> Asked<()>;

    /// The components that missed something and were not rebuilt.
    fn missing(&self) -> Asked<Vec<(u32, Absence)>>;

    /// The same as far as this client knows it, without asking. Whoever got a lock knows what was given up before, and what is
    /// rebuilt.
    fn absent(&self) -> Vec<(u32, Absence)>;

    /// Whether the device of a component takes several times as long as it once did at the worst, as its node said last.
    fn is_slow(&self, component: u32) -> bool;

    /// Whether the node of a component takes requests and answers none, and those of enough others are there.
    fn is_silent(&self, component: u32) -> bool;

    /// Nobody waits any longer for what changes a component and is under way. It may still be done; but it is not asked again, as the
    /// component may be another one by then.
    fn leave(&self, component: u32);

    /// A rebuild of such a component begins. When this is answered, its number stands for an empty one, without intents, and
    /// every client that has the file open knows, and writes it, and does not read it.
    fn filling(&self, component: u32) -> Asked<()>;

    /// Such a component has everything again, and is read. Durable. [`Kind::Stale`] if it missed something since.
    fn rebuilt(&self, component: u32) -> Asked<()>;

    /// The file is so long at least: what is in it up to there was acknowledged. Of what one client says the last counts:
    /// it says one thing after the other, and no less than before. Durable, with as many copies as the file's
    /// bytes have to spare (an attribute of several components, or the name's).
    fn grown(&self, size: Bytes) -> Asked<()>;

    /// The file is so long and not longer. Durable, as [`Components::grown`].
    fn cut(&self, size: Bytes) -> Asked<()>;

    /// What was last said by [`Components::grown`] or [`Components::cut`].
    fn length(&self) -> Asked<Bytes>;

    /// How often the file was cut, as far as is known without asking.
    fn cuts(&self) -> u64 {
        0
    }
}

/// Whether an error says that a component is lost for now, rather than that the request was wrong or has no room.
pub fn is_lost(error: &Error) -> bool {
    matches!(
        error.kind,
        Kind::Device | Kind::Disconnected | Kind::Busy | Kind::Stale | Kind::Restarted | Kind::Missing | Kind::Version
    )
}

/// Whether an error of anything but reading bytes says that the component is lost: also if it is there, and what tells of it is
/// damaged. Bytes that are damaged are made of the others and written again, before the rest is given up.
pub fn is_lost_or_damaged(error: &Error) -> bool {
    is_lost(error) || error.kind == Kind::Damaged
}
