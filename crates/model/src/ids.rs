//! Names that never change.

use std::fmt;

/// A ring on one target; never used again after the ring is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct RingId(pub u64);

impl fmt::Display for RingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ring {}", self.0)
    }
}

/// A formatted device, by chance at format time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct TargetId(pub u128);

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// An object on a target. The root object is `0/0`, a volume's own object `V/0`, users' objects `V/O`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ObjectId {
    /// The volume: objects that share quota and policy.
    pub volume: u64,
    /// The object in it.
    pub object: u64,
}

impl ObjectId {
    /// The object that stands for the whole target.
    pub const ROOT: ObjectId = ObjectId { volume: 0, object: 0 };
    /// No id is above this one.
    pub const LAST: ObjectId = ObjectId { volume: u64::MAX, object: u64::MAX };

    /// The object that stands for a volume.
    pub const fn volume(volume: u64) -> ObjectId {
        ObjectId { volume, object: 0 }
    }

    /// Whether users may keep bytes in it.
    pub fn is_user(self) -> bool {
        self.volume != 0 && self.object != 0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {:x}/{:x}", self.volume, self.object)
    }
}
