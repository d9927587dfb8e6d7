//! What every worker, thread and process is doing. Always on; reading it stops nothing, so that numbers that belong
//! together may be some nanoseconds apart.

use super::runtime::Host;
use crate::deadlock::edges::waits_for;
use crate::engine::host::Scheduler;
use crate::engine::permits::holders::At;
use crate::engine::workers::pinned::PinnedThread;
use crate::engine::workers::worker::Worker;
use crate::links::registrations::REGISTRATIONS;
use crate::pid::Pid;
use crate::slots::{Slot, TABLE};
use crate::sync::{Arc, Ordering, lock};
use std::fmt;
use std::panic::Location;
use std::ptr;

/// What a host has done and is doing. Counts grow from the start of the host; sizes are those of now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// Each of its workers.
    pub workers: Vec<WorkerStatistics>,
    /// Each of its threads, those that have ended included: a later thread goes on counting where one has ended.
    pub threads: Vec<ThreadStatistics>,
    /// Processes that came and went.
    pub processes: ProcessStatistics,
    /// Messages that no process handled, by why.
    pub dead_letters: DeadLetterStatistics,
    /// Senders that were suspended at full mailboxes.
    pub backpressure: BackpressureStatistics,
    /// Steps that block, and the threads for them.
    pub blocking: BlockingStatistics,
    /// Steps that took too long.
    pub watchdog: WatchdogStatistics,
    /// Names, groups, topics and labels.
    pub directory: DirectoryStatistics,
    /// What all hosts of the program share.
    pub program: ProgramStatistics,
    /// Processes in the queue that all workers share.
    pub global_queue: usize,
    /// Timers that are pending.
    pub timers: usize,
    /// Completions and signals that came too late for anyone.
    pub late: u64,
}

impl Statistics {
    /// Returns the steps of all threads.
    pub fn steps(&self) -> u64 {
        self.threads.iter().map(|thread| thread.steps).sum()
    }

    /// Returns the messages that all threads have delivered.
    pub fn messages(&self) -> u64 {
        self.threads.iter().map(|thread| thread.messages).sum()
    }
}

/// Processes of a host that came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessStatistics {
    /// Processes that were spawned, those included whose start failed.
    pub spawned: u64,
    /// How many of them have ended.
    pub ended: u64,
    /// How many live: as many as did at one moment while the host was looked at. While so many come and go that no such
    /// moment is found, no more than did.
    pub live: u64,
    /// Pinned processes, those included that come and go.
    pub pinned: usize,
}

/// Messages that no process of a host handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetterStatistics {
    /// Their process had ended.
    pub ended: u64,
    /// Their process had no method for them.
    pub unhandled: u64,
    /// A mailbox had no room for them.
    pub overflow: u64,
    /// They waited in the line of a pool for as long as they may.
    pub expired: u64,
    /// They were of calls that failed as a cycle: see [`CallError::Cycle`](crate::CallError::Cycle).
    pub withdrawn: u64,
}

impl DeadLetterStatistics {
    /// Returns the sum of all.
    pub fn total(&self) -> u64 {
        self.ended + self.unhandled + self.overflow + self.expired + self.withdrawn
    }
}

/// Senders of a host that were suspended at full mailboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackpressureStatistics {
    /// Processes that are suspended now.
    pub suspended: usize,
    /// How often a process was suspended. A high count means that a receiver is a bottleneck.
    pub suspensions: u64,
    /// How often one was resumed because it had waited for too long, and not because there was room.
    pub forced_releases: u64,
}

/// Steps of a host that block, and the threads for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingStatistics {
    /// Threads whose step blocks, and whose worker others have meanwhile; those included that wait for a worker to go
    /// on.
    pub blocked: usize,
    /// Threads in a step that did not end, and whose worker others have.
    pub detached: usize,
    /// Threads without a worker that have nothing to do: the next step that blocks hands its worker to one of them.
    pub spare: usize,
    /// How often a step blocked with its worker, because there were as many threads as there may be.
    pub blocked_in_place: u64,
    /// How often a thread was started beyond that number, because a process waited for another one and no worker was
    /// left.
    pub threads_beyond_limit: u64,
}

