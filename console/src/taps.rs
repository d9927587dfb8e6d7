//! The next messages of processes that someone has tapped.

use crate::methods::method_of;
use postroom::Pid;
use postroom::inspect::{Tap, TappedMessage, TappedValue};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of messages that a tap records.
const MESSAGES: usize = 100;
/// Maximum time for which a tap records.
const WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of taps kept; a new one replaces the oldest.
const KEPT: usize = 8;

/// The taps of a console.
#[derive(Default)]
pub(crate) struct Taps(Mutex<BTreeMap<Pid, (Instant, Tap)>>);

/// The messages that a tap has recorded so far.
#[derive(Serialize)]
pub(crate) struct Tapped {
    is_over: bool,
    /// Oldest first.
    messages: Vec<Handled>,
}

#[derive(Serialize)]
struct Handled {
    /// Seconds since the tap began.
    at: f64,
    method: String,
    /// The value of the message as text.
    value: Option<String>,
    /// Whether the value is longer than the text shown.
    is_cut: bool,
    /// Why no value is shown.
    why: Option<String>,
}

impl Handled {
    fn of(tapped: TappedMessage, process: &str, began: Instant) -> Self {
        let (value, is_cut, why) = match tapped.value {
            TappedValue::Shown { text, is_cut } => (Some(text), is_cut, None),
            TappedValue::Failed => (None, false, Some("its `Debug` has returned an error".to_owned())),
            TappedValue::Panicked(text) => (None, false, Some(format!("its `Debug` has panicked: {text}"))),
            _ => (None, false, Some("hidden: its method does not say `#[message(inspect)]`".to_owned())),
        };
        let at = tapped.at.saturating_duration_since(began).as_secs_f64();
        Self { at, method: method_of(process, tapped.message).into_owned(), value, is_cut, why }
    }
}

impl Taps {
    /// Starts recording the next messages of a process.
    pub(crate) fn begin(&self, pid: Pid) {
        let mut taps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !taps.contains_key(&pid) && taps.len() >= KEPT {
            let oldest = taps.iter().min_by_key(|(_, (began, _))| *began).map(|(pid, _)| *pid);
            oldest.map(|oldest| taps.remove(&oldest));
        }
        taps.insert(pid, (Instant::now(), pid.tap(MESSAGES, WITHIN)));
    }

    pub(crate) fn of(&self, pid: Pid, process: &str) -> Option<Tapped> {
        let taps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, tap) = taps.get(&pid)?;
        let handled = |tapped| Handled::of(tapped, process, *began);
        Some(Tapped { is_over: tap.is_over(), messages: tap.messages().into_iter().map(handled).collect() })
    }
}
