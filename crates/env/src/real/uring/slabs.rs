//! Which slabs are registered with the kernel, so that it need not look up and pin their pages for every I/O.
//!
//! A slab stays registered, and its memory alive, until nobody else holds it and another slab is first seen.

use crate::buffer::{Buffer, Slab};
use forebay_model::Bytes;
use io_uring::Submitter;
use std::io;

/// Slots in the kernel's table of buffers.
const SLOTS: u16 = 256;

/// The most that one slot can hold.
const SLOT_BYTES: usize = 1 << 30;

/// How much buffer memory is registered with the kernel, and why the rest is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registration {
    /// Memory registered now.
    pub registered: Bytes,
    /// Memory that the kernel refused to register; I/O from it works, and costs more time.
    pub refused: Bytes,
    /// Why, where it first refused.
    pub reason: Option<String>,
}

pub(super) struct Slabs {
    /// Slots that hold nothing; `None` if the kernel has no table for us.
    free: Option<Vec<u16>>,
    known: Vec<Known>,
    reason: Option<String>,
}

struct Known {
    slab: Slab,
    /// Bytes of the slab in each slot, whole buffers.
    per_slot: usize,
    /// Empty if the kernel refused.
    slots: Vec<u16>,
}

impl Slabs {
    pub(super) fn new(submitter: &Submitter<'_>) -> Slabs {
        match submitter.register_buffers_sparse(u32::from(SLOTS)) {
            Ok(()) => Slabs { free: Some((0..SLOTS).rev().collect()), known: Vec::new(), reason: None },
            Err(e) => Slabs::unregistered(&e.to_string()),
        }
    }

    /// Registers nothing, and says why.
    pub(super) fn unregistered(reason: &str) -> Slabs {
        Slabs { free: None, known: Vec::new(), reason: Some(reason.to_string()) }
    }

    /// The slot to use for I/O on `buffer`, if its slab is registered or can be.
    pub(super) fn slot(&mut self, submitter: &Submitter<'_>, buffer: &Buffer) -> Option<u16> {
        let slab = buffer.slab();
        // A slab of one buffer is for rare I/O, and a part comes from memory that several devices see, each seldom: registering
        // costs more than it saves.
        if slab.count() == 1 || !buffer.is_own() {
            return None;
        }
        let (base, _) = slab.region();
        let known = match self.known.iter().position(|k| k.slab.region().0 == base) {
            Some(index) => &self.known[index],
            None => self.learn(submitter, slab),
        };
        let offset = buffer.address() as usize - base as usize;
        known.slots.get(offset / known.per_slot).copied()
    }

    fn learn(&mut self, submitter: &Submitter<'_>, slab: &Slab) -> &Known {
        self.forget_unused(submitter);
        let capacity = slab.capacity().0 as usize;
        let per_slot = (SLOT_BYTES / capacity * capacity).max(capacity);
        let slots = self.register(submitter, slab, per_slot).unwrap_or_else(|e| {
            self.reason.get_or_insert(e.to_string());
            Vec::new()
        });
        self.known.push(Known { slab: slab.clone(), per_slot, slots });
        &self.known[self.known.len() - 1]
    }

    fn register(&mut self, submitter: &Submitter<'_>, slab: &Slab, per_slot: usize) -> io::Result<Vec<u16>> {
        let (base, length) = slab.region();
        let wanted = length.div_ceil(per_slot);
        let free = match &mut self.free {
            Some(free) if free.len() >= wanted => free,
            _ => return Err(io::Error::other("no slot is free in the kernel's table of buffers")),
        };
        let taken = free.split_off(free.len() - wanted);
        for (index, slot) in taken.iter().enumerate() {
            let start = index * per_slot;
            let entry = libc::iovec {
                // SAFETY: `start` is inside the mapping.
                iov_base: unsafe { base.add(start) }.cast(),
                iov_len: per_slot.min(length - start),
            };
            // SAFETY: `known` keeps the slab, and with it the mapping, until the slot is cleared.
            let result = unsafe { submitter.register_buffers_update(u32::from(*slot), &[entry], None) };
            if let Err(e) = result {
                for slot in &taken[..index] {
                    clear(submitter, *slot);
                }
                free.extend(taken);
                return Err(e);
            }
        }
        Ok(taken)
    }

    fn forget_unused(&mut self, submitter: &Submitter<'_>) {
        let free = &mut self.free;
        self.known.retain(|known| {
            // A buffer under way holds its slab too, so nothing is in flight from this one.
            let used = !known.slab.is_last_handle();
            if !used && let Some(free) = free {
                for slot in &known.slots {
                    clear(submitter, *slot);
                    free.push(*slot);
                }
            }
            used
        });
    }

    pub(super) fn registration(&self) -> Registration {
        let total = |registered: bool| {
            let chosen = self.known.iter().filter(|k| k.slots.is_empty() != registered);
            chosen.map(|k| Bytes(k.slab.region().1 as u64)).sum()
        };
        Registration { registered: total(true), refused: total(false), reason: self.reason.clone() }
    }
}

fn clear(submitter: &Submitter<'_>, slot: u16) {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    // SAFETY: an empty entry refers to no memory. If it fails, the slot keeps its pages pinned and is overwritten by
    // its next use; nothing refers to it in between.
    let _ = unsafe { submitter.register_buffers_update(u32::from(slot), &[nothing], None) };
}
