//! The latency of a message under other load: probe_idle and the other probes.
//!
//! The runtime is always the multi-thread one, since a current-thread one would run on the thread outside.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ::tokio::runtime::{Builder, Runtime};
use ::tokio::sync::mpsc::{self, UnboundedSender};
use ::tokio::{task, time};

use compare_frame::probe::{Flooder, IN_FLIGHT, Load, Notes, TIMED, drive, timers_each};

use crate::plan::{Outcome, Plan, Workload};

pub fn probe(plan: &Plan) -> Outcome {
    let runtime = Builder::new_multi_thread().worker_threads(plan.workers).enable_time().build();
    let runtime = runtime.expect("threads for the runtime");
    let load = Load::of(plan);
    let (mut notes, noted) = Notes::of(plan);
    let (prober, mut inbox) = mpsc::unbounded_channel();
    runtime.spawn(async move {
        while let Some(sent) = inbox.recv().await {
            notes.note(sent);
        }
    });
    match plan.workload {
        Workload::ProbeFlood => flood(&runtime, plan.width, &load),
        Workload::ProbeBlocking => hogs(&runtime, plan.workers, &load, Load::block),
        Workload::ProbeTold => hogs(&runtime, plan.workers, &load, |load| task::block_in_place(|| load.block())),
        Workload::ProbeLooping => hogs(&runtime, plan.workers, &load, Load::spin),
        Workload::ProbeTimers => timers(&runtime, timers_each(plan), &load),
        _ => {}
    }
    drive(plan, &load, &noted, |sent| prober.send(sent).expect("the prober lives"))
}

fn flood(runtime: &Runtime, width: u64, load: &Arc<Load>) {
    let everybody: Arc<OnceLock<Vec<UnboundedSender<()>>>> = Arc::default();
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..width).map(|_| mpsc::unbounded_channel()).unzip();
    everybody.set(senders).expect("nobody else knows it");
    for (number, mut inbox) in inboxes.into_iter().enumerate() {
        let mut flooder = Flooder::of(number as u64, load, &everybody);
        runtime.spawn(async move {
            for _ in 0..IN_FLIGHT {
                let _ = flooder.other().send(());
            }
            while let Some(()) = inbox.recv().await {
                // When the flood is over, the processes end one after the other. So the receiver may be gone.
                let Some(other) = flooder.hit() else { return };
                let _ = other.send(());
            }
        });
    }
}

/// Starts processes that yield after each step. Without the yield, other processes would starve.
fn hogs(runtime: &Runtime, count: usize, load: &Arc<Load>, step: fn(&Load)) {
    for _ in 0..count {
        let load = load.clone();
        runtime.spawn(async move {
            while !load.is_over() {
                step(&load);
                task::yield_now().await;
            }
        });
    }
}

/// Starts the timers. Each is a task that sleeps and then sends a message to its process.
fn timers(runtime: &Runtime, each: u64, load: &Arc<Load>) {
    for _ in 0..TIMED {
        let (timed, mut inbox) = mpsc::unbounded_channel();
        let handler = load.clone();
        runtime.spawn(async move {
            while let Some(()) = inbox.recv().await {
                handler.count();
            }
        });
        for _ in 0..each {
            let (timed, load) = (timed.clone(), load.clone());
            runtime.spawn(async move {
                while !load.is_over() {
                    time::sleep_until(Instant::into(load.next_round())).await;
                    let _ = timed.send(());
                }
            });
        }
    }
}
