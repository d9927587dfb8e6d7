//! The spans of messages (feature `spans`).
//!
//! Each message is handled in a root span of its own, which follows from the span of its sender. So a trace shows which
//! message caused which other message, and spans are not nested for the lifetime of a process.
//!
//! The span of the sender travels with the message as its [`Origin`], inside the payload (see `mailbox/payload.rs`).
//! The origin keeps the span itself, because a subscriber reuses the ID of a closed span for another one. All of this
//! happens only if a subscriber may want these spans; the check costs a load and a branch for each send and receipt.
//!
//! A subscriber is user code. Every call to a subscriber from this module is guarded against panics, and no lock is
//! held during the call. Messages that a subscriber sends during such a call have no origin.
//!
//! Without the feature, `no_spans` replaces this module, so that its users need not distinguish the two.

use crate::env::world::World;
use crate::pid::Pid;
use crate::sync::{Arc, OnceLock};
use crate::util::panics::{Site, ignore};
use crate::util::{defer::defer, log};
use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::mem::replace;
use tracing::field::display;
use tracing::{Level, Span, dispatcher};

/// The target of the spans, as a literal for other macros.
macro_rules! target {
    () => {
        "postroom::message"
    };
}

/// A lookup of processes. The engine provides it.
pub(crate) trait ProcessLookup: Sync {
    /// Returns the process that the thread runs.
    fn running(&self) -> Option<Pid>;

    /// Returns the name of a process's type, and its label.
    fn describe(&self, pid: Pid) -> (Option<&'static str>, Option<std::sync::Arc<str>>);
}

static LOOKUP: World<OnceLock<&'static dyn ProcessLookup>> = World::new(OnceLock::new());

/// Sets the lookup. Called before the first process starts.
pub(crate) fn set_lookup(lookup: &'static dyn ProcessLookup) {
    LOOKUP.get_or_init(|| lookup);
}

thread_local! {
    /// Whether this module is calling a subscriber on this thread.
    static CALLING: Cell<bool> = const { Cell::new(false) };
    /// The origin of the messages that the thread sends now, if it sends them on behalf of another sender.
    static GIVEN: RefCell<Option<Option<Origin>>> = const { RefCell::new(None) };
    /// The origin of the request to stop that ends the process of the thread.
    static STOP: RefCell<Option<Option<Origin>>> = const { RefCell::new(None) };
}

/// Returns whether a subscriber may want the spans.
#[inline(always)]
pub(crate) fn may_be_wanted() -> bool {
    log::is_on(Level::INFO)
}

/// Calls a subscriber. Returns `None` if it panics, or while the thread destroys its thread-locals.
fn call<R>(body: impl FnOnce() -> R) -> Option<R> {
    let outer = CALLING.try_with(|calling| calling.replace(true)).ok()?;
    let _restore = defer(|| _ = CALLING.try_with(|calling| calling.set(outer)));
    let mut result = None;
    ignore(Site::Log, || result = Some(body()));
    result
}

/// A span that is kept open.
pub(crate) struct HeldSpan(Span);

impl HeldSpan {
    /// Enters the span until the result is dropped.
    pub(crate) fn enter<S: Borrow<Self>>(this: S) -> EnteredSpan<S> {
        let span = &this.borrow().0;
        let is_entered = call(|| span.with_subscriber(|(id, dispatch)| dispatch.enter(id)).is_some());
        EnteredSpan { span: this, is_entered: is_entered == Some(true) }
    }
}

impl Drop for HeldSpan {
    fn drop(&mut self) {
        let span = replace(&mut self.0, Span::none());
        let _panicked = call(|| drop(span));
    }
}

/// A guard that exits its span when it is dropped.
pub(crate) struct EnteredSpan<S: Borrow<HeldSpan>> {
    span: S,
    is_entered: bool,
}

impl<S: Borrow<HeldSpan>> Drop for EnteredSpan<S> {
    fn drop(&mut self) {
        if self.is_entered {
            let span = &self.span.borrow().0;
            let _panicked = call(|| span.with_subscriber(|(id, dispatch)| dispatch.exit(id)));
        }
    }
}

/// The sender of a message: its process, if the sender was a process, and the span that it was in.
#[derive(Clone)]
pub(crate) struct Origin(Arc<SentFrom>);

struct SentFrom {
    span: HeldSpan,
    sender: Option<Pid>,
}

impl Origin {
    /// Returns the origin of the messages that the calling thread sends now, or `None` if the origin is unknown or no
    /// subscriber wants it.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_thread() -> Option<Self> {
        if !may_be_wanted() || CALLING.try_with(Cell::get).unwrap_or(true) {
            return None;
        }
        if let Some(given) = GIVEN.try_with(|given| given.borrow().clone()).ok()? {
            return given;
        }
        let sender = LOOKUP.get().and_then(|lookup| lookup.running());
        let current = || tracing::span_enabled!(target: target!(), Level::INFO).then(Span::current);
        let span = HeldSpan(call(current)??);
        (sender.is_some() || !span.0.is_none()).then(|| Self(Arc::new(SentFrom { span, sender })))
    }

