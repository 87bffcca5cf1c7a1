//! What may be chosen of how a target keeps objects, and of how a volume's small writes are made durable.

use crate::size::Bytes;
use serde::{Deserialize, Serialize};

/// The page of attributes that a target itself looks at.
pub const PAGE: u32 = u32::MAX;
/// On [`PAGE`], of an object or a volume: which writes go to a log ([`Logging`]).
pub const LOGGING: u32 = 1;

/// Which writes of an object go to a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logging {
    /// Those of up to so many bytes; they go home when there is time.
    UpTo(Bytes),
    /// All that fit a log, and they stay there until logs are full: for what is to be durable and is hardly ever read,
    /// as a database's commit log (Manylogs, 2016, section 3.5).
    Always,
}

impl Logging {
    /// The value of [`LOGGING`]: 0 and the bytes as `u64`, least significant byte first, or 1.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Logging::UpTo(bytes) => [&[0][..], &bytes.0.to_le_bytes()].concat(),
            Logging::Always => vec![1],
        }
    }

    /// Reads the value of [`LOGGING`]; `None` if it is none.
    pub fn decode(value: &[u8]) -> Option<Logging> {
        match value {
            [0, bytes @ ..] => Some(Logging::UpTo(Bytes(u64::from_le_bytes(bytes.try_into().ok()?)))),
            [1] => Some(Logging::Always),
            _ => None,
        }
    }
}

/// What was chosen for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSettings {
    /// Durable writes of up to so many bytes go to a log, where neither the object nor its volume says otherwise.
    pub logged_up_to: Bytes,
    /// A log near the arm that is filled to so many percent is emptied into another one when there is a pause.
    pub hot_percent: u32,
    /// A log less than so many groups away is near enough.
    pub near_groups: u32,
    /// Memory for what is read ahead, at most.
    pub cache: Bytes,
}

/// What is to be chosen anew; the rest stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsChange {
    /// See [`TargetSettings::logged_up_to`].
    pub logged_up_to: Option<Bytes>,
    /// See [`TargetSettings::hot_percent`].
    pub hot_percent: Option<u32>,
    /// See [`TargetSettings::near_groups`].
    pub near_groups: Option<u32>,
    /// See [`TargetSettings::cache`].
    pub cache: Option<Bytes>,
}

impl SettingsChange {
    /// What was chosen, but for what is chosen anew.
    pub fn over(self, before: TargetSettings) -> TargetSettings {
        TargetSettings {
            logged_up_to: self.logged_up_to.unwrap_or(before.logged_up_to),
            hot_percent: self.hot_percent.unwrap_or(before.hot_percent),
            near_groups: self.near_groups.unwrap_or(before.near_groups),
            cache: self.cache.unwrap_or(before.cache),
        }
    }
}
