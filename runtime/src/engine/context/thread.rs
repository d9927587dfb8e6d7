//! A thread's own state, and how a thread finds it from the code of its processes.
//!
//! The context belongs to one system thread for that thread's life. The permit of the thread changes (`handoff`): a
//! thread may lose it in the middle of a step without noticing, so nothing here may assume that no other thread has the
//! permit.

use crate::engine::host::{Scheduler, UserCode};
use crate::engine::workers::Permit;
use crate::engine::workers::pinned::PinnedThread;
use crate::engine::workers::worker::Worker;
use crate::env::chance::Random;
use crate::env::clock::Moment;
use crate::env::program::Acting;
use crate::pid::{Pid, Resident};
use crate::slots::Token;
use crate::sync::{Arc, Deque};
use crate::thread_cache;
use crate::util::defer::defer;
use std::cell::{Cell, RefCell};
use std::ptr;

pub(crate) struct ThreadContext {
    pub(crate) host: &'static Scheduler,
    pub(crate) user: Arc<UserCode>,
    pub(crate) index: usize,
    /// The part that other threads may read.
    pub(crate) thread: &'static Worker,
    /// Index of the permit that the thread holds, or held most recently.
    pub(crate) permit_index: Cell<usize>,
    pub(crate) permit: Cell<&'static Permit>,
    /// The thread that this one got its permit from, if that thread may have left work behind.
    pub(crate) behind: Cell<Option<usize>>,
    /// Whether the thread began without a permit, and has yet to rest for the first time.
    pub(crate) is_new: Cell<bool>,
    /// The record of this thread if it is that of a pinned process. Such a thread has no permit and no index.
    pub(crate) pinned_thread: Option<&'static PinnedThread>,
    /// Whether other threads do the work of this one: see `sched/driven`.
    pub(crate) is_driven: bool,
    /// Whether the thread that drives it has other tasks of the host's reactor.
    pub(crate) has_tasks_of_reactor: Cell<bool>,
    pub(crate) deque: Deque<Token>,
    /// Number of steps that the thread had run when a shared queue last came first.
    pub(crate) fair: Cell<u64>,
    pub(crate) visits: Cell<u32>,
    /// Number of time slices in a row that were to time a message, but had none.
    pub(crate) untimed: Cell<u8>,
    /// Number of visits to shared queues until the thread keeps processes again; [`NO_CACHE`](super::keep::NO_CACHE) if
    /// it never does.
    pub(crate) cooldown: Cell<u8>,
    /// Number of visits to shared queues until the thread uses the table of its cache.
    pub(crate) until_table: Cell<u8>,
    /// Number of steps that the thread had run when it last looked anywhere but at its run-next slot.
    pub(crate) streak_since: Cell<u64>,
    /// Step count at which processes stop [following](Self::follow) one another; zero while the thread keeps no
    /// processes.
    pub(crate) follow_until: Cell<u64>,
    pub(crate) random: RefCell<Random>,
    /// How the last slice ended, if it is recorded and its end has not been written yet; zero otherwise.
    pub(crate) slice_end: Cell<u64>,
    /// When this thread last saw a process with a deficit.
    pub(crate) deficit_seen: Cell<Moment>,
    /// When a process last used up its time slice on this thread.
    pub(crate) slice_used: Cell<Moment>,
}

thread_local! {
    static CURRENT: Cell<*const ThreadContext> = const { Cell::new(ptr::null()) };
}

/// Calls `body` with the calling thread's context, if it belongs to a host.
#[inline]
pub(crate) fn with_current<R>(body: impl FnOnce(Option<&ThreadContext>) -> R) -> R {
    let current = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: the pointer is not null only inside `ThreadContext::enter` and outside of
    // `ThreadContext::without_context`. While it is not null, the context is borrowed, and this thread is its only
    // user.
    body(unsafe { current.as_ref() })
}

/// Returns the process whose step the calling thread runs.
pub(crate) fn current_pid() -> Option<Pid> {
    with_current(|context| context?.pid())
}

impl ThreadContext {
    /// Creates the context of the thread with this index and record. The thread begins with `permit`, or without one.
    pub(crate) fn new(
        host: &'static Scheduler,
        user: Arc<UserCode>,
        (index, thread): (usize, &'static Worker),
        permit: Option<usize>,
        deque: Deque<Token>,
    ) -> Self {
        thread.local.enable_table(false);
        Self {
            host,
            user,
            index,
            thread,
            permit_index: Cell::new(permit.unwrap_or(0)),
            permit: Cell::new(&host.permits[permit.unwrap_or(0)]),
            behind: Cell::new(None),
            is_new: Cell::new(permit.is_none()),
            pinned_thread: None,
            is_driven: false,
            has_tasks_of_reactor: Cell::new(false),
            deque,
            fair: Cell::new(0),
            visits: Cell::new(0),
            untimed: Cell::new(0),
            deficit_seen: Cell::new(Moment::about_now()),
            slice_used: Cell::new(Moment::about_now()),
            cooldown: Cell::new(0),
            until_table: Cell::new(1),
            streak_since: Cell::new(0),
            follow_until: Cell::new(0),
            slice_end: Cell::new(0),
            random: RefCell::new(Random::new(host.seed(), index as u64)),
        }
    }

    pub(crate) fn enter<R>(&self, body: impl FnOnce(&Self) -> R) -> R {
        let _acting = Acting::begin(self.host.node());
        let context = CURRENT.replace(ptr::from_ref(self));
        let local = thread_cache::set_current(Some(&self.thread.local));
        let _return = defer(|| {
            CURRENT.set(context);
            thread_cache::set_current(local);
        });
        body(self)
    }

    /// Calls `body` without the context: its actions count as those of a thread outside the runtime.
    pub(crate) fn without_context<R>(&self, body: impl FnOnce() -> R) -> R {
        let context = CURRENT.replace(ptr::null());
        let local = thread_cache::set_current(None);
        let _return = defer(|| {
            CURRENT.set(context);
            thread_cache::set_current(local);
        });
        body()
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        self.thread.running()?.resident()
    }
}
