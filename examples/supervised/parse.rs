//! A parser: counts the words of a text, or crashes.

use std::sync::Arc;

use postroom::prelude::*;

use crate::split::Splitter;
use crate::tally::Tally;

/// The panic message of a crash.
pub const CRASH: &str = "bad luck";

#[process]
pub struct Parser {
    crash: f64,
    chance: Chance,
}

#[process]
impl Parser {
    pub fn new(crash: f64, chance: Chance) -> Self {
        Self { crash, chance }
    }

    #[entry]
    pub fn serve(&mut self) {}

    /// Returns the counts of the words in a text that begins and ends with complete words.
    #[message]
    pub fn parse(&mut self, text: Arc<Vec<u8>>) -> Tally {
        let mut tally = Tally::default();
        Splitter::default().each(&mut text.to_vec(), |word| tally.add(word, 1));
        // The worst moment: the work is done, but no answer has been sent.
        if self.chance.draw() < self.crash {
            panic!("{CRASH}");
        }
        tally
    }
}

/// A pseudorandom generator (SplitMix64, by Steele, Lea and Flood).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns an independent generator.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// Returns a number from 0 to below 1.
    pub fn draw(&mut self) -> f64 {
        const BITS: u32 = f64::MANTISSA_DIGITS;
        (self.next() >> (u64::BITS - BITS)) as f64 / (1_u64 << BITS) as f64
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
