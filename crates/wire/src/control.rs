//! The control plane: what clients, nodes and people ask of the manager, and what it answers, as plain types.
//!
//! - [`names`]: directories, files and their attributes; [`volumes`]: trees that share quota and policy.
//! - [`files`]: files that are open: where their bytes lie, and the capabilities for them.
//! - [`access`]: users, their keys, and how a connection proves whose it is.
//! - [`cluster`]: nodes, targets, and what a node reports.
//!
//! A [`Change`] is durable when it is answered, and comes in a [`Call`] with a number: asked again under that number, it
//! is not done again but answered as it was. A [`Question`] changes nothing. A [`cluster::Report`] says how things are,
//! and may be repeated. Every type has public fields, and each case of an enum holds one struct at most, so that each is
//! one message of an interface definition. What each does and how it fails: `docs/protocol/control.md`.

pub mod access;
pub mod cluster;
pub mod files;
pub mod names;
pub mod volumes;

use access::{IssueKey, IssuedKey, Key, Keys, RemoveUser, RevokeKey, User};
use cluster::{AddNode, Map, RemoveNode, RollKeys, SetTarget};
use files::{
    After, AskDegraded, AskUnverified, Called, ClientGone, Close, Component, CreateHeap, CreateRing, Degraded,
    Displaced, Fence, FoundDamaged, GiveUp, GivenUp, Grant, Grants, Listen, MakeWay, OpenFiles, OpenHeap, OpenRing,
    OpenToRead, OpenToWrite, Rebuilt, Refill, Relocate, Relocated, Relocating, Relocation, Renew, Revoke, Scrubbed,
    Unscrubbed, Unverified, Verified,
};
use names::{CreateFile, Entry, List, MakeDirectory, Page, RemoveDirectory, RemoveFile, Rename, SetAttributes, Stat};
use serde::{Deserialize, Serialize};
use volumes::{CreateVolume, RemoveVolume, SetVolume, Volume};

/// How many changes of a client are remembered: one for each remainder of their numbers by this. A number is too low when one
/// that is higher by so much was used.
pub const REMEMBERED: u64 = 1024;

/// A change, and the number under which its client asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The client's own, each higher than those before; a change that is asked for again has the same number again.
    pub sequence: u64,
    /// What is to be done.
    pub change: Change,
}

/// What changes something, durably.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// [`Reply::Entry`], or [`Reply::Grant`] if it is to be open.
    CreateFile(CreateFile),
    /// [`Reply::Entry`].
    MakeDirectory(MakeDirectory),
    /// [`Reply::Entry`], as it is now.
    SetAttributes(SetAttributes),
    /// [`Reply::Entry`], where it is now.
    Rename(Rename),
    /// [`Reply::Done`].
    RemoveFile(RemoveFile),
    /// [`Reply::Done`].
    RemoveDirectory(RemoveDirectory),
    /// [`Reply::Volume`].
    CreateVolume(CreateVolume),
    /// [`Reply::Volume`], as it is now.
    SetVolume(SetVolume),
    /// [`Reply::Done`].
    RemoveVolume(RemoveVolume),
    /// Makes a user or gives it another name and other groups: [`Reply::Done`].
    SetUser(User),
    /// [`Reply::Done`].
    RemoveUser(RemoveUser),
    /// [`Reply::IssuedKey`].
    IssueKey(IssueKey),
    /// [`Reply::Done`].
    RevokeKey(RevokeKey),
    /// [`Reply::Grant`].
    OpenToWrite(OpenToWrite),
    /// [`Reply::Entry`], as it is now.
    Close(Close),
    /// [`Reply::Done`].
    Revoke(Revoke),
    /// Nothing that was given out before counts any more: [`Reply::Done`].
    RevokeAll,
    /// [`Reply::Unscrubbed`]: what it left open to write, or the first of it.
    ClientGone(ClientGone),
    /// [`Reply::Done`].
    Scrubbed(Scrubbed),
    /// [`Reply::Done`].
    AddNode(AddNode),
    /// [`Reply::Done`].
    RemoveNode(RemoveNode),
    /// [`Reply::Done`].
    SetTarget(SetTarget),
    /// [`Reply::Done`].
    RollKeys(RollKeys),
    /// [`Reply::Done`].
    Fence(Fence),
    /// [`Reply::Done`].
    GiveUp(GiveUp),
    /// [`Reply::Done`].
    Refill(Refill),
    /// [`Reply::Done`].
    Rebuilt(Rebuilt),
    /// [`Reply::Grant`].
    CreateRing(CreateRing),
    /// [`Reply::Done`].
    Relocate(Relocate),
    /// [`Reply::Done`].
    Relocated(Relocated),
    /// [`Reply::Done`].
    Verified(Verified),
    /// This client is going to keep what it reads, and listens when it is called back: [`Reply::Done`].
    Caches,
    /// [`Reply::Done`].
    FoundDamaged(FoundDamaged),
    /// [`Reply::Grant`].
    CreateHeap(CreateHeap),
}

