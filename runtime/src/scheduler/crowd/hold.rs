//! Who is held, and who is let go.

use super::press::Press;
use super::room::Room;
use super::side::{SIDES, State};
use super::{VALVE, bound_of, is_over};
use crate::clock::{Moment, TimeKeeper, TimerKey, instant_now};
use crate::mailbox::lanes::Controls;
use crate::mailbox::node::NodeBox;
use crate::oneshot::Oneshot;
use crate::pid::{Pid, Resident};
use crate::scheduler::host::Host;
use crate::scheduler::lend::while_lent;
use crate::scheduler::local::{Context, with_current};
use crate::sync::{AtomicU64, MutexGuard, Ordering, lock};
use crate::table::{Slot, Token, waiting};

/// Someone who waits for room in a mailbox.
pub(super) enum Waiting {
    /// A process that is held; the number tells this hold from others of the same process.
    Process { slot: &'static Slot, generation: u64, number: u64 },
    /// A thread or a task.
    Room(Room),
}

/// Where a process is held.
pub(super) struct Held {
    at: &'static Slot,
    number: u64,
    host: &'static Host,
    /// Its step waits on its thread.
    room: Option<Room>,
    /// Lets it go after a while.
    valve: Option<TimerKey>,
}

/// Why a process is held no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// There is room.
    Room,
    /// Its own mailbox is over its bound.
    Overfull,
    /// It was told something that does not wait.
    Told,
    /// The one that it is held at waits for it.
    Called,
    /// It has waited for so long.
    Valve,
    /// It is over.
    Ended,
}

impl Context {
    /// Holds the process for as long as the mailbox that it presses on is too full. Gives the token back if it is not to be held.
    #[cold]
    pub(crate) fn hold(&self, token: Token, press: Press) -> Option<Token> {
        let (slot, generation) = (token.slot(), token.generation());
        if !may_be_held(slot, press.on) || !publish(slot, press.on) {
            return Some(token);
        }
        let number = next_number();
        let held = Held { at: press.on, number, host: self.host, room: None, valve: None };
        lock(SIDES.make(slot.index())).held = Some(held);
        // Before it is on a list: who takes it off takes the mark off.
        slot.note_held(true);
        slot.debt.store(HELD_DEBT, Ordering::Relaxed);
        self.host.holds.add_shared(1);
        if !wait_at(press.on, press.generation, Waiting::Process { slot, generation, number }) {
            lift(slot, Why::Room);
            return Some(token);
        }
        if !still_stands(slot) {
            lift(slot, Why::Called);
            return Some(token);
        }
        let valve = move || {
            let is_same = SIDES
                .get(slot.index())
                .is_some_and(|side| lock(side).held.as_ref().is_some_and(|held| held.number == number));
            if is_same {
                lift(slot, Why::Valve);
            }
        };
        if let Some(key) = self.host.later(Moment::now().after(VALVE), Box::new(valve)) {
            let mut side = lock(SIDES.make(slot.index()));
            match side.held.as_mut().filter(|held| held.number == number) {
                Some(held) => held.valve = Some(key),
                None => {
                    drop(side);
                    self.host.forget(key);
                }
            }
        }
        self.stay_held(token)
    }

    /// Lays the token of a held process down again. Gives it back if the process is held no longer.
    #[cold]
    pub(crate) fn stay_held(&self, mut token: Token) -> Option<Token> {
        loop {
            let slot = token.slot();
            if !slot.is_held() {
                slot.debt.store(0, Ordering::Relaxed);
                return Some(token);
            }
            if token.hold().has_signal() {
                lift(slot, Why::Told);
                continue;
            }
            let taken = token.hold().take_control();
            if !taken.is_empty() {
                keep(&mut token, taken);
            }
            match token.lay_wait() {
                Some(again) => token = again,
                None => return None,
            }
        }
    }
}

/// A number that no other hold of the program has.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// That of a process that is held, so that its turn begins with a look at why it should not.
const HELD_DEBT: u8 = u8::MAX;

/// Keeps answers for when the process is let go.
fn keep(token: &mut Token, mut taken: Controls) {
    token.attend(true);
    let extras = token.make_extras();
    while let Some(node) = taken.pop() {
        let node: NodeBox = node;
        extras.controls.push(node);
    }
}

/// Whether `slot` may be held at `at`: not while its own mailbox is over its bound.
fn may_be_held(slot: &'static Slot, at: &'static Slot) -> bool {
    !is_over(slot) && !std::ptr::eq(slot, at)
}

/// Makes the hold an edge in the graph of who waits for whom. Gives whether it can be: not if it would close a ring.
fn publish(slot: &'static Slot, at: &'static Slot) -> bool {
    slot.resident().zip(at.resident()).is_some_and(|(from, to)| waiting::publish_hold(from, to))
}

/// Whether no call has closed a ring with the edge of the hold since it was made: whoever did might not have found the process
/// held yet, so this looks after the mark was set.
fn still_stands(slot: &'static Slot) -> bool {
    slot.resident().is_some_and(waiting::is_held)
}

