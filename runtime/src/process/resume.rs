//! The parts of a step, and steps that begin with the answer for which the process waits.

use super::event::Events;
use super::input::StepInput;
use super::output::{StepOutput, Written};
use crate::errors::ProcessError;
use crate::mailbox::node::NodeBox;
use crate::util::panics::{Site, contain};
use std::mem::ManuallyDrop;

/// An answer in the node that carried it.
#[derive(Debug)]
pub struct FirstAnswer(pub(crate) NodeBox);

/// The input and output of a step, in a thread's storage.
pub struct StepParts<'a> {
    pub(crate) input: &'a mut StepInput,
    pub(crate) written: &'a mut Written,
}

impl StepParts<'_> {
    /// Reborrows the parts.
    pub(crate) fn again(&mut self) -> StepParts<'_> {
        StepParts { input: &mut *self.input, written: &mut *self.written }
    }

    /// Runs a step with these parts.
    #[inline(always)]
    pub(crate) fn step(
        self,
        step: impl FnOnce(&mut Events<'_>, &mut StepOutput<'_>) -> Result<(), ProcessError>,
    ) -> Result<(), ProcessError> {
        let mut lent = Lent {
            events: ManuallyDrop::new(Events::input(&mut *self.input)),
            out: ManuallyDrop::new(StepOutput::on(&mut *self.written)),
        };
        let outcome = step(&mut lent.events, &mut lent.out);
        if let Some(own) = lent.give_back() {
            // The output holds user values, and their drops may panic.
            let _panic = contain(Site::StatusDrop, || self.written.add(own));
        }
        outcome
    }
}

/// Borrows of the storage. They need no drop unless the step has replaced them with its own events or output.
struct Lent<'a> {
    events: ManuallyDrop<Events<'a>>,
    out: ManuallyDrop<StepOutput<'a>>,
}

impl Lent<'_> {
    /// Returns the output with which the step has replaced the borrowed one, if any.
    #[inline(always)]
    fn give_back(self) -> Option<Written> {
        if self.events.is_from_scheduler() && self.out.is_kept() {
            std::mem::forget(self);
            return None;
        }
        self.take_own()
    }

    #[cold]
    #[inline(never)]
    fn take_own(self) -> Option<Written> {
        let mut lent = ManuallyDrop::new(self);
        // SAFETY: neither field is used again.
        let (events, out) = unsafe { (ManuallyDrop::take(&mut lent.events), ManuallyDrop::take(&mut lent.out)) };
        let own = out.into_own();
        // Events hold user values, and their drops may panic.
        let _panic = contain(Site::EventDrop, || drop(events));
        own
    }
}

/// Runs only if the step has panicked.
impl Drop for Lent<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: neither field is used again.
        let (events, out) = unsafe { (ManuallyDrop::take(&mut self.events), ManuallyDrop::take(&mut self.out)) };
        let _panic = contain(Site::EventDrop, || drop(events));
        let _panic = contain(Site::StatusDrop, || drop(out));
    }
}

impl std::fmt::Debug for StepParts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepParts").field("input", &self.input).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::actor::send::call::Call;
    use crate::manual::{Event, Events, Process, StepOutput};
    use crate::{CallError, ExitReason, ProcessError, Runtime};
    use std::time::Duration;

    /// Replaces its events with events that contain the message, and panics.
    struct Keeps;

    impl Process for Keeps {
        fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            let Some(message @ Event::Message(_)) = events.next() else {
                out.idle();
                return Ok(());
            };
            *events = Events::of([message]);
            panic!("before it is handled");
        }
    }

    /// Catches: a message is leaked, and its caller is never notified.
    #[test]
    fn what_a_step_has_put_in_place_of_its_events_is_dropped_when_it_panics() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let pid = runtime.spawn_process(Keeps).start().expect("it starts");
        let answer = Call::<u8, u8>::new(pid, "call", 1).timeout(Duration::from_secs(60)).wait();
        assert!(matches!(answer, Err(CallError::Gone(ExitReason::Panic(_)))), "{answer:?}");
    }
}
