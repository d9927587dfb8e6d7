//! One turn of a process: from the moment that a thread has its token until it is laid down, queued or buried.
//!
//! A turn is one step, or several while things keep arriving and the budget lasts. The budget counts events taken and
//! nodes drawn, so that sending costs as receiving does. A process that has used it goes to the global queue: measured on
//! the prototype, one that went back to a hot end ran on alone with 204,784 others ready behind it.

use super::end::end;
use super::thread::Context;
use crate::caller::{self, Caller};
use crate::clock::Moment;
use crate::dead_letter::DeadLetterReason;
use crate::errors::{CallError, CommandError};
use crate::exit::ExitReason;
use crate::mailbox::node::Kind;
use crate::mailbox::pool;
use crate::package::Package;
use crate::payload::Payload;
use crate::pid::Pid;
use crate::process::event::{Events, Feed};
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
    End(ExitReason, Option<Payload>),
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
                        if spent < BUDGET && let Some(again) = token.body().take() {
                            body = again;
                            continue;
                        }
                        self.host.push_global(token);
                    }
                }
                After::End(reason, result) => end(self.host, token, Some(body), reason, result),
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
        let handles_cancel = body.handles_cancel();
        let budget = BUDGET.saturating_sub(*spent).max(1);
        let mut events = Events::feed(Feed::new(token.hold(), pid, kept, budget, handles_cancel));
        let mut out = StepOutput::new();
        let outcome = if events.is_ended() { Ok(Ok(())) } else { crate::panics::contain(|| body.step(&mut events, &mut out)) };
        let Some(feed) = events.into_feed() else { unreachable!("made from a feed") };

        let counters = &self.worker().counters;
        counters.steps.add(1);
        counters.messages.add(u64::from(feed.messages));
        bump(&slot.card.steps, 1);
        bump(&slot.card.messages, u64::from(feed.messages));
        let taken = feed.taken;
        *spent = spent.saturating_add(feed.spent()).saturating_add(1);

        let Feed { controls, joins, strangers, end, completions, .. } = feed;
        if !joins.is_empty() || !controls.is_empty() {
            let extras: &mut Extras = token.extras().get_or_insert_default();
            extras.joined.extend(joins);
            extras.controls = controls;
        }
        for letter in strangers {
            token.dead_letter(letter, DeadLetterReason::Ended, &ExitReason::Gone);
        }
        let reason = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.into_reason()),
            Err(panic) => {
                let reason = ExitReason::Panic(panic.into());
                caller::blame(&reason);
                Some(reason)
            }
        };
        let StepOutput { yields, status, .. } = out;
        let outstanding = slot.card.outstanding.load(Ordering::Relaxed).saturating_sub(completions) + yields.len() as u32;
        slot.card.outstanding.store(outstanding, Ordering::Relaxed);
        yields.into_iter().for_each(|request| self.dispatch(slot, pid, request));
        if let Some(reason) = reason {
            return After::End(reason, None);
        }
        let more = |token: &mut Token| {
            let controls_kept = token.extras().as_ref().is_some_and(|extras| !extras.controls.is_empty());
            controls_kept || token.slot().lanes.has_control()
        };
        match (status, end) {
            (Status::Done(result), _) => After::End(ExitReason::Normal, result),
            (Status::Ended(reason, result), _) => After::End(reason, result),
            (_, Some(reason)) => After::End(reason, None),
            (Status::Upgrade(process), None) => {
                let old = std::mem::replace(body, process);
                match super::end::close(old, &ExitReason::Normal) {
                    Some(panic) => After::End(panic, None),
                    None => After::Requeue,
                }
            }
            (Status::Continue, None) => After::Requeue,
            (Status::Idle, None) => {
                if token.hold().is_data_empty() && !more(token) {
                    After::LayIdle
                } else if taken > 0 && *spent < BUDGET {
                    After::Again
                } else {
                    After::Requeue
                }
            }
            (Status::Waiting, None) if outstanding == 0 => After::End(
                ExitReason::error("the process waits for its yields, but none is outstanding; write `idle` instead"),
                None,
            ),
            (Status::Waiting | Status::Suspended, None) => match more(token) {
                false => After::LayWait,
                true if taken > 0 && *spent < BUDGET => After::Again,
                true => After::Requeue,
            },
        }
    }

    /// Hands out one yield; whatever goes wrong is its answer.
    fn dispatch(&self, slot: &'static Slot, pid: Pid, Yield { tag, request }: Yield) {
        let generation = pid.generation();
        match request {
            Request::Command(command) => {
                let (caller, _ticket) = Caller::process(slot, generation, tag, None);
                self.host.config.dispatcher.dispatch(command, caller);
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
                    self.host.set_timer(Moment::now().after(duration), Box::new(complete));
                }
            }
        }
    }
}

/// Answers a timer's yield.
pub(crate) fn complete(slot: &'static Slot, generation: u64, tag: u64) {
    let word = ptr::without_provenance_mut(tag as usize);
    slot.post_control(pool::empty(), Kind::Completed, generation, word, Some(Payload::new(())));
}

fn bump(counter: &crate::sync::AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}
