//! What those who closed a file said of how long it is, while others have it open to write.
//!
//! Of two who ask how long it is and close it, the one who asked first may be heard last. How often the file was cut and how long it is
//! since only rises, so the greater of both counts, whoever says it when.
//!
//! Only in memory, and bounded: of what is not known the last counts. What a manager before this one knew of who has a file open still, this
//! one does not: it is looked up in the file itself then.

use forebay_model::{Bytes, Timestamp};
use forebay_wire::control::names::FileId;
use std::collections::BTreeMap;

/// Of so many files at most it is known.
const MOST: usize = 1 << 16;

/// How often files were cut, and how long they are since.
#[derive(Default)]
pub(crate) struct Lengths {
    files: BTreeMap<FileId, (u64, Bytes)>,
    /// When something was asked first.
    since: Option<Timestamp>,
}

impl Lengths {
    /// How long a file is of which somebody says that it was cut so often and is so long since.
    pub(crate) fn after(&self, file: FileId, cuts: Option<u64>, size: Bytes) -> Bytes {
        let said = |cuts| self.files.get(&file).copied().unwrap_or_default().max((cuts, size)).1;
        cuts.map_or(size, said)
    }

    /// Time goes on.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// Whether somebody who has had a file open since then may have asked how long it is before another one closed it, of which nothing is
    /// known here.
    pub(crate) fn may_lack(&self, file: FileId, open_since: Timestamp) -> bool {
        !self.files.contains_key(&file) && self.since.is_none_or(|since| open_since <= since)
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Somebody closed a file and said that; `others` have it open to write.
    pub(crate) fn closed(&mut self, file: FileId, cuts: Option<u64>, size: Option<Bytes>, others: bool) {
        if !others {
            self.files.remove(&file);
            return;
        }
        let (Some(cuts), Some(size)) = (cuts, size) else { return };
        if self.files.len() < MOST || self.files.contains_key(&file) {
            let said = self.files.entry(file).or_default();
            *said = (*said).max((cuts, size));
        }
    }
}

#[cfg(test)]
mod tests;
