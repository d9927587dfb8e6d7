//! A call and its reply, and a message to a sleeping system: ask, wake_latency.

use std::thread;
use std::time::{Duration, Instant};

use ::ractor::rpc::CallResult;
use ::ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use ::tokio::sync::oneshot;

use super::{send, start};
use crate::plan::{Outcome, Plan};

pub struct Callee;

pub struct Question {
    number: u64,
    reply: RpcReplyPort<u64>,
}

impl Actor for Callee {
    type Msg = Question;
    type State = ();
    type Arguments = ();

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Question>,
        Question { number, reply }: Question,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        reply.send(number + 1)?;
        Ok(())
    }
}

pub async fn call(callee: &ActorRef<Question>, number: u64) -> u64 {
    match callee.call(|reply| Question { number, reply }, None).await {
        Ok(CallResult::Success(answer)) => answer,
        _ => panic!("the callee should answer"),
    }
}

struct Caller;

/// Requests this number of calls from the caller.
struct Calls {
    size: u64,
    reply: RpcReplyPort<Outcome>,
}

impl Actor for Caller {
    type Msg = Calls;
    type State = ActorRef<Question>;
    type Arguments = ActorRef<Question>;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Calls>,
        Calls { size, reply }: Calls,
        callee: &mut ActorRef<Question>,
    ) -> Result<(), ActorProcessingErr> {
        let mut latencies = Vec::with_capacity(size as usize);
        for number in 0..size {
            let begin = Instant::now();
            call(callee, number).await;
            latencies.push(begin.elapsed().as_nanos() as u64);
        }
        let mut check = 0;
        let begin = Instant::now();
        for number in 0..size {
            check += call(callee, number).await;
        }
        let elapsed = begin.elapsed();
        reply.send(Outcome { elapsed, operations: size, check, latencies, ..Outcome::default() })?;
        Ok(())
    }
}

pub async fn ask(plan: &Plan) -> Outcome {
    let callee = start(Callee, ()).await;
    let caller = start(Caller, callee).await;
    let outcome = caller.call(|reply| Calls { size: plan.size, reply }, None).await;
    outcome.expect("the caller should be alive").expect("the caller should answer")
}

struct Sleeper;

struct SentAt(Instant);

struct SleeperState {
    size: usize,
    latencies: Vec<u64>,
    finish: Option<oneshot::Sender<Vec<u64>>>,
}

impl Actor for Sleeper {
    type Msg = SentAt;
    type State = SleeperState;
    type Arguments = SleeperState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<SentAt>,
        SentAt(time): SentAt,
        state: &mut SleeperState,
    ) -> Result<(), ActorProcessingErr> {
        state.latencies.push(time.elapsed().as_nanos() as u64);
        if state.latencies.len() == state.size {
            let finish = state.finish.take().expect("a sleeper should finish once");
            finish.send(std::mem::take(&mut state.latencies)).expect("somebody should wait for the end");
        }
        Ok(())
    }
}

pub async fn wake_latency(plan: &Plan) -> Outcome {
    let (finish, finished) = oneshot::channel();
    let size = plan.size as usize;
    let sleeper = SleeperState { size, latencies: Vec::with_capacity(size), finish: Some(finish) };
    let sleeper = start(Sleeper, sleeper).await;
    let outside = thread::spawn(move || {
        for _ in 0..size {
            thread::sleep(Duration::from_millis(2));
            send(&sleeper, SentAt(Instant::now()));
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
}
