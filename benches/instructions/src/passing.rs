//! Processes that pass messages.

use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use postroom::prelude::*;
use postroom::record::FlightRecorder;

/// Number of messages that a producer sends in a step. It is so large that the producer's messages to itself hardly
/// count.
const BATCH: u64 = 1_000;

/// Returns a runtime with one worker that makes the same random choices each time.
///
/// Waits for a tick of the watchdog. The watchdog's thread also prepares the barriers that make messages within a
/// worker cheap, so from then on all operations of a run cost the same.
pub fn runtime() -> Runtime {
    let runtime = Runtime::builder().workers(1).seed(1).build().expect("a runtime");
    while runtime.statistics().watchdog.ticks == 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    runtime
}

/// Runs `start` on a runtime, and waits until the processes that it started have done all operations.
pub fn finish(start: impl FnOnce(&Runtime, Sender<u64>), count: u64) {
    assert!(count > 0, "an operation is done at least once");
    let runtime = runtime();
    let (done, ended) = channel();
    start(&runtime, done);
    assert_eq!(ended.recv(), Ok(count), "all is done");
}

#[process]
struct Counter {
    received: u64,
    until: u64,
    done: Sender<u64>,
}

#[process]
impl Counter {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn count(&mut self, number: u64) {
        assert_eq!(number, self.received, "messages come in their order");
        self.received += 1;
        if self.received == self.until {
            self.done.send(self.received).expect("somebody waits");
        }
    }
}

#[process]
struct Producer {
    counter: Address<Counter>,
    until: u64,
}

#[process]
impl Producer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn produce(&mut self, ctx: &mut Context<Self>, from: u64) {
        let to = self.until.min(from + BATCH);
        send_batch(self.counter, from..to);
        if to < self.until {
            ctx.address().produce(to).send().expect("this process lives");
        }
    }
}

/// Sends a batch of messages. The function must not be inlined, since `send` and `receive` are measured by its name.
#[inline(never)]
fn send_batch(counter: Address<Counter>, numbers: Range<u64>) {
    for number in numbers {
        counter.count(number).send().expect("the counter lives");
    }
}

pub fn counting(count: u64) {
    let start = |runtime: &Runtime, done| {
        let counter = runtime.spawn(Counter { received: 0, until: count, done }).serve().expect("a counter");
        let producer = runtime.spawn(Producer { counter, until: count }).serve().expect("a producer");
        producer.produce(0).send().expect("the producer lives");
    };
    finish(start, count);
}

#[process]
struct Player {
    passed: u64,
    done: Sender<u64>,
}

#[process]
impl Player {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn ball(&mut self, ctx: &mut Context<Self>, from: Address<Player>, passed: u64, left: u64) {
        self.passed += 1;
        if left == 0 {
            self.done.send(passed).expect("somebody waits");
        } else {
            from.ball(ctx.address(), passed + 1, left - 1).send().expect("the other lives");
        }
    }
}

/// Which part of a runtime's events is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RecordedPart {
    Nothing,
    /// The samples that a flight recorder with default options takes.
    Samples,
    Whole,
}

/// Returns the time that the operations take while the given part of the events is recorded.
pub fn timed_ping_pong(count: u64, part: RecordedPart) -> Duration {
    let runtime = runtime();
    let active = (part == RecordedPart::Whole)
        .then(|| runtime.record(Duration::from_secs(600)).start().expect("nothing else is recorded"));
    let flight = (part == RecordedPart::Samples)
        .then(|| runtime.flight_recorder(FlightRecorder::new()).expect("nothing else is recorded"));
    let (done, ended) = channel();
    let player =
        |done: &Sender<u64>| runtime.spawn(Player { passed: 0, done: done.clone() }).serve().expect("a player");
    let (one, other) = (player(&done), player(&done));
    let begun = Instant::now();
    one.ball(other, 1, count - 1).send().expect("a player lives");
    assert_eq!(ended.recv(), Ok(count), "all is done");
    let took = begun.elapsed();
    drop((active, flight));
    took
}

pub fn ping_pong(count: u64) {
    let start = |runtime: &Runtime, done: Sender<u64>| {
        let player = |done| runtime.spawn(Player { passed: 0, done }).serve().expect("a player");
        let (one, other) = (player(done.clone()), player(done));
        one.ball(other, 1, count - 1).send().expect("a player lives");
    };
    finish(start, count);
}

/// Number of processes in the ring.
const RING: usize = 100;

#[process]
struct Member {
    next: Option<Address<Member>>,
    passed: u64,
    done: Sender<u64>,
}

#[process]
impl Member {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn meet(&mut self, next: Address<Member>) {
        self.next = Some(next);
    }

    #[message]
    fn pass(&mut self, passed: u64, left: u64) {
        self.passed += 1;
        if left == 0 {
            self.done.send(passed).expect("the thread outside waits");
        } else {
            self.next.expect("a ring").pass(passed + 1, left - 1).send().expect("the next one lives");
        }
    }
}

pub fn ring(count: u64) {
    let start = |runtime: &Runtime, done: Sender<u64>| {
        let member = || runtime.spawn(Member { next: None, passed: 0, done: done.clone() }).serve().expect("a member");
        let ring = Vec::from_iter((0..RING).map(|_| member()));
        for (place, member) in ring.iter().enumerate() {
            member.meet(ring[(place + 1) % RING]).send().expect("a member lives");
        }
        ring[0].pass(1, count - 1).send().expect("a member lives");
    };
    finish(start, count);
}