/// Puts someone on the list of those that wait for room in the mailbox of `at`. Gives whether there was a reason to.
pub(super) fn wait_at(at: &'static Slot, generation: u64, waiting: Waiting) -> bool {
    let Some(bound) = bound_of(at) else { return false };
    let mut state = lock(SIDES.make(at.index()));
    let full = match state.ring.as_ref().filter(|_| at.has_ring()) {
        Some(ring) => state.generation == generation && ring.is_full(),
        None => at.lanes.depth() > bound / 2,
    };
    if !full || !at.is_living(generation) {
        return false;
    }
    state.waiting.push_back(waiting);
    make_it_look(at, generation, state);
    true
}

/// Sees to it that the process looks at its list, on which somebody has just been put, before it rests.
fn make_it_look(slot: &'static Slot, generation: u64, state: MutexGuard<'_, State>) {
    slot.note_overfull(true);
    drop(state);
    slot.wake(generation);
}

/// The receiver has a step: those who wait are let go, one if it has begun to catch up, all if `empty`.
pub(crate) fn relieve(slot: &'static Slot, empty: bool) {
    let Some(bound) = bound_of(slot) else { return slot.note_overfull(false) };
    let depth = slot.lanes.depth();
    if !empty && depth > bound / 2 {
        return;
    }
    let Some(side) = SIDES.get(slot.index()) else { return slot.note_overfull(false) };
    let mut state = lock(side);
    let free: Vec<Waiting> =
        if empty { state.waiting.drain(..).collect() } else { state.waiting.pop_front().into_iter().collect() };
    if state.waiting.is_empty() {
        slot.note_overfull(false);
    }
    drop(state);
    free.into_iter().for_each(let_go);
}

/// Lets one go that was taken off a list.
pub(super) fn let_go(waiting: Waiting) {
    match waiting {
        Waiting::Room(room) => room.put(()),
        Waiting::Process { slot, generation, number } => {
            let held = SIDES.get(slot.index()).and_then(|side| {
                let mut state = lock(side);
                let is_same = state.held.as_ref().is_some_and(|held| held.number == number);
                if is_same { state.held.take() } else { None }
            });
            if let Some(held) = held {
                release(slot, generation, held, Why::Room);
            }
        }
    }
}

/// Ends the hold of a process for another reason than that there is room.
pub(crate) fn lift(slot: &'static Slot, why: Why) {
    let Some(held) = SIDES.get(slot.index()).and_then(|side| lock(side).held.take()) else { return };
    // Most often it is among the first: those that have waited longest are.
    if let Some(side) = SIDES.get(held.at.index()) {
        let mut state = lock(side);
        let is_it = |waiting: &Waiting| matches!(waiting, Waiting::Process { number, .. } if *number == held.number);
        if let Some(place) = state.waiting.iter().position(is_it) {
            state.waiting.remove(place);
        }
    }
    if why == Why::Valve {
        held.host.valves.add_shared(1);
        let at = held.at.resident();
        tracing::warn!(process = ?slot.resident(), mailbox = ?at, "a process was held at a full mailbox for {VALVE:?}");
    }
    let generation = slot.last();
    release(slot, generation, held, why);
}

fn release(slot: &'static Slot, generation: u64, held: Held, why: Why) {
    held.host.let_go.add_shared(1);
    if why != Why::Valve
        && let Some(valve) = held.valve
    {
        held.host.forget(valve);
    }
    if let Some(pid) = slot.resident() {
        waiting::withdraw(pid);
    }
    slot.note_held(false);
    match held.room {
        Some(room) => room.put(()),
        None => slot.wake(generation),
    }
}

/// Where a process is held, if it is.
pub(crate) fn held_at(slot: &'static Slot) -> Option<Pid> {
    let side = SIDES.get(slot.index()).filter(|_| slot.is_held())?;
    lock(side).held.as_ref().and_then(|held| held.at.resident())
}

/// The step of `own` has sent so much beyond the bound of `at` that it waits, on its thread, whose worker others have meanwhile.
/// Gives whether there may be room now: not if it would wait for itself, nor without a thread for the worker.
pub(super) fn wait_in_step(own: &'static Slot, at: &'static Slot, generation: u64) -> bool {
    if !may_be_held(own, at) || !publish(own, at) {
        return false;
    }
    let Some(host) = with_current(|context| context.map(|context| context.host)) else { return false };
    let room = Room::new(Oneshot::new());
    let number = next_number();
    let held = Held { at, number, host, room: Some(room.clone()), valve: None };
    lock(SIDES.make(own.index())).held = Some(held);
    own.note_held(true);
    host.holds.add_shared(1);
    let waiting = Waiting::Process { slot: own, generation: own.last(), number };
    // Not on a list: there is room by now. No edge: the other one waits for this, and another look is refused.
    let waited = if wait_at(at, generation, waiting) && still_stands(own) {
        let told = while_lent(|| room.wait(Some(instant_now() + VALVE)));
        if told.is_some_and(|told| told.is_none()) {
            host.valves.add_shared(1);
        }
        told.is_some()
    } else {
        true
    };
    lift(own, Why::Room);
    waited
}
