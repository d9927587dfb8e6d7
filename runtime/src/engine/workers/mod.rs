//! The records of threads.
//!
//! * [`permit`]: the right to run steps, with its inject queue;
//! * [`worker`]: the record of one thread, with its deque; [`threads`]: all records of a host;
//! * [`running`]: the process that a thread runs, for other threads to see;
//! * [`pinned`]: the record of a pinned process's thread.

pub(crate) mod permit;
pub(crate) mod pinned;
pub(crate) mod running;
pub(crate) mod threads;
pub(crate) mod worker;
