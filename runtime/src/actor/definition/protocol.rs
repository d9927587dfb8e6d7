//! Protocols: messages that several kinds of process answer, under one type of address.
//!
//! `#[protocol]` writes everything about the messages for the type `dyn Storage`; `#[process] impl Storage for Disk`
//! says how a `Disk` handles them. Neither macro sees the other's text: what the second needs of the first it finds by
//! types, the messages as a [`Chain`], and the method of a name by [`Named`].
//!
//! These have a parameter `L`, for the process that asks, and are implemented for all of them. It says nothing; but a
//! type of the asking crate must stand there, or the compiler, when it looks whether two `impl`s for the process
//! overlap, takes it that the protocol's crate may yet change its mind about the message types.

use super::actor::{Dispatched, Handles};
use super::context::Context;
use super::inputs::Inputs;
use super::named_message::ByName;
use crate::actor::send::addressed::{Addressed, Link, ProtocolInfo};
use crate::process::mail::Mail;
use std::convert::Infallible;
use std::marker::PhantomData;

/// A protocol: `dyn` and a trait with `#[protocol]`. The macro implements it.
///
/// ```
/// use postroom::prelude::*;
///
/// #[protocol]
/// trait Storage {
///     fn get(&self, key: String) -> Option<String>;
/// }
///
/// #[process] struct Echo;
/// #[process(protocols(Storage))]
/// impl Echo { #[entry] fn serve(&mut self) {} }
/// #[process]
/// impl Storage for Echo {
///     fn get(&self, key: String) -> Option<String> { Some(key) }
/// }
///
/// let runtime = Runtime::new()?;
/// let storage: Address<dyn Storage> = runtime.spawn(Echo).serve()?.narrow();
/// assert_eq!(storage.get("a".into()).wait()?.as_deref(), Some("a"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no protocol",
    label = "not a protocol",
    note = "write `#[protocol]` before the trait, or remove the `#[process]` here"
)]
pub trait Protocol: Addressed {
    /// The handle for its messages, over that for others: what addresses deref to. For generated code.
    type Linked<Rest: Link>: Link;
    /// Its name and its messages.
    const INFO: ProtocolInfo;

    /// What the inputs for a message of `process` that is known by the name of its method come to. For generated code.
    fn message_by_name(process: &'static str, message: &str, inputs: Inputs) -> ByName;
}

/// A process that answers the protocol `Q`, such as `dyn Storage`. The macro implements it.
#[diagnostic::on_unimplemented(
    message = "process `{Self}` does not answer the protocol `{Q}`",
    label = "no `#[process] impl` of `{Q}` for `{Self}`",
    note = "write `#[process]` before the `impl` of the protocol for `{Self}`, or remove it from `protocols(…)`"
)]
pub trait Serves<Q: ?Sized>: Addressed + Sized {
    /// Whether any of its methods for the protocol is async.
    const ASYNC: bool;

    /// Returns whether the message is one of the protocol. For generated code.
    fn understands(mail: &Mail<'_>) -> bool;
    /// Returns whether the message has an async method. For generated code.
    fn is_async(mail: &Mail<'_>) -> bool;
    /// Hands a message to its method. For generated code.
    fn deliver<'a>(&'a mut self, ctx: &'a mut Context<Self>, mail: &mut Mail<'_>) -> Dispatched<'a>;
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
pub trait Plain<P> {
    /// See [`Serves::understands`].
    fn understands(mail: &Mail<'_>) -> bool;
    /// See [`Serves::deliver`].
    fn deliver<'a>(process: &'a mut P, mail: &mut Mail<'_>) -> Dispatched<'a>;
}

/// The messages of a protocol, in their order: pairs of the first one and the others. For generated code.
pub trait Chain<L> {
    /// The type of the first one.
    type Message;
    /// What it is answered with.
    type Reply: Send + 'static;
    /// The error of the answer.
    type Error: Send + 'static;
    /// The others.
    type Rest: Chain<L>;
}

impl<L, M, T: Send + 'static, E: Send + 'static, Rest: Chain<L>> Chain<L> for ((M, T, E), Rest) {
    type Message = M;
    type Reply = T;
    type Error = E;
    type Rest = Rest;
}

/// What follows the last one: an `impl` with more methods than the protocol is told so by the compiler, and by it
/// alone.
impl<L> Chain<L> for () {
    type Message = Beyond<()>;
    type Reply = ();
    type Error = Infallible;
    type Rest = Beyond<()>;
}

/// What follows that. For generated code.
pub struct Beyond<T>(PhantomData<T>);

impl<L, T> Chain<L> for Beyond<T> {
    type Message = Beyond<Self>;
    type Reply = ();
    type Error = Infallible;
    type Rest = Beyond<Self>;
}

/// The messages of a protocol from number `I` on. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no protocol",
    label = "not a protocol",
    note = "write `#[protocol]` before the trait, or remove the `#[process]` here"
)]
pub trait MessagesFrom<const I: usize, L> {
    /// They.
    type Messages: Chain<L>;
}

/// The message of the method whose name has the hash `H`. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no protocol with a method of this name",
    label = "no method of the protocol",
    note = "name it as the protocol does, or move it to an `impl` of its own"
)]
pub trait Named<const H: u64, L> {
    /// Its type.
    type Message;
    /// What it is answered with.
    type Reply: Send + 'static;
    /// The error of the answer.
    type Error: Send + 'static;
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

impl<P: Handles<M> + HandlesAll<Rest>, M, T, E, Rest> HandlesAll<((M, T, E), Rest)> for P {}

/// That a method answers as the protocol says: two of these are of one type. For generated code.
pub struct Answer<T, E>(PhantomData<fn() -> (T, E)>);

impl<T, E> Answer<T, E> {
    /// The only one.
    pub const THIS: Self = Self(PhantomData);
}

/// Checks at compile time, in generated code, that a process handles all messages of a protocol.
pub const fn complete<P: HandlesAll<Q::Messages>, Q: MessagesFrom<0, P> + ?Sized>() {}
