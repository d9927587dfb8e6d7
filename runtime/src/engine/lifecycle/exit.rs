//! How a process ends. The order is the promise:
//!
//! 1. its PID becomes unroutable: what is sent from here on comes back to its sender;
//! 2. `close`, once, then its state is dropped;
//! 3. its names are free, and it belongs to no group and no topic any more;
//! 4. what was left in its mailbox goes to its guardian, if that keeps it for a successor; else it is dead letters,
//!    whose callers learn why it ended. Then its token is parked as that of a slot without a process, so that a
//!    sender that has seen it alive, and comes to push only now, gets its message back: no dead letter follows what is
//!    told from here on;
//! 5. the complete hooks are called;
//! 6. it is counted out;
//! 7. those that it was bound to are told, then those that wait for its end;
//! 8. the last that is kept of it, its exit reason among it, is dropped;
//! 9. its slot can carry another process: not before, since the code of those who are told still runs as this one.
//!
//! That holds for a sender who is put aside between its look and its push, unless two of them come to push at the same
//! time (the first has the token of the vacant slot and empties it, and what the second has pushed meanwhile is a dead
//! letter), or another process has begun in the slot by then (which finds what was not meant for it). Then the dead
//! letter comes a moment after the end was told. To close that gap a sender would have to look again after its push,
//! and to wait for the thread that empties the mailbox, hooks of users included: each message would pay for it, and two
//! threads could wait for each other.
//!
//! # Panics
//!
//! Much of this calls code of users: `close`, drops, hooks, wakers, and the `Display` of what is logged. Each such call
//! is under a guard of its own, and all of it under one more: a panic that escapes from anywhere costs the one thing
//! that was being done, and the end goes on with the next. So an end always comes to its end, and the token is never
//! lost.

use crate::call::caller::Caller;
use crate::call::dead_letter::DeadLetterReason;
use crate::call::package::Package;
use crate::engine::context::own::say;
use crate::engine::host::Scheduler;
use crate::engine::host::hooks::Started;
use crate::exit::{ExitReason, Panic};
use crate::links::message::SentLinkMessage;
use crate::links::protocol::{LinkEffect, Links};
use crate::links::registrations::REGISTRATIONS;
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use crate::process::body::Body;
use crate::process::control::Control;
use crate::process::guardian::{Guardian, while_leaving};
use crate::process::handling;
use crate::slots::{ColdState, Slot, TABLE, Token};
use crate::sync::{Ordering, lock, yield_now};
use crate::util::panics::{Shown, Site, contain, dispose, ignore};
use std::ptr;
use std::sync::Arc;

/// Ends the process whose token this is. Does not panic.
pub(crate) fn end(
    host: &'static Scheduler,
    token: Token,
    body: Option<Body>,
    reason: ExitReason,
    result: Option<Payload>,
) {
    let (Some(pid), slot, is_reusable) = (token.pid(), token.slot(), token.is_reusable()) else {
        unreachable!("a process ends once")
    };
    let token = Some(token);
    let mut ending =
        ExitingProcess { host, slot, pid, begun: 0, token, body, reason, result, handling: None, cold_state: None };
    let mut gone = ending.go();
    while let Err(panic) = gone {
        ignore(Site::Backstop, || crate::util::log::error!(%pid, %panic, "a panic came from the end of a process"));
        gone = ending.go_on(ending.begun);
    }
    if is_reusable {
        TABLE.free(slot.index());
    }
}

/// A process on its way out.
struct ExitingProcess {
    host: &'static Scheduler,
    slot: &'static Slot,
    pid: Pid,
    /// The stage that has begun last.
    begun: u8,
    /// Until it is parked.
    token: Option<Token>,
    body: Option<Body>,
    reason: ExitReason,
    result: Option<Payload>,
    /// The type of the message that it failed in.
    handling: Option<&'static str>,
    cold_state: Option<Box<ColdState>>,
}

