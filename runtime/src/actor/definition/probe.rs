//! Questions that the generated code asks about types, answered by *autoref specialization*.
//!
//! A macro sees tokens, not types, and stable Rust has no specialization. But a method call on `&&&probe` looks for a
//! `&self` method of `&&Probe` first, then of `&Probe`, then of `Probe`, and takes the first whose bounds hold. So each
//! question is a type (the *probe*), and each answer is a trait that is implemented for the probe or for a reference to
//! it. All of these traits have the same method; the more specific an answer, the more references its trait's type has.
//! The macro imports the traits and makes the call. [`AnswerType`] uses another rule for the same purpose: an inherent
//! constant takes precedence over a trait's. Bounds are checked where the macro expands: for a type parameter, only its
//! declared bounds count.
//!
//! The names of the methods that the macro calls begin with `__postroom`. A user's trait may be implemented for all
//! types, and its methods would be found, too, if they had the same name.
//!
//! | probe | question | answers |
//! |---|---|---|
//! | [`PlacementOf`] | where may its futures be polled? | [`IsPinned`], [`IsSend`], [`IsAny`], [`IsNotSend`] |
//! | [`MessageOf`] | can the message be sent by name? | [`MessageIsSend`], [`MessageIsNotSend`] |
//! | [`AnswerType`] | is the type a `Result`, however it is aliased? | inherent constant, [`MayBeResult`] |
//! | [`GenericAnswer`] | is a type with parameters a `Result`? | inherent constant, [`MayBeResult`] |
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
    /// The answer for a pinned process. It is found first.
    IsPinned: [P] &&PlacementOf<P, OnItsThread> => fn __postroom_wrapper(&self) -> Pinned { Pinned }
    /// The answer for a process whose state is `Send`. It is found second.
    IsSend: [P: Send, L] &PlacementOf<P, L> => fn __postroom_wrapper(&self) -> NotPinned { NotPinned }
    /// The answer for a process that is not pinned, whether or not its state is `Send`. Used in place of [`IsSend`]
    /// where the wrapper itself requires `Send`, so that the compiler's error comes from the wrapper.
    IsAny: [P, L] &PlacementOf<P, L> => fn __postroom_wrapper(&self) -> NotPinned { NotPinned }
    /// The answer for all other processes. It is found last. The missing `Send` is reported once, where the state is
    /// stored.
    IsNotSend: [P, L] PlacementOf<P, L> => fn __postroom_wrapper(&self) -> Pinned { Pinned }
}

probe! {
    /// Converts a message to a [`NamedMessage`] if its type is `Send`.
    MessageOf<M>
}

answers! {
    /// The message is `Send`.
    MessageIsSend<M>: [M: Send + 'static] &MessageOf<M> => fn __postroom_named(&self, message: M) -> NamedMessage {
        NamedMessage::new(message)
    }
    /// The message is not `Send`. The compiler reports that where the message is handled, and need not repeat it here.
    MessageIsNotSend<M>: [M] MessageOf<M> => fn __postroom_named(&self, _message: M) -> NamedMessage {
        unreachable!("a message that is not `Send` does not compile")
    }
}

/// Tells whether a type is a `Result`.
#[derive(Debug)]
pub struct AnswerType<T: ?Sized>(PhantomData<T>);

impl<T, E> AnswerType<Result<T, E>> {
    /// True: the type is a `Result`.
    pub const __POSTROOM_IS_RESULT: bool = true;
}

/// Tells whether a type that mentions parameters of its process is a `Result`. The answer must not depend on the
/// parameters, because it becomes a constant in a type. So `F` is a function that returns the type with `&'a ()` in
/// place of each parameter: `for<'a> fn(&'a ()) -> Outcome<&'a ()>`. Since the function type binds the lifetime, the
/// compiler does not check whether `&'a ()` satisfies the bounds of the parameter.
#[derive(Debug)]
pub struct GenericAnswer<F>(PhantomData<F>);

impl<F: for<'a> ReturnsResult<'a>> GenericAnswer<F> {
    /// True: the type is a `Result`.
    pub const __POSTROOM_IS_RESULT: bool = true;
}

/// A function that returns a `Result`: see [`GenericAnswer`].
pub trait ReturnsResult<'a> {}

impl<'a, F: Fn(&'a ()) -> Result<T, E>, T, E> ReturnsResult<'a> for F {}

/// The fallback of [`AnswerType`] and [`GenericAnswer`].
pub trait MayBeResult {
    /// False, for any other type.
    const __POSTROOM_IS_RESULT: bool = false;
}

impl<T: ?Sized> MayBeResult for AnswerType<T> {}

impl<F> MayBeResult for GenericAnswer<F> {}

/// Describes an error by `Display`, else by `Debug`, else by the name of its type.
#[derive(Debug)]
pub struct ErrorText<'a, E>(pub &'a E);

answers! {
    /// The error implements `Display`.
    ByDisplay: [E: Display] &&ErrorText<'_, E> => fn __postroom_text(&self) -> String { self.0.to_string() }
    /// The error implements `Debug`.
    ByDebug: [E: Debug] &ErrorText<'_, E> => fn __postroom_text(&self) -> String { format!("{:?}", self.0) }
    /// Any other error.
    ByType: [E] ErrorText<'_, E> => fn __postroom_text(&self) -> String { std::any::type_name::<E>().to_string() }
}
