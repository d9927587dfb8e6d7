//! Frames: the messages between two nodes, as bytes.
//!
//! A frame is one message of the broker. It names the sessions of both ends by their [`Epoch`]s, so that a frame of an
//! earlier session is recognized, however late it arrives. All numbers are big-endian and of fixed size.
//!
//! ```text
//! frame    major u8 | kind u8 | from: epoch | to: epoch, or zeros | body
//! epoch    revision u64 | count u32
//! hello    minor u8 | oldest minor u8 | features u64 | credit data u64 | credit control u64 | entries u16 | entries
//! entry    length u16 | name | hash u64                          in the order of the names, none twice
//! segment  lane u8 | flags u8 | ack u64 | credit u64 | first u64 | parcels u16 | parcels
//! parcel   kind u8 | piece: length u32 | bytes                   kinds 0 (more follow) and 1 (last of its message)
//!                  | notice: PID, 16 bytes                       kinds 2 (slow) and 3 (fast)
//! goodbye  final data u64 | final control u64
//! end      code u8
//! ```
//!
//! # Invariants
//! * The first two bytes have the same meaning in every version, so that a node of another major version can be refused
//!   with its version number.
//! * **The decoder trusts no byte.** It never panics. It allocates at most 16 times the length of the frame (a parcel
//!   of six bytes becomes 40, and an allocation for its one byte of content), since every count is checked against the
//!   bytes that are left. It does not recurse: a frame is a list of parcels and a parcel is bytes, so there is no depth
//!   to limit. The depth of a *message* is limited by its codec.
//! * Each frame has a single encoding: what the decoder accepts encodes to the same bytes.
//!
//! # Limits
//! | limit | value | reason |
//! |---|---|---|
//! | [`MAX_FRAME`] | 64 KiB + 128 B | a frame delays the next on its lane by this much; brokers take 1 MiB by default |
//! | [`MAX_PIECE`] | 64 KiB | the content of one parcel: a longer message is split |
//! | [`MAX_TABLE`] | 64 KiB | about 1,300 messages with names of 40 bytes |
//! | [`MAX_NAME`] | 1,024 B | the same limit as for names of processes |

mod decode;
mod encode;
mod table;
#[cfg(test)]
mod tests;

pub use decode::DecodeError;
pub use table::{MAX_NAME, MAX_TABLE, Table, TableError, VersionError, Versions};

use crate::engine::Lane;
use crate::store::Revision;
use bytes::Bytes;
use postroom::Pid;
use std::fmt;

/// The maximum length of a frame: the longest parcel or table, and the headers before it.
pub const MAX_FRAME: usize = (64 << 10) + 128;
/// The maximum number of bytes of a message that one parcel carries.
pub const MAX_PIECE: usize = 64 << 10;

/// The length of a frame's header: major version, kind, two epochs.
const HEADER: usize = 2 + 2 * EPOCH;
const EPOCH: usize = 8 + 4;
/// The length of a segment before its parcels.
const SEGMENT: usize = HEADER + 2 + 3 * 8 + 2;
/// The length of a piece before its bytes.
const PIECE: usize = 1 + 4;
const NOTICE: usize = 1 + 16;
/// The length of a hello before its entries.
const HELLO: usize = HEADER + 2 + 3 * 8 + 2;

const _: () = assert!(size_of::<Parcel>() <= 40);
const _: () = assert!(SEGMENT + PIECE + MAX_PIECE <= MAX_FRAME && HELLO + MAX_TABLE <= MAX_FRAME);

/// One node's half of a session's identity. It consists of the revision of the node's record, which identifies the
/// node's membership, and of the number of the node's earlier sessions with the peer.
///
/// The epochs of one node towards one peer only grow. The revision alone is not enough: two nodes may have several
/// sessions while both keep their records, and frames of the first session must not pass for frames of the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    revision: Revision,
    count: u32,
}

impl Epoch {
    /// Returns the epoch of a node's session number `count` with a peer, counted from zero. `revision` is that of the
    /// node's record in [`Bucket::Nodes`](crate::store::Bucket::Nodes). Returns `None` for revision zero, since no
    /// record has it.
    pub fn new(revision: Revision, count: u32) -> Option<Self> {
        (revision.0 != 0).then_some(Self { revision, count })
    }

    /// Returns the revision of the node's record.
    pub fn revision(self) -> Revision {
        self.revision
    }

    /// Returns the number of earlier sessions with this peer.
    pub fn count(self) -> u32 {
        self.count
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.revision, self.count)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({self})")
    }
}

/// A message from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The sender's epoch.
    pub from: Epoch,
    /// The receiver's epoch, if the sender knows it.
    pub to: Option<Epoch>,
    /// The part after the epochs.
    pub body: Body,
}

/// The part of a frame after the epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Proposes or confirms a session.
    Hello(Hello),
    /// Carries parcels, and acknowledges those in the other direction.
    Segment(Segment),
    /// Announces the end of the session, with the number after the last parcel in [`Lane::Data`] and the same for
    /// [`Lane::Control`]. No more parcels will follow.
    Goodbye([u64; 2]),
    /// The session is over.
    End(EndCode),
}

/// A node's description of itself at the start of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The protocol versions that the node speaks.
    pub versions: Versions,
    /// One bit for each optional part of the protocol that the node knows.
    pub features: u64,
    /// The initial credit of the peer in each lane.
    pub credit: [u64; 2],
    /// The messages that the node can decode.
    pub table: Table,
}

/// A part of the stream of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The lane.
    pub lane: Lane,
    /// Whether the sender of this segment is missing a parcel. If so, the peer must resend from `ack` on.
    pub nack: bool,
    /// Whether the peer must answer at once.
    pub ask: bool,
    /// The number of the next expected parcel: all parcels before it have arrived.
    pub ack: u64,
    /// The total cost of the parcels that the peer may send in this session. It only grows, so a frame that is lost or
    /// late cannot withdraw credit.
    pub credit: u64,
    /// The number of the first parcel or, if there are no parcels, the number of the next parcel to be sent.
    pub first: u64,
    /// The parcels.
    pub parcels: Vec<Parcel>,
}

/// The unit that is numbered, acknowledged and resent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parcel {
    /// A message, or a part of one.
    Piece {
        /// Whether it is the last part of its message.
        last: bool,
        /// The content.
        bytes: Bytes,
    },
    /// Messages to this process are waiting at the sender of the notice: the peer should send no more for now.
    Slow(Pid),
    /// The process has caught up.
    Fast(Pid),
}

impl Parcel {
    /// Returns the encoded length of the parcel in a frame.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Piece { bytes, .. } => PIECE + bytes.len(),
            Self::Slow(_) | Self::Fast(_) => NOTICE,
        }
    }
}

impl Segment {
    /// The length of a segment without parcels.
    pub const EMPTY_LEN: usize = SEGMENT;
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndCode {
    /// The answer to a goodbye: everything has arrived.
    Done,
    /// The frame belongs to a session that is not known, or no longer known.
    Unknown,
    /// The sender has ended the session, including everything in flight.
    Aborted,
    /// The peer has broken the protocol.
    Violation,
    /// The sender does not speak the peer's version.
    Version,
}

impl fmt::Display for EndCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "everything arrived",
            Self::Unknown => "the session is not known there",
            Self::Aborted => "the session was ended there",
            Self::Violation => "the protocol was broken here",
            Self::Version => "the protocol's version is not known there",
        })
    }
}

fn lane_code(lane: Lane) -> u8 {
    match lane {
        Lane::Data => 0,
        Lane::Control => 1,
    }
}
