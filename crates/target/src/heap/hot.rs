//! Records that were read lately, in buffers of 1 MiB. When room is wanted, the oldest buffer goes; what was asked for
//! again while it was there, the *hot set*, moves on (RWStore, 2010, and its sources). Pure: no I/O.
//!
//! Invariant: what finds them takes memory for each record that is here, and none for others, however far apart they lie.

use super::allocation::Slot;
use super::slot;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a buffer, with what finds the records in it.
const BUFFER: usize = 1 << 20;
/// Bytes that it takes to find a record, about.
const FINDING: usize = 64;
/// Reads at which a record is hot.
const HOT: u8 = 1;

#[derive(Debug, Clone, Copy)]
struct Place {
    /// The number of the buffer.
    buffer: u64,
    at: u32,
    hits: u8,
}

#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

impl Page {
    fn fits(&self, length: usize) -> bool {
        self.bytes.len() + length + (self.slots.len() + 1) * FINDING <= BUFFER
    }
}

/// The records.
pub struct Hot {
    /// The oldest is the first; its number.
    buffers: VecDeque<Page>,
    first: u64,
    places: BTreeMap<Slot, Place>,
    most: usize,
    hits: u64,
}

impl Hot {
    /// In so many buffers at most.
    pub fn new(buffers: usize) -> Hot {
        Hot { buffers: VecDeque::new(), first: 1, places: BTreeMap::new(), most: buffers, hits: 0 }
    }

    /// The bytes of a slot, if they are here.
    pub fn get(&mut self, slot: Slot) -> Option<&[u8]> {
        let place = self.places.get_mut(&slot)?;
        place.hits = place.hits.saturating_add(1);
        self.hits += 1;
        let place = *place;
        Some(self.bytes(place))
    }

    fn bytes(&self, place: Place) -> &[u8] {
        let bytes = &self.buffers[(place.buffer - self.first) as usize].bytes[place.at as usize..];
        &bytes[..slot::end(bytes)]
    }

    /// Reads that were served from here.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Takes in what was read.
    pub fn put(&mut self, slot: Slot, bytes: &[u8]) {
        if self.most == 0 || self.places.contains_key(&slot) {
            return;
        }
        self.append(slot, bytes);
        if self.buffers.len() > self.most
            && let Some(oldest) = self.buffers.pop_front()
        {
            let number = self.first;
            self.first += 1;
            self.recycle(number, &oldest);
        }
    }

    fn append(&mut self, slot: Slot, bytes: &[u8]) {
        let fits = self.buffers.back().is_some_and(|last| last.fits(bytes.len()));
        if !fits {
            self.buffers.push_back(Page { bytes: Vec::with_capacity(BUFFER), slots: Vec::new() });
        }
        let buffer = self.first + self.buffers.len() as u64 - 1;
        let last = self.buffers.back_mut().expect("there is one now");
        self.places.insert(slot, Place { buffer, at: last.bytes.len() as u32, hits: 0 });
        last.bytes.extend_from_slice(bytes);
        last.slots.push(slot);
    }

    /// What is hot in a buffer that goes moves on, as far as one other takes it.
    fn recycle(&mut self, number: u64, oldest: &Page) {
        for slot in &oldest.slots {
            let Some(place) = self.places.get(slot).copied().filter(|place| place.buffer == number) else { continue };
            self.places.remove(slot);
            if place.hits >= HOT && self.most > 1 {
                let bytes = &oldest.bytes[place.at as usize..];
                self.append(*slot, &bytes[..slot::end(bytes)]);
            }
        }
        // A buffer of hot records more than there may be: the next oldest goes with the next record.
    }

    /// What lies in the slot is another record, or none.
    pub fn drop_record(&mut self, slot: Slot) {
        self.places.remove(&slot);
    }
}

#[cfg(test)]
mod tests;
