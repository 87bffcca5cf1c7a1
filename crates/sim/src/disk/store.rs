//! What a disk holds: pages of 4 KiB, each distinct content kept once, zeros and generated ranges not at all.
//!
//! A slot names the content of a page. Equal slots mean equal bytes; the number of slots that name a kept page is
//! counted, and the page goes with the last of them. Who keeps a slot aside (to undo a write) counts as one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::rc::Rc;

pub(crate) const PAGE: usize = 4096;
/// Pages in one leaf of the table.
const LEAF: u64 = 512;

type Page = [u8; PAGE];
static ZERO_PAGE: Page = [0; PAGE];

/// Names the content of a page: zeros, a page of a generated range, or a kept page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u32);

impl Slot {
    const ZERO: Slot = Slot(0);
    const GENERATED: u32 = 1 << 31;

    fn generator(self) -> Option<usize> {
        (self.0 & Slot::GENERATED != 0).then_some((self.0 & !Slot::GENERATED) as usize)
    }

    fn kept(self) -> Option<usize> {
        (self.0 != 0 && self.0 & Slot::GENERATED == 0).then_some(self.0 as usize)
    }
}

/// Makes the bytes of a range: called with the offset of a page and the page to fill.
pub type Generator = Rc<dyn Fn(u64, &mut [u8])>;

enum Leaf {
    /// All pages are the same slot: zeros or generated.
    Uniform(Slot),
    Mixed(Box<[Slot; LEAF as usize]>),
}

struct Kept {
    bytes: Box<Page>,
    hash: u64,
    count: u32,
    /// Whether `by_hash` finds it; not so if another page of the same hash was first.
    listed: bool,
}

/// Hashes are well mixed already.
#[derive(Default)]
struct AsIs(u64);
impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are keys here")
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

pub(crate) struct Store {
    leaves: Vec<Leaf>,
    /// Index 0 stands for the zero page and is never looked at.
    kept: Vec<Option<Kept>>,
    vacant: Vec<u32>,
    by_hash: HashMap<u64, u32, BuildHasherDefault<AsIs>>,
    generators: Vec<Generator>,
    /// The last page that was kept or found: runs of equal pages need no hash.
    last: Slot,
    scratch: RefCell<Box<Page>>,
}

impl Store {
    pub(crate) fn new(size: u64) -> Store {
        let leaves = size.div_ceil(PAGE as u64 * LEAF);
        Store {
            leaves: (0..leaves).map(|_| Leaf::Uniform(Slot::ZERO)).collect(),
            kept: vec![None],
            vacant: Vec::new(),
            by_hash: HashMap::default(),
            generators: Vec::new(),
            last: Slot::ZERO,
            scratch: RefCell::new(Box::new(ZERO_PAGE)),
        }
    }

    /// Distinct pages in memory.
    pub(crate) fn kept_pages(&self) -> usize {
        self.kept.len() - 1 - self.vacant.len()
    }

    pub(crate) fn slot(&self, page: u64) -> Slot {
        match &self.leaves[(page / LEAF) as usize] {
            Leaf::Uniform(slot) => *slot,
            Leaf::Mixed(slots) => slots[(page % LEAF) as usize],
        }
    }

    /// Copies the content that `slot` names at `page`.
    pub(crate) fn copy_slot(&self, slot: Slot, page: u64, to: &mut [u8]) {
        match (slot.kept(), slot.generator()) {
            (Some(index), _) => to.copy_from_slice(&self.page(index).bytes[..]),
            (_, Some(index)) => self.generators[index](page * PAGE as u64, to),
            _ => to.fill(0),
        }
    }

    fn page(&self, index: usize) -> &Kept {
        self.kept[index].as_ref().expect("a slot in use names a kept page")
    }

