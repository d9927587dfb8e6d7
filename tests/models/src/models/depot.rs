//! The bound of a depot of large blocks (`mem/magazine.rs`) holds while threads add and take magazines.
//!
//! Not covered: the thread caches, which are private to their threads.

use crate::check::{check, keep, reach};
use crate::mem::magazine::{Depot, DepotBound, FreeLink};
use crate::sync::{AtomicUsize, Ordering, SegQueue};
use loom::thread;
use std::ptr::{self, NonNull};

fn depot(most: usize) -> &'static Depot {
    let bound = Some(DepotBound { most, count: AtomicUsize::new(0) });
    keep(Depot { magazines: SegQueue::new(), length: 1, bound, register: || true })
}

/// A magazine of one piece.
fn magazine() -> &'static FreeLink {
    keep(FreeLink::new(ptr::null_mut()))
}

/// Adds a magazine. Returns the number of pieces that came back as surplus.
fn put(depot: &Depot, magazine: &'static FreeLink) -> usize {
    let surplus = depot.put(NonNull::from(magazine)).map_or(0, Iterator::count);
    reach(if surplus == 0 { "kept" } else { "surplus" });
    surplus
}

/// Takes a magazine. Returns the number of its pieces, or zero if there is no magazine.
fn get(depot: &Depot) -> usize {
    let taken = depot.get().map_or(0, Iterator::count);
    reach(if taken == 0 { "there was none" } else { "taken" });
    taken
}

/// Two threads each add a magazine and then take one, while a third one observes the queue.
fn two_threads_add_and_take() {
    let depot = depot(1);
    let both = [magazine(), magazine()].map(|magazine| thread::spawn(move || put(depot, magazine) + get(depot)));
    assert!(depot.magazines.len() <= 1, "more than the bound");
    let came_back: usize = both.into_iter().map(|thread| thread.join().unwrap()).sum();
    let left = depot.magazines.len();
    assert_eq!(came_back + left, 2, "a piece was lost, or doubled");
    let count = &depot.bound.as_ref().expect("it has a bound").count;
    assert_eq!(count.load(Ordering::Relaxed), left, "it counts what is not there");
}

#[test]
fn there_are_never_more_than_the_bound_and_none_is_lost() {
    check(4, &["kept", "surplus", "taken", "there was none"], two_threads_add_and_take);
}

/// After threads have added and taken magazines at the same time, the depot has room again for exactly as many as its
/// bound.
#[test]
fn the_count_is_right_when_all_is_quiet() {
    check(4, &["kept", "surplus", "taken"], || {
        let depot = depot(1);
        let first = magazine();
        let other = thread::spawn(move || put(depot, first));
        let _taken = get(depot);
        let _surplus = put(depot, magazine());
        other.join().unwrap();
        while depot.get().is_some() {}
        assert_eq!([put(depot, magazine()), put(depot, magazine())], [0, 1]);
    });
}
