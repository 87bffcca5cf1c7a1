//! An object of copies, as one target has it, while it is read.
//!
//! Always: a record that is there more than once counts once, wherever it is there again. For that nothing has to be kept of those
//! that were read: batches rise, so do keys of changes that count together, and so do those of pieces.

use crate::copies::record::{MAGIC, Record};
use forebay_model::TargetId;

/// How far it was read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) target: TargetId,
    /// Different records, and their bytes.
    pub(super) records: usize,
    pub(super) length: u64,
    /// Bytes of which those up to `at` were read, and those behind are no whole record.
    pub(super) part: Vec<u8>,
    pub(super) at: usize,
    /// Nothing behind counts.
    pub(super) is_over: bool,
    /// Bytes behind which are not in `part`, and whether any were whole once.
    behind: u64,
    is_damaged: bool,
    far: Far,
}

/// How far records of each kind went.
#[derive(Debug, Default)]
struct Far {
    is_begun: bool,
    /// The last batch of which everything was read, and the last key that was read of the one behind it.
    batch: u64,
    key: Option<Vec<u8>>,
    /// The last key of pieces.
    covered: Option<Vec<u8>>,
    is_whole: bool,
}

impl Reading {
    /// Of which nothing was read yet.
    pub(super) fn new(target: TargetId) -> Reading {
        let (part, far) = (Vec::new(), Far::default());
        Reading { target, records: 0, length: 0, part, at: 0, is_over: false, behind: 0, is_damaged: false, far }
    }

    /// Counts a record of so many bytes, unless it is one of those before once more: where a connection ended before the answer, it
    /// is there twice, also behind others that came meanwhile.
    pub(super) fn is_new(&mut self, record: &Record, length: usize) -> bool {
        let is_new = self.far.goes_on(record);
        if is_new {
            self.records += 1;
            self.length += length as u64;
        }
        is_new
    }

    /// Lets go of what was read. Where a record is behind what is none, that was one once: none is begun before the one before it is
    /// there.
    pub(super) fn pass(&mut self) {
        self.part.drain(..std::mem::take(&mut self.at));
        if self.is_over {
            self.is_damaged |= is_record_within(&self.part);
            let passed = self.part.len().saturating_sub(MAGIC.len());
            self.behind += self.part.drain(..passed).len() as u64;
        }
    }

    /// So many bytes that follow are damaged.
    pub(super) fn take_damaged(&mut self, bytes: u64) {
        (self.is_over, self.is_damaged) = (true, true);
        self.behind += bytes;
    }

    /// How long it would be with what is damaged of it; 0 if nothing is. An end that was not written wholly is not.
    pub(super) fn damaged(&self) -> u64 {
        match self.is_damaged || is_record_within(&self.part) {
            true => self.length + self.part.len() as u64 + self.behind,
            false => 0,
        }
    }
}

impl Far {
    /// Whether a record is behind those before it.
    fn goes_on(&mut self, record: &Record) -> bool {
        match record {
            Record::Begin { .. } => !std::mem::replace(&mut self.is_begun, true),
            Record::Changes { batch, more, writes, .. } => {
                let last = writes.last().map(|(key, _)| key);
                let is_new = *batch > self.batch && (self.key.is_none() || last > self.key.as_ref());
                if is_new && *more {
                    self.key = last.cloned();
                } else if is_new {
                    (self.batch, self.key) = (*batch, None);
                }
                is_new
            }
            Record::Piece { pairs } => {
                let last = pairs.last().map(|(key, _)| key);
                let is_new = last > self.covered.as_ref();
                if is_new {
                    self.covered = last.cloned();
                }
                is_new
            }
            Record::Whole { .. } => !std::mem::replace(&mut self.is_whole, true),
        }
    }
}

/// Whether a record begins behind the first byte.
fn is_record_within(bytes: &[u8]) -> bool {
    bytes.windows(MAGIC.len()).skip(1).any(|some| some == MAGIC)
}
