//! Processes for tests.

use super::{Event, Events, Process, StepOutput};
use crate::call::package::Package;
use crate::errors::ProcessError;

/// Ends with its first step.
pub(crate) struct Brief;

impl Process for Brief {
    fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        out.done();
        Ok(())
    }
}

/// Ends at its first message.
#[cfg_attr(feature = "spans", expect(dead_code, reason = "the tests of kept slots: with spans, no slot is kept"))]
pub(crate) struct EndsWhenTold;

impl Process for EndsWhenTold {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        if events.next().is_some() {
            out.done()
        } else {
            out.idle()
        }
        Ok(())
    }
}

/// Calls the closure with each message, and never ends.
pub(crate) struct OnMessage<F>(pub(crate) F);

impl<F: FnMut(Package) + Send + 'static> Process for OnMessage<F> {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            if let Event::Message(package) = event {
                (self.0)(package);
            }
        }
        out.idle();
        Ok(())
    }
}
