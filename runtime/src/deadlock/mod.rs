//! Deadlock detection: which process waits for which, and what happens when a wait would close a cycle.
//!
//! * [`wait_graph`]: the algorithm, without knowledge of slots;
//! * [`edges`]: the wait graph of this program, one edge per slot;
//! * [`foreign_wakers`]: counts the wakers of a process that code outside the runtime holds, which may end its wait.

pub(crate) mod edges;
pub(crate) mod foreign_wakers;
pub(crate) mod wait_graph;
