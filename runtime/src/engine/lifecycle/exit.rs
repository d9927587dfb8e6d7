//! The exit of a process. The order of the steps is the contract:
//!
//! 1. its PID becomes unroutable: later messages are returned to their senders;
//! 2. `close` is called once, then its state is dropped;
//! 3. its names become free, and it is removed from its groups and topics;
//! 4. messages left in its mailbox go to its guardian, if that keeps them for a successor; otherwise they become dead
//!    letters, and their callers get the exit reason. Then its token is parked as that of a vacant slot, so that a
//!    sender that saw the process alive and pushes only now gets its message back: no dead letter follows the
//!    notifications below. (If no other process is notified of the end, the token may be kept instead, for the next
//!    process: see [`vacant_slots`](crate::thread_cache::vacant_slots));
//! 5. its guardian counts it as ended, which frees the name of a child that does not come back;
//! 6. the complete hooks are called;
//! 7. it is counted out of the gate;
//! 8. linked and monitoring processes are notified, then the waiters for its end, then its guardian;
//! 9. the rest of its data, including its exit reason, is dropped;
//! 10. its slot can be reused; not earlier, since code that the notifications call still runs as this process.
//!
//! A process that ends normally, has left nothing behind, and has no process to notify of its end goes through the same
//! steps, but without checking for anything to clean up (`end_plainly`). After its `close`, a check shows whether it
//! has left something after all: if so, the remaining steps are those of any other process.
//!
//! A sender that is preempted between its check and its push also gets its message back, with two exceptions. Two such
//! senders may push at the same time: the first gets the token of the vacant slot and empties the slot, and the
//! second's message becomes a dead letter. Or another process may have started in the slot: it then finds a message
//! that was not meant for it. In these cases the dead letter comes shortly after the notifications. To close that gap,
//! a sender would have to check again after its push, and wait for the thread that empties the mailbox and runs user
//! hooks: each message would pay for that, and two threads could wait for each other.
//! [Requests](crate::slots::slot::requests) have no such gap; and a call checks again after its push, so that its
//! caller is notified at once.
//!
//! # Panics
//!
//! Many of these steps call user code: `close`, drops, hooks, wakers, and the `Display` of logged values. Each such
//! call has its own guard, and all of them together have one more: a panic that escapes from anywhere costs only the
//! action that it interrupted, and the exit continues with the next. So every exit completes, and the token is never
//! lost.

use crate::call::caller::Caller;
use crate::call::dead_letter::DeadLetterReason;
use crate::engine::backpressure::suspend;
use crate::engine::context::own::send_link_message;
use crate::engine::context::values::has_values;
use crate::engine::host::Scheduler;
use crate::engine::host::hooks::Started;
use crate::engine::host::incidents::{AbnormalEnd, reason_text};
use crate::env::clock::instant_now;
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
use crate::recorder::event::EndKind;
use crate::routing::router::package_of;
use crate::slots::{ColdState, Slot, TABLE, Token};
use crate::sync::{Ordering, lock, yield_now};
use crate::util::dispose::dispose;
use crate::util::panics::{Shown, Site, contain, contain_at};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;

/// Exits the process of `token`. Returns the token if its slot can be kept: see
/// [`vacant_slots`](crate::thread_cache::vacant_slots). Does not panic.
#[must_use = "the token may still be held"]
pub(crate) fn end(
    host: &'static Scheduler,
    token: Token,
    body: Option<Body>,
    reason: ExitReason,
    result: Option<Payload>,
) -> Option<Token> {
    let pid = pid_of(&token);
    ExitingProcess::new(host, token, pid, (body, reason, result)).end(0)
}

/// Like [`end`], for a process that ends normally and without a result.
#[must_use = "the token may still be held"]
#[inline(always)]
pub(crate) fn end_normally(host: &'static Scheduler, mut token: Token, body: Option<Body>) -> Option<Token> {
    let pid = pid_of(&token);
    match body {
        // With the feature `spans`, the stages enter the span of the end.
        Some(body) if !cfg!(feature = "spans") && !token.has_cold_state() => {
            match end_plainly(host, &mut token, pid, body) {
                Ok(()) => Some(token),
                Err(panic) => end_closed(host, token, pid, panic),
            }
        }
        body => ExitingProcess::new(host, token, pid, (body, ExitReason::Normal, None)).end(0),
    }
}

