//! A parser: requests text from its reader, splits it into words, and sends the words to the counters.
//!
//! Every request to a reader and every batch to a counter is a call, so a parser has only one of them in flight. No
//! other back-pressure is needed.

use postroom::prelude::*;

use crate::collect::Collector;
use crate::count::Counter;
use crate::gather::Gathered;
use crate::program::{Failure, PATIENCE};
use crate::read::{Chunk, Reader};
use crate::split::Splitter;

#[process]
#[derive(Default)]
pub struct Parser {
    splitter: Splitter,
    gathered: Gathered,
}

#[process]
impl Parser {
    /// Works until its reader has no text left.
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
                return self.gathered.hand_on(ctx.pid(), &counters).await;
            }
            let mut words = 0;
            self.splitter.each(&mut chunk.text, |word| {
                self.gathered.add(word, 1);
                words += 1;
            });
            collector.progress(chunk.files, chunk.bytes, words).timeout(PATIENCE).await?;
            if self.gathered.is_enough() {
                self.gathered.hand_on(ctx.pid(), &counters).await?;
            }
        }
    }
}
