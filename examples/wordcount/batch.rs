//! Words and counts packed into one buffer of at most 64 KiB: the messages between parsers, counters and the collector.
//!
//! A record consists of a count, a length (both as base-128 numbers, low bits first) and the letters. A word that does
//! not fit continues in the next batch, and the record of its first part has the count 0. So words may have any length,
//! and no batch exceeds the size limit of messages.

use crate::program::MESSAGE_LIMIT;

/// Maximum size in bytes of the two numbers before the letters: ten for a count, three for a length below 64 KiB.
const RECORD_HEAD: usize = 13;

#[derive(Debug, Default)]
pub struct Batch(Vec<u8>);

impl Batch {
    /// Adds a word, or as much of it as fits. Returns the rest, which belongs at the front of the next batch.
    pub fn push<'a>(&mut self, word: &'a [u8], count: u64) -> Option<&'a [u8]> {
        let room = MESSAGE_LIMIT.saturating_sub(self.0.len() + RECORD_HEAD);
        match word.split_at_checked(room) {
            Some((part, rest)) if !rest.is_empty() => {
                if !part.is_empty() {
                    self.record(part, 0);
                }
                Some(rest)
            }
            _ => {
                self.record(word, count);
                None
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the emptied batch, with its memory.
    pub fn cleared(mut self) -> Self {
        self.0.clear();
        self
    }

    fn record(&mut self, letters: &[u8], count: u64) {
        self.number(count);
        self.number(letters.len() as u64);
        self.0.extend_from_slice(letters);
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

/// A reader for the batches of one sender, in order. It joins the words that were cut between two of them.
#[derive(Default)]
pub struct Unpacker {
    cut: Vec<u8>,
}

impl Unpacker {
    /// Calls `with` for every word that ends in this batch.
    pub fn each(&mut self, batch: &Batch, mut with: impl FnMut(&[u8], u64)) {
        let mut bytes = batch.0.as_slice();
        while let Some((letters, count)) = record(&mut bytes) {
            if count > 0 && self.cut.is_empty() {
                with(letters, count);
                continue;
            }
            self.cut.extend_from_slice(letters);
            if count > 0 {
                with(&self.cut, count);
                self.cut.clear();
            }
        }
    }
}

fn record<'a>(bytes: &mut &'a [u8]) -> Option<(&'a [u8], u64)> {
    let count = number(bytes)?;
    let length = number(bytes)?;
    let letters = bytes.split_off(..length as usize)?;
    Some((letters, count))
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}
