//! Whether what a peer sent as a block is one: a target trusts what it is given.

use forebay_model::block::{Flags, HEADER_LEN, Header, MOST_ENTRIES, View};
use forebay_model::{Error, Result};

/// Bytes of a gap record and of a cut record, see `docs/format/block.md`.
const GAP_RECORD: usize = 32;
const CUT_RECORD: usize = 8;

/// What a session's next block has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The session.
    pub(crate) writer: u64,
    /// Its number.
    pub(crate) number: u64,
    /// Whether it goes on with an element of the block before, if that is known.
    pub(crate) goes_on: Option<bool>,
    /// Bytes of caller-supplied keys of an element.
    pub(crate) caller_width: usize,
}

impl Expected {
    /// Checks a block; what the one after it has to be.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<Expected> {
        let view = whole(bytes)?;
        let header = view.header();
        if header.total_len.get() as usize != bytes.len() {
            return Err(bad(format!("{} bytes for a block of {}", bytes.len(), header.total_len)));
        }
        if (header.writer.get(), header.number.get()) != (self.writer, self.number) {
            return Err(bad(format!(
                "block {} of session {:016x} where block {} of session {:016x} follows",
                header.number,
                header.writer.get(),
                self.number,
                self.writer
            )));
        }
        if self.goes_on.is_some_and(|goes_on| goes_on != header.starts_within()) {
            return Err(bad(format!("block {}, which does not go on where the one before ended", self.number)));
        }
        let entries = header.entries.get() as usize;
        if entries > MOST_ENTRIES as usize {
            return Err(bad(format!("a block of {entries} elements, where {MOST_ENTRIES} is the most")));
        }
        if header.keys_len.get() as usize != entries * self.caller_width {
            return Err(bad(format!(
                "{} bytes of keys for {entries} elements of {} each",
                header.keys_len, self.caller_width
            )));
        }
        view.verify()?;
        check_content(&view)?;
        Ok(Expected { number: self.number + 1, goes_on: Some(header.continues()), ..*self })
    }
}

/// The block, if its header is one that can be stamped.
fn whole(bytes: &[u8]) -> Result<View<'_>> {
    let view = View::of_sealed(bytes)?;
    // A sealed block has no checksum over its header before it is stamped: the frame had one.
    let mut header = [0; HEADER_LEN];
    header.copy_from_slice(&bytes[..HEADER_LEN]);
    Header::set_stamp(&mut header, &view.stamp());
    Header::read(&header)?;
    Ok(view)
}

/// Whether header, directory and gaps tell the same.
fn check_content(view: &View<'_>) -> Result<()> {
    let header = view.header();
    let (mut end, mut least, mut most) = (HEADER_LEN, i64::MAX, i64::MIN);
    for entry in view.entries() {
        let entry = entry?;
        end = entry.payload.end;
        (least, most) = (least.min(entry.time.0), most.max(entry.time.0));
    }
    if end != header.directory_at() {
        return Err(bad(format!("elements up to {end} in a payload that ends at {}", header.directory_at())));
    }
    let mut gaps = 0;
    for (before, gap) in view.gaps() {
        gaps += 1;
        if before > header.entries.get() {
            return Err(bad(format!("a gap before element {before} of {}", header.entries)));
        }
        (least, most) = (least.min(gap.first.0), most.max(gap.last.0));
    }
    if gaps * GAP_RECORD != header.gaps_len.get() as usize {
        return Err(bad(format!("{} bytes of gap records that hold {gaps}", header.gaps_len)));
    }
    check_cuts(view)?;
    let entries = header.entries.get();
    if header.is_torn() && !ends_torn(view)? {
        return Err(bad("a block that says an element is torn, and does not end one".to_string()));
    }
    if entries == 0 && (gaps == 0 || header.continues() || header.starts_within()) {
        return Err(bad("a block without elements".to_string()));
    }
    if (least, most) != (header.min_time.get(), header.max_time.get()) {
        return Err(bad("a block whose times are not those in its header".to_string()));
    }
    Ok(())
}

/// Whether the first entry ends an element of the block before with nothing.
fn ends_torn(view: &View<'_>) -> Result<bool> {
    let first = view.entries().next().transpose()?;
    Ok(view.header().starts_within() && first.is_some_and(|entry| entry.last && entry.payload.is_empty()))
}

fn check_cuts(view: &View<'_>) -> Result<()> {
    let header = view.header();
    let (mut cuts, mut next) = (0, 0);
    for (entry, bytes) in view.cuts() {
        cuts += 1;
        if entry < next || entry >= header.entries.get() || bytes == 0 {
            return Err(bad(format!("{bytes} bytes cut off element {entry} of {}", header.entries)));
        }
        next = entry + 1;
    }
    let flagged = header.flags.get() & Flags::CUTS != 0;
    if cuts * CUT_RECORD != header.cuts_len.get() as usize || flagged != (cuts > 0) {
        return Err(bad(format!("{} bytes of cut records that hold {cuts}", header.cuts_len)));
    }
    Ok(())
}

fn bad(what: String) -> Error {
    Error::damaged(format!("a peer sent {what}: it is broken"))
}

#[cfg(test)]
mod tests;
