//! How an entry is started by its name.

use super::context::Context;
use super::inputs::InputInfo;
use super::placement::Kept;
use crate::errors::{InitError, ProcessError};
use crate::mailbox::payload::Payload;
use std::convert::Infallible;
use std::fmt;

/// An entry of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// Its name.
    pub name: &'static str,
    /// What it takes, without the context.
    pub inputs: &'static [InputInfo],
    /// Whether it is async.
    pub is_async: bool,
}

impl fmt::Display for EntryInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<String> = self.inputs.iter().map(ToString::to_string).collect();
        write!(f, "{}({})", self.name, inputs.join(", "))
    }
}

/// What a future gives back. For generated code.
pub enum FutureOutput<P> {
    /// An async method is over.
    Method(P, Context<P>, Option<ProcessError>),
    /// An async entry is over: its result, and what its error says if it is one.
    Entry(P, Context<P>, Payload, Option<String>),
}

pub(crate) type Pending<P> = Kept<'static, FutureOutput<P>>;

/// What an async entry's future gives back: the struct, its context, and the result.
pub type EntryFuture<P, T, E> = Kept<'static, (P, Context<P>, Wire<T, E>)>;

/// An entry with its inputs, ready to start. For generated code.
pub struct Start<P> {
    /// Which of the process's entries.
    pub(crate) index: usize,
    pub(crate) begin: Begin<P>,
}

type SyncEntry<P> = Box<dyn FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError> + Send>;

pub(crate) enum Begin<P> {
    Sync(SyncEntry<P>),
    Future(Box<dyn FnOnce(P, Context<P>) -> Pending<P> + Send>),
}

impl<P: 'static> Start<P> {
    /// A sync entry.
    pub fn sync(
        index: usize,
        begin: impl FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError> + Send + 'static,
    ) -> Self {
        Self { index, begin: Begin::Sync(Box::new(begin)) }
    }

    /// An async entry.
    pub fn future<T: Send + 'static, E: Send + 'static>(
        index: usize,
        begin: impl FnOnce(P, Context<P>) -> EntryFuture<P, T, E> + Send + 'static,
    ) -> Self {
        Self { index, begin: Begin::Future(Box::new(move |process, context| pending(begin(process, context)))) }
    }
}

/// Turns an entry's future into what a machine polls.
pub(crate) fn pending<P: 'static, T: Send + 'static, E: Send + 'static>(future: EntryFuture<P, T, E>) -> Pending<P> {
    Box::pin(async move {
        let (process, context, Wire { result, error }) = future.await;
        FutureOutput::Entry(process, context, Payload::new(result), error)
    })
}

/// What an async entry returned, and what its error says. For generated code.
#[derive(Debug)]
pub struct Wire<T, E> {
    /// What it returned.
    pub result: Result<T, E>,
    /// What its error says.
    pub error: Option<String>,
}

/// The result of an entry that returns no `Result`. For generated code.
pub fn wire<T>(value: T) -> Wire<T, Infallible> {
    Wire { result: Ok(value), error: None }
}

/// The result of an entry that returns a `Result`. For generated code.
pub fn wire_result<T, E>(result: Result<T, E>, describe: impl FnOnce(&E) -> String) -> Wire<T, E> {
    let error = result.as_ref().err().map(describe);
    Wire { result, error }
}

/// What a sync entry may return. For generated code.
#[diagnostic::on_unimplemented(
    message = "a sync entry returns nothing or `Result<(), E>`, not `{Self}`",
    note = "make the entry `async` if it is to have a result"
)]
pub trait InitOutcome {
    /// The same as what the start of a process comes to.
    fn into_init(self) -> Result<(), InitError>;
}

impl InitOutcome for () {
    fn into_init(self) -> Result<(), InitError> {
        Ok(())
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> InitOutcome for Result<(), E> {
    fn into_init(self) -> Result<(), InitError> {
        self.map_err(InitError::failed)
    }
}

/// The two sides of a `Result`, whatever alias it is written as. For generated code.
pub trait Fallible {
    /// What it is when all goes well.
    type Ok;
    /// What it is otherwise.
    type Err;
}

impl<T, E> Fallible for Result<T, E> {
    type Ok = T;
    type Err = E;
}

/// Tells whether an answer is a `Result`, whatever alias it is written as. For generated code, and in a constant: an
/// item of the type itself goes before one of a trait.
#[derive(Debug)]
pub struct AnswerType<T: ?Sized>(std::marker::PhantomData<T>);

impl<T, E> AnswerType<Result<T, E>> {
    /// It is one.
    pub const IS_RESULT: bool = true;
}

/// See [`AnswerType`].
pub trait MayBeResult {
    /// It is none.
    const IS_RESULT: bool = false;
}

impl<T: ?Sized> MayBeResult for AnswerType<T> {}

/// Describes an error by `Display` if it has that, by `Debug` if it has only that, and by its type otherwise. For
/// generated code.
#[derive(Debug)]
pub struct ErrorText<'a, E>(pub &'a E);

/// An error with a `Display`. For generated code.
pub trait ByDisplay {
    /// What it says.
    fn text(&self) -> String;
}

impl<E: std::fmt::Display> ByDisplay for &&ErrorText<'_, E> {
    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// An error with a `Debug`. For generated code.
pub trait ByDebug {
    /// What it says.
    fn text(&self) -> String;
}

impl<E: std::fmt::Debug> ByDebug for &ErrorText<'_, E> {
    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Any error. For generated code.
pub trait ByType {
    /// What it says.
    fn text(&self) -> String;
}

impl<E> ByType for ErrorText<'_, E> {
    fn text(&self) -> String {
        std::any::type_name::<E>().to_string()
    }
}
