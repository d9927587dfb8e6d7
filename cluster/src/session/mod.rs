//! Sessions: the guarantees for messages between two nodes.
//!
//! A [`Session`] is one node's half of the connection with one peer, over a broker that may lose, repeat, delay and
//! reorder messages. **Within a session and a lane, each message arrives once and in the order sent, and none is lost;
//! if this guarantee cannot be kept, the session ends, and both sides are notified.** A session that has ended stays
//! ended; the next one is a new value with a greater [`Epoch`], and starts empty.
//!
//! A session is a state machine without a clock, a thread or a socket. The caller
//! * passes each frame from the peer to [`handle`](Session::handle), and calls
//!   [`handle_timeout`](Session::handle_timeout) at the time that [`next_timeout`](Session::next_timeout) returns;
//! * after each call, publishes the frames that [`poll_transmit`](Session::poll_transmit) returns until it returns
//!   `None`, and takes messages with [`poll_item`](Session::poll_item) and events with
//!   [`poll_event`](Session::poll_event);
//! * checks its [lease](crate::lease) before it publishes a frame.
//!
//! # Protocol
//! The steps of a session, by name:
//!
//! * **hello.** Each side sends its epoch, its versions, its first credit and its table of messages repeatedly (after
//!   200 ms, doubling up to 2 s) until it knows that the peer has received them. A hello contains the peer's epoch if
//!   it is known. A hello without the receiver's epoch is answered with a hello. A hello with it is answered with an
//!   acknowledgement.
//! * **confirm.** A side is *open* when it has received a frame with both epochs. Until then it sends nothing but
//!   hellos, so no message can belong to half a session. A hello with an older epoch is ignored. One with a newer epoch
//!   means that the peer has begun a new session: before this session is open, the newer epoch replaces the peer's
//!   earlier one; afterwards, such a hello ends the session.
//! * **send.** A message is cut into parcels of at most 64 KiB. Parcels, not frames, are numbered, per lane, so that
//!   they can be sent again in other frames. At most a window of them is in flight without an acknowledgement.
//! * **acknowledge.** The receiver reports which parcel it expects next: in segments that it sends anyway, after 10 ms,
//!   or at once after an eighth of the window. An older parcel is dropped. So is a newer one, and the gap is reported
//!   once.
//! * **go back.** When a gap is reported, or when an acknowledgement does not arrive in time (RFC 6298, 100 ms to 2 s),
//!   the sender continues from the first parcel that is not acknowledged. Brokers keep the order, so parcels after a
//!   gap are rare, and keeping them would cost the receiver a second window of memory.
//! * **credit.** The receiver announces the total that may be sent in the session. The total grows when the caller
//!   [releases](Session::release) the items it took. A sender without credit and with nothing in flight asks for
//!   credit, since the segment that carried it may be lost.
//! * **slow.** The receiver reports that a process has fallen behind (`Slow`), and later that it has caught up
//!   (`Fast`), so that only sends to this process stop. These reports are parcels of the control lane: none is lost,
//!   and they do not overtake each other. Only sends in the data lane are refused: messages that stop or kill the
//!   process still get through.
//! * **ask.** After [`KEEPALIVE`] without a frame from the peer, a side asks for one. When an answer is overdue by
//!   [`SUSPECT_AFTER`], the caller receives [`SessionEvent::Suspect`], a hint that the node may be down. After
//!   [`END_AFTER`] the session ends: with [`SessionEnd::Silent`], or with [`SessionEnd::Stalled`] if answers arrive
//!   but acknowledgements do not.
//! * **goodbye.** [`close`](Session::close) repeatedly tells the peer the numbers of the last parcels; the peer
//!   reports [`SessionEnd::Left`] after the last message, and answers `Done`. So a goodbye overtakes nothing, though
//!   it is sent in the control lane. It is abandoned after [`LINGER`].
//! * **end.** A side that ends a session in any other way announces the end once. If that announcement is lost, the
//!   peer's next frame is [refused](refusal), or the peer finds this side silent.
//!
//! # Invariants
//! 1. *At most once, in order*: a parcel is accepted only if its number is the expected one, in a frame that contains
//!    the epochs of both sides. Epochs grow with each session, so no frame of another session is accepted.
//! 2. *Nothing lost*: a parcel leaves the queue when its acknowledgement has arrived, or when the session ends.
//! 3. *Both sides are notified*: a side that has ended answers only with the end, so the other side receives the end,
//!    or nothing, within [`KEEPALIVE`] + [`END_AFTER`]: 20 s.
//! 4. *Bounded memory*, per lane: the sender's queue is at most [`LaneLimits::queue`], or one message. The receiver
//!    holds at most [`LaneLimits::window`] and one message, since the parts of a message return their credit before the
//!    message is complete. The buffer in which a message is assembled may be twice as long as the message.
//! 5. *One slow process stops no other*, provided that the caller releases the messages that it stores for a slow
//!    process.
//! 6. [`SessionEvent::Ended`] is reported once, after all messages and events of the session.
//!
//! # Limits
//! | | data | control |
//! |---|---|---|
//! | window, and credit at the start | 4 MiB | 1 MiB |
//! | queue | 16 MiB | 4 MiB |
//! | message | 16 MiB | 1 MiB |
//! | processes that are slow at a time | | 4,096 |
//!
//! Each parcel counts [`PARCEL_COST`] bytes in addition to its length, so that empty messages are bounded too.

