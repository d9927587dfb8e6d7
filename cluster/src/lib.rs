//! Postroom across machines: the protocols between the nodes of a cluster, and the agreement on its members.
//! The [guide] shows how to use a cluster, and what it [promises].
//!
//! Nodes communicate through a message broker, the [`engine`], which is operated separately; they open no connections
//! to each other. The crate `postroom-nats` has an engine on NATS. The modules with these protocols are **pure state
//! machines**: they have no thread, no clock, no socket and no lock. The caller passes in each input and the current
//! time, and asks for the output and for the time of the next call. The same code therefore runs over a real broker and
//! under a simulator that controls every delay. The one exception among them is [`codec`], which runs user code of
//! message types, and keeps the names in errors from other nodes under a lock.
//!
//! | module | responsibility |
//! |---|---|
//! | [`clock`] | the clock that the state machines require |
//! | [`codec`] | encoding and decoding of messages between nodes |
//! | [`engine`] | the requirements on a broker |
//! | [`access`] | the requests that state machines make to the store |
//! | [`envelope`] | the content of one message of a session |
//! | [`eventual`] | names that need no majority; all connected nodes agree on the holder |
//! | [`frame`] | the meaning of the bytes between two nodes |
//! | [`groups`] | the nodes that have members of a group, and the nodes that are notified of them |
//! | [`keyed`] | the node and the process of a key |
//! | [`lease`] | how long a node may act as a member |
//! | [`membership`] | the nodes of the cluster, and when one counts as lost |
//! | [`memory`] | an engine within one program, for tests and examples |
//! | [`names`] | the process that holds a name of the cluster |
//! | [`rights`] | a node's permissions at the broker |
//! | [`store`] | the tables that all nodes agree on |
//! | `testing` | whole nodes in simulated tests (feature `test`) |
//! | [`session`] | sending, resending and acceptance between two nodes, and the end of a session |
//! | [`topics`] | the encoding of a topic's events, and their queue on a node |
//!
#![doc = concat!("[guide]: ", env!("CARGO_PKG_HOMEPAGE"), "/cluster.html")]
#![doc = concat!("[promises]: ", env!("CARGO_PKG_HOMEPAGE"), "/cluster-promises.html")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod access;
mod api;
pub mod clock;
pub mod codec;
#[cfg(any(test, feature = "test"))]
mod conformance;
mod directory;
pub mod engine;
pub mod envelope;
pub mod eventual;
pub mod frame;
pub mod groups;
mod info;
pub mod keyed;
pub mod lease;
pub mod membership;
pub mod memory;
pub mod names;
mod node;
#[cfg(any(test, feature = "test"))]
mod random;
mod reply;
pub mod rights;
pub mod session;
mod starts;
pub mod store;
mod subject;
#[cfg(any(test, feature = "test"))]
pub mod testing;
mod threads;
pub mod topics;
mod wire;

pub use api::{
    Broadcast, BroadcastError, Builder, Cluster, ClusterGroup, ClusterTopic, JoinError, Keyed, Member, NamedError,
    NodeError, Outage, RemoteNode, Starting, Statistics, Status,
};
#[doc(hidden)]
pub use directory::message::recoded as __recoded_directory_message;
pub use eventual::NameLost;
pub use info::{AskError, RemoteInfo};
pub use node::policy::{Ask, Subject};
pub use reply::Pending;
pub use starts::StartError;

/// Items that engines in other crates use in addition to the public ones. They can change with any version.
#[doc(hidden)]
pub mod __private {
    #[cfg(any(test, feature = "test"))]
    pub use crate::conformance::{Rig, check};
    #[cfg(any(test, feature = "test"))]
    pub use crate::random::Random;
    pub use crate::rights::{owner, table, write_subject};
    pub use crate::store::floor::Floor;
    pub use crate::subject::{LONGEST_NAME, Subjects, is_key, is_name, is_pattern, is_subject, matches, shortened};
    pub use crate::threads::spawn;
}
