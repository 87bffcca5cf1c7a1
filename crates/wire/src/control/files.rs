//! Files that are open: where their bytes lie, the capabilities for that, and who has left what behind.

use super::access::Hidden;
use super::names::{Entry, FileId, Place};
use forebay_model::layout::Striping;
use forebay_model::{Bytes, ObjectId, TargetId, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most files of one [`Renew`].
pub const MOST_RENEWED: usize = 64;
/// The most clients that have one file open to write.
pub const MOST_WRITERS: usize = 64;

/// Opens a file to write (and to read) it. The manager remembers that it is open, until it is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenToWrite {
    /// Which.
    pub place: Place,
    /// Nobody else may have it open to write, nor open it, until it is closed: whoever is alone need not lock.
    pub alone: bool,
    /// It is opened to be mended, rebuilt or scrubbed, which no quota and no number of writers forbids; only root may.
    pub upkeep: bool,
    /// Whoever wants to be alone with it comes first: then this client does not have it open any more.
    pub yields: bool,
    /// What the client may keep of it the manager says, and calls it back.
    pub cached: bool,
}

/// Opens a file to read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenToRead {
    /// Which.
    pub place: Place,
    /// What the client may keep of it the manager says, and calls it back.
    pub cached: bool,
}

/// What a client may keep of a file that it has open, without asking anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Caching {
    /// Nothing: what is written is durable when it is answered, and what is read comes from targets.
    Nothing,
    /// What was read, and how long the file is: nobody writes it.
    Shared,
    /// Also what was written: nobody else uses it.
    Exclusive,
}

/// What a client may keep of a file, as long as it is in touch with the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// The file.
    pub file: FileId,
    /// What it may keep.
    pub caching: Caching,
    /// Of what a client is told of one file, the highest number counts.
    pub serial: u64,
}

/// What a client keeps of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The file.
    pub file: FileId,
    /// What it keeps; if nothing is said, it has the file open no more.
    pub caching: Option<Caching>,
    /// The number under which it was told so, or to keep less.
    pub serial: u64,
    /// Whether it has the file open to write.
    pub write: bool,
}

/// Asks what is to be kept no more, or may be again, and says what is kept by now. Answered when there is something, or in some
/// seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    /// What changed since it was asked last.
    pub kept: Vec<Kept>,
    /// That is all that this client keeps, of all files; or a part of it.
    pub all: bool,
    /// Of all that it keeps, which part this is, from 0 on, each behind the one before.
    pub part: u32,
    /// Of all that it keeps, there is another part.
    pub more: bool,
}

/// The most files of one [`Listen`], and of its answer: others wait while these are looked at.
pub const MOST_KEPT: usize = 1 << 10;
/// For so long a client keeps what it may from when it asked last.
pub const LEASE: Duration = Duration::from_secs(10);

/// What a client is to keep no more, or may again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Called {
    /// Of these files.
    pub files: Vec<Callback>,
    /// The manager does not know what this client keeps: it says that, or keeps nothing any more.
    pub unknown: bool,
    /// There was no room to wait in: it asks again after a while.
    pub crowded: bool,
}

/// Asks to be told when others keep nothing of a file any more that is in the way of opening it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeWay {
    /// Which.
    pub place: Place,
    /// Whether it is to be opened to write.
    pub write: bool,
    /// Whether it is to be opened by one who keeps what it may.
    pub cached: bool,
}

/// The most targets that may have refused a ring or a heap before it is put on another one.
pub const MOST_REFUSALS: usize = 1024;

/// Makes a ring: its name, and the targets on which it is to be. The rings there its client makes: what can be promised,
/// only a target knows. Those that refuse are named the next time, and others take their places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateRing {
    /// Where.
    pub place: Place,
    /// Its mode.
    pub mode: u32,
    /// Space to run round in.
    pub capacity: Bytes,
    /// Targets that refused it: it is put on none of these.
    pub refused_by: Vec<TargetId>,
    /// Targets that have its elements, each a share of the capacity.
    pub targets: u32,
    /// Whether one more has their parity.
    pub parity: bool,
    /// The entry is there, and only what lies on targets that refused it is put on others.
    pub again: bool,
    /// The entry is there, and this part of it is to leave the target on which it lies: another one is named, where it is made
    /// before anything is recorded there.
    pub leaving: Option<u32>,
}

/// Opens a ring. The manager does not remember it: that one alone records into it, its target sees to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRing {
    /// Which.
    pub place: Place,
    /// Whether it is to be recorded into, or changed.
    pub write: bool,
}

