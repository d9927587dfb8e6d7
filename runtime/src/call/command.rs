//! Commands that a step yields, and their completions.

use super::caller::Caller;
use crate::{errors::CommandError, mailbox::payload::Payload};
use std::marker::PhantomData;

/// A request of a process that is answered asynchronously: its handler completes it with an `Output`.
///
/// Handlers are set with [`Builder::handler`](crate::Builder::handler); a process asks with
/// [`Context::perform`](crate::Context::perform).
///
/// ```
/// use postroom::prelude::*;
///
/// struct Fetch(&'static str);
/// impl Command for Fetch { type Output = usize; }
///
/// #[process]
/// struct Reader;
///
/// #[process]
/// impl Reader {
///     #[entry]
///     async fn read(&mut self, ctx: &mut Context<Self>) -> Result<usize, CommandError> {
///         ctx.perform(Fetch("a page")).await
///     }
/// }
///
/// let runtime = Runtime::builder()
///     .handler(|Fetch(page), done: Completion<usize>| {
///         std::thread::spawn(move || done.complete(page.len()));
///     })
///     .build()?;
/// assert_eq!(runtime.spawn(Reader).read()?.wait().unwrap(), 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Command: Send + 'static {
    /// The type of the answer.
    type Output: Send + 'static;
}

/// The right and the duty to answer one command of one process.
///
/// It may be kept, sent to any thread and answered at any time. Answering a process that has ended is harmless;
/// dropping a completion answers with [`CommandError::Dropped`].
#[derive(Debug)]
#[must_use = "dropping a completion answers the command with an error"]
pub struct Completion<T> {
    caller: Caller,
    output: PhantomData<fn(T)>,
}

impl<T: Send + 'static> Completion<T> {
    pub(crate) fn new(caller: Caller) -> Self {
        Self { caller, output: PhantomData }
    }

    /// Answers with `value`. Never blocks.
    pub fn complete(self, value: T) {
        self.caller.answer(Payload::new(value));
    }

    /// Answers with an error: the process gets [`CommandError::Failed`]. Never blocks.
    pub fn fail(self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) {
        self.caller.fail_command(CommandError::Failed(error.into()));
    }
}