#[inline]
fn pid_of(token: &Token) -> Pid {
    token.pid().unwrap_or_else(|| unreachable!("a process ends once"))
}

/// Performs all steps of the exit of a process that has left nothing behind. Its slot is vacant afterwards. Does not
/// panic, since only code of the runtime follows `close`.
///
/// # Errors
/// The process has left something behind, or another process must be notified of its end: only the first two steps have
/// been performed. The error contains the panic of `close`, if there was one.
#[inline]
fn end_plainly(host: &'static Scheduler, token: &mut Token, pid: Pid, body: Body) -> Result<(), Option<ExitReason>> {
    Token::close(token);
    let panic = close(body, &ExitReason::Normal);
    debug_assert!(!token.has_cold_state() && !has_values(), "a process that ends gets neither");
    let is_member = REGISTRATIONS.may_have(pid);
    let has_mail = token.lanes().has_control() || !token.lanes().is_data_empty();
    if is_member || has_mail || panic.is_some() || !may_keep_slot(host, token) {
        return Err(panic);
    }
    #[cfg(test)]
    crate::sync::window::pass(crate::sync::window::Window::BeforeReuse);
    host.leave();
    host.give_place_back();
    Ok(())
}

/// Continues the exit of a process after its first two steps.
#[cold]
#[inline(never)]
fn end_closed(host: &'static Scheduler, token: Token, pid: Pid, panic: Option<ExitReason>) -> Option<Token> {
    let mut ending = ExitingProcess::new(host, token, pid, (None, ExitReason::Normal, None));
    if let Some(panic) = panic
        && let Err(panic) = contain(Site::Backstop, || ending.note_panic(&panic))
    {
        ending.interrupted(&panic);
    }
    ending.end(CLOSED)
}

/// Returns true if the token of a vacant slot need not be parked, because no process is notified of the end. A late
/// dead letter then follows no notification.
#[inline]
fn may_keep_slot(host: &Scheduler, token: &Token) -> bool {
    if crate::sync::simulated::is_here() {
        return false;
    }
    token.is_reusable() && !token.slot().has_mailbox_state() && !host.is_observed()
}

/// The stage of an exit after which the process is closed, and its state dropped.
const CLOSED: u8 = 2;

/// The last stage of an exit.
const LAST: u8 = 13;

/// Maximum number of notified processes that the record of an end names.
const TOLD: usize = 16;

struct ExitingProcess {
    host: &'static Scheduler,
    slot: &'static Slot,
    pid: Pid,
    /// The last stage that has begun.
    begun: u8,
    /// The token, until it is parked.
    token: Option<Token>,
    /// The token of the vacant slot, if it is not parked.
    vacant: Option<Token>,
    body: Option<Body>,
    reason: ExitReason,
    result: Option<Payload>,
    /// The type of the message that the process was handling when it failed.
    handling: Option<&'static str>,
    cold_state: Option<Box<ColdState>>,
}

impl ExitingProcess {
    fn new(
        host: &'static Scheduler,
        token: Token,
        pid: Pid,
        (body, reason, result): (Option<Body>, ExitReason, Option<Payload>),
    ) -> Self {
        let slot = token.slot();
        Self {
            host,
            slot,
            pid,
            begun: 0,
            token: Some(token),
            vacant: None,
            body,
            reason,
            result,
            handling: None,
            cold_state: None,
        }
    }

    /// Performs the stages after the first `done` ones. Returns the token of the vacant slot, if it can be kept.
    fn end(mut self, done: u8) -> Option<Token> {
        let is_reusable = self.token.as_ref().is_some_and(Token::is_reusable);
        self.begun = done;
        while let Err(panic) = self.go(self.begun) {
            self.interrupted(&panic);
        }
        let vacant = self.vacant.take();
        if is_reusable && vacant.is_none() {
            TABLE.free(self.slot.index());
        }
        vacant
    }

    #[cold]
    fn interrupted(&self, panic: &Panic) {
        let pid = self.pid;
        crate::util::log::error!(%pid, %panic, "a panic interrupted the exit of a process, which continues");
    }

