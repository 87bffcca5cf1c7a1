//! Records on their way into one request; a large one goes in several.

use forebay_wire::heap::{HeapAsk, MOST_RECORDS};
use forebay_wire::object::MOST_AT_ONCE;

/// What is gathered for a request.
#[derive(Default)]
pub(super) struct Batch {
    payload: Vec<u8>,
    lengths: Vec<u32>,
    /// Bytes of the first one that went in the requests before.
    from: u64,
    /// Bytes of the record that is being added which are in this batch and before.
    done: u64,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Takes as much of a record as there is room for. If that is not all, or no more records have room, what has to be
    /// sent now; it is to be called until nothing has.
    pub(super) fn add(&mut self, record: &mut &[u8]) -> Option<(HeapAsk, Vec<u8>)> {
        let (most, mut rest) = (MOST_AT_ONCE.0 as usize, *record);
        if rest.is_empty() {
            return None;
        }
        // What fits a request is not cut.
        if !self.is_empty() && self.payload.len() + rest.len() > most {
            return self.take();
        }
        let length = rest.len().min(most);
        self.payload.extend_from_slice(&rest[..length]);
        self.lengths.push(length as u32);
        rest = &rest[length..];
        *record = rest;
        self.done += length as u64;
        if !rest.is_empty() {
            let whole = self.done;
            let (ask, payload) = self.take()?;
            (self.from, self.done) = (whole, whole);
            return Some((more(ask), payload));
        }
        self.done = 0;
        if self.lengths.len() == MOST_RECORDS { self.take() } else { None }
    }

    /// All that is gathered, if there is anything.
    pub(super) fn take(&mut self) -> Option<(HeapAsk, Vec<u8>)> {
        if self.is_empty() {
            return None;
        }
        let Batch { payload, lengths, from, .. } = std::mem::take(self);
        Some((HeapAsk::Put { lengths, from, more: false }, payload))
    }
}

/// The same, whose last record goes on in the next one.
fn more(ask: HeapAsk) -> HeapAsk {
    match ask {
        HeapAsk::Put { lengths, from, .. } => HeapAsk::Put { lengths, from, more: true },
        ask => ask,
    }
}

#[cfg(test)]
mod tests;
