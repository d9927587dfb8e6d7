//! The traits that the macro implements for a struct. They name the type, list its entries and messages, dispatch
//! messages to its methods, and describe the type without an instance.

use super::entry::{EntryInfo, FutureOutput, Start};
use super::inputs::{CheckedInputs, Inputs};
use super::named_message::{ByName, NamedMessage};
use super::placement::{Anywhere, MethodFuture, Movable};
use super::{context::Context, spawn_core::SpawnCore};
use crate::actor::send::{Addressed, ProtocolInfo};
use crate::errors::{EntryError, MessageError};
use crate::process::{Event, unknown_entry};
use crate::{Pid, ProcessError, Signal, process::mail::Mail, slots::ProcessKind};
use std::ops::ControlFlow;
use std::{any::TypeId, fmt, marker::PhantomData};

/// The part of the implementation that `#[process]` on the struct generates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has a `#[process] impl`, but no `#[process]` on its struct",
    label = "the struct is not a process",
    note = "write `#[process]` before `struct {Self}`"
)]
pub trait Declared {
    /// The type's name, or the name from the attribute.
    const NAME: &'static str;
    /// Whether the process ends if the method of a message returns an `Err` and the message was sent, not called.
    const ENDS_ON_ERROR: bool;
    /// Whether a call is discarded unhandled if its caller has stopped waiting.
    const SKIPS_ABANDONED: bool;
    /// Whether the state may be shown.
    const INSPECTED: bool = false;
    /// The threads that may run the process.
    type Placement;

    /// Writes the state, without the skipped fields.
    #[doc(hidden)]
    fn inspect(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _ = f;
        Ok(())
    }
}

/// A struct with `#[process]`: the type parameter of addresses, contexts and spawns. The macro implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a process",
    label = "not a process",
    note = "write `#[process]` before its struct and `#[process]` before the impl block with its entries and messages"
)]
pub trait Actor: Declared + Sized + 'static {
    /// The type that `Address<Self>` dereferences to, with one method for each message.
    type Client: Copy + Send + Sync + 'static;
    /// The type that `Spawn<Self>` dereferences to, with one method for each entry.
    type Entries;
    /// The threads that may run the process: [`Declared::Placement`].
    type Placement;
    /// The entries, in source order.
    const ENTRIES: &'static [EntryInfo];
    /// The type's own message methods.
    const MESSAGES: &'static [&'static str];
    /// The protocols that it implements, with their message methods.
    const PROTOCOLS: &'static [ProtocolInfo];
    /// The kinds of signals that have a method.
    const SIGNALS: &'static [&'static str];
    /// Whether any method is async.
    const ASYNC: bool;

    /// Creates the handle for a PID. For generated code.
    fn client(pid: Pid) -> Self::Client;
    /// Returns the PID of a handle. For generated code.
    fn pid(client: &Self::Client) -> Pid;
    /// Wraps a spawn in its entry methods. For generated code.
    fn entries(spawn: SpawnCore<Self>) -> Self::Entries;
    /// Unwraps a spawn from its entry methods. For generated code.
    fn spawn_core(entries: &mut Self::Entries) -> &mut SpawnCore<Self>;
    /// Finds an entry by its name and binds its inputs. For generated code.
    fn start_by_name(entry: &str, inputs: Inputs) -> Result<Start<Self>, EntryError>;
    /// Finds a message by the name of its method and binds its inputs. For generated code.
    fn message_by_name(message: &str, inputs: Inputs) -> ByName;
    /// Returns whether the message has an async method. For generated code.
    fn is_async(mail: &Mail<'_>) -> bool;
    /// Dispatches a message to its method. For generated code.
    fn deliver<'a>(&'a mut self, ctx: &'a mut Context<Self>, mail: &mut Mail<'_>) -> Dispatched<'a>;
    /// Writes a message whose method has `#[message(inspect)]`. For generated code.
    fn show_message(mail: &mut Mail<'_>, f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
        let _ = (mail, f);
        None
    }
    /// Dispatches a signal to its method, or returns it if there is none. For generated code.
    fn signal<'a>(&'a mut self, ctx: &'a mut Context<Self>, signal: Signal) -> Result<Dispatched<'a>, Signal>;
    /// Moves the struct and its context into the future of an async method. For generated code.
    fn away(self, ctx: Context<Self>, event: MethodEvent) -> MethodFuture<'static, FutureOutput<Self>>;
}

/// A process that may move between threads: its struct is not `#[process(pinned)]`, and its state is `Send`.
/// [`spawn`](crate::Host::spawn) requires it; other processes are spawned with
/// [`spawn_pinned`](crate::Host::spawn_pinned).
///
/// Implemented for all such processes. Use it as the bound of a generic function that spawns a process:
/// `fn start<P: Migratable>(process: P)`.
#[diagnostic::on_unimplemented(
    message = "the workers cannot run `{Self}`: its state is not `Send`",
    label = "not `Send`, so it has to stay on one thread",
    note = "write `#[process(pinned)]` before `struct {Self}` and spawn it with `spawn_pinned(|| …)` (a supervisor's \
            child: `of_pinned(|| …)`): it gets a thread of its own",
    note = "or make all of its fields `Send`, for instance with `Arc` in place of `Rc`; `fn send<T: Send>() {{}} \
            send::<{Self}>()` has the compiler name the field that is not"
)]
pub trait Migratable: Actor<Placement: Anywhere> + Send {}

