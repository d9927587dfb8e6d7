//! Answers to threads and to tasks of other executors.

use super::pending::CommandResult;
use super::time_source::OwnedTimer;
use crate::env::clock::{Moment, TimeKeeper};
use crate::errors::{CallError, CommandError};
use crate::sync::{Arc, AtomicBool, AtomicU64, OnceLock, Ordering, Weak};
use crate::time::timekeeper::{FoundWait, LimitedWait, Timekeeper, timekeeper};
use crate::{
    ExitReason, Payload, Pid, call::caller::OutsideCaller, process::control::EndWaiter, util::oneshot::Oneshot,
};
use std::cell::RefCell;
use std::task::{Poll, Waker};
use std::time::Instant;

/// Maximum number of calls that a thread keeps for later ones. A guess: more end in a row only after a burst.
const KEPT: usize = 64;

thread_local! {
    /// Calls that are over, for later ones that this thread begins.
    static OVER: RefCell<Vec<Arc<OutsideCall>>> = const { RefCell::new(Vec::new()) };
}

/// The caller's side of an [`OutsideCall`]. Dropping it abandons the call.
pub(crate) struct OutsideWait(Option<Arc<OutsideCall>>);

/// A call that no process awaits.
///
/// Most are used again: then a call needs no allocation, and is still on the list of those whose limits are watched. A
/// call is used again only
/// * after it was answered, since the side that answers does nothing to it afterwards except drop its reference;
/// * if it never had a timer, which could be about to end it.
pub(crate) struct OutsideCall {
    answer: Oneshot<CommandResult>,
    /// The process that makes the call and blocks its thread, or that runs the executor of the call.
    caller: Option<Pid>,
    /// When sweeps end the call, in nanoseconds. Belongs to the caller, and to sweeps while they look at `answer`; so
    /// do the next three.
    limit: AtomicU64,
    /// Whether a sweep has looked since the call began.
    has_been_seen: AtomicBool,
    /// Whether sweeps look at it.
    is_watched: AtomicBool,
    /// Whether it has a timer, or is about to have one.
    has_timer: AtomicBool,
    /// Ends the call at its limit, once it has waited for so long that it has a timer.
    timer: OnceLock<OwnedTimer>,
}

impl OutsideWait {
    /// Begins a call without a limit. `caller` is the process that makes it, if one does.
    pub(crate) fn new(caller: Option<Pid>) -> Self {
        Self(Some(OutsideCall::begin(caller, Moment::NEVER)))
    }

    /// Begins a call that ends with [`CallError::Timeout`] at `limit`, by the program's timekeeper. Also returns its
    /// timer, if it has one from the start.
    pub(crate) fn limited(caller: Option<Pid>, limit: Moment) -> (Self, Option<OwnedTimer>) {
        if !Timekeeper::is_far(Moment::about_now(), limit) {
            let wait = Self::new(caller);
            let timer = wait.limit_by(timekeeper(), limit);
            return (wait, timer);
        }
        let call = OutsideCall::begin(caller, limit);
        if !call.is_watched.load(Ordering::Relaxed) {
            call.is_watched.store(true, Ordering::Relaxed);
            timekeeper().watch(call.clone());
        }
        timekeeper().see_to_sweep();
        (Self(Some(call)), None)
    }

    /// Ends the call with [`CallError::Timeout`] at `limit`, by a timer of `by`. Returns the timer.
    pub(crate) fn limit_by(&self, by: &'static dyn TimeKeeper, limit: Moment) -> Option<OwnedTimer> {
        let call = self.call();
        call.has_timer.store(true, Ordering::Relaxed);
        timer(by, Arc::downgrade(call) as _, limit)
    }

    pub(crate) fn call(&self) -> &Arc<OutsideCall> {
        self.0.as_ref().unwrap_or_else(|| unreachable!("taken only when the wait is over"))
    }

    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<CommandResult> {
        self.call().answer.poll(waker).map(|result| self.over(result))
    }

    /// Blocks the thread until there is a result or `until` passes, in which case it abandons the call.
    pub(crate) fn wait(mut self, until: Option<Instant>) -> Option<CommandResult> {
        let result = self.call().answer.wait(until);
        result.map(|result| self.over(result))
    }

    /// Keeps the call for a later one, if it may be used again.
    fn over(&mut self, result: CommandResult) -> CommandResult {
        if let Some(call) = self.0.take()
            // A value comes from the side that answers.
            && result.is_ok()
            && call.caller.is_none()
            && !call.has_timer.load(Ordering::Relaxed)
        {
            let _dropped = OVER.try_with(|over| {
                let mut over = over.borrow_mut();
                if over.len() < KEPT {
                    over.push(call);
                }
            });
        }
        result
    }
}

impl Drop for OutsideWait {
    fn drop(&mut self) {
        self.0.iter().for_each(|call| _ = call.answer.abandon());
    }
}

impl OutsideCall {
    fn begin(caller: Option<Pid>, limit: Moment) -> Arc<Self> {
        let kept = || OVER.try_with(|over| over.borrow_mut().pop()).ok().flatten();
        let call = caller.map_or_else(kept, |_| None).unwrap_or_else(|| Arc::new(Self::unused(caller)));
        call.limit.store(limit.nanoseconds(), Ordering::Relaxed);
        call.has_been_seen.store(false, Ordering::Relaxed);
        call.answer.reopen();
        call
    }

