//! The gate (`engine/host/gate.rs`): admission while it closes, and waiting until all have left.
//!
//! Not covered: deadlines (models have no time).

use crate::check::{check, deep, keep, reach};
use crate::engine::host::gate::Gate;
use crate::fault::{self, Fault};
use crate::sync::OwnedCell;
use loom::thread;

const VISITORS: usize = 2;

struct House {
    gate: Gate,
    /// Written by each visitor inside, and read when the gate reports that none is inside: a race if that is wrong.
    work: [OwnedCell<u32>; VISITORS],
}

impl House {
    fn visit(&self, visitor: usize, permit: Option<usize>) -> bool {
        let inside = self.gate.enter(permit);
        if inside {
            // SAFETY: each visitor has its own cell, and loom checks it.
            self.work[visitor].with_mut(|work| unsafe { *work += 1 });
            self.gate.leave(permit);
        }
        reach(if inside { "entered" } else { "turned back" });
        inside
    }
}

/// Visitors enter, each `visits` times, while the gate is closed and the house waits until it is empty.
fn model(permits: [Option<usize>; VISITORS], visits: usize) {
    let work = [OwnedCell::new(0), OwnedCell::new(0)];
    let house = keep(House { gate: Gate::new(2), work });
    let visitors = [0, 1].map(|visitor| {
        thread::spawn(move || (0..visits).filter(|_| house.visit(visitor, permits[visitor])).count() as u32)
    });
    assert!(house.gate.close());
    assert!(house.gate.wait_until_at_most(0, None));
    // SAFETY: no visitor is inside, and loom checks it.
    let seen = [0, 1].map(|visitor: usize| house.work[visitor].with(|work| unsafe { *work }));
    let came = visitors.map(|visitor| visitor.join().unwrap());
    assert_eq!(seen, came, "the house waits for each visitor that entered");
}

/// Two permits, each with a tally of its own.
#[test]
fn permits() {
    check(deep(3, 4), &["entered", "turned back"], || model([Some(0), Some(1)], 1));
}

/// A permit and a thread from outside, each entering twice.
#[test]
fn a_worker_and_a_thread_from_outside() {
    check(3, &["entered", "turned back"], || model([Some(0), None], 2));
}

/// Two threads that share a tally.
#[test]
fn threads_from_outside() {
    check(4, &["entered", "turned back"], || model([None, None], 1));
}

/// The number inside is read while one visitor enters by one tally after the other. Catches a sum of those that left
/// before the sum of those that entered, as for the waiter, which counts two.
#[test]
fn a_snapshot_never_sees_more_than_there_were() {
    check(4, &["none was inside", "one was inside"], || {
        let gate = keep(Gate::new(1));
        let visitor = thread::spawn(move || {
            for permit in [Some(0), None, Some(0)] {
                assert!(gate.enter(permit));
                gate.leave(permit);
            }
        });
        let (entered, left) = gate.snapshot();
        assert!(left <= entered && entered - left <= 1, "{entered} and {left}");
        reach(if entered == left { "none was inside" } else { "one was inside" });
        visitor.join().unwrap();
        assert_eq!(gate.snapshot(), (3, 3));
    });
}

/// Without the single order of gate:C1, gate:C2, gate:C5 and gate:C6 the waiter misses a visitor that enters.
#[test]
#[should_panic]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, permits);
}
