//! Waiting for room: if a waiter does not take its room, the next waiter gets it.

use super::Gate;
use postroom::error::SendFailure;
use postroom::inspect::ProcessState;
use postroom::prelude::*;
use postroom::test::Clock;
use postroom::{Bound, Overflow};
use postroom_tests::{Latch, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

/// A process that takes a message for each opened gate.
#[process]
struct Careful {
    gates: Vec<Gate>,
    count: Arc<AtomicU64>,
}

#[process]
impl Careful {
    #[entry]
    fn serve(&mut self) {}

    /// Takes a message, and waits for its gate. Until then the process takes no other message.
    #[message]
    #[derive(Clone)]
    async fn take(&mut self) {
        self.count.fetch_add(1, SeqCst);
        if let Some(gate) = self.gates.pop() {
            gate.passed().await;
        }
    }
}

fn careful(runtime: &Runtime, bound: Bound, gates: usize) -> (Address<Careful>, Vec<Gate>, Arc<AtomicU64>) {
    let gates: Vec<Gate> = (0..gates).map(|_| Gate::default()).collect();
    let count = Arc::new(AtomicU64::new(0));
    let careful = Careful { gates: gates.iter().rev().cloned().collect(), count: count.clone() };
    (runtime.spawn(careful).mailbox(bound).serve().unwrap(), gates, count)
}

/// A process that sends a number of messages in one step.
#[process]
struct Pushes {
    to: Address<Careful>,
    times: u64,
}

#[process]
impl Pushes {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn go(&mut self) {
        (0..self.times).for_each(|_| self.to.take().send().unwrap());
    }
}

/// Whatever the receiver does, a wait within a step ends after a second on the host's clock.
#[test]
fn a_step_that_waits_for_room_continues_after_a_second() {
    soon(|| {
        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        let (careful, gates, count) = careful(&runtime, Bound::Soft(200), 1);
        careful.take().send().unwrap();
        eventually(|| count.load(SeqCst) == 1);
        let pushes = runtime.spawn(Pushes { to: careful, times: 2_000 }).serve().unwrap();
        pushes.go().send().unwrap();
        let waiting = |pid: Pid| pid.info().unwrap().mailbox;
        // Each advance of the clock waits until the host is at rest.
        clock.advance(Duration::from_millis(1)).unwrap();
        for releases in 0..3 {
            let before = waiting(careful.pid());
            assert!(before < 2_000, "{before}");
            assert_eq!(pushes.pid().info().unwrap().state, ProcessState::Suspended { at: careful.pid() });
            clock.advance(Duration::from_millis(998)).unwrap();
            assert_eq!((waiting(careful.pid()), runtime.statistics().backpressure.forced_releases), (before, releases));
            clock.advance(Duration::from_millis(2)).unwrap();
            assert!(waiting(careful.pid()) > before);
            assert_eq!(runtime.statistics().backpressure.forced_releases, releases + 1);
        }
        gates[0].open();
        eventually(|| count.load(SeqCst) == 2_001);
        eventually(|| (runtime.statistics().backpressure.suspended, runtime.statistics().timers) == (0, 0));
    });
}

#[test]
fn room_reserved_for_an_abandoned_wait_passes_to_the_next() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).clock(Clock::manual()).build().unwrap();
        let (careful, gates, count) = careful(&runtime, Bound::Hard(4, Overflow::Wait), 3);
        careful.take().send().unwrap();
        eventually(|| count.load(SeqCst) == 1);
        (0..4).for_each(|_| careful.take().send().unwrap());
        let mut given_up = Box::pin(careful.take().send_async());
        let mut woken = Box::pin(careful.take().send_async());
        let mut late = Box::pin(careful.take().send_async());
        let context = &mut TaskContext::from_waker(Waker::noop());
        assert!(given_up.as_mut().poll(context).is_pending());
        assert!(woken.as_mut().poll(context).is_pending());
        assert!(late.as_mut().poll(context).is_pending());
        // One waiter gives up before there is room, and the next one after it was woken. Throughout, the receiver waits
        // for something else.
        drop(given_up);
        gates[0].open();
        eventually(|| count.load(SeqCst) == 2);
        drop(woken);
        // The worker may be about to wake it.
        eventually(|| late.as_mut().poll(context).is_ready());
        assert_eq!(careful.pid().info().unwrap().mailbox, 4);
        gates.iter().for_each(Gate::open);
        eventually(|| count.load(SeqCst) == 6);
    });
}

