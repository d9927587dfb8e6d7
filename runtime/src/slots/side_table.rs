//! Data that few processes need, outside their slots: one entry per slot, in chunks that are made when first needed,
//! never moved and never freed. Unused, it costs only its directory, which is empty pages.

use crate::mem::arena::permanent;
use crate::pid::SLOT_BITS;
use crate::sync::{AtomicPtr, Mutex, Ordering, lock};
use std::ptr;

const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNKS: usize = 1 << (SLOT_BITS - CHUNK_BITS);

/// A table with an entry for each slot. Entries are shared: their contents are atomic, or locked.
pub(crate) struct SideTable<T> {
    chunks: [AtomicPtr<[T; CHUNK]>; CHUNKS],
    /// Locked by the thread that makes a chunk.
    growth: Mutex<()>,
    unused: fn() -> T,
}

impl<T: Sync> SideTable<T> {
    /// Creates a table whose entries begin as the result of `unused`.
    pub(crate) const fn new(unused: fn() -> T) -> Self {
        // At most the alignment of a cache line. Entries are never dropped, like those of other program-wide tables.
        const { assert!(align_of::<T>() <= 64) };
        Self { chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS], growth: Mutex::new(()), unused }
    }

    /// Returns the entry of the slot with that index, if its chunk exists.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let chunk = self.chunks.get(index as usize >> CHUNK_BITS)?.load(Ordering::Acquire);
        // SAFETY: a chunk in the directory is complete and never freed.
        let chunk = unsafe { chunk.as_ref()? };
        Some(&chunk[index as usize & (CHUNK - 1)])
    }

    #[inline]
    pub(crate) fn make(&self, index: u32) -> Option<&T> {
        self.get(index).or_else(|| self.grow(index))
    }

    #[cold]
    fn grow(&self, index: u32) -> Option<&T> {
        let place = self.chunks.get(index as usize >> CHUNK_BITS)?;
        let growth = lock(&self.growth);
        if place.load(Ordering::Acquire).is_null() {
            let memory = permanent(size_of::<[T; CHUNK]>()).cast::<T>();
            for count in 0..CHUNK {
                // SAFETY: within the memory, which is aligned to a cache line.
                unsafe { memory.add(count).write((self.unused)()) };
            }
            place.store(memory.cast().as_ptr(), Ordering::Release);
        }
        drop(growth);
        self.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU32;

    #[test]
    fn an_entry_is_there_once_it_was_made_and_stays_where_it_is() {
        static SIDE: SideTable<AtomicU32> = SideTable::new(|| AtomicU32::new(7));
        assert!(SIDE.get(5).is_none());
        let made = SIDE.make(5).expect("a slot of the table");
        made.store(8, Ordering::Relaxed);
        let again = SIDE.get(5).expect("just made");
        assert!(ptr::eq(made, again) && again.load(Ordering::Relaxed) == 8);
        // Its neighbours are there too, and others are not.
        assert_eq!(SIDE.get(6).map(|entry| entry.load(Ordering::Relaxed)), Some(7));
        assert!(SIDE.get(1 << CHUNK_BITS).is_none() && SIDE.make((1 << SLOT_BITS) - 1).is_some());
        assert!(SIDE.make(1 << SLOT_BITS).is_none());
    }

    #[test]
    fn two_threads_that_make_an_entry_get_the_same_one() {
        static SIDE: SideTable<AtomicU32> = SideTable::new(|| AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for index in (0..64).map(|chunk| chunk << CHUNK_BITS) {
                        SIDE.make(index).expect("a slot of the table").fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        for index in (0..64).map(|chunk| chunk << CHUNK_BITS) {
            assert_eq!(SIDE.get(index).map(|entry| entry.load(Ordering::Relaxed)), Some(4));
        }
    }
}