/// What changes nothing, and may be asked as often as one likes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// [`Reply::Entry`].
    Stat(Stat),
    /// [`Reply::Page`].
    List(List),
    /// All volumes: [`Reply::Volumes`].
    Volumes,
    /// All users: [`Reply::Users`].
    Users,
    /// The keys of a user, without what is secret: [`Reply::Keys`].
    Keys(Keys),
    /// [`Reply::Grant`].
    OpenToRead(OpenToRead),
    /// [`Reply::Grants`], in the order in which they were asked for.
    Renew(Renew),
    /// Who has which file open to write: [`Reply::OpenFiles`].
    OpenFiles(After),
    /// What clients that are gone left open to write: [`Reply::Unscrubbed`].
    Unscrubbed(After),
    /// The nodes and targets of the cluster: [`Reply::Map`].
    Map,
    /// Files of which components have to be rebuilt: [`Reply::Degraded`].
    Degraded(AskDegraded),
    /// Whether nobody is answered any more by components that were given up: [`Reply::Done`], or
    /// [`forebay_model::Kind::Busy`] until then.
    GivenUp(GivenUp),
    /// [`Reply::Grant`].
    OpenRing(OpenRing),
    /// [`Reply::Relocation`].
    Relocating(Relocating),
    /// Files with components that are to lie elsewhere: [`Reply::Displaced`].
    Displaced(After),
    /// [`Reply::Unverified`].
    Unverified(AskUnverified),
    /// [`Reply::Called`].
    Listen(Listen),
    /// [`Reply::Done`] when it may be opened, or in some seconds.
    MakeWay(MakeWay),
    /// With what each target is asked about itself ([`crate::target`]): [`Reply::Targets`].
    Targets,
    /// [`Reply::Grant`].
    OpenHeap(OpenHeap),
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// A file or a directory.
    Entry(Entry),
    /// A part of a directory.
    Page(Page),
    /// A volume.
    Volume(Volume),
    /// Volumes, by number.
    Volumes(Vec<Volume>),
    /// Users, by number.
    Users(Vec<User>),
    /// A key that was made just now.
    IssuedKey(IssuedKey),
    /// Keys, by their ids.
    Keys(Vec<Key>),
    /// A file that may be read or written.
    Grant(Grant),
    /// Several of these.
    Grants(Grants),
    /// Files that are open to write.
    OpenFiles(OpenFiles),
    /// Files that have to be scrubbed.
    Unscrubbed(Unscrubbed),
    /// The cluster.
    Map(Map),
    /// Files of which components have to be rebuilt.
    Degraded(Degraded),
    /// With what a component is copied.
    Relocation(Relocation),
    /// Files with components that are to lie elsewhere.
    Displaced(Displaced),
    /// Files that were not verified for long.
    Unverified(Unverified),
    /// What is to be kept no more.
    Called(Called),
    /// Others are called back who keep something of the file that is to be opened: [`Question::MakeWay`] says when it may be.
    Calling,
    /// For each target that is not gone, by id, what allows to ask it about itself.
    Targets(Vec<Component>),
}

#[cfg(test)]
mod tests;
