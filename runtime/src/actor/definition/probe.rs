//! Questions that the generated code asks about types, answered by *autoref specialization*.
//!
//! A macro sees tokens and not types, and stable Rust has no specialization. But a method call on `&&&probe` looks for
//! a `&self` method of `&&Probe` first, then of `&Probe`, then of `Probe`, and takes the first whose bounds hold. So
//! each question is a type (the *probe*) with a trait for each answer, all with one method: the more specific an
//! answer, the more references stand before the type that its trait is implemented for. The macro imports the traits
//! and makes the call. [`AnswerType`] uses another rule to the same end: an inherent constant takes precedence over a
//! trait's. Bounds are judged where the macro expands: of a type parameter, only what its own bounds say counts.
//!
//! What the macro calls by a method's name begins with `__postroom`: a trait of the user that has a method for all
//! types would be found too.
//!
//! | probe | question | answers |
//! |---|---|---|
//! | [`PlacementOf`] | where may its futures be polled? | [`IsPinned`], [`IsSend`], [`IsAny`], [`IsNotSend`] |
//! | [`MessageOf`] | can the message be sent by name? | [`MessageIsSend`], [`MessageIsNotSend`] |
//! | [`AnswerType`] | is the type a `Result`, however it is aliased? | inherent constant, [`MayBeResult`] |
//! | [`GenericAnswer`] | the same, of a type with parameters | inherent constant, [`MayBeResult`] |
//! | [`ErrorText`] | how is the error shown? | [`ByDisplay`], [`ByDebug`], [`ByType`] |

use super::named_message::NamedMessage;
use super::placement::{NotPinned, OnItsThread, Pinned};
use super::probe_macros::{answers, probe};
use std::fmt::{Debug, Display};
use std::marker::PhantomData;

probe! {
    /// Selects where the futures of a process `P` with placement `L` may be polled.
    PlacementOf<P, L>
}

answers! {
    /// The process is pinned: found first.
    IsPinned: [P] &&PlacementOf<P, OnItsThread> => fn __postroom_wrapper(&self) -> Pinned { Pinned }
    /// The state of the process is `Send`: found second.
    IsSend: [P: Send, L] &PlacementOf<P, L> => fn __postroom_wrapper(&self) -> NotPinned { NotPinned }
    /// The process is not pinned, whether or not its state is `Send`: in place of [`IsSend`] where the wrapper itself
    /// requires that, so that the compiler's error comes from there.
    IsAny: [P, L] &PlacementOf<P, L> => fn __postroom_wrapper(&self) -> NotPinned { NotPinned }
    /// All others: found last. The missing `Send` is reported once, where the state is stored.
    IsNotSend: [P, L] PlacementOf<P, L> => fn __postroom_wrapper(&self) -> Pinned { Pinned }
}

probe! {
    /// Makes a [`NamedMessage`] of a message if its type is `Send`.
    MessageOf<M>
}

answers! {
    /// The message is `Send`.
    MessageIsSend<M>: [M: Send + 'static] &MessageOf<M> => fn __postroom_named(&self, message: M) -> NamedMessage {
        NamedMessage::new(message)
    }
    /// The message is not `Send`: the compiler reports it where it is handled, and need not repeat it here.
    MessageIsNotSend<M>: [M] MessageOf<M> => fn __postroom_named(&self, _message: M) -> NamedMessage {
        unreachable!("a message that is not `Send` does not compile")
    }
}

/// Tells whether a type is a `Result`.
#[derive(Debug)]
pub struct AnswerType<T: ?Sized>(PhantomData<T>);

impl<T, E> AnswerType<Result<T, E>> {
    /// A `Result`.
    pub const __POSTROOM_IS_RESULT: bool = true;
}

/// Tells whether a type that mentions parameters of its process is a `Result`: the answer must not depend on them, as
/// it becomes a constant in a type. So `F` is a function that returns the type with `&'a ()` in place of each
/// parameter: `for<'a> fn(&'a ()) -> Outcome<&'a ()>`. As this is bound by the function's lifetime, the compiler does
/// not ask whether it has the bounds of the parameter.
#[derive(Debug)]
pub struct GenericAnswer<F>(PhantomData<F>);

impl<F: for<'a> ReturnsResult<'a>> GenericAnswer<F> {
    /// A `Result`.
    pub const __POSTROOM_IS_RESULT: bool = true;
}

/// A function that returns a `Result`: see [`GenericAnswer`].
pub trait ReturnsResult<'a> {}

impl<'a, F: Fn(&'a ()) -> Result<T, E>, T, E> ReturnsResult<'a> for F {}

/// The fallback of [`AnswerType`] and [`GenericAnswer`].
pub trait MayBeResult {
    /// Any other type.
    const __POSTROOM_IS_RESULT: bool = false;
}

impl<T: ?Sized> MayBeResult for AnswerType<T> {}

impl<F> MayBeResult for GenericAnswer<F> {}

/// Describes an error by `Display`, else by `Debug`, else by the name of its type.
#[derive(Debug)]
pub struct ErrorText<'a, E>(pub &'a E);

answers! {
    /// The error has a `Display`.
    ByDisplay: [E: Display] &&ErrorText<'_, E> => fn __postroom_text(&self) -> String { self.0.to_string() }
    /// The error has a `Debug`.
    ByDebug: [E: Debug] &ErrorText<'_, E> => fn __postroom_text(&self) -> String { format!("{:?}", self.0) }
    /// Any error.
    ByType: [E] ErrorText<'_, E> => fn __postroom_text(&self) -> String { std::any::type_name::<E>().to_string() }
}
