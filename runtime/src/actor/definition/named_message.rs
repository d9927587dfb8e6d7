//! Messages by the names of their methods: built from inputs, with the type erased.

use super::inputs::Inputs;
use crate::errors::{EntryError, SendFailure};
use crate::{Pid, actor::send::call::send};
use std::ops::ControlFlow;

/// A message, ready to be sent. For generated code.
pub struct NamedMessage(Box<dyn FnOnce(Pid) -> Result<(), SendFailure>>);

/// The result of looking up a message by name; if it is not found, the inputs are returned. For generated code.
pub type ByName = ControlFlow<Result<NamedMessage, EntryError>, Inputs>;

impl NamedMessage {
    pub(crate) fn new<M: Send + 'static>(message: M) -> Self {
        Self(Box::new(move |to| send(to, message).map_err(|refused| refused.reason)))
    }

    pub(crate) fn send(self, to: Pid) -> Result<(), SendFailure> {
        (self.0)(to)
    }
}

crate::util::debug::impl_debug!([] NamedMessage, self => "NamedMessage");
