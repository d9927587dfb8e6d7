//! A process that is confined to one thread, wrapped to be `Send`: see [`Anchored`].

use super::handover::Upgrade;
use super::{Events, InitContext, Process, StepOutput};
use crate::errors::{InitError, ProcessError};
use crate::mailbox::payload::Payloads;
use crate::util::thread_bound::Anchored;

/// Each method panics on any other thread than the process's own.
impl<P: Process> Process for Anchored<P> {
    fn entries(&self) -> &'static [&'static str] {
        self.get().entries()
    }

    fn init(&mut self, ctx: &mut InitContext<'_>, entry: &str, input: Payloads) -> Result<(), InitError> {
        self.get_mut().init(ctx, entry, input)
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        self.get_mut().step(events, out)
    }

    fn close(&mut self) {
        self.get_mut().close();
    }

    fn handles_cancel(&self) -> bool {
        self.get().handles_cancel()
    }

    fn traps_exits(&self) -> bool {
        self.get().traps_exits()
    }

    fn asked_to_upgrade(&mut self, upgrade: Upgrade) {
        self.get_mut().asked_to_upgrade(upgrade);
    }
}
