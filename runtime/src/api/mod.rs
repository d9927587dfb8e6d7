//! The public entry points.
//!
//! * [`runtime`], [`builder`], [`shutdown`], `interrupt`: a runtime from its configuration to its end;
//! * [`block_on`](mod@block_on): waiting for a future without a runtime;
//! * [`naming`], [`by_name`]: processes by name; [`context_ext`], [`child_spawn`]: spawning inside processes;
//! * [`mailbox`]: a mailbox for code outside processes; [`probe`]: one for tests;
//! * [`record`]: recordings of the activity of threads;
//! * [`statistics`]: snapshots of workers, threads and processes; [`observation`]: observations that cost nothing
//!   while they are not used.

pub(crate) mod block_on;
pub(crate) mod builder;
pub(crate) mod by_name;
pub(crate) mod child_spawn;
pub(crate) mod context_ext;
#[cfg(feature = "ctrl-c")]
pub(crate) mod interrupt;
pub(crate) mod mailbox;
pub(crate) mod naming;
pub(crate) mod observation;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod runtime;
pub(crate) mod shutdown;
pub(crate) mod statistics;
