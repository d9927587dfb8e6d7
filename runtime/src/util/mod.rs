//! Tools that are independent of processes.
//!
//! * [`block_on`]: runs a future on the calling thread;
//! * [`block`]: a value in a block of memory from the thread's cache;
//! * [`log`]: macros for `tracing` events with the target `postroom`;
//! * [`panics`]: guards around user code, and the text of a caught panic; [`dispose`]: dropping user values;
//! * [`debug`]: a macro that implements `Debug` for types that cannot derive it;
//! * [`defer`]: a guard that runs a closure when it is dropped;
//! * [`notifiers`]: threads that run user code on behalf of threads that must not;
//! * [`oneshot`]: a channel for one value, between threads and tasks;
//! * [`thread_bound`]: a value that only the thread that made it may use.

pub(crate) mod block;
pub(crate) mod block_on;
pub(crate) mod debug;
pub(crate) mod defer;
pub(crate) mod dispose;
pub(crate) mod log;
pub(crate) mod notifiers;
pub(crate) mod oneshot;
pub(crate) mod panics;
pub(crate) mod thread_bound;
