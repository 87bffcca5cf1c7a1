//! Objects as users see them: what is known of one, what a volume may hold, and how names lead to them.
//!
//! A name such as `/data/x` is an object of its own, in the volume [`DEFAULT_VOLUME`], whose number follows from the
//! name ([`name_number`]). It has no bytes, but on [`NAMES`] says in full which name it is and which object has the
//! bytes ([`Content`]). So a name comes to be, or comes to mean other bytes, in one step.

use crate::ids::{ObjectId, TargetId};
use crate::size::Bytes;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The volume of objects that have names.
pub const DEFAULT_VOLUME: u64 = 1;
/// What the default volume is called.
pub const DEFAULT_VOLUME_NAME: &str = "default";
/// The page of attributes that names are kept on. Volumes are called by [`NAME`], too.
pub const NAMES: u32 = 1;
/// On [`NAMES`]: the name, in full. Of an object with bytes: the name that it was written for.
pub const NAME: u32 = 1;
/// On [`NAMES`], of a name: where its bytes are, see [`Content`].
pub const CONTENT: u32 = 2;

/// The page of attributes that a target keeps for itself.
pub const FENCES: u32 = 2;
/// On [`FENCES`]: of which version the capabilities for an object have to be, a number of 8 bytes, the least significant
/// first; [`FIRST_FENCE`] where it is missing.
pub const FENCE: u32 = 1;
/// The fence of an object for which nothing was revoked.
pub const FIRST_FENCE: u64 = 1;

/// The page of attributes that clients keep of a file's length: on each component that says it, under numbers of theirs, how often
/// the file was cut and its bytes since, both of 8 bytes, the least significant first.
pub const LENGTHS: u32 = 3;

/// An attribute: its page, its number on it, its value.
pub type Attribute = (u32, u32, Vec<u8>);

/// A change of an attribute: its page, its number on it, its value from now on, or none.
pub type AttributeChange = (u32, u32, Option<Vec<u8>>);

/// Attributes on a page: numbers and values.
pub type OnPage = Vec<(u32, Vec<u8>)>;

/// Attributes that one request sets or removes.
pub const MOST_SET: usize = 256;

/// The most that a volume may hold. Nothing is limited by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Bytes beyond which a warning is given.
    pub soft_bytes: Bytes,
    /// Bytes beyond which commands are refused.
    pub hard_bytes: Bytes,
    /// Objects beyond which a warning is given.
    pub soft_objects: u64,
    /// Objects beyond which commands are refused.
    pub hard_objects: u64,
}

impl Default for Quota {
    fn default() -> Quota {
        let most = Bytes(u64::MAX);
        Quota { soft_bytes: most, hard_bytes: most, soft_objects: u64::MAX, hard_objects: u64::MAX }
    }
}

/// What a volume holds and may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeUse {
    /// Users' objects in it.
    pub objects: u64,
    /// Space that they occupy.
    pub used: Bytes,
    /// The most that it may hold.
    pub quota: Quota,
}

/// A volume holds more than its soft quota: what was asked for was done, and something should be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverQuota {
    /// The volume.
    pub volume: u64,
    /// Space that its objects occupy.
    pub used: Bytes,
    /// Bytes beyond which a warning is given.
    pub soft_bytes: Bytes,
    /// How many objects it holds.
    pub objects: u64,
    /// Objects beyond which a warning is given.
    pub soft_objects: u64,
}

/// What a target keeps of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectHead {
    /// Bytes from the first to the last.
    pub size: u64,
    /// When it was created.
    pub created: Timestamp,
    /// When its bytes last changed.
    pub modified: Timestamp,
    /// When anything of it last changed.
    pub changed: Timestamp,
    /// Rises with every command that changes it.
    pub version: u64,
    /// Space that it occupies.
    pub used: Bytes,
    /// Of a volume: what it holds and may hold.
    pub volume: Option<VolumeUse>,
}

/// Where a write's bytes go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// Into the table of objects if the object stays small, to the nearest log if the write is small, else home.
    #[default]
    Auto,
    /// To a log, whatever its size: of an object that needs durability and is hardly read.
    Log,
    /// Home, whatever its size.
    Home,
}

/// When a write is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durability {
    /// When it survives a power cut.
    #[default]
    Durable,
    /// When it was taken in; it survives a power cut after a flush at the latest.
    Buffered,
}

/// What a flush makes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// What is buffered of an object.
    Object(ObjectId),
    /// What is buffered of an object, if any of it is in these bytes: from the first on, so many.
    Range(ObjectId, u64, u64),
    /// What is buffered of a volume's objects.
    Volume(u64),
    /// All that is buffered.
    Target,
}

/// Where the bytes of a name are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content {
    /// The target.
    pub target: TargetId,
    /// The object on it.
    pub id: ObjectId,
}

impl Content {
    /// The value of [`CONTENT`]: target, volume and object, least significant byte first.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.target.0.to_le_bytes().to_vec();
        bytes.extend(self.id.volume.to_le_bytes());
        bytes.extend(self.id.object.to_le_bytes());
        bytes
    }

    /// Reads the value of [`CONTENT`]; `None` if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Content> {
        let word = |at: usize| bytes.get(at..at + 8)?.try_into().map(u64::from_le_bytes).ok();
        let target = u128::from_le_bytes(bytes.get(..16)?.try_into().ok()?);
        let id = ObjectId { volume: word(16)?, object: word(24)? };
        (bytes.len() == 32).then_some(Content { target: TargetId(target), id })
    }
}

/// The number in its volume of the object that is the name `path`: SipHash-2-4 of its bytes, with a key of zeros, and
/// 1 where that is 0.
pub fn name_number(path: &str) -> u64 {
    siphasher::sip::SipHasher24::new().hash(path.as_bytes()).max(1)
}

#[cfg(test)]
mod tests;
