//! The output of a step: its actions and the next status.

use super::handover::Successor;
use crate::{call::command::Command, exit::ExitReason, mailbox::payload::Payload, pid::Pid, util::debug::impl_debug};
use std::time::Duration;

/// A request from a step, with the tag of its completion.
#[derive(Debug)]
pub(crate) struct Yield {
    pub(crate) tag: u64,
    pub(crate) request: StepRequest,
}

#[derive(Debug)]
pub(crate) enum StepRequest {
    Command(Payload),
    Call(Pid, Payload),
    Timer(Duration),
}

#[derive(Default)]
pub(crate) enum StepStatus {
    /// The process is woken by any input.
    #[default]
    Idle,
    /// The process runs again after others.
    Continue,
    /// The process is woken only by the control lane, because a yield is outstanding.
    Waiting,
    /// The process is woken only by the control lane, because a future is pending.
    Suspended,
    Done(Option<Payload>),
    /// The process ended with its own reason. The waiter that was created with it gets the result.
    Ended(ExitReason, Option<Payload>),
    Upgrade(Box<Successor>),
}

/// The rank of a status. A status of lower rank does not replace one of higher rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Finality {
    Open,
    Upgrade,
    Over,
}

impl StepStatus {
    fn finality(&self) -> Finality {
        match self {
            Self::Idle | Self::Continue | Self::Waiting | Self::Suspended => Finality::Open,
            Self::Upgrade(_) => Finality::Upgrade,
            Self::Done(_) | Self::Ended(..) => Finality::Over,
        }
    }

    /// Returns the name of the [`StepOutput`] method that writes this status.
    fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Continue => "go_on",
            Self::Waiting | Self::Suspended => "wait",
            Self::Done(_) | Self::Ended(..) => "done",
            Self::Upgrade(_) => "upgrade",
        }
    }
}

/// A status that a step wrote, and a status of lower rank that it wrote afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction {
    pub(crate) holds: &'static str,
    pub(crate) ignored: &'static str,
}

#[derive(Default)]
pub(crate) struct Written {
    pub(crate) yields: Vec<Yield>,
    pub(crate) status: StepStatus,
    /// Set only if the status is an upgrade or the end.
    pub(crate) contradiction: Option<Contradiction>,
}

impl Written {
    /// Adds the contents of an output that a step has substituted for its own.
    pub(crate) fn add(&mut self, own: Self) {
        self.yields.extend(own.yields);
        self.contradiction = self.contradiction.or(own.contradiction);
        self.set(own.status);
    }

    /// Writes a status, if its rank allows it; see [`StepOutput`].
    #[inline]
    pub(crate) fn set(&mut self, status: StepStatus) {
        // The common case: an idle status needs no drop.
        if matches!(self.status, StepStatus::Idle) {
            let before = std::mem::replace(&mut self.status, status);
            std::mem::forget(before);
        } else {
            self.set_again(status);
        }
    }

    #[cold]
    fn set_again(&mut self, status: StepStatus) {
        if status.finality() < self.status.finality() {
            // Not a contradiction: `idle` is also the default of a step that writes nothing.
            if !matches!(status, StepStatus::Idle) {
                self.contradiction = Some(Contradiction { holds: self.status.word(), ignored: status.word() });
            }
            return;
        }
        match (&self.status, &status) {
            (StepStatus::Done(Some(_)), StepStatus::Done(None)) => {}
            _ => self.status = status,
        }
    }

    /// Sets the status to suspended, in a step that has not written a status yet.
    #[inline(always)]
    pub(crate) fn suspend(&mut self) {
        debug_assert!(matches!(self.status, StepStatus::Idle));
        // An idle status has nothing to drop.
        std::mem::forget(std::mem::replace(&mut self.status, StepStatus::Suspended));
    }

