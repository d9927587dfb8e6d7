//! The definitions that `#[process]` generates for a struct.
//!
//! * [`actor`]: the traits that it implements; [`entry`], [`inputs`] (and `json`, `left_out`): entries and their
//!   inputs; [`spawn_core`]: a spawn before its entry is chosen;
//! * [`context`]: the operations of a method; [`reply`]: answering a call later; [`outcome`]: return types as
//!   answers;
//! * [`protocol`]: messages that several types answer; [`named_message`]: messages by the names of their methods;
//! * `remote`: messages that travel between nodes;
//! * [`placement`]: the threads that may run a process; [`probe`] (and `probe_macros`): questions that the generated
//!   code asks about types.

pub(crate) mod actor;
pub(crate) mod context;
pub(crate) mod entry;
pub(crate) mod inputs;
#[cfg(feature = "serde")]
pub(crate) mod json;
#[cfg(feature = "serde")]
mod left_out;
pub(crate) mod named_message;
pub(crate) mod outcome;
pub(crate) mod placement;
pub mod probe;
mod probe_macros;
pub(crate) mod protocol;
#[cfg(feature = "serde")]
pub(crate) mod remote;
pub(crate) mod reply;
pub(crate) mod spawn_core;

pub(crate) use actor::{Actor, Declared, Dispatched, Handles, KindOf, MethodEvent, Migratable};
pub(crate) use context::{Continuation, Finished};
pub(crate) use entry::{Begin, EntryFuture, FutureOutput, Pending, Start};
pub(crate) use inputs::Inputs;
pub(crate) use named_message::NamedMessage;
pub(crate) use placement::{MethodFuture, Movable, NotPinned, Pinned};
pub(crate) use protocol::{Protocol, Serves};
pub(crate) use spawn_core::{Beginning, Source, SpawnCore};
