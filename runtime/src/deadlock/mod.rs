//! Deadlock detection: the wait graph, and the response to a wait that would close a cycle.
//!
//! * [`wait_graph`]: the algorithm, without knowledge of slots;
//! * [`edges`]: the wait graph of this program, one edge per slot;
//! * [`foreign_wakers`]: counts those wakers of a process that code outside the runtime holds, because such code may
//!   end the process's wait.

pub(crate) mod edges;
pub(crate) mod foreign_wakers;
pub(crate) mod wait_graph;
