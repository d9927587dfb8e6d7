//! Postroom across machines: what nodes of a cluster say to each other, and how they agree on who is there.
//!
//! Nodes talk through a message broker, the [`engine`], which others keep alive; they open no connections to each
//! other. The parts of this crate are **pure state machines**: they have no thread, no clock, no socket and no lock.
//! The caller passes in what arrived and what time it is, and asks what to send and when to come back. The same code
//! therefore runs over a real broker and under a simulator that decides about every delay. The one exception is
//! [`codec`], which runs the code of users' types, and keeps under a lock the names that errors of other nodes hold.
//!
//! | module | what it decides |
//! |---|---|
//! | [`clock`] | nothing: it says which clock the others have to be given |
//! | [`codec`] | nothing: it writes and reads the messages that travel |
//! | [`engine`] | what a broker must be able to do |
//! | [`access`] | nothing: it is how they ask for the store |
//! | [`envelope`] | what one message of a session contains |
//! | [`eventual`] | which process holds a name that needs no majority, once all nodes have met |
//! | [`frame`] | what the bytes between two nodes mean |
//! | [`groups`] | which nodes have members of a group, and who is told of them |
//! | [`keyed`] | which node and process a key has |
//! | [`lease`] | how long a node may act as a member |
//! | [`membership`] | which nodes are there, and when one counts as lost |
//! | [`memory`] | an engine within one program, for tests and examples |
//! | [`names`] | which process holds a name of the cluster |
//! | `nats` | an engine on NATS (feature `nats`) |
//! | [`rights`] | what a node may do at the broker |
//! | `testing` | nothing: it runs whole nodes in simulated tests (feature `test`) |
//! | [`session`] | what is sent, sent again and accepted between two nodes, and when that is over |
//! | [`topics`] | which events of a topic a node has room for |
#![forbid(unsafe_code)]

pub mod access;
pub mod clock;
mod cluster;
pub mod codec;
#[cfg(test)]
mod conformance;
mod directory;
pub mod engine;
pub mod envelope;
pub mod eventual;
mod floor;
pub mod frame;
pub mod groups;
mod info;
pub mod keyed;
pub mod lease;
pub mod membership;
pub mod memory;
pub mod names;
#[cfg(feature = "nats")]
pub mod nats;
mod node;
#[cfg(test)]
mod random;
mod reply;
pub mod rights;
pub mod session;
mod starts;
mod subject;
#[cfg(any(test, feature = "test"))]
pub mod testing;
mod threads;
pub mod topics;
mod wire;

pub use cluster::{
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
