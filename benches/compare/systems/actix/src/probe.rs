//! The latency of a message under other load: probe_idle and the other probes.
//!
//! The probe is on the system's thread. The processes of the load are spread evenly over all arbiters.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use ::actix::clock::sleep_until;
use ::actix::fut::wrap_future;
use ::actix::prelude::*;
use ::tokio::sync::oneshot;
use ::tokio::task::{spawn_blocking, yield_now};

use compare_frame::probe::{Flooder, IN_FLIGHT, Load, Notes, TIMED, drive, timers_each};

use super::{Begin, Places, in_system};
use crate::plan::{Outcome, Plan, Workload};

struct Prober {
    notes: Notes,
}

impl Actor for Prober {
    type Context = Context<Self>;
}

/// The send time of a message.
#[derive(Message)]
#[rtype(result = "()")]
struct Sent(Instant);

impl Handler<Sent> for Prober {
    type Result = ();

    fn handle(&mut self, Sent(sent): Sent, _: &mut Context<Self>) {
        self.notes.note(sent);
    }
}

struct Member {
    flooder: Flooder<Addr<Member>>,
}

impl Actor for Member {
    type Context = Context<Self>;
}

impl Handler<Begin> for Member {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        for _ in 0..IN_FLIGHT {
            self.flooder.other().do_send(Hit);
        }
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Hit;

impl Handler<Hit> for Member {
    type Result = ();

    fn handle(&mut self, _: Hit, _: &mut Context<Self>) {
        if let Some(other) = self.flooder.hit() {
            other.do_send(Hit);
        }
    }
}

/// An actor that blocks or loops again and again, each time because of a message to itself.
struct Hog {
    load: Arc<Load>,
    step: fn(&Load),
}

impl Actor for Hog {
    type Context = Context<Self>;
}

impl Handler<Begin> for Hog {
    type Result = ();

    fn handle(&mut self, _: Begin, ctx: &mut Context<Self>) {
        (self.step)(&self.load);
        if !self.load.is_over() {
            ctx.address().do_send(Begin);
            // Without this yield, the other actors on this arbiter would starve.
            ctx.wait(wrap_future(yield_now()));
        }
    }
}

/// Like `Hog`, but blocks on Tokio's threads for blocking calls, since no other thread could take over an arbiter
/// during a call.
struct Patient {
    load: Arc<Load>,
}

impl Actor for Patient {
    type Context = Context<Self>;
}

impl Handler<Begin> for Patient {
    type Result = ();

    fn handle(&mut self, _: Begin, ctx: &mut Context<Self>) {
        let load = self.load.clone();
        let step = async move { spawn_blocking(move || load.block()).await.expect("no step panics") };
        let then = wrap_future::<_, Self>(step).map(|(), patient, ctx| {
            if !patient.load.is_over() {
                ctx.address().do_send(Begin);
            }
        });
        ctx.wait(then);
    }
}

struct Timed {
    load: Arc<Load>,
    timers: u64,
}

impl Actor for Timed {
    type Context = Context<Self>;

    /// Starts the timers. Each is a task on this arbiter that sleeps and then sends to the actor. If the timers were
    /// futures in the actor's context, like those of `run_interval`, all of them would be polled whenever one of them
    /// fires.
    fn started(&mut self, ctx: &mut Context<Self>) {
        for _ in 0..self.timers {
            let (timed, load) = (ctx.address(), self.load.clone());
            ::actix::spawn(async move {
                while !load.is_over() {
                    sleep_until(load.next_round().into()).await;
                    timed.do_send(Fired);
                }
            });
        }
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Fired;

impl Handler<Fired> for Timed {
    type Result = ();

    fn handle(&mut self, _: Fired, _: &mut Context<Self>) {
        self.load.count();
    }
}

pub fn probe(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |places| {
        let load = Load::of(plan);
        let (notes, noted) = Notes::of(plan);
        let prober = Prober { notes }.start();
        start(plan, &load, &places);
        let (end, ended) = oneshot::channel();
        let plan = plan.clone();
        let outside = thread::spawn(move || {
            let outcome = drive(&plan, &load, &noted, |sent| prober.do_send(Sent(sent)));
            let _ = end.send(outcome);
        });
        let outcome = ended.await.expect("the thread outside should send all");
        outside.join().expect("the thread outside should end without a panic");
        outcome
    })
}

fn start(plan: &Plan, load: &Arc<Load>, places: &Places) {
    let hog = |place, step: fn(&Load)| places.start(place, Hog { load: load.clone(), step }).do_send(Begin);
    match plan.workload {
        Workload::ProbeFlood => {
            let everybody = Arc::new(OnceLock::new());
            let member = |number| {
                let flooder = Flooder::of(number, load, &everybody);
                places.start(number as usize, Member { flooder })
            };
            let members: Vec<_> = (0..plan.width).map(member).collect();
            everybody.get_or_init(|| members).iter().for_each(|member| member.do_send(Begin));
        }
        Workload::ProbeBlocking => (0..plan.workers).for_each(|place| hog(place, Load::block)),
        Workload::ProbeTold => {
            (0..plan.workers).for_each(|place| places.start(place, Patient { load: load.clone() }).do_send(Begin));
        }
        Workload::ProbeLooping => (0..plan.workers).for_each(|place| hog(place, Load::spin)),
        Workload::ProbeTimers => {
            for number in 0..TIMED {
                places.start(number as usize, Timed { load: load.clone(), timers: timers_each(plan) });
            }
        }
        _ => {}
    }
}
