//! What a panic said, and where.
//!
//! A panic's place is told only to the program's panic hook. The first runtime of a program puts one before whatever hook
//! there is: while a process runs, it notes the place, and leaves the report to the runtime (one `tracing` event with PID,
//! type, entry, message and place) if anyone listens to such events; if nobody does, and for every other panic, it calls
//! the hook that it found.

use crate::exit::Panic;
use crate::sync::Once;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Whether what this thread runs now is contained.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Puts the runtime's hook before the program's, once.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let contained = CONTAINED.try_with(Cell::get).unwrap_or(false);
            if contained {
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                let _ = PLACE.try_with(|slot| slot.replace(place));
            }
            if !contained || !tracing::enabled!(tracing::Level::ERROR) {
                before(info);
            }
        }));
    });
}

/// All that this thread runs is contained, from here on.
pub(crate) fn contain_thread() {
    CONTAINED.set(true);
}

/// Runs user code; a panic in it is an error.
#[inline]
pub(crate) fn contain<R>(body: impl FnOnce() -> R) -> Result<R, Panic> {
    let outer = CONTAINED.get();
    if !outer {
        CONTAINED.set(true);
    }
    let result = catch_unwind(AssertUnwindSafe(body));
    if !outer {
        CONTAINED.set(false);
    }
    result.map_err(|payload| {
        // Not there any more in the destructors of a thread's own variables.
        let panic = Panic { message: message(&*payload), place: PLACE.try_with(RefCell::take).unwrap_or_default() };
        discard(payload);
        panic
    })
}

/// Drops the payload of a panic, whose drop is a user's code too. A payload of a panic in that drop is leaked: its own drop
/// could panic in turn, without end.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

/// Runs user code whose panic changes nothing and has been reported by the panic hook, such as the drop of a value.
#[inline]
pub(crate) fn ignore(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        discard(payload);
    }
}

/// Drops a value that holds something of a user's, where a panic in that must change nothing. `what` names it in the log.
#[inline]
pub(crate) fn dispose<T>(value: T, what: &'static str) {
    if std::mem::needs_drop::<T>()
        && let Err(panic) = contain(|| drop(value))
    {
        tracing::error!(%panic, what, "the drop of a value panicked");
    }
}

/// What a value of a user's says of itself; if saying it panics, that.
pub(crate) fn text(value: &(impl fmt::Display + ?Sized)) -> String {
    contain(|| value.to_string()).unwrap_or_else(|panic| format!("(its `Display` panicked: {})", panic.message))
}

/// Shows what a user's value says of itself: for a log event, which formats it only if anyone listens.
pub(crate) struct Shown<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: fmt::Display + ?Sized> fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.0))
    }
}

/// The text of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_string(),
        None => payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a value that is no text".to_string()),
    }
}
