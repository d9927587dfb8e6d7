//! One run of a child. It reports the end of its process to the supervisor.

use super::{child_slot::ChildSlot, held::EndWaits, plan::Id, plan::Strategy, registry::ChildRegistry};
use crate::env::program::as_node;
use crate::process::{control::EndWaiter, guardian::Guardian};
use crate::routing::transport_queue::RoomListener;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::{ExitReason, NodeId, Package, Payload, Pid, slots::Slot};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The tag of notifications about children: their exits, the outcomes of starts on other nodes, and new room on the way
/// to other nodes. Timers have smaller tags.
pub(super) const ENDED: u64 = u64::MAX;

pub(super) struct ChildEnded {
    pub(super) id: Id,
    pub(super) pid: Pid,
    pub(super) reason: ExitReason,
    pub(super) settled: Settled,
}

/// The party that updates the published state of the child after an end.
pub(super) enum Settled {
    /// The guardian. It has done so already, and may have removed the child.
    Done { is_removed: bool },
    /// The supervisor. It alone knows whether the process is the child. The second field is the type of the message
    /// that the process was handling, if known.
    Left(Arc<ChildRun>, Option<&'static str>),
}

/// The supervisor's process, as the receiver of reports about the ends of children.
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
    registry: Arc<ChildRegistry>,
    listener: ExitListener,
    /// Consequences of the child's end, stored between the calls of the guardian's `settle` and `ended`.
    settled: Mutex<Option<SettledEnd>>,
    spawned: OnceLock<Pid>,
    /// Whether the spawned process is not the child, because the closure failed or returned another process.
    disowned: AtomicBool,
    /// Set when the closure has begun to start the child on another node.
    elsewhere: OnceLock<Elsewhere>,
}

/// A start on another node.
pub(super) struct Elsewhere {
    /// The name of the node.
    pub(super) node: Arc<str>,
    /// How long the supervisor waits for the answer.
    pub(super) within: Duration,
}

/// Notification that there is room again on the way to a child on another node. Messages for the child wait for that
/// room.
#[derive(Clone, Copy)]
pub(super) struct RoomAbroad {
    pub(super) id: Id,
    pub(super) pid: Pid,
}

/// Listener that waits for this room on behalf of the supervisor.
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

/// The outcome of a start on another node. If the supervisor does not take the process, the process is killed.
pub(super) struct StartedElsewhere {
    run: Arc<ChildRun>,
    /// `None` after it was taken.
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

/// Consequences of the end of a process.
struct SettledEnd {
    waits: EndWaits,
    is_removed: bool,
}

impl ChildRun {
    pub(super) fn new(id: Id, slot: Arc<ChildSlot>, registry: Arc<ChildRegistry>, listener: ExitListener) -> Arc<Self> {
        let (spawned, elsewhere, disowned) = (OnceLock::new(), OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { id, slot, registry, listener, settled: Mutex::new(None), spawned, disowned, elsewhere })
    }

    /// Updates everything that is visible of the child, before anyone is notified of the end. A dynamic child that will
    /// not be restarted is removed.
    fn settle_end(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>) -> SettledEnd {
        let waits = self.slot.settle(pid, reason, handling);
        let restart = lock(&self.slot.status).restart;
        let is_over = restart.is_over(*lock(&self.slot.after), reason);
        let is_removed = is_over && self.registry.strategy() == Strategy::Dynamic;
        if is_removed {
            // Notified after the removal, when the name is free.
            let late = self.slot.shut(reason);
            self.registry.remove(&self.slot);
            late.tell(reason);
        }
        SettledEnd { waits, is_removed }
    }

    /// Updates the child, and notifies those that waited at its address for the end of the process. Returns whether the
    /// child was removed.
    pub(super) fn settle_and_tell(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>) -> bool {
        let SettledEnd { waits, is_removed } = self.settle_end(pid, reason, handling);
        waits.tell(reason);
        is_removed
    }

    fn notify_ended(&self, pid: Pid, reason: &ExitReason, settled: Settled) {
        self.listener.notify(ChildEnded { id: self.id, pid, reason: reason.clone(), settled });
    }

    /// Returns the process that was spawned through the `ChildSpawn`.
    pub(super) fn spawned(&self) -> Option<Pid> {
        self.spawned.get().copied()
    }

    /// Marks the spawned process as not being the child.
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

    /// Returns the start on another node that was begun through the `ChildSpawn`, if there is one.
    pub(super) fn elsewhere(&self) -> Option<&Elsewhere> {
        self.elsewhere.get()
    }

    pub(super) fn begins_elsewhere(&self, start: Elsewhere) {
        let _first = self.elsewhere.set(start);
    }

    /// Reports the outcome of a start on another node.
    pub(super) fn report_start(self: &Arc<Self>, started: Result<Pid, ExitReason>) {
        let node = self.listener.node;
        self.listener.notify(StartedElsewhere { run: Arc::clone(self), started: Some(started), node });
    }

    /// Reports the end of a process without a guardian, such as one on another node. It counts as the child's end only
    /// if the supervisor has taken the process: if its start was answered too late, the child may have another process.
    pub(super) fn report_end(self: &Arc<Self>, pid: Pid, reason: &ExitReason, handling: Option<&'static str>) {
        self.notify_ended(pid, reason, Settled::Left(Arc::clone(self), handling));
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
        if !self.is_disowned()
            && let Some(pid) = self.spawned()
        {
            self.slot.ending(pid);
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

    fn settle(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>) {
        if !self.is_disowned() {
            let settled = self.settle_end(pid, reason, handling);
            *lock(&self.settled) = Some(settled);
        }
    }

    fn ended(&self, pid: Pid, reason: &ExitReason, _handling: Option<&'static str>) {
        let settled = lock(&self.settled).take();
        let SettledEnd { waits, is_removed } =
            settled.unwrap_or_else(|| SettledEnd { waits: EndWaits::default(), is_removed: false });
        waits.tell(reason);
        self.notify_ended(pid, reason, Settled::Done { is_removed });
    }
}

/// Reports the end of a child that was not spawned through its `ChildSpawn`. Its unhandled messages are not kept, and
/// its host's shutdown does not wait for the supervisor to stop it.
pub(super) struct UnguardedChild {
    pub(super) run: Arc<ChildRun>,
    pub(super) pid: Pid,
}

impl EndWaiter for UnguardedChild {
    fn ended(&self, reason: &ExitReason, _result: Option<Payload>) {
        self.run.report_end(self.pid, reason, None);
    }
}
