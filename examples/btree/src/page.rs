//! A page of a tree as bytes. A page has no checksum of its own: its record has one.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | 1: a leaf; 2: a page above others. Anything else is refused |
//! | 2 | how many entries follow |
//!
//! An entry of a leaf is the lengths of key and value (2 bytes each) and both. A page above others has first the number
//! (8 bytes) of the page with all that is less than the first key; an entry is the length of a key (2 bytes), the key,
//! and the number of the page with that key and what follows up to the next. Numbers are little-endian.

use forebay_model::{Error, Result};

/// Bytes before the entries.
pub const HEADER: usize = 3;
/// Bytes of an entry beside key and value.
pub const LEAF_ENTRY: usize = 4;
/// Bytes of an entry above beside its key.
pub const INNER_ENTRY: usize = 2 + CHILD;
/// Bytes of the number of a page.
pub const CHILD: usize = 8;

const LEAF: u8 = 1;
const INNER: u8 = 2;

/// A key and its value.
pub type Entry = (Box<[u8]>, Box<[u8]>);

/// What lies on a page. `C` says which page is meant: a number in a store, or a place in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page<C> {
    /// Keys in order, each with its value.
    Leaf(Vec<Entry>),
    /// One child more than keys: what is less than a key is to its left.
    Inner {
        /// In order.
        keys: Vec<Box<[u8]>>,
        /// The pages below.
        children: Vec<C>,
    },
}

impl<C> Page<C> {
    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        match self {
            Page::Leaf(entries) => {
                HEADER + entries.iter().map(|(key, value)| LEAF_ENTRY + key.len() + value.len()).sum::<usize>()
            }
            Page::Inner { keys, .. } => HEADER + CHILD + keys.iter().map(|key| INNER_ENTRY + key.len()).sum::<usize>(),
        }
    }

    /// Its bytes; `number` says the number of a child.
    pub fn encode(&self, number: impl Fn(&C) -> u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size());
        let length = |part: &[u8]| (part.len() as u16).to_le_bytes();
        match self {
            Page::Leaf(entries) => {
                bytes.push(LEAF);
                bytes.extend((entries.len() as u16).to_le_bytes());
                for (key, value) in entries {
                    bytes.extend(length(key));
                    bytes.extend(length(value));
                    bytes.extend_from_slice(key);
                    bytes.extend_from_slice(value);
                }
            }
            Page::Inner { keys, children } => {
                bytes.push(INNER);
                bytes.extend((keys.len() as u16).to_le_bytes());
                bytes.extend(number(&children[0]).to_le_bytes());
                for (key, child) in keys.iter().zip(&children[1..]) {
                    bytes.extend(length(key));
                    bytes.extend_from_slice(key);
                    bytes.extend(number(child).to_le_bytes());
                }
            }
        }
        bytes
    }
}

impl Page<u64> {
    /// The page with these bytes, which the record `id` has. [`forebay_model::Kind::Damaged`] if it is no page.
    pub fn decode(id: u64, bytes: &[u8]) -> Result<Page<u64>> {
        let mut rest = Rest(bytes);
        rest.page().filter(|_| rest.0.is_empty()).ok_or_else(|| {
            Error::damaged(format!("record {id:016x} is no page of a tree: it was put by something else"))
        })
    }
}

/// What was not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn short(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes(self.take(2)?.try_into().ok()?)))
    }

    fn child(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(CHILD)?.try_into().ok()?))
    }

    fn page(&mut self) -> Option<Page<u64>> {
        let kind = self.take(1)?[0];
        let count = self.short()?;
        match kind {
            LEAF => {
                let entries = (0..count).map(|_| {
                    let (key, value) = (self.short()?, self.short()?);
                    Some((self.take(key)?.into(), self.take(value)?.into()))
                });
                Some(Page::Leaf(entries.collect::<Option<_>>()?))
            }
            INNER => {
                let (mut keys, mut children) = (Vec::with_capacity(count), vec![self.child()?]);
                for _ in 0..count {
                    let length = self.short()?;
                    keys.push(self.take(length)?.into());
                    children.push(self.child()?);
                }
                Some(Page::Inner { keys, children })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
