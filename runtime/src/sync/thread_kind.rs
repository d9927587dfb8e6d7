//! What a thread is for, and so whether users' code may run on it.
//!
//! Users' code (a waker, a destructor, a hook, a closure, the subscriber of the log) may block for as long as it likes.
//! So it never runs on a thread that others depend on: it runs on workers, whose permits pass to other threads
//! meanwhile; on the threads of pinned processes; on users' own threads; and on threads that do nothing else. The
//! guards around users' code (`util/panics`) check that in debug builds. What comes to a thread that must not run it is
//! handed to a notifier: `util/notifiers`.

use std::cell::Cell;

/// What a thread is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ThreadKind {
    /// Any that the runtime has not started: users' own, and those of other libraries.
    Outside,
    /// Runs processes: a worker or a spare of a runtime.
    Worker,
    /// Runs one pinned process.
    Pinned,
    /// Runs users' code and nothing else.
    Notifier,
    /// Waits for the end of a runtime, in place of the thread that asked for it.
    Shutdown,
    /// Drives a Tokio runtime, whose tasks are users', while no worker does.
    Reactor,
    /// Looks for long steps.
    Watchdog,
    /// Waits for the timers of code without a runtime.
    Timekeeper,
    /// Switches samples of a flight recorder on and off.
    Sampler,
    /// Keeps a node in its cluster, or delivers what arrives there.
    Cluster,
}

thread_local! {
    static KIND: Cell<ThreadKind> = const { Cell::new(ThreadKind::Outside) };
    /// Whether others depend on it though it runs users' code: see [`ThreadKind::in_place_of_notifier`].
    static DEPENDED_ON: Cell<bool> = const { Cell::new(false) };
}

impl ThreadKind {
    /// All kinds.
    pub const ALL: &[Self] = &[
        Self::Outside,
        Self::Worker,
        Self::Pinned,
        Self::Notifier,
        Self::Shutdown,
        Self::Reactor,
        Self::Watchdog,
        Self::Timekeeper,
        Self::Sampler,
        Self::Cluster,
    ];

    /// Returns what the calling thread is for.
    #[inline]
    pub fn current() -> Self {
        // Inaccessible in the destructors of a thread's own thread-locals: a thread that ends has no other duties.
        KIND.try_with(Cell::get).unwrap_or(Self::Outside)
    }

    /// Returns whether threads of this kind may run users' code.
    #[inline]
    pub fn runs_users_code(self) -> bool {
        match self {
            Self::Outside | Self::Worker | Self::Pinned | Self::Notifier | Self::Shutdown | Self::Reactor => true,
            Self::Watchdog | Self::Timekeeper | Self::Sampler | Self::Cluster => false,
        }
    }

    /// Runs users' code on the calling thread, whatever it is for: the system refuses a notifier. What that calls must
    /// not wait for this thread: see [`is_depended_on`](Self::is_depended_on).
    pub(crate) fn in_place_of_notifier(body: impl FnOnce()) {
        let before = Self::Notifier.enter();
        let was_needed = DEPENDED_ON.replace(Self::is_depended_on() || !before.runs_users_code());
        body();
        DEPENDED_ON.set(was_needed);
        before.enter();
    }

    /// Returns whether others depend on the calling thread, also while it runs users' code in place of a notifier.
    pub(crate) fn is_depended_on() -> bool {
        !Self::current().runs_users_code() || DEPENDED_ON.try_with(Cell::get).unwrap_or(false)
    }

    /// Makes the calling thread one of this kind. Returns what it was.
    pub fn enter(self) -> Self {
        KIND.replace(self)
    }
}
