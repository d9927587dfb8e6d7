//! Transports to other nodes, and the router that knows them.
//!
//! A [`Transport`] that is connected to the [`Router`] of a node receives what the node's processes send to another
//! node: packages, link messages and controls. Everything that arrives from that node is delivered through [`Node`].

// * `transport`, `transport_queue`: the traits `Receiver` and `Transport`, and the queue of senders that wait for room
//   in a transport;
// * `connection`, `ties`, `joins`: links, monitors and joins between nodes, and their end when the connection is lost;
// * `router`: the routes to this program's hosts and to other nodes;
// * `remote_links`: sending links, monitors, joins and controls to other nodes;
// * `answerer`: calls between nodes;
// * `alias`: PIDs that resolve to another process, such as a supervised child or the holder of a name;
// * `pointer`: aliases whose target is determined by code outside of the runtime;
// * `hosts`: the hosts of this program by number.

pub(crate) mod alias;
mod answerer;
mod connection;
pub(crate) mod hosts;
mod joins;
mod pointer;
pub(crate) mod remote_links;
pub(crate) mod router;
mod ties;
pub(crate) mod transport;
pub(crate) mod transport_queue;

pub use crate::call::package::Undeliverable;
pub use crate::links::protocol::LinkMessage;
pub use answerer::{Abandonment, Answerer};
pub use pointer::Pointer;
pub use router::{Node, Router};
pub use transport::{ControlMessage, Receiver, Transport};
pub use transport_queue::TransportQueue;
