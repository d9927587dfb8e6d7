//! The scheduler: finds a process that is ready, runs a step of it, and carries out the requests of the step.
//!
//! From the bottom up:
//! * [`permits`]: which threads may run steps, how the others sleep, and how a permit passes between threads;
//! * [`watchdog`]: which steps run for too long; [`workers`]: the records of threads; [`io`]: the reactor of another
//!   library;
//! * [`host`]: one scheduler with its queues, hooks and limits; [`context`]: what a thread knows about the process that
//!   it runs;
//! * [`blocking`]: steps that block; [`backpressure`]: senders that wait for full mailboxes;
//! * [`lifecycle`]: spawning, exit and upgrade of a process;
//! * [`mod@slice`]: the time slice of a process; [`sched`]: the run loop; [`pinned`]: processes with a thread of their
//!   own;
//! * [`shutdown`]: draining and ending a host.

pub(crate) mod backpressure;
pub(crate) mod blocking;
pub(crate) mod context;
pub(crate) mod host;
pub(crate) mod io;
pub(crate) mod lifecycle;
pub(crate) mod permits;
pub(crate) mod pinned;
pub(crate) mod sched;
pub(crate) mod shutdown;
pub(crate) mod slice;
pub(crate) mod watchdog;
pub(crate) mod workers;
