//! A process whose own mailbox is over its bound is not suspended, and is resumed if it was, however full the mailbox
//! that it is suspended at: the senders that fill its own may be waiting for it.

use postroom::inspect::ProcessState;
use postroom::prelude::*;
use postroom::test::Clock;
use postroom::{Bound, Overflow};
use postroom_tests::{Latch, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Stays in its first message until the latch is open.
#[process]
struct Sink {
    gate: Latch,
}

#[process]
impl Sink {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self) {
        self.gate.wait();
    }
}

/// Sends to a sink when it is told to, and counts what it is sent otherwise.
#[process]
struct Source {
    sink: Address<Sink>,
    seen: Arc<AtomicU64>,
    here: Latch,
    go: Latch,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn flood(&mut self, count: u64) {
        self.here.open();
        self.go.wait();
        for _ in 0..count {
            let _gone = self.sink.take().send();
        }
    }

    #[message]
    fn note(&mut self) {
        self.seen.fetch_add(1, SeqCst);
    }
}

/// A sink that is full and takes nothing, and its latch. No hold ends because it has lasted long: the clock stands
/// still.
fn full() -> (Runtime, Address<Sink>, Latch) {
    let runtime = Runtime::builder().workers(2).clock(Clock::manual()).build().unwrap();
    let gate = Latch::new();
    let sink = runtime.spawn(Sink { gate: gate.clone() }).serve().unwrap();
    sink.take().send().unwrap();
    eventually(|| sink.pid().info().unwrap().mailbox == 0);
    while sink.take().send().is_ok() {}
    (runtime, sink, gate)
}

fn source(runtime: &Runtime, bound: Bound, sink: Address<Sink>) -> (Address<Source>, Arc<AtomicU64>, Latch, Latch) {
    let (seen, here, go) = (Arc::new(AtomicU64::new(0)), Latch::new(), Latch::new());
    let source = Source { sink, seen: seen.clone(), here: here.clone(), go: go.clone() };
    (runtime.spawn(source).mailbox(bound).serve().unwrap(), seen, here, go)
}

/// One that has sent a message, and is held for it.
fn held(runtime: &Runtime, bound: Bound, sink: Address<Sink>) -> (Address<Source>, Arc<AtomicU64>) {
    let (source, seen, _, go) = source(runtime, bound, sink);
    go.open();
    source.flood(1).send().unwrap();
    eventually(|| is_held(source));
    (source, seen)
}

fn is_held(source: Address<Source>) -> bool {
    matches!(source.pid().info().unwrap().state, ProcessState::Suspended { .. })
}

/// Catches: a process stays suspended while its own mailbox fills up, so that its senders wait for whatever it waits
/// for; or is resumed before its mailbox is over its bound; or others are resumed with it. (Mutation: in
/// `entry_points.rs`, `check_length` does not end the suspension.)
#[test]
fn who_is_held_is_let_go_once_its_own_mailbox_is_over_its_bound_and_nobody_else_is() {
    soon(|| {
        let (runtime, sink, gate) = full();
        let bound = Bound::Soft(300);
        let (crowded, seen) = held(&runtime, bound, sink);
        let (other, others) = held(&runtime, bound, sink);
        for source in [crowded, other] {
            (0..300).for_each(|_| source.note().send().unwrap());
        }
        assert_eq!([crowded, other].map(is_held), [true; 2]);
        assert_eq!((seen.load(SeqCst), runtime.statistics().backpressure.suspended), (0, 2));
        // With each 128th message the length is looked at.
        let sent = 300 + (0..128).filter(|_| crowded.note().send().is_ok()).count() as u64;
        eventually(|| seen.load(SeqCst) == sent);
        assert_eq!([crowded, other].map(is_held), [false, true]);
        assert_eq!(others.load(SeqCst), 0);
        let statistics = runtime.statistics();
        assert_eq!(
            (
                statistics.backpressure.suspended,
                statistics.backpressure.suspensions,
                statistics.backpressure.forced_releases
            ),
            (1, 2, 0)
        );
        gate.open();
        eventually(|| others.load(SeqCst) == 300);
    });
}

/// Catches: a process stays suspended while its bounded queue is full, so that senders without room wait for whatever
/// it waits for; or is resumed while there is room. (Mutation: in `placeholders.rs`, `admit` does not end the
/// suspension.)
#[test]
fn who_is_held_is_let_go_once_a_message_finds_its_ring_full() {
    for overflow in [Overflow::Refuse, Overflow::Wait, Overflow::DropOldest, Overflow::DropNewest] {
        soon(move || {
            let (runtime, sink, gate) = full();
            let bound = Bound::Hard(4, overflow);
            let (crowded, seen) = held(&runtime, bound, sink);
            let (other, others) = held(&runtime, bound, sink);
            for source in [crowded, other] {
                (0..4).for_each(|_| source.note().send().unwrap());
            }
            assert_eq!([crowded, other].map(is_held), [true; 2]);
            assert_eq!((seen.load(SeqCst), runtime.statistics().backpressure.suspended), (0, 2));
            // It may take the others before this one is refused, or drops one.
            let came = crowded.note().send().is_ok();
            let all = 4..=4 + u64::from(came);
            eventually(|| all.contains(&seen.load(SeqCst)) && crowded.pid().info().unwrap().mailbox == 0);
            assert_eq!([crowded, other].map(is_held), [false, true]);
            assert_eq!((others.load(SeqCst), runtime.statistics().backpressure.forced_releases), (0, 0));
            gate.open();
            eventually(|| others.load(SeqCst) == 4);
        });
    }
}

/// Catches: a process whose mailbox is over its bound is held all the same, after its step or within it, be it for a
/// moment. (Mutation: in `suspend.rs`, `may_be_suspended` does not ask whether the process's own mailbox is over its
/// bound.)
#[test]
fn whose_own_mailbox_is_over_its_bound_is_not_held_at_all() {
    soon(|| {
        let (runtime, sink, gate) = full();
        let (source, seen, here, go) = source(&runtime, Bound::Soft(10), sink);
        // More than a step may send before it waits.
        source.flood(5_000).send().unwrap();
        here.wait();
        let sent = (0..200).filter(|_| source.note().send().is_ok()).count() as u64;
        go.open();
        eventually(|| seen.load(SeqCst) == sent);
        let statistics = runtime.statistics();
        assert_eq!(
            (
                statistics.backpressure.suspended,
                statistics.backpressure.suspensions,
                statistics.backpressure.forced_releases
            ),
            (0, 0, 0)
        );
        gate.open();
    });
}
