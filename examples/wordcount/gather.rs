//! Words on their way to the counters: counted locally first, and sent with their counts, so that common words are sent
//! rarely.

use std::hash::{DefaultHasher, Hasher};
use std::mem;

use postroom::prelude::*;

use crate::batch::Batch;
use crate::count::Counter;
use crate::program::{Failure, PATIENCE};
use crate::tally::Tally;

/// Number of different words that are gathered before they are sent. They take about 2 MiB, which fits into the caches.
const GATHER: usize = 32 * 1024;

#[derive(Default)]
pub struct Gathered(Tally);

impl Gathered {
    pub fn add(&mut self, word: &[u8], count: u64) {
        self.0.add(word, count);
    }

    /// Returns whether the words should be sent.
    pub fn is_enough(&self) -> bool {
        self.0.len() >= GATHER
    }

    /// Sends each word to the counter that owns it, on behalf of one process. Every batch is sent in a call, so only
    /// one batch is in flight at a time.
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

/// Returns the counter that owns a word. All senders choose the same one.
fn shard(word: &[u8], counters: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    hasher.write(word);
    (hasher.finish() % counters as u64) as usize
}
