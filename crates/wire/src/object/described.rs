//! What a component says of its file, from when it was made: enough to read the file where nothing else is left that knows of it.
//! Bytes: `docs/format/files.md`.

use crate::control::names::Attributes;
use forebay_model::layout::Striping;
use forebay_model::object::Attribute;
use forebay_model::{TargetId, Timestamp};
use serde::{Deserialize, Serialize};

/// The page of attributes on which it is.
pub const DESCRIBED: u32 = 4;
/// Its number there.
const NUMBER: u32 = 1;
const VERSION: u8 = 1;
/// Of files with more components it is not said where these lie.
const MOST_TARGETS: usize = 128;

/// How a file was when a component of it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// How its bytes lie on components.
    pub striping: Striping,
    /// Where those lay, if there are not too many.
    pub targets: Vec<TargetId>,
    /// Who may do what with it.
    pub mode: u32,
    /// Whose it is.
    pub owner: u32,
    /// Of which group.
    pub group: u32,
    /// When it was made.
    pub created: Timestamp,
}

impl Described {
    /// A file as it is now.
    pub fn of(attributes: &Attributes, striping: Striping, targets: impl Iterator<Item = TargetId>) -> Described {
        let mut targets: Vec<TargetId> = targets.collect();
        if targets.len() > MOST_TARGETS {
            targets.clear();
        }
        let Attributes { mode, owner, group, created, .. } = *attributes;
        Described { striping, targets, mode, owner, group, created }
    }

    /// With which a component is made; none if it cannot be told.
    pub fn attributes(&self) -> Vec<Attribute> {
        let bytes = postcard::to_extend(self, vec![VERSION]);
        bytes.into_iter().map(|bytes| (DESCRIBED, NUMBER, bytes)).collect()
    }

    /// What the attributes on that page say; `None` if they say nothing that this release knows.
    pub fn find(found: &[(u32, Vec<u8>)]) -> Option<Described> {
        let (_, value) = found.iter().find(|(number, _)| *number == NUMBER)?;
        let rest = value.strip_prefix(&[VERSION])?;
        let described: Described = postcard::from_bytes(rest).ok()?;
        described.striping.check().ok()?;
        Some(described)
    }
}

#[cfg(test)]
mod tests;
