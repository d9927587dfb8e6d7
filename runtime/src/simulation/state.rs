//! The state of a run: what is ready, what waits, and what comes next.

use super::baton::{Seat, SimThread};
use super::choices::Choices;
use super::explore::Touched;
use super::faults::Faults;
use super::livelock::FiredTimers;
use super::trace::{TEST, Trace, TurnKind};
use crate::engine::host::Scheduler;
use crate::engine::sched::simulated::SimulatedThread;
use crate::engine::slice::scratch::StepScratch;
use crate::env::chance::Random;
use crate::env::clock::Moment;
use crate::exit::Panic;
use crate::slots::{Slot, SlotOwner, TABLE, Token};
use crate::sync::simulated::Mishap;
use crate::sync::{Arc, current_thread};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::thread::ThreadId;
use std::time::Duration;

/// A host of a run.
pub(super) struct SimulatedHost {
    pub(super) scheduler: &'static Scheduler,
    /// Number of drivers that simulate its threads.
    pub(super) drivers: usize,
}

/// One driver's simulation of a host.
pub(super) struct PlayedHost {
    pub(super) thread: SimulatedThread,
    pub(super) scratches: Vec<StepScratch>,
}

/// Why a run was cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// Nothing can continue.
    Stuck(Vec<String>),
    /// Everything that could follow has been explored.
    Explored,
    /// The run took more turns or more time than allowed.
    Endless { turns: u64, time: Duration, busiest: Vec<(String, u64)> },
    /// `timers` timers fired without a turn of any process, the last of them at `time`.
    Livelock { timers: u64, time: Duration, busiest: Vec<(String, u64)> },
}

/// The condition for which a thread waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The thread is unparked, or this moment is reached.
    Unparked(Moment),
    /// Nothing can continue without time passing.
    Idle,
    /// No process is left.
    Ended,
}

pub(super) struct Waiting {
    pub(super) id: ThreadId,
    pub(super) until: Until,
}

/// Something that is ready to continue.
pub(super) enum Ready {
    Process(Token),
    /// A process that was slowed and may run now.
    Slowed(Token),
    Thread(ThreadId),
}

/// The next action of a driver.
pub(super) enum NextTurn {
    /// A time slice with this budget, or a crash.
    Slice(Token, u32, Option<Panic>),
    /// A time slice as in production, on this worker.
    UsualSlice(usize, Token),
    Thread(Arc<Seat>),
    Leap(Moment, Duration),
}

pub(crate) struct State {
    pub(super) ready: Vec<Ready>,
    /// Processes that are not run before the given moment.
    pub(super) slowed: Vec<(Moment, Token)>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) members: Vec<SimThread>,
    /// Drivers that wait for the baton.
    pub(super) idle: Vec<Arc<Seat>>,
    /// The hosts; the first is that of the test.
    pub(super) hosts: Vec<SimulatedHost>,
    /// The indices of paused hosts, and the moments at which they continue.
    pub(super) paused: BTreeMap<usize, Moment>,
    pub(crate) choices: Choices,
    pub(crate) trace: Trace,
    pub(crate) faults: Faults,
    pub(super) turns: u64,
    pub(super) turns_of_body: u64,
    pub(super) fired: FiredTimers,
    /// The source of the random numbers that the test draws.
    pub(crate) random: Random,
    /// Which places of `buggify` are active.
    pub(crate) buggified: BTreeMap<(&'static str, u32), bool>,
    /// Number of times that each condition of `sometimes` has held.
    pub(crate) sometimes: BTreeMap<&'static str, u64>,
    /// What the current turn has touched.
    pub(super) touched: Touched,
    /// What the most recent turn of the body has touched.
    pub(super) touched_by_body: Touched,
    /// Whether the body of the test has ended, in which case the processes are being ended.
    pub(super) is_ending: bool,
    /// Whether steps that wait on their stacks are to be unwound, since nothing else would end them.
    pub(super) gives_up: bool,
    pub(super) abort: Option<Abort>,
}

impl State {
    /// Returns the index of the host of a process.
    pub(super) fn place_of(&self, token: &Token) -> usize {
        let place = self.place_of_slot(token.slot());
        place.unwrap_or_else(|| unreachable!("a token is that of a process of a host of the simulation"))
    }

    pub(super) fn place_of_slot(&self, slot: &Slot) -> Option<usize> {
        let is_its =
            |owner: &SlotOwner| self.hosts.iter().position(|host| owner.is_beside(host.scheduler.slot_owner()));
        slot.owner().and_then(is_its)
    }