    fn unused(caller: Option<Pid>) -> Self {
        Self {
            answer: Oneshot::new(),
            caller,
            limit: AtomicU64::new(Moment::NEVER.nanoseconds()),
            has_been_seen: AtomicBool::new(true),
            is_watched: AtomicBool::new(false),
            has_timer: AtomicBool::new(false),
            timer: OnceLock::new(),
        }
    }
}

fn timer(by: &'static dyn TimeKeeper, waiting: Weak<dyn LimitedWait>, limit: Moment) -> Option<OwnedTimer> {
    OwnedTimer::set(by, limit, move || {
        if let Some(waiting) = waiting.upgrade() {
            waiting.expire();
        }
    })
}

/// A call that waits no more has no waker and, once its [`OutsideWait`] is dropped, no answer.
impl LimitedWait for OutsideCall {
    fn look(&self) -> FoundWait {
        self.answer.look(|is_awaited| {
            let limit = Moment::of_nanoseconds(self.limit.load(Ordering::Relaxed));
            match self.has_been_seen.swap(true, Ordering::Relaxed) {
                false => FoundWait::Used,
                true if is_awaited && limit < Moment::NEVER => {
                    self.has_timer.store(true, Ordering::Relaxed);
                    FoundWait::Long(limit)
                }
                true => FoundWait::Unused,
            }
        })
    }

    fn set_timer(&self, this: Weak<dyn LimitedWait>, limit: Moment) {
        if let Some(timer) = timer(timekeeper(), this, limit) {
            let _set = self.timer.set(timer);
        }
    }

    fn expire(&self) {
        self.answer.put(Err(CommandError::Call(CallError::Timeout)));
    }
}

impl OutsideCaller for OutsideCall {
    fn answer(&self, result: CommandResult) {
        self.answer.put(result);
    }

    fn is_abandoned(&self) -> bool {
        // If the called process has not answered, a result can only have been stored at the deadline.
        !self.answer.is_awaited()
    }

    fn pid(&self) -> Option<Pid> {
        self.caller
    }
}

pub(crate) struct ExitWaiter(pub(crate) Oneshot<(ExitReason, Option<Payload>)>);

impl EndWaiter for ExitWaiter {
    fn ended(&self, reason: &ExitReason, result: Option<Payload>) {
        self.0.put((reason.clone(), result));
    }

    fn is_awaited(&self) -> bool {
        self.0.is_awaited()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;
    use std::time::Duration;

    fn is_next(call: *const OutsideCall) -> bool {
        let next = OutsideWait::new(None);
        let is_it = Arc::as_ptr(next.call()) == call;
        OVER.take();
        is_it
    }

    fn result(wait: &mut OutsideWait) -> CommandResult {
        match wait.poll(Waker::noop()) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("it has a result"),
        }
    }

    fn answer() -> CommandResult {
        Ok(Payload::new(7_u8))
    }

    #[test]
    fn only_an_answered_call_without_a_timer_is_used_again() {
        let far = Moment::now().after(Duration::from_secs(3_600));
        let near = Moment::now().after(Duration::from_millis(10));
        let pid = Pid::new(crate::this_node(), 1, 1, 1);
        let cases = [
            ("answered", OutsideWait::limited(None, far), answer(), true),
            ("without a limit", (OutsideWait::new(None), None), answer(), true),
            ("with a timer", OutsideWait::limited(None, near), answer(), false),
            ("failed", OutsideWait::limited(None, far), Err(CommandError::Dropped), false),
            ("of a process", OutsideWait::limited(Some(pid), far), answer(), false),
        ];
        for (name, (mut wait, _timer), answer, is_used_again) in cases {
            let call = wait.call().clone();
            call.answer(answer);
            _ = result(&mut wait);
            assert!(call.is_abandoned(), "{name}: over");
            assert_eq!(is_next(Arc::as_ptr(&call)), is_used_again, "{name}");
        }
        let dropped = OutsideWait::new(None);
        let call = dropped.call().clone();
        drop(dropped);
        assert!(call.is_abandoned() && !is_next(Arc::as_ptr(&call)));
    }

    /// Catches: a call whose limit is overlooked because the call was seen before, or was over when it was seen.
    #[test]
    fn a_call_that_is_used_again_has_its_limit() {
        let mut last = ptr::null();
        for round in 0..3 {
            let (mut wait, _) = OutsideWait::limited(None, Moment::now().after(Duration::from_secs(3_600)));
            wait.call().answer(answer());
            last = Arc::as_ptr(wait.call());
            assert!(result(&mut wait).is_ok(), "{round}");
            // Sweeps find it while it is over.
            std::thread::sleep(Duration::from_millis(20) * round);
        }
        let (wait, timer) = OutsideWait::limited(None, Moment::now().after(Duration::from_millis(50)));
        assert!(timer.is_none() && Arc::as_ptr(wait.call()) == last);
        // The limit only guards against a hang.
        let result = wait.wait(Instant::now().checked_add(Duration::from_secs(60)));
        assert!(matches!(result, Some(Err(CommandError::Call(CallError::Timeout)))), "{result:?}");
    }
}
