//! The supervisor's process: reports events to the plan and executes its actions.

mod away;
mod start;

use super::child::{Spec, StartChild};
use super::child_slot::ChildSlot;
use super::incarnation::{ChildEnded, ChildRun, ENDED, ExitListener, Settled};
use super::plan::{ChildRules, Id, Phase, SupervisorAction, SupervisorEnd, SupervisorEvent, SupervisorPlan, TimerOf};
use super::status::ChildState;
use super::{errors::GaveUp, registry::ChildRegistry};
use crate::engine::context::thread::with_current;
use crate::env::clock::{Moment, TimerKey};
use crate::process::{Event, Events, InitContext, Process, StepOutput, unknown_entry};
use crate::recorder::session::DumpCause;
use crate::slots::{ProcessKind, TABLE};
use crate::util::dispose::dispose;
use crate::util::panics::{Shown, Site};
use crate::{
    Cancel, Exit, ExitReason, Host, InitError, Package, Payloads, Pid, ProcessError, Signal, env::chance::Random,
    process::output::StepStatus, sync::lock, time::timers::TimerAction,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Timers of starts have tags above this. Timers of the plan have tags below it, because the plan counts from one.
const FIRST_LIMIT: u64 = 1 << 62;

/// Maximum number of consecutive events that are processed in one step. Without a limit, a child that fails to start
/// and is retried without delay would occupy a worker forever.
const IN_ONE_GO: usize = 64;

pub(super) struct Add {
    pub(super) slot: Arc<ChildSlot>,
    pub(super) rules: ChildRules,
    pub(super) start: Box<StartChild>,
}

pub(super) struct Redefine {
    pub(super) slot: Arc<ChildSlot>,
    pub(super) kind: Option<&'static ProcessKind>,
    pub(super) start: Box<StartChild>,
}

pub(super) enum ChildRequest {
    Stop(Arc<ChildSlot>),
    Restart(Arc<ChildSlot>),
}

struct SupervisedChild {
    slot: Arc<ChildSlot>,
    start: Box<StartChild>,
    pid: Option<Pid>,
    /// The start on another node that has not been answered, and the tag of the timer that limits it.
    starting: Option<(Arc<ChildRun>, u64)>,
}

pub(super) struct SupervisorProcess {
    registry: Arc<ChildRegistry>,
    plan: SupervisorPlan,
    host: Host,
    /// The initial children, until the supervisor starts.
    first: Vec<(Arc<ChildSlot>, Spec)>,
    members: BTreeMap<Id, SupervisedChild>,
    names: BTreeMap<Arc<str>, Id>,
    timers: BTreeMap<TimerOf, (u64, TimerKey)>,
    numbers: BTreeMap<u64, TimerOf>,
    /// The timers of starts on other nodes, by their tags.
    start_limits: BTreeMap<u64, (Id, TimerKey)>,
    /// The most recent tag that was given to such a timer.
    last_limit: u64,
    /// Events that have not been passed to the plan.
    happened: VecDeque<SupervisorEvent>,
    random: Random,
    /// The supervisor's own PID and its listener, once it has been started.
    own: Option<(Pid, ExitListener)>,
    /// Whether this supervisor has a supervisor itself.
    is_child: bool,
    end: Option<SupervisorEnd>,
    /// Whether the supervisor was killed: it then kills its children.
    killed: bool,
    /// The name of the child that failed too often, and the type of the message that it was handling.
    failed_child: Option<(Arc<str>, Option<&'static str>)>,
}

impl SupervisorProcess {
    pub(super) fn new(
        registry: Arc<ChildRegistry>,
        plan: SupervisorPlan,
        host: Host,
        first: Vec<(Arc<ChildSlot>, Spec)>,
        is_child: bool,
    ) -> Self {
        Self {
            registry,
            plan,
            host,
            first,
            members: BTreeMap::new(),
            names: BTreeMap::new(),
            timers: BTreeMap::new(),
            numbers: BTreeMap::new(),
            start_limits: BTreeMap::new(),
            last_limit: FIRST_LIMIT,
            happened: VecDeque::new(),
            random: host.scheduler().random(),
            own: None,
            is_child,
            end: None,
            killed: false,
            failed_child: None,
        }
    }

    /// Reports events to the plan and executes its actions, until nothing follows or the limit of a step is reached.
    fn go_on(&mut self) {
        for _ in 0..IN_ONE_GO {
            let Some(event) = self.happened.pop_front() else { return };
            let (now, chance) = (Moment::now(), self.random.next());
            let about = match &event {
                SupervisorEvent::Started(id)
                | SupervisorEvent::StartFailed(id, _)
                | SupervisorEvent::Ended(id, _)
                | SupervisorEvent::Removed(id, _) => Some(*id),
                SupervisorEvent::StopChild(id)
                | SupervisorEvent::RestartChild(id)
                | SupervisorEvent::Due(TimerOf::Child(id), _) => Some(*id),
                _ => None,
            };
            let failure = match &event {
                SupervisorEvent::StartFailed(id, reason)
                | SupervisorEvent::Ended(id, reason)
                | SupervisorEvent::Removed(id, reason) => Some((*id, reason.clone())),
                _ => None,
            };
            let before = failure.as_ref().map_or(0, |(id, _)| self.plan.restarts(*id));
            let was_ending = self.plan.is_ending();
            let actions = self.plan.on(now, event, chance);
            // Published before the actions, since one of the actions may tell a child to end, and the child may end at
            // once.
            match self.plan.is_ending() && !was_ending {
                true => self.members.keys().for_each(|id| self.show_after(*id)),
                false => about.into_iter().for_each(|id| self.show_after(id)),
            }
            if let Some((id, reason)) = failure {
                self.report(id, &reason, before, &actions);
            }
            for action in actions {
                self.act(action);
            }
            if self.plan.is_ending() {
                self.abandon_starts();
            }
            // Published after the actions, since a child that is shown as stopping must have been told to stop.
            about.into_iter().for_each(|id| self.show(id));
            if self.plan.is_small() {
                let ids: Vec<Id> = self.members.keys().copied().collect();
                ids.into_iter().for_each(|id| self.show(id));
            }
        }
    }

    /// Logs a failure and its consequence, once.
    fn report(&mut self, id: Id, reason: &ExitReason, before: u64, actions: &[SupervisorAction]) {
        let Some(member) = self.members.get(&id) else { return };
        let (child, message_type) =
            (&*member.slot.name, lock(&member.slot.status).last.as_ref().and_then(|last| last.handling));
        let supervisor = self.own.map(|(pid, _)| tracing::field::display(pid));
        let restarts = self.plan.restarts(id);
        if restarts > before {
            let delay = actions.iter().find_map(|action| match action {
                SupervisorAction::Set { of, after, .. } if [TimerOf::Group, TimerOf::Child(id)].contains(of) => {
                    Some(*after)
                }
                _ => None,
            });
            let delay = delay.unwrap_or_default();
            if reason.is_normal() {
                crate::util::log::warn!(
                    supervisor, child, reason = %Shown(reason), restarts, ?delay,
                    "a permanent child ended and is started again; work that finishes is `.transient()`"
                );
                return;
            }
            crate::util::log::warn!(
                supervisor, child, reason = %Shown(reason), message_type, restarts, ?delay,
                "a child failed and is restarted"
            );
        } else if self.plan.is_ending() && self.failed_child.is_none() && self.plan.gave_up_on() == Some(id) {
            crate::util::log::error!(
                supervisor, child, reason = %Shown(reason), message_type, restarts,
                "a child failed too often: its supervisor gives up"
            );
            self.failed_child = Some((member.slot.name.clone(), message_type));
            with_current(|context| {
                if let Some((context, pid)) = context.and_then(|context| Some((context, context.pid()?))) {
                    context.host.recorder.dump(DumpCause::GaveUp(pid));
                }
            });
        }
    }

    fn act(&mut self, action: SupervisorAction) {
        match action {
            SupervisorAction::Start(id) => {
                self.show(id);
                self.start(id);
            }
            SupervisorAction::Ask(id) => {
                let pid = self.pid_of(id);
                pid.map(|pid| if self.killed { pid.kill() } else { pid.cancel(ExitReason::Shutdown) });
            }
            SupervisorAction::Kill(id) => {
                self.pid_of(id).map(Pid::kill);
            }
            SupervisorAction::Set { of, number, after } => self.set(of, number, after),
            SupervisorAction::Unset(of) => self.unset(of),
            SupervisorAction::Over(id) => {
                self.show(id);
                // A child that is stopped on behalf of a supervisor above may have a successor, so its messages
                // continue to wait.
                let may_return = self.is_child && self.plan.is_ending() && self.plan.gave_up_on().is_none();
                if !may_return {
                    self.shut(id);
                }
            }
            SupervisorAction::Forgotten(id) => self.forget(id),
            SupervisorAction::Finished(end) => self.end = Some(end),
        }
    }

    fn forget(&mut self, id: Id) {
        let Some(member) = self.members.remove(&id) else { return };
        // Another child may have the name by now.
        if self.names.get(&member.slot.name) == Some(&id) {
            self.names.remove(&member.slot.name);
        }
        // Processes that wait for the child's end are notified when its name is free.
        let reason = member.slot.last_reason(&ExitReason::Shutdown);
        let waits = member.slot.shut(&reason);
        self.registry.remove(&member.slot);
        waits.tell(&reason);
        // Dropping the closure runs user code.
        dispose(Site::ChildDrop, member);
    }

    fn add(&mut self, slot: Arc<ChildSlot>, rules: ChildRules, start: Box<StartChild>) {
        let id = self.plan.add(rules);
        lock(&slot.status).restart = rules.restart;
        self.names.insert(slot.name.clone(), id);
        self.members.insert(id, SupervisedChild { slot, start, pid: None, starting: None });
    }

    fn pid_of(&self, id: Id) -> Option<Pid> {
        self.members.get(&id)?.pid
    }

    fn set(&mut self, of: TimerOf, number: u64, after: Duration) {
        self.unset(of);
        let due = Moment::now().after(after);
        let Some((_, ExitListener { slot, generation, .. })) = self.own else { return };
        if due == Moment::NEVER {
            return;
        }
        let alarm = TimerAction::Complete { slot, generation, tag: number };
        match self.host.scheduler().set_timer(due, alarm) {
            Some(key) => {
                self.numbers.insert(number, of);
                self.timers.insert(of, (number, key));
            }
            // The timer table is full, so the timer is due at once rather than never.
            None => self.happened.push_back(SupervisorEvent::Due(of, number)),
        }
    }

    fn unset(&mut self, of: TimerOf) {
        if let Some((number, key)) = self.timers.remove(&of) {
            self.numbers.remove(&number);
            self.host.scheduler().timers.cancel(key);
        }
    }

    fn shut(&self, id: Id) {
        if let Some(SupervisedChild { slot, .. }) = self.members.get(&id) {
            let reason = slot.last_reason(&ExitReason::Shutdown);
            slot.shut(&reason).tell(&reason);
        }
    }

    /// Publishes what follows when the child's process ends (see [`Restart::is_over`](super::plan::Restart::is_over))
    /// and how many times the child was restarted.
    fn show_after(&self, id: Id) {
        if let Some(SupervisedChild { slot, .. }) = self.members.get(&id) {
            *lock(&slot.after) = self.plan.after(id);
            lock(&slot.status).restarts = self.plan.restarts(id);
        }
    }

    fn show(&self, id: Id) {
        if let Some(SupervisedChild { slot, pid, .. }) = self.members.get(&id) {
            let phase = self.plan.phase(id);
            let mut status = lock(&slot.status);
            // Otherwise the end of the child's process has been published already, and is passed to the plan next.
            if pid.is_some() || !phase.is_some_and(Phase::is_alive) {
                status.state = ChildState::of(phase);
            }
            status.restarts = self.plan.restarts(id);
        }
    }

    fn ended(&mut self, ended: ChildEnded) {
        let ChildEnded { id, pid, reason, settled } = ended;
        let Some(member) = self.members.get_mut(&id).filter(|member| member.pid == Some(pid)) else { return };
        member.pid = None;
        let is_removed = match settled {
            Settled::Done { is_removed } => is_removed,
            Settled::Left(run, handling) => run.settle_and_tell(pid, &reason, handling),
        };
        member.slot.show_end();
        member.slot.down(&reason);
        self.happened.push_back(match is_removed {
            true => SupervisorEvent::Removed(id, reason),
            false => SupervisorEvent::Ended(id, reason),
        });
    }

    fn asked(&mut self, package: Package) {
        let package = match package.take::<Add>() {
            Ok(Add { slot, rules, start }) => {
                // A child that was added to an earlier run of the supervisor was retired when this run began.
                if self.plan.is_ending() || !self.registry.has(&slot) {
                    let waits = slot.shut(&ExitReason::Shutdown);
                    self.registry.remove(&slot);
                    waits.tell(&ExitReason::Shutdown);
                    // Dropping the closure runs user code.
                    return dispose(Site::ChildDrop, start);
                }
                self.add(slot, rules, start);
                return self.happened.push_back(SupervisorEvent::Begin);
            }
            Err(package) => package,
        };
        let package = match package.take::<Redefine>() {
            Ok(redefine) => return self.redefine(redefine),
            Err(package) => package,
        };
        // A message of another type is a dead letter.
        if let Ok(request) = package.take::<ChildRequest>() {
            let (ChildRequest::Stop(slot) | ChildRequest::Restart(slot)) = &request;
            let id = self.id_of(slot);
            self.happened.extend(id.map(|id| match request {
                ChildRequest::Stop(_) => SupervisorEvent::StopChild(id),
                ChildRequest::Restart(_) => SupervisorEvent::RestartChild(id),
            }));
        }
    }

    fn redefine(&mut self, redefine: Redefine) {
        let Redefine { slot, kind, mut start } = redefine;
        if let Some(member) = self.id_of(&slot).and_then(|id| self.members.get_mut(&id)) {
            slot.redefine(kind);
            std::mem::swap(&mut member.start, &mut start);
        }
        // Dropping the unneeded closure runs user code.
        dispose(Site::ChildDrop, start);
    }

    fn id_of(&self, slot: &Arc<ChildSlot>) -> Option<Id> {
        self.names.get(&slot.name).filter(|id| Arc::ptr_eq(&self.members[id].slot, slot)).copied()
    }

    fn reason(&self, end: SupervisorEnd) -> ExitReason {
        match end {
            _ if self.killed => ExitReason::Killed,
            SupervisorEnd::Asked(reason) => reason,
            SupervisorEnd::GaveUp { restarts, reason, .. } => {
                let (child, handling) = self.failed_child.clone().unwrap_or_else(|| ("?".into(), None));
                let (most, within) = self.plan.limits();
                ExitReason::error(GaveUp { child, restarts, most, within, reason, handling })
            }
        }
    }
}

impl Process for SupervisorProcess {
    fn entries(&self) -> &'static [&'static str] {
        &["supervise"]
    }

    fn init(&mut self, ctx: &mut InitContext<'_>, entry: &str, _input: Payloads) -> Result<(), InitError> {
        let own = ctx.pid().and_then(|pid| Some((pid, TABLE.living(pid)?)));
        let Some((pid, slot)) = own else {
            return Err(unknown_entry("Supervisor", entry, &[]).into());
        };
        self.own = Some((pid, ExitListener { slot, generation: pid.generation(), node: pid.node() }));
        // Exits are trapped so that the children are stopped in order, whichever linked process fails.
        crate::actor::send::links::trap_exits(true);
        self.registry.begun(pid);
        for (slot, spec) in std::mem::take(&mut self.first) {
            self.add(slot, spec.rules, spec.start);
        }
        self.happened.push_back(SupervisorEvent::Begin);
        // Each start is an event, and so is `Begin`. Retried starts wait for the first step.
        for _ in 0..=self.members.len() / IN_ONE_GO {
            self.go_on();
        }
        Ok(())
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        loop {
            self.go_on();
            if let Some(end) = self.end.clone() {
                out.set(StepStatus::Ended(self.reason(end), None));
                return Ok(());
            }
            if !self.happened.is_empty() {
                out.go_on();
            }
            match events.next() {
                Some(Event::Completed { tag: ENDED, result: Ok(payload) }) => match payload.take() {
                    Ok(ended) => self.ended(ended),
                    Err(other) => match other.take() {
                        Ok(started) => self.started_elsewhere(started),
                        Err(other) => _ = other.take().map(|room| self.has_room_abroad(room)),
                    },
                },
                Some(Event::Completed { tag, .. }) if tag > FIRST_LIMIT => self.start_is_late(tag),
                Some(Event::Completed { tag, .. }) => {
                    // The message of a cancelled timer may have been on its way.
                    if let Some(of) = self.numbers.remove(&tag) {
                        self.timers.remove(&of);
                        self.happened.push_back(SupervisorEvent::Due(of, tag));
                    }
                }
                Some(Event::Message(package)) => self.asked(package),
                Some(Event::Signal(Signal::Cancel(Cancel { reason }))) => {
                    if let ExitReason::Killed = reason {
                        // The supervisor ends after its children; otherwise a successor would find their names and
                        // files taken.
                        self.killed = true;
                        self.members.values().filter_map(|member| member.pid).for_each(|pid| _ = pid.kill());
                    }
                    self.happened.push_back(SupervisorEvent::StopAll(reason));
                }
                Some(Event::Signal(Signal::Exit(Exit { pid, reason, .. }))) => {
                    self.happened.push_back(SupervisorEvent::StopAll(ExitReason::linked(pid, reason)));
                }
                Some(Event::Signal(_)) => {}
                None => return Ok(()),
            }
        }
    }

    /// Kills the remaining children if the supervisor ends before them, at the deadline of a shutdown.
    fn close(&mut self) {
        for pid in self.members.values().rev().filter_map(|member| member.pid) {
            pid.kill();
        }
        let timers = std::mem::take(&mut self.timers).into_values().map(|(_, key)| key);
        let limits = std::mem::take(&mut self.start_limits).into_values().map(|(_, key)| key);
        for key in timers.chain(limits) {
            self.host.scheduler().timers.cancel(key);
        }
        let reason = self.end.clone().map_or(ExitReason::Killed, |end| self.reason(end));
        self.registry.end(&reason, self.is_child, self.failed_child.is_some());
    }

    fn handles_cancel(&self) -> bool {
        true
    }
}
