//! Time slices: how much a process can do while another one waits for the same worker.
//!
//! The tests do not measure time: a slow handler waits until the host's watchdog has counted another tick. The length
//! of a tick is not checked here, but by the tests of `engine/watchdog/detector.rs`, on a virtual clock.

use postroom::prelude::*;
use postroom_tests::{Latch, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Builds a runtime with one worker and without stall detection.
fn one_worker() -> Runtime {
    Runtime::builder().workers(1).stall_limit(Duration::MAX).build().unwrap()
}

fn wait_for_a_tick(host: Host) {
    let before = host.statistics().watchdog.ticks;
    eventually(|| host.statistics().watchdog.ticks > before);
}

/// A process that records the progress of another one when it first runs.
#[process]
struct Witness {
    handled: Arc<AtomicU64>,
    seen: Arc<AtomicU64>,
}

#[process]
impl Witness {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn look(&mut self) {
        self.seen.store(self.handled.load(SeqCst), SeqCst);
    }
}

struct Slow;
struct Quick;
struct Last;

/// A process that takes a tick for each slow message.
#[process]
struct Busy {
    handled: Arc<AtomicU64>,
    witness: Address<Witness>,
    gate: Latch,
}

impl Busy {
    fn count(&mut self) {
        if self.handled.fetch_add(1, SeqCst) == 0 {
            self.witness.look().send().unwrap();
        }
    }
}

#[process]
impl Busy {
    #[entry]
    fn serve(&mut self) {
        self.gate.wait();
    }

    #[entry]
    async fn receive(&mut self, ctx: &mut Context<Self>, count: u64) {
        self.gate.wait();
        for _ in 0..count {
            ctx.receive::<Slow>().await;
            self.slow(Slow);
        }
    }

    #[entry]
    async fn serve_async(&mut self, ctx: &mut Context<Self>) {
        self.gate.wait();
        ctx.serve(self).await;
    }

    /// Stashes the messages that have arrived, and then serves them.
    #[entry]
    async fn set_aside(&mut self, ctx: &mut Context<Self>) {
        self.gate.wait();
        ctx.receive::<Last>().await;
        ctx.serve(self).await;
    }

    /// Stashes the messages that have arrived, and lets the process serve them after this method.
    #[message(Last)]
    async fn set_aside_here(&mut self, ctx: &mut Context<Self>, _begin: Last) {
        ctx.receive::<Last>().await;
    }

    /// Stashes the messages that have arrived, and then receives them by type.
    #[entry]
    async fn receive_set_aside(&mut self, ctx: &mut Context<Self>, count: u64) {
        self.gate.wait();
        ctx.receive::<Last>().await;
        for _ in 0..count {
            ctx.receive::<Quick>().await;
            self.count();
        }
    }

    #[message(Slow)]
    fn slow(&mut self, _slow: Slow) {
        self.count();
        wait_for_a_tick(Host::current().unwrap());
    }

    #[message(Quick)]
    fn quick(&mut self, _quick: Quick) {
        self.count();
    }
}

/// Sends `messages` to a process that is not serving yet, lets it serve, and returns how many of them it had handled
/// when the witness ran. The first message wakes the witness.
fn handled_before_another_runs<M: Send + 'static>(
    begin: impl FnOnce(&Runtime, Busy) -> Address<Busy>,
    messages: impl Iterator<Item = M>,
    and_then: impl FnOnce(&Runtime, Address<Busy>),
) -> u64
where
    Busy: postroom::generic::Handles<M>,
{
    let runtime = one_worker();
    let (handled, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let witness = runtime.spawn(Witness { handled: handled.clone(), seen: seen.clone() }).serve().unwrap();
    let gate = Latch::new();
    let busy = begin(&runtime, Busy { handled, witness, gate: gate.clone() });
    messages.for_each(|message| drop(runtime.send(busy.pid(), message)));
    and_then(&runtime, busy);
    gate.open();
    eventually(|| seen.load(SeqCst) > 0);
    let seen = seen.load(SeqCst);
    runtime.shutdown().unwrap();
    seen
}

const MANY: u64 = 1_000;

/// The maximum number of messages in two time slices, each of 128 events and a few more. The process may get a second
/// time slice before the witness gets its first, since a worker sometimes visits the shared queues first.
const TWO_TURNS: u64 = 260;

/// The maximum number of slow messages in two time slices. A time slice lasts for two ticks, and then until the message
/// in progress has been handled. A tick may fall between two messages.
const TWO_LONG_TURNS: u64 = 6;

/// Mutation: in `process/slice.rs`, `tick`, do nothing.
#[test]
fn a_time_slice_ends_with_the_message_in_progress_at_its_second_tick() {
    soon(|| {
        let runtime = one_worker();
        let (handled, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let witness = runtime.spawn(Witness { handled: handled.clone(), seen: seen.clone() }).serve().unwrap();
        let busy = runtime.spawn(Busy { handled, witness, gate: opened() }).serve().unwrap();
        // Occupies the worker while the messages are sent.
        let gate = Latch::new();
        let holder = Busy { handled: Arc::default(), witness, gate: gate.clone() };
        let _holds = runtime.spawn(holder).receive(0).unwrap();
        (0..50).for_each(|_| runtime.send(busy.pid(), Slow).unwrap());
        gate.open();
        eventually(|| seen.load(SeqCst) > 0);
        assert!(seen.load(SeqCst) <= TWO_LONG_TURNS, "{} messages", seen.load(SeqCst));
    });
}

fn opened() -> Latch {
    let latch = Latch::new();
    latch.open();
    latch
}

/// Mutation: as for the previous test.
#[test]
fn the_time_slice_of_an_async_process_ends_likewise() {
    soon(|| {
        let nothing = |_: &Runtime, _| {};
        let slow = || (0..50).map(|_| Slow);
        let received = handled_before_another_runs(
            |runtime, busy| runtime.spawn(busy).receive(MANY).unwrap().address(),
            slow(),
            nothing,
        );
        assert!(received <= TWO_LONG_TURNS, "{received} messages");
        let served = handled_before_another_runs(
            |runtime, busy| runtime.spawn(busy).serve_async().unwrap().address(),
            slow(),
            nothing,
        );
        assert!(served <= TWO_LONG_TURNS, "{served} messages");
    });
}

/// Mutation: in `actor/tasks/current.rs`, `is_to_pause`, return false.
#[test]
fn stashed_messages_count_when_they_are_handled() {
    soon(|| {
        let quick = || (0..MANY).map(|_| Quick);
        let never = |runtime: &Runtime, busy: Address<Busy>| runtime.send(busy.pid(), Last).unwrap();
        let served = handled_before_another_runs(
            |runtime, busy| runtime.spawn(busy).set_aside().unwrap().address(),
            quick(),
            never,
        );
        assert!(served <= TWO_TURNS, "{served} messages");
        let received = handled_before_another_runs(
            |runtime, busy| runtime.spawn(busy).receive_set_aside(MANY).unwrap().address(),
            quick(),
            never,
        );
        assert!(received <= TWO_TURNS, "{received} messages");
    });
}

/// Mutation: in `actor/machine/serving.rs`, `serve_first`, do not check whether to pause.
#[test]
fn stashed_messages_count_in_a_process_that_serves_from_its_mailbox() {
    soon(|| {
        let served = handled_before_another_runs(
            |runtime, busy| {
                let address = runtime.spawn(Busy { gate: opened(), ..busy }).serve().unwrap();
                runtime.send(address.pid(), Last).unwrap();
                address
            },
            (0..MANY).map(|_| Quick),
            |runtime, busy| runtime.send(busy.pid(), Last).unwrap(),
        );
        assert!(served <= TWO_TURNS, "{served} messages");
    });
}
