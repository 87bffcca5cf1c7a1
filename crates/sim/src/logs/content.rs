//! What is written. On real disks no zeros, and nothing that was written close by, so that no disk saves work that data of
//! users would cost; on simulated ones always the same, since those keep equal pages once, and time none of it.

/// Fills a buffer with what is found nowhere else in it.
pub(super) fn fill(buffer: &mut [u8]) {
    for (number, word) in (1_u64..).zip(buffer.chunks_mut(8)) {
        word.copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[..word.len()]);
    }
}

/// Bytes from which users take what they write.
pub(super) struct Content(Vec<u8>);

impl Content {
    /// For writes of up to `most` bytes.
    pub(super) fn new(most: usize, real: bool) -> Content {
        let mut bytes = vec![9; 2 * most];
        if real {
            fill(&mut bytes);
        }
        Content(bytes)
    }

    /// What is written at `at`.
    pub(super) fn at(&self, at: u64, length: usize) -> &[u8] {
        // A prime, so that what follows one another shares no block.
        let from = (at / 4096).wrapping_mul(4099) as usize % (self.0.len() - length + 1);
        &self.0[from..from + length]
    }
}

#[cfg(test)]
mod tests;
