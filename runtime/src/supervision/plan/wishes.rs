//! What someone wants of one child: that it be down, or that it be started.

use super::child::{After, Phase};
use super::{Id, Plan, TimerOf};

impl Plan {
    pub(super) fn stop_child(&mut self, id: Id) {
        let Some(child) = self.children.get_mut(&id) else { return };
        match child.phase {
            Phase::Waiting { .. } | Phase::Delayed | Phase::Parked => {
                child.stopped = true;
                self.unset(TimerOf::Child(id));
                self.over(id);
            }
            Phase::Starting | Phase::Asked | Phase::Killed | Phase::Stuck => child.after = After::Stay,
            Phase::Running => {
                child.after = After::Stay;
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
            // It is going to be started, in its order.
            Phase::Waiting { .. } | Phase::Parked | Phase::Starting => child.after = After::Rules,
            Phase::Asked | Phase::Killed | Phase::Stuck => child.after = After::Again,
            Phase::Running => {
                child.after = After::Again;
                self.ask(id);
            }
        }
    }
}