    /// Runs the stages after the first `done` ones. A panic skips the rest of its stage.
    fn go(&mut self, done: u8) -> Result<(), Panic> {
        contain(Site::Backstop, || {
            self.stage(done, 1, Self::report);
            self.stage(done, CLOSED, Self::close);
            self.stage(done, 3, Self::leave_registrants);
            self.stage(done, 4, Self::empty_mailbox);
            self.stage(done, 5, Self::settle);
            self.stage(done, 6, Self::complete);
            self.stage(done, 7, |this| {
                this.host.leave();
                this.host.give_place_back();
            });
            self.stage(done, 8, Self::tell_bound);
            self.stage(done, 9, Self::tell_waiting);
            // The remaining data may hold the last references to user values, so each part of it is dropped in a stage
            // of its own.
            self.stage(done, 10, |this| this.result = None);
            self.stage(done, 11, |this| this.cold_state = None);
            self.stage(done, 12, |_| crate::engine::context::values::forget_values());
            self.stage(done, LAST, |this| this.reason = ExitReason::Normal);
        })
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
        use crate::util::log;
        let Started { pid, process, entry, .. } = self.host.describe(self.slot, self.pid);
        let (label, message_type) = (self.host.label(pid), handling::seen(pid));
        let label = label.as_deref();
        match reason {
            ExitReason::Panic(panic) => {
                let Panic { message, place } = &**panic;
                log::error!(%pid, process, entry, label, panic = %message, %place, message_type, "process panicked");
            }
            // The first exit in a chain of links was logged already.
            ExitReason::Killed | ExitReason::Cancelled(_) | ExitReason::Linked { .. } => {
                log::debug!(%pid, process, entry, label, reason = %Shown(reason), "process ended")
            }
            reason => log::warn!(%pid, process, entry, label, reason = %Shown(reason), message_type, "process failed"),
        }
    }

    #[inline]
    fn close(&mut self) {
        let Some(token) = &mut self.token else { return };
        token.close();
        let successor = token.cold_state().and_then(|cold_state| cold_state.guardian.clone());
        let Some(body) = self.body.take() else { return };
        let _span = crate::observe::spans::enter_stop(self.pid);
        if let Some(panic) = while_leaving(successor, || close(body, &self.reason)) {
            self.note_panic(&panic);
        }
    }

    /// Records that `close`, or the drop of the state, has panicked.
    fn note_panic(&mut self, panic: &ExitReason) {
        if self.reason.is_normal() {
            self.reason = panic.clone();
        }
        self.log(panic);
    }

    #[inline]
    fn leave_registrants(&mut self) {
        REGISTRATIONS.end(self.pid, &self.reason);
        let has_failed = !self.reason.is_normal();
        if has_failed {
            self.handling = handling::take(self.pid);
        }
        let Some(token) = &mut self.token else { return };
        self.cold_state = token.take_cold_state();
        if has_failed && self.host.incidents.is_watched() {
            self.keep();
        }
        if let Some(cold_state) = &self.cold_state {
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
            // Usually nothing is left. From here on, anything that arrives prevents the token from being parked.
            if self.cold_state.is_some() || token.lanes().has_control() || !token.lanes().is_data_empty() {
                empty(&mut token, &mut self.cold_state, self.pid, &self.reason);
            }
            if self.slot.has_mailbox_state() {
                release_mailbox(&token, &self.reason);
            }
            let is_told = self.result.is_some() || self.cold_state.is_some();
            if !is_told && matches!(self.reason, ExitReason::Normal) && may_keep_slot(self.host, &token) {
                self.vacant = Some(token);
                return;
            }
            match token.park_vacant() {
                // A sender that saw the process alive is about to push, or has just pushed.
                Some(again) => token = again,
                None => return,
            }
            yield_now();
        }
    }

    /// Makes the guardian count the process as ended before others are notified of the end, so that they find its name
    /// free.
    #[inline]
    fn settle(&mut self) {
        if let Some(guardian) = self.cold_state.as_ref().and_then(|cold_state| cold_state.guardian.as_ref()) {
            guardian.settle(self.pid, &self.reason, self.handling);
        }
    }