    /// Returns an origin without a span or a sender.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self(Arc::new(SentFrom { span: HeldSpan(Span::none()), sender: None }))
    }

    pub(crate) fn sender(&self) -> Option<Pid> {
        self.0.sender
    }

    /// Returns an origin with the same sender and no span, so that it keeps no span open.
    pub(crate) fn without_span(&self) -> Option<Self> {
        self.sender().map(|sender| Self(Arc::new(SentFrom { span: HeldSpan(Span::none()), sender: Some(sender) })))
    }

    /// Enters the span again for a continuation, because that still belongs to the message.
    pub(crate) fn enter(&self) -> EnteredSpan<&HeldSpan> {
        HeldSpan::enter(&self.0.span)
    }
}

/// Runs `body`, and gives this origin to the messages that it sends.
pub(crate) fn on_behalf_of<R>(origin: Option<Origin>, body: impl FnOnce() -> R) -> R {
    let set = |to| GIVEN.try_with(|given| replace(&mut *given.borrow_mut(), to)).ok().flatten();
    let outer = set(Some(origin));
    let _restore = defer(|| {
        // Dropped outside the borrow: this may be the last reference, and dropping that closes the span.
        let inner = set(outer.clone());
        drop(inner);
    });
    body()
}

/// Opens the root span of a message for the process that the thread runs, or else for `to`.
#[cold]
#[inline(never)]
pub(crate) fn open(origin: Option<Origin>, to: Option<Pid>, message_type: &'static str) -> Option<HeldSpan> {
    let lookup = LOOKUP.get();
    let pid = lookup.and_then(|lookup| lookup.running()).or(to);
    let (process, label) = lookup.zip(pid).map(|(lookup, pid)| lookup.describe(pid)).unwrap_or_default();
    let (label, caller) = (label.as_deref(), origin.as_ref().and_then(Origin::sender));
    let make = || {
        let (pid, caller) = (pid.map(display), caller.map(display));
        tracing::info_span!(
            target: target!(), parent: None, "postroom.message", pid, process, message_type, label, caller
        )
    };
    let from = origin.as_ref().map(|origin| &origin.0.span.0).filter(|span| !span.is_none());
    let span = call(|| {
        let Some(from) = from else { return make() };
        // The span is made in the subscriber of the sender, because only that subscriber knows the sender's span: a
        // test may have a subscriber for its own thread.
        let span = from.with_subscriber(|(_, dispatch)| dispatcher::with_default(dispatch, make));
        let span = span.unwrap_or_else(Span::none);
        span.follows_from(from);
        span
    });
    span.filter(|span| !span.is_none()).map(HeldSpan)
}

/// Stores the origin of a request to stop until the process has ended.
pub(crate) fn note_stop(origin: Option<Origin>) {
    let before = STOP.try_with(|stop| stop.borrow_mut().replace(origin));
    drop(before);
}

/// Enters the span of the request to stop that ends the process, if there is one. That request is the cause of the
/// process's `close` and drop.
pub(crate) fn enter_stop(pid: Pid) -> Option<EnteredSpan<HeldSpan>> {
    let origin = STOP.try_with(|stop| stop.borrow_mut().take()).ok().flatten()?;
    if !may_be_wanted() {
        return None;
    }
    open(origin, Some(pid), "stop").map(HeldSpan::enter)
}
