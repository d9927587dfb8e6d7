//! The decision on what comes next in a run.

use super::run::SimRun;
use super::state::{Abort, NextTurn, PlayedHost, Ready, SimulatedHost, State, Until};
use super::trace::TurnKind;
use crate::engine::context::thread::ThreadContext;
use crate::env::clock::Moment;
use crate::exit::Panic;
use crate::slots::TABLE;
use crate::sync::Steal;
use crate::sync::simulated::Mishap;
use std::time::Duration;

/// Simulation time within which the processes of a run must end. It is long enough for their calls and sleeps to time
/// out.
const ENDING: Duration = Duration::from_secs(24 * 3600);

/// Number of turns within which the processes of a run must end.
const ENDING_TURNS: u64 = 100_000;

impl SimRun {
    /// Decides what comes next.
    pub(super) fn next(&self, played: &[PlayedHost]) -> NextTurn {
        let state = &mut *self.state();
        loop {
            self.sweep(state);
            let now = self.clock.moment();
            state.wake(now);
            if self.has_workers(state) {
                if let Some((worker, ready)) = self.choose_worker(state, played) {
                    match self.take_turn(state, ready, Some(worker), now) {
                        Some(next) => return next,
                        None => continue,
                    }
                }
            } else if !state.ready.is_empty() {
                match self.choose(state, now) {
                    Some(next) => return next,
                    None => continue,
                }
            }
            if state.is_ending && !state.are_processes_left() && state.waiting.len() == 1 {
                return state.resume_waiting(|until| until == Until::Ended, now, self.began);
            }
            if state.waiting.iter().any(|waiting| waiting.until == Until::Idle) {
                return state.resume_waiting(|until| until == Until::Idle, now, self.began);
            }
            let deadlines = state.waiting.iter().filter_map(|waiting| match waiting.until {
                Until::Unparked(deadline) => Some(deadline),
                Until::Idle | Until::Ended => None,
            });
            let limit = deadlines.chain(state.slowed.iter().map(|slowed| slowed.0)).min().unwrap_or(Moment::NEVER);
            let timers = state.hosts.iter().map(|host| host.scheduler.timers.next());
            let next = timers.min().unwrap_or(Moment::NEVER).min(limit);
            if next < Moment::NEVER && !self.is_over(state, next) {
                let late = state.faults.lateness(&mut state.choices);
                state.fired.begin();
                return NextTurn::Leap(limit, late);
            }
            if !state.is_ending && next == Moment::NEVER && state.abort.is_none() {
                let stuck = self.describe_stuck(state);
                state.abort = Some(Abort::Stuck(stuck));
            }
            // The test's thread is unwound first. Once its processes have been killed, the steps that still wait are
            // unwound, too.
            state.gives_up = state.is_ending;
            let is_ending = state.is_ending;
            return state.resume_waiting(|until| !is_ending || until != Until::Ended, now, self.began);
        }
    }

    /// Returns whether the run has taken too long, or its timers fire endlessly. A run that has taken too long is
    /// recorded as aborted.
    fn is_over(&self, state: &mut State, now: Moment) -> bool {
        if state.fired.are_endless() {
            return true;
        }
        let time = if state.is_ending { self.case.max_time.saturating_add(ENDING) } else { self.case.max_time };
        let took = now.since(self.began);
        if state.turns < self.most_turns(state) && took <= time {
            return false;
        }
        if state.abort.is_none() {
            let busiest = state.trace.busiest(10);
            state.abort = Some(Abort::Endless { turns: state.turns, time: took, busiest });
        }
        true
    }

    /// Returns how many turns the run may take, and how many timers may fire without a turn.
    pub(super) fn most_turns(&self, state: &State) -> u64 {
        if state.is_ending { ENDING_TURNS } else { self.case.max_turns }
    }

    /// Moves everything from the queues of the hosts' workers to the list of ready processes and threads.
    pub(super) fn sweep(&self, state: &mut State) {
        if self.has_workers(state) {
            return;
        }
        let ready = &mut state.ready;
        for SimulatedHost { scheduler, drivers } in &state.hosts {
            for index in 0..drivers * self.workers {
                let Some(thread) = scheduler.threads.get(index) else { continue };
                while let Steal::Success(token) = thread.stealer.steal() {
                    ready.push(Ready::Process(token));
                }
                ready.extend(thread.local.take_next().map(Ready::Process));
            }
            for permit in &scheduler.permits {
                ready.extend(std::iter::from_fn(|| permit.inject.pop()).map(Ready::Process));
            }
            ready.extend(std::iter::from_fn(|| scheduler.global.pop()).map(Ready::Process));
        }
    }

    /// Returns whether the scheduler decides what each worker runs. It does not do so while processes are being ended,
    /// since the order in which they end is not a choice.
    fn has_workers(&self, state: &State) -> bool {
        self.workers > 1 && !state.is_ending
    }

