//! What the macro says of a struct: its names, its entries, its messages, and how each message is handled.

use super::context::Context;
use super::entry::{Inputs, Start};
use super::spawn::SpawnCore;
use crate::errors::{EntryError, ProcessError};
use crate::exit::Signal;
use crate::package::Package;
use crate::pid::Pid;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// The struct's half of `#[process]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has a `#[process] impl`, but no `#[process]` on its struct",
    label = "the struct is no process",
    note = "write `#[process]` before `struct {Self}`"
)]
pub trait Declared {
    /// The name of the type, or the one that was given to it.
    const NAME: &'static str;
    /// Whether an `Err` of a message that was sent, not called, ends the process.
    const ENDS_ON_ERROR: bool;
}

/// A struct with `#[process]`: what addresses, contexts and spawns are typed by. The macro implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no process",
    label = "not a process",
    note = "write `#[process]` before its struct and `#[process]` before the impl block with its entries and messages"
)]
pub trait Actor: Declared + Sized + Send + 'static {
    /// What `Address<Self>` derefs to: a method for each message.
    type Client: Copy + Send + Sync + 'static;
    /// What `Spawn<Self>` derefs to: a method for each entry.
    type Entries;
    /// The entries, in the order of the source.
    const ENTRIES: &'static [EntryInfo];
    /// The message methods.
    const MESSAGES: &'static [&'static str];
    /// The kinds of signals that have a method.
    const SIGNALS: &'static [&'static str];
    /// Whether any method is async.
    const ASYNC: bool;

    #[doc(hidden)]
    fn client(pid: Pid) -> Self::Client;
    #[doc(hidden)]
    fn pid(client: &Self::Client) -> Pid;
    #[doc(hidden)]
    fn entries(spawn: SpawnCore<Self>) -> Self::Entries;
    #[doc(hidden)]
    fn spawn_core(entries: &mut Self::Entries) -> &mut SpawnCore<Self>;
    #[doc(hidden)]
    fn start_by_name(entry: &str, inputs: Inputs) -> Result<Start<Self>, EntryError>;
    #[doc(hidden)]
    fn is_async(package: &Package) -> bool;
    #[doc(hidden)]
    fn deliver<'a>(&'a mut self, ctx: &'a mut Context<Self>, package: Package) -> Delivery<'a>;
    #[doc(hidden)]
    fn signal<'a>(&'a mut self, ctx: &'a mut Context<Self>, signal: Signal) -> Result<Delivery<'a>, Signal>;
}

/// A process that has a method for messages of type `M`.
#[diagnostic::on_unimplemented(
    message = "process `{Self}` does not understand the message `{M}`",
    label = "no method for `{M}`",
    note = "add a method `#[message({M})] fn …(&mut self, message: {M})` to `#[process] impl {Self}`"
)]
pub trait Handles<M>: Actor {
    /// What the method answers; of a `Result`, what it is when all goes well.
    type Reply: Send + 'static;
    /// The error of the method; [`Infallible`](std::convert::Infallible) if it returns no `Result`.
    type Error: Send + 'static;
}

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

/// An input of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputInfo {
    /// Its name.
    pub name: &'static str,
    /// Its type, as it is written.
    pub type_name: &'static str,
}

impl fmt::Display for EntryInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<String> = self.inputs.iter().map(ToString::to_string).collect();
        write!(f, "{}({})", self.name, inputs.join(", "))
    }
}

impl fmt::Display for InputInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.type_name)
    }
}

/// A message that cannot be made.
#[doc(hidden)]
#[derive(Debug)]
pub enum Never {}

/// What became of a message.
#[doc(hidden)]
pub enum Delivery<'a> {
    /// It was handled.
    Done,
    /// There is no method for it.
    Unhandled(Package),
    /// It was handled, and its error ends the process.
    Failed(ProcessError),
    /// Its method is async.
    Pending(Pin<Box<dyn Future<Output = Delivery<'static>> + Send + 'a>>),
}
