//! Perfetto's packets: one for each track, for the beginning and the end of each slice, and for each instant and
//! counter value.
//!
//! The field numbers are those of `TracePacket`, `TrackDescriptor`, `TrackEvent`, `DebugAnnotation` and `InternedData`
//! in Perfetto's `protos/perfetto/trace`. Names are interned: the first packet that uses a name also defines it.

use super::protobuf::ProtobufMessage;
use std::collections::HashMap;
use std::io::{self, Write};

/// `Trace.packet`.
const PACKET: u32 = 1;

/// Field numbers of `TracePacket`.
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED_DATA: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const TRACK_DESCRIPTOR: u32 = 60;
const FIRST_ON_SEQUENCE: u32 = 87;

/// Flag of a packet that clears the interned names.
const NAMES_CLEARED: u64 = 1;
/// Flag of a packet that uses interned names.
const NEEDS_NAMES: u64 = 2;

/// Field numbers of `InternedData`.
const CATEGORIES: u32 = 1;
const NAMES: u32 = 2;
const ANNOTATION_NAMES: u32 = 3;
const ANNOTATION_STRINGS: u32 = 29;

/// Kinds of `TrackEvent`.
#[derive(Clone, Copy)]
pub(super) enum TrackEventKind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// Details of a slice or an instant, besides its name.
#[derive(Clone, Copy, Default)]
pub(super) struct Details<'a> {
    /// A text annotation.
    pub(super) text: Option<(&'static str, &'a str)>,
    /// A numeric annotation.
    pub(super) number: Option<(&'static str, u64)>,
    /// A flow that starts here.
    pub(super) leaves: Option<u64>,
    /// A flow that ends here.
    pub(super) arrives: Option<u64>,
}

/// A writer of packets that counts their bytes.
pub(super) struct Packets<W> {
    out: W,
    pub(super) written: u64,
    limit: u64,
    packet: ProtobufMessage,
    names: Names,
}

/// Why a packet was not written.
pub(super) enum Refused {
    Limit,
    System(io::Error),
}

impl<W: Write> Packets<W> {
    pub(super) fn new(out: W, limit: u64) -> Result<Self, Refused> {
        let mut packets = Self { out, written: 0, limit, packet: ProtobufMessage::default(), names: Names::default() };
        packets.write(|packet, _| {
            packet.number(SEQUENCE_FLAGS, NAMES_CLEARED);
            packet.number(FIRST_ON_SEQUENCE, 1);
        })?;
        Ok(packets)
    }

    /// Defines a track at the top level or within another track. `rank` orders it among its siblings.
    pub(super) fn track(&mut self, track: u64, parent: Option<u64>, name: &str, rank: u64) -> Result<(), Refused> {
        self.define(track, parent, name, rank, |_| {})
    }

    /// Defines a counter track.
    pub(super) fn counter_track(&mut self, track: u64, parent: u64, name: &str, rank: u64) -> Result<(), Refused> {
        const COUNT: u64 = 2;
        self.define(track, Some(parent), name, rank, |track| track.message(8, |counter| counter.number(3, COUNT)))
    }

    fn define(
        &mut self,
        track: u64,
        parent: Option<u64>,
        name: &str,
        rank: u64,
        more: impl FnOnce(&mut ProtobufMessage),
    ) -> Result<(), Refused> {
        const BY_RANK: u64 = 3;
        self.write(|packet, _| {
            packet.message(TRACK_DESCRIPTOR, |descriptor| {
                descriptor.number(1, track);
                descriptor.text(2, name);
                if let Some(parent) = parent {
                    descriptor.number(5, parent);
                }
                more(descriptor);
                descriptor.number(11, BY_RANK);
                descriptor.number(12, rank);
            });
        })
    }

