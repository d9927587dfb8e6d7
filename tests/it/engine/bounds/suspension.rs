//! Soft bounds: processes that send too much are suspended.

use super::outside::at_its_gate;
use super::{Sink, Source};
use postroom::inspect::ProcessState;
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::test::Clock;
use postroom::{Bound, Host};
use postroom_tests::{Act, Latch, act, eventually, soon};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

#[test]
fn a_process_that_exceeds_the_bound_is_suspended_until_the_receiver_has_caught_up() {
    for workers in [1, 2] {
        soon(move || {
            let runtime = Runtime::builder().workers(workers).clock(Clock::manual()).build().unwrap();
            let (done, all) = channel();
            let gate = Latch::new();
            let sink = Sink { next: vec![0], left: 100_000, gate: Some(gate.clone()), done };
            let sink = runtime.spawn(sink).serve().unwrap();
            let source = Source { index: 0, sink, next: 0, until: 100_000, a_step: 100 };
            let source = runtime.spawn(source).serve().unwrap();
            if workers == 1 {
                gate.open();
                source.go().send().unwrap();
            } else {
                source.go().send().unwrap();
                eventually(|| source.pid().info().unwrap().state == ProcessState::Suspended { at: sink.pid() });
                let mailbox = sink.pid().info().unwrap().mailbox;
                assert!((1_024..=1_024 + 300).contains(&mailbox), "{mailbox}");
                assert_eq!(runtime.statistics().backpressure.suspended, 1);
                gate.open();
            }
            all.recv().unwrap();
            let statistics = runtime.statistics();
            assert!(workers == 1 || statistics.backpressure.suspensions > 0);
            assert_eq!((statistics.backpressure.suspended, statistics.backpressure.forced_releases), (0, 0));
        });
    }
}

/// A step that sends fewer messages than the bound does not wait. Its process is suspended after the step, however many
/// others fill the same mailbox in the meantime.
///
/// Mutation: in `congestion.rs`, `note_congestion`, count all the messages of a batch as the step's own.
#[test]
fn no_step_waits_for_messages_of_others() {
    soon(|| {
        let builder = Runtime::builder().workers(1).clock(Clock::manual()).stall_limit(Duration::MAX);
        let runtime = builder.build().unwrap();
        let (done, all) = channel();
        let sink = Sink { next: vec![0; 16], left: 16 * 20_000, gate: None, done };
        let sink = runtime.spawn(sink).serve().unwrap();
        let sources: Vec<_> = (0..16)
            .map(|index| Source { index, sink, next: 0, until: 20_000, a_step: 1_000 })
            .map(|source| runtime.spawn(source).serve().unwrap())
            .collect();
        sources.iter().for_each(|source| source.go().send().unwrap());
        all.recv().unwrap();
        let statistics = runtime.statistics();
        assert!(statistics.backpressure.suspensions > 0);
        let ran: Vec<u64> = statistics.threads.iter().map(|thread| thread.steps).filter(|&steps| steps > 0).collect();
        assert_eq!(ran.len(), 1, "a step has waited, and another thread had its worker: {ran:?}");
    });
}

/// A process that keeps checking whether all senders have been resumed. It is never idle, since it always has another
/// message.
#[process]
struct Busy {
    host: Host,
    gate: Latch,
    looks: u32,
    done: Sender<u32>,
}

#[process]
impl Busy {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn begin(&mut self, ctx: &mut Context<Self>) {
        self.gate.wait();
        ctx.address().look().send().unwrap();
    }

    #[message]
    fn look(&mut self, ctx: &mut Context<Self>) {
        self.looks += 1;
        if self.host.statistics().backpressure.suspended == 0 {
            self.done.send(self.looks).unwrap();
        } else {
            ctx.address().look().send().unwrap();
        }
    }

    #[message]
    fn hear(&mut self) {}
}

#[process]
struct Small {
    busy: Address<Busy>,
}

#[process]
impl Small {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn tell(&mut self) {
        self.busy.hear().send().unwrap();
    }
}

/// Returns true if the process has sent its message, and is now idle, or suspended because of it.
fn has_sent(small: Address<Small>) -> bool {
    let info = small.pid().info().unwrap();
    info.messages == 1 && matches!(info.state, ProcessState::Suspended { .. } | ProcessState::Idle)
}

/// Returns true if no thread runs any process but `receiver`. A thread that is about to suspend a sender checks once
/// more for room, although all other threads already see that sender as suspended.
fn are_at_rest(host: &Host, receiver: Pid) -> bool {
    host.statistics().threads.iter().all(|thread| thread.process.is_none_or(|process| process == receiver))
}