/// Steps of a host that took too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchdogStatistics {
    /// How often the thread that looks for long steps has looked. It sleeps while nothing waits.
    pub ticks: u64,
    /// Steps that have run for longer than the [limit](crate::Builder::stall_limit) while others waited.
    pub stalls: u64,
    /// How often the worker of such a step was given to another thread.
    pub taken_over: u64,
    /// Processes that were moved to where others find them because the step that had woken them, and after which they
    /// were to run, did not end.
    pub moved: u64,
}

/// Names, groups, topics and labels of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryStatistics {
    /// Names that processes have.
    pub names: usize,
    /// Names that have an address, by [`Host::named`]; of those that no process has, 1,024 at most.
    pub named_addresses: usize,
    /// Groups that have members or subscribers.
    pub groups: usize,
    /// Their members, each counted once for each of its groups.
    pub members: usize,
    /// Subscribers to the changes of groups, counted in the same way.
    pub watchers: usize,
    /// Topics that have subscribers.
    pub topics: usize,
    /// Their subscribers, each counted once for each of its topics.
    pub subscribers: usize,
    /// What is to end with some process: a name, or a place in a group or topic. (One that is a member of a group and
    /// subscribed to its changes has one place there.)
    pub memberships: usize,
    /// Labels of processes that live.
    pub labels: usize,
}

/// What all hosts of a program share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramStatistics {
    /// Slots of the program's table that are not free: a process is there, or a stand-alone mailbox, or what is left of
    /// one is being cleaned up.
    pub slots: usize,
    /// Slots of the program's table that were ever used: about as many as lived at once, and some hundred for each
    /// thread.
    pub used_slots: usize,
    /// PIDs that are [aliases](Pid::is_alias).
    pub aliases: usize,
    /// Processes that wait for the answer of one other, or for room in its mailbox, and for nothing else.
    pub waits: usize,
}

/// What a worker is doing: the right to run a step, which one thread holds at a time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerStatistics {
    /// The thread that holds it, by its place among the threads.
    pub thread: Option<usize>,
    /// Whether that runs a step.
    pub running: bool,
    /// Processes in its inject queue.
    pub inject_queue: usize,
    /// Processes in the deque of the thread that holds it, the run-next slot included.
    pub queue: usize,
}

/// What a thread has done and is doing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ThreadStatistics {
    /// What it is doing.
    pub state: ThreadState,
    /// The worker it holds.
    pub worker: Option<usize>,
    /// The process whose step it runs.
    pub process: Option<Pid>,
    /// Processes in its deque, the run-next slot included.
    pub queue: usize,
    /// Steps it has run.
    pub steps: u64,
    /// Messages it has delivered.
    pub messages: u64,
    /// Looks into the queues of others that found something.
    pub steals: u64,
    /// Processes that came from the queues of others.
    pub stolen: u64,
    /// Processes that came from the global queue.
    pub from_global: u64,
    /// Processes that came from an inject queue of its own worker.
    pub from_inject: u64,
    /// Times that the far end of a queue came first, so that no process waits there for ever.
    pub fair: u64,
    /// Looks everywhere without a pause before.
    pub polls: u64,
    /// Looks everywhere after a pause.
    pub spins: u64,
    /// Times it went to sleep.
    pub parks: u64,
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadState {
    /// It has ended.
    #[default]
    Ended,
    /// It runs steps, or looks for one to run.
    Running,
    /// It sleeps, with a worker.
    Asleep,
    /// It is in a step that blocks; others have its worker.
    Blocked,
    /// Its step has blocked, and waits for a worker to go on.
    Waiting,
    /// It is in a step that did not end, and others have its worker.
    Detached,
    /// It has nothing to do, and no worker.
    Spare,
    /// It is a pinned process's own, and needs no worker.
    Pinned,
}

