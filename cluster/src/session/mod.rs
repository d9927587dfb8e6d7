//! Sessions: what two nodes may rely on while they talk to each other.
//!
//! A [`Session`] is one node's half of the connection with one peer, over a broker that may lose, repeat, delay and
//! reorder what it carries. **Within a session and a lane, each message arrives once and in the order sent, and none is
//! lost; if that cannot be kept, the session ends, and both sides hear it.** A session that has ended stays so; the
//! next one is a new value with a greater [`Epoch`], and starts empty.
//!
//! It is a state machine without clock, thread or socket. The caller
//! * passes each frame of the peer to [`handle`](Session::handle), and the time to
//!   [`handle_timeout`](Session::handle_timeout) when [`next_timeout`](Session::next_timeout) has come;
//! * after each call, publishes what [`poll_transmit`](Session::poll_transmit) returns until that is `None`, takes
//!   messages with [`poll_item`](Session::poll_item) and events with [`poll_event`](Session::poll_event);
//! * checks its [lease](crate::lease) before it publishes a frame.
//!
//! # Protocol
//! The steps of a session, by name:
//!
//! * **hello.** Each side sends its epoch, its versions, its first credit and its table of messages, again and again
//!   (200 ms, doubling up to 2 s) until it knows that the peer has it. A hello names the peer's epoch if it is known;
//!   one that does not name the receiver's is answered with a hello, one that does with an acknowledgement.
//! * **confirm.** A side is *open* when a frame has come that names both epochs. Until then it sends nothing but
//!   hellos, so no message can belong to half a session. A hello with an older epoch is ignored. One with a newer epoch
//!   replaces the peer's epoch before the session is open, and ends the session after that: the peer has begun anew.
//! * **send.** A message is cut into parcels of 64 KiB. Parcels, not frames, are numbered, per lane, so that they can
//!   be sent again in other frames. At most a window of them is on its way without an acknowledgement.
//! * **acknowledge.** The receiver says which parcel it expects next: with the segments that it sends anyway, after 10
//!   ms, or at once after an eighth of the window. An older parcel is dropped; a newer one too, and the gap is told
//!   once.
//! * **go back.** On the notice of a gap, or when an acknowledgement does not come in time (RFC 6298, 100 ms to 2 s),
//!   the sender goes on from the first parcel that is not acknowledged. Brokers keep the order, so what comes after a
//!   gap is rare, and keeping it would cost the receiver a second window of memory.
//! * **credit.** The receiver says what total may be sent in the session. That grows when the caller
//!   [releases](Session::release) what it took. A sender without credit and with nothing on its way asks, since the
//!   segment that had the credit may be lost.
//! * **slow.** The receiver tells of a process that falls behind, so that it alone is not sent to: `Slow`, later
//!   `Fast`. They are parcels of the control lane: none is lost, and they do not pass each other. Only sends to it in
//!   the data lane are refused: what stops or kills it still gets through.
//! * **ask.** After [`KEEPALIVE`] without a frame from the peer a side asks for one. When an answer is overdue by
//!   [`SUSPECT_AFTER`], the caller hears [`SessionEvent::Suspect`], a hint that the node may be down. After
//!   [`END_AFTER`] the session ends: [`SessionEnd::Silent`], or [`SessionEnd::Stalled`] if answers come but
//!   acknowledgements do not.
//! * **goodbye.** [`close`](Session::close) tells the peer after which parcels nothing follows, again and again; the
//!   peer hears [`SessionEnd::Left`] behind the last message, and answers `Done`. So a goodbye overtakes nothing,
//!   though it travels in the control lane. It is given up after [`LINGER`].
//! * **end.** A side that ends a session otherwise says so once. If that is lost, the peer's next frame is
//!   [refused](refusal), or the peer finds this side silent.
//!
//! # Invariants
//! 1. *At most once, in order*: a parcel is accepted only if its number is the expected one, in a frame that names the
//!    epochs of both sides. Epochs grow with each session, so no frame of another session passes.
//! 2. *Nothing lost*: a parcel leaves the queue when its acknowledgement has come, or with the session.
//! 3. *Both hear*: a side that has ended answers nothing but the end, so the other hears that, or silence, within
//!    [`KEEPALIVE`] + [`END_AFTER`]: 20 s.
//! 4. *Bounded memory*, per lane: the sender's queue is at most [`LaneLimits::queue`], or one message. The receiver
//!    holds at most [`LaneLimits::window`] and one message, whose parts give their credit back before it is complete.
//!    The buffer in which it is put together may be twice as long as it.
//! 5. *One slow process stops no other*, as long as the caller releases what it keeps for a slow one.
//! 6. [`SessionEvent::Ended`] is reported once, behind all messages and events of the session.
//!
//! # Limits
//! | | data | control |
//! |---|---|---|
//! | window, and credit at the start | 4 MiB | 1 MiB |
//! | queue | 16 MiB | 4 MiB |
//! | message | 16 MiB | 1 MiB |
//! | processes that are slow at a time | | 4,096 |
//!
//! Each parcel counts [`PARCEL_COST`] bytes more than it has, so that empty messages are bounded too.

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

/// What a parcel costs besides its length: about what it takes in memory.
pub const PARCEL_COST: u64 = 64;
/// The most processes of a peer that are slow at a time. More are not told to be, and the credit alone bounds memory.
pub const MAX_SLOW: usize = 4_096;
/// After how much silence of the peer a session asks for a sign of life.
pub const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long an answer may be overdue before the peer is suspected: twenty round trips of a slow network.
pub const SUSPECT_AFTER: Duration = Duration::from_secs(2);
/// How long an answer may be overdue before the session ends: the time in which a node without a lease is gone too.
pub const END_AFTER: Duration = Duration::from_secs(15);
/// How long a goodbye waits for the answer.
pub const LINGER: Duration = Duration::from_secs(3);

/// The limits of one lane of a session. They are to be the same on all nodes: a message that is too long for the peer
/// breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// The most that is on its way unacknowledged, and that waits at the receiver; at least what the longest parcel
    /// costs.
    pub window: u64,
    /// The most that waits at the sender, acknowledged or not.
    pub queue: u64,
    /// The longest message.
    pub message: usize,
}

/// What a session needs to know.
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
    /// Returns whether any parcel fits into the window. Otherwise there would never be credit for it.
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

/// A message of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "what an item costs must be released"]
pub struct Item {
    /// The lane that it came in.
    pub lane: Lane,
    /// The message.
    pub bytes: Bytes,
    /// What it takes of the peer's credit until it is [released](Session::release).
    pub cost: u64,
}

fn cost(parcel: &Parcel) -> u64 {
    match parcel {
        Parcel::Piece { bytes, .. } => PARCEL_COST + bytes.len() as u64,
        Parcel::Slow(_) | Parcel::Fast(_) => PARCEL_COST + 16,
    }
}
