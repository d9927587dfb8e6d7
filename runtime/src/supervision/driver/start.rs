//! The start of one run of a child.

use super::{super::child::StartedChild, super::status::LastEnd, Id, SupervisorEvent, SupervisorProcess};
use crate::engine::lifecycle::spawn::Noted;
use crate::supervision::elsewhere::no_process;
use crate::supervision::incarnation::{ChildRun, UnguardedChild};
use crate::supervision::registry::ChildRegistry;
use crate::util::panics::{Site, contain};
use crate::{
    ChildSpawn, ExitReason, Pid,
    api::child_spawn::{AnyRegistry, returned_another},
    sync::lock,
};
use std::sync::Arc;

impl SupervisorProcess {
    /// Starts a child, and queues the outcome as an event, unless the start continues on another node.
    pub(super) fn start(&mut self, id: Id) {
        let (Some((_, listener)), Some(member)) = (self.own, self.members.get_mut(&id)) else { return };
        let slot = member.slot.clone();
        let run = ChildRun::new(id, slot.clone(), self.registry.clone(), listener);
        let subtree = lock(&slot.subtree).clone().map(|subtree| subtree as AnyRegistry);
        let noted = Noted::default();
        let spawn = ChildSpawn::guarded(self.host, run.clone(), subtree, self.registry.clone(), noted.clone());
        let started = contain(Site::ChildStart, || (member.start)(spawn));
        if let Some(pid) = run.spawned() {
            // A child that was spawned with a link would take its supervisor down when it fails.
            let _no_link = pid.unlink();
        }
        let started = match started {
            Ok(Ok(begun)) => check(&run, &noted, begun),
            Ok(Err(error)) => Err(ExitReason::error(error)),
            Err(panic) => Err(ExitReason::Panic(panic.into())),
        };
        match started {
            Ok(_) if run.elsewhere().is_some() => self.await_start(id, run),
            Ok(StartedChild { pid, subtree }) => {
                member.pid = Some(pid);
                if run.spawned().is_none() {
                    pid.join_with(Arc::new(UnguardedChild { run, pid }));
                }
                if let Some(registry) = subtree.and_then(|subtree| subtree.downcast::<ChildRegistry>().ok()) {
                    // Dropped when the lock is free: it may be the last reference to the children of the previous
                    // supervisor.
                    let _before = lock(&slot.subtree).replace(registry);
                }
                // Called before the lock is taken, since it takes other locks.
                let info = pid.info();
                let mut status = lock(&slot.status);
                status.node = None;
                if let Some(info) = info {
                    status.process = Some(info.process);
                }
                drop(status);
                self.put_up(id, pid);
                self.happened.push_back(SupervisorEvent::Started(id));
            }
            Err(reason) => {
                // The closure failed after it had spawned the child, or returned another process.
                if let Some(pid) = spawned(&run, &noted) {
                    run.disown();
                    pid.kill();
                }
                self.start_failed(id, reason);
            }
        }
    }

    pub(super) fn start_failed(&mut self, id: Id, reason: ExitReason) {
        if let Some(member) = self.members.get(&id) {
            member.slot.down(&reason);
            member.slot.note_end(None, LastEnd { reason: reason.clone(), handling: None });
        }
        if self.host.scheduler().gate.is_closed() {
            // This is not a failure of the child: nothing can be started any more.
            self.happened.push_back(SupervisorEvent::StopAll(ExitReason::Shutdown));
        }
        self.happened.push_back(SupervisorEvent::StartFailed(id, reason));
    }
}

/// Returns the process that was spawned on this host through the `ChildSpawn`. A pool has no guardian, so only `noted`
/// has its PID.
fn spawned(run: &ChildRun, noted: &Noted) -> Option<Pid> {
    run.spawned().or_else(|| noted.get().copied())
}

/// Checks what the closure returned. If it spawned a process through its `ChildSpawn`, it must return that process.
fn check(run: &ChildRun, noted: &Noted, begun: StartedChild) -> Result<StartedChild, ExitReason> {
    let given = spawned(run, noted).or_else(|| run.elsewhere().map(|_| no_process(run.node())));
    match given {
        Some(spawned) if spawned != begun.pid => {
            let elsewhere = run.elsewhere().map(|start| format!("a process on node `{}`", start.node));
            let spawned = elsewhere.unwrap_or_else(|| spawned.to_string());
            Err(ExitReason::error(returned_another(spawned, begun.pid)))
        }
        _ => Ok(begun),
    }
}