#[test]
fn a_receiver_that_waits_for_something_else_suspends_no_sender_if_there_is_room() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).clock(Clock::manual()).build().unwrap();
        let (careful, gates, count) = careful(&runtime, Bound::Soft(200), 1_000);
        let mut sent = 0;
        while careful.take().send().is_ok() {
            sent += 1;
        }
        let threads: Vec<_> = (0..8)
            .map(|_| std::thread::spawn(move || careful.take().timeout(Duration::MAX).send_wait().unwrap()))
            .collect();
        // Now the mailbox is below half of its bound, and the receiver does not continue by itself.
        (0..sent - 50).for_each(|gate| gates[gate].open());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(count.load(SeqCst) <= sent as u64);
        gates.iter().for_each(Gate::open);
        eventually(|| count.load(SeqCst) == sent as u64 + 8);
    });
}

/// A process that exits after one message.
#[process]
struct Mayfly;

#[process]
impl Mayfly {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, _number: u64) {
        std::hint::black_box((0..50).fold(0, |sum: u64, next| std::hint::black_box(sum ^ next)));
    }
}

#[test]
fn a_wait_for_room_fails_at_any_point_of_the_receivers_exit() {
    for bound in [Bound::Soft(1), Bound::Soft(130), Bound::Hard(1, Overflow::Wait), Bound::Hard(3, Overflow::Wait)] {
        soon(move || {
            let runtime = Runtime::builder().workers(2).clock(Clock::manual()).build().unwrap();
            for round in 0..60_u64 {
                let mayfly = runtime.spawn(Mayfly).mailbox(bound).serve().unwrap();
                let threads = (0..3).map(|thread| {
                    std::thread::spawn(move || {
                        loop {
                            let sent = match thread {
                                0 => mayfly.take(1).send_wait(),
                                1 => postroom_block_on(mayfly.take(1).send_async()),
                                _ => mayfly.take(1).timeout(Duration::from_micros(50)).send_wait(),
                            };
                            match sent.map_err(|error| error.reason) {
                                Ok(()) | Err(SendFailure::Full(_)) => {}
                                Err(SendFailure::Gone(_)) => return,
                                Err(other) => panic!("{other:?}"),
                            }
                        }
                    })
                });
                let threads: Vec<_> = threads.collect();
                let end = mayfly.pid().join();
                (0..round * 500).for_each(|_| std::hint::spin_loop());
                if round % 2 == 0 {
                    mayfly.pid().kill()
                } else {
                    mayfly.pid().stop()
                };
                end.wait();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            }
            let statistics = runtime.statistics();
            assert_eq!((statistics.backpressure.suspended, statistics.processes.live), (0, 0));
        });
    }
}

fn postroom_block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_thousand_abandoned_waits_do_not_affect_the_next() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (careful, gates, count) = careful(&runtime, Bound::Hard(1, Overflow::Wait), 1);
        careful.take().send().unwrap();
        eventually(|| count.load(SeqCst) == 1);
        careful.take().send().unwrap();
        let context = &mut TaskContext::from_waker(Waker::noop());
        for _ in 0..1_000 {
            let mut gives_up = Box::pin(careful.take().send_async());
            assert!(gives_up.as_mut().poll(context).is_pending());
        }
        let done = Arc::new(AtomicBool::new(false));
        let says = done.clone();
        let waits = std::thread::spawn(move || {
            careful.take().send_wait().unwrap();
            says.store(true, SeqCst);
        });
        gates[0].open();
        waits.join().unwrap();
        eventually(|| count.load(SeqCst) == 3 && done.load(SeqCst));
    });
}

#[test]
fn a_delayed_message_does_not_wait_and_is_a_dead_letter_if_there_is_no_room() {
    for bound in [Bound::Soft(4), Bound::Hard(4, Overflow::Wait), Bound::Hard(4, Overflow::Refuse)] {
        soon(move || {
            let runtime = Runtime::builder().workers(1).build().unwrap();
            let (careful, gates, count) = careful(&runtime, bound, 1);
            careful.take().send().unwrap();
            eventually(|| count.load(SeqCst) == 1);
            let mut sent = 1;
            while careful.take().try_send().is_ok() {
                sent += 1;
            }
            let _late = careful.take().send_after(Duration::from_millis(1)).unwrap();
            let again = careful.take().send_every(Duration::from_millis(1)).unwrap();
            eventually(|| runtime.statistics().dead_letters.overflow >= 3);
            // The only worker is free.
            let (other, _, _) = self::careful(&runtime, Bound::DEFAULT, 0);
            other.take().wait().unwrap();
            again.cancel();
            gates[0].open();
            eventually(|| count.load(SeqCst) == sent);
        });
    }
}

