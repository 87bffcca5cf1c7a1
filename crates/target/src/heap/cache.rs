//! The write cache: records that are not on the device yet, in buffers of 1 MiB.
//!
//! Owns their bytes until they are written. The newest of a slot wins; one that is freed before it was written drops
//! out; a buffer of which a fifth is dead when its turn comes is not written: what lives in it moves on (RWStore, 2010).
//! Readers are served from here. Pure: no I/O.

use super::allocation::Slot;
use super::classes::SLOT_HEADER;
use super::slot;
use super::slot_map::SlotMap;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a buffer.
pub const BUFFER: usize = 1 << 20;
/// Buffers there are, if nothing else is said.
pub const BUFFERS: usize = 12;
/// So many buffers are kept clear of records that wait, so that others can be taken in while some are written.
const CLEAR: usize = 4;
/// A buffer with this part of it dead is compacted.
const DEAD: usize = 5;

/// What was spared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Elisions {
    /// Records put.
    pub put: u64,
    /// Of these, freed before they were written.
    pub dropped: u64,
    /// Of these, superseded before they were written.
    pub superseded: u64,
    /// Moved on instead of written, each time.
    pub moved: u64,
    /// Reads served from here.
    pub hits: u64,
}

/// Where a record lies in a buffer: another one whenever it is put or moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// The number of the buffer; 0: none.
    buffer: u32,
    at: u32,
}

#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// In the order in which they came, and where they begin.
    slots: Vec<(Slot, u32)>,
    dead: usize,
}

impl Buffer {
    /// What was put at this place.
    fn record(&self, at: u32) -> &[u8] {
        let bytes = &self.bytes[at as usize..];
        &bytes[..slot::end(bytes)]
    }
}

/// The cache.
pub struct Cache {
    buffers: BTreeMap<u32, Buffer>,
    /// Those that are full, oldest first.
    full: VecDeque<u32>,
    current: u32,
    compacting: Option<u32>,
    next: u32,
    places: SlotMap<Place>,
    most: usize,
    elisions: Elisions,
    /// Empty ones, whose memory is used again.
    spare: Vec<Vec<u8>>,
}

impl Cache {
    /// Of so many buffers; at least 6.
    pub fn new(buffers: usize) -> Cache {
        Cache {
            buffers: BTreeMap::from([(1, Buffer::default())]),
            full: VecDeque::new(),
            current: 1,
            compacting: None,
            next: 2,
            places: SlotMap::new(),
            most: buffers.max(CLEAR + 2) - CLEAR,
            elisions: Elisions::default(),
            spare: Vec::new(),
        }
    }

