//! Where the users' files and the log lie on the disks: the same for every policy, so that only the policy differs.

use forebay_env::Random;
use forebay_model::{Bytes, Error, Result};
use std::ops::Range;

/// What the small writer writes at each place.
pub const BLOCK: Bytes = Bytes::kib(4);
/// Files of the small writer on each disk, and so writes in a round.
pub const FILES: u64 = 20;
/// The streaming user's file.
const STREAM: Bytes = Bytes(2_000_000_000);
/// One file of the small writer, where there is room for it; a quarter of the way to the next one otherwise.
const FILE: Bytes = Bytes::mib(64);
/// The log: as large as in the published experiments, so that it does not fill.
const LOG: Bytes = Bytes(5_000_000_000);
/// How far before a file its metadata lies: in the same group of a file system.
const INODE: u64 = 1 << 20;

/// One small write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallWrite {
    /// Where it belongs.
    pub at: Bytes,
    /// Where its file begins.
    pub file: Bytes,
    /// Where its file's metadata lies, which changes with it.
    pub inode: Bytes,
}

/// Files and log on disks that are `size` together.
pub(super) struct Places {
    /// Read by the streaming reader: a quarter of the way in.
    pub(super) read: Range<u64>,
    /// Written by the streaming writer: three quarters of the way in.
    pub(super) written: Range<u64>,
    /// In the middle, where file systems put their journals.
    pub(super) log: Range<u64>,
    /// Evenly over all of it.
    files: Vec<Range<u64>>,
}

impl Places {
    pub(super) fn new(size: Bytes, disks: u64) -> Result<Places> {
        let files = FILES * disks;
        // The unit between two files holds all but the log without touching its neighbours.
        let unit = size.0 / (2 * files);
        let length = FILE.0.min(unit / 4 / BLOCK.0 * BLOCK.0);
        if length < INODE {
            let least = Bytes((8 * files * INODE).next_multiple_of(disks * Bytes::mib(1).0) / disks);
            return Err(Error::usage(format!(
                "{size} is too small for {files} files far from each other; take {least} or more for each disk"
            )));
        }
        let range = |at: u64, most: u64| {
            let at = at / BLOCK.0 * BLOCK.0;
            at..at + most.min(unit - length).min(size.0 / 16) / BLOCK.0 * BLOCK.0
        };
        let file = |i: u64| {
            let at = Bytes(unit * (2 * i + 1)).align_down(BLOCK).0;
            at..at + length
        };
        Ok(Places {
            read: range(size.0 / 4, STREAM.0),
            written: range(size.0 / 4 * 3, STREAM.0),
            log: range(size.0 / 2, LOG.0),
            files: (0..files).map(file).collect(),
        })
    }

    /// One write at a place of chance in each file.
    pub(super) fn round(&self, random: &dyn Random) -> Vec<SmallWrite> {
        let write = |file: &Range<u64>| SmallWrite {
            at: Bytes(file.start + random.below((file.end - file.start) / BLOCK.0) * BLOCK.0),
            file: Bytes(file.start),
            inode: Bytes(file.start - INODE),
        };
        self.files.iter().map(write).collect()
    }
}

/// Where on each of `disks` disks of `size` the reader's file begins.
pub fn reader_begins(size: Bytes, disks: u64) -> Result<Bytes> {
    let all = Bytes(size.align_down(super::STRIPE).0 * disks);
    Places::new(all, disks).map(|places| Bytes(places.read.start / disks))
}

#[cfg(test)]
mod tests;
