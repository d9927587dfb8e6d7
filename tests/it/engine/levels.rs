//! Keeping mailboxes short: a sender that exceeds its time slice has a deficit, and is suspended.
//!
//! A deficit is bounded in time, so what it achieves alone depends on the speed of the machine. Here senders are also
//! suspended, so the bounds hold on every machine. All tests use one worker, so that the scheduler alone decides the
//! order. Not covered: deficits without suspension, and two workers, where producers on one core feed a consumer on
//! another.

use postroom::prelude::*;
use postroom::test::Clock;
use postroom_tests::{eventually, soon};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Builds a runtime in which time stands still and no worker is taken over: a suspension ends when there is room, and
/// does not time out.
fn one_worker() -> Runtime {
    Runtime::builder().workers(1).clock(Clock::manual()).stall_limit(Duration::MAX).build().unwrap()
}

/// A process that counts messages, checks the order of each producer, and reports when all have arrived.
#[process]
struct Consumer {
    next: Vec<u64>,
    left: u64,
    done: Sender<()>,
}

#[process]
impl Consumer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, from: usize, number: u64) {
        assert_eq!(self.next[from], number, "in order");
        self.next[from] += 1;
        self.left -= 1;
        if self.left == 0 {
            self.done.send(()).unwrap();
        }
    }
}

/// A process that sends a thousand messages in each step, and records the length of the consumer's mailbox before each.
#[process]
struct Producer {
    index: usize,
    consumer: Address<Consumer>,
    rounds: u64,
    longest: u64,
    done: Sender<u64>,
}

#[process]
impl Producer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn send(&mut self, ctx: &mut Context<Self>, round: u64) {
        self.longest = self.longest.max(self.consumer.pid().info().unwrap().mailbox);
        for number in round * 1_000..(round + 1) * 1_000 {
            self.consumer.take(self.index, number).send().unwrap();
        }
        match round + 1 == self.rounds {
            true => self.done.send(self.longest).unwrap(),
            false => ctx.address().send(round + 1).send().unwrap(),
        }
    }
}

/// Returns the maximum length of the consumer's mailbox, and checks that all messages came in order.
fn flood(producers: usize, rounds: u64) -> u64 {
    let runtime = one_worker();
    let (done, all_taken) = channel();
    let left = producers as u64 * rounds * 1_000;
    let consumer = runtime.spawn(Consumer { next: vec![0; producers], left, done }).serve().unwrap();
    let (done, longest) = channel();
    for index in 0..producers {
        let done = done.clone();
        let producer = runtime.spawn(Producer { index, consumer, rounds, longest: 0, done }).serve().unwrap();
        producer.send(0).send().unwrap();
    }
    all_taken.recv().unwrap();
    longest.iter().take(producers).max().unwrap()
}

/// In an optimized build no messages wait. In a slow build the deficit is worked off while the others run, and the
/// producer is suspended.
///
/// Mutation: in `engine/slice/run.rs`, `record_deficit`, record nothing, and in `suspend.rs`, `may_be_suspended`,
/// return false: 100 rounds leave more than 80,000 in the mailbox. Either mechanism alone keeps the mailbox short.
#[test]
fn a_producer_that_exceeds_its_time_slices_lets_its_consumer_keep_up() {
    soon(|| {
        let longest = flood(1, 100);
        assert!(longest < 20_000, "{longest} messages waited");
    });
}

/// Mutation: in `suspend.rs`, `may_be_suspended`, return false: the mailbox grows by 900 a round for each producer.
#[test]
fn sixteen_producers_leave_one_consumer_a_mailbox_of_bounded_length() {
    soon(|| {
        let longest = flood(16, 60);
        assert!(longest < 60_000, "{longest} messages waited");
    });
}

/// Mutation: in `engine/slice/run.rs`, `is_deferred`, cancel the deficit if the control lane is not empty (an answer),
/// and in `suspend.rs`, `may_be_suspended`, return false: the mailbox grows by more than 900 a round.
#[test]
fn a_producer_that_awaits_an_answer_after_each_burst_has_a_deficit_too() {
    #[process]
    struct Echo;
    #[process]
    impl Echo {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn echo(&mut self) {}
    }
    #[process]
    struct Feeder {
        consumer: Address<Consumer>,
        echo: Address<Echo>,
    }
    #[process]
    impl Feeder {
        #[entry]
        async fn feed(&mut self, rounds: u64) -> u64 {
            let mut longest = 0;
            for round in 0..rounds {
                longest = longest.max(self.consumer.pid().info().unwrap().mailbox);
                for number in round * 1_000..(round + 1) * 1_000 {
                    self.consumer.take(0, number).send().unwrap();
                }
                self.echo.echo().await.unwrap();
            }
            longest
        }
    }
    soon(|| {
        let runtime = one_worker();
        let (done, _taken) = channel();
        let consumer = runtime.spawn(Consumer { next: vec![0], left: u64::MAX, done }).serve().unwrap();
        let echo = runtime.spawn(Echo).serve().unwrap();
        let longest = runtime.spawn(Feeder { consumer, echo }).feed(200).unwrap().wait().unwrap();
        assert!(longest < 20_000, "{longest} messages waited");
    });
}

