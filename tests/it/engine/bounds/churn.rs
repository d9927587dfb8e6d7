//! Bounds while processes start and exit, and sends from every site at which the runtime calls user code.

use postroom::error::SendFailure;
use postroom::prelude::*;
use postroom::test::Clock;
use postroom::{Bound, Overflow};
use postroom_tests::{Latch, eventually, soon, within};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A process that floods and calls others, and stops after `life` messages.
#[process]
struct Restless {
    others: Arc<[std::sync::Mutex<Option<Address<Restless>>>]>,
    seed: u64,
    life: u64,
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

impl Restless {
    fn other(&mut self) -> Option<Address<Restless>> {
        let place = next(&mut self.seed) as usize % self.others.len();
        *self.others[place].lock().unwrap()
    }
}

#[process]
impl Restless {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn hit(&mut self, ctx: &mut Context<Self>, count: u64) {
        self.life = self.life.saturating_sub(1);
        if self.life == 0 {
            return ctx.stop();
        }
        for _ in 0..count {
            if let Some(other) = self.other() {
                let _any = other.hit(0).send();
            }
        }
        if count > 0 {
            let _any = ctx.address().hit(count).try_send();
        }
    }

    #[message]
    async fn ask(&mut self, depth: u64) -> u64 {
        let Some(other) = self.other() else { return 0 };
        if depth == 0 {
            return 1;
        }
        other.ask(depth - 1).timeout(Duration::from_millis(20)).await.unwrap_or(0) + 1
    }
}

#[test]
fn reused_slots_inherit_no_bound_no_queue_and_no_suspension() {
    const PLACES: usize = 12;
    for workers in [1, 2, 64] {
        within(Duration::from_secs(60), move || {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let others: Arc<[_]> = (0..PLACES).map(|_| std::sync::Mutex::new(None)).collect();
            let bounds = [
                Bound::Soft(1),
                Bound::Soft(64),
                Bound::Soft(1_024),
                Bound::Soft(Bound::MOST_SOFT),
                Bound::Hard(1, Overflow::Wait),
                Bound::Hard(16, Overflow::Wait),
                Bound::Hard(16, Overflow::Refuse),
                Bound::Hard(16, Overflow::DropOldest),
                Bound::Hard(16, Overflow::DropNewest),
                Bound::Hard(usize::MAX, Overflow::Refuse),
                Bound::Unbounded,
            ];
            let mut seed = workers as u64;
            for round in 0..1_500_u64 {
                let place = next(&mut seed) as usize % PLACES;
                let bound = bounds[next(&mut seed) as usize % bounds.len()];
                let restless = Restless { others: others.clone(), seed: round, life: 200 + next(&mut seed) % 2_000 };
                let fresh = runtime.spawn(restless).mailbox(bound).serve().unwrap();
                let before = others[place].lock().unwrap().replace(fresh);
                let _any = fresh.hit(next(&mut seed) % 300).try_send();
                let _any = fresh.ask(3).try_send();
                if let Some(before) = before {
                    match next(&mut seed) % 3 {
                        0 => _ = before.pid().kill(),
                        1 => _ = before.pid().stop(),
                        _ => _ = before.pid().cancel(ExitReason::Shutdown),
                    }
                }
            }
            for other in others.iter() {
                if let Some(other) = other.lock().unwrap().take() {
                    other.pid().kill();
                }
            }
            eventually(|| runtime.statistics().processes.live == 0);
            let statistics = runtime.statistics();
            assert_eq!((statistics.backpressure.suspended, statistics.processes.live), (0, 0));
        });
    }
}

/// A message whose drop sends to the mailbox that held it, and sometimes panics.
struct Sends {
    to: Arc<OnceLock<Address<Drops>>>,
    left: u64,
    panics: bool,
}

impl Drop for Sends {
    fn drop(&mut self) {
        if self.left > 0
            && let Some(to) = self.to.get()
        {
            let sends = Sends { to: self.to.clone(), left: self.left - 1, panics: false };
            let _any = to.take(sends).send();
        }
        if self.panics {
            panic!("dropped");
        }
    }
}

#[process]
struct Drops {
    gate: Option<Latch>,
    count: Arc<AtomicU64>,
}

#[process]
impl Drops {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, sends: Sends) {
        if let Some(gate) = self.gate.take() {
            gate.wait();
        }
        self.count.fetch_add(1, SeqCst);
        std::mem::forget(sends);
    }
}

#[test]
fn a_dropped_message_may_send_to_its_mailbox_and_panic() {
    for overflow in [Overflow::DropOldest, Overflow::DropNewest, Overflow::Refuse] {
        soon(move || {
            let runtime = Runtime::builder().workers(2).build().unwrap();
            let (gate, count) = (Latch::new(), Arc::new(AtomicU64::new(0)));
            let drops = Drops { gate: Some(gate.clone()), count: count.clone() };
            let drops = runtime.spawn(drops).mailbox(Bound::Hard(4, overflow)).serve().unwrap();
            let to = Arc::new(OnceLock::new());
            let _set = to.set(drops);
            for number in 0..50 {
                let sends = Sends { to: to.clone(), left: 3, panics: number % 5 == 4 };
                let sent = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(drops.take(sends).send())));
                assert!(sent.is_ok() || overflow == Overflow::Refuse, "a dead letter's panic is contained");
            }
            gate.open();
            eventually(|| count.load(SeqCst) >= 4);
            let end = drops.pid().join();
            drops.pid().kill();
            end.wait();
        });
    }
}

