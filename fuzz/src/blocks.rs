//! Blocks of rings, as a client hands them in and as they lie on a disk: entries lie within the block, and follow one another.

use forebay_model::block::{BLOCK_MAGIC, HEADER_LEN, View};

/// As long as any block is here: what follows an input are zeros, as at the end of most blocks.
const LENGTH: usize = 16 << 10;

/// A block without the first bytes of its header, which say that it is one.
pub(super) fn take(bytes: &[u8]) {
    let mut block = BLOCK_MAGIC.to_vec();
    block.extend(bytes);
    block.resize(LENGTH.max(block.len()), 0);
    let _ = View::parse(&block);
    let Ok(view) = View::of_sealed(&block) else { return };
    let _ = view.verify();
    let (mut end, mut count) = (HEADER_LEN, 0u64);
    let first = view.header().first_sequence.get();
    for entry in view.entries() {
        let Ok(entry) = entry else { break };
        assert!(entry.payload.start >= end && entry.payload.end <= view.bytes().len(), "{entry:?} is not behind {end}");
        assert!(entry.caller_keys.end <= view.bytes().len(), "{entry:?} has keys behind its block");
        assert!(entry.sequence >= first, "{entry:?} has a number before {first}");
        (end, count) = (entry.payload.end, count + 1);
    }
    assert!(count <= u64::from(view.header().entries.get()), "there are more entries than there should be");
    view.cuts().for_each(drop);
    view.gaps().for_each(drop);
}
