//! Starts on other nodes, from the supervisor's side: see `elsewhere`.

use super::{Id, SupervisorEvent, SupervisorProcess};
use crate::supervision::incarnation::{ChildRun, Elsewhere, RoomAbroad, RoomWait, StartedElsewhere};
use crate::supervision::status::LastEnd;
use crate::time::timers::TimerAction;
use crate::{ExitReason, Pid, env::clock::Moment, sync::lock};
use std::sync::Arc;
use std::time::Duration;

/// The error of a start on another node that was not answered in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "node `{node}` has not answered the start within {within:?}; if it is busy, set a longer time with \
        `spawn.on(…).within(…)`"
)]
struct StartTimeout {
    node: Arc<str>,
    within: Duration,
}

impl SupervisorProcess {
    /// Waits for the answer to a start on another node.
    pub(super) fn await_start(&mut self, id: Id, run: Arc<ChildRun>) {
        let (Some((_, listener)), Some(start)) = (self.own, run.elsewhere()) else { return };
        self.last_limit += 1;
        let tag = self.last_limit;
        let due = Moment::now().after(start.within);
        if due < Moment::NEVER {
            let alarm = TimerAction::Complete { slot: listener.slot, generation: listener.generation, tag };
            match self.host.scheduler().set_timer(due, alarm) {
                Some(key) => _ = self.start_limits.insert(tag, (id, key)),
                // The timer table is full. Without a limit the supervisor could wait forever.
                None => {
                    let reason = ExitReason::error("the host has no room for the timer that limits its start");
                    return self.start_failed(id, reason);
                }
            }
        }
        if let Some(member) = self.members.get_mut(&id) {
            member.starting = Some((run, tag));
        }
    }

    /// Handles the outcome of a start. If the supervisor has given up on that start, the process is killed.
    pub(super) fn started_elsewhere(&mut self, started: StartedElsewhere) {
        let id = started.run().id();
        let is_awaited = self.members.get(&id).and_then(|member| member.starting.as_ref());
        if is_awaited.is_none_or(|(run, _)| !Arc::ptr_eq(run, started.run())) {
            return;
        }
        let Some(run) = self.stop_awaiting(id) else { return };
        match started.take() {
            Ok(pid) => {
                let Some(member) = self.members.get_mut(&id) else { return };
                member.pid = Some(pid);
                lock(&member.slot.status).node = run.elsewhere().map(|start| start.node.clone());
                self.put_up(id, pid);
                self.happened.push_back(SupervisorEvent::Started(id));
            }
            Err(reason) => self.start_failed(id, reason),
        }
    }

    /// Directs the child's messages to this process. Messages for which the transport to another node has no room wait
    /// in the slot until there is room.
    pub(super) fn put_up(&mut self, id: Id, pid: Pid) {
        let (Some((_, listener)), Some(member)) = (self.own, self.members.get(&id)) else { return };
        let Some(queue) = member.slot.up(pid) else { return };
        let room = RoomAbroad { id, pid };
        if !queue.wait(RoomWait { listener, room }) {
            // There is room already. The rest is sent on another event, since the supervisor has other work to do.
            listener.notify(room);
        }
    }

    /// Continues with the messages that wait for a child, unless the process has ended since.
    pub(super) fn has_room_abroad(&mut self, RoomAbroad { id, pid }: RoomAbroad) {
        if self.pid_of(id) == Some(pid) {
            self.put_up(id, pid);
        }
    }

    /// Handles a start that was not answered in time. (The message of a cancelled timer may have been on its way.)
    pub(super) fn start_is_late(&mut self, tag: u64) {
        let Some((id, _)) = self.start_limits.get(&tag) else { return };
        let id = *id;
        let Some(run) = self.stop_awaiting(id) else { return };
        if let Some(Elsewhere { node, within }) = run.elsewhere() {
            let late = StartTimeout { node: node.clone(), within: *within };
            self.start_failed(id, ExitReason::error(late));
        }
    }

    /// Gives up on unanswered starts, because the supervisor is ending. A process that is started nevertheless is
    /// killed when it is reported.
    pub(super) fn abandon_starts(&mut self) {
        if self.members.values().all(|member| member.starting.is_none()) {
            return;
        }
        let ids: Vec<Id> =
            self.members.iter().filter(|(_, member)| member.starting.is_some()).map(|(id, _)| *id).collect();
        for id in ids {
            self.stop_awaiting(id);
            if let Some(member) = self.members.get(&id) {
                member.slot.down(&ExitReason::Shutdown);
                member.slot.note_end(None, LastEnd { reason: ExitReason::Shutdown, handling: None });
            }
            self.happened.push_back(SupervisorEvent::StartFailed(id, ExitReason::Shutdown));
        }
    }

    fn stop_awaiting(&mut self, id: Id) -> Option<Arc<ChildRun>> {
        let (run, tag) = self.members.get_mut(&id)?.starting.take()?;
        if let Some((_, key)) = self.start_limits.remove(&tag) {
            self.host.scheduler().timers.cancel(key);
        }
        Some(run)
    }
}
