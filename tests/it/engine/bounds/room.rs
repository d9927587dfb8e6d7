//! Waiting for room: room that one waiter does not take goes to the next.

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

/// Takes a message whenever it is let.
#[process]
struct Careful {
    gates: Vec<Gate>,
    count: Arc<AtomicU64>,
}

#[process]
impl Careful {
    #[entry]
    fn serve(&mut self) {}

    /// While this waits, the process takes nothing else.
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

/// Sends so often in one step.
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

/// Whatever the receiver does, a wait within a step ends after a second, by the clock that the host goes by.
#[test]
fn a_step_that_waits_within_itself_goes_on_after_a_second() {
    soon(|| {
        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        let (careful, gates, count) = careful(&runtime, Bound::Soft(200), 1);
        careful.take().send().unwrap();
        eventually(|| count.load(SeqCst) == 1);
        let pushes = runtime.spawn(Pushes { to: careful, times: 2_000 }).serve().unwrap();
        pushes.go().send().unwrap();
        let waiting = |pid: Pid| pid.info().unwrap().mailbox;
        // Each move of the clock waits until nothing happens any more.
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
fn room_that_was_meant_for_one_that_gave_up_is_the_next_ones() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).clock(Clock::manual()).build().unwrap();
        let (careful, gates, count) = careful(&runtime, Bound::Hard(4, Overflow::Wait), 3);
        careful.take().send().unwrap();
        eventually(|| count.load(SeqCst) == 1);
        (0..4).for_each(|_| careful.take().send().unwrap());
        let mut given_up = Box::pin(careful.take().send_async());
        let mut told = Box::pin(careful.take().send_async());
        let mut late = Box::pin(careful.take().send_async());
        let context = &mut TaskContext::from_waker(Waker::noop());
        assert!(given_up.as_mut().poll(context).is_pending());
        assert!(told.as_mut().poll(context).is_pending());
        assert!(late.as_mut().poll(context).is_pending());
        // One gives up before there is room, one when it has been told, and the receiver waits for something else
        // meanwhile.
        drop(given_up);
        gates[0].open();
        eventually(|| count.load(SeqCst) == 2);
        drop(told);
        assert!(late.as_mut().poll(context).is_ready());
        assert_eq!(careful.pid().info().unwrap().mailbox, 4);
        gates.iter().for_each(Gate::open);
        eventually(|| count.load(SeqCst) == 6);
    });
}

#[test]
fn a_receiver_that_waits_for_something_else_holds_nobody_if_there_is_room() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).clock(Clock::manual()).build().unwrap();
        let (careful, gates, count) = careful(&runtime, Bound::Soft(200), 1_000);
        let mut sent = 0;
        while careful.take().send().is_ok() {
            sent += 1;
        }
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(move || careful.take().send_wait().unwrap())).collect();
        // Now it is below half, and will not go on by itself.
        (0..sent - 50).for_each(|gate| gates[gate].open());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(count.load(SeqCst) <= sent as u64);
        gates.iter().for_each(Gate::open);
        eventually(|| count.load(SeqCst) == sent as u64 + 8);
    });
}

/// Takes one message.
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
fn whoever_waits_for_room_hears_of_the_end_however_it_meets_it() {
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
fn a_thousand_that_gave_up_leave_nothing_behind_that_the_next_one_stumbles_over() {
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
fn what_is_sent_later_waits_for_nobody_and_is_a_dead_letter_if_there_is_no_room() {
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

/// Notes that it was woken.
#[derive(Default)]
struct Told(AtomicBool);

impl std::task::Wake for Told {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// How many of six tasks that wait for room have been let go once so many messages are left, from `from` downwards.
/// None of them sends what it waited for.
fn let_go_at_each_length(bound: Bound, from: u64) -> Vec<usize> {
    let runtime = Runtime::builder().workers(1).clock(Clock::manual()).build().unwrap();
    let (careful, gates, count) = careful(&runtime, bound, 1_000);
    let (other, _gates, others) = self::careful(&runtime, Bound::Unbounded, 0);
    careful.take().send().unwrap();
    eventually(|| count.load(SeqCst) == 1);
    let mut left = 0;
    while careful.take().send().is_ok() {
        left += 1;
    }
    let mut tasks: Vec<_> =
        (0..6).map(|_| (Box::pin(careful.take().send_async()), Arc::new(Told::default()))).collect();
    for (task, told) in &mut tasks {
        let waker = Waker::from(told.clone());
        assert!(task.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    }
    let mut gates = gates.iter();
    let mut let_go = vec![];
    while left > 0 {
        gates.next().unwrap().open();
        left -= 1;
        eventually(|| careful.pid().info().unwrap().mailbox == left);
        // There is one worker: what follows from the message is done when another process has had a turn after it.
        let before = others.load(SeqCst);
        other.take().send().unwrap();
        eventually(|| others.load(SeqCst) == before + 1);
        let told: Vec<bool> = tasks.iter().map(|(_, told)| told.0.load(SeqCst)).collect();
        assert!(told.is_sorted_by(|one, next| one >= next), "in the order in which they came: {told:?}");
        let told = told.into_iter().filter(|told| *told).count();
        if left <= from {
            let_go.push(told);
        } else {
            assert_eq!(told, 0, "with {left} in the mailbox");
        }
    }
    let_go
}

/// As many are let go as there is room for what they are going to send; and all, if the process waits for something
/// else, once half of the bound is free. Catches half a bound that is not rounded up, room that is one too large or too
/// small, those who were let go before and have not sent that are not counted, and a process that rests and lets go
/// only one.
#[test]
fn who_waits_for_room_is_let_go_step_by_step() {
    soon(|| {
        assert_eq!(let_go_at_each_length(Bound::Soft(6), 6), [0, 1, 2, 6, 6, 6, 6]);
        assert_eq!(let_go_at_each_length(Bound::Soft(7), 7), [0, 1, 2, 6, 6, 6, 6, 6]);
    });
}

/// Stays in each of its first messages until it is let go on.
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

/// The room of a message that a step has taken is given at once, while the step goes on. Catches a ring that lets those
/// who wait for room in only when the step is over.
#[test]
fn room_in_a_ring_is_given_within_the_step_that_makes_it() {
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
