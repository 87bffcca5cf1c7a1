//! Volumes: trees of names that share a quota and a policy.

use super::names::{FileId, Place};
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Bytes, Timestamp};
use serde::{Deserialize, Serialize};

/// How files are striped, if nothing else is said of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// What is kept beside the bytes.
    pub raid: Raid,
    /// Bytes of a stripe unit.
    pub unit: Bytes,
    /// Over how many targets at most; 0: over all.
    pub targets: u32,
}

impl Default for Policy {
    /// One unit of parity on nine of data, where there are so many targets.
    fn default() -> Policy {
        Policy { raid: Raid::Five, unit: UNIT, targets: 10 }
    }
}

/// How much a volume may have; what is not there is not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quota {
    /// Bytes that may be passed for a week.
    pub soft_bytes: Option<Bytes>,
    /// Bytes that are never passed.
    pub hard_bytes: Option<Bytes>,
    /// Files and directories that may be passed for a week.
    pub soft_files: Option<u64>,
    /// Files and directories that are never passed.
    pub hard_files: Option<u64>,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Its number, as targets know it; it never is another's.
    pub volume: u64,
    /// The directory that is its root.
    pub root: FileId,
    /// How much it may have.
    pub quota: Quota,
    /// How its files are striped.
    pub policy: Policy,
    /// The sum of its files' sizes.
    pub bytes: Bytes,
    /// Its files and directories, with its root.
    pub files: u64,
    /// Since when a soft bound is passed; of several, the one that was passed first.
    pub over_since: Option<Timestamp>,
}

/// Makes a directory that is the root of a volume of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateVolume {
    /// Where.
    pub place: Place,
    /// The mode of the directory.
    pub mode: u32,
    /// The user that it belongs to.
    pub owner: u32,
    /// The group that it belongs to.
    pub group: u32,
    /// How much it may have.
    pub quota: Quota,
    /// How its files are striped.
    pub policy: Policy,
}

/// Gives a volume another quota or policy; what is not there stays. Files that are there stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetVolume {
    /// Which.
    pub volume: u64,
    /// How much it may have.
    pub quota: Option<Quota>,
    /// How its files are striped.
    pub policy: Option<Policy>,
}

/// Removes a volume with nothing in it, and its directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveVolume {
    /// The directory that is its root.
    pub place: Place,
}
