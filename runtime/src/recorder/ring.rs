//! A ring of records that one thread writes and other threads read. None of them ever waits.
//!
//! The writer overwrites the oldest record when the ring is full. A reader copies the records that may still exist, and
//! then determines which of its copies may have been overwritten in the meantime.
//!
//! `written` counts the records that were ever written; record *n* is in cell *n* modulo the size. Each word of a cell
//! is atomic, so a torn copy is a wrong value but not undefined behaviour.
//!
//! * I1 the writer of record *n* executes a release fence, after `written` became *n*;
//! * I2 it stores the words of the record, relaxed;
//! * I3 it stores *n + 1* in `written`, with Release;
//! * I4 a reader loads `written`, with Acquire, as *w*. The words that it copies from the records before *w* were
//!   stored by I2 of these records or of later ones, since I3 and I4 synchronize;
//! * I5 it copies the words, relaxed;
//! * I6 it executes an acquire fence, and loads `written` again, as *v*. If a copy contains a word of record *n*, I1 of
//!   that record and this fence synchronize, so *v* is at least *n*. Hence the record one whole ring before *v*, and
//!   all before it, may be torn; those after it are whole.
//!
//! So all but one of the cells of a ring can be read. Without I1, a word of a record could be seen before `written`
//! shows that its predecessor is complete, and a torn copy would be mistaken for a whole one. The same holds without
//! I6. A model is in `tests/models`.

use crate::sync::{AtomicPtr, AtomicU64, Ordering, fence};
use std::ptr;

/// A function that returns the name of a type. It is stored in a constant of the program, and the address of that
/// constant identifies the type.
pub(crate) type TypeName = fn() -> &'static str;

/// The record of an event. Its kind determines the meaning of the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) words: [u64; 3],
    pub(crate) name: Option<&'static TypeName>,
}

/// Size of a record in bytes.
pub(crate) const RECORD_BYTES: usize = 32;

#[repr(C)]
struct RecordCell {
    words: [AtomicU64; 3],
    name: AtomicPtr<TypeName>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<RecordCell>() == RECORD_BYTES);
/// With a larger alignment, zeroed memory would come from `malloc` and be filled, 8 MiB for each thread: see
/// [`zeroed`].
#[cfg(not(loom))]
const _: () = assert!(align_of::<RecordCell>() <= 16);

pub(crate) struct Ring {
    /// The cells. Their number is a power of two.
    cells: Box<[RecordCell]>,
    /// The number of the next record. Only the writer uses it: loading `written` instead would hide races from the
    /// model.
    next: AtomicU64,
    written: AtomicU64,
}

impl Ring {
    /// Creates a ring of at most `cells` cells, but at least two.
    pub(crate) fn new(cells: usize) -> Self {
        let count = if cells < 4 { 2 } else { 1 << cells.ilog2() };
        Self { cells: zeroed(count), next: AtomicU64::new(0), written: AtomicU64::new(0) }
    }