/// Four hundred processes that send one message each are suspended, and resumed within forty time slices (of at most
/// 128 checks each) of a receiver that is never idle: more than one per time slice.
///
/// Mutation: in `suspend.rs`, `resume_waiters`, leave out `has_room`.
#[test]
fn senders_of_few_messages_are_resumed_together() {
    soon(|| while !are_resumed_together() {});
}

/// Returns whether all senders were suspended. Some may not be, since the length of the mailbox is unknown while a
/// preempted sender has yet to number its message.
fn are_resumed_together() -> bool {
    let runtime = Runtime::builder().workers(2).clock(Clock::manual()).build().unwrap();
    let (done, looks) = channel();
    let gate = Latch::new();
    let busy = runtime.spawn(Busy { host: *runtime, gate: gate.clone(), looks: 0, done }).serve().unwrap();
    busy.begin().send().unwrap();
    // Waits until the receiver is in its step.
    eventually(|| busy.pid().info().unwrap().mailbox == 0);
    // Fills the mailbox, until a send is refused.
    while busy.hear().send().is_ok() {}
    let small: Vec<_> = (0..400).map(|_| runtime.spawn(Small { busy }).serve().unwrap()).collect();
    small.iter().for_each(|small| small.tell().send().unwrap());
    eventually(|| small.iter().all(|&small| has_sent(small)) && are_at_rest(&runtime, busy.pid()));
    let count = runtime.statistics().backpressure.suspended;
    gate.open();
    let looks = looks.recv().unwrap();
    assert!(looks < 40 * 128, "{looks} looks");
    assert_eq!(runtime.statistics().backpressure.forced_releases, 0);
    count == 400
}

/// Returns a process that takes one message in each step, and reports the number of suspended processes at that time.
/// Its first step waits at the gate.
fn takes_one_a_step(host: Host, gate: Latch, reports: Sender<usize>) -> Act {
    act(move |events, out| {
        gate.wait();
        if events.next().is_some() {
            let _over = reports.send(host.statistics().backpressure.suspended);
            out.go_on();
        } else {
            out.idle();
        }
        Ok(())
    })
}

/// Three processes that have each sent more than half of the bound are resumed by a receiver that is never idle, one in
/// each of its steps.
///
/// Mutation: in `suspend.rs`, `resume_waiters`, resume all once the mailbox is half empty.
#[test]
fn senders_of_many_messages_are_resumed_one_per_step() {
    soon(|| while !are_resumed_one_per_step() {});
}

/// Returns true if all senders were suspended (see [`are_resumed_together`]) and then resumed in different steps. If a
/// resumed sender has already run when the receiver looks for the next one to resume, there is room for that one in the
/// same step, too.
fn are_resumed_one_per_step() -> bool {
    const SENT: u64 = 600;
    let runtime = Runtime::builder().workers(2).clock(Clock::manual()).build().unwrap();
    let (gate, (reports, suspended)) = (Latch::new(), channel());
    let receiver = takes_one_a_step(*runtime, gate.clone(), reports);
    let receiver = runtime.spawn_process(receiver).mailbox(Bound::Soft(1_000)).start().unwrap();
    let mut sent = 0;
    // Fills the mailbox, until a send is refused.
    while runtime.send(receiver, 0).is_ok() {
        sent += 1;
    }
    let senders = (0..3).map(|_| {
        let sender = act(move |events, out| {
            while let Some(event) = events.next() {
                if let Event::Message(_) = event {
                    let host = Host::current().unwrap();
                    (0..SENT).for_each(|_| host.send(receiver, 0).unwrap());
                }
            }
            out.idle();
            Ok(())
        });
        runtime.spawn_process(sender).start().unwrap()
    });
    let senders: Vec<_> = senders.collect();
    senders.iter().for_each(|&sender| runtime.send(sender, ()).unwrap());
    let has_sent = |sender: Pid| {
        let info = sender.info().unwrap();
        info.messages == 1 && matches!(info.state, ProcessState::Suspended { .. } | ProcessState::Idle)
    };
    eventually(|| senders.iter().all(|&sender| has_sent(sender)) && are_at_rest(&runtime, receiver));
    let count = runtime.statistics().backpressure.suspended;
    gate.open();
    let counts: Vec<usize> = (0..sent + 3 * SENT).map(|_| suspended.recv().unwrap()).collect();
    assert_eq!(runtime.statistics().backpressure.forced_releases, 0);
    let steps = |with: usize| counts.iter().filter(|&&count| count == with).count();
    assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
    if count < 3 || (steps(2), steps(1)) != (1, 1) {
        return false;
    }
    // The first sender is resumed when half of the bound is reached, before the message of that step is taken.
    assert_eq!(steps(1) + steps(0) + 1, 500);
    true
}

