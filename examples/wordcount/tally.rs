//! The counts of words: a hash table over one buffer with the text of all words, so a word costs its letters and one
//! entry, without an allocation of its own.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

#[derive(Default)]
pub struct Tally {
    letters: Vec<u8>,
    words: HashTable<Entry>,
    hasher: DefaultHashBuilder,
}

/// A word, by its position in the buffer, and its count.
#[derive(Clone, Copy)]
pub struct Entry {
    start: usize,
    length: usize,
    pub count: u64,
}

impl Tally {
    pub fn add(&mut self, word: &[u8], count: u64) {
        let Self { letters, words, hasher } = self;
        match words.find_mut(hash(hasher, word), |entry| entry.word(letters) == word) {
            Some(entry) => entry.count += count,
            None => {
                let entry = Entry { start: letters.len(), length: word.len(), count };
                letters.extend_from_slice(word);
                words.insert_unique(hash(hasher, word), entry, |entry| hash(hasher, entry.word(letters)));
            }
        }
    }

    /// Returns the number of different words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.words.iter().map(|entry| (entry.word(&self.letters), entry.count))
    }

    /// Removes all words and keeps the memory.
    pub fn clear(&mut self) {
        self.letters.clear();
        self.words.clear();
    }

    /// Returns the letters of all words, and the entries that point into them, in no particular order.
    pub fn into_parts(self) -> (Vec<u8>, Vec<Entry>) {
        (self.letters, self.words.into_iter().collect())
    }
}

impl Entry {
    pub fn word<'a>(&self, letters: &'a [u8]) -> &'a [u8] {
        &letters[self.start..self.start + self.length]
    }
}

fn hash(hasher: &DefaultHashBuilder, word: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(word);
    hasher.finish()
}