    /// Copies the bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) {
        let mut done = 0;
        while done < to.len() {
            let (page, inside) = split(offset + done as u64);
            let length = (PAGE - inside).min(to.len() - done);
            let slot = self.slot(page);
            if length == PAGE {
                self.copy_slot(slot, page, &mut to[done..done + PAGE]);
            } else {
                let mut scratch = self.scratch.borrow_mut();
                self.copy_slot(slot, page, &mut scratch[..]);
                to[done..done + length].copy_from_slice(&scratch[inside..inside + length]);
            }
            done += length;
        }
    }

    /// Puts `data` at `offset`; gives a hash of it.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> u64 {
        let mut hash = 0u64;
        let mut done = 0;
        while done < data.len() {
            let (page, inside) = split(offset + done as u64);
            let length = (PAGE - inside).min(data.len() - done);
            let part = &data[done..done + length];
            let old = self.slot(page);
            let slot = match <&Page>::try_from(part) {
                Ok(whole) => self.keep(old, whole),
                Err(_) => {
                    let mut merged = ZERO_PAGE;
                    self.copy_slot(old, page, &mut merged);
                    merged[inside..inside + length].copy_from_slice(part);
                    self.keep(old, &merged)
                }
            };
            self.replace(page, old, slot);
            hash = fold(hash ^ slot.kept().map_or(1, |index| self.page(index).hash), SECRET[0]);
            done += length;
        }
        hash
    }

    /// Makes `slot`, which the caller has counted, the content of `page`.
    fn replace(&mut self, page: u64, old: Slot, slot: Slot) {
        if slot != old {
            self.set(page, slot);
        }
        self.release(old);
    }

    fn set(&mut self, page: u64, slot: Slot) {
        let leaf = &mut self.leaves[(page / LEAF) as usize];
        if let Leaf::Uniform(all) = leaf {
            *leaf = Leaf::Mixed(Box::new([*all; LEAF as usize]));
        }
        if let Leaf::Mixed(slots) = leaf {
            slots[(page % LEAF) as usize] = slot;
        }
    }

    /// A counted slot for `bytes`; `likely` is where to look first.
    fn keep(&mut self, likely: Slot, bytes: &Page) -> Slot {
        for slot in [self.last, likely] {
            if let Some(index) = slot.kept()
                && let Some(Some(kept)) = self.kept.get_mut(index)
                && *kept.bytes == *bytes
            {
                kept.count += 1;
                return slot;
            }
        }
        if *bytes == ZERO_PAGE {
            return Slot::ZERO;
        }
        let hash = hash(bytes);
        let mut listed = true;
        if let Some(&index) = self.by_hash.get(&hash) {
            let kept = self.kept[index as usize].as_mut().expect("a listed page is kept");
            if *kept.bytes == *bytes {
                kept.count += 1;
                self.last = Slot(index);
                return self.last;
            }
            listed = false;
        }
        let kept = Some(Kept { bytes: Box::new(*bytes), hash, count: 1, listed });
        let index = match self.vacant.pop() {
            Some(index) => {
                self.kept[index as usize] = kept;
                index
            }
            None => {
                self.kept.push(kept);
                (self.kept.len() - 1) as u32
            }
        };
        assert!(index < Slot::GENERATED, "a simulated disk holds 2^31 distinct pages");
        if listed {
            self.by_hash.insert(hash, index);
        }
        self.last = Slot(index);
        self.last
    }

    /// Counts one more use of `slot`.
    pub(crate) fn retain(&mut self, slot: Slot) {
        if let Some(index) = slot.kept() {
            self.kept[index].as_mut().expect("a slot in use names a kept page").count += 1;
        }
    }

    /// Counts one use of `slot` less.
    pub(crate) fn release(&mut self, slot: Slot) {
        let Some(index) = slot.kept() else { return };
        let kept = self.kept[index].as_mut().expect("a slot in use names a kept page");
        kept.count -= 1;
        if kept.count == 0 {
            if kept.listed {
                self.by_hash.remove(&kept.hash);
            }
            self.kept[index] = None;
            self.vacant.push(index as u32);
            if self.last == slot {
                self.last = Slot::ZERO;
            }
        }
    }

    /// Makes `slot` the content of `page`; the caller keeps its own count.
    pub(crate) fn restore(&mut self, page: u64, slot: Slot) {
        self.retain(slot);
        let old = self.slot(page);
        self.replace(page, old, slot);
    }

    /// Makes `range`, on page borders, what `generator` says, whatever its length in no time and memory.
    pub(crate) fn generate(&mut self, range: Range<u64>, generator: Generator) {
        assert!(range.start.is_multiple_of(PAGE as u64) && range.end.is_multiple_of(PAGE as u64));
        let slot = Slot(Slot::GENERATED | self.generators.len() as u32);
        self.generators.push(generator);
        let (mut page, end) = (range.start / PAGE as u64, range.end / PAGE as u64);
        while page < end {
            if page.is_multiple_of(LEAF) && page + LEAF <= end {
                let leaf = (page / LEAF) as usize;
                let old = std::mem::replace(&mut self.leaves[leaf], Leaf::Uniform(slot));
                if let Leaf::Mixed(slots) = old {
                    slots.iter().for_each(|slot| self.release(*slot));
                }
                page += LEAF;
            } else {
                let old = self.slot(page);
                self.replace(page, old, slot);
                page += 1;
            }
        }
    }
}

fn split(offset: u64) -> (u64, usize) {
    (offset / PAGE as u64, (offset % PAGE as u64) as usize)
}

const SECRET: [u64; 4] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Four independent chains of folded multiplications, 16 bytes a step each.
fn hash(page: &Page) -> u64 {
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    // Turned by one, so that no lane starts as the secret it is mixed with.
    let mut lanes = [SECRET[1], SECRET[2], SECRET[3], SECRET[0]];
    for block in page.chunks_exact(64) {
        for (i, lane) in lanes.iter_mut().enumerate() {
            *lane = fold(word(block, i * 16) ^ SECRET[i], word(block, i * 16 + 8) ^ *lane);
        }
    }
    fold(lanes[0] ^ lanes[1], SECRET[1]) ^ fold(lanes[2] ^ lanes[3], SECRET[2])
}

#[cfg(test)]
mod tests;
