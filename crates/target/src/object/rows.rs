//! What is kept of objects: rows in the order of their keys, in leaves of some tens of KiB.
//!
//! A row is a fact about one object: its head, an attribute, a *piece* (blocks that lie together at home, each with its
//! checksum), a block that lies in a log for now (*logged*), which hides the one at home, or the first block of a small
//! object itself (*inline*). The free space of each
//! group is a row, too, of the root object. Checksums are so kept apart from what they cover, and a leaf's own checksum
//! is kept in the catalog, apart from the leaf. Bytes: `docs/format/objects.md`.

use crate::superblock;
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Error, ObjectId, Result, TargetId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The unit in which objects' bytes are placed and verified.
pub const BLOCK: Bytes = Bytes::kib(4);
/// Blocks in one piece at most: what cannot be preempted is kept small.
pub const PIECE_BLOCKS: u32 = 1024;
/// First bytes of a leaf.
pub const LEAF_MAGIC: [u8; 8] = *b"FBLEAF\0\0";
/// Version of leaves.
pub const LEAF_VERSION: u32 = 1;
/// A leaf that is larger is cut in two when it is written.
pub const LEAF_SPLIT: usize = 48 << 10;

/// Bytes that a leaf has before its rows at most: the target, its first key and how many rows there are.
const BEFORE_ROWS: usize = 64;

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Whose fact it is.
    pub id: ObjectId,
    /// Which.
    pub part: Part,
}

/// Which fact about an object a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// That it exists, and what the target knows of it.
    Head,
    /// Something that users attached to it.
    Attribute {
        /// The page.
        page: u32,
        /// The number on it.
        number: u32,
    },
    /// The first block of a small object, itself.
    Inline,
    /// Where blocks from this one on lie.
    Piece(u64),
    /// Where this block lies in a log.
    Logged(u64),
    /// Of the root object: what is free in a group.
    Free(u32),
    /// Of the root object: how many objects share blocks of the device, from this one on.
    Shared(u64),
}

impl Key {
    /// Before all others.
    pub const FIRST: Key = Key { id: ObjectId::ROOT, part: Part::Head };

    /// Behind all others.
    pub const LAST: Key = Key { id: ObjectId { volume: u64::MAX, object: u64::MAX }, part: Part::Free(u32::MAX) };

    /// The head of `id`.
    pub const fn head(id: ObjectId) -> Key {
        Key { id, part: Part::Head }
    }

    /// The inline bytes of `id`.
    pub const fn inline(id: ObjectId) -> Key {
        Key { id, part: Part::Inline }
    }

    /// The piece of `id` that begins with `block`.
    pub const fn piece(id: ObjectId, block: u64) -> Key {
        Key { id, part: Part::Piece(block) }
    }

    /// The logged block of `id`.
    pub const fn logged(id: ObjectId, block: u64) -> Key {
        Key { id, part: Part::Logged(block) }
    }

    /// The free space of `group`.
    pub const fn free(group: u32) -> Key {
        Key { id: ObjectId::ROOT, part: Part::Free(group) }
    }

    /// Who shares blocks of the device from `at` on.
    pub const fn shared(at: u64) -> Key {
        Key { id: ObjectId::ROOT, part: Part::Shared(at) }
    }

    /// Behind everything of `id`, and before everything of the next.
    pub const fn end_of(id: ObjectId) -> Key {
        Key { id, part: Part::Shared(u64::MAX) }
    }
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Row {
    /// See [`Part::Head`].
    Head(Head),
    /// See [`Part::Attribute`].
    Attribute(Vec<u8>),
    /// See [`Part::Inline`]: its bytes; zeros follow to the end of the block.
    Inline(Vec<u8>),
    /// See [`Part::Piece`].
    Piece(Piece),
    /// See [`Part::Logged`].
    Logged(Logged),
    /// See [`Part::Free`]: first block and number of blocks of each run, counted from the group's first block.
    Free(Vec<(u32, u32)>),
    /// See [`Part::Shared`].
    Shared(Shared),
}

/// Blocks at home that belong to several objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// How many blocks; [`PIECE_BLOCKS`] at most.
    pub blocks: u32,
    /// To how many more than one they belong.
    pub more: u32,
}

/// What the target itself keeps of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Bytes from the first to the last.
    pub size: u64,
    /// When it was created.
    pub created: Timestamp,
    /// When its bytes last changed.
    pub modified: Timestamp,
    /// When anything of it last changed.
    pub changed: Timestamp,
    /// Rises with every command that changes it.
    pub version: u64,
    /// Blocks that it occupies, at home and in logs.
    pub blocks: u64,
    /// Of a volume: what it holds and may hold.
    pub volume: Option<Volume>,
}

/// What a volume holds and may hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Users' objects in it.
    pub objects: u64,
    /// Blocks that they occupy.
    pub blocks: u64,
    /// The most that it may hold.
    pub quota: Quota,
}

