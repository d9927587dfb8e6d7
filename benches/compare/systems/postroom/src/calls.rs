//! The duration of calls, and of sends.

use crate::plan::{Outcome, Plan};
use postroom::prelude::*;
use std::time::{Duration, Instant};

#[process]
pub struct Adder;

#[process]
impl Adder {
    #[entry]
    pub fn serve(&mut self) {}

    #[message]
    pub fn add(&self, number: u64) -> u64 {
        number + 1
    }
}

#[process]
struct Caller {
    adder: Address<Adder>,
}

#[process]
impl Caller {
    #[entry]
    async fn ask(&mut self, calls: u64) -> Result<Outcome, CallError> {
        let mut latencies = Vec::with_capacity(calls as usize);
        for number in 0..calls {
            let start = Instant::now();
            self.adder.add(number).await?;
            latencies.push(start.elapsed().as_nanos() as u64);
        }
        let start = Instant::now();
        let mut check = 0;
        for number in 0..calls {
            check += self.adder.add(number).await?;
        }
        Ok(Outcome { elapsed: start.elapsed(), operations: calls, check, latencies, ..Outcome::default() })
    }
}

pub fn ask(runtime: &Runtime, plan: &Plan) -> Outcome {
    let adder = runtime.spawn(Adder).serve().expect("an adder");
    runtime.spawn(Caller { adder }).ask(plan.size).expect("a caller").wait().expect("all answers")
}

/// A process that records the latencies of its messages.
#[process]
struct Sleeper {
    latencies: Vec<u64>,
}

#[process]
impl Sleeper {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn wake(&mut self, sent: Instant) {
        self.latencies.push(sent.elapsed().as_nanos() as u64);
    }

    #[message]
    fn latencies(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.latencies)
    }
}

pub fn wake_latency(runtime: &Runtime, plan: &Plan) -> Outcome {
    /// Pause between two messages, so that the system falls asleep.
    const PAUSE: Duration = Duration::from_millis(2);
    let sleeper = Sleeper { latencies: Vec::with_capacity(plan.size as usize) };
    let sleeper = runtime.spawn(sleeper).serve().expect("a sleeper");
    for _ in 0..plan.size {
        std::thread::sleep(PAUSE);
        sleeper.wake(Instant::now()).send().expect("a living sleeper");
    }
    let latencies = sleeper.latencies().wait().expect("a living sleeper");
    let elapsed = Duration::from_nanos(latencies.iter().sum());
    let handled = latencies.len() as u64;
    Outcome { elapsed, operations: handled, check: handled, latencies, ..Outcome::default() }
}