    /// Resets a suspended status to idle, which needs no drop.
    #[inline(always)]
    pub(crate) fn forget_suspended(&mut self) {
        debug_assert!(matches!(self.status, StepStatus::Suspended));
        std::mem::forget(std::mem::take(&mut self.status));
    }

    /// Returns true if nothing was written, or only `idle`.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.status, StepStatus::Idle) && self.yields.is_empty()
    }
}

/// The output of a step: its actions and the next status.
///
/// Everything written here takes effect: yields are dispatched in order, whatever the status, and the status applies as
/// well.
///
/// If a step writes several statuses, the one of the highest rank applies, whatever their order: [`done`](Self::done)
/// outranks [`upgrade`](Self::upgrade), and both outrank [`go_on`](Self::go_on), [`wait`](Self::wait) and
/// [`idle`](Self::idle); among these three, the last one written applies. So `done` cannot be revoked; an attempt to do
/// so, except with `idle`, is logged when the process ends. Of several results, the last one applies. If a step writes
/// no status, the process becomes idle.
///
/// ```
/// use postroom::manual::StepOutput;
///
/// let mut out = StepOutput::new();
/// out.done_with(7);
/// out.go_on();
/// assert!(out.is_done());
/// assert_eq!(out.take_result(), Some(7));
/// ```
pub struct StepOutput<'a>(OutputStore<'a>);

enum OutputStore<'a> {
    /// The thread's storage, reused for each step.
    Kept(&'a mut Written),
    Own(Box<Written>),
}

impl Default for StepOutput<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> StepOutput<'a> {
    #[inline]
    pub(crate) fn on(written: &'a mut Written) -> Self {
        Self(OutputStore::Kept(written))
    }
}

