//! Transports to other nodes, and the router that knows them.
//!
//! A [`Transport`] that is connected to the [`Router`] of a node gets what the node's processes send to another node:
//! packages, link messages and controls. What arrives from there is delivered through the [`Node`].

// * `router`: the trait `Receiver`, and the routes to this program's hosts and to other nodes;
// * `transport`, `transport_queue`: the trait of what carries things to another node, and those that wait for it;
// * `connection`, `ties`, `joins`: links, monitors and joins between nodes, and their end with the connection;
// * `answerer`: calls between nodes;
// * `alias`: PIDs that stand for another process, such as a supervised child or the holder of a name;
// * `pointer`: aliases for code outside of the runtime;
// * `hosts`: the hosts of this program by number.

pub(crate) mod alias;
mod answerer;
pub(crate) mod connection;
pub(crate) mod hosts;
pub(crate) mod joins;
mod pointer;
pub(crate) mod router;
mod ties;
mod transport;
pub(crate) mod transport_queue;

pub use crate::call::package::Undeliverable;
pub use crate::links::protocol::LinkMessage;
pub use answerer::{Abandonment, Answerer};
pub use pointer::Pointer;
pub use router::{Node, Receiver, Router};
pub use transport::{ControlMessage, Transport};
pub use transport_queue::TransportQueue;
