//! Messages by the names of their methods: built from inputs, with the type erased.

use super::{actor::Actor, inputs::Inputs};
use crate::errors::{EntryError, MessageError, SendFailure};
use crate::{Pid, actor::send::call::send};
use std::ops::ControlFlow;

/// A message, ready to be sent. For generated code.
pub struct NamedMessage(Box<dyn FnOnce(Pid) -> Result<(), SendFailure>>);

/// The result of looking for a message by name; if it is not found, the inputs are passed on. For generated code.
pub type ByName = ControlFlow<Result<NamedMessage, EntryError>, Inputs>;

impl NamedMessage {
    pub(crate) fn new<M: Send + 'static>(message: M) -> Self {
        Self(Box::new(move |to| send(to, message).map_err(|refused| refused.reason)))
    }

    pub(crate) fn send(self, to: Pid) -> Result<(), SendFailure> {
        (self.0)(to)
    }
}

/// Finds the message among those of `P` and of the protocols that it implements.
pub(crate) fn message_of<P: Actor>(name: &str, inputs: Inputs) -> Result<NamedMessage, MessageError> {
    match P::message_by_name(name, inputs) {
        ControlFlow::Break(message) => Ok(message?),
        ControlFlow::Continue(_) => {
            let of_protocols = P::PROTOCOLS.iter().flat_map(|protocol| protocol.messages);
            Err(MessageError::Unknown {
                process: P::NAME,
                message: name.chars().take(80).collect(),
                has: P::MESSAGES.iter().chain(of_protocols).map(ToString::to_string).collect(),
            })
        }
    }
}

crate::util::debug::impl_debug!([] NamedMessage, self => "NamedMessage");
