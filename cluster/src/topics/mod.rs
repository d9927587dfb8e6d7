//! Topics of the cluster: **lossy** delivery of events to all subscribers.
//!
//! An event is one plain message of the broker, on a subject of the topic: it reaches each node that has subscribers at
//! most once. Losses are not reported, whether an event is lost on the way, because a node is cut off, or because there
//! is no room. There are no sessions, no order between publishers, and no history.
//!
//! ```text
//! subject   pr1.<cluster>.t.<key of the topic's name>
//! event     form u8 | shape u64 | length of the type's name u16 | type's name | value
//! ```
//!
//! The **shape** is a hash of the type's structure as serde sees it: the names of its fields and variants, in their
//! order. An event of another shape is not decoded; it is counted, and logged once for each topic.
//!
//! A [`Backlog`] contains the events that have arrived at a node and have not been delivered yet. It is bounded, so a
//! flood costs events and nothing else.

mod backlog;
mod event;

pub use backlog::{Backlog, MAX_BYTES, MAX_EVENTS};
pub(crate) use event::{EncodedEvent, subject};

use crate::codec::CodecError;
use crate::directory::MAX_NAME;
use crate::engine::{PublishError, SubscribeError};
use postroom::Pid;

/// Why an event was not published. An event that was published may still be lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicPublishError {
    /// The name is empty or too long.
    #[error("the name of a topic of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// The length of the name.
        bytes: usize,
    },
    /// The event cannot be encoded.
    #[error(transparent)]
    Encode(#[from] CodecError),
    /// The engine refused the event.
    #[error(transparent)]
    Engine(#[from] PublishError),
    /// This node is not currently a member of the cluster.
    #[error("this node is not a member of the cluster now, so the event was not published; try again when it is one")]
    NotAMember,
}

/// Why a process did not subscribe to a topic of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicSubscribeError {
    /// The name is empty or too long.
    #[error("the name of a topic of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// The length of the name.
        bytes: usize,
    },
    /// The process does not belong to this node.
    #[error("{pid} is not a process of this node; have it subscribe where it runs")]
    Elsewhere {
        /// The process.
        pid: Pid,
    },
    /// The process has ended.
    #[error("{pid} has ended; let the process that takes its place subscribe")]
    Ended {
        /// The process.
        pid: Pid,
    },
    /// The engine refused the subscription.
    #[error(transparent)]
    Engine(#[from] SubscribeError),
    /// This node has left the cluster.
    #[error("this node has left the cluster; join the cluster again")]
    Left,
}
