//! One turn of a process: from the moment that a thread has its token until it is laid down, queued or buried.
//!
//! A turn is one step, or several while things keep arriving and the budget lasts. The budget counts events taken and
//! nodes drawn, so that sending costs as receiving does. A process that has used it goes to the global queue: measured on
//! the prototype, one that went back to a hot end ran on alone with 204,784 others ready behind it.

use super::end::end;
use super::local::Context;
use crate::caller::{self, Caller};
use crate::clock::Moment;
use crate::dead_letter::DeadLetterReason;
use crate::errors::{CallError, CommandError, ProcessError};
use crate::exit::{ExitReason, Panic};
use crate::mailbox::node::Kind;
use crate::mailbox::pool;
use crate::package::Package;
use crate::payload::Payload;
use crate::pid::Pid;
use crate::process::event::{Events, Feed, Rare};
use crate::process::output::{Request, Status, StepOutput, Yield};
use crate::sync::Ordering;
use crate::table::extras::Body;
use crate::table::{Extras, Slot, Token};
use std::ptr;

/// How much one turn may take and send.
const BUDGET: u32 = 128;

/// What is to happen after a step.
enum After {
    /// Another step in this turn: there is something left, and budget.
    Again,
    /// Let others run first.
    Requeue,
    LayIdle,
    LayWait,
    End(Box<(ExitReason, Option<Payload>)>),
}

impl After {
    fn end(reason: ExitReason, result: Option<Payload>) -> Self {
        Self::End(Box::new((reason, result)))
    }
}

impl Context {
    /// Runs the process whose token this is.
    pub(crate) fn turn(&self, mut token: Token) {
        let slot = token.slot();
        let (Some(pid), Some(mut body)) = (token.pid(), token.body().take()) else {
            unreachable!("a token that is scheduled is that of a living process")
        };
        self.thread().running.store(ptr::from_ref(slot).cast_mut(), Ordering::Relaxed);
        slot.worker.store(self.worker as u16, Ordering::Relaxed);
        self.process.set(Some(pid));
        let values = token.extras().as_ref().and_then(|extras| extras.values.clone());
        let has_values = values.is_some();
        if has_values {
            super::birth::set_values(values);
        }
        let mut spent = 0;
        loop {
            let after = self.step(&mut token, pid, &mut body, &mut spent);
            match after {
                After::Again => continue,
                After::Requeue => {
                    *token.body() = Some(body);
                    self.host.push_global(token);
                }
                After::LayIdle | After::LayWait => {
                    *token.body() = Some(body);
                    let laid = if matches!(after, After::LayIdle) { token.lay_idle() } else { token.lay_wait() };
                    if let Some(held) = laid {
                        // Something arrived: go on while the budget lasts.
                        token = held;
                        if spent < BUDGET
                            && let Some(again) = token.body().take()
                        {
                            body = again;
                            continue;
                        }
                        self.host.push_global(token);
                    }
                }
                After::End(end_of_it) => {
                    let (reason, result) = *end_of_it;
                    end(self.host, token, Some(body), reason, result);
                }
            }
            break;
        }
        if has_values {
            super::birth::set_values(None);
        }
        self.process.set(None);
        self.thread().running.store(ptr::null_mut(), Ordering::Relaxed);
    }

    #[inline]
    fn step(&self, token: &mut Token, pid: Pid, body: &mut Body, spent: &mut u32) -> After {
        let slot = token.slot();
        let kept = token.extras().as_mut().map(|extras| std::mem::take(&mut extras.controls)).unwrap_or_default();
        let budget = BUDGET.saturating_sub(*spent).max(1);
        let handles_cancel = crate::panics::contain(|| body.handles_cancel());
        // SAFETY: this is the token, and only the feed uses it until the feed is finished.
        let feed = unsafe { Feed::new(&slot.lanes, pid, kept, budget, matches!(handles_cancel, Ok(true))) };
        let (mut feed, mut out) = (feed, StepOutput::new());
        let outcome = match handles_cancel {
            Err(panic) => Err(panic),
            Ok(_) if feed.is_ended() => Ok(Ok(())),
            Ok(_) => crate::panics::contain(|| body.step(&mut Events::feed(&mut feed), &mut out)),
        };

        if outcome.is_ok() && caller::has_orphans() {
            // Dropped by a panic that the process caught itself.
            caller::blame_with(|| CommandError::Call(CallError::Dropped));
        }

        let counters = &self.worker().counters;
        counters.steps.add(1);
        counters.messages.add(u64::from(feed.messages));
        bump(&slot.card.steps, 1);
        bump(&slot.card.messages, u64::from(feed.messages));
        *spent = spent.saturating_add(feed.spent()).saturating_add(1);

        let plain = matches!(outcome, Ok(Ok(()))) && out.is_plain() && feed.rare.is_none() && feed.completions == 0;
        if plain && feed.is_empty() {
            return After::LayIdle;
        }
        self.after(token, pid, body, feed, out, outcome, *spent < BUDGET)
    }

