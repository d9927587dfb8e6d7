//! Tables with one entry per slot, in chunks that are allocated on first use and never moved or freed.
//!
//! The slots themselves are in such a table, and so is data that few processes need (a side table). An unused table
//! costs only its directory, and the pages of the directory are untouched. A new table is all zeros, so that a static
//! one takes no space in the program's file.

use crate::mem::arena::{LARGE, region};
use crate::pid::SLOT_BITS;
use crate::sync::{AtomicPtr, Mutex, Ordering, lock};
use std::ptr;

const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNKS: usize = 1 << (SLOT_BITS - CHUNK_BITS);

/// An entry of a table.
pub(crate) trait ChunkEntry: Sync + 'static {
    /// Returns the initial value of the entry with this index.
    fn unused(index: u32) -> Self;
}

/// A table with an entry for each slot. Entries are shared, so their contents are atomic or locked.
pub(crate) struct Chunks<Entry: 'static> {
    directory: [AtomicPtr<[Entry; CHUNK]>; CHUNKS],
    /// Locked by a thread that allocates chunks.
    growth: Mutex<()>,
}

impl<Entry: ChunkEntry> Chunks<Entry> {
    pub(crate) const fn new() -> Self {
        // `region` guarantees only the alignment of a cache line. Entries are never dropped, like those of other
        // program-wide tables.
        const { assert!(align_of::<Entry>() <= 64) };
        Self { directory: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS], growth: Mutex::new(()) }
    }

    /// Returns the entry of the slot with this index, if its chunk exists.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&'static Entry> {
        let chunk = self.directory.get(index as usize >> CHUNK_BITS)?.load(Ordering::Acquire);
        // SAFETY: a chunk in the directory is complete and never freed.
        let chunk: &'static [Entry; CHUNK] = unsafe { chunk.as_ref()? };
        Some(&chunk[index as usize & (CHUNK - 1)])
    }

    #[inline]
    pub(crate) fn make(&self, index: u32) -> Option<&'static Entry> {
        self.get(index).or_else(|| self.grow(index))
    }

    /// Allocates the chunk of `index`, and perhaps its neighbours, unless another thread has done so.
    #[cold]
    fn grow(&self, index: u32) -> Option<&'static Entry> {
        let chunk = index as usize >> CHUNK_BITS;
        let place = self.directory.get(chunk)?;
        let growth = lock(&self.growth);
        if place.load(Ordering::Acquire).is_null() {
            // A program with few processes gets one chunk at a time; one with many gets a large page full of chunks.
            let many = (LARGE / size_of::<[Entry; CHUNK]>()).max(1);
            let (first, many) = if chunk < many { (chunk, 1) } else { (chunk / many * many, many) };
            let group = first..CHUNKS.min(first + many);
            let memory = region(group.len() * size_of::<[Entry; CHUNK]>()).cast::<Entry>();
            for (count, index) in (group.start * CHUNK..group.end * CHUNK).enumerate() {
                // SAFETY: within the region, which is aligned to a cache line or more.
                unsafe { memory.add(count).write(Entry::unused(index as u32)) };
            }
            for (count, place) in self.directory[group].iter().enumerate() {
                // SAFETY: within the region.
                let chunk = unsafe { memory.add(count * CHUNK) };
                place.store(chunk.cast().as_ptr(), Ordering::Release);
            }
        }
        drop(growth);
        self.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU32;

    struct Counter(AtomicU32);

    impl ChunkEntry for Counter {
        fn unused(index: u32) -> Self {
            Self(AtomicU32::new(index & 7))
        }
    }

    #[test]
    fn an_entry_is_there_once_it_was_made_and_stays_where_it_is() {
        static SIDE: Chunks<Counter> = Chunks::new();
        assert!(SIDE.get(5).is_none());
        let made = SIDE.make(5).expect("a slot of the table");
        made.0.store(8, Ordering::Relaxed);
        let again = SIDE.get(5).expect("just made");
        assert!(ptr::eq(made, again) && again.0.load(Ordering::Relaxed) == 8);
        // The other entries of its chunk exist too; those of other chunks do not.
        assert_eq!(SIDE.get(6).map(|entry| entry.0.load(Ordering::Relaxed)), Some(6));
        assert!(SIDE.get(1 << CHUNK_BITS).is_none() && SIDE.make((1 << SLOT_BITS) - 1).is_some());
        assert!(SIDE.make(1 << SLOT_BITS).is_none());
    }

    #[test]
    fn two_threads_that_make_an_entry_get_the_same_one() {
        // Miri takes seconds for each chunk.
        const CHUNKS: u32 = if cfg!(miri) { 2 } else { 64 };
        static SIDE: Chunks<Counter> = Chunks::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for index in (0..CHUNKS).map(|chunk| chunk << CHUNK_BITS) {
                        SIDE.make(index).expect("a slot of the table").0.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        for index in (0..CHUNKS).map(|chunk| chunk << CHUNK_BITS) {
            assert_eq!(SIDE.get(index).map(|entry| entry.0.load(Ordering::Relaxed)), Some(4));
        }
    }
}
