//! CRC32C (Castagnoli), the one checksum of the wire.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm is 32 bits wide; the library returns every width in 64.
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The checksum of bytes that come in pieces.
pub(crate) struct Running(Digest);

impl Running {
    /// The checksum of nothing yet.
    pub(crate) fn new() -> Running {
        Running(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Goes on with `bytes`.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all pieces in order.
    pub(crate) fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}
