//! A call and its reply, and a message to a sleeping system: ask, wake_latency.

use std::thread;
use std::time::{Duration, Instant};

use ::actix::prelude::*;
use ::tokio::sync::oneshot;

use super::in_system;
use crate::plan::{Outcome, Plan};

pub struct Callee;

impl Actor for Callee {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "u64")]
pub struct Question(u64);

impl Handler<Question> for Callee {
    type Result = u64;

    fn handle(&mut self, Question(number): Question, _: &mut Context<Self>) -> u64 {
        number + 1
    }
}

struct Caller {
    callee: Addr<Callee>,
}

impl Actor for Caller {
    type Context = Context<Self>;
}

pub async fn call(callee: &Addr<Callee>, number: u64) -> u64 {
    callee.send(Question(number)).await.expect("the callee should answer")
}

/// Requests this number of calls from the caller.
#[derive(Message)]
#[rtype(result = "Outcome")]
struct Calls(u64);

impl Handler<Calls> for Caller {
    type Result = ResponseFuture<Outcome>;

    fn handle(&mut self, Calls(size): Calls, _: &mut Context<Self>) -> Self::Result {
        let callee = self.callee.clone();
        Box::pin(async move {
            let mut latencies = Vec::with_capacity(size as usize);
            for number in 0..size {
                let start = Instant::now();
                call(&callee, number).await;
                latencies.push(start.elapsed().as_nanos() as u64);
            }
            let mut check = 0;
            let start = Instant::now();
            for number in 0..size {
                check += call(&callee, number).await;
            }
            let elapsed = start.elapsed();
            Outcome { elapsed, operations: size, check, latencies, ..Outcome::default() }
        })
    }
}

/// Runs both actors on one arbiter, where a call wakes no thread.
pub fn ask(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let callee = Callee.start();
        let caller = Caller { callee }.start();
        caller.send(Calls(plan.size)).await.expect("the caller should answer")
    })
}

struct Sleeper {
    size: usize,
    latencies: Vec<u64>,
    finish: Option<oneshot::Sender<Vec<u64>>>,
}

impl Actor for Sleeper {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct SentAt(Instant);

impl Handler<SentAt> for Sleeper {
    type Result = ();

    fn handle(&mut self, SentAt(time): SentAt, _: &mut Context<Self>) {
        self.latencies.push(time.elapsed().as_nanos() as u64);
        if self.latencies.len() == self.size {
            let finish = self.finish.take().expect("a sleeper should finish once");
            finish.send(std::mem::take(&mut self.latencies)).expect("somebody should wait for the end");
        }
    }
}

pub fn wake_latency(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = oneshot::channel();
        let size = plan.size as usize;
        let sleeper = Sleeper { size, latencies: Vec::with_capacity(size), finish: Some(finish) }.start();
        let outside = thread::spawn(move || {
            for _ in 0..size {
                thread::sleep(Duration::from_millis(2));
                sleeper.do_send(SentAt(Instant::now()));
            }
        });
        let latencies = finished.await.expect("the sleeper should handle all");
        outside.join().expect("the thread outside should end without a panic");
        Outcome {
            elapsed: Duration::from_nanos(latencies.iter().sum()),
            operations: plan.size,
            check: latencies.len() as u64,
            latencies,
            ..Outcome::default()
        }
    })
}
