//! Conversion of a method's return value to an answer. The type itself, not the way it is written, decides whether the
//! value is a success or a failure.
//!
//! A `Result` may be written in many ways: as an alias, by a macro, in parentheses. The generated code therefore
//! inspects the type, in three steps:
//!
//! 1. [`AnswerType`] or [`GenericAnswer`] has a constant that is true if the return type is a `Result` (see [`probe`]).
//! 2. [`AnswerParts`], with that constant, names the types of success and failure. They appear in `Handles`, in the
//!    type of the call and in that of a `Running`.
//! 3. [`Outcome`] with these two types converts the value. Its two implementations do not overlap, as no type is a
//!    `Result` of itself, so the types determine how a value is handled.
//!
//! Nothing is known about a type parameter: a method of a `Cache<V>` that returns `V` returns a value, even if `V` is
//! a `Result`.
//!
//! [`probe`]: super::probe
//! [`AnswerType`]: super::probe::AnswerType
//! [`GenericAnswer`]: super::probe::GenericAnswer

use super::actor::{Declared, Dispatched};
use super::entry::{EntryFuture, EntryResult};
use super::reply::{Asked, Reply};
use std::convert::Infallible;

/// The types of success and failure of a return type. For generated code.
pub trait AnswerParts<const IS_RESULT: bool> {
    /// The type of success.
    type Ok;
    /// The type of failure.
    type Err;
}

impl<T, E> AnswerParts<true> for Result<T, E> {
    type Ok = T;
    type Err = E;
}

impl<T> AnswerParts<false> for T {
    type Ok = T;
    type Err = Infallible;
}

/// The future of an async entry that returns an `R`. For generated code.
pub type EntryFutureOf<P, R, const IS_RESULT: bool> =
    EntryFuture<P, <R as AnswerParts<IS_RESULT>>::Ok, <R as AnswerParts<IS_RESULT>>::Err>;

/// A return type that converts to the declared answer: a `T` or an `E`. For generated code.
#[diagnostic::on_unimplemented(
    message = "the method returns `{Self}`, and the protocol says `{T}` with the error `{E}`",
    label = "not the answer of the protocol",
    note = "return what the protocol's method returns; the error `Infallible` says that this is no `Result`"
)]
pub trait Outcome<T, E>: Sized {
    /// Answers a call with this value; `describe` formats an error that no caller receives.
    fn answer<P: Declared>(self, asked: Asked, describe: impl FnOnce(&E) -> String) -> Dispatched<'static>
    where
        T: Send + 'static,
        E: Send + 'static;

    /// Returns the right to answer later with a value of this type.
    fn reply(asked: Asked) -> Reply<Self>
    where
        T: Send + 'static,
        E: Send + 'static;

    /// Ends an entry with this value; `describe` formats the error.
    fn end(self, describe: impl FnOnce(&E) -> String) -> EntryResult<T, E>;
}

#[diagnostic::do_not_recommend]
impl<T, E> Outcome<T, E> for Result<T, E> {
    #[inline(always)]
    fn answer<P: Declared>(self, asked: Asked, describe: impl FnOnce(&E) -> String) -> Dispatched<'static>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        asked.answer_result::<P, T, E>(self, describe)
    }

    #[inline]
    fn reply(asked: Asked) -> Reply<Self>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        asked.into_reply_result()
    }

    fn end(self, describe: impl FnOnce(&E) -> String) -> EntryResult<T, E> {
        EntryResult::described(self, describe)
    }
}

#[diagnostic::do_not_recommend]
impl<T> Outcome<T, Infallible> for T {
    #[inline(always)]
    fn answer<P: Declared>(self, asked: Asked, _: impl FnOnce(&Infallible) -> String) -> Dispatched<'static>
    where
        T: Send + 'static,
    {
        asked.answer(self)
    }

    #[inline]
    fn reply(asked: Asked) -> Reply<Self>
    where
        T: Send + 'static,
    {
        asked.into_reply()
    }

    fn end(self, _: impl FnOnce(&Infallible) -> String) -> EntryResult<T, Infallible> {
        EntryResult::plain(self)
    }
}
