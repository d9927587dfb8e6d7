//! Snapshots of workers, threads and processes. The counters are always on. A snapshot stops no thread, so its
//! figures may be nanoseconds apart.

use super::runtime::Host;
use crate::call::dead_letter::DeadLetterReason;
use crate::engine::{host::Scheduler, permits::holders::At, workers::pinned::PinnedThread, workers::worker::Worker};
use crate::routing::hosts::is_elsewhere;
use crate::slots::{Slot, TABLE};
use crate::sync::{Arc, Ordering, lock};
use crate::{Pid, deadlock::edges::has_edge, deadlock::edges::waits_for, links::registrations::REGISTRATIONS};
use std::{fmt, panic::Location, ptr};

/// A snapshot of a host. Counters count from the start of the host; sizes are current.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// The workers of the host.
    pub workers: Vec<WorkerStatistics>,
    /// The threads of the host, including ended ones: a later thread continues the counters of one that has ended.
    pub threads: Vec<ThreadStatistics>,
    /// Processes spawned and ended.
    pub processes: ProcessStatistics,
    /// Messages that no process handled, by reason.
    pub dead_letters: DeadLetterStatistics,
    /// Senders suspended at full mailboxes.
    pub backpressure: BackpressureStatistics,
    /// Blocking steps and their threads.
    pub blocking: BlockingStatistics,
    /// Steps that ran too long.
    pub watchdog: WatchdogStatistics,
    /// Names, groups, topics and labels.
    pub directory: DirectoryStatistics,
    /// Figures of the whole program.
    pub program: ProgramStatistics,
    /// Processes in the queue that all workers share.
    pub global_queue: usize,
    /// Pending timers.
    pub timers: usize,
    /// Answers, timers and signals that arrived after their process had ended.
    pub late: u64,
}

impl Statistics {
    /// Returns the sum of all threads' steps.
    pub fn steps(&self) -> u64 {
        self.threads.iter().map(|thread| thread.steps).sum()
    }

    /// Returns the sum of the messages that all threads delivered.
    pub fn messages(&self) -> u64 {
        self.threads.iter().map(|thread| thread.messages).sum()
    }
}

/// Numbers of processes of a host: spawned, ended, alive and pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessStatistics {
    /// Processes spawned, including those whose start failed.
    pub spawned: u64,
    /// Processes that have ended.
    pub ended: u64,
    /// Processes that are alive, as of one moment during the snapshot; a lower bound if they come and go too fast for
    /// an exact count.
    pub live: u64,
    /// Pinned processes, including those that are starting or ending.
    pub pinned: usize,
}

/// Numbers of messages that no process of a host handled, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetterStatistics {
    /// Messages whose process had ended.
    pub ended: u64,
    /// Messages for which their process had no method.
    pub unhandled: u64,
    /// Messages that found the mailbox full.
    pub overflow: u64,
    /// Messages that expired in the queue of a pool, or were skipped because their callers had stopped waiting.
    pub expired: u64,
    /// Messages whose calls failed as a cycle: see [`CallError::Cycle`](crate::CallError::Cycle).
    pub withdrawn: u64,
}

impl DeadLetterStatistics {
    /// Returns the sum over all reasons.
    pub fn total(&self) -> u64 {
        self.ended + self.unhandled + self.overflow + self.expired + self.withdrawn
    }
}

/// Numbers of senders of a host that are or were suspended at full mailboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackpressureStatistics {
    /// Processes that are suspended now.
    pub suspended: usize,
    /// Suspensions so far. A high count means that a receiver is a bottleneck.
    pub suspensions: u64,
    /// Resumptions because the longest allowed wait was over, not because there was room.
    pub forced_releases: u64,
}

/// Numbers of blocking steps of a host, and of their threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingStatistics {
    /// Threads whose step blocks while others use its worker, including those that wait for a worker to continue.
    pub blocked: usize,
    /// Threads whose step did not end, and whose worker was therefore given to another thread.
    pub detached: usize,
    /// Idle threads without a worker, ready to take over from a step that blocks.
    pub spare: usize,
    /// How many times a step blocked its worker because the limit of threads was reached.
    pub blocked_in_place: u64,
    /// Threads started beyond the limit, because a process waited for another one and no worker was left.
    pub threads_beyond_limit: u64,
}

/// Figures of a host's watchdog, which detects steps that run too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchdogStatistics {
    /// Samples taken by the watchdog. It takes none while all workers are idle.
    pub ticks: u64,
    /// Steps that exceeded the [limit](crate::Builder::stall_limit) while others waited.
    pub stalls: u64,
    /// How many times the worker of such a step was given to another thread.
    pub taken_over: u64,
    /// Processes that were in a run-next slot behind such a step, and were moved to where other threads find them.
    pub moved: u64,
    /// The maximum number of workers that are awake for the present work. It is the number of all workers, unless many
    /// processes talk to few: then more workers would be slower. The guide's chapter on the scheduler explains how it
    /// is determined.
    pub awake_limit: usize,
}