impl<P: Actor<Placement: Anywhere> + Movable> Migratable for P {}

#[diagnostic::do_not_recommend]
impl<P: Actor> Addressed for P {
    type Handle = P::Client;
    const LABEL: &'static str = P::NAME;
    const IS_PROTOCOL: bool = false;

    #[inline]
    fn handle_of(pid: Pid) -> P::Client {
        P::client(pid)
    }

    #[inline]
    fn pid_of(handle: &P::Client) -> Pid {
        P::pid(handle)
    }
}

/// A process, or a protocol, with a method for messages of type `M`.
#[diagnostic::on_unimplemented(
    message = "process `{Self}` does not understand the message `{M}`",
    label = "no method for `{M}`",
    note = "add a method `#[message({M})] fn …(&mut self, message: {M})` to `#[process] impl {Self}`"
)]
pub trait Handles<M>: Addressed {
    /// The type of the answer; for a method that returns a `Result`, its `Ok` type.
    type Answer: Send + 'static;
    /// The error type; [`Infallible`](std::convert::Infallible) for a method that returns no `Result`.
    type Error: Send + 'static;
}

/// The outcome of dispatching a message.
pub enum Dispatched<'a> {
    /// The message was handled.
    Done,
    /// No method accepts the message; the mail is unopened.
    Unhandled,
    /// The message was handled, and its error ends the process.
    Failed(ProcessError),
    /// The method is async and has not finished.
    Pending(MethodFuture<'a, Dispatched<'static>>),
}

/// The event that an async method handles. For generated code.
#[derive(Debug)]
pub struct MethodEvent(pub(crate) Event);

/// For generated code.
impl Inputs {
    /// Checks the number of inputs against the entry at `index`.
    pub fn check<P: Actor>(self, index: usize) -> Result<CheckedInputs, EntryError> {
        let entry = &P::ENTRIES[index];
        self.check_for(P::NAME, entry.name, entry.inputs)
    }
}

/// Returns the error for a name that is not an entry of `P`. For generated code.
pub fn no_such_entry<P: Actor>(entry: &str) -> EntryError {
    unknown_entry(P::NAME, entry, names::<P>())
}

pub(crate) fn names<P: Actor>() -> &'static [&'static str] {
    struct EntryNames<P>(PhantomData<P>);
    impl<P: Actor> EntryNames<P> {
        const NAMES: [&'static str; 64] = {
            let mut names = [""; 64];
            let mut index = 0;
            while index < P::ENTRIES.len() {
                names[index] = P::ENTRIES[index].name;
                index += 1;
            }
            names
        };
        const ALL: &'static [&'static str; 64] = &Self::NAMES;
    }
    &EntryNames::<P>::ALL[..P::ENTRIES.len()]
}

/// The [`ProcessKind`] of processes of type `P`, as a constant.
pub(crate) struct KindOf<P>(PhantomData<P>);

impl<P: Actor> KindOf<P> {
    pub(crate) const KIND: &'static ProcessKind = &ProcessKind {
        name: || P::NAME,
        type_id: TypeId::of::<P>(),
        answers: |protocol| P::PROTOCOLS.iter().any(|answered| answered.type_id == protocol),
        is_inspected: P::INSPECTED,
        show_message: P::show_message,
    };
}

/// Returns the name of the entry called `name` if that entry is async. A process that was started at such an entry runs
/// inside the entry's future.
pub(crate) fn async_entry<P: Actor>(name: &str) -> Option<&'static str> {
    P::ENTRIES.iter().find(|entry| entry.is_async && entry.name == name).map(|entry| entry.name)
}

/// Returns true if `signals` contains `Exit`: a process with a method for the exit of a linked process traps exits.
pub(crate) const fn traps_exits(signals: &[&str]) -> bool {
    let mut index = 0;
    while index < signals.len() {
        if matches!(signals[index].as_bytes(), b"Exit") {
            return true;
        }
        index += 1;
    }
    false
}

/// Finds the message called `name` among those of `P` and of the protocols that it implements.
pub(crate) fn message_of<P: Actor>(name: &str, inputs: Inputs) -> Result<NamedMessage, MessageError> {
    match P::message_by_name(name, inputs) {
        ControlFlow::Break(message) => Ok(message?),
        ControlFlow::Continue(_) => {
            let of_protocols = P::PROTOCOLS.iter().flat_map(|protocol| protocol.messages);
            Err(MessageError::Unknown {
                process: P::NAME,
                message: name.chars().take(80).collect(),
                has: P::MESSAGES.iter().chain(of_protocols).map(ToString::to_string).collect(),
            })
        }
    }
}
