//! A record in a log: the changes of the commands that one write makes durable, whole or not there, and the blocks that
//! they redirect.
//!
//! A record tells of itself: which target, run of the program, log, place and number it is of, a checksum for its header and one
//! for its body; the checksums of its blocks are in the body. It also says up to which number all records were durable
//! when it was written: so a record that rotted in the middle of a log is told from a torn tail that nobody was told
//! of. Bytes: `docs/format/log.md`.

use super::rows::{BLOCK, Crcs, Head, Piece, Quota};
use forebay_model::block::crc32c;
use forebay_model::{Error, ObjectId, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// First bytes of a record.
pub const MAGIC: [u8; 8] = *b"FBLOGREC";
/// Version of records.
pub const VERSION: u32 = 1;
/// Bytes of a record's header.
pub const HEADER: usize = 80;

/// What a command changes. A record has one or more, which take effect together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// An object comes to be.
    Create {
        /// Which.
        id: ObjectId,
        /// What is known of it.
        head: Head,
    },
    /// An object ends, with its attributes and bytes.
    Remove {
        /// Which.
        id: ObjectId,
    },
    /// Bytes of an object change.
    Write(Write),
    /// Blocks of an object are somewhere else now, and unchanged.
    Move {
        /// Whose.
        id: ObjectId,
        /// First block and new place of each run of them.
        pieces: Vec<(u64, Piece)>,
    },
    /// Attributes are set, or ended where there is no value.
    Attributes {
        /// Whose.
        id: ObjectId,
        /// When.
        time: Timestamp,
        /// Page, number, value.
        set: Vec<(u32, u32, Option<Vec<u8>>)>,
    },
    /// What a volume may hold.
    Quota {
        /// The volume's object.
        id: ObjectId,
        /// When.
        time: Timestamp,
        /// The new one.
        quota: Quota,
    },
    /// Records may also be in the logs of these groups.
    Opens(Vec<u32>),
    /// An object comes to be that has what another has, and shares its blocks. None of those is in a log.
    Snapshot {
        /// Which.
        id: ObjectId,
        /// Of which.
        of: ObjectId,
        /// When.
        time: Timestamp,
    },
    /// Blocks of an object that were in another log follow the record now, unchanged.
    Copy {
        /// Whose.
        id: ObjectId,
        /// First block and checksums of each run, in the order of the data behind the record.
        logged: Vec<(u64, Crcs)>,
    },
}

impl Change {
    /// Whether blocks that were written home count from now on: they have to be durable before the record.
    pub fn points_home(&self) -> bool {
        match self {
            Change::Write(write) => !write.pieces.is_empty(),
            Change::Move { pieces, .. } => !pieces.is_empty(),
            _ => false,
        }
    }

    /// Whose blocks follow the record for this change, and which they are.
    pub fn logged(&self) -> Option<(ObjectId, &[(u64, Crcs)])> {
        match self {
            Change::Write(write) => Some((write.id, &write.logged)),
            Change::Copy { id, logged } => Some((*id, logged)),
            _ => None,
        }
    }
}

/// A change of an object's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// Whose.
    pub id: ObjectId,
    /// When.
    pub time: Timestamp,
    /// Its size from now on.
    pub size: u64,
    /// How many commands it is of: several where they were buffered.
    pub commands: u64,
    /// Blocks that are no more, from the first to before the second.
    pub dropped: Option<(u64, u64)>,
    /// Runs of blocks that follow this record: the first of each, and checksums.
    pub logged: Vec<(u64, Crcs)>,
    /// All bytes of a small object, instead of its first block.
    pub inline: Option<Vec<u8>>,
    /// Runs of blocks that were written home.
    pub pieces: Vec<(u64, Piece)>,
}

/// Where and when a record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The target's, which nobody knows who writes bytes.
    pub mark: u128,
    /// The epoch of the run that wrote it.
    pub epoch: u64,
    /// Its number; records of a target are numbered without holes.
    pub number: u64,
    /// All records up to this one were durable when it was written.
    pub durable: u64,
    /// The group of the log.
    pub group: u32,
    /// The block in the log where it begins.
    pub block: u32,
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where and when it was written.
    pub stamp: Stamp,
    /// What it changes.
    pub changes: Vec<Change>,
    /// Blocks of the record before its data.
    pub blocks: u32,
    /// Blocks of data that follow.
    pub data: u32,
    /// Whether these match their checksums.
    pub whole: bool,
}

/// What is in a log at some place.
#[derive(Debug)]
pub enum Found {
    /// A record.
    Record(Box<Record>),
    /// Its header is whole, and its body is not: what it changed is not known.
    Torn(Stamp),
    /// Something that a newer version of the program wrote.
    Newer(u32),
    /// Nothing that was written there.
    Nothing,
}

/// A record that is being put together: the changes of one command, and of those that come before it is written. They
/// share a header, and so are there together or not at all.
pub struct Draft {
    count: u64,
    /// The changes, one behind the other.
    body: Vec<u8>,
}

impl Draft {
    /// A record of `changes`.
    pub fn of(changes: &[Change]) -> Result<Draft> {
        let mut draft = Draft { count: 0, body: Vec::new() };
        draft.add(changes)?;
        Ok(draft)
    }

