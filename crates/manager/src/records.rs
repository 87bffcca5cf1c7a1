//! What is kept under the keys, and its bytes: one of the version, a checksum of key and value, then postcard. A version that is
//! newer is refused.
//!
//! Always: what was damaged, or lies under another key than it was put under, is no value. Bytes: `docs/format/metadata.md`.

use crate::keys;
use crate::principal::Principal;
use forebay_model::block::crc32c_of;
use forebay_model::layout::Striping;
use forebay_model::{Bytes, Error, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::control::Reply;
use forebay_wire::control::cluster::TargetState;
use forebay_wire::control::names::{Attributes, Entry, FileId, FileKind};
use forebay_wire::control::volumes::{Policy, Quota, Volume};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of all values.
pub(crate) const VERSION: u8 = 1;
/// Bytes before a value: its version, and the checksum.
const BEFORE: usize = 5;
/// Numbers of files are below this, so that a component's object has a number of 64 bits.
pub(crate) const MOST_FILES: u64 = 1 << 52;

/// The cluster; written once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) cluster: u128,
    pub(crate) root_key: [u8; 32],
}

/// How often a manager was opened: only the last one may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Term(pub(crate) u64);

/// Epochs of the cluster's map, how often all keys were rolled, and when that was last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Epochs {
    pub(crate) epoch: u64,
    pub(crate) least: u64,
    pub(crate) rolled: u32,
    pub(crate) rolled_at: Timestamp,
}

/// The numbers that are given next; none is given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Next {
    pub(crate) file: u64,
    pub(crate) volume: u64,
}

/// What copies on targets may lack; not there if there are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Copied {
    /// The object with which their chain began; 0 if one is to begin, with those keys.
    pub(crate) base: u64,
    /// The last batch of changes that all of them have.
    pub(crate) batch: u64,
    /// What was changed since.
    pub(crate) keys: Vec<Vec<u8>>,
}

/// Targets whose copies lack nothing but that; not there if there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopiedOn(pub(crate) Vec<TargetId>);

/// How far copies can have been written: what goes beyond that was written with a newer engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    /// The last opening that began an object; the greatest number if this was made anew and has not begun any.
    pub(crate) term: u64,
    /// The object that was written last, and how long it was before this; 0 if that opening has written none yet.
    pub(crate) object: u64,
    pub(crate) at: u64,
    /// The last batch of changes.
    pub(crate) batch: u64,
}

/// A file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inode {
    pub(crate) parent: FileId,
    pub(crate) attributes: Attributes,
    /// Whether a file was ever open to write: if not, it has no objects.
    pub(crate) written: bool,
}

/// A file or directory that is to be made.
pub(crate) struct Fresh {
    pub(crate) kind: FileKind,
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    pub(crate) volume: u64,
}

impl Fresh {
    /// Its attributes when it was made just now.
    pub(crate) fn attributes(self, now: Timestamp) -> Attributes {
        let Fresh { kind, mode, owner, group, volume } = self;
        Attributes {
            kind,
            mode,
            owner,
            group,
            size: Bytes::ZERO,
            entries: 0,
            created: now,
            modified: now,
            accessed: now,
            changed: now,
            volume,
            version: 1,
        }
    }
}

/// What is under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) file: FileId,
    pub(crate) kind: FileKind,
}

/// Where the bytes of a file lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub(crate) striping: Striping,
    /// One for each component, in their order.
    pub(crate) targets: Vec<TargetId>,
    /// Components that lack something, by number.
    pub(crate) absent: Vec<Absent>,
}

/// Where a component lies that no target was found to have, and of which nothing else knows where that was: what was there is lost.
pub(crate) const NOWHERE: TargetId = TargetId(0);

/// A component that lacks something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Absent {
    pub(crate) component: u32,
    /// Whoever was given something of this version of the file or a newer one knows that it does.
    pub(crate) since: u64,
    pub(crate) absence: Absence,
}

/// What is done about that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Absence {
    /// Nothing yet.
    Missed,
    /// This client empties it.
    Emptying(u64),
    /// This client fills it, and everybody writes it.
    Filling(u64),
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VolumeRecord {
    pub(crate) root: FileId,
    pub(crate) quota: Quota,
    pub(crate) policy: Policy,
    pub(crate) bytes: Bytes,
    pub(crate) files: u64,
    /// Since when the soft bound of bytes is passed, and that of files.
    pub(crate) bytes_over_since: Option<Timestamp>,
    pub(crate) files_over_since: Option<Timestamp>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserRecord {
    pub(crate) name: String,
    pub(crate) groups: Vec<u32>,
    pub(crate) keys: Vec<u64>,
}

/// The user of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserNumber(pub(crate) u32);

/// An access key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyRecord {
    pub(crate) user: u32,
    pub(crate) secret: [u8; 32],
    pub(crate) label: String,
    pub(crate) issued: Timestamp,
}

