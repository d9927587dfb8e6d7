//! A step that begins with the answer that a process waits for, and with nothing else.

use super::event::{Events, StepInput};
use super::output::{StepOutput, Written};
use crate::errors::ProcessError;
use crate::mailbox::node::NodeBox;
use crate::util::panics::{Site, contain};
use std::mem::ManuallyDrop;

/// An answer, in the node that brought it.
#[derive(Debug)]
pub struct Brought(pub(crate) NodeBox);

/// What a step reads and writes, in a thread's storage.
pub struct StepParts<'a> {
    pub(crate) input: &'a mut StepInput,
    pub(crate) written: &'a mut Written,
}

impl StepParts<'_> {
    /// Returns the same, to be used before these.
    pub(crate) fn again(&mut self) -> StepParts<'_> {
        StepParts { input: &mut *self.input, written: &mut *self.written }
    }

    /// Makes a step.
    #[inline(always)]
    pub(crate) fn step(
        self,
        step: impl FnOnce(&mut Events<'_>, &mut StepOutput<'_>) -> Result<(), ProcessError>,
    ) -> Result<(), ProcessError> {
        // Borrows of the storage, without drops of their own.
        let mut events = ManuallyDrop::new(Events::input(&mut *self.input));
        let mut out = ManuallyDrop::new(StepOutput::on(&mut *self.written));
        let outcome = step(&mut events, &mut out);
        if !(events.is_from_scheduler() && out.is_kept()) {
            let (events, out) = (ManuallyDrop::into_inner(events), ManuallyDrop::into_inner(out));
            let own = out.into_own();
            // They hold users' values, with drops of their own.
            let _panic = contain(Site::EventDrop, || drop(events));
            if let Some(own) = own {
                let _panic = contain(Site::StatusDrop, || self.written.add(own));
            }
        }
        outcome
    }
}

impl std::fmt::Debug for StepParts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepParts").field("input", &self.input).finish_non_exhaustive()
    }
}
