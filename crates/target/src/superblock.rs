//! The superblock: two alternating roots, each 64 KiB, each whole in itself.
//!
//! A root names the checkpoint it belongs to. Both roots and both checkpoint areas are written at each commit, one
//! pair after the other (`checkpoint.rs` has the order), so that at any moment one pair is whole. A copy of a root lies behind
//! each checkpoint: if both roots are lost, nothing else is (`rebuild/copies.rs`).
//! Bytes: `docs/format/superblock.md`.

use crate::layout::{Layout, ROOT_LEN};
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Error, Profile, Result, TargetId, Timestamp};
use serde::{Deserialize, Serialize};

/// First bytes of a root.
pub const MAGIC: [u8; 8] = *b"FOREBAY\0";
/// Version of everything on the device.
pub const VERSION: u32 = 1;
/// Bytes before the variable part: magic 8, version 4, length 4, checksum 4. The same in all versions to come, so that a
/// flipped bit in the version is told from a newer one.
pub(crate) const PREFIX: usize = 20;

/// What a root says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Superblock {
    /// The device, by chance at format time.
    pub target: TargetId,
    /// What records in logs are marked with, by chance at format time. It does not leave the device, so that nobody writes
    /// bytes that pass for a record.
    pub mark: u128,
    /// When it was formatted.
    pub formatted: Timestamp,
    /// Where things lie.
    pub layout: Layout,
    /// Rises with each commit.
    pub generation: u64,
    /// Bytes of the checkpoint in the area of the same number as this root.
    pub checkpoint_len: u64,
    /// CRC-32C of that checkpoint.
    pub checkpoint_crc: u32,
    /// What was measured of the device.
    pub profile: Profile,
}

/// Checkpoints, and the copies behind them, begin on these.
const BLOCK: usize = 4096;

/// Of the body, and of magic, version and length before it.
pub(crate) fn checksum(prefix: &[u8], body: &[u8]) -> u32 {
    crc32c(&prefix[..16]) ^ crc32c(body)
}

/// Puts `body` behind its prefix.
pub(crate) fn put(out: &mut [u8], magic: [u8; 8], version: u32, body: &[u8]) {
    out[PREFIX..PREFIX + body.len()].copy_from_slice(body);
    put_prefix(out, magic, version, body.len());
}

/// Puts the prefix of the body of `length` bytes that lies behind it.
pub(crate) fn put_prefix(out: &mut [u8], magic: [u8; 8], version: u32, length: usize) {
    out[..8].copy_from_slice(&magic);
    out[8..12].copy_from_slice(&version.to_le_bytes());
    out[12..16].copy_from_slice(&(length as u32).to_le_bytes());
    let checksum = checksum(out, &out[PREFIX..PREFIX + length]);
    out[16..20].copy_from_slice(&checksum.to_le_bytes());
}

impl Superblock {
    /// The bytes of a root: prefix, postcard, zeros.
    pub fn encode(&self, out: &mut [u8]) -> Result<()> {
        assert_eq!(out.len() as u64, ROOT_LEN.0, "a root has a fixed size");
        let body =
            postcard::to_stdvec(self).map_err(|e| Error::usage(format!("the superblock cannot be encoded: {e}")))?;
        if PREFIX + body.len() > out.len() {
            return Err(Error::usage(format!(
                "a profile of {} points does not fit the superblock; use fewer points",
                self.profile.points.len()
            )));
        }
        out.fill(0);
        put(out, MAGIC, VERSION, &body);
        Ok(())
    }

    /// The blocks of the copy that lies behind a checkpoint: what a root has, without most of its zeros.
    pub(crate) fn copy(&self) -> Result<Vec<u8>> {
        let mut root = vec![0; ROOT_LEN.0 as usize];
        self.encode(&mut root)?;
        let length = PREFIX + u32::from_le_bytes(root[12..16].try_into().expect("four bytes")) as usize;
        root.truncate(length.next_multiple_of(BLOCK));
        Ok(root)
    }

    /// Where the copy behind the checkpoint in area `which` lies.
    pub fn beside(&self, which: usize) -> Bytes {
        self.layout.area_at(which) + Bytes(self.checkpoint_len).align_up(Bytes(BLOCK as u64))
    }

    /// Reads a root. `Ok(None)` where no root was ever written.
    pub fn decode(bytes: &[u8]) -> Result<Option<Superblock>> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes.len() < PREFIX || bytes[..8] != MAGIC {
            return Ok(None);
        }
        let (version, length) = (word(8), word(12) as usize);
        let body = bytes
            .get(PREFIX..PREFIX.saturating_add(length))
            .ok_or_else(|| Error::damaged(format!("a superblock of {length} bytes is longer than its place")))?;
        if checksum(bytes, body) != word(16) {
            let calls_itself =
                if version == VERSION { String::new() } else { format!(" (it calls itself version {version})") };
            return Err(Error::damaged(format!("the checksum of a superblock copy does not match{calls_itself}")));
        }
        if version != VERSION {
            return Err(Error::version(format!(
                "the device was written by format version {version}, and this Forebay knows {VERSION}; use a newer one (nothing was changed)"
            )));
        }
        let superblock: Superblock = postcard::from_bytes(body)
            .map_err(|e| Error::damaged(format!("a superblock copy cannot be decoded: {e}")))?;
        superblock.layout.check()?;
        if superblock.profile.points.is_empty() {
            return Err(Error::damaged("the superblock has an empty profile"));
        }
        Ok(Some(superblock))
    }

    /// Whether the device still has the size it was formatted with.
    pub fn check_size(&self, size: Bytes, name: &str) -> Result<()> {
        if size != self.layout.device {
            return Err(Error::damaged(format!(
                "{name} has {} bytes, and {} when it was formatted; give it its old size back (nothing was changed)",
                size.0, self.layout.device.0
            )));
        }
        Ok(())
    }
}
