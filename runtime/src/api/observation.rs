//! Observations that cost something only while they are made: incidents, running steps, and the waiting time of
//! messages.

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

/// Keeps the most recent abnormal ends, stalls and dead letters of a host, until it is dropped. Created by
/// [`Host::incidents`].
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
    /// Returns the most recent ends for reasons other than [`Normal`](crate::ExitReason::Normal) and
    /// [`Shutdown`](crate::ExitReason::Shutdown).
    pub fn ends(&self) -> Recent<AbnormalEnd> {
        self.rings.ends()
    }

    /// Returns the most recent stalls. The report of a stall's end replaces that of its beginning.
    pub fn stalls(&self) -> Recent<KeptStall> {
        self.rings.stalls()
    }

    /// Returns the most recent dead letters.
    pub fn dead_letters(&self) -> Recent<LostMessage> {
        self.rings.lost()
    }

    /// Returns the number of incidents that the other methods neither return nor count, because another thread was
    /// writing to the same place. (A worker does not wait for such a thread.) This happens only during a flood of
    /// incidents; the [statistics](Host::statistics) count all dead letters.
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

/// The step that a thread ran at the moment of the observation.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunningStep {
    /// The number of the thread in the host. The threads of pinned processes are numbered after the others.
    pub thread: usize,
    /// The state of the thread.
    pub state: ThreadState,
    /// The worker that the thread holds.
    pub worker: Option<usize>,
    /// The process.
    pub pid: Pid,
    /// The name of its type.
    pub process: &'static str,
    /// The type of the last message in this time slice: the one being handled, unless it was stashed. `None` in a
    /// step with other input: an answer, a timer, a signal.
    pub message: Option<&'static str>,
    /// The number of steps that the thread had run before. Two observations of a thread with the same number show the
    /// same step.
    pub steps: u64,
}

impl Host {
    /// Begins to keep the most recent `most` abnormal ends, and as many stalls and dead letters, until the result is
    /// dropped. Several observers can do so at once. Hooks are called as usual.
    ///
    /// While there is an observer, each of these events costs its thread about a microsecond. Otherwise nothing is
    /// kept.
    pub fn incidents(self, most: usize) -> Incidents {
        let rings = Arc::new(IncidentRings::new(most));
        self.scheduler().incidents.add(rings.clone());
        Incidents { host: self, rings }
    }

    /// Samples the step that each thread runs, including threads of pinned processes. Costs the threads nothing, and
    /// the caller at most a microsecond for each thread: for a statistical profile, call it often.
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

    /// Returns how long the handling of some messages took, and asks each thread to time one more: the first message of
    /// the next process that it runs. A thread that goes to sleep before that forgets the request. If there are several
    /// callers, each gets a part of the measurements.
    pub fn time_steps(self) -> Vec<TimedStep> {
        let host = self.scheduler();
        let timed = std::iter::from_fn(|| host.timed.pop()).collect();
        host.threads_in_use().for_each(|(_, thread)| thread.ask_for_time());
        host.pinned_threads.all().into_iter().for_each(|pinned_thread| pinned_thread.thread.ask_for_time());
        timed
    }
}

/// Describes what a thread runs. Reads the PID before and after, so that two processes are never mixed.
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
    /// Queues a probe among the messages of this process, to measure how long a message that arrives now waits.
    /// Returns `None` if the mailbox is empty (a message then waits only for a worker), or if the process is not
    /// alive in this program.
    ///
    /// The process does not see the probe. A process that receives selectively reaches it as it would any other
    /// message.
    pub fn measure_wait(self) -> Option<WaitMeasurement> {
        let pid = self.resolve().filter(|pid| !is_elsewhere(*pid))?;
        let slot = TABLE.living(pid).filter(|slot| slot.lanes.depth() > 0)?;
        let (probe, measurement) = WaitProbe::new();
        let payload = Some(Payload::new(probe));
        slot.deliver(pid, NodeKind::Notice, None, payload, SendPolicy::Anyway).ok()?;
        Some(measurement)
    }
}