    #[inline]
    fn complete(&mut self) {
        // The label is not removed earlier, since log events about what was left in the mailbox show it.
        if self.cold_state.as_ref().is_some_and(|cold_state| cold_state.labelled) {
            lock(&self.host.labels).remove(&self.pid);
        }
        if self.host.is_observed() {
            self.host.note_end(self.slot, self.pid, end_kind(&self.reason));
            let ended = self.host.describe(self.slot, self.pid);
            self.host.with_user(|user| user.hooks.complete(&ended, &self.reason));
        }
    }

    /// Stores the end for observers of incidents.
    #[cold]
    fn keep(&self) {
        let Started { pid, process, entry, parent } = self.host.describe(self.slot, self.pid);
        let links = self.cold_state.as_ref().and_then(|cold_state| cold_state.links.as_deref());
        let told = links.map_or_else(Vec::new, |links| links.links().chain(links.watchers()).take(TOLD).collect());
        self.host.incidents.ended(AbnormalEnd {
            at: instant_now(),
            pid,
            process,
            entry,
            label: self.host.label(pid),
            parent,
            place: self.slot.metadata.place(),
            reason: reason_text(&self.reason),
            message: self.handling,
            told,
            supervised: self.cold_state.as_ref().is_some_and(|cold_state| cold_state.guardian.is_some()),
        });
    }

    #[inline]
    fn tell_bound(&mut self) {
        if let Some(links) = self.cold_state.as_mut().and_then(|cold_state| cold_state.links.take()) {
            tell_bound(self.slot, self.pid, *links, &self.reason);
        }
    }

    /// Notifies the waiters. Their wakers are foreign code, and each is called under its own guard.
    #[inline]
    fn tell_waiting(&mut self) {
        let Some(cold_state) = &mut self.cold_state else { return };
        let result = self.result.take();
        if let Some(waiter) = cold_state.result.take() {
            guarded(|| waiter.ended_while(&self.reason, result, self.handling));
        }
        for join in cold_state.joined.drain(..) {
            guarded(|| join.notify(&self.reason));
        }
        if let Some(guardian) = cold_state.guardian.take() {
            guardian.ended(self.pid, &self.reason, self.handling);
        }
    }
}

/// Returns the short form of an exit reason, for the recorder.
fn end_kind(reason: &ExitReason) -> EndKind {
    match reason {
        ExitReason::Normal => EndKind::Normal,
        ExitReason::Shutdown | ExitReason::Cancelled(_) => EndKind::Cancelled,
        ExitReason::Killed => EndKind::Killed,
        ExitReason::Panic(_) => EndKind::Panic,
        ExitReason::Linked { .. } => EndKind::Linked,
        _ => EndKind::Failed,
    }
}

/// Resumes the processes that are suspended at a process that has ended, and turns the contents of its queue into dead
/// letters.
pub(crate) fn release_mailbox(token: &Token, reason: &ExitReason) {
    if token.slot().has_mailbox_state() {
        for envelope in suspend::end(token.slot()) {
            token.dead_letter(envelope, DeadLetterReason::Ended, reason);
        }
    }
}

pub(crate) fn tell_bound(slot: &'static Slot, pid: Pid, links: Links<Pid>, reason: &ExitReason) {
    let (owned, messages) = links.end(reason);
    for other in owned {
        other.cancel(ExitReason::Shutdown);
    }
    for (other, message) in messages {
        send_link_message((slot, pid), other, message);
    }
}

/// Runs foreign code after the end of a process. A panic in it is logged, and has no other consequence for the exit.
fn guarded(body: impl FnOnce()) {
    if let Err(panic) = contain(Site::Backstop, body) {
        crate::util::log::error!(%panic, "a waiter for the end of a process panicked");
        crate::call::caller::blame(&ExitReason::NoProcess);
    }
}

