//! The log events of dead letters.
//!
//! A message that is lost without anyone getting an error is logged as a warning. So is a message that its receiver has
//! no method for, which is a bug even if the caller gets an error. Each event names the sender and the receiver as far
//! as they are known. Floods are limited: see [`LogLimit`].

use crate::call::dead_letter::{DeadLetter, DeadLetterReason};
use crate::env::clock::Moment;
use crate::observe::log_limit::LogLimit;
use crate::pid::Pid;
use crate::routing::alias;
use crate::slots::TABLE;
use crate::sync::Arc;
use crate::util::log;
use crate::util::panics::Shown;
use tracing::field::display;

/// The limits on log events of one host, by reason.
pub(crate) type LossLimits = [LogLimit; DeadLetterReason::COUNT];

/// Logs a dead letter.
#[cold]
pub(crate) fn log_dead_letter(letter: &DeadLetter, limits: &LossLimits) {
    let is_fault = letter.reason == DeadLetterReason::Unhandled;
    let level = if letter.is_told && !is_fault { tracing::Level::DEBUG } else { tracing::Level::WARN };
    if !log::is_on(level) {
        return;
    }
    let suppressed = match level {
        // All events are logged: a program that enables this level looks for a particular message.
        tracing::Level::DEBUG => 0,
        // Uses the system's time, since the clock of a test may stand still.
        _ => match limits[letter.reason as usize].admit(Moment::now_by(None)) {
            Some(suppressed) => suppressed,
            None => return,
        },
    };
    let suppressed = (suppressed > 0).then_some(suppressed);
    let DeadLetter { to, from, message, reason: why, is_told, exit } = letter;
    let (receiver, sender) = (LostEnd::of(*to), from.map(LostEnd::of).unwrap_or_default());
    let (process, label) = (receiver.process, receiver.label.as_deref());
    let (from, from_process, from_label) = (from.map(display), sender.process, sender.label.as_deref());
    let message_type = message.type_name();
    let reason = exit.as_ref().map(|exit| display(Shown(exit)));
    if is_fault {
        log::warn!(
            %to, process, label, from, from_process, from_label, message_type, suppressed,
            "a message was sent to a process that has no method for its type"
        );
    } else if *is_told {
        log::debug!(
            %to, process, label, from, from_process, from_label, message_type, %why, reason,
            "a call failed, and its message is a dead letter"
        );
    } else {
        log::warn!(
            %to, process, label, from, from_process, from_label, message_type, %why, reason, suppressed,
            "a sent message was lost: it is a dead letter"
        );
    }
}

/// The type and the label of the sender or the receiver of a lost message, as far as they are known.
#[derive(Default)]
struct LostEnd {
    process: Option<&'static str>,
    label: Option<Arc<str>>,
}

impl LostEnd {
    /// Describes a process that may have ended. Nothing is known about it once its slot has been reused.
    fn of(pid: Pid) -> Self {
        if alias::is_local_alias(pid) {
            return Self { process: alias::kind(pid).map(|kind| (kind.name)()), label: None };
        }
        let Some(slot) = TABLE.last(pid) else { return Self::default() };
        let process = slot.metadata.names().map(|(process, _)| process);
        let label = slot.owner().and_then(|owner| owner.host.label_of(pid));
        if TABLE.last(pid).is_some() { Self { process, label } } else { Self::default() }
    }
}
