//! The block: a self-describing batch of elements, written at once.
//!
//! A block is packed by the client ([`Packer`]), stamped with its place by the target ([`Stamp`]), and read by both
//! ([`View`]). Its bytes are described in `docs/format/block.md`; the code here prints that table.
//!
//! Invariants: the header's checksum covers the header, which holds the checksums of payload and body; a block whose
//! stamp does not name the place it was read from is not there, however valid it is otherwise.

mod header;
mod packer;
mod view;

pub use header::{BLOCK_ALIGN, BLOCK_MAGIC, Flags, HEADER_LEN, Header, MAX_BLOCK, MOST_ENTRIES, Stamp, table};
pub use packer::{Packer, Sealed, largest_piece};
pub use view::{Entries, Entry, View, parse_stamped};

/// CRC-32C (Castagnoli) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The same of bytes that lie in several places, one behind the other.
pub fn crc32c_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.into_iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

#[cfg(test)]
mod tests;
