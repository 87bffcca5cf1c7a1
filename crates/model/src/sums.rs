//! Checksums of blocks, and what they make together: bytes that were summed block by block need not be gone through again for
//! the checksum of all of them.
//!
//! A checksum of bytes is a remainder of polynomials over GF(2), so the checksum of two parts is that of the first times x to
//! the power of the second's bits, plus that of the second. For a second part of one length that product is linear in 32
//! bits, and read from four tables.

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a block that is summed by itself.
pub const SUMMED: usize = 4096;

/// CRC-32C's polynomial, the lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// What is inverted before the first byte and behind the last.
const INVERTED: u32 = u32::MAX;

/// By byte of a checksum, what it becomes when [`SUMMED`] more bytes follow.
static BEHIND: [[u32; 256]; 4] = tables(times(SUMMED as u32 * 8));

/// The checksum of bytes that come in pieces, of some of which it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum(u32);

impl Sum {
    /// Goes on with `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(self.0 ^ INVERTED));
        digest.update(bytes);
        self.0 = digest.finalize() as u32;
    }

    /// Goes on with [`SUMMED`] bytes, whose checksum this is.
    pub fn update_block(&mut self, sum: u32) {
        let [a, b, c, d] = self.0.to_le_bytes();
        let [first, second, third, fourth] = &BEHIND;
        let before = first[a as usize] ^ second[b as usize] ^ third[c as usize] ^ fourth[d as usize];
        self.0 = before ^ sum;
    }

    /// The checksum of all that came.
    pub fn finish(self) -> u32 {
        self.0
    }
}

/// By bit of a remainder, what it becomes times x to this power, a power of two.
const fn times(power: u32) -> [u32; 32] {
    assert!(power.is_power_of_two(), "the map is squared until it has the power");
    let mut map = [0; 32];
    map[0] = POLYNOMIAL;
    let mut bit = 1;
    while bit < 32 {
        map[bit] = 1 << (bit - 1);
        bit += 1;
    }
    let mut reached = 1;
    while reached < power {
        map = twice(&map);
        reached *= 2;
    }
    map
}

/// A linear map after itself.
const fn twice(map: &[u32; 32]) -> [u32; 32] {
    let mut both = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        both[bit] = through(map, map[bit]);
        bit += 1;
    }
    both
}

const fn through(map: &[u32; 32], value: u32) -> u32 {
    let (mut sum, mut bit) = (0, 0);
    while bit < 32 {
        if value >> bit & 1 == 1 {
            sum ^= map[bit];
        }
        bit += 1;
    }
    sum
}

const fn tables(map: [u32; 32]) -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 4 {
        let mut value = 0;
        while value < 256 {
            tables[byte][value] = through(&map, (value as u32) << (8 * byte));
            value += 1;
        }
        byte += 1;
    }
    tables
}

#[cfg(test)]
mod tests;