/// What is known of a process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Its PID.
    pub pid: Pid,
    /// What it is doing or waiting for.
    pub state: ProcessState,
    /// The name of its type.
    pub process: &'static str,
    /// The entry that it was started at.
    pub entry: &'static str,
    /// The text that it was given.
    pub label: Option<Arc<str>>,
    /// The names that it has, on any host of the program.
    pub names: Vec<Arc<str>>,
    /// The process that spawned it.
    pub parent: Option<Pid>,
    /// Where in the source it was spawned.
    pub place: Option<&'static Location<'static>>,
    /// The worker that ran it last.
    pub worker: Option<usize>,
    /// Steps it has taken.
    pub steps: u64,
    /// Messages it has received.
    pub messages: u64,
    /// Messages that wait in its mailbox. 8,388,607 stands for that many or more; beyond 12 million, which only an
    /// unbounded mailbox comes to, no length can be told.
    pub mailbox: u64,
    /// Whom it waits for, if what one other process does is all that it waits for. (A process that awaits several
    /// things at a time, or has a waker in the hands of others, has none.)
    pub waits_for: Option<WaitsFor>,
}

/// Whom a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitsFor {
    /// The other process.
    pub pid: Pid,
    /// The method that it has called there, as `Type::method`; `None` if it waits for room in the mailbox.
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

/// What a process is doing or waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessState {
    /// In a queue, or being started.
    Ready,
    /// In a step.
    Running,
    /// In a step that blocks its thread, for something else than room in a mailbox.
    Blocking,
    /// Waits for whatever comes.
    Idle,
    /// Suspended at the mailbox of that process, to which it has sent and which is full: between two steps, or within
    /// one that has sent so much that its `send` waits.
    Suspended {
        /// Whose mailbox it is.
        at: Pid,
    },
    /// Waits for completions: of so many yields, or of a future if that is zero.
    Waiting {
        /// Yields that have not been answered.
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
            Self::Suspended { at } => write!(f, "held at the mailbox of {at}"),
            Self::Waiting { outstanding: 0 } => f.write_str("waiting for a future"),
            Self::Waiting { outstanding } => write!(f, "waiting for {outstanding} yields"),
        }
    }
}

impl Host {
    /// What the host has done and is doing. Costs a look at each worker, at each name, group and topic of the
    /// program, and at each slot that it has ever used.
    pub fn statistics(self) -> Statistics {
        let host = self.scheduler();
        let (spawned, closed) = host.gate.survey();
        let census = host.idle.census();
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
                ended: host.dead_ended.get(),
                unhandled: host.dead_unhandled.get(),
                overflow: host.dead_overflow.get(),
                expired: host.dead_expired.get(),
                withdrawn: host.dead_withdrawn.get(),
            },
            backpressure: BackpressureStatistics {
                suspended: host.held(),
                suspensions: host.suspensions.get(),
                forced_releases: host.forced_releases.get(),
            },
            blocking: BlockingStatistics {
                blocked: census.blocked + census.waiting,
                detached: census.detached,
                spare: census.spare,
                blocked_in_place: host.blocked_in_place.get(),
                threads_beyond_limit: host.threads_beyond_limit.get(),
            },
            watchdog: WatchdogStatistics {
                ticks: host.watchdog.ticks.get(),
                stalls: host.watchdog.stalls.get(),
                taken_over: host.watchdog.taken_over.get(),
                moved: host.watchdog.moved.get(),
            },
            directory: DirectoryStatistics {
                names,
                named_addresses,
                groups: groups.rooms,
                members: groups.members,
                watchers: groups.watchers,
                topics: topics.rooms,
                subscribers: topics.members,
                memberships: REGISTRATIONS.count(&directories),
                labels: lock(&host.labels).len(),
            },
            program: ProgramStatistics {
                slots: TABLE.slots().filter(|slot| !slot.lanes.is_vacant()).count(),
                used_slots: TABLE.slots().count(),
                aliases: crate::routing::alias::count(),
                waits: crate::deadlock::edges::count(),
            },
            global_queue: host.global.len(),
            timers: host.timers.len(),
            late: host.home().late.load(Ordering::Relaxed)
                + pinned.iter().map(|pinned_thread| pinned_thread.late()).sum::<u64>(),
        }
    }

    /// What is known of each process of the host. Costs a look at each slot that the program has ever used.
    pub fn processes(self) -> Vec<ProcessInfo> {
        self.scheduler().slots().filter_map(info).collect()
    }
}

