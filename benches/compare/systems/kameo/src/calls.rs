//! Calls one after the other, and messages that wake a sleeping system.

use std::thread;
use std::time::{Duration, Instant};

use ::kameo::prelude::*;
use ::tokio::sync::oneshot;

use super::stage::{Begin, run, spawn, tell};
use crate::plan::{Outcome, Plan};

#[derive(Actor)]
pub struct Callee;

pub struct Question(pub u64);

impl Message<Question> for Callee {
    type Reply = u64;

    async fn handle(&mut self, Question(number): Question, _: &mut Context<Self, u64>) -> u64 {
        number + 1
    }
}

#[derive(Actor)]
struct Caller {
    callee: ActorRef<Callee>,
    calls: u64,
    end: Option<oneshot::Sender<Outcome>>,
}

impl Caller {
    async fn call(&self, number: u64) -> u64 {
        self.callee.ask(Question(number)).send().await.expect("the callee answers")
    }
}

impl Message<Begin> for Caller {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        let mut measured = 0;
        let mut latencies = Vec::with_capacity(self.calls as usize);
        for number in 0..self.calls {
            let start = Instant::now();
            measured += self.call(number).await;
            latencies.push(start.elapsed().as_nanos() as u64);
        }
        let mut check = 0;
        let start = Instant::now();
        for number in 0..self.calls {
            check += self.call(number).await;
        }
        let elapsed = start.elapsed();
        assert_eq!(measured, check, "both runs get the same answers");
        let end = self.end.take().expect("it begins once");
        let _ = end.send(Outcome { elapsed, operations: self.calls, check, latencies, ..Outcome::default() });
    }
}

pub fn ask(plan: &Plan) -> Outcome {
    run(plan, async {
        let (end, ended) = oneshot::channel();
        let callee = spawn(plan.bound, Callee);
        let caller = spawn(plan.bound, Caller { callee, calls: plan.size, end: Some(end) });
        tell(&caller, Begin).await;
        ended.await.expect("all calls are answered")
    })
}

#[derive(Actor)]
struct Sleeper {
    wakes: u64,
    latencies: Vec<u64>,
    end: Option<oneshot::Sender<Vec<u64>>>,
}

/// The send time of a message.
struct Wake(Instant);

impl Message<Wake> for Sleeper {
    type Reply = ();

    async fn handle(&mut self, Wake(sent): Wake, _: &mut Context<Self, ()>) {
        self.latencies.push(sent.elapsed().as_nanos() as u64);
        if self.latencies.len() as u64 == self.wakes {
            let end = self.end.take().expect("it ends once");
            let _ = end.send(std::mem::take(&mut self.latencies));
        }
    }
}

pub fn wake_latency(plan: &Plan) -> Outcome {
    let latencies = run(plan, async {
        let (end, ended) = oneshot::channel();
        let latencies = Vec::with_capacity(plan.size as usize);
        let sleeper = spawn(plan.bound, Sleeper { wakes: plan.size, latencies, end: Some(end) });
        sleeper.wait_for_startup().await;
        let wakes = plan.size;
        let outside = thread::spawn(move || {
            for _ in 0..wakes {
                thread::sleep(Duration::from_millis(2));
                sleeper.tell(Wake(Instant::now())).try_send().expect("the sleeper has room");
            }
        });
        let latencies = ended.await.expect("all messages are handled");
        outside.join().expect("the thread outside sends all");
        latencies
    });
    Outcome {
        elapsed: Duration::from_nanos(latencies.iter().sum()),
        operations: plan.size,
        check: latencies.len() as u64,
        latencies,
        ..Outcome::default()
    }
}
