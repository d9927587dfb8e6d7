//! Workers, threads and counters.

use postroom::inspect::{Statistics, ThreadState, ThreadStatistics};
use postroom::{Host, Pid};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Overview {
    host: &'static str,
    node: String,
    workers: Vec<Worker>,
    threads: Vec<Thread>,
    /// Processes in the queue that all workers share.
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
    /// Its thread, as an index into the threads of the runtime.
    thread: Option<usize>,
    runs: Option<Running>,
    /// Processes in its queues.
    queue: usize,
}

#[derive(Serialize)]
struct Thread {
    state: &'static str,
    worker: Option<usize>,
    runs: Option<Running>,
    steps: u64,
    messages: u64,
    parks: u64,
    stolen: u64,
}

/// The process whose step runs.
#[derive(Clone, Serialize)]
struct Running {
    pid: Pid,
    #[serde(rename = "type")]
    process: Option<&'static str>,
}

fn running(thread: &ThreadStatistics) -> Option<Running> {
    let pid = thread.process?;
    Some(Running { pid, process: pid.info().map(|info| info.process) })
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
        // Of a newer runtime.
        _ => "other",
    }
}

pub(super) fn look(host: Host) -> Overview {
    let statistics = host.statistics();
    let Statistics { threads, workers, processes, dead_letters, backpressure, blocking, watchdog, .. } = &statistics;
    let running: Vec<_> = threads.iter().map(running).collect();
    Overview {
        host: host.name(),
        node: host.node().to_string(),
        workers: workers
            .iter()
            .map(|worker| Worker {
                thread: worker.thread,
                runs: worker.thread.and_then(|thread| running.get(thread)?.clone()),
                queue: worker.inject_queue + worker.queue,
            })
            .collect(),
        threads: threads
            .iter()
            .zip(&running)
            .filter(|(thread, _)| thread.state != ThreadState::Ended)
            .map(|(thread, runs)| Thread {
                state: thread_state(thread.state),
                worker: thread.worker,
                runs: runs.clone(),
                steps: thread.steps,
                messages: thread.messages,
                parks: thread.parks,
                stolen: thread.stolen,
            })
            .collect(),
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