/// A client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientRecord {
    pub(crate) user: u32,
    /// When it changed something last, an hour more or less.
    pub(crate) used: Timestamp,
}

/// What a client was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remembered {
    pub(crate) sequence: u64,
    /// The first half of a hash of what it asked for.
    pub(crate) asked: [u8; 16],
    pub(crate) answer: Answer,
}

/// An answer, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "a commit has some hundred of them at most")]
pub(crate) enum Answer {
    /// Well.
    Reply(Reply),
    /// Not well.
    Error(Error),
    /// A file is open to write; capabilities for it are not kept, but made anew.
    Opened(FileId),
    /// Others are called back first.
    Calling,
}

/// Who has a file open to write.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Writers(pub(crate) Vec<Writer>);

/// A client that has a file open to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Writer {
    pub(crate) client: u64,
    /// Whose client it was: its number alone is no proof.
    pub(crate) user: u32,
    pub(crate) since: Timestamp,
    /// It does without locks, and so bears nobody else.
    pub(crate) alone: bool,
    /// It makes way for who wants to be alone with it.
    pub(crate) yields: bool,
    /// It can be called back, and then bears others.
    pub(crate) cached: bool,
}

/// A client that said that it keeps what it reads, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CachesRecord {
    pub(crate) since: Timestamp,
}

/// A client whose access key was revoked, and until when the last of what it had would have counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShutOutRecord {
    pub(crate) until: Timestamp,
}

/// A file that has to be scrubbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToScrub {
    pub(crate) since: Timestamp,
}

/// When a file was read and compared last, and when something of it was found damaged last that this did not come to; 0 if it never was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VerifiedAt {
    pub(crate) at: Timestamp,
    pub(crate) found: Option<Timestamp>,
}

/// What targets have to do with the objects of a file; the key says whether that is to remove them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) volume: u64,
    pub(crate) version: u64,
    /// A removal is not told before: until then, capabilities for what is removed count.
    pub(crate) due: Timestamp,
    /// Components of which it is not known that it was done, and where they lie.
    pub(crate) pending: Vec<(u32, TargetId)>,
}

/// Components of a file that are copied, or are to be: away from where nothing is to stay, or so that targets are filled evenly.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Moves(pub(crate) Vec<Move>);

/// A component that is copied to another target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Move {
    pub(crate) component: u32,
    pub(crate) to: TargetId,
    /// The client that does it; 0 if nobody does, or it had to make way.
    pub(crate) by: u64,
    /// Nothing has to leave where it lies: targets are to be filled evenly.
    pub(crate) even: bool,
    /// Of a part of a ring what it left behind, and not where it lies.
    pub(crate) former: bool,
}

/// Parts of a ring that are to leave the targets on which they lie, or have left them and were not run over since.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RingMoves(pub(crate) Vec<RingMove>);

/// A part of a ring that has another place beside that of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RingMove {
    pub(crate) component: u32,
    /// Where it is to go; or where it was, as long as what was recorded before is read there.
    pub(crate) target: TargetId,
    /// It has left that target.
    pub(crate) moved: bool,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    pub(crate) user: u32,
    pub(crate) address: String,
    pub(crate) up: bool,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TargetRecord {
    pub(crate) node: u64,
    pub(crate) state: TargetState,
    pub(crate) openings: u64,
    pub(crate) size: Bytes,
    /// What was free, a twentieth of the size more or less.
    pub(crate) free: Bytes,
    /// How often its own key was rolled.
    pub(crate) rolled: u32,
    /// The last change of its objects that was durable a minute before it was reported last, by its number.
    pub(crate) recorded: u64,
}

impl RingMoves {
    /// The entry of a part; there is one at most.
    pub(crate) fn of(&self, component: u32) -> Option<RingMove> {
        self.0.iter().find(|it| it.component == component).copied()
    }

    /// Where parts lie beside where the layout says.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, TargetId)> {
        self.0.iter().map(|it| (it.component, it.target))
    }
}

