//! The latency of a message under other load: probe_idle and the other probes.

use crate::plan::{Outcome, Plan, Workload};
use compare_frame::probe::{Flooder, IN_FLIGHT, Load, Notes, TIMED, drive, timers_each};
use postroom::block_in_place;
use postroom::prelude::*;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A process that records the latencies of its messages.
#[process]
struct Prober {
    notes: Notes,
}

#[process]
impl Prober {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn note(&mut self, sent: Instant) {
        self.notes.note(sent);
    }
}

#[process]
struct Member {
    flooder: Flooder<Address<Member>>,
}

#[process]
impl Member {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn begin(&mut self) {
        for _ in 0..IN_FLIGHT {
            self.flooder.other().hit().send().expect("the other one lives");
        }
    }

    #[message]
    fn hit(&mut self) {
        if let Some(other) = self.flooder.hit() {
            other.hit().send().expect("the other one lives");
        }
    }
}

/// A process that blocks or loops again and again, each time because of a message to itself.
#[process]
struct Hog {
    load: Arc<Load>,
}

#[process]
impl Hog {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn block(&mut self, ctx: &mut Context<Self>) {
        self.load.block();
        if !self.load.is_over() {
            ctx.address().block().send().expect("it lives");
        }
    }

    #[message]
    fn block_told(&mut self, ctx: &mut Context<Self>) {
        block_in_place(|| self.load.block());
        if !self.load.is_over() {
            ctx.address().block_told().send().expect("it lives");
        }
    }

    #[message]
    fn spin(&mut self, ctx: &mut Context<Self>) {
        self.load.spin();
        if !self.load.is_over() {
            ctx.address().spin().send().expect("it lives");
        }
    }
}

/// A process that sets its timers again whenever they have fired.
#[process]
struct Timed {
    load: Arc<Load>,
}

#[process]
impl Timed {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn begin(&mut self, ctx: &mut Context<Self>, timers: u64) {
        for _ in 0..timers {
            self.set(ctx);
        }
    }

    #[message]
    fn fired(&mut self, ctx: &mut Context<Self>) {
        self.load.count();
        if !self.load.is_over() {
            self.set(ctx);
        }
    }

    fn set(&self, ctx: &mut Context<Self>) {
        let delay = self.load.next_round().saturating_duration_since(Instant::now());
        ctx.address().fired().send_after(delay).expect("it lives");
    }
}

pub fn probe(runtime: &Runtime, plan: &Plan) -> Outcome {
    let load = Load::of(plan);
    let (notes, noted) = Notes::of(plan);
    let prober = runtime.spawn(Prober { notes }).serve().expect("a prober");
    start(runtime, plan, &load);
    drive(plan, &load, &noted, |sent| prober.note(sent).send().expect("the prober lives"))
}

fn start(runtime: &Runtime, plan: &Plan, load: &Arc<Load>) {
    match plan.workload {
        Workload::ProbeFlood => {
            let everybody = Arc::new(OnceLock::new());
            let member = |number| Member { flooder: Flooder::of(number, load, &everybody) };
            let members: Vec<_> =
                (0..plan.width).map(|number| runtime.spawn(member(number)).serve().expect("a member")).collect();
            let members = everybody.get_or_init(|| members);
            members.iter().for_each(|member| member.begin().send().expect("a member lives"));
        }
        Workload::ProbeBlocking | Workload::ProbeTold | Workload::ProbeLooping => {
            for _ in 0..plan.workers {
                let hog = runtime.spawn(Hog { load: load.clone() }).serve().expect("a hog");
                match plan.workload {
                    Workload::ProbeBlocking => hog.block().send().expect("a hog lives"),
                    Workload::ProbeTold => hog.block_told().send().expect("a hog lives"),
                    _ => hog.spin().send().expect("a hog lives"),
                }
            }
        }
        Workload::ProbeTimers => {
            for _ in 0..TIMED {
                let timed = runtime.spawn(Timed { load: load.clone() }).serve().expect("a process");
                timed.begin(timers_each(plan)).send().expect("a process lives");
            }
        }
        _ => {}
    }
}
