//! The functions of a run that the runtime calls, as an implementation of [`Simulator`].

use super::baton::{Instruction, is_this};
use super::run::{Aborted, SimRun};
use super::state::{Abort, Ready, Until, Waiting};
use crate::env::clock::Moment;
use crate::slots::TABLE;
use crate::sync::simulated::{Mishap, Simulator};
use crate::sync::{ThreadHandle, current_thread, lock};
use std::any::TypeId;
use std::time::{Duration, Instant};

/// Number of slots that a simulation leases at a time.
const LEASE: u32 = 64;

impl SimRun {
    /// Lets other threads run until the calling thread may continue.
    pub(super) fn wait(&self, until: Until) {
        let id = current_thread().id();
        let (seat, next) = {
            let mut state = self.state();
            let Some(member) = state.members.iter_mut().find(|member| member.id == id) else { return };
            if std::mem::take(&mut member.unparked) && matches!(until, Until::Unparked(_)) {
                return;
            }
            let seat = member.seat.clone();
            state.waiting.push(Waiting { id, until });
            (seat, state.idle.pop())
        };
        match next {
            Some(next) => next.give(Instruction::Go),
            None => match self.drivers.take() {
                Ok(next) => next.give(Instruction::Drive(self.this())),
                Err(error) => panic!("no thread could be started for the simulation: {error}"),
            },
        }
        seat.wait();
        let mut state = self.state();
        state.waiting.retain(|waiting| waiting.id != id);
        if let Some(member) = state.members.iter_mut().find(|member| member.id == id) {
            member.unparked = false;
        }
        let is_cut_short = (state.abort.is_some() || state.gives_up) && until != Until::Ended;
        drop(state);
        if is_cut_short {
            std::panic::resume_unwind(Box::new(Aborted));
        }
    }
}

impl Simulator for SimRun {
    fn park(&self, timeout: Option<Duration>) {
        let deadline = timeout.map_or(Moment::NEVER, |timeout| self.clock.moment().after(timeout));
        self.wait(Until::Unparked(deadline));
    }

    fn unpark(&self, thread: &ThreadHandle) {
        let mut state = self.state();
        let id = thread.id();
        let Some(at) = state.members.iter().position(|member| member.id == id) else {
            drop(state);
            return thread.unpark();
        };
        let actor = state.members[at].actor;
        state.touched.actors.push(actor);
        let member = &mut state.members[at];
        if is_this(thread) {
            member.unparked = true;
            return;
        }
        let is_ready = state.ready.iter().any(|ready| matches!(ready, Ready::Thread(other) if *other == id));
        match state.waiting.iter().find(|waiting| waiting.id == id) {
            Some(Waiting { until: Until::Unparked(_), .. }) if !is_ready => state.ready.push(Ready::Thread(id)),
            Some(_) => {}
            None => {
                if let Some(member) = state.members.iter_mut().find(|member| member.id == id) {
                    member.unparked = true;
                }
            }
        }
    }

    fn wait_until_idle(&self) {
        self.wait(Until::Idle);
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn is_test(&self) -> bool {
        self.state().members.first().is_some_and(|main| main.id == current_thread().id())
    }

    fn begins_to_wait(&self) {
        self.state().fired.end();
    }

    fn fired(&self) -> bool {
        let state = &mut *self.state();
        let most = self.most_turns(state);
        let hosts = &state.hosts;
        let timers = || hosts.iter().map(|host| host.scheduler.timers.len()).sum();
        if !state.fired.fired(timers, most) {
            return true;
        }
        if state.abort.is_none() {
            state.trace.name_spawned(|index| TABLE.slot(index));
            let label = |actor: Option<u32>| actor.map_or("no process".to_string(), |actor| state.trace.label(actor));
            let busiest = state.fired.busiest(10).into_iter().map(|(actor, count)| (label(actor), count)).collect();
            state.abort = Some(Abort::Livelock { timers: state.fired.count(), time: self.elapsed(), busiest });
        }
        false
    }

    fn mishap(&self, mishap: Mishap, of: TypeId) -> Option<Duration> {
        let state = &mut *self.state();
        state.happens(mishap, of)
    }

    fn touch_everything(&self) {
        self.state().touched.everything = true;
    }

    fn take_slot(&self) -> Option<u32> {
        self.touch_everything();
        let mut slots = lock(&self.slots);
        if slots.is_empty() {
            slots.extend(TABLE.lease(LEASE).into_iter().rev());
        }
        let slot = slots.pop()?;
        self.state().trace.spawned(slot);
        Some(slot)
    }

    fn return_slot(&self, index: u32) {
        self.touch_everything();
        lock(&self.slots).push(index);
    }

    fn delivered(&self, message: &'static str) {
        self.state().trace.delivered(message);
    }

    fn sent(&self, slot: u32) {
        let Some(slot) = TABLE.slot(slot) else { return };
        let state = &mut *self.state();
        if slot.living().is_some() {
            let actor = state.trace.actor(slot);
            state.touched.actors.push(actor);
            state.trace.sent(actor);
            state.fired.sent(actor);
        }
    }
}