/// A process that sends a given number of messages in one step.
#[process]
struct Burst;

#[process]
impl Burst {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn send(&mut self, to: Address<Count>, count: u64) -> u64 {
        (0..count).filter(|_| to.hit().send().is_ok()).count() as u64
    }
}

#[process]
struct Count {
    gate: Option<Latch>,
    count: Arc<AtomicU64>,
}

#[process]
impl Count {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn hit(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.wait();
        }
        self.count.fetch_add(1, SeqCst);
    }
}

fn count(runtime: &Runtime, bound: Bound, gate: &Latch) -> (Address<Count>, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counts = Count { gate: Some(gate.clone()), count: count.clone() };
    (runtime.spawn(counts).mailbox(bound).serve().unwrap(), count)
}

#[test]
fn a_hard_bound_holds_for_a_step_that_sends_endlessly() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).clock(Clock::manual()).build().unwrap();
        for (overflow, accepted) in
            [(Overflow::Refuse, 500), (Overflow::DropOldest, 10_000), (Overflow::DropNewest, 10_000)]
        {
            let gate = Latch::new();
            let (to, count) = count(&runtime, Bound::Hard(500, overflow), &gate);
            let burst = runtime.spawn(Burst).serve().unwrap();
            to.hit().send().unwrap();
            eventually(|| to.pid().info().unwrap().mailbox == 0);
            assert_eq!(burst.send(to, 10_000).wait().unwrap(), accepted);
            eventually(|| to.pid().info().unwrap().mailbox == 500);
            // With `Refuse`, the send is refused. The sender is never suspended.
            assert_eq!(burst.send(to, 1).wait().unwrap(), u64::from(accepted > 500));
            gate.open();
            eventually(|| count.load(SeqCst) == 501);
        }
        assert_eq!(runtime.statistics().backpressure.suspensions, 0);
    });
}

/// A process that sends to a full mailbox from its entry and from its drop.
#[process]
struct Parting(Address<Count>, Arc<AtomicU64>);

impl Drop for Parting {
    fn drop(&mut self) {
        self.1.fetch_add((0..10).filter(|_| self.0.hit().send().is_ok()).count() as u64, SeqCst);
    }
}

#[process]
impl Parting {
    #[entry]
    fn serve(&mut self) {
        self.1.fetch_add((0..10).filter(|_| self.0.hit().send().is_ok()).count() as u64, SeqCst);
    }
}

/// A hook that sends to a full mailbox.
struct SendsAtEnds(Arc<OnceLock<Address<Count>>>, Arc<AtomicU64>);

impl postroom::inspect::Hook for SendsAtEnds {
    fn complete(&self, _process: &postroom::inspect::Started, _reason: &ExitReason) {
        if let Some(to) = self.0.get() {
            let sent = to.hit().send().map_err(|error| error.reason);
            assert!(matches!(sent, Ok(()) | Err(SendFailure::Full(_))), "{sent:?}");
            self.1.fetch_add(u64::from(sent.is_ok()), SeqCst);
        }
    }
}

#[test]
fn starts_exits_and_hooks_that_send_to_a_full_mailbox_do_not_wait() {
    for (bound, from_drop) in [(Bound::Soft(4), 10), (Bound::Hard(4, Overflow::Wait), 0)] {
        soon(move || {
            let accepted = Arc::new(AtomicU64::new(0));
            let target: Arc<OnceLock<Address<Count>>> = Arc::new(OnceLock::new());
            let hooked = Arc::new(AtomicU64::new(0));
            let sends = SendsAtEnds(target.clone(), hooked.clone());
            let builder = Runtime::builder().workers(2).clock(Clock::manual()).hook(sends);
            let runtime = builder.build().unwrap();
            let gate = Latch::new();
            let (to, count) = count(&runtime, bound, &gate);
            to.hit().send().unwrap();
            eventually(|| to.pid().info().unwrap().mailbox == 0);
            let mut sent = 1;
            while to.hit().try_send().is_ok() {
                sent += 1;
            }
            let _first = target.set(to);
            if matches!(bound, Bound::Soft(_)) {
                // A send from outside is refused; with a hard bound it would wait for the gate.
                let parting = runtime.spawn(Parting(to, accepted.clone())).serve().unwrap();
                assert_eq!(accepted.load(SeqCst), 0);
                parting.pid().kill();
            } else {
                let idle = runtime.spawn(Burst).serve().unwrap();
                idle.pid().kill();
            }
            eventually(|| runtime.statistics().processes.live == 1);
            assert_eq!(accepted.load(SeqCst), if matches!(bound, Bound::Soft(_)) { from_drop } else { 0 });
            gate.open();
            eventually(|| count.load(SeqCst) == sent + accepted.load(SeqCst) + hooked.load(SeqCst));
            assert_eq!(runtime.statistics().backpressure.suspended, 0);
        });
    }
}