impl ExitingProcess {
    /// All stages, of which a panic costs the rest of one.
    #[inline]
    fn go(&mut self) -> Result<(), Panic> {
        contain(Site::Backstop, || self.go_from(0))
    }

    /// The same, after so many.
    #[cold]
    fn go_on(&mut self, done: u8) -> Result<(), Panic> {
        contain(Site::Backstop, || self.go_from(done))
    }

    #[inline(always)]
    fn go_from(&mut self, done: u8) {
        self.stage(done, 1, Self::report);
        self.stage(done, 2, Self::close);
        self.stage(done, 3, Self::leave_registrants);
        self.stage(done, 4, Self::empty_mailbox);
        self.stage(done, 5, Self::complete);
        self.stage(done, 6, Self::count_out);
        self.stage(done, 7, Self::tell_bound);
        self.stage(done, 8, Self::tell_waiting);
        // What is left may be the last that holds a value of a user's: each by itself.
        self.stage(done, 9, |this| this.result = None);
        self.stage(done, 10, |this| this.cold_state = None);
        self.stage(done, 11, |_| crate::engine::context::values::forget_values());
        self.stage(done, 12, |this| this.reason = ExitReason::Normal);
    }

    #[inline(always)]
    fn stage(&mut self, done: u8, number: u8, go: impl FnOnce(&mut Self)) {
        if done < number {
            self.begun = number;
            go(self);
        }
    }

    #[inline]
    fn report(&mut self) {
        if !self.reason.is_normal() {
            self.log(&self.reason);
        }
    }

    #[cold]
    fn log(&self, reason: &ExitReason) {
        let process = self.host.describe(self.slot, self.pid);
        report(&process, self.host.label(self.pid), reason, handling::seen(self.pid));
    }

    #[inline]
    fn close(&mut self) {
        let Some(token) = &mut self.token else { return };
        token.close();
        let successor = token.cold_state().and_then(|cold_state| cold_state.guardian.clone());
        let Some(body) = self.body.take() else { return };
        if let Some(panic) = while_leaving(successor, || close(body, &self.reason)) {
            if self.reason.is_normal() {
                self.reason = panic.clone();
            }
            self.log(&panic);
        }
    }

    #[inline]
    fn leave_registrants(&mut self) {
        REGISTRATIONS.end(self.pid, &self.reason);
        if !self.reason.is_normal() {
            self.handling = handling::take(self.pid);
        }
        let Some(token) = &mut self.token else { return };
        self.cold_state = token.take_cold_state();
        if let Some(cold_state) = &self.cold_state {
            if cold_state.labelled {
                lock(&self.host.labels).remove(&self.pid);
            }
            cold_state.timers.iter().for_each(|&timer| _ = self.host.timers.cancel(timer));
        }
    }

    #[inline]
    fn empty_mailbox(&mut self) {
        let Some(mut token) = self.token.take() else { return };
        let guardian = self.cold_state.as_ref().and_then(|cold_state| cold_state.guardian.clone());
        if let Some(guardian) = &guardian {
            hand_on(&mut token, &**guardian, self.pid, &self.reason);
        }
        loop {
            empty(&mut token, &mut self.cold_state, self.pid, &self.reason);
            let_go(&token, &self.reason);
            match token.park_vacant() {
                // A sender that has seen the process alive is not through, or has come by just now.
                Some(again) => token = again,
                None => return,
            }
            yield_now();
        }
    }

    #[inline]
    fn complete(&mut self) {
        if self.host.has_hooks {
            let ended = self.host.describe(self.slot, self.pid);
            self.host.with_user(|user| user.hooks.complete(&ended, &self.reason));
        }
    }

    #[inline]
    fn count_out(&mut self) {
        self.host.leave(self.host.lane());
        self.host.give_place_back();
    }