mod events;
mod handshake;
mod incoming;
mod machine;
#[cfg(test)]
mod network;
mod outgoing;
#[cfg(test)]
mod tests;

pub use events::{SendError, SessionEnd, SessionEvent};
pub use machine::{Session, Transmit, refusal};

use crate::engine::Lane;
use crate::frame::{MAX_PIECE, Parcel, Versions};
use bytes::Bytes;
use std::time::Duration;

#[cfg(doc)]
use crate::frame::Epoch;

/// The cost of a parcel in addition to its length: about its memory overhead.
pub const PARCEL_COST: u64 = 64;
/// Maximum number of processes of a peer that are slow at a time. Further processes are not reported as slow, and only
/// the credit bounds the memory for their messages.
pub const MAX_SLOW: usize = 4_096;
/// The duration of silence after which a session asks the peer for a sign of life.
pub const KEEPALIVE: Duration = Duration::from_secs(5);
/// The delay of an answer after which the peer is suspected: twenty round trips of a slow network.
pub const SUSPECT_AFTER: Duration = Duration::from_secs(2);
/// The delay of an answer after which the session ends. By then, a node without a lease is gone too.
pub const END_AFTER: Duration = Duration::from_secs(15);
/// The time for which a goodbye waits for its answer.
pub const LINGER: Duration = Duration::from_secs(3);

/// The limits of one lane of a session. They must be the same on all nodes: a message that is too long for the peer
/// breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// The most that may be in flight without acknowledgement, and the most that may wait at the receiver. This must be
    /// at least the cost of the longest parcel.
    pub window: u64,
    /// The most that may wait at the sender, to be sent or acknowledged.
    pub queue: u64,
    /// The longest message.
    pub message: usize,
}

/// The configuration of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The limits of [`Lane::Data`].
    pub data: LaneLimits,
    /// The limits of [`Lane::Control`].
    pub control: LaneLimits,
    /// The versions that this node speaks.
    pub versions: Versions,
    /// The optional parts of the protocol that this node knows.
    pub features: u64,
}

impl LaneLimits {
    /// Returns whether every parcel fits into the window. Otherwise its sender would never have enough credit.
    pub(crate) fn have_room(&self) -> bool {
        self.window >= PARCEL_COST + self.message.min(MAX_PIECE) as u64
    }
}

impl Config {
    fn limits(&self, lane: Lane) -> LaneLimits {
        match lane {
            Lane::Data => self.data,
            Lane::Control => self.control,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: LaneLimits { window: 4 << 20, queue: 16 << 20, message: 16 << 20 },
            control: LaneLimits { window: 1 << 20, queue: 4 << 20, message: 1 << 20 },
            versions: Versions::CURRENT,
            features: 0,
        }
    }
}

/// A message from the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "what an item costs must be released"]
pub struct Item {
    /// The lane in which it arrived.
    pub lane: Lane,
    /// The message.
    pub bytes: Bytes,
    /// The part of the peer's credit that it occupies until it is [released](Session::release).
    pub cost: u64,
}

fn cost(parcel: &Parcel) -> u64 {
    match parcel {
        Parcel::Piece { bytes, .. } => PARCEL_COST + bytes.len() as u64,
        Parcel::Slow(_) | Parcel::Fast(_) => PARCEL_COST + 16,
    }
}
