//! The entries of a process and their results. An entry can be selected by name.

use super::{context::Context, inputs::InputInfo, placement::MethodFuture};
use crate::{InitError, Payload, ProcessError};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::{convert::Infallible, fmt};

/// A description of an entry of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// The name of the method.
    pub name: &'static str,
    /// The parameters, without the context.
    pub inputs: &'static [InputInfo],
    /// Whether the method is async.
    pub is_async: bool,
}

impl fmt::Display for EntryInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<String> = self.inputs.iter().map(ToString::to_string).collect();
        write!(f, "{}({})", self.name, inputs.join(", "))
    }
}

/// The output of the future of an async method or entry. For generated code.
pub enum FutureOutput<P> {
    /// From an async message method: the struct, its context, and the error that ends the process, if any.
    Method(P, Context<P>, Option<ProcessError>),
    /// From an async entry: the struct, its context, its result, and the text of its error.
    Entry(P, Context<P>, Payload, Option<String>),
}

pub(crate) type Pending<P> = MethodFuture<'static, FutureOutput<P>>;

/// The future of an async entry. Returns the struct, the context and the result.
pub type EntryFuture<P, T, E> = MethodFuture<'static, (P, Context<P>, EntryResult<T, E>)>;

/// An entry with its inputs, ready to start. For generated code.
pub struct Start<P> {
    pub(crate) index: usize,
    pub(crate) begin: Begin<P>,
}

type SyncEntry<P> = Box<dyn FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError> + Send>;

pub(crate) enum Begin<P> {
    Sync(SyncEntry<P>),
    Future(Box<dyn FnOnce(P, Context<P>) -> Pending<P> + Send>),
}

impl<P: 'static> Start<P> {
    /// Creates the start of a sync entry.
    pub fn sync(
        index: usize,
        begin: impl FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError> + Send + 'static,
    ) -> Self {
        Self { index, begin: Begin::Sync(Box::new(begin)) }
    }

    /// Creates the start of an async entry.
    pub fn future<T: Send + 'static, E: Send + 'static>(
        index: usize,
        begin: impl FnOnce(P, Context<P>) -> EntryFuture<P, T, E> + Send + 'static,
    ) -> Self {
        Self { index, begin: Begin::Future(Box::new(move |process, context| pending(begin(process, context)))) }
    }
}

/// Erases the result type of an entry's future, so that the machine can poll it.
pub(crate) fn pending<P: 'static, T: Send + 'static, E: Send + 'static>(future: EntryFuture<P, T, E>) -> Pending<P> {
    Box::pin(ErasedEntry(future))
}

/// A hand-written future, because each poll of the entry passes through it: unlike an async block, it adds no state.
struct ErasedEntry<P, T, E>(EntryFuture<P, T, E>);

impl<P: 'static, T: Send + 'static, E: Send + 'static> Future for ErasedEntry<P, T, E> {
    type Output = FutureOutput<P>;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context).map(|(process, context, EntryResult { result, error })| {
            FutureOutput::Entry(process, context, Payload::new(result), error)
        })
    }
}

/// The result of an async entry with the text of its error. For generated code.
#[derive(Debug)]
pub struct EntryResult<T, E> {
    result: Result<T, E>,
    error: Option<String>,
}

impl<T> EntryResult<T, Infallible> {
    /// Wraps the value of an entry that returns no `Result`.
    pub fn plain(value: T) -> Self {
        Self { result: Ok(value), error: None }
    }
}

impl<T, E> EntryResult<T, E> {
    /// Wraps the value of an entry that returns a `Result`.
    pub fn described(result: Result<T, E>, describe: impl FnOnce(&E) -> String) -> Self {
        let error = result.as_ref().err().map(describe);
        Self { result, error }
    }
}

/// The allowed return types of a sync entry. For generated code.
#[diagnostic::on_unimplemented(
    message = "a sync entry returns nothing or `Result<(), E>`, not `{Self}`",
    note = "make the entry `async` if it is to have a result"
)]
pub trait InitOutcome {
    /// Converts to the result of starting a process.
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
