//! The latency of a message under other load: probe_idle and the other probes.
//!
//! The runtime is always the multi-thread one, since a current-thread one would run on the thread outside.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ::kameo::prelude::*;
use ::tokio::runtime::Builder;
use ::tokio::{task, time};

use compare_frame::probe::{Flooder, IN_FLIGHT, Load, Notes, TIMED, drive, timers_each};

use super::stage::{Begin, spawn};
use crate::plan::{Outcome, Plan, Workload};

#[derive(Actor)]
struct Prober {
    notes: Notes,
}

/// The send time of a message.
struct Sent(Instant);

impl Message<Sent> for Prober {
    type Reply = ();

    async fn handle(&mut self, Sent(sent): Sent, _: &mut Context<Self, ()>) {
        self.notes.note(sent);
    }
}

#[derive(Actor)]
struct Member {
    flooder: Flooder<ActorRef<Member>>,
}

impl Message<Begin> for Member {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        for _ in 0..IN_FLIGHT {
            self.flooder.other().tell(Hit).try_send().expect("a mailbox without a bound");
        }
    }
}

struct Hit;

impl Message<Hit> for Member {
    type Reply = ();

    async fn handle(&mut self, Hit: Hit, _: &mut Context<Self, ()>) {
        if let Some(other) = self.flooder.hit() {
            other.tell(Hit).try_send().expect("a mailbox without a bound");
        }
    }
}

/// An actor that blocks or loops again and again, each time because of a message to itself.
#[derive(Actor)]
struct Hog {
    load: Arc<Load>,
    step: fn(&Load),
}

impl Message<Begin> for Hog {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, ctx: &mut Context<Self, ()>) {
        (self.step)(&self.load);
        if !self.load.is_over() {
            ctx.actor_ref().tell(Begin).try_send().expect("a mailbox without a bound");
            // Without this yield, the actor would handle more than a hundred of its next messages before other actors
            // run.
            task::yield_now().await;
        }
    }
}

#[derive(Actor)]
struct Timed {
    load: Arc<Load>,
}

struct Fired;

impl Message<Fired> for Timed {
    type Reply = ();

    async fn handle(&mut self, Fired: Fired, _: &mut Context<Self, ()>) {
        self.load.count();
    }
}

pub fn probe(plan: &Plan) -> Outcome {
    let runtime = Builder::new_multi_thread().worker_threads(plan.workers).enable_time().build();
    let runtime = runtime.expect("the runtime starts");
    let _inside = runtime.enter();
    let load = Load::of(plan);
    let (notes, noted) = Notes::of(plan);
    let prober = spawn(None, Prober { notes });
    match plan.workload {
        Workload::ProbeFlood => flood(plan.width, &load),
        Workload::ProbeBlocking => hogs(plan.workers, &load, Load::block),
        Workload::ProbeTold => hogs(plan.workers, &load, |load| task::block_in_place(|| load.block())),
        Workload::ProbeLooping => hogs(plan.workers, &load, Load::spin),
        Workload::ProbeTimers => timers(timers_each(plan), &load),
        _ => {}
    }
    drive(plan, &load, &noted, |sent| prober.tell(Sent(sent)).try_send().expect("a mailbox without a bound"))
}

fn flood(width: u64, load: &Arc<Load>) {
    let everybody = Arc::new(OnceLock::new());
    let member = |number| spawn(None, Member { flooder: Flooder::of(number, load, &everybody) });
    let members: Vec<_> = (0..width).map(member).collect();
    for member in everybody.get_or_init(|| members) {
        member.tell(Begin).try_send().expect("a mailbox without a bound");
    }
}

fn hogs(count: usize, load: &Arc<Load>, step: fn(&Load)) {
    for _ in 0..count {
        spawn(None, Hog { load: load.clone(), step }).tell(Begin).try_send().expect("a mailbox without a bound");
    }
}

/// Starts the timers. Each is a task that sleeps and then tells its actor, since kameo itself has no timers.
fn timers(each: u64, load: &Arc<Load>) {
    for _ in 0..TIMED {
        let timed = spawn(None, Timed { load: load.clone() });
        for _ in 0..each {
            let (timed, load) = (timed.clone(), load.clone());
            task::spawn(async move {
                while !load.is_over() {
                    time::sleep_until(load.next_round().into()).await;
                    timed.tell(Fired).try_send().expect("a mailbox without a bound");
                }
            });
        }
    }
}
