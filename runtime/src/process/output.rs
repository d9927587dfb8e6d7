//! What a step hands out, and what it wants to be next.

use super::handover::Successor;
use crate::command::Command;
use crate::exit::ExitReason;
use crate::payload::Payload;
use crate::pid::Pid;
use std::fmt;
use std::time::Duration;

/// A command that a step handed out, with the tag that its answer will carry.
#[derive(Debug)]
pub(crate) struct Yield {
    pub(crate) tag: u64,
    pub(crate) request: Request,
}

#[derive(Debug)]
pub(crate) enum Request {
    Command(Payload),
    Call(Pid, Payload),
    Timer(Duration),
}

/// What a process wants to be after a step.
#[derive(Default)]
pub(crate) enum Status {
    /// Woken by whatever arrives.
    #[default]
    Idle,
    /// Run again when others have had their turn.
    Continue,
    /// Woken by what arrives in the control lane; a yield is outstanding.
    Waiting,
    /// Woken by what arrives in the control lane: a future is pending.
    Suspended,
    Done(Option<Payload>),
    /// Over, for a reason of its own; the result goes to whoever waits for it.
    Ended(ExitReason, Option<Payload>),
    /// A process that takes this one's place.
    Upgrade(Box<Successor>),
}

/// What a step has written.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) yields: Vec<Yield>,
    pub(crate) status: Status,
}

impl Written {
    /// Adds what a step has written to an output of its own, which it put in the place of the one it was given.
    pub(crate) fn add(&mut self, own: Self) {
        self.yields.extend(own.yields);
        self.status = own.status;
    }

    /// Whether nothing was written but, perhaps, that the process is idle.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.status, Status::Idle) && self.yields.is_empty()
    }
}

/// Where a step writes what it hands out and what it wants to be next.
///
/// Nothing that is written here is ever dropped: yields written beside any status are dispatched, in order, and the
/// status still holds. The last status written counts; without one the process is idle.
pub struct StepOutput<'a>(Place<'a>);

enum Place<'a> {
    /// What the thread keeps for its steps.
    Kept(&'a mut Written),
    Own(Box<Written>),
}

impl Default for StepOutput<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> StepOutput<'a> {
    /// One that writes there.
    #[inline]
    pub(crate) fn on(written: &'a mut Written) -> Self {
        Self(Place::Kept(written))
    }
}

impl StepOutput<'_> {
    /// An empty one, for a process that is driven by hand.
    pub fn new() -> Self {
        Self(Place::Own(Box::default()))
    }

    /// What was written, if it is not the one that the step was given.
    pub(crate) fn into_own(self) -> Option<Written> {
        match self.0 {
            Place::Kept(_) => None,
            Place::Own(written) => Some(*written),
        }
    }

    /// Whether it is still the one that the step was given.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.0, Place::Kept(_))
    }

    #[inline]
    fn written(&mut self) -> &mut Written {
        match &mut self.0 {
            Place::Kept(written) => written,
            Place::Own(written) => written,
        }
    }

    fn read(&self) -> &Written {
        match &self.0 {
            Place::Kept(written) => written,
            Place::Own(written) => written,
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, status: Status) {
        let before = std::mem::replace(&mut self.written().status, status);
        // Mostly nothing was written before, which needs no drop.
        if !matches!(before, Status::Idle) {
            drop(before);
        }
    }

    /// Hands `command` to its handler. Its answer comes as [`Event::Completed`](super::Event::Completed) with this `tag`,
    /// which the process chooses.
    pub fn perform<C: Command>(&mut self, command: C, tag: u64) {
        self.written().yields.push(Yield { tag, request: Request::Command(Payload::new(command)) });
    }

    /// Sends `message` to `pid` and gets the answer as [`Event::Completed`](super::Event::Completed) with this `tag`: a
    /// payload that holds `Result<T, E>`, where a method that returns no `Result` has `std::convert::Infallible` as `E`.
    pub fn call<M: Send + 'static>(&mut self, pid: Pid, message: M, tag: u64) {
        self.written().yields.push(Yield { tag, request: Request::Call(pid, Payload::new(message)) });
    }

    /// Completes with `()` after `duration`: at once if that is zero, never if it is `Duration::MAX`.
    pub fn after(&mut self, duration: Duration, tag: u64) {
        self.written().yields.push(Yield { tag, request: Request::Timer(duration) });
    }

    /// The process wants to run again, when others have had their turn.
    pub fn go_on(&mut self) {
        self.set(Status::Continue);
    }

    /// The process has nothing to do until something arrives.
    pub fn idle(&mut self) {
        self.set(Status::Idle);
    }

    /// The process waits for its yields: messages do not wake it, they queue. To wait without an outstanding yield is an
    /// error, which ends the process.
    pub fn wait(&mut self) {
        self.set(Status::Waiting);
    }

    /// The process is done.
    pub fn done(&mut self) {
        self.set(Status::Done(None));
    }

    /// The process is done, and this is its result.
    pub fn done_with<T: Send + 'static>(&mut self, result: T) {
        self.set(Status::Done(Some(Payload::new(result))));
    }

    /// How many yields were written.
    pub fn yields(&self) -> usize {
        self.read().yields.len()
    }

    /// Whether the process is done.
    pub fn is_done(&self) -> bool {
        matches!(self.read().status, Status::Done(_) | Status::Ended(..))
    }

    /// The result that the process is done with, if it is and if that is a `T`.
    pub fn take_result<T: Send + 'static>(&mut self) -> Option<T> {
        match &mut self.written().status {
            Status::Done(result) | Status::Ended(_, result) => match result.take()?.take() {
                Ok(value) => Some(value),
                Err(other) => {
                    *result = Some(other);
                    None
                }
            },
            _ => None,
        }
    }
}

impl fmt::Debug for StepOutput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = match &self.read().status {
            Status::Idle => "idle",
            Status::Continue => "continue",
            Status::Waiting => "waiting",
            Status::Suspended => "suspended",
            Status::Done(_) | Status::Ended(..) => "done",
            Status::Upgrade(_) => "upgrade",
        };
        f.debug_struct("StepOutput").field("status", &status).field("yields", &self.read().yields).finish()
    }
}
