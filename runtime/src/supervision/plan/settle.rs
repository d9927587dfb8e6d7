//! The next actions in any state: which children to stop, and which to start.

use super::child::{AfterExit, Phase};
use super::{Id, PATIENCE, Restart, RestartGroup, Strategy, SupervisorAction, SupervisorPlan, TimerOf};

impl SupervisorPlan {
    pub(super) fn settle(&mut self) {
        if self.end.is_some() {
            self.settle_end();
            return;
        }
        if let Some(RestartGroup { from, delay }) = self.group {
            self.stop_next(from, AfterExit::Group);
            // This includes a child whose restart was requested, since it belongs to the group.
            let group = self.children.range_mut(from..).map(|(_, child)| child);
            group.filter(|child| child.phase.is_waiting()).for_each(|child| child.phase = Phase::Parked);
            let mut group = self.children.range(from..).map(|(_, child)| child.phase);
            let is_down = group.all(|phase| matches!(phase, Phase::Parked | Phase::Over));
            if delay.is_some() || !is_down {
                return self.start_before(Some(from));
            }
            self.group = None;
            for child in self.children.range_mut(from..).map(|(_, child)| child) {
                let finished = child.phase == Phase::Over && child.rules.restart == Restart::Transient;
                if child.phase == Phase::Parked || finished && !child.stopped {
                    child.phase = Phase::Waiting { at_once: false };
                }
            }
        }
        if self.strategy == Strategy::Dynamic { self.start_waiting() } else { self.start_before(None) }
    }

    /// Stops the running children, and finishes when none is left.
    fn settle_end(&mut self) {
        self.unset(TimerOf::Group);
        self.group = None;
        if !self.told {
            let ids: Vec<Id> = self.children.keys().copied().rev().collect();
            for id in ids {
                let phase = self.child(id).phase;
                if phase.is_waiting() || matches!(phase, Phase::Delayed | Phase::Parked) {
                    self.unset(TimerOf::Child(id));
                    self.over(id);
                }
            }
        }
        if !self.told || self.strategy != Strategy::Dynamic {
            self.stop_next(Id(0), AfterExit::Stay);
        }
        self.told = true;
        let is_down = self.children.values().all(|child| child.phase == Phase::Over);
        if is_down
            && !self.finished
            && let Some(end) = self.end.clone()
        {
            self.finished = true;
            self.actions.push(SupervisorAction::Finished(end));
        }
    }

    /// Asks the running children from `from` on to end, beginning with the last. Each is asked when the child after it
    /// is down.
    fn stop_next(&mut self, from: Id, after: AfterExit) {
        let together = self.strategy == Strategy::Dynamic;
        let ids: Vec<Id> = self.children.range(from..).map(|(id, _)| *id).rev().collect();
        for id in ids {
            let child = self.child(id);
            match child.phase {
                Phase::Running => {
                    child.after = after;
                    self.ask(id);
                }
                // The child is asked to end as soon as it has started.
                Phase::Starting => child.after = after,
                // The restart of the group replaces the requested restart.
                _ if child.phase.is_alive() && child.after == AfterExit::Again => child.after = after,
                _ => {}
            }
            let phase = self.child(id).phase;
            if !together && (phase.is_going() || phase == Phase::Starting) {
                return;
            }
        }
    }

    /// Starts waiting children before `end`, in order.
    fn start_before(&mut self, end: Option<Id>) {
        let mut held_up = false;
        for (id, child) in &mut self.children {
            if end.is_some_and(|end| *id >= end) {
                return;
            }
            match child.phase {
                Phase::Waiting { at_once } if at_once || !held_up => {
                    child.start();
                    self.actions.push(SupervisorAction::Start(*id));
                    held_up = true;
                }
                Phase::Waiting { .. } | Phase::Starting | Phase::Delayed | Phase::Parked => held_up = true,
                _ => {}
            }
        }
    }

    fn start_waiting(&mut self) {
        for id in std::mem::take(&mut self.waiting) {
            // The child may have been stopped in the meantime.
            if let Some(child) = self.children.get_mut(&id).filter(|child| child.phase.is_waiting()) {
                child.start();
                self.actions.push(SupervisorAction::Start(id));
            }
        }
    }

    /// Tells a running child to end, or kills it if its rules give it no time to end.
    pub(super) fn ask(&mut self, id: Id) {
        let within = self.child(id).rules.stop_within;
        if within.is_zero() {
            return self.kill(id);
        }
        self.child(id).phase = Phase::Asked;
        self.actions.push(SupervisorAction::Ask(id));
        if within < std::time::Duration::MAX {
            self.set(TimerOf::Child(id), within);
        }
    }

    pub(super) fn kill(&mut self, id: Id) {
        self.child(id).phase = Phase::Killed;
        self.actions.push(SupervisorAction::Kill(id));
        self.set(TimerOf::Child(id), PATIENCE);
    }
}