    /// Returns the number of records that were ever written.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn cell(&self, number: u64) -> &RecordCell {
        let place = number as usize & (self.cells.len() - 1);
        // SAFETY: the length is a power of two, so the masked index is in bounds.
        unsafe { self.cells.get_unchecked(place) }
    }

    /// Writes a record. Must be called only by the one thread that writes to this ring.
    #[inline(always)]
    pub(crate) fn write(&self, record: Record) {
        let number = self.next.load(Ordering::Relaxed);
        self.next.store(number + 1, Ordering::Relaxed);
        // I1.
        fence(Ordering::Release);
        let cell = self.cell(number);
        // I2.
        for (place, word) in cell.words.iter().zip(record.words) {
            place.store(word, Ordering::Relaxed);
        }
        let name = record.name.map_or(ptr::null_mut(), |name| ptr::from_ref(name).cast_mut());
        cell.name.store(name, Ordering::Relaxed);
        // I3.
        self.written.store(number + 1, Ordering::Release);
    }

    /// Calls `keep`, in order, with each record from number `from` on that has not been overwritten. Returns how many
    /// of the records from number `from` on have been overwritten.
    pub(crate) fn read(&self, from: u64, mut keep: impl FnMut(Record)) -> u64 {
        // I4.
        let written = self.written.load(Ordering::Acquire);
        let size = self.cells.len() as u64;
        let first = from.max((written + 1).saturating_sub(size));
        // I5.
        let copies: Vec<[u64; 3]> = (first..written).map(|number| self.words(number)).collect();
        let names: Vec<*mut TypeName> =
            (first..written).map(|number| self.cell(number).name.load(Ordering::Relaxed)).collect();
        // I6.
        fence(Ordering::Acquire);
        let now = self.written.load(Ordering::Relaxed);
        let whole = first.max((now + 1).saturating_sub(size)).min(written.max(first));
        for (words, name) in copies.into_iter().zip(names).skip((whole - first) as usize) {
            // SAFETY: only addresses of `&'static TypeName` are stored, and this copy is whole.
            keep(Record { words, name: unsafe { name.as_ref() } });
        }
        whole.saturating_sub(from)
    }

    fn words(&self, number: u64) -> [u64; 3] {
        let [first, second, third] = &self.cell(number).words;
        [first, second, third].map(|word| word.load(Ordering::Relaxed))
    }
}

/// Allocates zeroed cells without touching the memory, so that a ring uses only the memory that is written.
#[cfg(not(loom))]
fn zeroed(count: usize) -> Box<[RecordCell]> {
    use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
    let Ok(layout) = Layout::array::<RecordCell>(count) else { unreachable!("the size is bounded by whoever asks") };
    // SAFETY: the layout is not empty, since there are at least two cells.
    let Some(memory) = ptr::NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
    // SAFETY: allocated as an array of that many cells, for which zeros are valid: numbers and a null pointer.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(memory.as_ptr().cast(), count)) }
}

#[cfg(loom)]
fn zeroed(count: usize) -> Box<[RecordCell]> {
    let cell =
        |_| RecordCell { words: std::array::from_fn(|_| AtomicU64::new(0)), name: AtomicPtr::new(ptr::null_mut()) };
    (0..count).map(cell).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn record(number: u64) -> Record {
        Record { words: [number, number * 3, !number], name: None }
    }

    fn read(ring: &Ring, from: u64) -> (Vec<u64>, u64) {
        let mut numbers = Vec::new();
        let lost = ring.read(from, |read| {
            assert_eq!(read, record(read.words[0]), "it is torn");
            numbers.push(read.words[0]);
        });
        (numbers, lost)
    }

    #[test]
    fn the_newest_are_there_and_the_others_are_counted() {
        let ring = Ring::new(8);
        assert_eq!(read(&ring, 0), (vec![], 0));
        (0..7).for_each(|number| ring.write(record(number)));
        assert_eq!(read(&ring, 0), ((0..7).collect(), 0));
        assert_eq!(read(&ring, 5), ((5..7).collect(), 0));
        (7..30).for_each(|number| ring.write(record(number)));
        assert_eq!(read(&ring, 0), ((23..30).collect(), 23));
        assert_eq!(read(&ring, 20), ((23..30).collect(), 3));
        assert_eq!(read(&ring, 30), (vec![], 0));
    }

    #[test]
    fn a_reader_beside_the_writer_gets_whole_records_in_order() {
        const ALL: u64 = if cfg!(miri) { 300 } else { 200_000 };
        let ring = Ring::new(16);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..ALL).for_each(|number| ring.write(record(number))));
            let mut next = 0;
            while next < ALL {
                let (numbers, lost) = read(&ring, next);
                let first = next + lost;
                assert!(numbers.iter().copied().eq(first..first + numbers.len() as u64));
                next = first + numbers.len() as u64;
            }
        });
    }
}
