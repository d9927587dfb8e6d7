//! The gate (`engine/host/gate.rs`): who may still come in, and who waits until all have left.
//!
//! Not covered: deadlines (models have no time).

use crate::check::{check, deep, keep, reach};
use crate::engine::host::gate::{Gate, TallyLane};
use crate::fault::{self, Fault};
use crate::sync::OwnedCell;
use loom::thread;

const VISITORS: usize = 2;

struct House {
    gate: Gate,
    /// What each visitor does inside. Whoever was told that nobody is inside reads it: a race if that was not so.
    work: [OwnedCell<u32>; VISITORS],
}

impl House {
    fn visit(&self, visitor: usize, lane: TallyLane) -> bool {
        let inside = self.gate.enter(lane);
        if inside {
            // SAFETY: each visitor has its own cell, and loom checks it.
            self.work[visitor].with_mut(|work| unsafe { *work += 1 });
            self.gate.leave(lane);
        }
        reach(if inside { "came in" } else { "turned back" });
        inside
    }
}

/// Visitors come, each twice at most, while the gate is closed and the house waited for.
fn model(lanes: [TallyLane; VISITORS], visits: usize) {
    let work = [OwnedCell::new(0), OwnedCell::new(0)];
    let house = keep(House { gate: Gate::new(2), work });
    let visitors = [0, 1].map(|visitor| {
        thread::spawn(move || (0..visits).filter(|_| house.visit(visitor, lanes[visitor])).count() as u32)
    });
    assert!(house.gate.close());
    assert!(house.gate.wait_until_at_most(0, None));
    // SAFETY: nobody is inside, and loom checks it.
    let seen = [0, 1].map(|visitor: usize| house.work[visitor].with(|work| unsafe { *work }));
    let came = visitors.map(|visitor| visitor.join().unwrap());
    assert_eq!(seen, came, "whoever came in was waited for");
}

/// Two permits, each with a tally of its own.
#[test]
fn permits() {
    check(deep(3, 4), &["came in", "turned back"], || model([TallyLane::Permit(0), TallyLane::Permit(1)], 1));
}

/// A permit that comes twice and a thread from outside.
#[test]
fn a_worker_and_a_thread_from_outside() {
    check(3, &["came in", "turned back"], || model([TallyLane::Permit(0), TallyLane::Shared], 2));
}

/// Two threads that share a tally.
#[test]
fn threads_from_outside() {
    check(4, &["came in", "turned back"], || model([TallyLane::Shared, TallyLane::Shared], 1));
}

/// How many are inside is asked while one comes in by one tally after the other, never by two at a time. Catches: who
/// left is counted before who entered, as for the waiter; then two are seen.
#[test]
fn a_snapshot_never_sees_more_than_there_were() {
    check(4, &["nobody was inside", "one was inside"], || {
        let gate = keep(Gate::new(1));
        let visitor = thread::spawn(move || {
            for lane in [TallyLane::Permit(0), TallyLane::Shared, TallyLane::Permit(0)] {
                assert!(gate.enter(lane));
                gate.leave(lane);
            }
        });
        let (entered, left) = gate.snapshot();
        assert!(left <= entered && entered - left <= 1, "{entered} and {left}");
        reach(if entered == left { "nobody was inside" } else { "one was inside" });
        visitor.join().unwrap();
        assert_eq!(gate.snapshot(), (3, 3));
    });
}

/// Without the single order of gate:C1, gate:C2, gate:C5 and gate:C6 a thread comes in that the waiter does not see.
#[test]
#[should_panic]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, permits);
}
