//! The model: what the runtime promises, implemented as plainly as possible, one operation after the other.

use super::ops::{ActorView, Answer, CHILDREN, End, GROUPS, INTENSITY, Op, SENDERS, View};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An atomic part of an operation.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// An operation that takes effect at once.
    Act(Op),
    /// A message is put into a mailbox.
    Post(usize, Mail),
    /// A process takes the messages in its mailbox.
    Take(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mail {
    Note(usize, usize),
    Hold,
    Fail,
    Finish,
    /// A request to stop. It is not a message: it has no sender, and is no dead letter if it is not handled.
    Stop,
    Command(Op),
    /// The end of another process, reported by a monitor (`false`) or a link (`true`).
    Told(bool, usize, End),
}

#[derive(Clone, Default, PartialEq)]
struct Actor {
    end: Option<End>,
    is_held: bool,
    traps: bool,
    mailbox: VecDeque<Mail>,
    handled: Vec<(usize, usize)>,
    heard: Vec<(bool, usize, End)>,
    links: BTreeSet<usize>,
    /// The monitored processes, in the order of the monitors; the same process may be monitored twice.
    monitors: Vec<usize>,
}

#[derive(Clone, Default, PartialEq)]
struct Child {
    runs: bool,
    restarts: u64,
    /// Whether the child was stopped by request.
    is_stopped: bool,
}

#[derive(Clone, PartialEq)]
pub(super) struct Model {
    actors: Vec<Actor>,
    names: BTreeMap<usize, usize>,
    /// The number of times that each member has joined.
    groups: Vec<BTreeMap<usize, usize>>,
    strategy: usize,
    children: Vec<Child>,
    failures: u64,
    gave_up: bool,
    dead_letters: u64,
    /// Failures that are spreading along links: the process that they reach, the failed process, and the reason.
    failing: VecDeque<(usize, usize, End)>,
}

impl Model {
    pub(super) fn new(actors: usize, strategy: usize) -> Self {
        Self {
            actors: vec![Actor::default(); actors],
            names: BTreeMap::new(),
            groups: vec![BTreeMap::new(); GROUPS],
            strategy,
            children: vec![Child { runs: true, ..Child::default() }; CHILDREN],
            failures: 0,
            gave_up: false,
            dead_letters: 0,
            failing: VecDeque::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.actors.len()
    }

    /// Returns the processes that `of` is linked to.
    pub(super) fn links(&self, of: usize) -> Vec<usize> {
        self.actors[of].links.iter().copied().collect()
    }

    pub(super) fn is_held(&self, actor: usize) -> bool {
        self.actors[actor].end.is_none() && self.actors[actor].is_held
    }

    /// Returns the steps of an operation in their order. The steps of two operations can interleave.
    pub(super) fn steps(&self, op: &Op) -> Vec<Step> {
        let message = |to, mail| vec![Step::Post(to, mail), Step::Take(to)];
        match *op {
            Op::Send { to, sender, kind } => message(to, Mail::Note(sender, kind)),
            Op::Hold(of) => message(of, Mail::Hold),
            Op::Fail(of) => message(of, Mail::Fail),
            Op::Finish(of) => message(of, Mail::Finish),
            Op::Stop(of) => message(of, Mail::Stop),
            Op::Trap(of, _) | Op::Link(of, _) | Op::Unlink(of, _) | Op::Monitor(of, _) | Op::Demonitor(of, _) => {
                message(of, Mail::Command(op.clone()))
            }
            _ => vec![Step::Act(op.clone())],
        }
    }

    /// Makes one step. Returns the answer to the operation, if this step decides it.
    pub(super) fn step(&mut self, step: Step) -> Option<Answer> {
        match step {
            Step::Act(op) => Some(self.act(op)),
            Step::Post(to, mail) => {
                let is_there = self.actors[to].end.is_none();
                // Only the sender of a note learns whether it was refused.
                let tells = matches!(mail, Mail::Note(..));
                if is_there {
                    self.actors[to].mailbox.push_back(mail);
                }
                Some(if is_there || !tells { Answer::Yes } else { Answer::Refused })
            }
            Step::Take(of) => {
                self.take(of);
                None
            }
        }
    }

    fn take(&mut self, of: usize) {
        while self.actors[of].end.is_none() && !self.actors[of].is_held {
            let Some(mail) = self.actors[of].mailbox.pop_front() else { return };
            match mail {
                Mail::Note(sender, kind) => self.actors[of].handled.push((sender, kind)),
                Mail::Hold => self.actors[of].is_held = true,
                Mail::Fail => self.end(of, End::Failed),
                Mail::Finish | Mail::Stop => self.end(of, End::Normal),
                Mail::Command(op) => self.command(op),
                Mail::Told(is_link, whom, end) => {
                    if !is_link && let Some(at) = self.actors[of].monitors.iter().position(|other| *other == whom) {
                        self.actors[of].monitors.remove(at);
                    }
                    self.actors[of].heard.push((is_link, whom, end));
                }
            }
        }
    }

    fn command(&mut self, op: Op) {
        match op {
            Op::Trap(of, traps) => self.actors[of].traps = traps,
            Op::Link(from, to) if self.actors[to].end.is_some() => self.failing.push_back((from, to, End::Gone)),
            Op::Link(from, to) => {
                self.actors[from].links.insert(to);
                self.actors[to].links.insert(from);
            }
            Op::Unlink(from, to) => {
                self.actors[from].links.remove(&to);
                self.actors[to].links.remove(&from);
            }
            Op::Monitor(from, to) => {
                self.actors[from].monitors.push(to);
                if self.actors[to].end.is_some() {
                    self.actors[from].mailbox.push_back(Mail::Told(false, to, End::Gone));
                }
            }
            Op::Demonitor(of, which) => {
                let monitors = &mut self.actors[of].monitors;
                if !monitors.is_empty() {
                    monitors.remove(which % monitors.len());
                }
            }
            other => unreachable!("{other:?} is no command"),
        }
    }

    /// Returns whether a failure is spreading along a link.
    pub(super) fn is_failing(&self) -> bool {
        !self.failing.is_empty()
    }

    /// Passes a failure on to a process that is linked to the failed one.
    pub(super) fn fall(&mut self) {
        let Some((of, failed, end)) = self.failing.pop_front() else { return };
        if self.actors[of].end.is_some() {
            return;
        }
        if self.actors[of].traps {
            self.actors[of].mailbox.push_back(Mail::Told(true, failed, end));
            return self.take(of);
        }
        // At every link of the chain, the reason names the process that failed first.
        let reason = match end {
            End::Fell(..) => end,
            other => End::Fell(failed, Box::new(other)),
        };
        self.end(of, reason);
    }

    fn end(&mut self, of: usize, end: End) {
        let actor = &mut self.actors[of];
        if actor.end.is_some() {
            return;
        }
        actor.end = Some(end.clone());
        let left = std::mem::take(&mut actor.mailbox);
        self.dead_letters += left.iter().filter(|mail| !matches!(mail, Mail::Stop | Mail::Told(..))).count() as u64;
        let links = std::mem::take(&mut actor.links);
        self.names.retain(|_, holder| *holder != of);
        self.groups.iter_mut().for_each(|group| _ = group.remove(&of));
        for other in 0..self.actors.len() {
            let times = self.actors[other].monitors.iter().filter(|whom| **whom == of).count();
            if self.actors[other].end.is_none() {
                (0..times).for_each(|_| self.actors[other].mailbox.push_back(Mail::Told(false, of, end.clone())));
                self.take(other);
            }
        }
        for other in links {
            self.actors[other].links.remove(&of);
            if end != End::Normal {
                self.failing.push_back((other, of, end.clone()));
            }
        }
    }

    fn act(&mut self, op: Op) -> Answer {
        match op {
            Op::Spawn => self.actors.push(Actor::default()),
            Op::Release(of) => {
                self.actors[of].is_held = false;
                self.take(of);
            }
            Op::Kill(of) => self.end(of, End::Killed),
            Op::Cancel(of) => self.end(of, End::Cancelled),
            Op::Name(name, of) => {
                return match self.names.get(&name) {
                    _ if self.actors[of].end.is_some() => Answer::Refused,
                    Some(holder) if *holder != of => Answer::Refused,
                    _ => {
                        self.names.insert(name, of);
                        Answer::Yes
                    }
                };
            }
            Op::Unname(name) => return if self.names.remove(&name).is_some() { Answer::Yes } else { Answer::No },
            Op::Join(group, of) => {
                if self.actors[of].end.is_some() {
                    return Answer::Refused;
                }
                let joins = self.groups[group].entry(of).or_insert(0);
                *joins += 1;
                return if *joins == 1 { Answer::Yes } else { Answer::No };
            }
            Op::Leave(group, of) => {
                let Some(joins) = self.groups[group].get_mut(&of) else { return Answer::No };
                *joins -= 1;
                if *joins == 0 {
                    self.groups[group].remove(&of);
                }
            }
            Op::FailChild(of) | Op::KillChild(of) => self.child_ends(of, false),
            Op::FinishChild(of) => self.child_ends(of, true),
            Op::StopChild(_) | Op::RestartChild(_) if self.gave_up => {}
            Op::StopChild(of) => (self.children[of].runs, self.children[of].is_stopped) = (false, true),
            Op::RestartChild(of) => (self.children[of].runs, self.children[of].is_stopped) = (true, false),
            other => unreachable!("{other:?} has steps"),
        }
        Answer::Yes
    }

    /// Ends a child, and restarts children as the strategy requires. The first child is permanent, the second
    /// transient, the third temporary.
    fn child_ends(&mut self, of: usize, normally: bool) {
        if !self.children[of].runs {
            return;
        }
        self.children[of].runs = false;
        let fails = match of {
            0 => true,
            1 => !normally,
            _ => false,
        };
        if !fails {
            return;
        }
        if self.failures == INTENSITY {
            self.gave_up = true;
            return self.children.iter_mut().for_each(|child| child.runs = false);
        }
        self.failures += 1;
        self.children[of].restarts += 1;
        self.children[of].runs = true;
        // The strategies: one for one, one for all, rest for one.
        let group = match self.strategy {
            0 => return,
            1 => 0..CHILDREN,
            _ => of..CHILDREN,
        };
        for other in group.filter(|other| *other != of) {
            let child = &mut self.children[other];
            child.runs = match other {
                0 => child.runs,
                1 => child.runs || !child.is_stopped,
                _ => false,
            };
        }
    }

    pub(super) fn view(&self) -> View {
        let actors = self.actors.iter().enumerate().map(|(of, actor)| self.actor(of, actor));
        View {
            actors: actors.collect(),
            names: self.names.clone(),
            groups: self.groups.iter().map(|group| group.keys().copied().collect()).collect(),
            registrations: (
                self.names.len() + self.children.iter().filter(|child| child.runs).count(),
                self.groups.iter().map(BTreeMap::len).sum(),
            ),
            children: self.children.iter().map(|child| (child.runs, child.restarts)).collect(),
            gave_up: self.gave_up,
            dead_letters: self.dead_letters,
        }
    }

    fn actor(&self, of: usize, actor: &Actor) -> ActorView {
        let (lives, is_free) = (actor.end.is_none(), actor.end.is_none() && !actor.is_held);
        let by_sender = |notes: &mut dyn Iterator<Item = (usize, usize)>| {
            let mut by_sender = vec![Vec::new(); SENDERS];
            notes.for_each(|(sender, kind)| by_sender[sender].push(kind));
            by_sender
        };
        let sorted = |mut list: Vec<usize>| {
            list.sort_unstable();
            if is_free { list } else { Vec::new() }
        };
        let others = || self.actors.iter().enumerate().filter(|(_, other)| other.end.is_none());
        let watchers =
            others().flat_map(|(by, other)| other.monitors.iter().filter(|whom| **whom == of).map(move |_| by));
        let mut heard = if lives { actor.heard.clone() } else { Vec::new() };
        heard.sort();
        let queued = actor.mailbox.iter().filter_map(|mail| match mail {
            Mail::Note(sender, kind) => Some((*sender, *kind)),
            _ => None,
        });
        ActorView {
            end: actor.end.clone(),
            queued: by_sender(&mut queued.into_iter()),
            handled: by_sender(&mut actor.handled.iter().copied()),
            heard,
            links: sorted(actor.links.iter().copied().collect()),
            monitors: sorted(actor.monitors.clone()),
            monitored_by: sorted(watchers.collect()),
        }
    }
}
