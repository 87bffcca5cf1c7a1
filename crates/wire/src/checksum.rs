//! CRC32C (Castagnoli), the one checksum of the wire.

use crc_fast::CrcAlgorithm;

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm is 32 bits wide; the library returns every width in 64.
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
