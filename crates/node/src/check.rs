//! Whether what a peer sent as a block is one: a target trusts what it is given.

use forebay_model::block::View;
use forebay_model::{Error, Result};

/// Bytes of a gap record, see `docs/format/block.md`.
const GAP_RECORD: usize = 32;

/// Checks a block of `writer` that should have `number`, and keys of `caller_width` bytes an entry.
pub(crate) fn check_block(bytes: &[u8], writer: u64, number: u64, caller_width: usize) -> Result<()> {
    let view = View::of_sealed(bytes)?;
    let header = view.header();
    let bad = |what: String| Error::damaged(format!("a peer sent {what}: it is broken"));
    if header.total_len.get() as usize != bytes.len() {
        return Err(bad(format!("{} bytes for a block of {}", bytes.len(), header.total_len)));
    }
    if (header.writer.get(), header.number.get()) != (writer, number) {
        return Err(bad(format!(
            "block {} of session {:016x} where block {number} of session {writer:016x} follows",
            header.number,
            header.writer.get()
        )));
    }
    let entries = header.entries.get() as usize;
    if header.keys_len.get() as usize != entries * caller_width {
        return Err(bad(format!("{} bytes of keys for {entries} elements of {caller_width} each", header.keys_len)));
    }
    view.verify()?;
    let mut end = 0;
    for entry in view.entries() {
        end = entry?.payload.end;
    }
    if entries > 0 && end != header.directory_at() {
        return Err(bad(format!("a directory of {end} bytes for a payload that ends at {}", header.directory_at())));
    }
    let gaps = view.gaps().count();
    if gaps * GAP_RECORD != header.gaps_len.get() as usize {
        return Err(bad(format!("{} bytes of gap records that hold {gaps}", header.gaps_len)));
    }
    if entries + gaps == 0 {
        return Err(bad("a block with nothing in it".to_string()));
    }
    Ok(())
}
