//! What a process takes along when it hands its state to another definition.

use super::current::TableSeat;
use crate::exit::ExitReason;
use crate::process::handover::{Successor, UpgradeRefusal, UpgradeRequest};
use std::any::Any;

/// What makes the new state of the old one.
type Make<P> = Box<dyn FnOnce(P) -> Result<Box<dyn FnOnce(TableSeat) -> Successor>, ExitReason> + Send>;

/// A wish that a process of type `P` hands its state over. Dropped, it was heard by none: its parts tell the process
/// that asked.
pub(crate) struct Handover<P> {
    /// Makes the new state of the old one, then the new definition of what the process waits for; or says why the
    /// process is to end.
    pub(crate) make: Make<P>,
    pub(crate) refuse: Box<dyn FnOnce(UpgradeRefusal) + Send>,
}

impl<P: 'static> UpgradeRequest for Handover<P> {
    fn refuse(self: Box<Self>, refusal: UpgradeRefusal) {
        (self.refuse)(refusal);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