    /// What follows from a step that did more than take messages.
    #[expect(clippy::too_many_arguments, reason = "the second half of `step`, apart so that the first stays small")]
    fn after(
        &self,
        token: &mut Token,
        pid: Pid,
        body: &mut Body,
        mut feed: Feed,
        out: StepOutput<'_>,
        outcome: Result<Result<(), ProcessError>, Panic>,
        budget_left: bool,
    ) -> After {
        let slot = token.slot();
        let (has_control, data_empty) = (feed.has_control(), feed.is_data_empty());
        let again = if feed.taken > 0 && budget_left { After::Again } else { After::Requeue };
        let end = feed.finish().and_then(|rare| keep_rare(token, *rare));
        let reason = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.into_reason()),
            // Whoever it left unanswered is told at the end, when the PID is unroutable.
            Err(panic) => Some(ExitReason::Panic(panic.into())),
        };
        let StepOutput { yields, status, .. } = out;
        let answered = slot.card.outstanding.load(Ordering::Relaxed).saturating_sub(feed.completions);
        let outstanding = answered + yields.len() as u32;
        slot.card.outstanding.store(outstanding, Ordering::Relaxed);
        yields.into_iter().for_each(|request| self.dispatch(slot, pid, request));
        if let Some(reason) = reason {
            // What the step wanted to be holds users' values, with drops of their own.
            let _panic = crate::panics::contain(|| drop(status));
            return After::end(reason, None);
        }
        match (status, end) {
            (Status::Done(result), _) => After::end(ExitReason::Normal, result),
            (Status::Ended(reason, result), _) => After::end(reason, result),
            (status, Some(reason)) => {
                let _panic = crate::panics::contain(|| drop(status));
                After::end(reason, None)
            }
            (Status::Upgrade(process), None) => {
                let Ok(process) = process.take::<Body>() else { unreachable!("made from a process") };
                let old = std::mem::replace(body, process);
                match super::end::close(old, &ExitReason::Normal) {
                    Some(panic) => After::end(panic, None),
                    None => After::Requeue,
                }
            }
            (Status::Continue, None) => After::Requeue,
            (Status::Idle, None) if has_control || !data_empty => again,
            (Status::Idle, None) => After::LayIdle,
            (Status::Waiting, None) if outstanding == 0 => After::end(
                ExitReason::error("the process waits for its yields, but none is outstanding; write `idle` instead"),
                None,
            ),
            (Status::Waiting | Status::Suspended, None) if has_control => again,
            (Status::Waiting | Status::Suspended, None) => After::LayWait,
        }
    }

    /// Hands out one yield; whatever goes wrong is its answer.
    fn dispatch(&self, slot: &'static Slot, pid: Pid, Yield { tag, request }: Yield) {
        let generation = pid.generation();
        match request {
            Request::Command(command) => {
                let (caller, _ticket) = Caller::process(slot, generation, tag, None);
                self.host.dispatch(command, caller);
            }
            Request::Call(to, message) => {
                let (caller, _ticket) = Caller::process(slot, generation, tag, None);
                let package = Package::from_parts(to, message, Some(caller));
                if let Err(refused) = crate::relay::route(package) {
                    let (_, message, caller) = refused.package.into_parts();
                    if let Some(caller) = caller {
                        caller.fail_command(CommandError::Call(CallError::from(crate::errors::SendError {
                            message: (),
                            reason: refused.reason,
                        })));
                    }
                    drop(message);
                }
            }
            Request::Timer(duration) => {
                let complete = move || complete(slot, generation, tag);
                if duration.is_zero() {
                    complete();
                } else {
                    let due = Moment::now().after(duration);
                    // What is never due is not kept: nothing could take it back.
                    if due < Moment::NEVER {
                        self.host.set_timer(due, Box::new(complete));
                    }
                }
            }
        }
    }
}

/// Keeps what few steps meet with. Gives why the process is to end, if it is.
fn keep_rare(token: &mut Token, rare: Rare) -> Option<ExitReason> {
    let Rare { strangers, joins, left, end } = rare;
    if !joins.is_empty() || !left.is_empty() {
        let extras: &mut Extras = token.extras().get_or_insert_default();
        extras.joined.extend(joins);
        extras.controls = left;
    }
    for letter in strangers {
        token.dead_letter(letter, DeadLetterReason::Ended, &ExitReason::Gone);
    }
    end
}

/// Answers a timer's yield.
pub(crate) fn complete(slot: &'static Slot, generation: u64, tag: u64) {
    let word = ptr::without_provenance_mut(tag as usize);
    slot.post_control(pool::empty(), Kind::Completed, generation, word, Some(Payload::new(())));
}

fn bump(counter: &crate::sync::AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}
