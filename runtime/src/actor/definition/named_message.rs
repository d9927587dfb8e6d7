//! Messages by the names of their methods: built from inputs, with the type erased.

use super::actor::Actor;
use super::inputs::Inputs;
use crate::actor::send::call::send;
use crate::errors::{EntryError, MessageError, SendFailure};
use crate::pid::Pid;
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// A message, ready to be sent. For generated code.
pub struct Outgoing(Box<dyn FnOnce(Pid) -> Result<(), SendFailure>>);

/// The result of looking for a message by name; if it is not found, the inputs are passed on. For generated code.
pub type ByName = ControlFlow<Result<Outgoing, EntryError>, Inputs>;

/// Makes an [`Outgoing`] of a message if its type is `Send`. For generated code.
#[derive(Debug)]
pub struct MessageOf<M>(PhantomData<M>);

impl<M> MessageOf<M> {
    #[expect(clippy::new_without_default, reason = "only the macro makes one")]
    /// Makes the probe.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// A message that is `Send`.
pub trait GoesOut<M> {
    /// Erases the type of the message.
    fn outgoing(&self, message: M) -> Outgoing;
}

impl<M: Send + 'static> GoesOut<M> for &MessageOf<M> {
    fn outgoing(&self, message: M) -> Outgoing {
        Outgoing(Box::new(move |to| send(to, message).map_err(|refused| refused.reason)))
    }
}

/// A message that is not `Send`: the compiler reports it where it is handled, and need not repeat it here.
pub trait StaysHere<M> {
    /// Never runs.
    fn outgoing(&self, message: M) -> Outgoing;
}

impl<M> StaysHere<M> for MessageOf<M> {
    fn outgoing(&self, _: M) -> Outgoing {
        unreachable!("a message that is not `Send` does not compile")
    }
}

impl Outgoing {
    pub(crate) fn send(self, to: Pid) -> Result<(), SendFailure> {
        (self.0)(to)
    }
}

/// Finds the message among those of `P` and of the protocols that it implements.
pub(crate) fn message_of<P: Actor>(name: &str, inputs: Inputs) -> Result<Outgoing, MessageError> {
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

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outgoing")
    }
}
