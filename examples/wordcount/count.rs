//! A counter: owns the counts of its share of the words, and returns them in order, a page at a time.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::mem;

use postroom::prelude::*;

use crate::batch::{Batch, Unpacker};
use crate::tally::{Entry, Tally};

#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// Sorted by the bytes of the words.
    Word,
    /// Sorted by frequency, the most frequent first; equally frequent words are in alphabetical order.
    Frequency,
}

impl Order {
    pub fn compare(self, (word, count): (&[u8], u64), (other, others): (&[u8], u64)) -> Ordering {
        match self {
            Self::Word => word.cmp(other),
            Self::Frequency => others.cmp(&count).then_with(|| word.cmp(other)),
        }
    }
}

#[process]
#[derive(Default)]
pub struct Counter {
    tally: Tally,
    unpackers: HashMap<Pid, Unpacker>,
    pages: Pages,
}

#[process]
impl Counter {
    #[entry]
    pub fn serve(&mut self) {}

    /// Adds a parser's words. Returns the empty batch, which allows the parser to send the next one.
    #[message]
    pub fn add(&mut self, parser: Pid, batch: Batch) -> Batch {
        let unpacker = self.unpackers.entry(parser).or_default();
        unpacker.each(&batch, |word, count| self.tally.add(word, count));
        batch.cleared()
    }

    /// Ends the counting; pages are available from then on. Returns the number of different words.
    #[message]
    pub fn sort(&mut self, order: Order) -> usize {
        let (letters, mut entries) = mem::take(&mut self.tally).into_parts();
        entries.sort_unstable_by(|a, b| order.compare((a.word(&letters), a.count), (b.word(&letters), b.count)));
        self.pages = Pages { letters, entries, ..Pages::default() };
        self.pages.entries.len()
    }

    /// Returns the next page of words in order. The last page is empty.
    #[message]
    pub fn page(&mut self, page: Batch) -> Batch {
        self.pages.fill(page.cleared())
    }
}

#[derive(Default)]
struct Pages {
    letters: Vec<u8>,
    entries: Vec<Entry>,
    /// The index of the next word.
    next: usize,
    /// The number of bytes of the next word that are on earlier pages.
    given: usize,
}

impl Pages {
    fn fill(&mut self, mut page: Batch) -> Batch {
        while let Some(entry) = self.entries.get(self.next) {
            let word = entry.word(&self.letters);
            if let Some(rest) = page.push(&word[self.given..], entry.count) {
                self.given = word.len() - rest.len();
                break;
            }
            (self.next, self.given) = (self.next + 1, 0);
        }
        page
    }
}
