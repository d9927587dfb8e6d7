//! What `#[process]` expands to: typed addresses, calls, contexts, and the state machine that owns a struct.
//!
//! From the bottom up:
//! * [`tasks`]: what a process awaits, and how the answer finds it;
//! * [`send`]: messages, calls, delayed sends and operations by PID;
//! * [`definition`]: what the macro says of a struct: entries, messages, protocols, placement; and the context of its
//!   methods;
//! * [`handle`]: typed addresses;
//! * [`machine`]: the state machine that owns a struct; [`spawn`]: how one is spawned.

pub(crate) mod definition;
pub(crate) mod handle;
pub(crate) mod machine;
pub(crate) mod send;
pub(crate) mod spawn;
pub(crate) mod tasks;
