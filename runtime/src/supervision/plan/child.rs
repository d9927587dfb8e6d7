//! What is known of one child, and the phases of its life.

use super::Restart;
use crate::env::clock::Moment;
use std::time::Duration;

/// What was said of a child when it was added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildRules {
    pub(crate) restart: Restart,
    /// How long it has to end when it is told to. Zero: it is killed at once; [`Duration::MAX`]: it is never killed.
    pub(crate) stop_within: Duration,
}

/// Where a child is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To be started: at once, or when all before it run.
    Waiting {
        at_once: bool,
    },
    /// Being started.
    Starting,
    Running,
    /// Told to end.
    Asked,
    /// It did not end in time, and was killed.
    Killed,
    /// It has not ended of that either. It may still; meanwhile only its own successor waits for it.
    Stuck,
    /// Down until its delay has passed.
    Delayed,
    /// Down until its group starts again.
    Parked,
    /// Down until someone wants it.
    Over,
}

impl Phase {
    pub(crate) fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Asked | Self::Killed | Self::Stuck)
    }

    pub(super) fn is_waiting(self) -> bool {
        matches!(self, Self::Waiting { .. })
    }

    /// Returns whether the child is on its way down, and the one before it is to wait for that.
    pub(super) fn is_going(self) -> bool {
        matches!(self, Self::Asked | Self::Killed)
    }
}

/// What becomes of a child when its process has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AfterExit {
    /// What its rules say.
    #[default]
    Rules,
    /// It stays down: someone wants it so.
    Stay,
    /// It is started at once: someone wants it so.
    Again,
    /// It starts with its group.
    Group,
}

/// See the module.
#[derive(Debug)]
pub(super) struct PlannedChild {
    pub(super) rules: ChildRules,
    pub(super) phase: Phase,
    pub(super) after: AfterExit,
    /// Whether it is down because someone wants it so.
    pub(super) stopped: bool,
    /// When it was started, while it lives.
    pub(super) since: Option<Moment>,
    pub(super) restarts: u64,
    /// Failures since the last stable run.
    pub(super) in_a_row: u32,
    /// The number of its timer, if one is set.
    pub(super) timer: Option<u64>,
}

impl PlannedChild {
    pub(super) fn new(rules: ChildRules) -> Self {
        Self {
            rules,
            phase: Phase::Waiting { at_once: false },
            after: AfterExit::Rules,
            stopped: false,
            since: None,
            restarts: 0,
            in_a_row: 0,
            timer: None,
        }
    }

    pub(super) fn start(&mut self) {
        (self.phase, self.after) = (Phase::Starting, AfterExit::Rules);
    }
}