/// Numbers of names, groups, topics and labels of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryStatistics {
    /// Registered names.
    pub names: usize,
    /// Names with an address from [`Host::named_address`]; of those without a holder, at most 1,024.
    pub named_addresses: usize,
    /// Groups with members or subscribers.
    pub groups: usize,
    /// Members of groups, counted once per group.
    pub members: usize,
    /// Subscribers to changes of groups, counted once per group.
    pub watchers: usize,
    /// Topics with subscribers.
    pub topics: usize,
    /// Subscribers of topics, counted once per topic.
    pub subscribers: usize,
    /// Registrations that end with a process: names, and places in groups and topics. (A member of a group that also
    /// subscribes to its changes counts once.)
    pub memberships: usize,
    /// Labels of live processes.
    pub labels: usize,
}

/// Figures of the whole program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramStatistics {
    /// Slots in use by a process or a stand-alone mailbox, or being cleaned up after one.
    pub slots: usize,
    /// Slots ever used: about as many as were in use at once, plus several hundred per thread.
    pub used_slots: usize,
    /// PIDs that are [aliases](Pid::is_alias).
    pub aliases: usize,
    /// Processes that wait only for the answer from one other process, or only for room in its mailbox.
    pub waits: usize,
}

/// A worker: the permit to run steps, held by one thread at a time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerStatistics {
    /// The thread that holds the worker, as an index into the threads.
    pub thread: Option<usize>,
    /// Whether that thread is in a step.
    pub running: bool,
    /// Processes in the worker's inject queue.
    pub inject_queue: usize,
    /// Processes in the deque of its thread, including the run-next slot.
    pub queue: usize,
}

/// The activity of a thread.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ThreadStatistics {
    /// The current state of the thread.
    pub state: ThreadState,
    /// The worker that the thread holds.
    pub worker: Option<usize>,
    /// The process whose step the thread runs.
    pub process: Option<Pid>,
    /// Processes in the thread's deque, including the run-next slot.
    pub queue: usize,
    /// Steps run.
    pub steps: u64,
    /// Messages delivered.
    pub messages: u64,
    /// Successful steals from the queues of others.
    pub steals: u64,
    /// Processes taken from the queues of others.
    pub stolen: u64,
    /// Processes taken from the global queue.
    pub from_global: u64,
    /// Processes taken from the worker's inject queue.
    pub from_inject: u64,
    /// Number of times that a shared queue was visited first, for fairness.
    pub fair: u64,
    /// Searches of all queues without a preceding pause.
    pub polls: u64,
    /// Searches of all queues after a pause.
    pub spins: u64,
    /// Number of times that the thread parked.
    pub parks: u64,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadState {
    /// Ended.
    #[default]
    Ended,
    /// Running steps, or looking for a process to run.
    Running,
    /// Parked, with a worker.
    Asleep,
    /// In a step that blocks; other threads use its worker.
    Blocked,
    /// In a step that has blocked, waiting for a worker to continue.
    Waiting,
    /// In a step that did not end; other threads use its worker.
    Detached,
    /// Idle, without a worker.
    Spare,
    /// The thread of a pinned process; needs no worker.
    Pinned,
}

/// A snapshot of a process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Its PID.
    pub pid: Pid,
    /// Its current state.
    pub state: ProcessState,
    /// The name of its type.
    pub process: &'static str,
    /// The entry that it was spawned with.
    pub entry: &'static str,
    /// Its label.
    pub label: Option<Arc<str>>,
    /// Its names, on any host of the program.
    pub names: Vec<Arc<str>>,
    /// The process that spawned it.
    pub parent: Option<Pid>,
    /// The source location of the spawn.
    pub place: Option<&'static Location<'static>>,
    /// The worker that ran it last.
    pub worker: Option<usize>,
    /// Steps run.
    pub steps: u64,
    /// Messages received.
    pub messages: u64,
    /// Messages queued in its mailbox. A value of 8,388,607 means that many or more; beyond 12 million, which only an
    /// unbounded mailbox reaches, the length is unknown.
    pub mailbox: u64,
    /// The process that this one waits for, if it waits for nothing else. (`None` if it awaits several things at once,
    /// or if other code holds one of its wakers.)
    pub waits_for: Option<WaitsFor>,
}

