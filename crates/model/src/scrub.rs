//! What a scrub has looked over and found.

use crate::{Bytes, TargetId, Timestamp};
use serde::{Deserialize, Serialize};

/// How far the scrub of a target is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// The target.
    pub target: TargetId,
    /// What people call its device.
    pub device: String,
    /// When it began, perhaps long ago: it goes on where it was.
    pub began: Timestamp,
    /// Bytes that it has read since.
    pub done: Bytes,
    /// Bytes that there are to be read, about.
    pub total: Bytes,
    /// Whether it has come to the end; the next one begins anew.
    pub finished: bool,
    /// What it has found since it began.
    pub damaged: u64,
    /// What it has found in this step.
    pub found: Vec<Finding>,
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The ring or the object that it belongs to.
    pub owner: String,
    /// What it is, and why it is damaged.
    pub what: String,
    /// Where it lies on the device.
    pub at: Bytes,
    /// How much of it.
    pub length: Bytes,
    /// What to do.
    pub remedy: String,
}