    #[inline]
    fn tell_bound(&mut self) {
        if let Some(links) = self.cold_state.as_mut().and_then(|cold_state| cold_state.links.take()) {
            tell_bound(self.slot, self.pid, *links, &self.reason);
        }
    }

    /// Those who wait have wakers: code of others, each under its own guard.
    #[inline]
    fn tell_waiting(&mut self) {
        let Some(cold_state) = &mut self.cold_state else { return };
        let result = self.result.take();
        if let Some(waiter) = cold_state.result.take() {
            guarded(|| waiter.ended(&self.reason, result));
        }
        for join in cold_state.joined.drain(..) {
            guarded(|| join.tell(&self.reason));
        }
        if let Some(guardian) = cold_state.guardian.take() {
            guardian.ended(self.pid, &self.reason, self.handling);
        }
    }
}

/// Resumes those that are suspended at a process that has ended, and drops what is left in its ring.
pub(crate) fn let_go(token: &Token, reason: &ExitReason) {
    if token.slot().has_mailbox_state() {
        for envelope in crate::engine::backpressure::entry_points::ended(token.slot()) {
            token.dead_letter(envelope, DeadLetterReason::Ended, reason);
        }
    }
}

/// Tells those that a process was bound to that it has ended.
pub(crate) fn tell_bound(slot: &'static Slot, pid: Pid, links: Links<Pid>, reason: &ExitReason) {
    let (owned, said) = links.end(reason);
    for other in owned {
        other.cancel(ExitReason::Shutdown);
    }
    for (other, said) in said {
        say((slot, pid), other, said);
    }
}

/// Runs code of others after the end of a process, which no panic of theirs can change.
fn guarded(body: impl FnOnce()) {
    if let Err(panic) = contain(Site::Backstop, body) {
        crate::util::log::error!(%panic, "one that waits for the end of a process panicked");
        crate::call::caller::blame(&ExitReason::Gone);
    }
}

/// Calls `close` and drops the state. Returns the panic of either.
pub(crate) fn close(mut body: Body, reason: &ExitReason) -> Option<ExitReason> {
    crate::call::caller::while_ending(reason, || {
        let closed = contain(Site::Close, || body.close());
        let dropped = contain(Site::StateDrop, || drop(body));
        let panic = closed.and(dropped).err().map(|panic| ExitReason::Panic(panic.into()));
        crate::call::caller::blame(panic.as_ref().unwrap_or(reason));
        panic
    })
}

/// Hands on what is left, to the last envelope that was sent by whom the guardian had told the PID.
fn hand_on(token: &mut Token, guardian: &dyn Guardian, pid: Pid, reason: &ExitReason) {
    guardian.ending();
    // First those that wait for room are resumed: they are among those who are waited for next.
    let ring = if token.slot().has_mailbox_state() {
        crate::engine::backpressure::entry_points::ended(token.slot())
    } else {
        Vec::new()
    };
    let mut ring = ring.into_iter();
    guardian.quiesce();
    loop {
        match token.lanes().pop_data() {
            // What is in the ring has its place among the others where its ticket is: what was handed over by the one
            // before has none, and came first.
            Some(Envelope { kind: NodeKind::Ticket, .. }) => {
                ring.next().into_iter().for_each(|envelope| bequeath(token, guardian, pid, envelope, reason));
            }
            Some(envelope) => bequeath(token, guardian, pid, envelope, reason),
            None if token.lanes().is_data_empty() => break,
            // The sender of the next envelope was preempted before it linked it.
            None => yield_now(),
        }
    }
    for envelope in ring {
        bequeath(token, guardian, pid, envelope, reason);
    }
}

