//! The gate (`engine/host/gate.rs`): threads that enter while it closes, and a thread that waits until all have left.
//!
//! Not covered:
//!
//! * Deadlines: models have no time.
//! * The release by which counts are published: loom does not switch threads at a fence, so no thread reads a count
//!   before the fence that follows it, which publishes the count as well.
//! * The lock under which the gate is closed. A heavy barrier reaches one thread after the other, and the lock prevents
//!   the threads that it has reached from checking the gate before it has reached the others. In the models the barrier
//!   is a fence, which reaches all threads at once.

use crate::check::{check, deep, keep, reach};
use crate::engine::host::gate::Gate;
use crate::fault::{self, Fault};
use crate::sync::OwnedCell;
use loom::thread;

const VISITORS: usize = 2;

struct House {
    gate: Gate,
    /// A cell for each visitor, which the visitor writes while it is inside. When the gate reports that no visitor is
    /// inside, the main thread reads the cells, so loom detects a wrong report as a race.
    work: [OwnedCell<u32>; VISITORS],
}

impl House {
    fn visit(&self, visitor: usize, own: Option<usize>) -> bool {
        let inside = self.gate.enter(own);
        if inside {
            // SAFETY: each visitor has its own cell, and loom checks that accesses do not overlap.
            self.work[visitor].with_mut(|work| unsafe { *work += 1 });
            self.gate.leave(own);
        }
        reach(if inside { "entered" } else { "turned back" });
        inside
    }
}

/// Two visitors enter `visits` times each. In the meantime the main thread closes the gate and waits until the house is
/// empty.
fn model(own: [Option<usize>; VISITORS], visits: usize) {
    let work = [OwnedCell::new(0), OwnedCell::new(0)];
    let house = keep(House { gate: Gate::new(2), work });
    let visitors = [0, 1].map(|visitor| {
        thread::spawn(move || (0..visits).filter(|_| house.visit(visitor, own[visitor])).count() as u32)
    });
    assert!(house.gate.close());
    assert!(house.gate.wait_until_at_most(0, None));
    // SAFETY: no visitor is inside, so none writes to its cell; loom checks this.
    let seen = [0, 1].map(|visitor: usize| house.work[visitor].with(|work| unsafe { *work }));
    let came = visitors.map(|visitor| visitor.join().unwrap());
    assert_eq!(seen, came, "the house waits for each visitor that entered");
}

/// Two threads of the host, each with its own tally.
#[test]
fn threads_of_the_host() {
    check(deep(3, 4), &["entered", "turned back"], || model([Some(0), Some(1)], 1));
}

/// A thread of the host and one from outside, each entering twice.
#[test]
fn a_worker_and_a_thread_from_outside() {
    check(3, &["entered", "turned back"], || model([Some(0), None], 2));
}

/// Two threads that share a tally.
#[test]
fn threads_from_outside() {
    check(deep(3, 4), &["entered", "turned back"], || model([None, None], 1));
}

/// The number inside is read while one visitor enters several times, through different tallies. Catches: a snapshot
/// that sums up departures before arrivals, as the waiter does, and so counts two visitors.
#[test]
fn a_snapshot_never_sees_more_than_there_were() {
    check(4, &["none was inside", "one was inside"], || {
        let gate = keep(Gate::new(1));
        let visitor = thread::spawn(move || {
            for own in [Some(0), None, Some(0)] {
                assert!(gate.enter(own));
                gate.leave(own);
            }
        });
        let (entered, left) = gate.snapshot();
        assert!(left <= entered && entered - left <= 1, "{entered} and {left}");
        reach(if entered == left { "none was inside" } else { "one was inside" });
        visitor.join().unwrap();
        assert_eq!(gate.snapshot(), (3, 3));
    });
}

/// Two visitors leave while the gate is closed. Each of them, and the thread that closed the gate, then checks whether
/// the gate is closed with no thread inside. At least one of the three must find that it is.
fn last(own: [Option<usize>; VISITORS]) {
    let gate = keep(Gate::new(2));
    own.iter().for_each(|&own| assert!(gate.enter(own)));
    let is_last = move || gate.is_closed() && gate.inside() == 0;
    let visitors = own.map(|own| {
        thread::spawn(move || {
            gate.leave(own);
            is_last()
        })
    });
    assert!(gate.close());
    let closer = is_last();
    let visitors = visitors.map(|visitor| visitor.join().unwrap());
    assert!(closer || visitors.contains(&true), "none has found that it was the last");
    reach(if closer { "all had left when the gate was closed" } else { "a visitor was the last" });
}

const LAST: &[&str] = &["all had left when the gate was closed", "a visitor was the last"];

#[test]
fn the_last_to_leave_knows_it() {
    check(deep(3, 4), LAST, || last([Some(0), Some(1)]));
}

#[test]
fn the_last_to_leave_knows_it_beside_a_thread_from_outside() {
    check(3, LAST, || last([Some(0), None]));
}

/// Without the barrier after gate:C1, the waiter misses a visitor that enters.
#[test]
#[should_panic]
fn fault_no_light_barrier() {
    fault::with(Fault::NoLightBarrier, threads_of_the_host);
}

/// Without the barrier after gate:C3, two visitors that leave miss each other.
#[test]
#[should_panic]
fn fault_no_light_barrier_when_leaving() {
    fault::with(Fault::NoLightBarrier, the_last_to_leave_knows_it);
}