/// The process that another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitsFor {
    /// Its PID.
    pub pid: Pid,
    /// The called method, as `Type::method`; `None` for a wait for room in the mailbox.
    pub method: Option<&'static str>,
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, method } = self;
        match method {
            Some(method) => write!(f, "waiting for {pid} in {method}"),
            None => write!(f, "waiting for room in the mailbox of {pid}"),
        }
    }
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessState {
    /// Queued to run, or being started.
    Ready,
    /// In a step.
    Running,
    /// In a step that blocks its thread, other than for room in a mailbox.
    Blocking,
    /// Waiting for input.
    Idle,
    /// Suspended at a full mailbox that it sent to: between two steps, or inside a step whose sends have to wait.
    Suspended {
        /// The owner of the mailbox.
        at: Pid,
    },
    /// Waiting for completions: of `outstanding` yields, or of a future if `outstanding` is zero.
    Waiting {
        /// Yields without an answer so far.
        outstanding: u32,
    },
}

impl fmt::Display for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Running => f.write_str("running"),
            Self::Blocking => f.write_str("blocking its thread"),
            Self::Idle => f.write_str("idle"),
            Self::Suspended { at } => write!(f, "suspended at the mailbox of {at}"),
            Self::Waiting { outstanding: 0 } => f.write_str("waiting for a future"),
            Self::Waiting { outstanding } => write!(f, "waiting for {outstanding} yields"),
        }
    }
}

impl Host {
    /// Takes a snapshot of the host. Visits each worker, name, group and topic of the program, and each slot ever used.
    pub fn statistics(self) -> Statistics {
        // Longer than other functions: it has a line for each figure.
        let host = self.scheduler();
        let (spawned, closed) = host.gate.snapshot();
        let threads = host.idle.with_permits(|permits| permits.counts());
        let pinned = host.pinned_threads.all();
        let (names, named_addresses) = host.names.count();
        let (groups, topics) = (self.groups().counts(), self.topics().counts());
        let directories = [
            ptr::from_ref(&host.names).addr(),
            ptr::from_ref(self.groups()).addr(),
            ptr::from_ref(self.topics()).addr(),
        ];
        Statistics {
            workers: (0..host.permits.len()).map(|worker| worker_statistics(host, worker)).collect(),
            threads: host
                .threads
                .first(usize::MAX)
                .filter(|(number, thread)| thread.has_run() || host.idle.at(*number) != At::Free)
                .map(|(number, thread)| thread_statistics(host.idle.at(number), thread))
                .chain(pinned.iter().map(|pinned_thread| pinned_statistics(pinned_thread)))
                .collect(),
            processes: ProcessStatistics {
                spawned,
                ended: closed,
                live: spawned - closed,
                pinned: host.pinned_threads.count(),
            },
            dead_letters: DeadLetterStatistics {
                ended: host.dead(DeadLetterReason::Ended),
                unhandled: host.dead(DeadLetterReason::Unhandled),
                overflow: host.dead(DeadLetterReason::Overflow),
                expired: host.dead(DeadLetterReason::Expired),
                withdrawn: host.dead(DeadLetterReason::Withdrawn),
            },
            backpressure: BackpressureStatistics {
                suspended: host.suspended(),
                suspensions: host.suspensions.get(),
                forced_releases: host.forced_releases.get(),
            },
            blocking: BlockingStatistics {
                blocked: threads.blocked + threads.waiting,
                detached: threads.detached,
                spare: threads.spare,
                blocked_in_place: host.blocked_in_place.get(),
                threads_beyond_limit: host.threads_beyond_limit.get(),
            },
            watchdog: WatchdogStatistics {
                ticks: host.watchdog.ticks.get(),
                stalls: host.watchdog.stalls.get(),
                taken_over: host.watchdog.taken_over.get(),
                moved: host.watchdog.moved.get(),
                awake_limit: host.idle.awake_limit(),
            },
            directory: DirectoryStatistics {
                names,
                named_addresses,
                groups: groups.groups,
                members: groups.members,
                watchers: groups.watchers,
                topics: topics.groups,
                subscribers: topics.members,
                memberships: REGISTRATIONS.count(&directories),
                labels: lock(&host.labels).len(),
            },
            program: program_statistics(),
            global_queue: host.global.len(),
            timers: host.timers.len(),
            late: host.slot_owner().late.load(Ordering::Relaxed)
                + pinned.iter().map(|pinned_thread| pinned_thread.late()).sum::<u64>(),
        }
    }

    /// Takes a snapshot of each process of the host. Visits each slot that the program has ever used.
    pub fn processes(self) -> Vec<ProcessInfo> {
        self.scheduler().slots().filter_map(info).collect()
    }
}

/// Collects the figures of the whole program. Visits each slot once. If many slots were used, this is most of the cost
/// of a snapshot.
fn program_statistics() -> ProgramStatistics {
    let mut program = ProgramStatistics { aliases: crate::routing::alias::count(), ..ProgramStatistics::default() };
    for slot in TABLE.slots() {
        program.used_slots += 1;
        program.slots += usize::from(!slot.lanes.is_vacant());
        program.waits += usize::from(has_edge(slot.index()));
    }
    program
}

