//! The only source of randomness. Every random choice of a host is derived from its seed, so that a simulator can
//! repeat it. No choice depends on the order of a hash map: maps are ordered by their keys, and [`HashKeys`] affect
//! only where a key is looked up.

/// A small random number generator: xorshift64* (Vigna, 2016). Not suitable for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates the generator for stream number `stream` of `seed`.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        // One round of splitmix64 makes neighbouring seeds and streams independent.
        let mut mixed = seed.wrapping_add(stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number that is at least zero and less than one.
    #[cfg(feature = "test")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// The hash keys of maps with user keys. The system provides them, so that no user can cause collisions.
pub(crate) use std::collections::hash_map::RandomState as HashKeys;

/// Returns the seed of a host: the given one, or one that differs from run to run.
pub(crate) fn seed(given: Option<u64>) -> u64 {
    given.unwrap_or_else(entropy)
}

/// Returns a number that differs from run to run, from the keys that the standard library draws for hash maps.
pub(super) fn entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    HashKeys::new().build_hasher().finish()
}
