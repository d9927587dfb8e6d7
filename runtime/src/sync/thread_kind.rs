//! The kind of a thread, which determines whether user code may run on it.
//!
//! User code (a waker, a destructor, a hook, a closure, the subscriber of the log) may block for as long as it likes.
//! So it never runs on a thread that others depend on: it runs on workers, whose permits pass to other threads in the
//! meantime; on the threads of pinned processes; on the user's own threads; and on threads that do nothing else. The
//! guards around user code (`util/panics`) check that in debug builds. A thread that must not run user code hands it to
//! a notifier: `util/notifiers`.

use std::cell::Cell;

/// The purpose of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ThreadKind {
    /// Any thread that the runtime has not started, such as the user's own threads and those of other libraries.
    Outside,
    /// Runs processes: a worker or a spare of a runtime.
    Worker,
    /// Runs one pinned process.
    Pinned,
    /// Runs user code and nothing else.
    Notifier,
    /// Waits for the end of a runtime, in place of the thread that asked for it.
    Shutdown,
    /// Drives a Tokio runtime while no worker does. The tasks of that runtime are user code.
    Reactor,
    /// Looks for steps that take too long.
    Watchdog,
    /// Waits for the timers of code without a runtime.
    Timekeeper,
    /// Switches samples of a flight recorder on and off.
    Sampler,
    /// Maintains a node's membership in its cluster, or delivers messages that arrive there.
    Cluster,
}

thread_local! {
    static KIND: Cell<ThreadKind> = const { Cell::new(ThreadKind::Outside) };
    /// Whether others depend on the thread although it runs user code: see [`ThreadKind::in_place_of_notifier`].
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

    /// Returns the kind of the calling thread.
    #[inline]
    pub fn current() -> Self {
        // `KIND` may be inaccessible in the destructors of a thread's own thread-locals: a thread that is ending has no
        // other duties.
        KIND.try_with(Cell::get).unwrap_or(Self::Outside)
    }

    /// Returns whether threads of this kind may run user code.
    #[inline]
    pub fn runs_users_code(self) -> bool {
        match self {
            Self::Outside | Self::Worker | Self::Pinned | Self::Notifier | Self::Shutdown | Self::Reactor => true,
            Self::Watchdog | Self::Timekeeper | Self::Sampler | Self::Cluster => false,
        }
    }

    /// Runs user code on the calling thread, whatever its kind, because the system refuses to start a notifier. The
    /// code must not wait for this thread: see [`is_depended_on`](Self::is_depended_on).
    pub(crate) fn in_place_of_notifier(body: impl FnOnce()) {
        let before = Self::Notifier.enter();
        let was_needed = DEPENDED_ON.replace(Self::is_depended_on() || !before.runs_users_code());
        body();
        DEPENDED_ON.set(was_needed);
        before.enter();
    }

    /// Returns whether others depend on the calling thread, even while it runs user code in place of a notifier.
    pub(crate) fn is_depended_on() -> bool {
        !Self::current().runs_users_code() || DEPENDED_ON.try_with(Cell::get).unwrap_or(false)
    }

    /// Makes the calling thread one of this kind. Returns its previous kind.
    pub fn enter(self) -> Self {
        KIND.replace(self)
    }
}
