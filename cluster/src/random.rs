//! Random numbers for tests: the same seed gives the same numbers on every machine (SplitMix64, Steele et al. 2014).

/// A sequence of numbers that depends only on its seed.
pub struct Random(u64);

impl Random {
    /// Returns the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, any of 64 bits.
    #[allow(clippy::should_implement_trait, reason = "it is no iterator: it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns true with a probability of `percent` %.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
