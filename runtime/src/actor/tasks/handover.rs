//! A request to a process to hand over its state.

use super::current::TableCell;
use crate::ExitReason;
use crate::process::handover::{Successor, UpgradeRefusal, UpgradeRequest};

/// The type of [`Handover::make`].
type Make<P> = Box<dyn FnOnce(P) -> Result<Box<dyn FnOnce(TableCell) -> Successor>, ExitReason> + Send>;

/// A request to a process of type `P` to hand over its state. Dropping it reports to the requester that it was not
/// executed.
pub(crate) struct Handover<P> {
    /// Makes the new state from the old one, then the new machine from the pending waits. If the new state cannot be
    /// made, returns the reason with which the process must end.
    pub(crate) make: Make<P>,
    pub(crate) refuse: Box<dyn FnOnce(UpgradeRefusal) + Send>,
}

impl<P: 'static> UpgradeRequest for Handover<P> {
    fn refuse(self: Box<Self>, refusal: UpgradeRefusal) {
        (self.refuse)(refusal);
    }
}