#[test]
fn a_mailboxs_own_bound_replaces_the_default() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        for (bound, least, most) in [(Bound::Soft(10), 10, 400), (Bound::Unbounded, 50_000, 50_000)] {
            let (done, all) = channel();
            let gate = Latch::new();
            let sink = Sink { next: vec![0], left: 50_000, gate: Some(gate.clone()), done };
            let sink = runtime.spawn(sink).mailbox(bound).serve().unwrap();
            let next = at_its_gate(sink);
            let source = Source { index: 0, sink, next, until: 50_000, a_step: 10 };
            let source = runtime.spawn(source).serve().unwrap();
            source.go().send().unwrap();
            eventually(|| {
                let state = source.pid().info().unwrap().state;
                matches!(state, ProcessState::Suspended { .. }) || source.sent().wait().unwrap() == 50_000
            });
            let mailbox = sink.pid().info().unwrap().mailbox;
            assert!((least..=most).contains(&(mailbox + 1)), "{bound:?}: {mailbox}");
            gate.open();
            all.recv().unwrap();
        }
    });
}

#[test]
fn a_suspended_process_can_be_killed_and_is_resumed_when_its_receiver_exits() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (done, _all) = channel();
        let gate = Latch::new();
        let sink = Sink { next: vec![0, 0, 0], left: u64::MAX, gate: Some(gate.clone()), done };
        let sink = runtime.spawn(sink).serve().unwrap();
        // Waits until the sink is in its step. Otherwise a thread that replaces that of a waiting source might begin
        // this step, and keep the worker.
        sink.take(2, 0).send().unwrap();
        eventually(|| sink.pid().info().unwrap().mailbox == 0);
        let sources: Vec<_> = (0..2)
            .map(|index| Source { index, sink, next: 0, until: 1_000_000, a_step: 2_000 })
            .map(|source| runtime.spawn(source).serve().unwrap())
            .collect();
        sources.iter().for_each(|source| source.go().send().unwrap());
        // Each process is suspended after its step or within it, for at most a second at a time. Polling finds a moment
        // at which both are.
        let is_suspended = |pid: Pid| pid.info().unwrap().state == ProcessState::Suspended { at: sink.pid() };
        eventually(|| sources.iter().all(|source| is_suspended(source.pid())));
        let end = sources[0].pid().join();
        sources[0].pid().kill();
        assert_eq!(end.wait(), ExitReason::Killed);
        let end = sources[1].pid().join();
        sink.pid().kill();
        gate.open();
        // The source's next send is refused, and so the source panics.
        assert!(matches!(end.wait(), ExitReason::Panic(_)));
        assert_eq!(runtime.statistics().backpressure.suspended, 0);
    });
}

/// The process sends endlessly in one step, which has to wait for room. The kill comes while the step waits, or
/// earlier.
///
/// Mutations: in `engine/shutdown/mod.rs`, `send_control`, leave out `let_step_end`; in `suspend.rs`,
/// `wait_in_step_at`, leave out `is_told_to_end`.
#[test]
fn a_step_that_waits_for_room_is_released_by_a_kill() {
    soon(|| {
        for kills_itself in [false, true] {
            let runtime = Runtime::builder().workers(2).clock(Clock::manual()).build().unwrap();
            let (done, _all) = channel();
            let gate = Latch::new();
            let sink = Sink { next: vec![0], left: u64::MAX, gate: Some(gate.clone()), done };
            let sink = runtime.spawn(sink).serve().unwrap();
            let source = Source { index: 0, sink, next: 0, until: 400_000, a_step: 200_000 };
            let source = runtime.spawn(source).serve().unwrap();
            let end = source.pid().join();
            // With this clock no wait times out.
            if kills_itself {
                source.go_and_die().send().unwrap();
            } else {
                source.go().send().unwrap();
                eventually(|| source.pid().info().unwrap().state == ProcessState::Suspended { at: sink.pid() });
                source.pid().kill();
            }
            assert_eq!(end.wait(), ExitReason::Killed);
            let statistics = runtime.statistics();
            assert_eq!((statistics.backpressure.suspended, statistics.backpressure.forced_releases), (0, 0));
            gate.open();
            eventually(|| sink.taken().wait().is_ok_and(|taken| taken == 200_000));
        }
    });
}