/// Makes a heap: its name, and the target on which it is to be. The heap there its client makes; a target that refuses is named
/// the next time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateHeap {
    /// Where.
    pub place: Place,
    /// Its mode.
    pub mode: u32,
    /// Targets that refused it: it is put on none of these.
    pub refused_by: Vec<TargetId>,
}

/// Opens a heap. The manager does not remember it: transactions are its target's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenHeap {
    /// Which.
    pub place: Place,
    /// Whether records are to be put into it or freed.
    pub write: bool,
}

/// Says that a file is written no more, and how it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {
    /// Which.
    pub file: FileId,
    /// Its size; if it is not said, that stays.
    pub size: Option<Bytes>,
    /// When it was written last; if it is not said, that stays.
    pub modified: Option<Timestamp>,
    /// It was mended or rebuilt: its size is charged whether or not that passes a quota; only root may.
    pub upkeep: bool,
    /// What this client began may not be ended: the file is to be mended.
    pub unfinished: bool,
    /// How often the file was cut before it had that size: what another one said that has closed it since, of as many cuts and more
    /// bytes or of more cuts, is not undone.
    pub cuts: Option<u64>,
}

/// Asks for the same again, for as long again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    /// Files, and whether they are open to write.
    pub files: Vec<Renewed>,
}

/// A file that is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Which.
    pub file: FileId,
    /// Whether it is open to write.
    pub write: bool,
    /// The newest version of the file of which this client has a grant: it uses no older one any more.
    pub version: u64,
}

/// A file that may be read or written for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The file.
    pub entry: Entry,
    /// Whether it may be written.
    pub write: bool,
    /// How its bytes are striped over its components.
    pub striping: Striping,
    /// Its components, in the order of the layout. One that was never written is not there, and reads as zeros.
    pub components: Vec<Component>,
    /// Until when, by the clocks of targets.
    pub until: Timestamp,
    /// What the client may keep of it, if it asked.
    pub callback: Option<Callback>,
    /// Parts of a ring that move to other targets, or did.
    pub moving: Vec<Moving>,
    /// Who opens it to write is told: somebody who wrote it is gone or did not end what it began, and it is not mended yet.
    pub left: bool,
}

/// A part of a ring that is to leave the target on which it lies, or has left it and was not run over since. While it is to leave, only who
/// may record is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// Which.
    pub component: u32,
    /// Where it is to go, or where it was before; nothing if that is not known yet.
    pub place: Option<Component>,
    /// It has left that place: what was recorded before is read there.
    pub moved: bool,
}

/// What lies of a file on one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// The target.
    pub target: TargetId,
    /// The object there.
    pub object: ObjectId,
    /// The capability: [`crate::capability::LENGTH`] bytes.
    pub capability: Vec<u8>,
    /// Its secret: 32 bytes.
    pub secret: Hidden,
    /// Whether it has all that was written.
    pub state: ComponentState,
}

/// Whether a component has all that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComponentState {
    /// It has.
    Whole,
    /// It has not: it is neither read nor written, and there is no capability for it.
    Missed,
    /// The same, and whoever is told so empties it.
    Emptying,
    /// It is being rebuilt: it is written, and not read. That of a ring lies elsewhere since its target was lost, and what it has is
    /// read as well.
    Filling,
}

/// For each file that was to be renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// In the order in which they were asked for.
    pub grants: Vec<Granted>,
}

/// A grant, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The file that may be used.
    pub grant: Option<Grant>,
    /// Why not.
    pub error: Option<forebay_model::Error>,
}

/// Takes back what was given out for a file: targets are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    /// Which.
    pub file: FileId,
}

/// Shuts out of a file whoever was given something for it before its version was this one: a client asks for that when somebody
/// who lost a lock may go on all the same. Whoever has the file open renews.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// Which.
    pub file: FileId,
    /// The version that it has at least: at most one more than it has.
    pub version: u64,
}

/// Says that components lack something that is about to be acknowledged: nobody gets a capability for them from now on, until
/// they were rebuilt. Those that were given out count on for a while, see [`GivenUp`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveUp {
    /// Of which file.
    pub file: FileId,
    /// Which.
    pub components: Vec<u32>,
    /// The version that the file has, as this client knows it.
    pub version: u64,
}

/// Asks whether nobody is answered any more by the components of a file that were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// Which.
    pub file: FileId,
    /// The newest version of the file of which this client has a grant: it uses no older one any more.
    pub version: u64,
}

