//! Protocols: messages that several kinds of process answer, under one type of address.
//!
//! `#[protocol]` writes everything about the messages for the type `dyn Storage`; `#[process] impl Storage for Disk` says
//! how a `Disk` handles them. Neither macro sees the other's text: what the second needs of the first it finds by types,
//! the methods by their place ([`Nth`]) and by their name ([`Named`]).

use super::addressed::{Addressed, Link, ProtocolInfo};
use super::context::Context;
use super::definition::{Delivery, Handles};
use crate::mail::Mail;
use std::marker::PhantomData;

/// A protocol: `dyn` and a trait with `#[protocol]`. The macro implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no protocol",
    label = "not a protocol",
    note = "write `#[protocol]` before the trait, or remove the `#[process]` here"
)]
pub trait Protocol: Addressed {
    /// The handle for its messages, over that for others: what addresses deref to. For generated code.
    type Linked<Rest: Link>: Link;
    /// The types of its messages, as a chain of pairs. For generated code.
    type Messages;
    /// Its name and its messages.
    const INFO: ProtocolInfo;
}

/// A process that answers the protocol `Q`, such as `dyn Storage`. The macro implements it.
#[diagnostic::on_unimplemented(
    message = "process `{Self}` does not answer the protocol `{Q}`",
    label = "no `#[process] impl` of `{Q}` for `{Self}`",
    note = "write `#[process]` before the `impl` of the protocol for `{Self}`, or remove it from `protocols(…)`"
)]
pub trait Serves<Q: Protocol + ?Sized>: Addressed + Sized {
    /// Whether any of its methods for the protocol is async.
    const ASYNC: bool;

    /// Whether the message is one of the protocol. For generated code.
    fn understands(mail: &Mail<'_>) -> bool;
    /// Whether the message has an async method. For generated code.
    fn is_async(mail: &Mail<'_>) -> bool;
    /// Hands a message to its method. For generated code.
    fn deliver<'a>(&'a mut self, ctx: &'a mut Context<Self>, mail: &mut Mail<'_>) -> Delivery<'a>;
}

/// A process whose own `impl` names the protocol `Q`, so that its messages reach it. For generated code.
#[diagnostic::on_unimplemented(
    message = "the messages of this protocol never reach `{Self}`: its own `#[process] impl` does not name it",
    label = "not in `protocols(…)`",
    note = "write `#[process(protocols(…))]`, with this protocol in it, before `impl {Self}`"
)]
pub trait Lists<Q: ?Sized> {}

/// Methods of a trait that a process has as the trait says: what is sent is handed to them. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no protocol",
    label = "not a protocol",
    note = "write `#[protocol]` before the trait, or remove the `#[process]` here"
)]
pub trait Plain<P>: Protocol {
    /// See [`Serves::understands`].
    fn understands(mail: &Mail<'_>) -> bool;
    /// See [`Serves::deliver`].
    fn deliver<'a>(process: &'a mut P, mail: &mut Mail<'_>) -> Delivery<'a>;
}

/// The message number `I` of a protocol. For generated code.
#[diagnostic::on_unimplemented(message = "`{Self}` has fewer methods", label = "more methods than the protocol has")]
pub trait Nth<const I: usize> {
    /// Its type.
    type Message;
}

/// The message of the method whose name has the hash `H`. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no method of this name",
    label = "no method of the protocol",
    note = "name it as the protocol does, or move it to an `impl` of its own"
)]
pub trait Named<const H: u64> {
    /// Its type.
    type Message;
    /// What it carries.
    type Parts;
    /// Takes the message apart.
    fn parts(message: Self::Message) -> Self::Parts;
}

/// A process that has a method for each of these messages. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle all messages of the protocol",
    label = "a method is missing"
)]
pub trait HandlesAll<Messages> {}

impl<P> HandlesAll<()> for P {}

impl<P: Handles<M> + HandlesAll<Rest>, M, Rest> HandlesAll<(M, Rest)> for P {}

/// That a method answers as the protocol says: two of these are of one type. For generated code.
pub struct Answer<T, E>(PhantomData<fn() -> (T, E)>);

impl<T, E> Answer<T, E> {
    /// The only one.
    pub const THIS: Self = Self(PhantomData);
}

/// Checks at compile time, in generated code, that a process handles all messages of a protocol.
pub const fn complete<P: HandlesAll<Q::Messages>, Q: Protocol + ?Sized>() {}
