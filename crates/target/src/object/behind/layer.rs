//! Blocks of one object that go home together.
//!
//! What one command wrote is kept as it came: none of it is copied or allotted block by block. So blocks that were replaced
//! take memory for as long as others that came with them are there, and that is counted ([`Layer::weight`]).

use crate::object::gather::Origin;
use crate::object::inline;
use crate::object::journal::Content;
use crate::object::record::Write;
use crate::object::rows::BLOCK;
use forebay_model::{Moment, ObjectId, Timestamp};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What one command wrote.
struct Came {
    content: Rc<Content>,
    /// Its blocks that nothing newer replaced.
    live: Cell<u64>,
}

/// A block that is buffered: one of those that came together.
#[derive(Clone)]
pub(super) struct Block {
    came: Rc<Came>,
    /// Where it lies in memory; what came later is further on.
    pub(super) at: u64,
    pub(super) crc: u32,
}

impl Block {
    /// What it came in, which it is a part of.
    pub(super) fn content(&self) -> &Rc<Content> {
        &self.came.content
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.came.content.block(self.at)
    }

    /// Its bytes, for gathering.
    pub(super) fn origin(&self) -> Origin<'_> {
        let content = self.content();
        match content.bytes.aligned() {
            Some(whole) => Origin::Aligned(whole, ((self.at - content.at) * BLOCK.0) as usize),
            None => Origin::Plain(self.bytes()),
        }
    }
}

/// Blocks that go home together.
#[derive(Default)]
pub(super) struct Layer {
    blocks: BTreeMap<u64, Block>,
    /// Blocks that were replaced, and take memory because of others that came with them.
    replaced: u64,
    /// The object's size by them.
    pub(super) size: u64,
    /// When the last of them was written.
    pub(super) time: Timestamp,
    /// Since when the first of them is buffered.
    pub(super) since: Option<Moment>,
    /// How many commands they come from.
    pub(super) commands: u64,
    /// How many of them are beside what the rows and earlier layers have.
    pub(super) grows: u64,
}

impl Layer {
    /// Its blocks.
    pub(super) fn blocks(&self) -> &BTreeMap<u64, Block> {
        &self.blocks
    }

    /// How many.
    pub(super) fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Blocks that take memory.
    pub(super) fn weight(&self) -> u64 {
        self.count() + self.replaced
    }

    /// Takes in what one command wrote, from block `first` of the object on.
    pub(super) fn take_in(&mut self, first: u64, content: Content, crcs: &[u32]) {
        let at = content.at;
        let came = Rc::new(Came { live: Cell::new(content.blocks()), content: Rc::new(content) });
        for (n, crc) in (0..).zip(crcs) {
            self.put(first + n, Block { came: came.clone(), at: at + n, crc: *crc });
        }
    }

    /// Takes in what was written later.
    pub(super) fn absorb(&mut self, newer: Layer) {
        self.replaced += newer.replaced;
        newer.blocks.into_iter().for_each(|(number, block)| self.put(number, block));
        self.size = self.size.max(newer.size);
        self.time = self.time.max(newer.time);
        self.since = self.since.or(newer.since);
        self.commands += newer.commands;
        self.grows += newer.grows;
    }

    fn put(&mut self, number: u64, block: Block) {
        let Some(old) = self.blocks.insert(number, block) else { return };
        let live = old.came.live.get() - 1;
        old.came.live.set(live);
        self.replaced += 1;
        if live == 0 {
            self.replaced -= old.came.content.blocks();
        }
    }

    /// What makes it durable, without its blocks.
    pub(super) fn write(&self, id: ObjectId) -> Write {
        let Layer { size, time, commands, .. } = *self;
        Write { id, time, size, commands, dropped: None, logged: Vec::new(), inline: None, pieces: Vec::new() }
    }

    /// What makes it durable with its bytes, if they are inline.
    pub(super) fn small(&self, id: ObjectId) -> Option<Write> {
        let block = self.blocks.get(&0).filter(|_| self.blocks.len() == 1 && inline::is_small(self.size))?;
        Some(Write { inline: Some(block.bytes()[..self.size as usize].to_vec()), ..self.write(id) })
    }
}

#[cfg(test)]
mod tests;
