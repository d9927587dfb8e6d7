//! The production module of the wait graph.

#[path = "../../../../runtime/src/deadlock/wait_graph.rs"]
pub(crate) mod wait_graph;
