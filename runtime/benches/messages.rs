//! The cost of a message: `cargo bench -p postroom --bench messages [-- ROUNDS]`.
//!
//! Each figure is the median of several runs, in nanoseconds per message. The processes are written as a user would
//! write them. The runs of the different workloads are interleaved, so that a slow minute of the machine affects all of
//! them.

use postroom::prelude::*;
use std::time::{Duration, Instant};

/// A process that bounces a ball until the ball has made all its passes.
#[process]
struct Player {
    done: Option<Pid>,
}

#[process]
impl Player {
    #[entry]
    fn serve(&mut self, done: Option<Pid>) {
        self.done = done;
    }

    #[message]
    fn ball(&mut self, ctx: &mut Context<Self>, from: Address<Player>, left: u64) {
        match (left, self.done) {
            (0, Some(done)) => drop(Sender::send(done, ())),
            (0, None) => drop(from.ball(ctx.address(), 0).send()),
            _ => drop(from.ball(ctx.address(), left - 1).send()),
        }
    }
}

/// A way to send by PID from inside a process.
struct Sender;

impl Sender {
    fn send<M: Send + 'static>(to: Pid, message: M) -> Result<(), SendError<M>> {
        Recipient::<M>::of(to).send(message)
    }
}

/// A process that counts its messages up to a given number.
#[process]
struct Counter {
    count: u64,
    until: u64,
    done: Option<Pid>,
}

#[process]
impl Counter {
    #[entry]
    fn serve(&mut self, until: u64, done: Pid) {
        self.until = until;
        self.done = Some(done);
    }

    #[message]
    fn count(&mut self) {
        self.count += 1;
        if self.count == self.until
            && let Some(done) = self.done
        {
            drop(Sender::send(done, ()));
        }
    }
}

/// A process that sends its messages to a counter, at most a thousand of them in a step.
#[process]
struct Producer {
    counter: Option<Address<Counter>>,
}

#[process]
impl Producer {
    #[entry]
    fn serve(&mut self, counter: Address<Counter>) {
        self.counter = Some(counter);
    }

    #[message]
    fn produce(&mut self, ctx: &mut Context<Self>, left: u64) {
        let Some(counter) = self.counter else { return };
        let now = left.min(1_000);
        for _ in 0..now {
            drop(counter.count().send());
        }
        if left > now {
            drop(ctx.address().produce(left - now).send());
        }
    }
}

fn ping_pong(runtime: &Runtime, pairs: u64, messages: u64) -> Duration {
    let mut mailbox = postroom::Mailbox::new().expect("a mailbox");
    let players: Vec<_> = (0..pairs)
        .map(|_| {
            let one = runtime.spawn(Player { done: None }).serve(Some(mailbox.pid())).expect("a player");
            let other = runtime.spawn(Player { done: None }).serve(Some(mailbox.pid())).expect("a player");
            (one, other)
        })
        .collect();
    let start = Instant::now();
    for (one, other) in &players {
        one.ball(*other, messages / pairs).send().expect("a living player");
    }
    for _ in 0..pairs {
        drop(mailbox.receive().take::<()>());
    }
    let took = start.elapsed();
    for (one, other) in players {
        one.pid().kill();
        other.pid().kill();
    }
    took
}

fn counting(runtime: &Runtime, producers: u64, messages: u64) -> Duration {
    let mut mailbox = postroom::Mailbox::new().expect("a mailbox");
    let share = messages / producers;
    let counter = Counter { count: 0, until: 0, done: None };
    let counter = runtime.spawn(counter).serve(share * producers, mailbox.pid()).expect("a counter");
    let producers: Vec<_> =
        (0..producers).map(|_| runtime.spawn(Producer { counter: None }).serve(counter).expect("a producer")).collect();
    let start = Instant::now();
    for producer in &producers {
        producer.produce(share).send().expect("a living producer");
    }
    drop(mailbox.receive().take::<()>());
    let took = start.elapsed();
    counter.pid().kill();
    for producer in producers {
        producer.pid().kill();
    }
    took
}

/// A name, and the function that measures the workload on a runtime.
type Workload = (&'static str, fn(&Runtime, u64) -> Duration);

fn main() {
    // `cargo bench` passes `--bench`, and `cargo test --benches` passes nothing.
    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(5);
    let bench = std::env::args().any(|argument| argument == "--bench");
    let messages = if bench { 2_000_000 } else { 2_000 };
    let workloads: [Workload; 4] = [
        ("ping-pong, 1 pair", |runtime, messages| ping_pong(runtime, 1, messages)),
        ("ping-pong, 64 pairs", |runtime, messages| ping_pong(runtime, 64, messages)),
        ("counting, 1 to 1", |runtime, messages| counting(runtime, 1, messages)),
        ("counting, 16 to 1", |runtime, messages| counting(runtime, 16, messages)),
    ];
    println!("{:<24}{:>12}{:>12}", "ns per message", "1 worker", "2 workers");
    let mut figures = vec![[Vec::new(), Vec::new()]; workloads.len()];
    for _ in 0..rounds {
        for (index, (_, measure)) in workloads.iter().enumerate() {
            for workers in [1, 2] {
                let runtime = Runtime::builder().workers(workers).build().expect("a runtime");
                let took = measure(&runtime, messages);
                figures[index][workers - 1].push(took.as_nanos() as f64 / messages as f64);
            }
        }
    }
    for ((name, _), mut figures) in workloads.iter().zip(figures) {
        let [one, two] = &mut figures;
        println!("{name:<24}{:>12.1}{:>12.1}", median(one), median(two));
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
