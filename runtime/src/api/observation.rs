//! What costs something only while someone looks: what goes wrong, what threads run, how long messages wait.

use super::runtime::Host;
use super::statistics::{ThreadState, pid_of, state_of};
use crate::engine::host::incidents::{AbnormalEnd, IncidentRings, KeptStall, LostMessage, Recent};
use crate::engine::workers::timed::TimedStep;
use crate::engine::workers::worker::Worker;
use crate::mailbox::node::NodeKind;
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use crate::process::wait_probe::{WaitMeasurement, WaitProbe};
use crate::routing::hosts::is_elsewhere;
use crate::slots::{SendPolicy, TABLE};
use crate::sync::Arc;
use std::ptr;

/// Keeps the last abnormal ends, stalls and dead letters of a host, until it is dropped: made by [`Host::incidents`].
///
/// ```
/// use postroom::prelude::*;
///
/// #[process]
/// struct Clerk;
///
/// #[process]
/// impl Clerk {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn fail(&mut self) { panic!("no more paper") }
/// }
///
/// let runtime = Runtime::new()?;
/// let incidents = runtime.incidents(100);
/// let clerk = runtime.spawn(Clerk).serve()?;
/// let _failed = clerk.fail().wait();
/// clerk.pid().join().wait();
/// let ends = incidents.ends();
/// assert_eq!((ends.total, ends.kept[0].process), (1, "Clerk"));
/// assert!(ends.kept[0].reason.contains("no more paper"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is kept any more when it is dropped"]
pub struct Incidents {
    host: Host,
    rings: Arc<IncidentRings>,
}

impl Incidents {
    /// Returns the last ends for another reason than [`Normal`](crate::ExitReason::Normal) or
    /// [`Shutdown`](crate::ExitReason::Shutdown).
    pub fn ends(&self) -> Recent<AbnormalEnd> {
        self.rings.ends()
    }

    /// Returns the last stalls. One that is over replaces the report of its beginning.
    pub fn stalls(&self) -> Recent<KeptStall> {
        self.rings.stalls()
    }

    /// Returns the last dead letters.
    pub fn dead_letters(&self) -> Recent<LostMessage> {
        self.rings.lost()
    }

    /// Returns how many were neither kept nor counted above, because another thread was at their place: a worker does
    /// not wait for that. Above zero under a flood only; the [statistics](Host::statistics) count all dead letters.
    pub fn missed(&self) -> usize {
        self.rings.missed()
    }
}

impl Drop for Incidents {
    fn drop(&mut self) {
        self.host.scheduler().incidents.remove(&self.rings);
    }
}

crate::util::debug::impl_debug!([] Incidents, self => "Incidents" { host: self.host, .. });

/// What a thread runs, at the moment of a look.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunningStep {
    /// The thread, by its number in the host; those of pinned processes follow the others.
    pub thread: usize,
    /// The state of the thread.
    pub state: ThreadState,
    /// The worker that it holds.
    pub worker: Option<usize>,
    /// The process.
    pub pid: Pid,
    /// The name of its type.
    pub process: &'static str,
    /// The type of the last message in this time slice: the one being handled, unless it was stashed. `None` in a step
    /// about something else: an answer, a timer, a signal.
    pub message: Option<&'static str>,
    /// How many steps the thread had run before: the same number in two looks means the same step.
    pub steps: u64,
}

impl Host {
    /// Begins to keep the last `most` abnormal ends, stalls and dead letters each, for one who looks; there can be
    /// several. Hooks are called as without.
    ///
    /// Meanwhile each of these events costs its thread about a microsecond. Nothing is kept for those who do not look.
    pub fn incidents(self, most: usize) -> Incidents {
        let rings = Arc::new(IncidentRings::new(most));
        self.scheduler().incidents.add(rings.clone());
        Incidents { host: self, rings }
    }

    /// Looks at what each thread runs, those of pinned processes included. Costs the threads nothing, and the caller
    /// a microsecond for each thread or less: for a statistical profile, call it often.
    pub fn running_steps(self) -> Vec<RunningStep> {
        let host = self.scheduler();
        let workers = host.threads_in_use().filter_map(|(number, thread)| {
            let (state, worker) = state_of(host.idle.at(number));
            running_step(number, state, worker, thread)
        });
        let first = host.idle.high();
        let pinned = host.pinned_threads.all().into_iter().enumerate().filter_map(|(number, pinned_thread)| {
            running_step(first + number, ThreadState::Pinned, None, &pinned_thread.thread)
        });
        workers.chain(pinned).collect()
    }

    /// Returns how long the handling of some messages took, and asks each thread to time one more: the first of the
    /// next process that it takes up. If several callers do this, each gets a part.
    pub fn time_steps(self) -> Vec<TimedStep> {
        let host = self.scheduler();
        let timed = std::iter::from_fn(|| host.timed.pop()).collect();
        host.threads_in_use().for_each(|(_, thread)| thread.ask_for_time());
        host.pinned_threads.all().into_iter().for_each(|pinned_thread| pinned_thread.thread.ask_for_time());
        timed
    }
}

/// Describes what a thread runs, reading the PID before and after so that two processes are never mixed.
fn running_step(
    thread: usize,
    state: ThreadState,
    worker: Option<usize>,
    record: &'static Worker,
) -> Option<RunningStep> {
    let (slot, steps) = (record.running()?, record.counters.steps.get());
    let pid = pid_of(slot)?;
    let (process, _) = slot.metadata.names()?;
    let message = record.slice.message();
    crate::sync::fence(crate::sync::Ordering::Acquire);
    let is_same = pid_of(slot) == Some(pid) && record.running().is_some_and(|now| ptr::eq(now, slot));
    is_same.then_some(RunningStep { thread, state, worker, pid, process, message, steps })
}

impl Pid {
    /// Puts a note among the messages of this process, which measures how long one that arrives now waits. `None` if
    /// its mailbox is empty (then a message waits for a worker at most), or if it is not alive in this program.
    ///
    /// The process does not see the note. A process that takes its messages selectively comes to it like to any other.
    pub fn measure_wait(self) -> Option<WaitMeasurement> {
        let pid = self.resolve().filter(|pid| !is_elsewhere(*pid))?;
        let slot = TABLE.living(pid).filter(|slot| slot.lanes.depth() > 0)?;
        let (probe, measurement) = WaitProbe::new();
        let payload = Some(Payload::new(probe));
        slot.deliver(pid, NodeKind::Notice, ptr::null_mut(), payload, SendPolicy::Anyway).ok()?;
        Some(measurement)
    }
}