/// Has a component that missed something rebuilt by this client. It is said twice: first the client may empty it, where it is or
/// where it lies from now on; once it is empty everybody writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refill {
    /// Of which file.
    pub file: FileId,
    /// Which.
    pub component: u32,
    /// The version that the file has, as this client knows it.
    pub version: u64,
    /// It is empty.
    pub emptied: bool,
}

/// Says that a component has everything again that this client rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuilt {
    /// Of which file.
    pub file: FileId,
    /// Which.
    pub component: u32,
    /// The version that the file has, as this client knows it.
    pub version: u64,
}

/// Says that a client is gone: what it had open to write has to be scrubbed. One step holds so many files: as long as the
/// answer says that there are more, it is said again, under another number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientGone {
    /// Which.
    pub client: u64,
}

/// Says that a file was scrubbed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// Which.
    pub file: FileId,
}

/// Says that all of a file was read and compared with its parity or copies, and that what could be mended is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Which.
    pub file: FileId,
    /// When that began, by the clock of who did it: what was found damaged since may have been read before.
    pub began: Option<Timestamp>,
}

/// Says that something of a file was found damaged, and made of the others, by somebody who may not write it: it is to be verified
/// soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundDamaged {
    /// Which.
    pub file: FileId,
}

/// Asks for files that were not verified for long, a part of all files at a time. Left out are those of which something is to be
/// rebuilt or mended first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskUnverified {
    /// Only files with higher numbers; `FileId(0)`: from the first on.
    pub after: FileId,
    /// How many at most.
    pub most: u32,
    /// Only those that were neither made nor verified since.
    pub since: Timestamp,
}

/// Files that were not verified for long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unverified {
    /// By file.
    pub files: Vec<FileId>,
    /// Behind which file it goes on; `None` if there are no more.
    pub next: Option<FileId>,
}

/// Files that are open to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFiles {
    /// By file; of one, all that write it.
    pub files: Vec<OpenFile>,
    /// Whether there are more.
    pub more: bool,
}

/// A file that a client has open to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// Which.
    pub file: FileId,
    /// Who.
    pub client: u64,
    /// Since when.
    pub since: Timestamp,
}

/// Files whose stripes may be half written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unscrubbed {
    /// By file.
    pub files: Vec<FileId>,
    /// Whether there are more.
    pub more: bool,
}

/// Asks for files of which components have to be rebuilt, a part of them at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskDegraded {
    /// Only files with higher numbers; `FileId(0)`: from the first on.
    pub file: FileId,
    /// How many at most.
    pub most: u32,
    /// Only those of which something is left to be begun: of the others, clients that have them open rebuild everything.
    pub left: bool,
}

/// Files of which components have to be rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    /// By file.
    pub files: Vec<FileId>,
    /// Whether there are more.
    pub more: bool,
}

/// Has a component of a file copied by this client, to where it is to lie. It is alone with the file
/// meanwhile; who wants to write it comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocate {
    /// Of which file.
    pub file: FileId,
    /// Of a heap or a ring, which others use while it is copied: all is copied but for what was written since, and from now on nobody else
    /// uses it.
    pub last: bool,
}

/// Asks with what a component is copied, which this client was to copy; also again, for as long again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocating {
    /// Of which file.
    pub file: FileId,
}

/// With what a component is copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocation {
    /// Which.
    pub component: u32,
    /// The version that the file has.
    pub version: u64,
    /// Where it lies: it is read there.
    pub from: Component,
    /// Where it is to lie: it is emptied and written there.
    pub to: Component,
    /// Until when these count, by the clocks of targets.
    pub until: Timestamp,
    /// Nothing is to stay where it lies; otherwise it is moved so that targets are filled evenly, and others come first.
    pub hurries: bool,
}

/// Says that a component was copied: from now on it lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocated {
    /// Of which file.
    pub file: FileId,
    /// Which.
    pub component: u32,
    /// The version that the file has, as this client knows it.
    pub version: u64,
    /// Nothing was copied: who records a part of a ring goes on there.
    pub recorded: bool,
}

/// Files with components that are to lie elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Displaced {
    /// By file.
    pub files: Vec<FileId>,
    /// Whether there are more.
    pub more: bool,
}

/// Asks for files of a list, a part at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    /// Only files with higher numbers; `FileId(0)`: from the first on.
    pub file: FileId,
    /// How many at most.
    pub most: u32,
}
