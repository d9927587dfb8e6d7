//! Guards around user code, and the text and place of a caught panic.
//!
//! Only the panic hook learns the place of a panic. The first runtime of a program installs a hook in front of the
//! existing one. While a process runs, the new hook stores the place for the runtime's report (one `tracing` event with
//! PID, type, entry, text and place). It then calls the previous hook, on which error reporters and backtraces depend,
//! unless a simulation reports the panic itself.

use crate::exit::Panic;
use crate::sync::{Once, ThreadKind};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

macro_rules! sites {
    ($($(#[doc = $doc:literal])* $name:ident => $text:literal,)*) => {
        /// A place where the runtime calls user code, under guard. The hostile-user tests have a case for each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Site {
            $($(#[doc = $doc])* $name,)*
        }

        impl Site {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name of the code that panicked.
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

sites! {
    // Code of processes.
    Make => "the closure that makes a pinned process",
    Start => "the start of a process",
    /// Everything in a time slice that has no guard of its own, above all `step`.
    Slice => "a step",
    TrapsExits => "`traps_exits`",
    HandlesCancel => "`handles_cancel`",
    AskedToUpgrade => "`asked_to_upgrade`",
    StateDebug => "the `Debug` of an inspected state",
    MessageDebug => "the `Debug` of an inspected message",
    UpgradeMake => "the closure that makes a successor",
    Close => "`close`",
    StateDrop => "the drop of a process",
    StatusDrop => "the drop of the output of a step",
    EventDrop => "the drop of the input of a step",
    InheritedDrop => "the drop of an inherited value",
    // Values in flight.
    ValueDrop => "the drop of a value",
    ReasonDrop => "the drop of an exit reason",
    Display => "the `Display` of a value",
    // The runtime's configuration.
    Handler => "a command handler",
    StartHook => "a start hook",
    UndoHook => "the undoing of a start hook",
    CompleteHook => "a complete hook",
    DeadLetterHook => "the dead-letter hook, or the drop of a dead letter",
    StallHook => "a stall hook",
    DumpHook => "the hook of a flight recorder",
    Log => "the subscriber of a log event",
    HookDrop => "the drop of a hook or a handler",
    TypeStart => "the factory of a registered type",
    TypeDrop => "the drop of a registered factory or upgrade",
    // Waiters.
    Waker => "the waker of a waiter for an answer",
    MailboxWaker => "the waker of a mailbox",
    StreamWaker => "the waker of a stream of answers",
    BlockedWaker => "the waker of a step that waits to block",
    TimerAction => "the action of a timer",
    TimerDrop => "the drop of a timer",
    OutsideTimer => "the action of a timer outside of a runtime",
    // Trees and pools.
    ChildStart => "the start of a child",
    ChildDrop => "the drop of a child's specification",
    MemberStart => "the start of a pool's member",
    PoolKey => "the key of a pool's message",
    PoolCopy => "the copying of a message for a pool's members",
    // Transports.
    Transport => "a transport, given a link message or a control",
    RemoteAnswer => "what a transport does with an answer",
    /// Code that has guards of its own. A panic that reaches this guard is a bug in the runtime.
    Backstop => "the runtime",
}

impl Site {
    /// In debug builds, checks that the calling thread may run user code, and records the thread's kind. This finds new
    /// places where user code would block a thread that others depend on.
    #[inline(always)]
    pub(crate) fn check_thread(self) {
        #[cfg(debug_assertions)]
        if self as usize != Self::Backstop as usize {
            let kind = ThreadKind::current();
            RAN_ON[self as usize].fetch_or(1 << kind as u16, std::sync::atomic::Ordering::Relaxed);
            // A cluster is a transport, so on its threads the code at these sites is the cluster's own.
            let is_own = kind == ThreadKind::Cluster && matches!(self, Self::Transport | Self::RemoteAnswer);
            assert!(
                is_own || kind.runs_users_code(),
                "users' code ({}) on a thread that others depend on: {kind:?}",
                self.text()
            );
        }
    }

    #[cold]
    fn caught(self) {
        CAUGHT[self as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Number of panics that each site has caught. (Not an atomic of the model checker, since models have no sites.)
static CAUGHT: [std::sync::atomic::AtomicU64; Site::ALL.len()] =
    [const { std::sync::atomic::AtomicU64::new(0) }; Site::ALL.len()];

/// Kinds of threads on which each site has run, one bit for each kind.
#[cfg(debug_assertions)]
static RAN_ON: [std::sync::atomic::AtomicU16; Site::ALL.len()] =
    [const { std::sync::atomic::AtomicU16::new(0) }; Site::ALL.len()];

/// Returns the kinds of threads on which user code has run at each site (none in a release build). For tests.
#[doc(hidden)]
pub fn ran_on() -> Vec<(String, Vec<ThreadKind>)> {
    #[cfg(debug_assertions)]
    let kinds = |site: Site| {
        let bits = RAN_ON[site as usize].load(std::sync::atomic::Ordering::Relaxed);
        ThreadKind::ALL.iter().copied().filter(|kind| bits & 1 << *kind as u16 != 0).collect()
    };
    #[cfg(not(debug_assertions))]
    let kinds = |_| Vec::new();
    Site::ALL.iter().map(|&site| (format!("{site:?}"), kinds(site))).collect()
}

/// Returns the sites at which user code runs under guard, and the number of panics that each has caught. For tests.
#[doc(hidden)]
pub fn caught() -> Vec<(String, u64)> {
    let count = |site: Site| CAUGHT[site as usize].load(std::sync::atomic::Ordering::Relaxed);
    Site::ALL.iter().map(|&site| (format!("{site:?}"), count(site))).collect()
}

thread_local! {
    /// Whether a guard contains the panics of the code that this thread runs.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
    /// Whether this thread's panics are kept from the program's panic hook, because the simulation shows them.
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether this thread's panics are kept from the program's panic hook. Returns the previous setting.
#[cfg(feature = "test")]
pub(crate) fn silence(silent: bool) -> bool {
    SILENT.replace(silent)
}

/// Runs the body of a simulated test. Returns its panic, with the type of the panic's payload.
#[cfg(feature = "test")]
pub(crate) fn catch<R>(body: impl FnOnce() -> R) -> Result<R, (std::any::TypeId, Panic)> {
    let outer = CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    CONTAINED.set(outer);
    result.map_err(|payload| {
        let panic = Panic { message: message(&*payload), place: PLACE.take() };
        let kind = (*payload).type_id();
        discard(payload);
        (kind, panic)
    })
}

/// Installs the runtime's hook in front of the program's, once.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    // The thread may be panicking: a paused runtime is started when it is dropped, and a panic may drop it. The
    // standard library panics if the hook is replaced during a panic, which would abort the program. Without the hook,
    // panics have no place; the next runtime installs it.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let contained = CONTAINED.try_with(Cell::get).unwrap_or(false);
            if contained {
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                let _ = PLACE.try_with(|slot| slot.replace(place));
            }
            if SILENT.try_with(Cell::get).unwrap_or(false) {
                return;
            }
            before(info);
        }));
    });
}

/// Marks everything that this thread runs from now on as contained.
pub(crate) fn contain_thread() {
    CONTAINED.set(true);
}

/// Runs user code and returns its panic as an error. `site` names the code.
#[inline]
pub(crate) fn contain<R>(site: Site, body: impl FnOnce() -> R) -> Result<R, Panic> {
    contain_at(&Cell::new(site), body)
}

/// Runs several pieces of user code, and returns the first panic. `body` sets `site` before each piece.
#[inline]
pub(crate) fn contain_at<R>(site: &Cell<Site>, body: impl FnOnce() -> R) -> Result<R, Panic> {
    let outer = begin(site);
    let result = catch_unwind(AssertUnwindSafe(body));
    if !outer {
        CONTAINED.set(false);
    }
    match result {
        Ok(value) => Ok(value),
        Err(payload) => Err(panic_of(site, payload)),
    }
}

/// The part of [`contain_at`] that is the same for all code. Returns whether this thread's panics were contained
/// before.
#[inline]
fn begin(site: &Cell<Site>) -> bool {
    site.get().check_thread();
    let outer = CONTAINED.get();
    if !outer {
        CONTAINED.set(true);
    }
    outer
}

#[cold]
fn panic_of(site: &Cell<Site>, payload: Box<dyn Any + Send>) -> Panic {
    site.get().caught();
    // `PLACE` may be inaccessible in the destructors of a thread's own thread-locals.
    let panic = Panic { message: message(&*payload), place: PLACE.try_with(RefCell::take).unwrap_or_default() };
    discard(payload);
    panic
}

/// Drops the payload of a panic. That drop runs user code too. If it panics in turn, the second payload is leaked,
/// since its own drop could panic again, and so on without end.
pub fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

/// Drops users' values one by one, so that a panic in one drop neither skips another drop nor, as a second panic while
/// a thread unwinds, aborts the program. The first panic is passed on at the end.
pub(crate) struct Drops {
    site: Site,
    first: Option<(Box<dyn Any + Send>, String)>,
}

impl Drops {
    #[inline(always)]
    pub(crate) fn at(site: Site) -> Self {
        Self { site, first: None }
    }

    /// Runs code that drops one value.
    #[inline(always)]
    pub(crate) fn run(&mut self, body: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
            self.keep(payload);
        }
    }

    pub(crate) fn drop_each<T>(&mut self, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| self.run(|| drop(value)));
    }

    #[cold]
    fn keep(&mut self, payload: Box<dyn Any + Send>) {
        if self.first.is_none() {
            self.first = Some((payload, PLACE.try_with(RefCell::take).unwrap_or_default()));
        } else {
            self.site.caught();
            discard(payload);
        }
    }

    /// Resumes the first panic, if there was one.
    #[inline(always)]
    pub(crate) fn end(self) {
        if let Some((payload, place)) = self.first {
            let _ = PLACE.try_with(|slot| slot.replace(place));
            resume_unwind(payload);
        }
    }
}

/// Runs user code, such as the drop of a value. If it panics, the panic hook reports that, and there is no other
/// consequence.
#[inline]
pub(crate) fn ignore(site: Site, body: impl FnOnce()) {
    site.check_thread();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        discard_from(site, payload);
    }
}

#[cold]
fn discard_from(site: Site, payload: Box<dyn Any + Send>) {
    site.caught();
    discard(payload);
}

/// Formats a user's value. If that panics, the text reports the panic.
pub(crate) fn text(value: &(impl fmt::Display + ?Sized)) -> String {
    contain(Site::Display, || value.to_string())
        .unwrap_or_else(|panic| format!("(its `Display` panicked: {})", panic.message))
}

/// Displays a user's value in a log event. The event formats the value only if there is a subscriber.
pub(crate) struct Shown<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: fmt::Display + ?Sized> fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.0))
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_string(),
        None => payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a value that is not text".to_string()),
    }
}