/// Calls `close` and drops the state. Returns the panic of either; does not panic itself.
#[inline]
pub(crate) fn close(body: Body, reason: &ExitReason) -> Option<ExitReason> {
    crate::call::caller::while_ending(reason, || {
        let (mut body, site) = (Some(body), Cell::new(Site::Close));
        let closed = contain_at(&site, || {
            if let Some(body) = &mut body {
                body.close();
            }
            site.set(Site::StateDrop);
            drop(body.take());
        });
        // The body is still there if its `close` has panicked.
        let dropped = body.map_or(Ok(()), |body| contain(Site::StateDrop, || drop(body)));
        let panic = closed.and(dropped).err().map(|panic| ExitReason::Panic(panic.into()));
        // Blaming wakes callers, and this runs foreign code.
        if crate::call::caller::has_orphans()
            && let Err(panic) = contain(Site::Backstop, || crate::call::caller::blame(panic.as_ref().unwrap_or(reason)))
        {
            crate::util::log::error!(%panic, "the waker of a caller panicked");
        }
        panic
    })
}

/// Hands the remaining messages to the guardian, up to the last one from a sender that got the PID from the guardian.
fn hand_on(token: &mut Token, guardian: &dyn Guardian, pid: Pid, reason: &ExitReason) {
    guardian.ending();
    // Waiting senders are resumed first, since the guardian waits for them, too.
    let queue = if token.slot().has_mailbox_state() { suspend::end(token.slot()) } else { VecDeque::new() };
    let mut queue = queue.into_iter();
    guardian.quiesce();
    loop {
        match token.lanes().pop_data() {
            // A placeholder marks the place of an item in the queue.
            Some(Envelope { kind: NodeKind::Placeholder, .. }) => {
                let envelope = queue.next();
                envelope.into_iter().for_each(|envelope| transfer_unhandled(token, guardian, pid, envelope, reason));
            }
            Some(envelope) => transfer_unhandled(token, guardian, pid, envelope, reason),
            None if token.lanes().is_data_empty() => break,
            // The sender of the next envelope was preempted before it linked its node.
            None => yield_now(),
        }
    }
    for envelope in queue {
        transfer_unhandled(token, guardian, pid, envelope, reason);
    }
}

/// Hands one envelope to the guardian. Anything that is not a message, or that the guardian refuses, is disposed of.
fn transfer_unhandled(token: &Token, guardian: &dyn Guardian, pid: Pid, envelope: Envelope, reason: &ExitReason) {
    let Envelope { kind, generation, .. } = envelope;
    if kind != NodeKind::Message || generation != pid.generation() {
        let why = if generation == pid.generation() { reason } else { &ExitReason::NoProcess };
        return token.dead_letter(envelope, DeadLetterReason::Ended, why);
    }
    // SAFETY: the word of a message is its caller, or null, and this envelope is its only holder.
    if let Err(package) = guardian.take_unhandled(unsafe { package_of(pid, envelope) }) {
        let (_, payload, caller) = package.into_parts();
        let word = caller.map_or(ptr::null_mut(), Caller::into_word);
        let envelope = Envelope { kind, generation, word, payload: Some(payload) };
        token.dead_letter(envelope, DeadLetterReason::Ended, reason);
    }
}

/// Turns the remaining contents of the lanes into dead letters and notifications.
fn empty(token: &mut Token, cold_state: &mut Option<Box<ColdState>>, pid: Pid, reason: &ExitReason) {
    while let Some(envelope) = token.lanes().pop_data() {
        let why = if envelope.generation == pid.generation() { reason } else { &ExitReason::NoProcess };
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
                    Control::Link(sent) => receive(token.slot(), pid, cold_state.get_or_insert_default(), *sent),
                    other => dispose(Site::EventDrop, other),
                }
            } else if envelope.kind != NodeKind::Signal {
                token.slot().owner().inspect(|owner| {
                    owner.late.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
    }
}

/// Applies a link message to a process that has ended but has not yet notified others.
fn receive(slot: &'static Slot, pid: Pid, cold_state: &mut ColdState, sent: SentLinkMessage) {
    let (sender, _, Some(message)) = sent.open() else { return };
    let effect = cold_state.links().receive(sender, &message);
    dispose(Site::ReasonDrop, message);
    if let LinkEffect::Answer(answer) = effect {
        send_link_message((slot, pid), sender.0, answer);
    }
}

// With the feature `spans`, all ends go through the stages.
#[cfg(all(test, not(feature = "spans")))]
mod tests;
