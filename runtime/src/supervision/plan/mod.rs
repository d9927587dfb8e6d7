//! The decisions of a supervisor, as a pure state machine: events in, actions out. It has no clock (moments are passed
//! in), no threads, and no randomness (the jitter is drawn from a number that is passed in).
//!
//! * this file: events and actions, and the response to a failure;
//! * [`child`]: the record of one child, and its phases; [`settle`]: the next actions in any state: stopping in reverse
//!   order, starting in order; [`requests`]: requests for one child.
//!
//! The rules:
//!
//! 1. *Starting.* Children start in the order in which they were added. A child is started for the first time only when
//!    all before it run or are over; the same holds for each child of a restarting group. (Dynamic children do not wait
//!    for each other.)
//! 2. *Failing.* Whether an end or a failed start is a failure depends on the child's [`Restart`]. Each failure counts
//!    against the intensity; one too many, and the supervisor gives up. Otherwise the child is restarted after a delay
//!    that grows with its failures in a row.
//! 3. *Groups.* With one-for-all, a failure stops all other children; with rest-for-one, it stops those after the
//!    failed one. They are stopped in reverse order, and these stops are not failures. When all are down and the delay
//!    has passed, they start again, in order. A transient child of the group that had finished starts too; a temporary
//!    one, or one that was stopped by request, does not.
//! 4. *Stopping.* A child is asked to end, then killed at its deadline, and counts as down only when it has ended: two
//!    incarnations of a child never overlap. Each child is asked when the child after it is down. (Dynamic children are
//!    asked all at once.) A child that survives the kill, because its step does not return, delays the others for at
//!    most [`PATIENCE`].
//! 5. *The end.* When asked to stop, or having given up, the supervisor stops all children, and finishes when they are
//!    down.

pub(crate) mod backoff;
pub(crate) mod child;
pub(crate) mod intensity;
pub(crate) mod requests;
pub(crate) mod settle;

#[cfg(test)]
mod tests;

pub use child::Restart;
pub(crate) use child::{ChildRules, Phase};

use crate::{env::clock::Moment, exit::ExitReason};
use backoff::Backoff;
use child::{AfterExit, PlannedChild};
use intensity::Intensity;
use std::{collections::BTreeMap, time::Duration};

/// How long the other children wait for a killed one. A killed child ends when a worker next takes it up, unless its
/// step never returns.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);

/// The children that a failure affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Strategy {
    /// The one that failed.
    OneForOne,
    /// All.
    OneForAll,
    /// The child that failed, and the children after it.
    RestForOne,
    /// Like one-for-one, for children that are added and removed while the supervisor runs and do not wait for each
    /// other.
    Dynamic,
}

impl Strategy {
    /// Returns the name of the method that creates such a supervisor.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneForOne => "one_for_one",
            Self::OneForAll => "one_for_all",
            Self::RestForOne => "rest_for_one",
            Self::Dynamic => "dynamic",
        }
    }
}

/// Identifies a child of one supervisor. IDs are in the order in which the children start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u64);

/// The purpose of a timer. There is at most one timer at a time for each purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TimerOf {
    Child(Id),
    Group,
}

