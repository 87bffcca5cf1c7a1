//! Where in a long journal anything is left: most of it is holes, which need not be read.
//!
//! A target says at one moment how long a journal is and how much space it takes. Nothing comes to be before the end that it had
//! then, so what is found there afterwards was there already; and when as many blocks are found as it took, it had no others.
//! Blocks that are not found, since they were settled meanwhile or hold only zeros, make it read more, never less.

use super::super::super::components::Slice;
use forebay_model::{Bytes, Result};
use forebay_wire::object::{LOST_TOGETHER, MOST_AT_ONCE};

/// What is looked at from the end on: what is not settled is mostly what is being written.
const LOOKS: [u64; 2] = [super::FIRST, MOST_AT_ONCE.0];
/// How often it is tried again, if others change the journal meanwhile.
const TRIES: u32 = 4;
/// Space is taken in blocks of so many bytes, or of several times as many.
const BLOCK: u64 = LOST_TOGETHER.0;

/// What a target says of a journal.
pub(super) struct Extent<By> {
    /// Who said it.
    pub(super) by: By,
    /// Where its last byte is.
    pub(super) size: u64,
    /// The space that it takes.
    pub(super) used: Bytes,
    /// Rises whenever it is changed.
    pub(super) version: u64,
}

/// Where something in a journal begins, or may begin: there is nothing between `known` and that place, as `by` says. It is at the
/// beginning of a block, or `known` if it is not found; it may be before that.
pub(super) async fn passed<By: Copy + PartialEq>(
    known: u64,
    by: By,
    extent: impl AsyncFn() -> Result<Option<Extent<By>>>,
    read: impl AsyncFn(u64, u64) -> Result<(Slice, Option<By>)>,
) -> Result<u64> {
    let mut before = None;
    for _ in 0..TRIES {
        // As long as it is the same, it would look the same again.
        let now = extent().await?.filter(|now| now.by == by && before != Some(now.version));
        let Some(Extent { size, used, version, .. }) = now else { break };
        before = Some(version);
        let mut missing = used.0.div_ceil(BLOCK);
        if missing > 0 && size <= known.saturating_add(MOST_AT_ONCE.0) {
            // One read has all of it.
            break;
        }
        // How far it was looked back, and where the first of what was found begins.
        let (mut from, mut begins) = (size, size - size % BLOCK);
        for most in LOOKS {
            if missing == 0 || from <= known {
                return Ok(begins);
            }
            let at = from.saturating_sub(most).max(known);
            let at = at - at % BLOCK;
            let (bytes, who) = read(at, from - at).await?;
            if who != Some(by) || bytes.len() as u64 != from - at {
                return Ok(known);
            }
            for (place, block) in (at..).step_by(BLOCK as usize).zip(bytes.chunks(BLOCK as usize)) {
                if block.iter().any(|byte| *byte != 0) {
                    missing = missing.saturating_sub(1);
                    begins = begins.min(place);
                }
            }
            from = at;
        }
        if missing == 0 || from <= known {
            return Ok(begins);
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests;
