//! Children on other nodes: where they start, and how their supervisor learns of their ends.
//!
//! A start on another node takes time, and its answer may be lost. So the supervisor does not wait for the answer in
//! its step:
//!
//! 1. the child's closure asks the [`Placement`] for a node and passes the request on, with a [`StartReport`];
//! 2. the supervisor's plan keeps the child in its phase *starting* until the report arrives or the time limit passes;
//! 3. a report is a message to the supervisor, and owns the process: a report that arrives after the time limit or the
//!    end of the supervisor is dropped, and then kills the process, so no process is left without a supervisor;
//! 4. once the start is reported, an [`EndReport`] takes the place of the start report, and reports the end. If the
//!    session in which the process was started ends first, the end report is dropped with it, and then reports
//!    [`ExitReason::NodeLost`].

use super::errors::ChildError;
use super::incarnation::{ChildRun, Elsewhere};
use crate::actor::definition::Actor;
use crate::api::child_spawn::Spawned;
use crate::env::program::HOSTLESS;
use crate::registry::types::StartTies;
use crate::sync::Arc;
use crate::{ChildSpawn, ExitReason, NodeId, Payloads, Pid};
use std::{error::Error, fmt, marker::PhantomData, time::Duration};

/// How long a supervisor waits for the answer to a start on another node by default. A guess: longer than it takes to
/// notice that a node is lost, which is what usually ends such a wait.
const START_WITHIN: Duration = Duration::from_secs(30);

/// A place where children of a supervisor can be started, other than its own host: one node of a cluster, or any node.
/// The argument of [`ChildSpawn::on`]; implemented by libraries that connect nodes.
pub trait Placement {
    /// Chooses where a process of type `process` starts. Called in a step of the supervisor, for each start.
    ///
    /// # Errors
    /// Returns the reason why there is no such place; the start fails with it.
    fn choose(&self, process: &'static str) -> Result<Place, Box<dyn Error + Send + Sync>>;
}

/// The place where a child starts, chosen by a [`Placement`].
#[non_exhaustive]
pub enum Place {
    /// On the supervisor's own host, where the type must be [registered](crate::Host::register_type).
    Here,
    /// On another node.
    Elsewhere {
        /// The name of the node, as shown in trees.
        node: Arc<str>,
        /// Passes the request on, and returns at once. The answer goes to the request's report.
        start: Box<dyn FnOnce(ChildStart)>,
    },
}

impl Place {
    /// Returns a place on another node. `start` passes the request on.
    pub fn elsewhere(node: impl Into<Arc<str>>, start: impl FnOnce(ChildStart) + 'static) -> Self {
        Self::Elsewhere { node: node.into(), start: Box::new(start) }
    }
}

/// A request to start a child on another node.
#[derive(Debug)]
pub struct ChildStart {
    process: &'static str,
    entry: String,
    inputs: Payloads,
    report: StartReport,
}

impl ChildStart {
    /// Splits the request into the name of the type, the name of the entry, its inputs, and the report for the answer.
    pub fn take_apart(self) -> (&'static str, String, Payloads, StartReport) {
        (self.process, self.entry, self.inputs, self.report)
    }
}

/// Reports the outcome of a start on another node to the supervisor. If dropped, it reports that the start has failed.
#[must_use = "dropping it fails the start"]
pub struct StartReport(Option<Arc<ChildRun>>);

impl StartReport {
    /// Reports that the process was started. The process is killed if the supervisor has given up waiting for it, or
    /// has ended.
    pub fn started(mut self, pid: Pid) -> EndReport {
        if let Some(run) = &self.0 {
            run.report_start(Ok(pid));
        }
        EndReport { run: self.0.take(), pid }
    }

    /// Reports that the process was not started.
    pub fn failed(mut self, error: impl Into<Box<dyn Error + Send + Sync>>) {
        if let Some(run) = self.0.take() {
            run.report_start(Err(ExitReason::error(error)));
        }
    }
}

impl Drop for StartReport {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run.report_start(Err(ExitReason::NodeLost));
        }
    }
}

/// Reports the end of a child on another node to its supervisor. If dropped, it reports that the node is lost.
#[must_use = "dropping it tells that the node is lost"]
pub struct EndReport {
    run: Option<Arc<ChildRun>>,
    pid: Pid,
}

impl EndReport {
    /// Reports that the process has ended.
    pub fn ended(self, reason: ExitReason) {
        self.ended_while(reason, None);
    }

