//! One run of a child, which reports its end to the supervisor.

use super::{child_slot::ChildSlot, plan::Id};
use crate::env::program::as_node;
use crate::process::{control::EndWaiter, guardian::Guardian};
use crate::routing::transport_queue::RoomListener;
use crate::sync::{AtomicBool, Ordering};
use crate::{ExitReason, NodeId, Package, Payload, Pid, slots::Slot};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The tag of ends of children, of what came of starts elsewhere, and of room on the way there; timers have smaller
/// ones.
pub(super) const ENDED: u64 = u64::MAX;

pub(super) struct ChildEnded {
    pub(super) id: Id,
    pub(super) pid: Pid,
    pub(super) reason: ExitReason,
    pub(super) handling: Option<&'static str>,
}

/// The supervisor's process, to which ends of children are reported.
#[derive(Clone, Copy)]
pub(super) struct ExitListener {
    pub(super) slot: &'static Slot,
    pub(super) generation: u64,
    pub(super) node: NodeId,
}

impl ExitListener {
    pub(super) fn notify<M: Send + 'static>(self, happened: M) {
        self.slot.complete(self.generation, ENDED, Payload::new(happened));
    }
}

pub(super) struct ChildRun {
    id: Id,
    slot: Arc<ChildSlot>,
    listener: ExitListener,
    spawned: OnceLock<Pid>,
    /// Whether the closure returned another process.
    disowned: AtomicBool,
    /// Set when the closure has begun to start it on another node.
    elsewhere: OnceLock<Elsewhere>,
}

/// A start on another node.
pub(super) struct Elsewhere {
    /// The name of the node.
    pub(super) node: Arc<str>,
    /// How long the supervisor waits for the answer.
    pub(super) within: Duration,
}

/// There is room again on the way to a child on another node, for which messages wait.
#[derive(Clone, Copy)]
pub(super) struct RoomAbroad {
    pub(super) id: Id,
    pub(super) pid: Pid,
}

/// Waits for that on behalf of the supervisor.
pub(super) struct RoomWait {
    pub(super) listener: ExitListener,
    pub(super) room: RoomAbroad,
}

impl RoomListener for RoomWait {
    fn resume(self: Box<Self>) -> bool {
        let is_wanted = self.is_wanted();
        if is_wanted {
            self.listener.notify(self.room);
        }
        is_wanted
    }

    fn is_wanted(&self) -> bool {
        self.listener.slot.living() == Some(self.listener.generation)
    }

    fn suspension(&self) -> Option<u64> {
        None
    }
}

/// What came of a start on another node. If the supervisor does not take the process, it is killed.
pub(super) struct StartedElsewhere {
    run: Arc<ChildRun>,
    /// `None` when it was taken.
    started: Option<Result<Pid, ExitReason>>,
    /// The supervisor's node.
    node: NodeId,
}

impl StartedElsewhere {
    pub(super) fn run(&self) -> &Arc<ChildRun> {
        &self.run
    }

    pub(super) fn take(mut self) -> Result<Pid, ExitReason> {
        self.started.take().unwrap_or_else(|| unreachable!("it is consumed here"))
    }
}

impl Drop for StartedElsewhere {
    fn drop(&mut self) {
        if let Some(Ok(pid)) = self.started.take() {
            as_node(self.node, || pid.kill());
        }
    }
}

impl ChildRun {
    pub(super) fn new(id: Id, slot: Arc<ChildSlot>, listener: ExitListener) -> Arc<Self> {
        let (spawned, elsewhere, disowned) = (OnceLock::new(), OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { id, slot, listener, spawned, disowned, elsewhere })
    }

    /// Returns the process that was spawned through the `ChildSpawn`.
    pub(super) fn spawned(&self) -> Option<Pid> {
        self.spawned.get().copied()
    }

    /// Marks that process as not being the child.
    pub(super) fn disown(&self) {
        self.disowned.store(true, Ordering::SeqCst);
    }

    pub(super) fn id(&self) -> Id {
        self.id
    }

    /// Returns the supervisor's node.
    pub(super) fn node(&self) -> NodeId {
        self.listener.node
    }

    /// Returns the start on another node that has begun through the `ChildSpawn`.
    pub(super) fn elsewhere(&self) -> Option<&Elsewhere> {
        self.elsewhere.get()
    }

    pub(super) fn begins_elsewhere(&self, start: Elsewhere) {
        let _first = self.elsewhere.set(start);
    }

    /// Reports what came of a start on another node.
    pub(super) fn report_start(self: &Arc<Self>, started: Result<Pid, ExitReason>) {
        let node = self.listener.node;
        self.listener.notify(StartedElsewhere { run: Arc::clone(self), started: Some(started), node });
    }

    /// Reports the end of a child on another node.
    pub(super) fn report_end(&self, pid: Pid, reason: ExitReason, handling: Option<&'static str>) {
        self.listener.notify(ChildEnded { id: self.id, pid, reason, handling });
    }

    fn is_disowned(&self) -> bool {
        self.disowned.load(Ordering::SeqCst)
    }
}

impl Guardian for ChildRun {
    fn started(&self, pid: Pid) {
        let _first = self.spawned.set(pid);
    }

    fn ending(&self) {
        if !self.is_disowned() {
            self.slot.ending();
        }
    }

    fn quiesce(&self) {
        if !self.is_disowned() {
            self.slot.quiesce();
        }
    }

    fn take_unhandled(&self, package: Package) -> Result<(), Package> {
        if self.is_disowned() { Err(package) } else { self.slot.take_unhandled(package) }
    }

    fn ended(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>) {
        self.listener.notify(ChildEnded { id: self.id, pid, reason: reason.clone(), handling });
    }
}

/// Reports the end of a child that was not spawned through its `ChildSpawn`: its unhandled messages are not kept, and
/// its host's shutdown does not wait for the supervisor to stop it.
pub(super) struct UnguardedChild {
    pub(super) id: Id,
    pub(super) pid: Pid,
    pub(super) listener: ExitListener,
}

impl EndWaiter for UnguardedChild {
    fn ended(&self, reason: &ExitReason, _result: Option<Payload>) {
        self.listener.notify(ChildEnded { id: self.id, pid: self.pid, reason: reason.clone(), handling: None });
    }
}