impl TargetRecord {
    /// Whether what is on it is lost.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.state, TargetState::Failed | TargetState::Gone)
    }
}

impl Writer {
    /// Whether this is who asks.
    pub(crate) fn is(&self, by: &Principal) -> bool {
        (self.client, self.user) == (by.client, by.user)
    }
}

impl Inode {
    /// As it is told.
    pub(crate) fn entry(&self, file: FileId) -> Entry {
        Entry { file, parent: self.parent, attributes: self.attributes.clone() }
    }

    /// Whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.attributes.kind == FileKind::Directory
    }
}

impl VolumeRecord {
    /// A volume with nothing in it but its root.
    pub(crate) fn fresh(root: FileId, quota: Quota, policy: Policy) -> VolumeRecord {
        let (bytes_over_since, files_over_since) = (None, None);
        VolumeRecord { root, quota, policy, bytes: Bytes(0), files: 1, bytes_over_since, files_over_since }
    }

    /// As it is told.
    pub(crate) fn volume(&self, volume: u64) -> Volume {
        let VolumeRecord { root, quota, policy, bytes, files, bytes_over_since, files_over_since } = *self;
        let over_since = [bytes_over_since, files_over_since].into_iter().flatten().min();
        Volume { volume, root, quota, policy, bytes, files, over_since }
    }
}

impl Layout {
    /// The components, as orders name them.
    pub(crate) fn components(&self) -> Vec<(u32, TargetId)> {
        (0..).zip(self.targets.iter().copied()).collect()
    }

    /// What is done about a component that lacks something.
    pub(crate) fn absence(&self, component: u32) -> Option<Absence> {
        self.absent.iter().find(|absent| absent.component == component).map(|absent| absent.absence)
    }
}

/// The object of a component: twelve bits of its number are the component's, those above are the file's.
pub(crate) fn object(volume: u64, file: FileId, component: u32) -> ObjectId {
    ObjectId { volume, object: file.0 << 12 | u64::from(component) }
}

/// The file and the component of an object.
pub(crate) fn component_of(object: ObjectId) -> (FileId, u32) {
    (FileId(object.object >> 12), (object.object & 0xfff) as u32)
}

/// A value as it is kept under `key`.
pub(crate) fn encode(key: &[u8], value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(128);
    bytes.push(VERSION);
    bytes.extend_from_slice(&[0; 4]);
    let mut bytes = postcard::to_extend(value, bytes)
        .map_err(|error| Error::usage(format!("metadata cannot be encoded: {error}; ask for less at a time")))?;
    let crc = crc32c_of([key, &bytes[..1], &bytes[BEFORE..]]);
    bytes[1..BEFORE].copy_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

/// What of `bytes` is the value that was put under `key`. Its version is looked at behind the checksum, which every version has at
/// the same place: what is damaged is taken for nothing else.
fn checked<'a>(key: &[u8], bytes: &'a [u8]) -> Result<&'a [u8]> {
    let Some((head, rest)) = bytes.split_first_chunk::<BEFORE>() else { return Err(damaged(key, "it is too short")) };
    let [version, crc @ ..] = *head;
    if crc32c_of([key, &[version], rest]) != u32::from_le_bytes(crc) {
        return Err(damaged(key, "its checksum is wrong"));
    }
    match version {
        VERSION => Ok(rest),
        version if version > VERSION => Err(Error::version(format!(
            "{} is metadata of version {version}, and this release knows {VERSION}; use a newer one",
            keys::in_words(key)
        ))),
        _ => Err(damaged(key, "its version is none")),
    }
}

/// Whether `bytes` are what was put under `key`; [`forebay_model::Kind::Damaged`] if not.
pub(crate) fn check(key: &[u8], bytes: &[u8]) -> Result<()> {
    checked(key, bytes).map(drop)
}

/// A value that is kept under `key`.
pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(checked(key, bytes)?) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(damaged(key, &format!("{} bytes are too many", rest.len()))),
        Err(error) => Err(damaged(key, &error.to_string())),
    }
}

/// What is said of what is under a key and not as it was put there.
pub(crate) fn damaged(key: &[u8], what: &str) -> Error {
    Error::damaged(format!(
        "the manager's metadata are damaged: {}, {what}, and nothing is taken from it; end the manager, and have them made anew of \
         the targets with `forebay manager recover --over`",
        keys::in_words(key)
    ))
}

#[cfg(test)]
mod tests;
