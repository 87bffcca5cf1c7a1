//! Numbers that look random and are the same again for the same seed: xorshift64* (Vigna 2016), seeded by one step of
//! splitmix64 so that small seeds differ at once.

#[derive(Debug, Clone)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Chance((z ^ (z >> 31)).max(1))
    }

    /// 32 bits.
    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number below `bound`, which is not 0.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let wide = u64::from(self.next()) << 32 | u64::from(self.next());
        ((u128::from(wide) * u128::from(bound)) >> 64) as u64
    }
}