    fn open(&mut self) -> u32 {
        let bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER));
        let number = self.next;
        self.buffers.insert(number, Buffer { bytes, ..Buffer::default() });
        self.next = self.next.checked_add(1).unwrap_or(1);
        while self.buffers.contains_key(&self.next) {
            self.next += 1;
        }
        number
    }

    /// Takes a record in.
    pub fn put(&mut self, slot: Slot, header: &[u8; SLOT_HEADER], bytes: &[u8]) {
        self.elisions.put += 1;
        if self.forget(slot) {
            self.elisions.superseded += 1;
        }
        if self.buffers[&self.current].bytes.len() + SLOT_HEADER + bytes.len() > BUFFER {
            self.full.push_back(self.current);
            self.current = self.open();
        }
        self.append(self.current, slot, &[header, bytes]);
    }

    fn append(&mut self, number: u32, slot: Slot, parts: &[&[u8]]) {
        let buffer = self.buffers.get_mut(&number).expect("it is open");
        let at = buffer.bytes.len() as u32;
        parts.iter().for_each(|part| buffer.bytes.extend_from_slice(part));
        buffer.slots.push((slot, at));
        self.places.set(slot, Place { buffer: number, at });
    }

    /// What lies in the slot is not wanted any more; whether it was here.
    fn forget(&mut self, slot: Slot) -> bool {
        let place = self.places.set(slot, Place::default());
        let Some(buffer) = self.buffers.get_mut(&place.buffer) else { return false };
        buffer.dead += buffer.record(place.at).len();
        true
    }

    /// Nobody wants the record in the slot any more; whether it was here.
    pub fn drop_record(&mut self, slot: Slot) -> bool {
        let was_here = self.forget(slot);
        self.elisions.dropped += u64::from(was_here);
        was_here
    }

    /// The bytes of a slot, if they are here.
    pub fn get(&self, slot: Slot) -> Option<&[u8]> {
        self.find(slot).map(|(_, bytes)| bytes)
    }

    /// Whether the bytes of a slot are here.
    pub fn has(&self, slot: Slot) -> bool {
        self.places.get(slot) != Place::default()
    }

    /// The bytes of a slot and where they are, if they are here.
    pub fn find(&self, slot: Slot) -> Option<(Place, &[u8])> {
        let place = self.places.get(slot);
        Some((place, self.buffers.get(&place.buffer)?.record(place.at)))
    }

    /// As [`Cache::get`], for a reader.
    pub fn read(&mut self, slot: Slot) -> Option<&[u8]> {
        self.elisions.hits += u64::from(self.has(slot));
        self.get(slot)
    }

    /// Whether more waits than should.
    pub fn is_full(&self) -> bool {
        self.full.len() >= self.most
    }

    /// Whether so much waits that nobody should put more before some is written.
    pub fn is_crammed(&self) -> bool {
        self.full.len() >= self.most + CLEAR
    }

    /// What was spared.
    pub fn elisions(&self) -> Elisions {
        self.elisions
    }

    /// The slots of the oldest full buffer, in the order in which their records came: they are to be written, and
    /// [`Cache::written`]. `None` if none is full, or what lived in those that were has moved on.
    pub fn oldest(&mut self) -> Option<Vec<Slot>> {
        while self.is_full() {
            let number = *self.full.front()?;
            let buffer = &self.buffers[&number];
            if buffer.dead * DEAD < buffer.bytes.len() {
                return Some(self.living(number));
            }
            self.full.pop_front();
            self.compact(number);
        }
        None
    }

    /// All slots, in the order in which their records came.
    pub fn all(&self) -> Vec<Slot> {
        self.buffers.keys().flat_map(|number| self.living(*number)).collect()
    }

    fn living(&self, number: u32) -> Vec<Slot> {
        let lives = |slot, at| self.places.get(slot) == Place { buffer: number, at };
        let slots = self.buffers[&number].slots.iter();
        slots.filter(|(slot, at)| lives(*slot, *at)).map(|(slot, _)| *slot).collect()
    }

    /// Moves what lives in a buffer to the one that is being made of such.
    fn compact(&mut self, number: u32) {
        let living = self.living(number);
        self.elisions.moved += living.len() as u64;
        let old = self.buffers.remove(&number).expect("it is full");
        for slot in living {
            let bytes = old.record(self.places.get(slot).at);
            let to = match self.compacting {
                Some(to) if self.buffers[&to].bytes.len() + bytes.len() <= BUFFER => to,
                full => {
                    self.full.extend(full);
                    let to = self.open();
                    self.compacting = Some(to);
                    to
                }
            };
            self.append(to, slot, &[bytes]);
        }
        self.recycle(old);
    }

    fn recycle(&mut self, mut old: Buffer) {
        old.bytes.clear();
        self.spare.push(old.bytes);
    }

    /// What lay at these places is on the device; what was put there or moved since is not.
    pub fn written(&mut self, places: &[(Slot, Place)]) {
        for (slot, place) in places {
            if self.places.get(*slot) == *place {
                self.forget(*slot);
            }
        }
        let empty = |buffer: &Buffer| buffer.dead == buffer.bytes.len();
        let gone: Vec<u32> = self.full.iter().copied().filter(|number| empty(&self.buffers[number])).collect();
        self.full.retain(|number| !gone.contains(number));
        let compacting = self.compacting.take_if(|number| empty(&self.buffers[number]));
        for number in gone.into_iter().chain(compacting) {
            if let Some(old) = self.buffers.remove(&number) {
                self.recycle(old);
            }
        }
        let current = &self.buffers[&self.current];
        if current.dead > 0 && empty(current) {
            // Under another number: no place is ever that of another record, which might be under way still.
            let old = self.buffers.remove(&self.current).expect("it is open");
            self.recycle(old);
            self.current = self.open();
        }
    }
}

#[cfg(test)]
mod tests;
