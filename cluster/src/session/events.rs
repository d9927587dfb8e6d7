//! The events and results that a session reports to its caller.

use crate::frame::{EndCode, Table, VersionError};
use bytes::Bytes;
use postroom::Pid;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// Both sides know each other: messages can be delivered from now on.
    Opened {
        /// The minor version that both speak.
        minor: u8,
        /// The optional parts of the protocol that both know.
        features: u64,
        /// The messages that the peer can decode.
        table: Table,
    },
    /// A process of the peer has fallen behind; the session refuses to send to it in the data lane.
    Slow(Pid),
    /// A slow process has caught up.
    Fast(Pid),
    /// An answer from the peer is overdue: the peer may be down. Reported once per silence.
    Suspect,
    /// The session is over. This is the last event.
    Ended(SessionEnd),
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// The peer has closed the session, and all its messages have arrived.
    #[error("the peer has left")]
    Left,
    /// The session was closed on this side.
    #[error("the session was closed here{}", if *delivered { "" } else { ", and the peer has not confirmed it" })]
    Closed {
        /// Whether the peer has confirmed that all messages had arrived. If not, they may have arrived nevertheless.
        delivered: bool,
    },
    /// The peer did not answer for [`END_AFTER`](super::END_AFTER).
    #[error("the peer does not answer; check whether it runs, and its connection with the broker")]
    Silent,
    /// The peer answers, but has acknowledged nothing for [`END_AFTER`](super::END_AFTER).
    #[error("messages do not get through to the peer; check the broker's permissions for its data lane")]
    Stalled,
    /// The peer has begun a new session.
    #[error("the peer has begun a new session; begin one too")]
    Restarted,
    /// The peer has ended the session.
    #[error("the peer has ended the session: {0}")]
    Peer(EndCode),
    /// The peer has broken the protocol.
    #[error("the peer has broken the protocol: {0}; update the older of the two nodes")]
    Violation(&'static str),
    /// The peer speaks another version of the protocol.
    #[error(transparent)]
    Version(VersionError),
    /// The session was aborted on this side: the peer is no longer a member, or this node's lease is over.
    #[error("the session was aborted here")]
    Aborted,
}

/// Why a message was not queued. The error returns the message, which has not been sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The queue for this peer is full.
    #[error("too much waits for this peer; send again when some of it has been acknowledged")]
    Full(Bytes),
    /// The process has fallen behind.
    #[error("the process has fallen behind; send again when its node says that it has caught up")]
    Slow(Bytes),
    /// The session is closed, or over.
    #[error("the session with this peer is over; begin another")]
    Closed(Bytes),
    /// The message is too long.
    #[error("a message of {bytes} bytes exceeds the limit of {limit}; send a reference to it, or parts")]
    TooLong {
        /// The length of the message.
        bytes: usize,
        /// The longest message of the lane.
        limit: usize,
        /// The message.
        message: Bytes,
    },
}

impl SendError {
    /// Returns the message.
    pub fn into_message(self) -> Bytes {
        match self {
            Self::Full(message) | Self::Slow(message) | Self::Closed(message) | Self::TooLong { message, .. } => {
                message
            }
        }
    }
}
