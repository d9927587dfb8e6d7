//! The expansion of `#[process]`: typed addresses, calls, contexts, and the state machine that owns a struct.
//!
//! From the bottom up:
//! * [`tasks`]: the waits of a process, and how answers find them;
//! * [`send`]: messages, calls, delayed sends and operations by PID;
//! * [`definition`]: the generated definitions: entries, messages, protocols, placement; the context of methods;
//! * [`handle`]: typed addresses;
//! * [`machine`]: the state machine that owns a struct; [`spawn`]: spawning it.

pub(crate) mod definition;
pub(crate) mod handle;
pub(crate) mod machine;
pub(crate) mod send;
pub(crate) mod spawn;
pub(crate) mod tasks;