    /// Sets `ready` aside if its host is paused, and returns it otherwise.
    pub(super) fn stop_if_paused(&mut self, ready: Ready, now: Moment) -> Option<Ready> {
        if self.paused.is_empty() {
            return Some(ready);
        }
        self.paused.retain(|_, until| *until > now);
        let place = match &ready {
            Ready::Process(token) | Ready::Slowed(token) => Some(self.place_of(token)),
            Ready::Thread(id) => {
                let member = self.members.iter().find(|member| member.id == *id);
                let slot = member.and_then(|member| TABLE.slot(self.trace.slot_of(member.actor)?));
                slot.and_then(|slot| self.place_of_slot(slot))
            }
        };
        let Some(until) = place.and_then(|place| self.paused.get(&place).copied()) else { return Some(ready) };
        match ready {
            Ready::Process(token) | Ready::Slowed(token) => self.slowed.push((until, token)),
            Ready::Thread(id) => {
                if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
                    waiting.until = Until::Unparked(until);
                }
            }
        }
        None
    }

    /// Returns whether any process is still alive.
    pub(super) fn are_processes_left(&self) -> bool {
        self.hosts.iter().any(|host| host.scheduler.gate.inside() > 0)
    }

    /// Returns how long the fault lasts, if it happens now.
    pub(super) fn happens(&mut self, mishap: Mishap, of: TypeId) -> Option<Duration> {
        if self.is_ending { None } else { self.faults.happens(&mut self.choices, mishap, of) }
    }

    /// Stops the replay if this run has departed from the run that it replays.
    pub(super) fn follow(&mut self) {
        if self.trace.has_diverged() {
            self.choices.stop_replaying();
        }
    }

    /// Runs the first ready process or thread, since the order in which processes end is not a choice. `actor` is its
    /// actor number.
    pub(super) fn go_first(&mut self, actor: u32) -> NextTurn {
        self.begin_turn();
        match self.ready.remove(0) {
            Ready::Thread(id) => NextTurn::Thread(self.seat(id)),
            Ready::Process(token) | Ready::Slowed(token) => {
                self.note_running(actor);
                NextTurn::Slice(token, crate::process::slice::BUDGET, None)
            }
        }
    }

    pub(super) fn begin_turn(&mut self) {
        self.turns += 1;
        self.fired.end();
    }

    /// Records the process that the calling thread runs.
    pub(super) fn note_running(&mut self, actor: u32) {
        let id = current_thread().id();
        if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
            member.actor = actor;
        }
    }

    pub(super) fn seat(&self, id: ThreadId) -> Arc<Seat> {
        let member = self.members.iter().find(|member| member.id == id);
        member.map(|member| member.seat.clone()).unwrap_or_else(|| unreachable!("it waits in this run"))
    }

    pub(super) fn actor_of(&self, ready: &Ready) -> u32 {
        match ready {
            Ready::Process(token) | Ready::Slowed(token) => self.trace.actor(token.slot()),
            Ready::Thread(id) => {
                self.members.iter().find(|member| member.id == *id).map_or(TEST, |member| member.actor)
            }
        }
    }

    /// Makes ready everything that waits for a moment that has come.
    pub(super) fn wake(&mut self, now: Moment) {
        for waiting in &mut self.waiting {
            if matches!(waiting.until, Until::Unparked(deadline) if deadline <= now) {
                self.ready.push(Ready::Thread(waiting.id));
                waiting.until = Until::Unparked(Moment::NEVER);
            }
        }
        let mut at = 0;
        while at < self.slowed.len() {
            if self.slowed[at].0 <= now {
                self.ready.push(Ready::Slowed(self.slowed.remove(at).1));
            } else {
                at += 1;
            }
        }
    }

    /// Passes the baton to a waiting thread that `which` accepts: to the test's thread if possible, and otherwise to
    /// the first such thread.
    pub(super) fn resume_waiting(&mut self, which: impl Fn(Until) -> bool, now: Moment, began: Moment) -> NextTurn {
        self.fired.begin();
        let mut those = self.waiting.iter().filter(|waiting| which(waiting.until));
        let main = self.members.first().map(|member| member.id);
        let first = those.clone().find(|waiting| Some(waiting.id) == main).or_else(|| those.next());
        let id = first.map(|waiting| waiting.id).or(main).unwrap_or_else(|| unreachable!("the test is a member"));
        let at = self.ready.iter().position(|ready| matches!(ready, Ready::Thread(other) if *other == id));
        if let Some(at) = at {
            self.ready.remove(at);
        }
        let actor = self.members.iter().find(|member| member.id == id).map_or(TEST, |member| member.actor);
        self.trace.add(now.since(began), actor, TurnKind::Resumed);
        NextTurn::Thread(self.seat(id))
    }
}
