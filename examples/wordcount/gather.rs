//! Words on their way to the counters: counted first where they were found, and passed on with their counts, so that
//! common words travel seldom.

use std::hash::{DefaultHasher, Hasher};
use std::mem;

use postroom::prelude::*;

use crate::batch::Batch;
use crate::count::Counter;
use crate::program::{Failure, PATIENCE};
use crate::tally::Tally;

/// How many different words are gathered before they are handed on: about 2 MiB, which stays in the caches.
const GATHER: usize = 32 * 1024;

#[derive(Default)]
pub struct Gathered(Tally);

impl Gathered {
    pub fn add(&mut self, word: &[u8], count: u64) {
        self.0.add(word, count);
    }

    /// Whether it is time to hand them on.
    pub fn is_enough(&self) -> bool {
        self.0.len() >= GATHER
    }

    /// Gives each word to the counter that owns it, in the name of one process. Every batch is a call, so that there is
    /// never more than one under way.
    pub async fn hand_on(&mut self, from: Pid, counters: &[Address<Counter>]) -> Result<(), Failure> {
        let mut batches: Vec<Batch> = counters.iter().map(|_| Batch::default()).collect();
        for (mut word, count) in self.0.iter() {
            let shard = shard(word, counters.len());
            while let Some(rest) = batches[shard].push(word, count) {
                let full = mem::take(&mut batches[shard]);
                batches[shard] = counters[shard].add(from, full).timeout(PATIENCE).await?;
                word = rest;
            }
        }
        for (counter, batch) in counters.iter().zip(batches) {
            counter.add(from, batch).timeout(PATIENCE).await?;
        }
        self.0.clear();
        Ok(())
    }
}

/// The counter that owns a word: the same for all who hand words on.
fn shard(word: &[u8], counters: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    hasher.write(word);
    (hasher.finish() % counters as u64) as usize
}
