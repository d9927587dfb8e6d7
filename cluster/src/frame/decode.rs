//! Decoding of frames from untrusted bytes.

use super::encode::{
    FLAG_ASK, FLAG_NACK, KIND_END, KIND_GOODBYE, KIND_HELLO, KIND_SEGMENT, PARCEL_FAST, PARCEL_LAST, PARCEL_MORE,
    PARCEL_SLOW,
};
use super::{Body, EndCode, Epoch, Frame, Hello, MAX_FRAME, MAX_PIECE, PIECE, Parcel, Segment};
use super::{Table, TableError, VersionError, Versions};
use crate::engine::Lane;
use crate::store::Revision;
use bytes::{Buf, Bytes};
use postroom::Pid;

/// Why bytes are not a frame. The remedy is the same for all errors: the bytes come from a program that is not a node
/// of this cluster, or from a version with a bug; the broker's permissions say who can publish here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The frame is too long and was not examined.
    #[error("a frame of {0} bytes exceeds the limit of {MAX_FRAME}; check who may publish to this node")]
    TooLong(usize),
    /// The frame ends in the middle of a field.
    #[error("a frame ends before its {0}; check who may publish to this node")]
    Truncated(&'static str),
    /// Bytes follow the frame.
    #[error("{0} bytes follow the end of a frame; check who may publish to this node")]
    Trailing(usize),
    /// A field has an invalid value.
    #[error("{value} is not a {field} of a frame; check who may publish to this node")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The table of messages is not valid.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The frame has another major version.
    #[error(transparent)]
    Version(#[from] VersionError),
}

impl Frame {
    /// Decodes a frame.
    ///
    /// A parcel that makes up at least half of its frame shares the frame's memory. A smaller one is copied: otherwise
    /// a short waiting message would keep up to 64 KiB alive.
    ///
    /// # Errors
    /// If the bytes are not exactly one frame.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_FRAME {
            return Err(DecodeError::TooLong(bytes.len()));
        }
        let mut input = FrameReader { whole: bytes.len(), rest: bytes };
        let major = input.u8("version")?;
        if major != Versions::MAJOR {
            return Err(VersionError::Major { here: Versions::MAJOR, there: major }.into());
        }
        let kind = input.u8("kind")?;
        let from = input.epoch()?.ok_or(DecodeError::Field { field: "sender's epoch", value: 0 })?;
        let to = input.epoch()?;
        let body = match kind {
            KIND_HELLO => Body::Hello(input.hello()?),
            KIND_SEGMENT => Body::Segment(input.segment()?),
            KIND_GOODBYE => Body::Goodbye([input.u64("final number")?, input.u64("final number")?]),
            KIND_END => Body::End(input.end_code()?),
            _ => return Err(DecodeError::Field { field: "kind", value: kind.into() }),
        };
        match input.rest.len() {
            0 => Ok(Self { from, to, body }),
            left => Err(DecodeError::Trailing(left)),
        }
    }
}

/// The rest of a frame that is being decoded.
struct FrameReader {
    rest: Bytes,
    /// The length of the whole frame.
    whole: usize,
}

impl FrameReader {
    /// Takes the next `length` bytes.
    fn take(&mut self, length: usize, field: &'static str) -> Result<Bytes, DecodeError> {
        if length > self.rest.len() {
            return Err(DecodeError::Truncated(field));
        }
        Ok(self.rest.split_to(length))
    }

    fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.rest.try_get_u8().map_err(|_| DecodeError::Truncated(field))
    }

    fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.rest.try_get_u16().map_err(|_| DecodeError::Truncated(field))
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.rest.try_get_u32().map_err(|_| DecodeError::Truncated(field))
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.rest.try_get_u64().map_err(|_| DecodeError::Truncated(field))
    }

    /// Reads an epoch. Returns `None` if it is all zeros.
    fn epoch(&mut self) -> Result<Option<Epoch>, DecodeError> {
        let (revision, count) = (self.u64("epoch")?, self.u32("epoch")?);
        match Epoch::new(Revision(revision), count) {
            None if count != 0 => Err(DecodeError::Field { field: "count without a revision", value: count.into() }),
            epoch => Ok(epoch),
        }
    }

    fn hello(&mut self) -> Result<Hello, DecodeError> {
        let versions = Versions { minor: self.u8("minor version")?, oldest_minor: self.u8("oldest minor version")? };
        if versions.oldest_minor > versions.minor {
            return Err(DecodeError::Field { field: "oldest minor version", value: versions.oldest_minor.into() });
        }
        let features = self.u64("features")?;
        let credit = [self.u64("credit")?, self.u64("credit")?];
        let count = self.u16("table")?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let length = usize::from(self.u16("name")?);
            let name = self.take(length, "name")?;
            let name = std::str::from_utf8(&name).map_err(|_| TableError::NotText)?;
            entries.push((Box::from(name), self.u64("hash")?));
        }
        Ok(Hello { versions, features, credit, table: Table::from_sorted(entries)? })
    }

    fn segment(&mut self) -> Result<Segment, DecodeError> {
        let lane = match self.u8("lane")? {
            0 => Lane::Data,
            1 => Lane::Control,
            other => return Err(DecodeError::Field { field: "lane", value: other.into() }),
        };
        let flags = self.u8("flags")?;
        if flags & !(FLAG_NACK | FLAG_ASK) != 0 {
            return Err(DecodeError::Field { field: "set of flags", value: flags.into() });
        }
        let (ack, credit, first) = (self.u64("ack")?, self.u64("credit")?, self.u64("first number")?);
        let count = self.u16("parcels")?;
        // The numbers of parcels must not wrap, so that the arithmetic of the session cannot overflow.
        if first.checked_add(count.into()).is_none() {
            return Err(DecodeError::Field { field: "first number", value: first });
        }
        // No parcel is shorter than the header of a piece, so the remaining bytes limit how much memory the count
        // reserves.
        let mut parcels = Vec::with_capacity(usize::from(count).min(self.rest.len() / PIECE));
        for _ in 0..count {
            parcels.push(self.parcel()?);
        }
        Ok(Segment { lane, nack: flags & FLAG_NACK != 0, ask: flags & FLAG_ASK != 0, ack, credit, first, parcels })
    }

    fn parcel(&mut self) -> Result<Parcel, DecodeError> {
        match self.u8("parcel")? {
            kind @ (PARCEL_MORE | PARCEL_LAST) => {
                let length = self.u32("piece")? as usize;
                if length > MAX_PIECE {
                    return Err(DecodeError::Field { field: "length of a piece", value: length as u64 });
                }
                let bytes = self.take(length, "piece")?;
                let bytes = if length * 2 >= self.whole { bytes } else { Bytes::copy_from_slice(&bytes) };
                Ok(Parcel::Piece { last: kind == PARCEL_LAST, bytes })
            }
            PARCEL_SLOW => Ok(Parcel::Slow(self.pid()?)),
            PARCEL_FAST => Ok(Parcel::Fast(self.pid()?)),
            other => Err(DecodeError::Field { field: "kind of a parcel", value: other.into() }),
        }
    }

    fn pid(&mut self) -> Result<Pid, DecodeError> {
        let mut bytes = [0; 16];
        self.rest.try_copy_to_slice(&mut bytes).map_err(|_| DecodeError::Truncated("PID"))?;
        Pid::from_bytes(bytes).ok_or(DecodeError::Field { field: "PID's node", value: 0 })
    }

    fn end_code(&mut self) -> Result<EndCode, DecodeError> {
        Ok(match self.u8("end code")? {
            0 => EndCode::Done,
            1 => EndCode::Unknown,
            2 => EndCode::Aborted,
            3 => EndCode::Violation,
            4 => EndCode::Version,
            other => return Err(DecodeError::Field { field: "end code", value: other.into() }),
        })
    }
}