fn worker_statistics(host: &'static Scheduler, worker: usize) -> WorkerStatistics {
    let holder = host.idle.holder(worker);
    let thread = holder.and_then(|holder| host.threads.get(holder));
    WorkerStatistics {
        thread: holder,
        running: thread.is_some_and(|thread| thread.running().is_some()),
        inject_queue: host.permits[worker].inject.len(),
        queue: thread.map_or(0, queue),
    }
}

/// Returns how many processes wait in the queues of the thread.
fn queue(thread: &Worker) -> usize {
    thread.stealer.len() + usize::from(thread.has_run_next())
}

fn thread_statistics(at: At, thread: &Worker) -> ThreadStatistics {
    let counters = &thread.counters;
    let (state, worker) = match at {
        At::Free | At::Ending => (ThreadState::Ended, None),
        At::Up(worker) => (ThreadState::Running, Some(worker)),
        At::Asleep(worker) => (ThreadState::Asleep, Some(worker)),
        At::Blocked => (ThreadState::Blocked, None),
        At::Waiting => (ThreadState::Waiting, None),
        At::Detached => (ThreadState::Detached, None),
        At::Starting | At::Spare => (ThreadState::Spare, None),
    };
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

/// That of a pinned process's thread.
fn pinned_statistics(pinned_thread: &PinnedThread) -> ThreadStatistics {
    let state = if pinned_thread.is_in_use() { ThreadState::Pinned } else { ThreadState::Ended };
    ThreadStatistics { state, ..thread_statistics(At::Free, &pinned_thread.thread) }
}

fn pid_of(slot: &'static Slot) -> Option<Pid> {
    let home = slot.home()?;
    Some(home.pid(slot.index(), slot.living()?))
}

/// What is known of the process in `slot`. Read twice around by its PID, so that two processes are never mixed.
fn info(slot: &'static Slot) -> Option<ProcessInfo> {
    let pid = pid_of(slot)?;
    let host = Host::of(pid)?.scheduler();
    let (process, entry) = slot.metadata.names()?;
    let (idle, waits) = slot.lanes.glance();
    let is_it = |running: &'static Slot| ptr::eq(running, slot);
    let mut threads = host.threads_in_use();
    let runs = threads.find(|(_, thread)| thread.running().is_some_and(is_it));
    let blocks = runs.is_some_and(|(number, _)| matches!(host.idle.at(number), At::Blocked | At::Waiting));
    let is_pinned = slot.home().is_some_and(|home| !ptr::eq(home, host.home()));
    let runs = runs.is_some() || is_pinned && host.at_work().any(is_it);
    let held = crate::engine::backpressure::suspend::suspended_at(slot);
    let state = match (held, runs, idle, waits) {
        (Some(at), _, false, _) => ProcessState::Suspended { at },
        _ if blocks => ProcessState::Blocking,
        (_, true, ..) => ProcessState::Running,
        (_, _, true, _) => ProcessState::Idle,
        (_, _, _, true) => ProcessState::Waiting { outstanding: slot.metadata.outstanding.load(Ordering::Relaxed) },
        _ => ProcessState::Ready,
    };
    let worker = usize::from(slot.permit.load(Ordering::Relaxed));
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
    /// What is known of the process: what it does or waits for, where it was spawned, what it has done. `None` if it
    /// does not live in this program.
    pub fn info(self) -> Option<ProcessInfo> {
        let pid = self.resolve()?;
        info(TABLE.living(pid)?).filter(|info| info.pid == pid)
    }
}
