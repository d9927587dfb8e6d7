//! Forms of messages and entries: their names, hashes and codec functions.

use super::format::{self, Fault};
use bytes::Bytes;
use postroom::error::EntryError;
use postroom::remote::{RemoteEntry, RemoteMessage, RemoteValue, WireCodec};
use postroom::{Payload, Payloads};
use std::any::{TypeId, type_name};
use std::convert::Infallible;

/// The bit of a hash that marks a codec which finds fields by name.
const NAMED: u64 = 1;

/// The form of a message or an entry.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) hash: u64,
    pub(super) codec: WireCodec,
    pub(super) kind: FormKind,
}

pub(super) enum FormKind {
    Message { message: ValueForm, answer: ValueForm },
    Entry(EntryForm),
}

/// Codec functions for one type in a payload.
#[derive(Clone, Copy)]
pub(super) struct ValueForm {
    pub(super) type_id: TypeId,
    pub(super) type_name: &'static str,
    /// Returns `None` if the payload holds another type.
    pub(super) encode: fn(&mut Payload, WireCodec) -> Option<Result<Bytes, Fault>>,
    pub(super) decode: fn(&[u8], WireCodec) -> Result<Payload, Fault>,
}

/// Codec functions for the inputs of an entry.
pub(super) struct EntryForm {
    pub(super) process: &'static str,
    pub(super) entry: &'static str,
    pub(super) type_id: TypeId,
    pub(super) encode: Box<EncodeInputs>,
    pub(super) decode: Box<DecodeInputs>,
}

type EncodeInputs = dyn Fn(Payloads, WireCodec) -> Result<Result<Bytes, Fault>, EntryError> + Send + Sync;
type DecodeInputs = dyn Fn(&[u8], WireCodec) -> Result<Payloads, Fault> + Send + Sync;

impl ValueForm {
    /// Returns the functions for a message, or for an answer that may be an error. The value travels as the payload
    /// holds it.
    pub(super) fn whole<T: RemoteValue>() -> Self {
        Self {
            type_id: TypeId::of::<T>(),
            type_name: type_name::<T>(),
            encode: |payload, codec| payload.get_mut::<T>().map(|value| format::encode(value, codec)),
            decode: |bytes, codec| format::decode::<T>(bytes, codec).map(Payload::new),
        }
    }

    /// Returns the functions for an answer that cannot be an error. The payload contains a `Result`; only its value is
    /// sent.
    pub(super) fn infallible<T: RemoteValue>() -> Self {
        Self {
            type_id: TypeId::of::<Result<T, Infallible>>(),
            type_name: type_name::<Result<T, Infallible>>(),
            encode: |payload, codec| match payload.get_mut::<Result<T, Infallible>>()? {
                Ok(value) => Some(format::encode(value, codec)),
                Err(never) => match *never {},
            },
            decode: |bytes, codec| {
                format::decode::<T>(bytes, codec).map(|value| Payload::new(Ok::<T, Infallible>(value)))
            },
        }
    }
}

impl Form {
    pub(super) fn message<M: RemoteValue>(about: RemoteMessage, answer: ValueForm) -> Self {
        Self {
            name: about.name,
            hash: hash(about.schema, about.codec),
            codec: about.codec,
            kind: FormKind::Message { message: ValueForm::whole::<M>(), answer },
        }
    }

    pub(super) fn entry<I: RemoteValue>(about: RemoteEntry<I>) -> Self {
        let RemoteEntry { from_payloads, into_payloads, .. } = about;
        Self {
            name: about.name,
            hash: hash(about.schema, WireCodec::Compact),
            codec: WireCodec::Compact,
            kind: FormKind::Entry(EntryForm {
                process: about.process,
                entry: about.entry,
                type_id: TypeId::of::<I>(),
                encode: Box::new(move |inputs, codec| Ok(format::encode(&from_payloads(inputs)?, codec))),
                decode: Box::new(move |bytes, codec| format::decode::<I>(bytes, codec).map(into_payloads)),
            }),
        }
    }

    /// Returns the types by which two forms with the same name are compared.
    pub(super) fn identity(&self) -> (TypeId, Option<TypeId>) {
        match &self.kind {
            FormKind::Message { message, answer } => (message.type_id, Some(answer.type_id)),
            FormKind::Entry(entry) => (entry.type_id, None),
        }
    }

    /// Returns the text that describes this form in an error about two forms with the same name.
    pub(super) fn type_name(&self) -> &'static str {
        match &self.kind {
            FormKind::Message { message, .. } => message.type_name,
            FormKind::Entry(_) => "an entry",
        }
    }
}

/// Returns the hash of a schema: FNV-1a, which is the same in every build, with a bit for the codec. The hash detects
/// builds that differ by accident. A node may lie about its hashes, so its messages are still checked byte by byte when
/// they are decoded.
fn hash(schema: &str, codec: WireCodec) -> u64 {
    let hash = schema
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    match codec {
        WireCodec::Compact => hash & !NAMED,
        WireCodec::Named => hash | NAMED,
    }
}

/// Returns true if two nodes that have these hashes for a message can exchange it.
pub(super) fn are_compatible(here: u64, there: u64) -> bool {
    here == there || here & there & NAMED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All builds must compute the same numbers: a change here splits clusters with mixed builds.
    #[test]
    fn hashes_are_those_of_every_build() {
        assert_eq!(hash("", WireCodec::Compact), 0xcbf2_9ce4_8422_2324);
        assert_eq!(hash("(amount: i64) -> i64", WireCodec::Compact) & NAMED, 0);
        assert_eq!(hash("a", WireCodec::Named), 0xaf63_dc4c_8601_ec8d);
    }

    #[test]
    fn names_make_different_fields_compatible() {
        let named = |schema| hash(schema, WireCodec::Named);
        let compact = |schema| hash(schema, WireCodec::Compact);
        assert!(are_compatible(compact("a"), compact("a")));
        assert!(!are_compatible(compact("a"), compact("b")));
        assert!(are_compatible(named("a"), named("b")));
        assert!(!are_compatible(named("a"), compact("a")));
    }
}
