//! What a panic said, and where.
//!
//! A panic's place is told only to the program's panic hook. The first runtime of a program puts one before whatever
//! hook there is: while a process runs, it notes the place for the runtime's report (one `tracing` event with PID,
//! type, entry, text and place). In every case it calls the hook that it found: error reporters and backtraces hang on
//! it.

use crate::exit::Panic;
use crate::sync::Once;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Declares [`Site`], with what each is called in logs.
macro_rules! sites {
    ($($(#[doc = $doc:literal])* $name:ident => $text:literal,)*) => {
        /// A place where the runtime calls code of users, under guard. The hostile-user tests ask for the list, and
        /// have a case for each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Site {
            $($(#[doc = $doc])* $name,)*
        }

        impl Site {
            /// All of them.
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// What a panic there is a panic of.
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

sites! {
    // A process.
    Make => "what makes a pinned process",
    Start => "the start of a process",
    /// Whatever a time slice runs that has no guard of its own: `step` above all.
    Turn => "a step",
    TrapsExits => "`traps_exits`",
    HandlesCancel => "`handles_cancel`",
    AskedToUpgrade => "`asked_to_upgrade`",
    UpgradeMake => "what makes a process's successor",
    Close => "`close`",
    StateDrop => "the drop of a process",
    StatusDrop => "the drop of what a step wrote",
    EventDrop => "the drop of what a step was to take",
    InheritedDrop => "the drop of an inherited value",
    StepLog => "the log of a step",
    // Values on their way.
    ValueDrop => "the drop of a value",
    ReasonDrop => "the drop of an exit reason",
    Display => "the `Display` of a value",
    // What the runtime was built with.
    Handler => "a command handler",
    StartHook => "a start hook",
    UndoHook => "the undoing of a start hook",
    CompleteHook => "a complete hook",
    DeadLetterHook => "the dead-letter hook, or the drop of a dead letter",
    StallHook => "a stall hook",
    StallLog => "the log of a stall",
    ShutdownLog => "the log of a shutdown",
    HookDrop => "the drop of a hook or a handler",
    TypeStart => "the factory of a registered type",
    TypeDrop => "the drop of a registered factory or upgrade",
    // Those that wait.
    Waker => "the waker of one that waits for an answer",
    MailboxWaker => "the waker of a mailbox",
    StreamWaker => "the waker of a stream of replies",
    BlockedWaker => "the waker of one that waits for a thread to block on",
    TimerAction => "what a timer does",
    TimerDrop => "the drop of a timer",
    OutsideTimer => "what a timer outside of a runtime does",
    // Trees and pools.
    ChildStart => "the start of a child",
    ChildDrop => "the drop of a child's specification",
    MemberStart => "the start of a pool's member",
    PoolKey => "the key of a pool's message",
    PoolCopy => "the copying of a message for a pool's members",
    /// Around what has guards of its own: a panic that comes so far is a fault of the runtime's.
    Backstop => "the runtime",
}

impl Site {
    /// A panic was caught there.
    #[cold]
    fn caught(self) {
        CAUGHT[self as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// How many panics each site has caught. (Not an atomic of a model, which knows no sites.)
static CAUGHT: [std::sync::atomic::AtomicU64; Site::ALL.len()] =
    [const { std::sync::atomic::AtomicU64::new(0) }; Site::ALL.len()];

/// Returns the sites at which code of users runs under guard, and how many panics each has caught in this program. For
/// tests.
#[doc(hidden)]
pub fn caught() -> Vec<(String, u64)> {
    let count = |site: Site| CAUGHT[site as usize].load(std::sync::atomic::Ordering::Relaxed);
    Site::ALL.iter().map(|&site| (format!("{site:?}"), count(site))).collect()
}

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
            before(info);
        }));
    });
}

/// All that this thread runs is contained, from here on.
pub(crate) fn contain_thread() {
    CONTAINED.set(true);
}

/// Runs user code; a panic in it is an error. `site` says which code.
#[inline]
pub(crate) fn contain<R>(site: Site, body: impl FnOnce() -> R) -> Result<R, Panic> {
    let outer = CONTAINED.get();
    if !outer {
        CONTAINED.set(true);
    }
    let result = catch_unwind(AssertUnwindSafe(body));
    if !outer {
        CONTAINED.set(false);
    }
    result.map_err(|payload| {
        site.caught();
        // Not there any more in the destructors of a thread's own variables.
        let panic = Panic { message: message(&*payload), place: PLACE.try_with(RefCell::take).unwrap_or_default() };
        discard(payload);
        panic
    })
}

/// Drops the payload of a panic, whose drop is a user's code too. A payload of a panic in that drop is leaked: its own
/// drop could panic in turn, without end.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

/// Runs user code whose panic changes nothing and has been reported by the panic hook, such as the drop of a value.
#[inline]
pub(crate) fn ignore(site: Site, body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        site.caught();
        discard(payload);
    }
}

/// Drops a value that holds something of a user's, where a panic in that must change nothing.
#[inline]
pub(crate) fn dispose<T>(site: Site, value: T) {
    if std::mem::needs_drop::<T>()
        && let Err(panic) = contain(site, || drop(value))
    {
        // The subscriber is a user's too, and this may run while another panic unwinds.
        ignore(site, || crate::util::log::error!(%panic, what = site.text(), "the drop of a value panicked"));
    }
}

/// What a value of a user's says of itself; if saying it panics, that.
pub(crate) fn text(value: &(impl fmt::Display + ?Sized)) -> String {
    contain(Site::Display, || value.to_string())
        .unwrap_or_else(|panic| format!("(its `Display` panicked: {})", panic.message))
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
