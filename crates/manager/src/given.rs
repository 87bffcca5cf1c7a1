//! Which clients were given capabilities with which access key, as long as these count: whom nothing is to count any more for
//! when the key is revoked.
//!
//! Only in memory, and bounded: where it does not know, it says so.

use forebay_model::Timestamp;
use std::collections::BTreeMap;

/// How many are remembered, each a key and a client.
const MOST: usize = 1 << 16;

/// Who has what with which key.
#[derive(Default)]
pub(crate) struct Given {
    /// By key and client: until when the last of it counts.
    until: BTreeMap<(u64, u64), Timestamp>,
    /// Until when what another manager gave counts, or what is not remembered any more; `None` until the time is known.
    unknown: Option<Timestamp>,
}

impl Given {
    /// What was given by another manager, before this one was opened, counts until then.
    pub(crate) fn begin(&mut self, until: Timestamp) {
        self.unknown.get_or_insert(until);
    }

    /// A client that was let in with a key is given something that counts until then.
    pub(crate) fn note(&mut self, key: u64, client: u64, until: Timestamp, now: Timestamp) {
        if self.until.len() >= MOST && !self.until.contains_key(&(key, client)) {
            self.until.retain(|_, until| *until > now);
            if self.until.len() >= MOST {
                self.unknown = self.until.values().copied().chain(self.unknown).max();
                self.until.clear();
            }
        }
        let last = self.until.entry((key, client)).or_insert(until);
        *last = until.max(*last);
    }

    /// The clients of which it is known that they have something with this key, and until when.
    pub(crate) fn with(&self, key: u64, now: Timestamp) -> Vec<(u64, Timestamp)> {
        let of_key = self.until.range((key, 0)..=(key, u64::MAX));
        of_key.filter(|(_, until)| now < **until).map(|((_, client), until)| (*client, *until)).collect()
    }

    /// Whether there are no others than those that are known.
    pub(crate) fn knows_all(&self, now: Timestamp) -> bool {
        self.unknown.is_some_and(|unknown| now >= unknown)
    }
}

#[cfg(test)]
mod tests;
