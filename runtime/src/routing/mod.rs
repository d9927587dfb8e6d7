//! Transports to other nodes, and the router that knows them.
//!
//! A [`Receiver`] that is connected to the [`Router`] gets the packages for another node.

// * `router`: the trait `Receiver`, and the routes to this program's hosts and to other nodes;
// * `alias`: PIDs that stand for another process, such as a supervised child or the holder of a name;
// * `hosts`: the hosts of this program by number.

pub(crate) mod alias;
pub(crate) mod hosts;
pub(crate) mod router;

pub use crate::call::package::Undeliverable;
pub use router::{Node, Receiver, Router};
