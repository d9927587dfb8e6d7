//! Requests for one child: to keep it down, or to start it.

use super::child::{AfterExit, Phase};
use super::{Id, SupervisorPlan, TimerOf};

impl SupervisorPlan {
    pub(super) fn stop_child(&mut self, id: Id) {
        let Some(child) = self.children.get_mut(&id) else { return };
        match child.phase {
            Phase::Waiting { .. } | Phase::Delayed | Phase::Parked => {
                child.stopped = true;
                self.unset(TimerOf::Child(id));
                self.over(id);
            }
            Phase::Starting | Phase::Asked | Phase::Killed | Phase::Stuck => child.after = AfterExit::Stay,
            Phase::Running => {
                child.after = AfterExit::Stay;
                self.ask(id);
            }
            Phase::Over => child.stopped = true,
        }
    }

    pub(super) fn restart_child(&mut self, id: Id) {
        let Some(child) = self.children.get_mut(&id) else { return };
        child.stopped = false;
        match child.phase {
            Phase::Over | Phase::Delayed => {
                self.unset(TimerOf::Child(id));
                self.wait(id, true);
            }
            // The child's start is already pending or under way.
            Phase::Waiting { .. } | Phase::Parked | Phase::Starting => child.after = AfterExit::Rules,
            Phase::Asked | Phase::Killed | Phase::Stuck => child.after = AfterExit::Again,
            Phase::Running => {
                child.after = AfterExit::Again;
                self.ask(id);
            }
        }
    }
}