    /// Chooses a worker, and takes the process that this worker runs next, or chooses something else that is ready.
    /// Returns `None` if no worker finds anything.
    fn choose_worker(&self, state: &mut State, played: &[PlayedHost]) -> Option<(usize, Ready)> {
        state.follow();
        let workers: smallvec::SmallVec<[&ThreadContext; 4]> =
            played.iter().flat_map(|played| played.thread.workers()).collect();
        let mut left: smallvec::SmallVec<[usize; 4]> = (0..workers.len()).collect();
        while left.len() + state.ready.len() > 0 {
            let at = state.choices.worker(left.len() + state.ready.len());
            if at >= left.len() {
                let ready = state.ready.remove(at - left.len());
                let place = match &ready {
                    Ready::Process(token) | Ready::Slowed(token) => state.place_of(token),
                    Ready::Thread(_) => 0,
                };
                return Some((place * self.workers, ready));
            }
            let worker = left.remove(at);
            if let Some(token) = workers[worker].enter(ThreadContext::find_next) {
                return Some((worker, Ready::Process(token)));
            }
        }
        // The run-next slot of a worker whose step waits is taken only now, as in production.
        state.hosts.iter().enumerate().find_map(|(place, SimulatedHost { scheduler, drivers })| {
            let mut all = (0..drivers * self.workers).filter_map(|index| scheduler.threads.get(index));
            let token = all.find_map(|thread| thread.local.take_next())?;
            Some((place * self.workers, Ready::Process(token)))
        })
    }

    /// Chooses something that is ready. Returns `None` if what was chosen is paused or slowed instead of run.
    fn choose(&self, state: &mut State, now: Moment) -> Option<NextTurn> {
        if self.is_over(state, now) {
            // Everything that is ready stays ready.
            return Some(state.resume_waiting(|_| true, now, self.began));
        }
        state.trace.name_spawned(|index| TABLE.slot(index));
        let actors: smallvec::SmallVec<[u32; 16]> = state.ready.iter().map(|ready| state.actor_of(ready)).collect();
        let touched = std::mem::take(&mut state.touched);
        state.follow();
        if state.is_ending {
            return Some(state.go_first(actors[0]));
        }
        let Some(at) = state.choices.actor(&actors, state.turns, touched) else {
            state.abort = Some(Abort::Explored);
            return Some(state.resume_waiting(|_| true, now, self.began));
        };
        let ready = state.ready.remove(at);
        self.take_turn(state, ready, None, now)
    }

    /// Makes `ready` take its turn, on `worker` if there are several workers. Returns `None` if it is paused or slowed
    /// instead.
    fn take_turn(&self, state: &mut State, ready: Ready, worker: Option<usize>, now: Moment) -> Option<NextTurn> {
        if self.is_over(state, now) {
            state.ready.push(ready);
            return Some(state.resume_waiting(|_| true, now, self.began));
        }
        state.trace.name_spawned(|index| TABLE.slot(index));
        let ready = state.stop_if_paused(ready, now)?;
        let actor = state.actor_of(&ready);
        let at_time = now.since(self.began);
        state.begin_turn();
        let was_slowed = matches!(ready, Ready::Slowed(_));
        match ready {
            Ready::Thread(id) => {
                state.trace.add(at_time, actor, TurnKind::Resumed);
                Some(NextTurn::Thread(state.seat(id)))
            }
            Ready::Process(token) | Ready::Slowed(token) => {
                let kind = token.slot().metadata.kind().map(|kind| kind.type_id);
                let happens = |state: &mut State, mishap| kind.and_then(|of| state.happens(mishap, of));
                let crash = happens(state, Mishap::Crash);
                if crash.is_none()
                    && !was_slowed
                    && let Some(time) = happens(state, Mishap::Slow)
                {
                    state.trace.add(at_time, actor, TurnKind::Slowed(time));
                    state.slowed.push((now.after(time), token));
                    return None;
                }
                state.trace.add(at_time, actor, if crash.is_some() { TurnKind::Crashed } else { TurnKind::Slice });
                let crash = crash
                    .map(|_| Panic { message: "a crash that the test has asked for".into(), place: String::new() });
                state.follow();
                state.note_running(actor);
                Some(match worker {
                    Some(worker) if crash.is_none() => NextTurn::UsualSlice(worker, token),
                    _ => NextTurn::Slice(token, state.choices.budget(), crash),
                })
            }
        }
    }

    /// Describes which processes wait, and for what.
    fn describe_stuck(&self, state: &State) -> Vec<String> {
        let mut lines = Vec::new();
        for waiting in &state.waiting {
            let member = state.members.iter().find(|member| member.id == waiting.id);
            if let Some(member) = member {
                lines.push(format!("{} waits for an answer or an end", state.trace.label(member.actor)));
            }
        }
        for slot in state.hosts.iter().flat_map(|host| host.scheduler.slots()) {
            let names = slot.metadata.names().map_or("?", |(process, _)| process);
            let pid = slot.living().and_then(|generation| Some(slot.owner()?.pid(slot.index(), generation)));
            let (messages, waits) = (slot.lanes.depth(), pid.and_then(crate::deadlock::edges::waits_for));
            if let Some((on, method)) = waits {
                let whom =
                    TABLE.living(on).and_then(|slot| Some(slot.metadata.names()?.0)).unwrap_or("another process");
                lines.push(match method {
                    Some(method) => format!("{names} waits for {whom}, which it has called in {method}"),
                    None => format!("{names} waits for room in the mailbox of {whom}"),
                });
            } else if messages > 0 {
                lines.push(format!("{names} has {messages} messages that it does not take"));
            }
        }
        lines
    }
}