    /// The length of the body: the number of changes, as postcard has it, and these.
    fn length(count: u64, body: usize) -> usize {
        (u64::BITS - count.max(1).leading_zeros()).div_ceil(7) as usize + body
    }

    /// Blocks of header and body.
    pub fn blocks(&self) -> u32 {
        (HEADER + Draft::length(self.count, self.body.len())).div_ceil(BLOCK.0 as usize) as u32
    }

    /// Whether `other` would find room in the blocks that this one takes anyway.
    pub fn has_room_for(&self, other: &Draft) -> bool {
        let both = Draft::length(self.count + other.count, self.body.len() + other.body.len());
        HEADER + both <= self.blocks() as usize * BLOCK.0 as usize
    }

    /// Adds what another has, behind what is there.
    pub fn append(&mut self, other: Draft) {
        self.count += other.count;
        if self.body.is_empty() {
            self.body = other.body;
        } else {
            self.body.extend(other.body);
        }
    }

    fn add(&mut self, changes: &[Change]) -> Result<()> {
        for change in changes {
            let body = std::mem::take(&mut self.body);
            self.body = postcard::to_extend(change, body)
                .map_err(|e| Error::usage(format!("a record cannot be encoded: {e}")))?;
            self.count += 1;
        }
        Ok(())
    }

    /// Its bytes, padded to whole blocks behind room for the header; [`finish`] fills that in.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut body = Vec::with_capacity(Draft::length(self.count, self.body.len()));
        body = postcard::to_extend(&self.count, body)
            .map_err(|e| Error::usage(format!("a record cannot be encoded: {e}")))?;
        body.extend(&self.body);
        let mut bytes = vec![0; self.blocks() as usize * BLOCK.0 as usize];
        bytes[HEADER..HEADER + body.len()].copy_from_slice(&body);
        bytes[64..68].copy_from_slice(&(body.len() as u32).to_le_bytes());
        bytes[68..72].copy_from_slice(&crc32c(&body).to_le_bytes());
        Ok(bytes)
    }
}

/// A record of one command, as [`Draft::encode`] gives it.
pub fn encode(changes: &[Change]) -> Result<Vec<u8>> {
    Draft::of(changes)?.encode()
}

/// Writes the header of an encoded record with `data` blocks behind it.
pub fn finish(bytes: &mut [u8], stamp: &Stamp, data: u32) {
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..32].copy_from_slice(&stamp.mark.to_le_bytes());
    bytes[32..40].copy_from_slice(&stamp.epoch.to_le_bytes());
    bytes[40..48].copy_from_slice(&stamp.number.to_le_bytes());
    bytes[48..56].copy_from_slice(&stamp.durable.to_le_bytes());
    bytes[56..60].copy_from_slice(&stamp.group.to_le_bytes());
    bytes[60..64].copy_from_slice(&stamp.block.to_le_bytes());
    bytes[72..76].copy_from_slice(&data.to_le_bytes());
    let crc = header_crc(bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// Of the header but for the checksum itself.
fn header_crc(bytes: &[u8]) -> u32 {
    crc32c(&bytes[..12]) ^ crc32c(&bytes[16..HEADER])
}

/// What begins at the first byte of `bytes`, which is block `block` of the log of `group`; `bytes` goes to the log's
/// end.
pub fn decode(mark: u128, group: u32, block: u32, bytes: &[u8]) -> Found {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    if bytes.len() < HEADER || bytes[..8] != MAGIC || word(12) != header_crc(bytes) || word(8) < VERSION {
        return Found::Nothing;
    }
    // Before the version: bytes of a user do not keep a target from opening.
    if u128::from_le_bytes(bytes[16..32].try_into().expect("sixteen bytes")) != mark {
        return Found::Nothing;
    }
    if word(8) > VERSION {
        return Found::Newer(word(8));
    }
    if word(56) != group || word(60) != block {
        return Found::Nothing;
    }
    let stamp = Stamp { mark, epoch: long(32), number: long(40), durable: long(48), group, block };
    if stamp.durable >= stamp.number {
        return Found::Nothing;
    }
    let (length, data) = (word(64) as usize, word(72));
    let read = || {
        let body = bytes.get(HEADER..HEADER.checked_add(length)?)?;
        if crc32c(body) != word(68) {
            return None;
        }
        let changes: Vec<Change> = postcard::from_bytes(body).ok()?;
        let blocks = (HEADER + length).div_ceil(BLOCK.0 as usize);
        let from = blocks * BLOCK.0 as usize;
        let content = bytes.get(from..from.checked_add(data as usize * BLOCK.0 as usize)?)?;
        let crcs = changes.iter().filter_map(Change::logged).flat_map(|(_, logged)| logged);
        let whole = crcs.flat_map(|(_, crcs)| &crcs.0).copied().eq(content.chunks(BLOCK.0 as usize).map(crc32c));
        Some(Record { stamp, changes, blocks: blocks as u32, data, whole })
    };
    read().map_or(Found::Torn(stamp), |record| Found::Record(Box::new(record)))
}

#[cfg(test)]
mod tests;
