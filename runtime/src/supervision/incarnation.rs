//! One run of a child, which reports its end to the supervisor.

use super::{child_slot::ChildSlot, plan::Id};
use crate::mailbox::{node::NodeKind, node_pool};
use crate::process::{control::EndWaiter, guardian::Guardian};
use crate::sync::{AtomicBool, Ordering};
use crate::{ExitReason, Package, Payload, Pid, slots::Slot};
use std::ptr;
use std::sync::{Arc, OnceLock};

/// The tag of ends of children; timers have smaller ones.
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
}

impl ExitListener {
    fn notify(self, ended: ChildEnded) {
        let tag = ptr::without_provenance_mut(ENDED as usize);
        let payload = Some(Payload::new(ended));
        self.slot.post_control(node_pool::empty(), NodeKind::Completed, self.generation, tag, payload);
    }
}

pub(super) struct ChildRun {
    id: Id,
    slot: Arc<ChildSlot>,
    listener: ExitListener,
    spawned: OnceLock<Pid>,
    /// Whether the closure returned another process.
    disowned: AtomicBool,
}

impl ChildRun {
    pub(super) fn new(id: Id, slot: Arc<ChildSlot>, listener: ExitListener) -> Arc<Self> {
        Arc::new(Self { id, slot, listener, spawned: OnceLock::new(), disowned: AtomicBool::new(false) })
    }

    /// Returns the process that was spawned through the `ChildSpawn`.
    pub(super) fn spawned(&self) -> Option<Pid> {
        self.spawned.get().copied()
    }

    /// Marks that process as not being the child.
    pub(super) fn disown(&self) {
        self.disowned.store(true, Ordering::SeqCst);
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