fn worker_statistics(host: &'static Scheduler, worker: usize) -> WorkerStatistics {
    let holder = host.idle.with_permits(|permits| permits.holder(worker));
    let thread = holder.and_then(|holder| host.threads.get(holder));
    WorkerStatistics {
        thread: holder,
        running: thread.is_some_and(|thread| thread.running().is_some()),
        inject_queue: host.permits[worker].inject.len(),
        queue: thread.map_or(0, queue),
    }
}

fn queue(thread: &Worker) -> usize {
    thread.stealer.len() + usize::from(thread.local.has_next())
}

/// Returns the state of a thread, and the worker that it holds.
pub(super) fn state_of(at: At) -> (ThreadState, Option<usize>) {
    match at {
        At::Free | At::Ending => (ThreadState::Ended, None),
        At::Up(worker) => (ThreadState::Running, Some(worker)),
        At::Asleep(worker) => (ThreadState::Asleep, Some(worker)),
        At::Blocked => (ThreadState::Blocked, None),
        At::Waiting => (ThreadState::Waiting, None),
        At::Detached => (ThreadState::Detached, None),
        At::Starting | At::Spare => (ThreadState::Spare, None),
    }
}

fn thread_statistics(at: At, thread: &Worker) -> ThreadStatistics {
    let counters = &thread.counters;
    let (state, worker) = state_of(at);
    ThreadStatistics {
        state,
        worker,
        process: thread.running().and_then(pid_of),
        queue: queue(thread),
        steps: counters.steps.get(),
        messages: counters.messages.get(),
        steals: counters.steals.get(),
        stolen: counters.stolen.get(),
        from_global: counters.from_global.get(),
        from_inject: counters.from_inject.get(),
        fair: counters.fair.get(),
        polls: counters.polls.get(),
        spins: counters.spins.get(),
        parks: counters.parks.get(),
    }
}

fn pinned_statistics(pinned_thread: &PinnedThread) -> ThreadStatistics {
    let state = if pinned_thread.is_in_use() { ThreadState::Pinned } else { ThreadState::Ended };
    ThreadStatistics { state, ..thread_statistics(At::Free, &pinned_thread.thread) }
}

pub(super) fn pid_of(slot: &'static Slot) -> Option<Pid> {
    let owner = slot.owner()?;
    Some(owner.pid(slot.index(), slot.living()?))
}

/// Takes a snapshot of the process in `slot`. Reads the PID before and after, so that two processes are never mixed.
fn info(slot: &'static Slot) -> Option<ProcessInfo> {
    let pid = pid_of(slot)?;
    let host = Host::of(pid)?.scheduler();
    let (process, entry) = slot.metadata.names()?;
    let (idle, waits) = slot.glance();
    let is_it = |running: &'static Slot| ptr::eq(running, slot);
    let mut threads = host.threads_in_use();
    let runs = threads.find(|(_, thread)| thread.running().is_some_and(is_it));
    let blocks = runs.is_some_and(|(number, _)| matches!(host.idle.at(number), At::Blocked | At::Waiting));
    let is_pinned = slot.owner().is_some_and(|owner| !ptr::eq(owner, host.slot_owner()));
    let runs = runs.is_some() || is_pinned && host.at_work().any(is_it);
    let held = crate::engine::backpressure::suspend::suspended_at(slot).and_then(|at| at.pid());
    let state = match (held, runs, idle, waits) {
        (Some(at), _, false, _) => ProcessState::Suspended { at },
        _ if blocks => ProcessState::Blocking,
        (_, true, ..) => ProcessState::Running,
        (_, _, true, _) => ProcessState::Idle,
        (_, _, _, true) => ProcessState::Waiting { outstanding: slot.metadata.outstanding.load(Ordering::Relaxed) },
        _ => ProcessState::Ready,
    };
    let worker = slot.permit.get();
    let (steps, messages) = slot.counted();
    let info = ProcessInfo {
        pid,
        state,
        process,
        entry,
        label: host.label(pid),
        names: REGISTRATIONS.names(pid),
        parent: slot.metadata.parent(pid.node()),
        place: slot.metadata.place(),
        worker: Some(worker).filter(|&worker| worker < host.permits.len() && !is_pinned),
        steps,
        messages,
        mailbox: slot.lanes.depth(),
        waits_for: waits_for(pid).map(|(pid, method)| WaitsFor { pid, method }),
    };
    crate::sync::fence(Ordering::Acquire);
    (pid_of(slot) == Some(pid)).then_some(info)
}

impl Pid {
    /// Takes a snapshot of the process: its state, origin and counters. `None` if it is not alive in this program.
    pub fn info(self) -> Option<ProcessInfo> {
        let pid = self.resolve().filter(|pid| !is_elsewhere(*pid))?;
        info(TABLE.living(pid)?).filter(|info| info.pid == pid)
    }
}
