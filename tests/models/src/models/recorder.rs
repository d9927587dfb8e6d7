//! The ring of the recorder (`recorder/ring.rs`). A reader runs beside the writer, which may overwrite the record that
//! is being read.
//!
//! Not covered: rings of more than two cells, which differ only in the number of records that are whole.

use crate::check::{check, deep, keep, reach};
use crate::fault::{self, Fault};
use crate::recorder::ring::{Record, Ring, TypeName};
use loom::thread;

/// The types that the records name: a torn copy could name the wrong one, or none.
static NAMES: [TypeName; 2] = [|| "even", || "odd"];

fn record(number: u64) -> Record {
    Record { words: [number, number + 10, number + 20], name: Some(&NAMES[number as usize % 2]) }
}

/// One thread writes `records` records to a ring of two cells, so the third record overwrites the first. In the
/// meantime another thread reads the ring `reads` times.
fn model(records: u64, reads: usize) {
    let ring = keep(Ring::new(2));
    let writer = thread::spawn(move || (0..records).for_each(|number| ring.write(record(number))));
    let mut next = 0;
    for _ in 0..reads {
        let mut found = Vec::new();
        let lost = ring.read(next, |read| {
            let whole = record(read.words[0]);
            assert_eq!(read.words, whole.words, "it is torn");
            assert_eq!(read.name.map(|name| name()), whole.name.map(|name| name()), "it is torn");
            found.push(read.words[0]);
        });
        let first = next + lost;
        assert!(found.iter().copied().eq(first..first + found.len() as u64), "{found:?} after {lost} of {next}");
        reach(match (found.is_empty(), lost) {
            (true, 0) => "nothing was there",
            (true, _) => "it was overwritten meanwhile",
            (false, _) => "one was there",
        });
        next = first + found.len() as u64;
    }
    writer.join().unwrap();
    let lost = ring.read(next, |read| next = read.words[0] + 1);
    assert!(next == records && lost < records, "the last one is there");
}

#[test]
fn a_copy_is_whole_or_counted_as_lost() {
    check(deep(3, 5), &["nothing was there", "one was there", "it was overwritten meanwhile"], || model(3, 1));
}

#[test]
fn a_reader_that_comes_again_goes_on_where_it_was() {
    check(deep(2, 4), &["nothing was there", "one was there"], || model(3, 2));
}

/// Without the fences of ring:I1 and I6, a torn copy passes for a whole one.
#[test]
#[should_panic]
fn fault_no_fence() {
    fault::with(Fault::NoFence, a_copy_is_whole_or_counted_as_lost);
}
