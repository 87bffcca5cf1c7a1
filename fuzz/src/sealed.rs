//! What lies on a device behind a prefix whose checksum holds: nothing but that keeps it from who reads it.

use forebay_wire::crc32c;

/// Bytes before the body.
pub(super) const PREFIX: usize = 20;

/// A body behind its prefix, as `docs/format/superblock.md` has it, and zeros up to a multiple of `whole`.
pub(super) fn of(magic: [u8; 8], version: u32, body: &[u8], whole: usize) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((body.len() as u32).to_le_bytes());
    let checksum = crc32c(&bytes) ^ crc32c(body);
    bytes.extend(checksum.to_le_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(whole), 0);
    bytes
}