    /// Begins a slice, or writes an instant.
    pub(super) fn event(
        &mut self,
        (kind, at, track): (TrackEventKind, u64, u64),
        category: &'static str,
        name: &str,
        details: Details<'_>,
    ) -> Result<(), Refused> {
        self.write(|packet, names| {
            packet.number(TIMESTAMP, at);
            packet.number(SEQUENCE_FLAGS, NEEDS_NAMES);
            let category = names.iid(CATEGORIES, category);
            let name = names.iid(NAMES, name);
            let text =
                details.text.map(|(key, text)| (names.iid(ANNOTATION_NAMES, key), names.iid(ANNOTATION_STRINGS, text)));
            let number = details.number.map(|(key, number)| (names.iid(ANNOTATION_NAMES, key), number));
            packet.message(TRACK_EVENT, |event| {
                event.number(3, category);
                if let Some((key, text)) = text {
                    event.message(4, |annotation| {
                        annotation.number(1, key);
                        annotation.number(17, text);
                    });
                }
                if let Some((key, number)) = number {
                    event.message(4, |annotation| {
                        annotation.number(1, key);
                        annotation.number(3, number);
                    });
                }
                event.number(9, kind as u64);
                event.number(10, name);
                event.number(11, track);
                if let Some(flow) = details.leaves {
                    event.fixed(47, flow);
                }
                if let Some(flow) = details.arrives {
                    event.fixed(48, flow);
                }
            });
        })
    }

    /// Ends the innermost slice of a track.
    pub(super) fn end(&mut self, at: u64, track: u64) -> Result<(), Refused> {
        self.write(|packet, _| {
            packet.number(TIMESTAMP, at);
            packet.message(TRACK_EVENT, |event| {
                event.number(9, TrackEventKind::End as u64);
                event.number(11, track);
            });
        })
    }

    pub(super) fn count(&mut self, at: u64, track: u64, value: u64) -> Result<(), Refused> {
        self.write(|packet, _| {
            packet.number(TIMESTAMP, at);
            packet.message(TRACK_EVENT, |event| {
                event.number(9, TrackEventKind::Counter as u64);
                event.number(11, track);
                event.number(30, value);
            });
        })
    }

    /// Writes one packet, including definitions of the names that it is the first to use.
    fn write(&mut self, fill: impl FnOnce(&mut ProtobufMessage, &mut Names)) -> Result<(), Refused> {
        self.packet.clear();
        let names = &mut self.names;
        self.packet.message(PACKET, |packet| {
            fill(packet, names);
            packet.number(SEQUENCE, 1);
            let new = std::mem::take(&mut names.new);
            if !new.is_empty() {
                packet.message(INTERNED_DATA, |data| new.into_iter().for_each(|name| define(data, name)));
            }
        });
        let bytes = self.packet.bytes();
        self.written += bytes.len() as u64;
        if self.written > self.limit {
            return Err(Refused::Limit);
        }
        self.out.write_all(bytes).map_err(Refused::System)
    }

    pub(super) fn finish(mut self) -> Result<u64, Refused> {
        self.out.flush().map_err(Refused::System)?;
        Ok(self.written)
    }
}

/// Writes the definition of an interned text.
fn define(data: &mut ProtobufMessage, (kind, iid, text): (u32, u64, String)) {
    data.message(kind, |entry| {
        entry.number(1, iid);
        entry.text(2, &text);
    });
}

/// The numbers of interned texts, by the field of `InternedData` that defines them.
#[derive(Default)]
struct Names {
    known: HashMap<u32, HashMap<String, u64>>,
    /// Texts that the current packet is the first to use.
    new: Vec<(u32, u64, String)>,
}

impl Names {
    fn iid(&mut self, kind: u32, text: &str) -> u64 {
        let known = self.known.entry(kind).or_default();
        if let Some(&iid) = known.get(text) {
            return iid;
        }
        let iid = known.len() as u64 + 1;
        known.insert(text.to_owned(), iid);
        self.new.push((kind, iid, text.to_owned()));
        iid
    }
}
