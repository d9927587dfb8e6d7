//! Merges the words of all counters in order, fetched a page at a time: for any number of words, only one page of each
//! counter is in memory.

use std::collections::VecDeque;

use postroom::prelude::*;

use crate::batch::{Batch, Unpacker};
use crate::count::{Counter, Order};
use crate::program::{Failure, PATIENCE};

pub struct Merge {
    order: Order,
    shards: Vec<Shard>,
    /// The number of different words.
    pub distinct: usize,
}

/// One counter, and its current page.
struct Shard {
    counter: Address<Counter>,
    page: Batch,
    unpacker: Unpacker,
    words: VecDeque<(Vec<u8>, u64)>,
}

impl Merge {
    pub async fn new(order: Order, counters: Vec<Address<Counter>>) -> Result<Self, Failure> {
        let mut merge = Self { order, shards: Vec::new(), distinct: 0 };
        for counter in counters {
            merge.distinct += counter.sort(order).timeout(PATIENCE).await?;
            let (page, unpacker, words) = Default::default();
            let mut shard = Shard { counter, page, unpacker, words };
            shard.refill().await?;
            merge.shards.push(shard);
        }
        Ok(merge)
    }

    pub async fn next(&mut self) -> Result<Option<(Vec<u8>, u64)>, Failure> {
        let order = self.order;
        let heads = self.shards.iter_mut().filter(|shard| !shard.words.is_empty());
        let Some(shard) = heads.min_by(|a, b| order.compare(a.head(), b.head())) else { return Ok(None) };
        let word = shard.words.pop_front();
        shard.refill().await?;
        Ok(word)
    }
}

impl Shard {
    fn head(&self) -> (&[u8], u64) {
        self.words.front().map_or((&[], 0), |(word, count)| (word, *count))
    }

    /// Fetches the next word, if there is one.
    async fn refill(&mut self) -> Result<(), Failure> {
        // A page may contain no complete word, if the word is larger than a page.
        while self.words.is_empty() {
            let empty = std::mem::take(&mut self.page);
            self.page = self.counter.page(empty).timeout(PATIENCE).await?;
            if self.page.is_empty() {
                break;
            }
            self.unpacker.each(&self.page, |word, count| self.words.push_back((word.to_vec(), count)));
        }
        Ok(())
    }
}
