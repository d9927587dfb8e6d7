//! A stand-in for aliases, and the production queue of a transport.

pub(crate) mod alias;
#[path = "../../../../runtime/src/routing/transport_queue.rs"]
pub(crate) mod transport_queue;
