//! Workers, threads and counters.

use crate::methods::method_of;
use crate::samples::{Profile, Samples};
use postroom::inspect::{RunningStep, Statistics, ThreadState, ThreadStatistics, WorkerStatistics};
use postroom::{Host, Pid};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

#[derive(Serialize)]
pub(super) struct Overview {
    host: &'static str,
    node: String,
    workers: Vec<Worker>,
    threads: Vec<ThreadRow>,
    /// Number of processes in the queue that all workers share.
    global_queue: usize,
    live: u64,
    spawned: u64,
    ended: u64,
    messages: u64,
    steps: u64,
    timers: usize,
    suspended: usize,
    suspensions: u64,
    blocked_threads: usize,
    detached_threads: usize,
    stalls: u64,
    taken_over: u64,
    /// Maximum number of workers that are awake at a time.
    awake_limit: usize,
    dead_letters: DeadLetters,
    names: usize,
    groups: usize,
    topics: usize,
    slots: usize,
    used_slots: usize,
}

#[derive(Serialize)]
struct DeadLetters {
    ended: u64,
    unhandled: u64,
    overflow: u64,
    expired: u64,
    withdrawn: u64,
}

#[derive(Serialize)]
struct Worker {
    /// The thread that has this worker, as an index into the runtime's threads.
    thread: Option<usize>,
    runs: Option<Running>,
    /// Number of processes in the worker's queues.
    queue: usize,
    /// What the worker ran in the last hundred samples, taken every 10 ms, oldest first, as pairs of run length and
    /// type.
    lane: Vec<(usize, Option<&'static str>)>,
}

#[derive(Serialize)]
struct ThreadRow {
    state: &'static str,
    worker: Option<usize>,
    runs: Option<Running>,
    steps: u64,
    messages: u64,
    parks: u64,
    stolen: u64,
}

/// A process whose step is running.
#[derive(Clone, Serialize)]
struct Running {
    pid: Pid,
    #[serde(rename = "type")]
    process: &'static str,
    /// The method that is handling a message.
    method: Option<String>,
    /// How many seconds this step has been running, at a resolution of 10 ms.
    for_seconds: f64,
}

fn running(step: &RunningStep, profile: &Profile, now: Instant) -> Running {
    let since = profile.since(step.thread, step.pid).unwrap_or(now);
    let RunningStep { pid, process, message, .. } = *step;
    let method = message.map(|message| method_of(process, message).into_owned());
    Running { pid, process, method, for_seconds: now.saturating_duration_since(since).as_secs_f64() }
}

pub(crate) fn thread_state(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Ended => "ended",
        ThreadState::Running => "running",
        ThreadState::Asleep => "asleep",
        ThreadState::Blocked => "blocked",
        ThreadState::Waiting => "waiting",
        ThreadState::Detached => "detached",
        ThreadState::Spare => "spare",
        ThreadState::Pinned => "pinned",
        // A state that a newer version of the runtime has added.
        _ => "other",
    }
}

/// Returns the row of a thread that has not ended.
fn thread_row(thread: &ThreadStatistics, runs: Option<&Running>) -> Option<ThreadRow> {
    (thread.state != ThreadState::Ended).then(|| ThreadRow {
        state: thread_state(thread.state),
        worker: thread.worker,
        runs: runs.cloned(),
        steps: thread.steps,
        messages: thread.messages,
        parks: thread.parks,
        stolen: thread.stolen,
    })
}

pub(super) fn look(host: Host, samples: &Samples) -> Overview {
    let statistics = host.statistics();
    let Statistics { threads, workers, processes, dead_letters, backpressure, blocking, watchdog, .. } = &statistics;
    let (steps, now) = (host.running_steps(), Instant::now());
    let profile = samples.look();
    let by_pid: BTreeMap<Pid, Running> = steps.iter().map(|step| (step.pid, running(step, &profile, now))).collect();
    let running: Vec<_> = threads.iter().map(|thread| by_pid.get(&thread.process?).cloned()).collect();
    let mut lanes = profile.lanes().into_iter();
    drop(profile);
    let worker = |worker: &WorkerStatistics| Worker {
        thread: worker.thread,
        runs: worker.thread.and_then(|thread| running.get(thread)?.clone()),
        queue: worker.inject_queue + worker.queue,
        lane: lanes.next().map_or_else(Vec::new, |lane| lane.runs),
    };
    Overview {
        host: host.name(),
        node: host.node().to_string(),
        workers: workers.iter().map(worker).collect(),
        threads: threads.iter().zip(&running).filter_map(|(thread, runs)| thread_row(thread, runs.as_ref())).collect(),
        global_queue: statistics.global_queue,
        live: processes.live,
        spawned: processes.spawned,
        ended: processes.ended,
        messages: statistics.messages(),
        steps: statistics.steps(),
        timers: statistics.timers,
        suspended: backpressure.suspended,
        suspensions: backpressure.suspensions,
        blocked_threads: blocking.blocked,
        detached_threads: blocking.detached,
        stalls: watchdog.stalls,
        taken_over: watchdog.taken_over,
        awake_limit: watchdog.awake_limit,
        dead_letters: DeadLetters {
            ended: dead_letters.ended,
            unhandled: dead_letters.unhandled,
            overflow: dead_letters.overflow,
            expired: dead_letters.expired,
            withdrawn: dead_letters.withdrawn,
        },
        names: statistics.directory.names,
        groups: statistics.directory.groups,
        topics: statistics.directory.topics,
        slots: statistics.program.slots,
        used_slots: statistics.program.used_slots,
    }
}