/// The most that a volume may hold; nothing is limited where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Bytes beyond which a warning is given.
    pub soft_bytes: u64,
    /// Bytes beyond which commands are refused.
    pub hard_bytes: u64,
    /// Objects beyond which a warning is given.
    pub soft_objects: u64,
    /// Objects beyond which commands are refused.
    pub hard_objects: u64,
}

impl Default for Quota {
    fn default() -> Quota {
        Quota { soft_bytes: u64::MAX, hard_bytes: u64::MAX, soft_objects: u64::MAX, hard_objects: u64::MAX }
    }
}

/// Blocks of an object that lie together at home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The device's block where they begin.
    pub at: u64,
    /// A checksum for each.
    pub crcs: Crcs,
}

impl Piece {
    /// How many.
    pub fn blocks(&self) -> u64 {
        self.crcs.0.len() as u64
    }

    /// The part of it from block `from` to block `to` of itself.
    pub fn part(&self, from: u64, to: u64) -> Piece {
        Piece { at: self.at + from, crcs: Crcs(self.crcs.0[from as usize..to as usize].to_vec()) }
    }
}

/// A block that lies in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// The device's block.
    pub at: u64,
    /// Its checksum.
    pub crc: u32,
}

/// CRC-32C of blocks, four bytes each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Crcs(pub Vec<u32>);

impl Crcs {
    /// Of the blocks in `bytes`.
    pub fn of(bytes: &[u8]) -> Crcs {
        Crcs(bytes.chunks(BLOCK.0 as usize).map(crc32c).collect())
    }
}

impl Serialize for Crcs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|crc| crc.to_le_bytes()).collect();
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Crcs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Crcs, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Crcs;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("checksums of four bytes each")
            }
            fn visit_borrowed_bytes<E: serde::de::Error>(self, bytes: &'de [u8]) -> std::result::Result<Crcs, E> {
                self.visit_bytes(bytes)
            }
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> std::result::Result<Crcs, E> {
                let (words, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(E::invalid_length(bytes.len(), &self));
                }
                Ok(Crcs(words.iter().map(|word| u32::from_le_bytes(*word)).collect()))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

impl Row {
    /// Bytes that it takes in a leaf with its key, about, and never too few.
    pub fn weight(&self) -> usize {
        32 + match self {
            Row::Head(_) => 160,
            Row::Attribute(bytes) | Row::Inline(bytes) => bytes.len() + 8,
            Row::Piece(piece) => 16 + 4 * piece.crcs.0.len(),
            Row::Logged(_) | Row::Shared(_) => 16,
            Row::Free(runs) => 8 + 10 * runs.len(),
        }
    }
}

/// The rows of one leaf.
pub type Rows = BTreeMap<Key, Row>;

/// A leaf's bytes, padded to whole blocks: prefix, the target's id, rows. `first` is what the catalog finds it by.
pub fn encode_leaf(target: TargetId, first: Key, rows: &Rows) -> Result<Vec<u8>> {
    // In its place at once: a checkpoint encodes thousands of rows while commands wait.
    let most = superblock::PREFIX + BEFORE_ROWS + rows.values().map(Row::weight).sum::<usize>();
    let mut bytes = vec![0; Bytes(most as u64).align_up(BLOCK).0 as usize];
    let length = postcard::to_slice(&(target, first, rows), &mut bytes[superblock::PREFIX..])
        .map_err(|e| Error::usage(format!("rows of objects cannot be encoded: {e}")))?
        .len();
    superblock::put_prefix(&mut bytes, LEAF_MAGIC, LEAF_VERSION, length);
    bytes.truncate(Bytes((superblock::PREFIX + length) as u64).align_up(BLOCK).0 as usize);
    Ok(bytes)
}

/// Reads a leaf back; `crc` is that of all its bytes, as the catalog has it.
pub fn decode_leaf(target: TargetId, first: Key, crc: u32, bytes: &[u8]) -> Result<Rows> {
    let damaged = |why: &str| Error::damaged(format!("the table of objects from {} on is damaged: {why}", first.id));
    if crc32c(bytes) != crc {
        return Err(damaged("its checksum does not match"));
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if bytes.len() < superblock::PREFIX || bytes[..8] != LEAF_MAGIC {
        return Err(damaged("it is none"));
    }
    if word(8) != LEAF_VERSION {
        return Err(Error::version(format!(
            "a table of objects has version {}, and this Forebay knows {LEAF_VERSION}",
            word(8)
        )));
    }
    let body = bytes
        .get(superblock::PREFIX..superblock::PREFIX.saturating_add(word(12) as usize))
        .ok_or_else(|| damaged("it is longer than its place"))?;
    let (of, from, rows): (TargetId, Key, Rows) = postcard::from_bytes(body).map_err(|e| damaged(&e.to_string()))?;
    if of != target || from != first {
        return Err(damaged("it belongs to another place"));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests;
