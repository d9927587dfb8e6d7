//! The plan's record of a child, and its phases.

use crate::env::clock::Moment;
use crate::exit::ExitReason;
use std::time::Duration;

/// Tells after which outcomes a child is restarted by its supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Restart {
    /// After every end and every failed start.
    #[default]
    Permanent,
    /// After an end that is not normal, and after a failed start.
    Transient,
    /// Never.
    Temporary,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildRules {
    pub(crate) restart: Restart,
    /// Time that the child may take to end when it is told to. Zero kills it at once; [`Duration::MAX`] never kills it.
    pub(crate) stop_within: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To be started: at once, or when all children before it run.
    Waiting {
        at_once: bool,
    },
    Starting,
    Running,
    /// Told to end.
    Asked,
    /// Killed, because it did not end in time.
    Killed,
    /// Killed, but has not ended. It may still end. Until then, only its own successor waits for it.
    Stuck,
    /// Down until its delay has passed.
    Delayed,
    /// Down until its group starts again.
    Parked,
    /// Down until a restart is requested.
    Over,
}

impl Phase {
    pub(crate) fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Asked | Self::Killed | Self::Stuck)
    }

    pub(super) fn is_waiting(self) -> bool {
        matches!(self, Self::Waiting { .. })
    }

    /// Returns whether the child is going down. While it is, the child before it must wait.
    pub(super) fn is_going(self) -> bool {
        matches!(self, Self::Asked | Self::Killed)
    }
}

/// What follows when a child's process has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AfterExit {
    /// The child's rules decide.
    #[default]
    Rules,
    /// The child stays down, by request.
    Stay,
    /// The child is started at once, by request.
    Again,
    /// The child starts with its group.
    Group,
}

impl Restart {
    /// Returns whether an end with `reason`, or a failed start (`is_start`), is a failure.
    pub(super) fn fails(self, is_start: bool, reason: &ExitReason) -> bool {
        match self {
            Self::Permanent => true,
            Self::Transient => is_start || !reason.is_normal(),
            Self::Temporary => false,
        }
    }

    /// Returns whether a child that is not in a group stays down after its process has ended with `reason`. If it does,
    /// the plan keeps it down, too, unless a later request starts it again.
    pub(crate) fn is_over(self, after: AfterExit, reason: &ExitReason) -> bool {
        match after {
            AfterExit::Stay => true,
            AfterExit::Again => false,
            AfterExit::Rules | AfterExit::Group => !self.fails(false, reason),
        }
    }
}

#[derive(Debug)]
pub(super) struct PlannedChild {
    pub(super) rules: ChildRules,
    pub(super) phase: Phase,
    pub(super) after: AfterExit,
    /// Whether the child is down by request.
    pub(super) stopped: bool,
    /// The moment of its start, while it is alive.
    pub(super) since: Option<Moment>,
    pub(super) restarts: u64,
    /// Number of failures since the last stable run.
    pub(super) in_a_row: u32,
    /// The number of the child's timer, if one is set.
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