/// Mutation: in `engine/slice/run.rs`, `is_deferred`, do not check the control lane: nothing fails here, but on a busy
/// host the exit of a process is delayed by as many time slices as its deficit has.
#[test]
fn a_process_with_a_deficit_can_be_killed() {
    soon(|| {
        let runtime = one_worker();
        let (done, _taken) = channel();
        let consumer = runtime.spawn(Consumer { next: vec![0], left: u64::MAX, done }).serve().unwrap();
        let (done, _longest) = channel();
        let producer =
            runtime.spawn(Producer { index: 0, consumer, rounds: u64::MAX, longest: 0, done }).serve().unwrap();
        producer.send(0).send().unwrap();
        while consumer.pid().info().unwrap().messages < 1_000 {
            std::thread::yield_now();
        }
        let end = producer.pid().join();
        assert!(producer.pid().kill());
        assert_eq!(end.wait(), ExitReason::Killed);
    });
}

/// A slot counts steps and messages in a few bits. When these overflow, they carry into larger counters, and no step or
/// message is lost.
///
/// Mutation: in `slot/state.rs`, `carry`, forget the messages.
#[test]
fn steps_and_messages_are_counted_beyond_what_the_first_line_holds() {
    #[process]
    struct Bouncer {
        peer: Option<Address<Bouncer>>,
        done: Sender<()>,
    }
    #[process]
    impl Bouncer {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn meet(&mut self, peer: Address<Bouncer>) {
            self.peer = Some(peer);
        }
        #[message]
        fn ball(&mut self, left: u64) {
            match left {
                0 => self.done.send(()).unwrap(),
                _ => self.peer.unwrap().ball(left - 1).send().unwrap(),
            }
        }
    }
    soon(|| {
        let runtime = one_worker();
        let (done, over) = channel();
        let [one, other] = [(); 2].map(|()| runtime.spawn(Bouncer { peer: None, done: done.clone() }).serve().unwrap());
        one.meet(other).wait().unwrap();
        other.meet(one).wait().unwrap();
        one.ball(29_999).send().unwrap();
        over.recv().unwrap();
        // These calls are answered when the step with the last ball has been counted.
        one.meet(other).wait().unwrap();
        other.meet(one).wait().unwrap();
        for player in [one, other] {
            // The last call may be counted after its reply.
            let info = player.pid().info().unwrap();
            assert!((15_001..=15_002).contains(&info.messages), "{} messages", info.messages);
            assert!(info.steps >= 15_000, "{} steps", info.steps);
            assert_eq!(info.parent, None);
        }
    });
}

/// Messages are stored in their nodes, in blocks of each size class, or in an allocation of their own, and arrive
/// intact on every thread.
#[test]
fn messages_of_every_size_and_alignment_cross_threads_intact() {
    #[derive(Clone)]
    #[repr(align(128))]
    struct Wide([u8; 100]);
    #[process]
    struct Sink {
        bytes: u64,
    }
    #[process]
    impl Sink {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn small(&mut self, bytes: [u8; 32]) {
            self.bytes += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
        #[message]
        fn block(&mut self, bytes: [u8; 33]) {
            self.bytes += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
        #[message]
        fn large(&mut self, bytes: [u8; 500]) {
            self.bytes += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
        #[message]
        fn huge(&mut self, bytes: [u8; 5_000]) {
            self.bytes += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
        #[message]
        fn wide(&mut self, bytes: Wide) {
            assert_eq!((&raw const bytes).addr() % 128, 0);
            self.bytes += bytes.0.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
        #[message]
        fn nothing(&mut self) {}
        #[message]
        fn sum(&mut self) -> u64 {
            self.bytes
        }
    }
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let sink = runtime.spawn(Sink { bytes: 0 }).serve().unwrap();
        let senders: Vec<_> = (1..=4_u8)
            .map(|byte| {
                std::thread::spawn(move || {
                    for _ in 0..500 {
                        sink.small([byte; 32]).send_wait().unwrap();
                        sink.block([byte; 33]).send_wait().unwrap();
                        sink.large([byte; 500]).send_wait().unwrap();
                        sink.huge([byte; 5_000]).send_wait().unwrap();
                        sink.wide(Wide([byte; 100])).send_wait().unwrap();
                        sink.nothing().send_wait().unwrap();
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        // Calls fail while the mailbox is still full.
        eventually(|| sink.sum().wait().is_ok());
        assert_eq!(sink.sum().wait(), Ok((1 + 2 + 3 + 4) * 500 * (32 + 33 + 500 + 5_000 + 100)));
    });
}
