//! Taps show the next messages of a process: their types, and their values if the method is marked
//! `#[message(inspect)]`. The number of messages, the time and the text are limited, so a forgotten tap costs little.
//!
//! A tap is requested through the control lane and stored in the cold state of the process. Each step of the process
//! then checks for it there. A step with a tap takes each message by the slow path, as a recorded step does (see
//! `StepInput::tap`). So taps work for all processes, and a message is recorded when it is taken from its mailbox,
//! wherever it is handled.
//!
//! The `Debug` of a message is user code that runs in the step, and may do anything that the method may do. A panic is
//! caught, and the text is cut off at [`MOST_BYTES`] or after [`LASTS`].

use super::description::Limited;
use super::mail::Mail;
use crate::call::caller;
use crate::env::clock::instant_now;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::util::panics::{Site, contain};
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

/// Maximum number of messages that can be requested.
const MOST: usize = 100;
/// Maximum time that can be requested.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum size of a message's text in bytes.
const MOST_BYTES: usize = 4 << 10;
/// Maximum time for which the `Debug` of a message may write.
const LASTS: Duration = Duration::from_millis(10);

/// Writes a message; returns `None` if its method is not marked `#[message(inspect)]`.
pub(crate) type ShowMessage = fn(&mut Mail<'_>, &mut fmt::Formatter<'_>) -> Option<fmt::Result>;

/// A message that a process has taken from its mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TappedMessage {
    /// When it was taken.
    pub at: Instant,
    /// The name of its type.
    pub message: &'static str,
    /// The value of the message.
    pub value: TappedValue,
}

/// The value of a tapped message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TappedValue {
    /// Not shown: the method is not marked `#[message(inspect)]`.
    Hidden,
    /// The output of the message's `Debug`.
    Shown {
        /// The text, at most 4 KiB.
        text: String,
        /// Whether the text was cut off because it was longer or took more than 10 ms.
        is_cut: bool,
    },
    /// The message's `Debug` returned an error.
    Failed,
    /// The message's `Debug` panicked with this text.
    Panicked(String),
}

#[derive(Debug)]
struct TapState {
    most: usize,
    until: Instant,
    kept: Mutex<Vec<TappedMessage>>,
    is_over: AtomicBool,
}

/// The process's side of a tap. It is dropped when there is nothing more to record.
#[derive(Debug)]
pub(crate) struct TapSink {
    state: Arc<TapState>,
    show: ShowMessage,
}

impl TapSink {
    pub(crate) fn new(most: usize, within: Duration, show: ShowMessage) -> (Self, Tap) {
        let (most, until) = (most.min(MOST), instant_now() + within.min(LONGEST));
        let state = Arc::new(TapState { most, until, kept: Mutex::new(Vec::new()), is_over: AtomicBool::new(false) });
        (Self { state: state.clone(), show }, Tap(state))
    }

    /// Records a message. Returns whether the tap takes another one.
    pub(crate) fn note(&self, mail: &mut Mail<'_>) -> bool {
        let (state, at) = (&*self.state, instant_now());
        let Some(message) = mail.type_name() else { return true };
        if at >= state.until || state.most == 0 {
            return false;
        }
        // The value is formatted without the lock, because this runs user code.
        let value = self.value_of(mail);
        let mut kept = lock(&state.kept);
        if kept.len() < state.most {
            kept.push(TappedMessage { at, message, value });
        }
        kept.len() < state.most
    }

    fn value_of(&self, mail: &mut Mail<'_>) -> TappedValue {
        let mut to = Limited::new(MOST_BYTES, LASTS);
        let shown = ShownMail { show: self.show, mail: RefCell::new(mail), is_hidden: Cell::new(false) };
        match contain(Site::MessageDebug, || write!(to, "{shown:?}")) {
            Ok(_) if shown.is_hidden.get() => TappedValue::Hidden,
            // An error that results from the cut-off is not a failure of the `Debug`.
            Ok(Err(_)) if !to.is_cut => TappedValue::Failed,
            Ok(_) => TappedValue::Shown { text: to.text, is_cut: to.is_cut },
            Err(panic) => {
                caller::blame_nobody();
                TappedValue::Panicked(panic.to_string())
            }
        }
    }
}

impl Drop for TapSink {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
    }
}

/// A message, formatted as its method shows it.
struct ShownMail<'a, 'b> {
    show: ShowMessage,
    mail: RefCell<&'a mut Mail<'b>>,
    is_hidden: Cell<bool>,
}

impl fmt::Debug for ShownMail<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = (self.show)(&mut self.mail.borrow_mut(), f);
        self.is_hidden.set(shown.is_none());
        shown.unwrap_or(Ok(()))
    }
}

/// The messages that a tap has recorded so far. Created by [`Pid::tap`](crate::Pid::tap).
#[derive(Debug)]
pub struct Tap(Arc<TapState>);

impl Tap {
    /// Returns the messages recorded so far, oldest first.
    pub fn messages(&self) -> Vec<TappedMessage> {
        lock(&self.0.kept).clone()
    }

    /// Returns whether the tap is over: it has all its messages, its time has passed, or the process has ended.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire) || instant_now() >= self.0.until
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Package, mailbox::node::EnvelopeContent};

    /// Records a number in a tap. Returns whether the tap takes another one.
    fn note(sink: &TapSink, number: i64) -> bool {
        let pid = "<000000000001.0.1.1>".parse().expect("a PID");
        let mut envelope = EnvelopeContent::empty();
        sink.note(&mut Mail::of(Package::new(pid, number), &mut envelope))
    }

    #[test]
    fn a_tap_ends_with_its_number_or_its_time() {
        let (sink, tap) = TapSink::new(2, Duration::MAX, |_, _| None);
        assert!(note(&sink, 1) && !note(&sink, 2) && !note(&sink, 3));
        let kept = tap.messages();
        assert!(kept.iter().all(|tapped| (tapped.message, &tapped.value) == ("i64", &TappedValue::Hidden)));
        assert!(kept.len() == 2 && !tap.is_over());
        drop(sink);
        assert!(tap.is_over());
        let (late, tap) = TapSink::new(usize::MAX, Duration::ZERO, |_, _| None);
        assert!(!note(&late, 1) && tap.is_over() && tap.messages().is_empty());
        let (none, tap) = TapSink::new(0, Duration::MAX, |_, _| unreachable!("nothing may be shown"));
        assert!(!note(&none, 1) && tap.messages().is_empty());
    }

    #[test]
    fn a_value_is_shown_where_its_type_is_known() {
        let (sink, tap) = TapSink::new(2, Duration::MAX, |mail, f| Some(fmt::Debug::fmt(mail.peek::<i64>()?, f)));
        let pid = "<000000000001.0.1.1>".parse().expect("a PID");
        let mut envelope = EnvelopeContent::empty();
        assert!(note(&sink, 7) && !sink.note(&mut Mail::of(Package::new(pid, "text"), &mut envelope)));
        let values: Vec<_> = tap.messages().into_iter().map(|tapped| tapped.value).collect();
        assert_eq!(values, [TappedValue::Shown { text: "7".to_owned(), is_cut: false }, TappedValue::Hidden]);
    }
}
