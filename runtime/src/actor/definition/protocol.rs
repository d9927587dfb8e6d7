//! Protocols: messages that several process types answer, under one address type.
//!
//! `#[protocol]` generates the messages for the type `dyn Storage`; `#[process] impl Storage for Disk` defines how a
//! `Disk` handles them. Neither macro sees the other's text, so the second one looks up what it needs through types:
//! the messages as a [`Chain`], and the message for a method name through [`Named`].
//!
//! These traits have a parameter `L` for the process and are implemented for every `L`. It carries no information, but
//! a type of the crate that uses the protocol must appear among the parameters: otherwise the coherence check assumes
//! that the protocol's crate might change its message types.

use super::actor::{Dispatched, Handles};
use super::{context::Context, inputs::Inputs, named_message::ByName};
use crate::actor::send::{Addressed, Link, ProtocolInfo};
use crate::process::mail::Mail;
use std::{convert::Infallible, fmt, marker::PhantomData};

/// A protocol: `dyn` of a trait with `#[protocol]`. The macro implements it.
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
    message = "`{Self}` is not a protocol",
    label = "not a protocol",
    note = "write `#[protocol]` before the trait, or remove the `#[process]` here"
)]
pub trait Protocol: Addressed {
    /// The link for this protocol's messages in the deref chain of an address; it dereferences to `Rest`. For generated
    /// code.
    type Linked<Rest: Link>: Link;
    /// The name and the messages of the protocol.
    const INFO: ProtocolInfo;

    /// Finds a message of `process` by the name of its method and binds its inputs. For generated code.
    fn message_by_name(process: &'static str, message: &str, inputs: Inputs) -> ByName;

    /// Writes a message whose method has `#[message(inspect)]`. For generated code.
    fn show_message(mail: &mut Mail<'_>, f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
        let _ = (mail, f);
        None
    }
}

/// A process that implements the protocol `Q`, such as `dyn Storage`. The macro implements it.
#[diagnostic::on_unimplemented(
    message = "process `{Self}` does not answer the protocol `{Q}`",
    label = "no `#[process] impl` of `{Q}` for `{Self}`",
    note = "write `#[process]` before the `impl` of the protocol for `{Self}`, or remove it from `protocols(…)`"
)]
pub trait Serves<Q: ?Sized>: Addressed + Sized {
    /// Whether any of the process's methods for the protocol is async.
    const ASYNC: bool;

    /// Returns whether the message belongs to the protocol. For generated code.
    fn understands(mail: &Mail<'_>) -> bool;
    /// Returns whether the message has an async method. For generated code.
    fn is_async(mail: &Mail<'_>) -> bool;
    /// Dispatches a message to its method. For generated code.
    fn deliver<'a>(&'a mut self, ctx: &'a mut Context<Self>, mail: &mut Mail<'_>) -> Dispatched<'a>;
}

/// A process whose own `impl` lists the protocol `Q`, so the protocol's messages are dispatched to it. For generated
/// code.
#[diagnostic::on_unimplemented(
    message = "the messages of this protocol never reach `{Self}`: its own `#[process] impl` does not name it",
    label = "not in `protocols(…)`",
    note = "write `#[process(protocols(…))]`, with this protocol in it, before `impl {Self}`"
)]
pub trait Lists<Q: ?Sized> {}

/// The provided methods of a protocol's trait, as far as the process has not overridden them. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a protocol",
    label = "not a protocol",
    note = "write `#[protocol]` before the trait, or remove the `#[process]` here"
)]
pub trait Plain<P> {
    /// Like [`Serves::understands`], for the provided methods.
    fn understands(mail: &Mail<'_>) -> bool;
    /// Like [`Serves::deliver`], for the provided methods.
    fn deliver<'a>(process: &'a mut P, mail: &mut Mail<'_>) -> Dispatched<'a>;
}

/// The messages of a protocol in source order, as nested pairs. For generated code.
pub trait Chain<L> {
    /// The type of the first message.
    type Message;
    /// The answer type of the first message.
    type Answer: Send + 'static;
    /// The error type of the first message.
    type Error: Send + 'static;
    /// The rest of the list.
    type Rest: Chain<L>;
}

impl<L, M, T: Send + 'static, E: Send + 'static, Rest: Chain<L>> Chain<L> for ((M, T, E), Rest) {
    type Message = M;
    type Answer = T;
    type Error = E;
    type Rest = Rest;
}

/// The end of the list. It yields a type for every further position, so that an `impl` with more methods than the
/// protocol gets only the compiler's own error.
impl<L> Chain<L> for () {
    type Message = Beyond<()>;
    type Answer = ();
    type Error = Infallible;
    type Rest = Beyond<()>;
}

/// A position past the end of the list. For generated code.
pub struct Beyond<T>(PhantomData<T>);

impl<L, T> Chain<L> for Beyond<T> {
    type Message = Beyond<Self>;
    type Answer = ();
    type Error = Infallible;
    type Rest = Beyond<Self>;
}

/// The messages of a protocol from number `I` on. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a protocol",
    label = "not a protocol",
    note = "write `#[protocol]` before the trait, or remove the `#[process]` here"
)]
pub trait MessagesFrom<const I: usize, L> {
    /// The messages from number `I` on.
    type Messages: Chain<L>;
}

/// The message of the method whose name hashes to `H`. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a protocol with a method of this name",
    label = "no method of the protocol",
    note = "name it as the protocol does, or move it to an `impl` of its own"
)]
pub trait Named<const H: u64, L> {
    /// The type of the message.
    type Message;
    /// The type of the answer.
    type Answer: Send + 'static;
    /// The type of the error.
    type Error: Send + 'static;
    /// The types of the fields, as a tuple.
    type Parts;
    /// Returns the fields of the message.
    fn parts(message: Self::Message) -> Self::Parts;
}

/// A process with a method for each of these messages. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle all messages of the protocol",
    label = "a method is missing"
)]
pub trait HandlesAll<Messages> {}

impl<P> HandlesAll<()> for P {}

impl<P: Handles<M> + HandlesAll<Rest>, M, T, E, Rest> HandlesAll<((M, T, E), Rest)> for P {}

/// Checks at compile time, in generated code, that a process handles all messages of a protocol.
pub const fn complete<P: HandlesAll<Q::Messages>, Q: MessagesFrom<0, P> + ?Sized>() {}