/// Hands on one envelope; what is no message, and what the guardian does not keep, goes the way of all.
fn bequeath(token: &Token, guardian: &dyn Guardian, pid: Pid, envelope: Envelope, reason: &ExitReason) {
    let Envelope { kind, generation, word, payload } = envelope;
    let payload = match payload {
        Some(payload) if kind == NodeKind::Message && generation == pid.generation() => payload,
        payload => {
            let why = if generation == pid.generation() { reason } else { &ExitReason::Gone };
            let envelope = Envelope { kind, generation, word, payload };
            return token.dead_letter(envelope, DeadLetterReason::Ended, why);
        }
    };
    // SAFETY: the word of a message is its caller, or null, and this envelope was its only holder.
    let caller = unsafe { Caller::from_word(word) };
    if let Err(package) = guardian.inherit(Package::from_parts(pid, payload, caller)) {
        let (_, payload, caller) = package.into_parts();
        let word = caller.map_or(ptr::null_mut(), Caller::into_word);
        let envelope = Envelope { kind, generation, word, payload: Some(payload) };
        token.dead_letter(envelope, DeadLetterReason::Ended, reason);
    }
}

/// Turns what is left in the lanes into dead letters and joins.
fn empty(token: &mut Token, cold_state: &mut Option<Box<ColdState>>, pid: Pid, reason: &ExitReason) {
    while let Some(envelope) = token.lanes().pop_data() {
        let why = if envelope.generation == pid.generation() { reason } else { &ExitReason::Gone };
        token.dead_letter(envelope, DeadLetterReason::Ended, why);
    }
    let take = |cold_state: &mut Box<ColdState>| {
        (std::mem::take(&mut cold_state.controls), std::mem::take(&mut cold_state.held))
    };
    let (kept, held) = cold_state.as_mut().map(take).unwrap_or_default();
    let queued = token.lanes().take_control();
    for mut controls in [kept, held, queued] {
        while let Some(mut node) = controls.pop() {
            let envelope = node.take();
            node_pool::recycle(node);
            if envelope.kind == NodeKind::Signal
                && envelope.generation == pid.generation()
                && let Some(Ok(control)) = envelope.payload.map(Payload::take::<Control>)
            {
                match control {
                    Control::Join(join) => cold_state.get_or_insert_default().joined.push(join),
                    Control::Bond(bond) => hear(token.slot(), pid, cold_state.get_or_insert_default(), *bond),
                    other => dispose(Site::EventDrop, other),
                }
            } else if envelope.kind != NodeKind::Signal {
                token.slot().home().inspect(|home| {
                    home.late.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
    }
}

/// Hears what was said to a process that has ended and has not told anyone.
fn hear(slot: &'static Slot, pid: Pid, cold_state: &mut ColdState, bond: SentLinkMessage) {
    let (from, _, Some(said)) = bond.open() else { return };
    let effect = cold_state.links().hear(from, &said);
    dispose(Site::ReasonDrop, said);
    if let LinkEffect::Answer(answer) = effect {
        say((slot, pid), from, answer);
    }
}

/// The same for a process that did not start.
pub(crate) fn empty_unborn(token: &mut Token, reason: &ExitReason) {
    while let Some(envelope) = token.lanes().pop_data() {
        token.dead_letter(envelope, DeadLetterReason::Ended, reason);
    }
}

/// Says once what a process ended of, if that is not the ordinary end.
fn report(process: &Started, label: Option<Arc<str>>, reason: &ExitReason, message_type: Option<&str>) {
    let Started { pid, process, entry, .. } = process;
    let label = label.as_deref();
    match reason {
        ExitReason::Panic(panic) => {
            let Panic { message, place } = &**panic;
            crate::util::log::error!(%pid, process, entry, label, panic = %message, %place, message_type, "process panicked");
        }
        // Why the first of a chain of links ended has been said.
        ExitReason::Killed | ExitReason::Cancelled(_) | ExitReason::Linked { .. } => {
            crate::util::log::debug!(%pid, process, entry, label, reason = %Shown(reason), "process ended")
        }
        reason => {
            crate::util::log::warn!(%pid, process, entry, label, reason = %Shown(reason), message_type, "process failed");
        }
    }
}
