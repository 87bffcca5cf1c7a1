//! Who was given capabilities for which file, as long as they count: those with which somebody may still be answered by a
//! component that was given up since.
//!
//! Only in memory, and bounded: of what it does not know it takes the worst.

use forebay_model::Timestamp;
use forebay_wire::control::names::FileId;
use std::collections::BTreeMap;

/// How many are remembered, each a client and a file.
const MOST: usize = 1 << 18;

/// Who has what.
#[derive(Default)]
pub(crate) struct Holders {
    files: BTreeMap<FileId, Vec<Holder>>,
    count: usize,
    /// Files with this number or a higher one were made since this manager was opened.
    first_known: u64,
    /// Until when what another manager gave for older ones counts; `None` until the time is known.
    before: Option<Timestamp>,
    /// Until then anybody may have been given something that is not remembered any more.
    forgotten: Option<Timestamp>,
}

/// What a client was given for a file.
struct Holder {
    client: u64,
    /// It has a grant of this version, and uses no older one.
    known: u64,
    until: Timestamp,
}

impl Holders {
    /// Nobody was given anything for files from this number on.
    pub(crate) fn from(first_known: u64) -> Holders {
        Holders { first_known, ..Holders::default() }
    }

    /// What was given by another manager, before this one was opened, counts until then.
    pub(crate) fn begin(&mut self, until: Timestamp) {
        self.before.get_or_insert(until);
    }

    /// A client is given something for a version of a file, which a target may take until then. Whether it gets it is not
    /// known before it says so.
    pub(crate) fn note(&mut self, file: FileId, client: u64, version: u64, until: Timestamp, now: Timestamp) {
        if self.count >= MOST {
            self.forget(now);
        }
        let of_file = self.files.entry(file).or_default();
        let there = of_file.len();
        of_file.retain(|holder| holder.until > now);
        // Something newer makes nothing older count for longer.
        match of_file.iter_mut().find(|holder| holder.client == client && holder.known >= version) {
            Some(holder) => holder.until = holder.until.max(until),
            None => of_file.push(Holder { client, known: version, until }),
        }
        self.count = self.count + of_file.len() - there;
    }

    /// A client says that it has a grant for this version of a file.
    pub(crate) fn knows(&mut self, file: FileId, client: u64, version: u64) {
        let of_file = self.files.get_mut(&file).into_iter().flatten();
        of_file.filter(|holder| holder.client == client).for_each(|holder| holder.known = holder.known.max(version));
    }

    /// Until when somebody may use what was given for an older version of a file than this one.
    pub(crate) fn until(&self, file: FileId, version: u64) -> Option<Timestamp> {
        let holders = self.files.get(&file).into_iter().flatten();
        let older = holders.filter(|holder| holder.known < version).map(|holder| holder.until);
        let before = self.before.filter(|_| file.0 < self.first_known);
        older.chain(before).chain(self.forgotten).max()
    }

    /// Makes room: what counts no more is forgotten, and of the rest the half that counts for the shortest time is not told apart
    /// any more.
    fn forget(&mut self, now: Timestamp) {
        let mut untils: Vec<Timestamp> = self.files.values().flatten().map(|holder| holder.until).collect();
        untils.sort_unstable();
        let half = untils.get(untils.len() / 2).copied().unwrap_or(now).max(now);
        if half > now {
            self.forgotten = self.forgotten.max(Some(half));
        }
        self.files.retain(|_, holders| {
            holders.retain(|holder| holder.until > half);
            !holders.is_empty()
        });
        self.count = self.files.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests;
