//! The latency of a message under other load: probe_idle and the other probes.
//!
//! The runtime is always the multi-thread one, since a current-thread one would run on the thread outside.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef};
use ::tokio::runtime::Builder;
use ::tokio::{task, time};

use compare_frame::probe::{Flooder, IN_FLIGHT, Load, Notes, TIMED, drive, timers_each};

use super::{send, start};
use crate::plan::{Outcome, Plan, Workload};

struct Prober;

/// The send time of a message.
struct Sent(Instant);

impl Actor for Prober {
    type Msg = Sent;
    type State = Notes;
    type Arguments = Notes;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Sent>, Sent(sent): Sent, notes: &mut Notes) -> Result<(), ActorProcessingErr> {
        notes.note(sent);
        Ok(())
    }
}

struct Member;

enum Say {
    Begin,
    Hit,
}

impl Actor for Member {
    type Msg = Say;
    type State = Flooder<ActorRef<Say>>;
    type Arguments = Flooder<ActorRef<Say>>;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Say>,
        say: Say,
        flooder: &mut Flooder<ActorRef<Say>>,
    ) -> Result<(), ActorProcessingErr> {
        match say {
            Say::Begin => (0..IN_FLIGHT).for_each(|_| send(flooder.other(), Say::Hit)),
            Say::Hit => flooder.hit().into_iter().for_each(|other| send(other, Say::Hit)),
        }
        Ok(())
    }
}

/// An actor that blocks or loops again and again, each time because of a message to itself.
struct Hog;

struct Again;

impl Actor for Hog {
    type Msg = Again;
    type State = (Arc<Load>, fn(&Load));
    type Arguments = (Arc<Load>, fn(&Load));

    state_from_arguments!();

    async fn handle(
        &self,
        myself: ActorRef<Again>,
        Again: Again,
        (load, step): &mut (Arc<Load>, fn(&Load)),
    ) -> Result<(), ActorProcessingErr> {
        step(load);
        if !load.is_over() {
            send(&myself, Again);
            // Without this yield, the actor might handle its next messages before other actors run.
            task::yield_now().await;
        }
        Ok(())
    }
}

struct Timed;

struct Fired;

impl Actor for Timed {
    type Msg = Fired;
    type State = Arc<Load>;
    type Arguments = Arc<Load>;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Fired>, Fired: Fired, load: &mut Arc<Load>) -> Result<(), ActorProcessingErr> {
        load.count();
        Ok(())
    }
}

pub fn probe(plan: &Plan) -> Outcome {
    let runtime = Builder::new_multi_thread().worker_threads(plan.workers).enable_all().build();
    let runtime = runtime.expect("a runtime should start");
    let load = Load::of(plan);
    let (notes, noted) = Notes::of(plan);
    let prober = runtime.block_on(async {
        let prober = start(Prober, notes).await;
        match plan.workload {
            Workload::ProbeFlood => flood(plan.width, &load).await,
            Workload::ProbeBlocking => hogs(plan.workers, &load, Load::block).await,
            Workload::ProbeTold => hogs(plan.workers, &load, |load| task::block_in_place(|| load.block())).await,
            Workload::ProbeLooping => hogs(plan.workers, &load, Load::spin).await,
            Workload::ProbeTimers => timers(timers_each(plan), &load).await,
            _ => {}
        }
        prober
    });
    drive(plan, &load, &noted, |sent| send(&prober, Sent(sent)))
}

async fn flood(width: u64, load: &Arc<Load>) {
    let everybody = Arc::new(OnceLock::new());
    let mut members = Vec::new();
    for number in 0..width {
        members.push(start(Member, Flooder::of(number, load, &everybody)).await);
    }
    everybody.get_or_init(|| members).iter().for_each(|member| send(member, Say::Begin));
}

async fn hogs(count: usize, load: &Arc<Load>, step: fn(&Load)) {
    let mut hogs = Vec::new();
    for _ in 0..count {
        hogs.push(start(Hog, (load.clone(), step)).await);
    }
    hogs.iter().for_each(|hog| send(hog, Again));
}

/// Starts the timers. Each is a task that sleeps and then sends to its actor, like ractor's own `send_interval`.
async fn timers(each: u64, load: &Arc<Load>) {
    for _ in 0..TIMED {
        let timed = start(Timed, load.clone()).await;
        for _ in 0..each {
            let (timed, load) = (timed.clone(), load.clone());
            task::spawn(async move {
                while !load.is_over() {
                    time::sleep_until(load.next_round().into()).await;
                    send(&timed, Fired);
                }
            });
        }
    }
}
