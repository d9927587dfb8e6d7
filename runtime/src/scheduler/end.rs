//! How a process ends. The order is the promise:
//!
//! 1. its PID becomes unroutable: what is sent from here on comes back to its sender;
//! 2. `close`, once, then its state is dropped;
//! 3. its names are free, and it belongs to no group and no topic any more;
//! 4. what was left in its mailbox goes to its guardian, if that keeps it for a successor; else it is dead letters, whose
//!    callers learn why it ended;
//! 5. the complete hooks are called;
//! 6. it is counted out;
//! 7. those that the process was bound to are told, then whoever waits for its end;
//! 8. its slot can carry another process: not before, since the code of those who are told still runs as this one.

use super::hooks::Started;
use super::host::Host;
use super::own::say;
use crate::at_work;
use crate::caller::Caller;
use crate::dead_letter::DeadLetterReason;
use crate::exit::{ExitReason, Panic};
use crate::mailbox::node::{Kind, Letter};
use crate::mailbox::pool;
use crate::memberships::MEMBERSHIPS;
use crate::package::Package;
use crate::payload::Payload;
use crate::pid::Pid;
use crate::process::body::Body;
use crate::process::control::Control;
use crate::process::guardian::{Guardian, while_leaving};
use crate::sync::{Ordering, lock, yield_now};
use crate::table::{Extras, Slot, TABLE, Token};
use crate::topology::bond::Bond;
use crate::topology::bonds::{Bonds, Heard};
use std::ptr;

/// Ends the process whose token this is.
pub(crate) fn end(
    host: &'static Host,
    mut token: Token,
    body: Option<Body>,
    reason: ExitReason,
    result: Option<Payload>,
) {
    let Some(pid) = token.pid() else { unreachable!("a process ends once") };
    if !reason.is_normal() {
        report(&host.describe(&token, pid), &reason, at_work::seen(pid));
    }
    token.close();
    let heir = token.extras().and_then(|extras| extras.guardian.clone());
    let panic = body.and_then(|body| while_leaving(heir, || close(body, &reason)));
    let reason = match panic {
        Some(panic) => {
            report(&host.describe(&token, pid), &panic, at_work::seen(pid));
            if reason.is_normal() { panic } else { reason }
        }
        None => reason,
    };
    MEMBERSHIPS.end(pid, &reason);
    let handling = if reason.is_normal() { None } else { at_work::take(pid) };
    let mut extras = token.take_extras();
    if let Some(extras) = &extras {
        if extras.labelled {
            lock(&host.labels).remove(&pid);
        }
        for &timer in &extras.timers {
            host.timers.cancel(timer);
        }
    }
    empty(&mut token, &mut extras, pid, &reason);
    let_go(&token, &reason);
    if host.has_hooks {
        let started = host.describe(&token, pid);
        host.with_user(|user| user.hooks.complete(&started, &reason));
    }
    host.leave(host.lane());
    host.give_place_back();
    if let Some(extras) = extras {
        let Extras { result: waits_for_result, joined, values, bonds, guardian, .. } = *extras;
        if let Some(bonds) = bonds {
            tell_bound(token.slot(), pid, *bonds, &reason);
        }
        // Those who wait have wakers, and values have drops: code of others, each under its own guard.
        if let Some(waiter) = waits_for_result {
            guarded(|| waiter.ended(&reason, result));
        }
        for join in joined {
            guarded(|| join.tell(&reason));
        }
        guarded(|| drop(values));
        if let Some(guardian) = guardian {
            guardian.ended(pid, &reason, handling);
        }
    }
    // The thread's own hold on them, which may be the last.
    super::values::forget_values();
    TABLE.take_back(token);
}

/// Lets those go that are held at a process that has ended, and what is left in its ring.
pub(crate) fn let_go(token: &Token, reason: &ExitReason) {
    if token.slot().has_side() {
        for letter in super::crowd::watch::ended(token.slot()) {
            token.dead_letter(letter, DeadLetterReason::Ended, reason);
        }
    }
}

/// Tells those that a process was bound to that it has ended.
pub(crate) fn tell_bound(slot: &'static Slot, pid: Pid, bonds: Bonds<Pid>, reason: &ExitReason) {
    let (owned, said) = bonds.end(reason);
    for other in owned {
        other.cancel(ExitReason::Shutdown);
    }
    for (other, said) in said {
        say((slot, pid), other, said);
    }
}

/// Runs code of others after the end of a process, which no panic of theirs can change.
fn guarded(body: impl FnOnce()) {
    if let Err(panic) = crate::panics::contain(body) {
        tracing::error!(%panic, "whoever waits for the end of a process, or the drop of its values, panicked");
        crate::caller::blame_nobody();
    }
}

/// Calls `close` and drops the state. Gives the panic of either.
pub(crate) fn close(mut body: Body, reason: &ExitReason) -> Option<ExitReason> {
    crate::caller::while_ending(reason, || {
        let closed = crate::panics::contain(|| body.close());
        let dropped = crate::panics::contain(|| drop(body));
        let panic = closed.and(dropped).err().map(|panic| ExitReason::Panic(panic.into()));
        crate::caller::blame(panic.as_ref().unwrap_or(reason));
        panic
    })
}

