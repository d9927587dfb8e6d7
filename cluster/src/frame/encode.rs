//! Encoding of frames.

use super::{Body, EPOCH, EndCode, Epoch, Frame, HEADER, HELLO, Hello, Parcel, SEGMENT, Segment, lane_code};
use crate::frame::table::Versions;
use bytes::{BufMut, Bytes, BytesMut};

pub(super) const KIND_HELLO: u8 = 1;
pub(super) const KIND_SEGMENT: u8 = 2;
pub(super) const KIND_GOODBYE: u8 = 3;
pub(super) const KIND_END: u8 = 4;

pub(super) const PARCEL_MORE: u8 = 0;
pub(super) const PARCEL_LAST: u8 = 1;
pub(super) const PARCEL_SLOW: u8 = 2;
pub(super) const PARCEL_FAST: u8 = 3;

pub(super) const FLAG_NACK: u8 = 1;
pub(super) const FLAG_ASK: u8 = 2;

impl Frame {
    /// Encodes the frame. The content of its parcels is copied, in one allocation.
    ///
    /// # Panics
    /// If a segment is longer than [`MAX_FRAME`](super::MAX_FRAME), which is a bug in the caller: it must add up
    /// [`Parcel::encoded_len`] as it fills a segment.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.encoded_len());
        out.put_u8(Versions::MAJOR);
        out.put_u8(match self.body {
            Body::Hello(_) => KIND_HELLO,
            Body::Segment(_) => KIND_SEGMENT,
            Body::Goodbye(_) => KIND_GOODBYE,
            Body::End(_) => KIND_END,
        });
        put_epoch(&mut out, Some(self.from));
        put_epoch(&mut out, self.to);
        match &self.body {
            Body::Hello(hello) => put_hello(&mut out, hello),
            Body::Segment(segment) => put_segment(&mut out, segment),
            Body::Goodbye(finals) => finals.iter().for_each(|&number| out.put_u64(number)),
            Body::End(code) => out.put_u8(end_code(*code)),
        }
        assert!(out.len() <= super::MAX_FRAME, "a frame of {} bytes", out.len());
        debug_assert_eq!(out.len(), self.encoded_len());
        out.freeze()
    }

    fn encoded_len(&self) -> usize {
        match &self.body {
            Body::Hello(hello) => HELLO + hello.table.encoded_len(),
            Body::Segment(segment) => SEGMENT + segment.parcels.iter().map(Parcel::encoded_len).sum::<usize>(),
            Body::Goodbye(_) => HEADER + 2 * 8,
            Body::End(_) => HEADER + 1,
        }
    }
}

fn put_epoch(out: &mut BytesMut, epoch: Option<Epoch>) {
    match epoch {
        Some(epoch) => {
            out.put_u64(epoch.revision.0);
            out.put_u32(epoch.count);
        }
        None => out.put_bytes(0, EPOCH),
    }
}

fn put_hello(out: &mut BytesMut, hello: &Hello) {
    out.put_u8(hello.versions.minor);
    out.put_u8(hello.versions.oldest_minor);
    out.put_u64(hello.features);
    hello.credit.iter().for_each(|&credit| out.put_u64(credit));
    out.put_u16(hello.table.len() as u16);
    for (name, hash) in hello.table.iter() {
        out.put_u16(name.len() as u16);
        out.put_slice(name.as_bytes());
        out.put_u64(hash);
    }
}

fn put_segment(out: &mut BytesMut, segment: &Segment) {
    out.put_u8(lane_code(segment.lane));
    out.put_u8(if segment.nack { FLAG_NACK } else { 0 } | if segment.ask { FLAG_ASK } else { 0 });
    out.put_u64(segment.ack);
    out.put_u64(segment.credit);
    out.put_u64(segment.first);
    // The shortest parcel has five bytes, so fewer than 2^16 parcels fit into the longest frame. `encode` asserts that
    // the frame is not longer.
    out.put_u16(segment.parcels.len() as u16);
    for parcel in &segment.parcels {
        match parcel {
            Parcel::Piece { last, bytes } => {
                out.put_u8(if *last { PARCEL_LAST } else { PARCEL_MORE });
                out.put_u32(bytes.len() as u32);
                out.put_slice(bytes);
            }
            Parcel::Slow(pid) => {
                out.put_u8(PARCEL_SLOW);
                out.put_slice(&pid.to_bytes());
            }
            Parcel::Fast(pid) => {
                out.put_u8(PARCEL_FAST);
                out.put_slice(&pid.to_bytes());
            }
        }
    }
}

fn end_code(code: EndCode) -> u8 {
    match code {
        EndCode::Done => 0,
        EndCode::Unknown => 1,
        EndCode::Aborted => 2,
        EndCode::Violation => 3,
        EndCode::Version => 4,
    }
}
