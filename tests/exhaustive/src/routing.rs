//! The production module, and the sessions between two nodes around it.

mod sessions;
#[allow(dead_code)]
#[path = "../../../runtime/src/routing/ties.rs"]
mod ties;

pub(crate) use sessions::{NODES, NodeEvent, Sessions};