/// Hands on what is left, to the last letter that was sent by whom the guardian had told the PID.
fn hand_on(token: &mut Token, guardian: &dyn Guardian, pid: Pid, reason: &ExitReason) {
    guardian.ending();
    // First those that wait for room are let go: they are among those who are waited for next.
    let ring = if token.slot().has_side() { super::crowd::watch::ended(token.slot()) } else { Vec::new() };
    let mut ring = ring.into_iter();
    guardian.quiesce();
    loop {
        match token.hold().pop_data() {
            // What is in the ring has its place among the others where its ticket is: what was handed over by the one before
            // has none, and came first.
            Some(Letter { kind: Kind::Ticket, .. }) => {
                ring.next().into_iter().for_each(|letter| bequeath(token, guardian, pid, letter, reason));
            }
            Some(letter) => bequeath(token, guardian, pid, letter, reason),
            None if token.hold().is_data_empty() => break,
            // The sender of the next letter was preempted before it linked it.
            None => yield_now(),
        }
    }
    for letter in ring {
        bequeath(token, guardian, pid, letter, reason);
    }
}

/// Hands on one letter; what is no message, and what the guardian does not keep, goes the way of all.
fn bequeath(token: &Token, guardian: &dyn Guardian, pid: Pid, letter: Letter, reason: &ExitReason) {
    let Letter { kind, generation, word, payload } = letter;
    let payload = match payload {
        Some(payload) if kind == Kind::Message && generation == pid.generation() => payload,
        payload => {
            let why = if generation == pid.generation() { reason } else { &ExitReason::Gone };
            let letter = Letter { kind, generation, word, payload };
            return token.dead_letter(letter, DeadLetterReason::Ended, why);
        }
    };
    // SAFETY: the word of a message is its caller, or null, and this letter was its only holder.
    let caller = unsafe { Caller::from_word(word) };
    if let Err(package) = guardian.inherit(Package::from_parts(pid, payload, caller)) {
        let (_, payload, caller) = package.into_parts();
        let word = caller.map_or(ptr::null_mut(), Caller::into_word);
        let letter = Letter { kind, generation, word, payload: Some(payload) };
        token.dead_letter(letter, DeadLetterReason::Ended, reason);
    }
}

/// Turns what is left in the lanes into dead letters and joins, or hands it on.
fn empty(token: &mut Token, extras: &mut Option<Box<Extras>>, pid: Pid, reason: &ExitReason) {
    if let Some(guardian) = extras.as_ref().and_then(|extras| extras.guardian.clone()) {
        hand_on(token, &*guardian, pid, reason);
    }
    while let Some(letter) = token.hold().pop_data() {
        let why = if letter.generation == pid.generation() { reason } else { &ExitReason::Gone };
        token.dead_letter(letter, DeadLetterReason::Ended, why);
    }
    let take = |extras: &mut Box<Extras>| (std::mem::take(&mut extras.controls), std::mem::take(&mut extras.held));
    let (kept, held) = extras.as_mut().map(take).unwrap_or_default();
    let queued = token.hold().take_control();
    for mut controls in [kept, held, queued] {
        while let Some(mut node) = controls.pop() {
            let letter = node.take();
            pool::recycle(node);
            if letter.kind == Kind::Signal
                && letter.generation == pid.generation()
                && let Some(Ok(control)) = letter.payload.map(Payload::take::<Control>)
            {
                match control {
                    Control::Join(join) => extras.get_or_insert_default().joined.push(join),
                    Control::Bond(bond) => hear(token.slot(), pid, extras.get_or_insert_default(), *bond),
                    Control::Cancel(_) | Control::Kill | Control::Inspect(_) | Control::Upgrade(_) => {}
                }
            } else if letter.kind != Kind::Signal {
                token.slot().home().inspect(|home| {
                    home.late.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
    }
}

/// Hears what was said to a process that has ended and has not told anyone.
fn hear(slot: &'static Slot, pid: Pid, extras: &mut Extras, bond: Bond) {
    let (from, _, said) = bond.open();
    if let Some(said) = said
        && let Heard::Answer(answer) = extras.bonds().hear(from, said)
    {
        say((slot, pid), from, answer);
    }
}

/// The same for a process that did not start.
pub(crate) fn empty_unborn(token: &mut Token, reason: &ExitReason) {
    while let Some(letter) = token.hold().pop_data() {
        token.dead_letter(letter, DeadLetterReason::Ended, reason);
    }
}

/// Says once what a process ended of, if that is not the ordinary end.
fn report(process: &Started, reason: &ExitReason, handling: Option<&str>) {
    let Started { pid, process, entry, .. } = process;
    match reason {
        ExitReason::Panic(panic) => {
            let Panic { message, place } = &**panic;
            tracing::error!(%pid, process, entry, %message, %place, handling, "process panicked");
        }
        // Why the first of a chain of links ended has been said.
        ExitReason::Killed | ExitReason::Cancelled(_) | ExitReason::Linked { .. } => {
            tracing::debug!(%pid, process, entry, %reason, "process ended")
        }
        reason => tracing::warn!(%pid, process, entry, %reason, handling, "process failed"),
    }
}
