//! A reader: reads text, calls a parser for it, and passes the words on to the counters.
//!
//! The state that must survive a crash is here, where nothing crashes: the text that is being parsed, the word that was
//! cut by the end of a chunk, and the words that have not been sent to the counters yet.

use std::sync::Arc;

use postroom::prelude::*;

use crate::collect::Collector;
use crate::count::Counter;
use crate::gather::Gathered;
use crate::parse::Parser;
use crate::program::{Failure, PATIENCE};
use crate::source::{self, Chunk};
use crate::tally::Tally;
use crate::walk::Walker;

/// Maximum number of attempts for a text that crashes its parser. So many crashes in a row are no coincidence: even if
/// half of all messages crash, this happens to one text in 2^100.
const TRIES: u32 = 100;

/// The error of a text that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("one message has crashed its parser {TRIES} times: {0}")]
struct Poisonous(ExitReason);

#[process]
pub struct Reader {
    /// The reader of `wordcount`. Here it is not a process: its methods are called as plain methods.
    source: source::Reader,
    collector: Address<Collector>,
    parser: Address<Parser>,
    /// The beginning of a word that was cut by the end of the text.
    carry: Vec<u8>,
    gathered: Gathered,
}

#[process]
impl Reader {
    pub fn new(walker: Address<Walker>, collector: Address<Collector>, parser: Address<Parser>) -> Self {
        let source = source::Reader::new(walker, collector);
        Self { source, collector, parser, carry: Vec::new(), gathered: Gathered::default() }
    }

    /// Runs until no text is left.
    #[entry]
    pub async fn read(&mut self, ctx: &mut Context<Self>, counters: Vec<Address<Counter>>) -> Result<(), Failure> {
        let mut chunk = Chunk::default();
        loop {
            chunk = self.source.fill(chunk).await?;
            if chunk.text.is_empty() {
                return self.gathered.hand_on(ctx.pid(), &counters).await;
            }
            let mut words = 0;
            if let Some(text) = self.whole_words(&chunk.text) {
                for (word, count) in self.parsed(Arc::new(text)).await?.iter() {
                    self.gathered.add(word, count);
                    words += count;
                }
            }
            self.collector.progress(chunk.files, chunk.bytes, words).timeout(PATIENCE).await?;
            if self.gathered.is_enough() {
                self.gathered.hand_on(ctx.pid(), &counters).await?;
            }
        }
    }

    /// Returns the counts of a text, calling the parser until it answers.
    async fn parsed(&self, text: Arc<Vec<u8>>) -> Result<Tally, Failure> {
        let mut tries = 1;
        loop {
            match self.parser.parse(text.clone()).timeout(PATIENCE).await {
                Err(CallError::Died(ExitReason::Panic(_))) if tries < TRIES => tries += 1,
                Err(CallError::Died(reason @ ExitReason::Panic(_))) => return Err(Poisonous(reason).into()),
                answer => return Ok(answer?),
            }
        }
    }

    /// Returns the text up to the end of the last complete word, and keeps the rest for the next chunk. So the result
    /// of a parser depends only on its current message. A message is as large as a chunk, or as the longest word.
    fn whole_words(&mut self, chunk: &[u8]) -> Option<Vec<u8>> {
        let Some(gap) = chunk.iter().rposition(|byte| !byte.is_ascii_alphabetic()) else {
            self.carry.extend_from_slice(chunk);
            return None;
        };
        let (whole, rest) = chunk.split_at(gap + 1);
        let text = [&self.carry, whole].concat();
        self.carry = rest.to_vec();
        Some(text)
    }
}