#[derive(Clone, Debug)]
pub(crate) enum SupervisorEvent {
    /// The supervisor has been started.
    Begin,
    Started(Id),
    StartFailed(Id, ExitReason),
    Ended(Id, ExitReason),
    /// The dynamic child has ended and has already been removed: see [`Restart::is_over`].
    Removed(Id, ExitReason),
    /// The latest timer for this purpose, with this number, is due.
    Due(TimerOf, u64),
    /// A request to stop the child and keep it down.
    StopChild(Id),
    /// A request to restart the child if it is running, or to start it at once if it is down.
    RestartChild(Id),
    /// A request to end the supervisor with this reason.
    StopAll(ExitReason),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SupervisorAction {
    /// Start the child; answered by `Started` or `StartFailed`.
    Start(Id),
    /// Tell the child to end.
    Ask(Id),
    Kill(Id),
    /// Set the timer for a purpose, replacing the previous one.
    Set {
        of: TimerOf,
        number: u64,
        after: Duration,
    },
    /// Cancel the timer for a purpose.
    Unset(TimerOf),
    /// The child will not be restarted automatically.
    Over(Id),
    /// The dynamic child will not be restarted, and has been removed.
    Forgotten(Id),
    /// All children are down; the supervisor ends.
    Finished(SupervisorEnd),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SupervisorEnd {
    /// The supervisor was asked to end.
    Asked(ExitReason),
    /// A child failed more often than allowed.
    GaveUp { child: Id, restarts: u64, reason: ExitReason },
}

/// A group of children that are being stopped, to be restarted together.
#[derive(Debug)]
struct RestartGroup {
    /// The first child of the group.
    from: Id,
    /// The number of the delay's timer, while it is running.
    delay: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct SupervisorPlan {
    strategy: Strategy,
    intensity: Intensity,
    backoff: Backoff,
    children: BTreeMap<Id, PlannedChild>,
    next: u64,
    numbers: u64,
    group: Option<RestartGroup>,
    /// Dynamic children that wait to be started. (Other children are few, and searched in order.)
    waiting: Vec<Id>,
    end: Option<SupervisorEnd>,
    /// Whether the children have been asked to end. Dynamic children are asked only once.
    told: bool,
    finished: bool,
    actions: Vec<SupervisorAction>,
}

impl SupervisorPlan {
    pub(crate) fn new(strategy: Strategy, intensity: Intensity, backoff: Backoff) -> Self {
        Self {
            strategy,
            intensity,
            backoff,
            children: BTreeMap::new(),
            next: 0,
            numbers: 0,
            group: None,
            waiting: Vec::new(),
            end: None,
            told: false,
            finished: false,
            actions: Vec::new(),
        }
    }

    /// Adds a child after all others. It is started at the next event.
    pub(crate) fn add(&mut self, rules: ChildRules) -> Id {
        debug_assert!(self.end.is_none(), "a supervisor that ends takes no children");
        let id = Id(self.next);
        self.next += 1;
        self.children.insert(id, PlannedChild::new(rules));
        self.wait(id, false);
        id
    }

    /// Returns the phase of the child, or `None` if it was removed.
    pub(crate) fn phase(&self, id: Id) -> Option<Phase> {
        self.children.get(&id).map(|child| child.phase)
    }

    /// Returns what follows when the child's process ends.
    pub(crate) fn after(&self, id: Id) -> AfterExit {
        let after = self.children.get(&id).map_or(AfterExit::Stay, |child| child.after);
        if self.end.is_some() { AfterExit::Stay } else { after }
    }

    /// Returns how many times the child has been restarted after a failure.
    pub(crate) fn restarts(&self, id: Id) -> u64 {
        self.children.get(&id).map_or(0, |child| child.restarts)
    }

    /// Returns the limit of restarts and its window.
    pub(crate) fn limits(&self) -> (u32, Duration) {
        self.intensity.limits()
    }

    pub(crate) fn is_small(&self) -> bool {
        self.strategy != Strategy::Dynamic
    }

    /// Returns the child that failed more often than allowed, if there is one.
    pub(crate) fn gave_up_on(&self) -> Option<Id> {
        match &self.end {
            Some(SupervisorEnd::GaveUp { child, .. }) => Some(*child),
            _ => None,
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.end.is_some()
    }

    /// Handles an event that happens at `now`, and returns the actions, in order. `chance` is a uniformly random
    /// number.
    pub(crate) fn on(&mut self, now: Moment, event: SupervisorEvent, chance: u64) -> Vec<SupervisorAction> {
        match event {
            SupervisorEvent::Begin => {}
            SupervisorEvent::Started(id) => self.started(now, id),
            SupervisorEvent::StartFailed(id, reason) => self.ended(now, id, reason, true, chance),
            SupervisorEvent::Ended(id, reason) => self.ended(now, id, reason, false, chance),
            SupervisorEvent::Removed(id, reason) => {
                self.children.get_mut(&id).into_iter().for_each(|child| child.after = AfterExit::Stay);
                self.ended(now, id, reason, false, chance);
            }
            SupervisorEvent::Due(of, number) => self.due(of, number),
            SupervisorEvent::StopChild(id) => self.stop_child(id),
            SupervisorEvent::RestartChild(id) if self.end.is_none() => self.restart_child(id),
            SupervisorEvent::RestartChild(_) => {}
            SupervisorEvent::StopAll(reason) => {
                self.end.get_or_insert(SupervisorEnd::Asked(reason));
            }
        }
        self.settle();
        std::mem::take(&mut self.actions)
    }

    fn started(&mut self, now: Moment, id: Id) {
        if let Some(child) = self.children.get_mut(&id).filter(|child| child.phase == Phase::Starting) {
            (child.phase, child.since) = (Phase::Running, Some(now));
            // A request arrived during the start.
            if child.after != AfterExit::Rules {
                self.ask(id);
            }
        }
    }

    /// Handles the end, or the failed start, of a child.
    fn ended(&mut self, now: Moment, id: Id, reason: ExitReason, is_start: bool, chance: u64) {
        let Some(child) = self.children.get_mut(&id) else { return };
        let lived = if is_start { child.phase == Phase::Starting } else { child.phase.is_alive() };
        if !lived {
            return;
        }
        let (after, restart) = (std::mem::take(&mut child.after), child.rules.restart);
        let run = child.since.take().map(|since| now.since(since));
        self.unset(TimerOf::Child(id));
        if self.end.is_some() {
            return self.over(id);
        }
        let fails = restart.fails(is_start, &reason);
        let in_group = self.group.as_ref().is_some_and(|group| id >= group.from);
        match after {
            AfterExit::Stay => {
                self.child(id).stopped = true;
                self.over(id);
            }
            AfterExit::Again => self.wait(id, true),
            // In a group that was being stopped anyway, an end is not a failure.
            AfterExit::Group | AfterExit::Rules if in_group => match restart {
                Restart::Temporary => self.over(id),
                _ => self.child(id).phase = Phase::Parked,
            },
            AfterExit::Group | AfterExit::Rules if fails => self.failed(now, id, reason, run, chance),
            AfterExit::Group | AfterExit::Rules => self.over(id),
        }
    }

    /// Handles a failure: schedules a restart, or gives up.
    fn failed(&mut self, now: Moment, id: Id, reason: ExitReason, run: Option<Duration>, chance: u64) {
        let allowed = self.intensity.allow(now);
        let Some(child) = self.children.get_mut(&id) else { return };
        if !allowed {
            // The child is kept until the supervisor ends, even if it is dynamic, since the exit reason names it.
            child.phase = Phase::Over;
            let restarts = child.restarts;
            self.end = Some(SupervisorEnd::GaveUp { child: id, restarts, reason });
            self.actions.push(SupervisorAction::Over(id));
            return;
        }
        child.restarts += 1;
        let delay = self.backoff.failed(&mut child.in_a_row, run, chance);
        let from = match self.strategy {
            Strategy::OneForOne | Strategy::Dynamic => None,
            Strategy::OneForAll => self.children.keys().next().copied(),
            Strategy::RestForOne => Some(id),
        };
        match from {
            None if delay.is_zero() => self.wait(id, true),
            None => {
                self.child(id).phase = Phase::Delayed;
                self.set(TimerOf::Child(id), delay);
            }
            Some(from) => {
                self.child(id).phase = Phase::Parked;
                self.group_from(from, delay);
            }
        }
    }

    /// Stops the children from this one on; they restart when all are down and the delay has passed.
    fn group_from(&mut self, from: Id, delay: Duration) {
        let group = self.group.get_or_insert(RestartGroup { from, delay: None });
        group.from = group.from.min(from);
        if delay.is_zero() { self.unset(TimerOf::Group) } else { self.set(TimerOf::Group, delay) }
    }

    fn due(&mut self, of: TimerOf, number: u64) {
        let is_set = self.timer(of).and_then(|timer| timer.take_if(|set| *set == number)).is_some();
        let TimerOf::Child(id) = of else { return };
        match self.phase(id).filter(|_| is_set) {
            Some(Phase::Delayed) => self.wait(id, true),
            Some(Phase::Asked) => self.kill(id),
            Some(Phase::Killed) => self.child(id).phase = Phase::Stuck,
            _ => {}
        }
    }

    /// Returns the field that holds the number of the timer for a purpose, while that timer is set.
    fn timer(&mut self, of: TimerOf) -> Option<&mut Option<u64>> {
        match of {
            TimerOf::Child(id) => self.children.get_mut(&id).map(|child| &mut child.timer),
            TimerOf::Group => self.group.as_mut().map(|group| &mut group.delay),
        }
    }

    fn child(&mut self, id: Id) -> &mut PlannedChild {
        self.children.get_mut(&id).unwrap_or_else(|| unreachable!("the child of the event that is handled"))
    }

    /// Schedules the start of the child: at once, or when all children before it run.
    fn wait(&mut self, id: Id, at_once: bool) {
        self.child(id).phase = Phase::Waiting { at_once };
        if self.strategy == Strategy::Dynamic {
            self.waiting.push(id);
        }
    }

    /// Marks the child as not to be restarted automatically.
    fn over(&mut self, id: Id) {
        self.child(id).phase = Phase::Over;
        if self.strategy == Strategy::Dynamic {
            self.children.remove(&id);
            self.actions.push(SupervisorAction::Forgotten(id));
        } else {
            self.actions.push(SupervisorAction::Over(id));
        }
    }

    fn set(&mut self, of: TimerOf, after: Duration) {
        self.numbers += 1;
        let number = self.numbers;
        self.actions.push(SupervisorAction::Set { of, number, after });
        self.timer(of).into_iter().for_each(|timer| *timer = Some(number));
    }

    fn unset(&mut self, of: TimerOf) {
        if self.timer(of).and_then(Option::take).is_some() {
            self.actions.push(SupervisorAction::Unset(of));
        }
    }
}
