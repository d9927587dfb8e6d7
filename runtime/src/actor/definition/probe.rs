//! Questions that the generated code asks about types, answered by *autoref specialization*.
//!
//! A macro sees tokens and not types, and stable Rust has no specialization. But a method call on `&&&probe` looks for
//! a `&self` method of `&&Probe` first, then of `&Probe`, then of `Probe`, and takes the first whose bounds hold. So
//! each question is a type (the *probe*) with a trait for each answer, all with one method: the more specific an
//! answer, the more references stand before the type that its trait is implemented for. The macro imports the traits
//! and makes the call. [`AnswerType`] uses another rule to the same end: an inherent constant takes precedence over a
//! trait's. Bounds are judged where the macro expands: of a type parameter, only what its own bounds say counts.
//!
//! | probe | question | answers |
//! |---|---|---|
//! | [`PlacementOf`] | where may its futures be polled? | [`IsPinned`], [`IsSend`], [`IsAny`], [`IsNotSend`] |
//! | [`MessageOf`] | can the message be sent by name? | [`MessageIsSend`], [`MessageIsNotSend`] |
//! | [`AnswerType`] | is the type a `Result`, however it is aliased? | inherent constant, [`MayBeResult`] |
//! | [`ErrorText`] | how is the error shown? | [`ByDisplay`], [`ByDebug`], [`ByType`] |

use super::named_message::NamedMessage;
use super::placement::{NotPinned, OnItsThread, Pinned};
use std::fmt::{Debug, Display};
use std::marker::PhantomData;

/// Selects where the futures of a process `P` with placement `L` may be polled.
#[derive(Debug)]
pub struct PlacementOf<P, L>(PhantomData<(P, L)>);

impl<P, L> PlacementOf<P, L> {
    #[expect(clippy::new_without_default, reason = "only the macro makes one")]
    /// Makes the probe.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// The process is pinned: found first.
pub trait IsPinned {
    /// Returns the wrapper for its futures.
    fn wrapper(&self) -> Pinned;
}

impl<P> IsPinned for &&PlacementOf<P, OnItsThread> {
    fn wrapper(&self) -> Pinned {
        Pinned
    }
}

/// The state of the process is `Send`: found second.
pub trait IsSend {
    /// Returns the wrapper for its futures.
    fn wrapper(&self) -> NotPinned;
}

impl<P: Send, L> IsSend for &PlacementOf<P, L> {
    fn wrapper(&self) -> NotPinned {
        NotPinned
    }
}

/// The process is not pinned, whether or not its state is `Send`: in place of [`IsSend`] where the wrapper itself
/// requires that, so that the compiler's error comes from there.
pub trait IsAny {
    /// Returns the wrapper for its futures.
    fn wrapper(&self) -> NotPinned;
}

impl<P, L> IsAny for &PlacementOf<P, L> {
    fn wrapper(&self) -> NotPinned {
        NotPinned
    }
}

/// All others: found last. The missing `Send` is reported once, where the state is stored, and not again for each
/// method.
pub trait IsNotSend {
    /// Returns the wrapper for its futures.
    fn wrapper(&self) -> Pinned;
}

impl<P, L> IsNotSend for PlacementOf<P, L> {
    fn wrapper(&self) -> Pinned {
        Pinned
    }
}

/// Makes a [`NamedMessage`] of a message if its type is `Send`.
#[derive(Debug)]
pub struct MessageOf<M>(PhantomData<M>);

impl<M> MessageOf<M> {
    #[expect(clippy::new_without_default, reason = "only the macro makes one")]
    /// Makes the probe.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// The message is `Send`.
pub trait MessageIsSend<M> {
    /// Erases the type of the message.
    fn named(&self, message: M) -> NamedMessage;
}

impl<M: Send + 'static> MessageIsSend<M> for &MessageOf<M> {
    fn named(&self, message: M) -> NamedMessage {
        NamedMessage::new(message)
    }
}

/// The message is not `Send`: the compiler reports it where it is handled, and need not repeat it here.
pub trait MessageIsNotSend<M> {
    /// Never runs.
    fn named(&self, message: M) -> NamedMessage;
}

impl<M> MessageIsNotSend<M> for MessageOf<M> {
    fn named(&self, _: M) -> NamedMessage {
        unreachable!("a message that is not `Send` does not compile")
    }
}

/// Tells whether a type is a `Result`.
#[derive(Debug)]
pub struct AnswerType<T: ?Sized>(PhantomData<T>);

impl<T, E> AnswerType<Result<T, E>> {
    /// A `Result`.
    pub const IS_RESULT: bool = true;
}

/// The fallback of [`AnswerType`].
pub trait MayBeResult {
    /// Any other type.
    const IS_RESULT: bool = false;
}

impl<T: ?Sized> MayBeResult for AnswerType<T> {}

/// Describes an error by `Display`, else by `Debug`, else by the name of its type.
#[derive(Debug)]
pub struct ErrorText<'a, E>(pub &'a E);

/// The error has a `Display`.
pub trait ByDisplay {
    /// The error as text.
    fn text(&self) -> String;
}

impl<E: Display> ByDisplay for &&ErrorText<'_, E> {
    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// The error has a `Debug`.
pub trait ByDebug {
    /// The error as text.
    fn text(&self) -> String;
}

impl<E: Debug> ByDebug for &ErrorText<'_, E> {
    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Any error.
pub trait ByType {
    /// The error as text.
    fn text(&self) -> String;
}

impl<E> ByType for ErrorText<'_, E> {
    fn text(&self) -> String {
        std::any::type_name::<E>().to_string()
    }
}