/// A process that sends `a_step` messages to each of the others in each round, and counts the messages that it
/// receives.
#[process]
#[derive(Default)]
struct Flooder {
    others: Vec<Address<Flooder>>,
    a_step: u64,
    rounds: u64,
    received: u64,
}

#[process]
impl Flooder {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn meet(&mut self, others: Vec<Address<Flooder>>) {
        self.others = others;
    }

    #[message]
    fn go(&mut self, ctx: &mut Context<Self>) {
        for _ in 0..self.a_step {
            self.others.iter().for_each(|other| other.hit().send().unwrap());
        }
        self.rounds -= 1;
        if self.rounds > 0 {
            ctx.address().go().send().unwrap();
        }
    }

    #[message]
    fn hit(&mut self) {
        self.received += 1;
    }

    #[message]
    fn received(&self) -> u64 {
        self.received
    }
}

/// Makes each of `count` processes flood the processes that `next` returns.
fn flood(workers: usize, count: usize, a_step: u64, rounds: u64, next: impl Fn(usize) -> Vec<usize>) {
    // With this clock no suspension times out.
    let runtime = Runtime::builder().workers(workers).clock(Clock::manual()).build().unwrap();
    let flooder = || Flooder { a_step, rounds, ..Flooder::default() };
    let all: Vec<_> = (0..count).map(|_| runtime.spawn(flooder()).serve().unwrap()).collect();
    let mut hits = vec![0; count];
    for (index, flooder) in all.iter().enumerate() {
        let others = next(index);
        others.iter().for_each(|other| hits[*other] += a_step * rounds);
        flooder.meet(others.into_iter().map(|other| all[other]).collect()).wait().unwrap();
    }
    all.iter().for_each(|flooder| flooder.go().send_wait().unwrap());
    for (flooder, hits) in all.iter().zip(hits) {
        eventually(|| flooder.received().wait().is_ok_and(|received| received == hits));
    }
    let statistics = runtime.statistics();
    assert_eq!((statistics.backpressure.suspended, statistics.backpressure.forced_releases), (0, 0));
}

#[test]
fn floods_to_itself_to_each_other_and_in_a_cycle_do_not_stall() {
    for workers in [1, 2, 4] {
        soon(move || {
            // In the first case each step sends more messages than the bound, and in the second fewer.
            for (a_step, rounds) in [(3_000, 20), (200, 300)] {
                flood(workers, 1, a_step, rounds, |_| vec![0]);
                flood(workers, 2, a_step, rounds, |index| vec![1 - index]);
                flood(workers, 5, a_step, rounds, |index| vec![(index + 1) % 5]);
                flood(workers, 4, a_step / 4, rounds, |_| (0..4).collect());
            }
        });
    }
}

#[test]
fn a_receiver_that_calls_a_sender_suspended_at_it_is_answered() {
    #[process]
    struct Master {
        worker: Address<Worker>,
        seen: u64,
    }

    #[process]
    impl Master {
        #[entry]
        fn serve(&mut self) {}

        #[message]
        async fn result(&mut self, number: u64) {
            assert_eq!(number, self.seen);
            self.seen += 1;
            if number.is_multiple_of(1_000) {
                self.worker.ask().await.unwrap();
            }
        }

        #[message]
        fn seen(&self) -> u64 {
            self.seen
        }
    }

    #[process]
    struct Worker {
        master: Option<Address<Master>>,
        next: u64,
    }

    #[process]
    impl Worker {
        #[entry]
        fn serve(&mut self) {}

        #[message]
        fn work(&mut self, ctx: &mut Context<Self>, master: Address<Master>) {
            self.master = Some(master);
            for _ in 0..2_000 {
                master.result(self.next).send().unwrap();
                self.next += 1;
            }
            if self.next < 20_000 {
                ctx.address().work(master).send().unwrap();
            }
        }

        #[message]
        fn ask(&self) {}
    }

    soon(|| {
        let runtime = Runtime::builder().workers(2).clock(Clock::manual()).build().unwrap();
        let worker = runtime.spawn(Worker { master: None, next: 0 }).serve().unwrap();
        let master = runtime.spawn(Master { worker, seen: 0 }).serve().unwrap();
        worker.work(master).send().unwrap();
        eventually(|| master.seen().wait().is_ok_and(|seen| seen == 20_000));
    });
}