impl StepOutput<'_> {
    /// Creates an empty output, for a process that is driven by hand.
    pub fn new() -> Self {
        Self(OutputStore::Own(Box::default()))
    }

    /// Returns the contents, unless they are in the thread's storage.
    pub(crate) fn into_own(self) -> Option<Written> {
        match self.0 {
            OutputStore::Kept(_) => None,
            OutputStore::Own(written) => Some(*written),
        }
    }

    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.0, OutputStore::Kept(_))
    }

    #[inline]
    pub(crate) fn written(&mut self) -> &mut Written {
        match &mut self.0 {
            OutputStore::Kept(written) => written,
            OutputStore::Own(written) => written,
        }
    }

    fn read(&self) -> &Written {
        match &self.0 {
            OutputStore::Kept(written) => written,
            OutputStore::Own(written) => written,
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, status: StepStatus) {
        self.written().set(status);
    }

    /// Performs `command` through its handler. The answer arrives as [`Event::Completed`](super::Event::Completed) with
    /// `tag`, which the process chooses.
    pub fn perform<C: Command>(&mut self, command: C, tag: u64) {
        self.written().yields.push(Yield { tag, request: StepRequest::Command(Payload::new(command)) });
    }

    /// Sends `message` to `pid`. The answer arrives as [`Event::Completed`](super::Event::Completed) with `tag`: a
    /// payload that holds a `Result<T, E>`, where `E` is `std::convert::Infallible` if the method returns no `Result`.
    pub fn call<M: Send + 'static>(&mut self, pid: Pid, message: M, tag: u64) {
        self.written().yields.push(Yield { tag, request: StepRequest::Call(pid, Payload::sent(message)) });
    }

    /// Sets a timer that completes with `()` after `duration`: at once for zero, never for `Duration::MAX`.
    pub fn after(&mut self, duration: Duration, tag: u64) {
        self.written().yields.push(Yield { tag, request: StepRequest::Timer(duration) });
    }

    /// Runs the process again after other processes. Has no effect after [`done`](Self::done) or
    /// [`upgrade`](Self::upgrade).
    pub fn go_on(&mut self) {
        self.set(StepStatus::Continue);
    }

    /// Suspends the process until input arrives.
    pub fn idle(&mut self) {
        self.set(StepStatus::Idle);
    }

    /// Suspends the process until a yield completes; messages queue without waking it. Without an outstanding yield
    /// this is an error, and ends the process. Has no effect after [`done`](Self::done) or [`upgrade`](Self::upgrade).
    pub fn wait(&mut self) {
        self.set(StepStatus::Waiting);
    }

    /// Ends the process, whatever else this step writes. A result written before is kept.
    pub fn done(&mut self) {
        self.set(StepStatus::Done(None));
    }

    /// Ends the process, whatever else this step writes, with this result.
    pub fn done_with<T: Send + 'static>(&mut self, result: T) {
        self.set(StepStatus::Done(Some(Payload::new(result))));
    }

    /// Returns the number of yields.
    pub fn yields(&self) -> usize {
        self.read().yields.len()
    }

    /// Returns whether the process ends.
    pub fn is_done(&self) -> bool {
        matches!(self.read().status, StepStatus::Done(_) | StepStatus::Ended(..))
    }

    /// Takes the result of a process that ends, if there is one and it is a `T`.
    pub fn take_result<T: Send + 'static>(&mut self) -> Option<T> {
        match &mut self.written().status {
            StepStatus::Done(result) | StepStatus::Ended(_, result) => match result.take()?.take() {
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

impl_debug!([] StepOutput<'_>, self => "StepOutput" { status: self.read().status.word(), yields: self.read().yields });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Events, Process};

    struct Heir;

    impl Process for Heir {
        fn step(&mut self, _: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), crate::errors::ProcessError> {
            Ok(())
        }
    }

    fn written(write: impl FnOnce(&mut StepOutput<'_>)) -> Written {
        let mut out = StepOutput::new();
        write(&mut out);
        out.into_own().unwrap_or_default()
    }

    /// Catches: a later status that revokes one of higher rank.
    #[test]
    fn the_most_final_status_holds_in_whatever_order_it_was_written() {
        for (first, then) in
            [("done", "go_on"), ("done", "wait"), ("done", "idle"), ("done", "upgrade"), ("upgrade", "go_on")]
        {
            let say = |out: &mut StepOutput<'_>, word| match word {
                "done" => out.done(),
                "go_on" => out.go_on(),
                "wait" => out.wait(),
                "upgrade" => out.upgrade(Heir),
                _ => out.idle(),
            };
            let taken_back = written(|out| {
                say(out, first);
                say(out, then);
            });
            assert_eq!(taken_back.status.word(), first, "then {then}");
            let expected = (then != "idle").then_some(Contradiction { holds: first, ignored: then });
            assert_eq!(taken_back.contradiction, expected, "{first}, then {then}");
            let decided = written(|out| {
                say(out, then);
                say(out, first);
            });
            assert_eq!((decided.status.word(), decided.contradiction), (first, None), "after {then}");
        }
    }

    #[test]
    fn among_those_that_decide_nothing_the_last_one_holds() {
        assert!(matches!(
            written(|out| {
                out.go_on();
                out.idle()
            })
            .status,
            StepStatus::Idle
        ));
        assert!(matches!(
            written(|out| {
                out.wait();
                out.go_on()
            })
            .status,
            StepStatus::Continue
        ));
    }

    #[test]
    fn a_result_is_replaced_by_another_one_only() {
        let mut out = StepOutput::new();
        out.done_with(1);
        out.done();
        assert_eq!(out.take_result(), Some(1));
        let mut out = StepOutput::new();
        out.done_with(1);
        out.done_with(2);
        assert_eq!(out.take_result(), Some(2));
    }

    #[test]
    fn an_output_that_a_step_put_in_the_place_of_its_own_takes_nothing_back() {
        let mut kept = written(|out| out.done_with(1));
        kept.add(written(|out| out.go_on()));
        assert!(matches!(kept.status, StepStatus::Done(Some(_))));
        assert_eq!(kept.contradiction, Some(Contradiction { holds: "done", ignored: "go_on" }));
    }
}
