//! A parser: asks its reader for text, splits it into words, and hands the words on to the counters.
//!
//! It counts first what it has itself, and passes on words with their counts: common words travel seldom. Every request
//! to a reader and every batch to a counter is a call, so that a parser never has more than one under way: that is all
//! the back-pressure there is, and all that is needed.

use std::hash::{DefaultHasher, Hasher};
use std::mem;

use postroom::prelude::*;

use crate::batch::Batch;
use crate::collect::Collector;
use crate::count::Counter;
use crate::read::{Chunk, Reader};
use crate::split::Splitter;
use crate::tally::Tally;
use crate::{Failure, PATIENCE};

/// How many different words a parser gathers before it hands them on: about 2 MiB, which stays in the caches.
const GATHER: usize = 32 * 1024;

#[process]
#[derive(Default)]
pub struct Parser {
    splitter: Splitter,
    tally: Tally,
}

#[process]
impl Parser {
    /// Works until its reader has nothing left.
    #[entry]
    pub async fn parse(
        &mut self,
        ctx: &mut Context<Self>,
        reader: Address<Reader>,
        counters: Vec<Address<Counter>>,
        collector: Address<Collector>,
    ) -> Result<(), Failure> {
        let mut chunk = Chunk::default();
        loop {
            chunk = reader.fill(chunk).timeout(PATIENCE).await?;
            if chunk.text.is_empty() {
                return self.hand_on(ctx.pid(), &counters).await;
            }
            let mut words = 0;
            self.splitter.each(&mut chunk.text, |word| {
                self.tally.add(word, 1);
                words += 1;
            });
            collector.progress(chunk.files, chunk.bytes, words).timeout(PATIENCE).await?;
            if self.tally.len() >= GATHER {
                self.hand_on(ctx.pid(), &counters).await?;
            }
        }
    }

    async fn hand_on(&mut self, from: Pid, counters: &[Address<Counter>]) -> Result<(), Failure> {
        let mut batches: Vec<Batch> = counters.iter().map(|_| Batch::default()).collect();
        for (mut word, count) in self.tally.iter() {
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
        self.tally.clear();
        Ok(())
    }
}

/// The counter that owns a word: the same for all parsers.
fn shard(word: &[u8], counters: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    hasher.write(word);
    (hasher.finish() % counters as u64) as usize
}