    /// Reports that the process has ended while handling a message of this type. Trees and logs show the type.
    pub fn ended_while(mut self, reason: ExitReason, handling: Option<&'static str>) {
        if let Some(run) = self.run.take() {
            run.report_end(self.pid, &reason, handling);
        }
    }
}

impl Drop for EndReport {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            run.report_end(self.pid, &ExitReason::NodeLost, None);
        }
    }
}

/// A child that is about to be started on another node. Created by [`ChildSpawn::on`].
#[must_use = "nothing is started until `.start(…)`"]
pub struct SpawnElsewhere<'a> {
    spawn: ChildSpawn,
    place: &'a dyn Placement,
    within: Duration,
}

impl ChildSpawn {
    /// Starts the child on another node. Given a cluster's `RemoteNode`, the child starts on that node; given the
    /// `Cluster` itself, it starts on any node that exports its type, chosen anew for each restart.
    ///
    /// The supervisor treats the child like one on its own node. The loss of the child's node is a failure with
    /// [`ExitReason::NodeLost`], and a start that is impossible counts as a failed start. The process ends when its
    /// supervisor does; when the session between the two nodes ends, the process is killed, whatever signals it traps.
    /// Its unhandled messages are not passed to its successor. Messages that are sent while it is down are, if they are
    /// [kept](super::Child::keep_messages).
    pub fn on(self, place: &impl Placement) -> SpawnElsewhere<'_> {
        SpawnElsewhere { spawn: self, place, within: START_WITHIN }
    }
}

impl SpawnElsewhere<'_> {
    /// Sets how long the supervisor waits for the answer; 30 seconds by default. After that, the start has failed, and
    /// if the process was started nevertheless, it is killed.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// Begins to start a `P` at this entry, with inputs as for [`Host::start`](crate::Host::start).
    ///
    /// # Errors
    /// Returns an error if there is no place for the process, and [`ChildError::Unsupervised`] if this is not the child
    /// of a supervisor. Later failures are reported to the supervisor.
    pub fn start<P: Actor>(
        self,
        entry: &str,
        inputs: Payloads,
    ) -> Result<StartingChild<P>, Box<dyn Error + Send + Sync>> {
        let run = self.spawn.run().and_then(|run| run.downcast::<ChildRun>().ok()).ok_or(ChildError::Unsupervised)?;
        let starting = |pid| StartingChild { pid, process: PhantomData };
        let host = self.spawn.host();
        match self.place.choose(P::NAME)? {
            Place::Here => {
                let ties = StartTies { guardian: Some(run), ending: None };
                Ok(starting(host.start_tied(P::NAME, entry, inputs, ties)?))
            }
            Place::Elsewhere { node, start } => {
                run.begins_elsewhere(Elsewhere { node, within: self.within });
                let (process, entry, report) = (P::NAME, entry.to_owned(), StartReport(Some(run)));
                start(ChildStart { process, entry, inputs, report });
                Ok(starting(no_process(host.node())))
            }
        }
    }
}

/// Returns a placeholder for a process that is being started: a PID that no process ever has.
pub(super) fn no_process(node: NodeId) -> Pid {
    Pid::of_alias(node, HOSTLESS, 0, 0)
}

/// A child whose start on another node has begun. The child's closure must return it.
#[must_use = "return it from the child's closure"]
pub struct StartingChild<P> {
    pid: Pid,
    process: PhantomData<fn() -> P>,
}

impl<P: Actor> Spawned for StartingChild<P> {
    type Process = P;

    /// Returns a PID that no process has, since only the supervisor learns the PID of the child. If the child was
    /// started on the supervisor's host, returns the PID of the child.
    fn pid(&self) -> Pid {
        self.pid
    }
}

crate::util::debug::impl_debug!([] StartReport, self => "StartReport");
crate::util::debug::impl_debug!([] EndReport, self => "EndReport{}", self.pid);
crate::util::debug::impl_debug!([] SpawnElsewhere<'_>, self => "SpawnElsewhere" { within: self.within, .. });
crate::util::debug::impl_debug!([P] StartingChild<P>, self => "StartingChild<{}>", std::any::type_name::<P>());

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("Here"),
            Self::Elsewhere { node, .. } => f.debug_struct("Elsewhere").field("node", node).finish_non_exhaustive(),
        }
    }
}