/// A waker that records its wake.
#[derive(Default)]
struct WakeFlag(AtomicBool);

impl std::task::Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Returns how many of six tasks that wait for room have been woken, for each number of messages left in the mailbox,
/// from `from` downwards. The woken tasks do not send their messages.
fn woken_at_each_length(bound: Bound, from: u64) -> Vec<usize> {
    // Without stall detection, no other thread takes the worker over when this one is preempted in a step.
    let builder = Runtime::builder().workers(1).stall_limit(Duration::MAX);
    let runtime = builder.clock(Clock::manual()).build().unwrap();
    let (careful, gates, count) = careful(&runtime, bound, 1_000);
    let (other, _gates, others) = self::careful(&runtime, Bound::Unbounded, 0);
    careful.take().send().unwrap();
    eventually(|| count.load(SeqCst) == 1);
    let mut left = 0;
    while careful.take().send().is_ok() {
        left += 1;
    }
    let mut tasks: Vec<_> =
        (0..6).map(|_| (Box::pin(careful.take().send_async()), Arc::new(WakeFlag::default()))).collect();
    for (task, woken) in &mut tasks {
        let waker = Waker::from(woken.clone());
        assert!(task.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    }
    let mut gates = gates.iter();
    let mut woken_counts = vec![];
    while left > 0 {
        gates.next().unwrap().open();
        left -= 1;
        eventually(|| careful.pid().info().unwrap().mailbox == left);
        // With one worker, the effects of the message are complete when another process has run after it.
        let before = others.load(SeqCst);
        other.take().send().unwrap();
        eventually(|| others.load(SeqCst) == before + 1);
        let woken: Vec<bool> = tasks.iter().map(|(_, woken)| woken.0.load(SeqCst)).collect();
        assert!(woken.is_sorted_by(|one, next| one >= next), "in the order in which they came: {woken:?}");
        let woken = woken.into_iter().filter(|woken| *woken).count();
        if left <= from {
            woken_counts.push(woken);
        } else {
            assert_eq!(woken, 0, "with {left} in the mailbox");
        }
    }
    woken_counts
}

/// Once half of the bound is free, as many tasks are woken as there is room for, or all if the process waits for
/// something else. Catches: half of an odd bound that is not rounded up, room that is off by one, woken tasks that have
/// not sent yet and are not counted, and an idle process that wakes only one task.
#[test]
fn waits_for_room_end_as_room_becomes_available() {
    soon(|| {
        assert_eq!(woken_at_each_length(Bound::Soft(6), 6), [0, 1, 2, 6, 6, 6, 6]);
        assert_eq!(woken_at_each_length(Bound::Soft(7), 7), [0, 1, 2, 6, 6, 6, 6, 6]);
    });
}

/// A process that stays in each of its first messages until its latch is open.
#[process]
struct Stays {
    gates: Vec<Latch>,
    count: Arc<AtomicU64>,
}

#[process]
impl Stays {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self) {
        self.count.fetch_add(1, SeqCst);
        if let Some(gate) = self.gates.pop() {
            gate.wait();
        }
    }
}

/// When a step takes a message, the room that this makes is available at once, while the step still runs. Catches: a
/// bounded queue that admits waiters only when the step is over.
#[test]
fn room_in_a_bounded_queue_is_available_within_the_step_that_frees_it() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).clock(Clock::manual()).stall_limit(Duration::MAX).build().unwrap();
        let (first, second, count) = (Latch::new(), Latch::new(), Arc::new(AtomicU64::new(0)));
        let stays = Stays { gates: vec![second.clone(), first.clone()], count: count.clone() };
        let stays = runtime.spawn(stays).mailbox(Bound::Hard(4, Overflow::Wait)).serve().unwrap();
        stays.take().send().unwrap();
        eventually(|| count.load(SeqCst) == 1);
        (0..4).for_each(|_| stays.take().send().unwrap());
        let mut waits = Box::pin(stays.take().send_async());
        assert!(waits.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        first.open();
        eventually(|| count.load(SeqCst) == 2);
        assert!(waits.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_ready());
        second.open();
        eventually(|| count.load(SeqCst) == 6);
    });
}
