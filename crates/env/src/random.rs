//! The door to chance.

/// A source of random numbers; seeded in simulation, the kernel's in reality.
pub trait Random {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;

    /// The same for what nobody else may know. In simulation they come from a stream of their own: whether something has a
    /// secret changes nothing else that happens.
    fn secret(&self) -> u64 {
        self.next_u64()
    }

    /// A number below `bound`, which is not 0.
    fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        // Multiply-shift: the bias is below 2^-32 for the small bounds used here.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// So many bytes by chance; a multiple of eight.
pub fn bytes<const N: usize>(random: &dyn Random) -> [u8; N] {
    const { assert!(N.is_multiple_of(8), "chance comes in words of eight bytes") };
    let mut bytes = [0; N];
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes
}

#[cfg(test)]
pub(crate) mod seeded;
