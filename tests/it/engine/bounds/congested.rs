//! A process is not suspended while its own mailbox exceeds its bound. If it was suspended before, it is then resumed,
//! however full the receiver's mailbox is. The reason is that the senders that fill its own mailbox may be waiting for
//! it.

use postroom::inspect::ProcessState;
use postroom::prelude::*;
use postroom::test::Clock;
use postroom::{Bound, Overflow};
use postroom_tests::{Latch, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A process that stays in its first message until the latch is open.
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

/// A process that sends to a sink on request, and counts all other messages.
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

/// Returns a full sink that takes nothing, and its latch. The clock stands still, so no suspension times out.
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

/// Returns a process that is suspended after a message to the sink.
fn suspended(runtime: &Runtime, bound: Bound, sink: Address<Sink>) -> (Address<Source>, Arc<AtomicU64>) {
    let (source, seen, _, go) = source(runtime, bound, sink);
    go.open();
    source.flood(1).send().unwrap();
    eventually(|| is_suspended(source));
    (source, seen)
}

fn is_suspended(source: Address<Source>) -> bool {
    matches!(source.pid().info().unwrap().state, ProcessState::Suspended { .. })
}

/// Catches: a process that stays suspended while its own mailbox fills up, so that its senders have to wait for its
/// receiver; a process that is resumed before its mailbox exceeds its bound; and other processes that are resumed with
/// it. (Mutation: in `congestion.rs`, `check_length` does not end the suspension.)
#[test]
fn a_suspended_process_alone_is_resumed_when_its_own_mailbox_exceeds_its_bound() {
    soon(|| {
        let (runtime, sink, gate) = full();
        let bound = Bound::Soft(300);
        let (congested, seen) = suspended(&runtime, bound, sink);
        let (other, others) = suspended(&runtime, bound, sink);
        for source in [congested, other] {
            (0..300).for_each(|_| source.note().send().unwrap());
        }
        assert_eq!([congested, other].map(is_suspended), [true; 2]);
        assert_eq!((seen.load(SeqCst), runtime.statistics().backpressure.suspended), (0, 2));
        // Every 128th message checks the length.
        let sent = 300 + (0..128).filter(|_| congested.note().send().is_ok()).count() as u64;
        eventually(|| seen.load(SeqCst) == sent);
        assert_eq!([congested, other].map(is_suspended), [false, true]);
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

/// Catches: a process that stays suspended while its bounded queue is full, so that its senders have to wait for its
/// receiver; and a process that is resumed while its queue has room. (Mutation: in `placeholders.rs`, `admit` does not
/// end the suspension.)
#[test]
fn a_suspended_process_is_resumed_when_its_own_bounded_queue_is_full() {
    for overflow in [Overflow::Refuse, Overflow::Wait, Overflow::DropOldest, Overflow::DropNewest] {
        soon(move || {
            let (runtime, sink, gate) = full();
            let bound = Bound::Hard(4, overflow);
            let (congested, seen) = suspended(&runtime, bound, sink);
            let (other, others) = suspended(&runtime, bound, sink);
            for source in [congested, other] {
                (0..4).for_each(|_| source.note().send().unwrap());
            }
            assert_eq!([congested, other].map(is_suspended), [true; 2]);
            assert_eq!((seen.load(SeqCst), runtime.statistics().backpressure.suspended), (0, 2));
            // The process may take the other messages before this one is refused or displaces one.
            let came = congested.note().send().is_ok();
            let all = 4..=4 + u64::from(came);
            eventually(|| all.contains(&seen.load(SeqCst)) && congested.pid().info().unwrap().mailbox == 0);
            assert_eq!([congested, other].map(is_suspended), [false, true]);
            assert_eq!((others.load(SeqCst), runtime.statistics().backpressure.forced_releases), (0, 0));
            gate.open();
            eventually(|| others.load(SeqCst) == 4);
        });
    }
}

/// Catches: a process whose own mailbox exceeds its bound and that is suspended, even briefly, after its step or within
/// it. (Mutation: in `suspend.rs`, `may_be_suspended` does not check the process's own mailbox.)
#[test]
fn a_process_whose_own_mailbox_exceeds_its_bound_is_never_suspended() {
    soon(|| {
        let (runtime, sink, gate) = full();
        let (source, seen, here, go) = source(&runtime, Bound::Soft(10), sink);
        // These are more messages than a step may send before it waits.
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
