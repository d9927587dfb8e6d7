//! Encoding of the runtime's reasons: why a process ended, and why a call has no answer.
//!
//! Errors and panics travel as text, which is what the runtime compares. A variant that this crate does not know yet,
//! from a newer runtime in this program, also travels as text. The order of the variants below is the format.

use super::error::CodecError;
use super::format::{self, cut, decode_any, text_of};
use bytes::Bytes;
use postroom::error::{Cycle, Panic};
use postroom::remote::WireCodec;
use postroom::{CallError, ExitReason, Pid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum length in bytes of the text of an error, a panic or a cancellation; longer texts are cut.
const MAX_TEXT: usize = 4_096;

/// The maximum number of processes named in a chain of linked exits; the runtime itself makes chains of one.
const MAX_LINKED: usize = 16;

/// The maximum number of processes named in a cycle of calls.
const MAX_CYCLE: usize = 256;

/// The maximum number of method and type names from other nodes that are kept: errors hold them as `&'static str`.
const MAX_NAMES: usize = 1_024;

/// The maximum length of these names, in bytes.
const MAX_NAME: usize = 256;

/// The substitute for names beyond these limits.
const SOME_NAME: &str = "a name of another node";

#[derive(Serialize, Deserialize)]
struct WireReason {
    /// The processes that failed, nearest first: each failed because of the next one, and the last because of `reason`.
    linked: Vec<Pid>,
    reason: WireEnd,
}

#[derive(Serialize, Deserialize)]
enum WireEnd {
    Normal,
    Shutdown,
    Cancelled(String),
    Killed,
    Error(String),
    Panic { message: String, place: String },
    NodeLost,
    NoProcess,
}

#[derive(Serialize, Deserialize)]
enum WireCallError {
    Gone(WireReason),
    Died(WireReason),
    Timeout,
    Full,
    Restarting,
    Cycle(Vec<(Pid, String)>),
    Dropped,
    Unhandled,
    Mismatch { expected: String, found: String },
    UnknownName,
    Shutdown,
    NotRemote,
    TooLong { bytes: u64, limit: u64 },
    Unwritable(String),
    Unreadable(String),
    AnswerTooLong { bytes: u64, limit: u64 },
    AnswerLost(String),
}

/// Encodes an exit reason. Texts are cut at 4 KiB, chains of links at 16.
pub fn encode_exit_reason(reason: &ExitReason) -> Bytes {
    write(&wire_reason(reason))
}

/// Returns an exit reason as another node would decode it. It contains no user types, so it can be displayed and
/// dropped anywhere.
pub(crate) fn as_text(reason: &ExitReason) -> ExitReason {
    exit_reason(wire_reason(reason))
}

/// Decodes an exit reason.
///
/// # Errors
/// If the bytes are not exactly one exit reason.
pub fn decode_exit_reason(bytes: &[u8]) -> Result<ExitReason, CodecError> {
    read::<WireReason>(bytes, "the reason of an end").map(exit_reason)
}

/// Encodes the reason why a call has no answer. An error that the method returns is not such a reason but an answer:
/// see [`Agreement::encode_answer`](super::Agreement::encode_answer).
pub fn encode_call_error(error: &CallError) -> Bytes {
    write(&match error {
        CallError::Failed(never) => match *never {},
        CallError::Gone(reason) => WireCallError::Gone(wire_reason(reason)),
        CallError::Died(reason) => WireCallError::Died(wire_reason(reason)),
        CallError::Timeout => WireCallError::Timeout,
        CallError::Full => WireCallError::Full,
        CallError::Restarting => WireCallError::Restarting,
        CallError::Cycle(cycle) => WireCallError::Cycle(
            cycle.calls.iter().take(MAX_CYCLE).map(|(pid, method)| (*pid, cut(method, MAX_NAME).to_owned())).collect(),
        ),
        CallError::Dropped => WireCallError::Dropped,
        CallError::Unhandled => WireCallError::Unhandled,
        CallError::Mismatch { expected, found } => WireCallError::Mismatch {
            expected: cut(expected, MAX_NAME).to_owned(),
            found: cut(found, MAX_NAME).to_owned(),
        },
        CallError::UnknownName => WireCallError::UnknownName,
        CallError::Shutdown => WireCallError::Shutdown,
        // A third node cannot tell which builds differ.
        CallError::NotRemote | CallError::OtherBuild(_) => WireCallError::NotRemote,
        CallError::TooLong { bytes, limit } => WireCallError::TooLong { bytes: *bytes as u64, limit: *limit as u64 },
        CallError::Unwritable { message } => WireCallError::Unwritable(cut(message, MAX_NAME).to_owned()),
        CallError::Unreadable(reason) => WireCallError::Unreadable(cut(reason, MAX_TEXT).to_owned()),
        CallError::AnswerTooLong { bytes, limit } => {
            WireCallError::AnswerTooLong { bytes: *bytes as u64, limit: *limit as u64 }
        }
        CallError::AnswerLost(reason) => WireCallError::AnswerLost(cut(reason, MAX_TEXT).to_owned()),
        // For an unknown variant, it is not known whether the message was handled.
        other => {
            WireCallError::Died(WireReason { linked: Vec::new(), reason: WireEnd::Error(text_of(other, MAX_TEXT)) })
        }
    })
}

/// Decodes the reason why a call has no answer.
///
/// # Errors
/// If the bytes are not exactly one such reason.
pub fn decode_call_error(bytes: &[u8]) -> Result<CallError, CodecError> {
    Ok(match read(bytes, "the error of a call")? {
        WireCallError::Gone(reason) => CallError::Gone(exit_reason(reason)),
        WireCallError::Died(reason) => CallError::Died(exit_reason(reason)),
        WireCallError::Timeout => CallError::Timeout,
        WireCallError::Full => CallError::Full,
        WireCallError::Restarting => CallError::Restarting,
        WireCallError::Cycle(calls) => {
            let calls = calls.into_iter().take(MAX_CYCLE);
            CallError::Cycle(Cycle { calls: calls.map(|(pid, method)| (pid, kept(&method))).collect() })
        }
        WireCallError::Dropped => CallError::Dropped,
        WireCallError::Unhandled => CallError::Unhandled,
        WireCallError::Mismatch { expected, found } => {
            CallError::Mismatch { expected: kept(&expected), found: kept(&found) }
        }
        WireCallError::UnknownName => CallError::UnknownName,
        WireCallError::Shutdown => CallError::Shutdown,
        WireCallError::NotRemote => CallError::NotRemote,
        WireCallError::TooLong { bytes, limit } => CallError::TooLong { bytes: bytes as usize, limit: limit as usize },
        WireCallError::Unwritable(message) => CallError::Unwritable { message: kept(&message) },
        WireCallError::Unreadable(reason) => CallError::Unreadable(reason.into()),
        WireCallError::AnswerTooLong { bytes, limit } => {
            CallError::AnswerTooLong { bytes: bytes as usize, limit: limit as usize }
        }
        WireCallError::AnswerLost(reason) => CallError::AnswerLost(reason.into()),
    })
}

fn wire_reason(mut reason: &ExitReason) -> WireReason {
    let mut linked = Vec::new();
    while let ExitReason::Linked { pid, reason: inner } = reason {
        // A chain that is too long is cut, but the reason at its end is kept, since that says what happened.
        if linked.len() < MAX_LINKED {
            linked.push(*pid);
        }
        reason = inner;
    }
    let reason = match reason {
        ExitReason::Normal => WireEnd::Normal,
        ExitReason::Shutdown => WireEnd::Shutdown,
        ExitReason::Cancelled(text) => WireEnd::Cancelled(cut(text, MAX_TEXT).to_owned()),
        ExitReason::Killed => WireEnd::Killed,
        ExitReason::Error(error) => WireEnd::Error(text_of(error, MAX_TEXT)),
        ExitReason::Panic(panic) => WireEnd::Panic {
            message: cut(&panic.message, MAX_TEXT).to_owned(),
            place: cut(&panic.place, MAX_NAME).to_owned(),
        },
        ExitReason::NodeLost => WireEnd::NodeLost,
        ExitReason::NoProcess => WireEnd::NoProcess,
        other => WireEnd::Error(text_of(other, MAX_TEXT)),
    };
    WireReason { linked, reason }
}

fn exit_reason(wire: WireReason) -> ExitReason {
    let reason = match wire.reason {
        WireEnd::Normal => ExitReason::Normal,
        WireEnd::Shutdown => ExitReason::Shutdown,
        WireEnd::Cancelled(text) => ExitReason::Cancelled(text.into()),
        WireEnd::Killed => ExitReason::Killed,
        WireEnd::Error(text) => ExitReason::error(text),
        WireEnd::Panic { message, place } => ExitReason::Panic(Arc::new(Panic { message, place })),
        WireEnd::NodeLost => ExitReason::NodeLost,
        WireEnd::NoProcess => ExitReason::NoProcess,
    };
    // A peer may send more links than the limit; the rest are ignored. A reason is dropped recursively, so each link
    // takes stack.
    let linked = wire.linked.into_iter().take(MAX_LINKED).rev();
    linked.fold(reason, |reason, pid| ExitReason::Linked { pid, reason: Arc::new(reason) })
}

fn write<T: Serialize>(value: &T) -> Bytes {
    match format::encode(value, WireCodec::Compact) {
        Ok(bytes) => bytes,
        Err(fault) => unreachable!("texts and lists are bounded, and need nothing of the format: {fault:?}"),
    }
}

fn read<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, CodecError> {
    decode_any(bytes, WireCodec::Compact).map_err(|fault| CodecError::of_reading(what, fault))
}

/// Returns a copy of the name with static lifetime, or [`SOME_NAME`] beyond the limits.
pub(crate) fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<KeptNames> = Mutex::new(KeptNames(BTreeSet::new()));
    NAMES.lock().unwrap_or_else(PoisonError::into_inner).keep(name)
}

/// Names of methods and types from other nodes. Their number and length are limited, so other nodes cannot make this
/// one keep unbounded memory.
pub(super) struct KeptNames(pub(super) BTreeSet<&'static str>);

impl KeptNames {
    pub(super) fn keep(&mut self, name: &str) -> &'static str {
        if let Some(kept) = self.0.get(name) {
            return kept;
        }
        if self.0.len() == MAX_NAMES || name.len() > MAX_NAME {
            return SOME_NAME;
        }
        let name: &'static str = Box::leak(name.into());
        self.0.insert(name);
        name
    }
}
