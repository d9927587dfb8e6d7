//! Starting and ending the threads of a host.

use crate::call::caller::collect_orphans;
use crate::call::dead_letter::set_sink;
use crate::engine::context::thread::ThreadContext;
use crate::engine::host::Scheduler;
use crate::engine::permits::holders::Need;
use crate::engine::workers::threads::StartedThread;
use crate::engine::workers::worker::{CALLED, RECORDED};
use crate::env::clock::use_clock;
use crate::mailbox::node_pool;
use crate::sync::{ThreadKind, lock, spawn_thread_with};
use crate::util::block_on::be_seen_as;
use crate::util::defer::defer;
use crate::util::notifiers;
use std::cell::Cell;
use std::{io, ptr};

thread_local! {
    /// The host that this thread belongs to, regardless of what the thread is doing.
    pub(super) static OF_HOST: Cell<Option<&'static Scheduler>> = const { Cell::new(None) };
}

/// Returns the host that the calling thread belongs to, even while its process blocks.
pub(crate) fn host_of_thread() -> Option<&'static Scheduler> {
    // The thread-local may be inaccessible in the destructors of others.
    OF_HOST.try_with(Cell::get).ok().flatten()
}

/// Returns whether the calling thread belongs to a host, even while its process blocks.
pub(crate) fn is_of_a_host() -> bool {
    host_of_thread().is_some()
}

impl Scheduler {
    /// Starts a thread for each permit that has had none. Processes that have already been spawned begin to run.
    pub(crate) fn start(&'static self) -> io::Result<()> {
        crate::util::panics::install_hook();
        let mut launched = lock(&self.launched);
        while *launched < self.permits.len() {
            let permit = *launched;
            if !self.start_task(permit) {
                let thread = self.idle.begin(Some(permit));
                // If a thread cannot be started, the host keeps those started so far, and the caller shuts it down.
                self.start_thread(thread, Some(permit))?;
            }
            *launched += 1;
        }
        drop(launched);
        self.pinned_threads.resume();
        self.start_watchdog()
    }

    /// Returns whether any permit has yet to get its first thread.
    pub(crate) fn is_paused(&self) -> bool {
        *lock(&self.launched) < self.permits.len()
    }

    /// Starts a thread without a permit if a step with this need requires and may have one. Returns whether one was
    /// started.
    pub(crate) fn grow(&'static self, need: Need) -> io::Result<bool> {
        // Threads are started one at a time, so that those being started never exceed the limit.
        let _growing = lock(&self.growing);
        let Some(thread) = self.idle.reserve(need) else { return Ok(false) };
        if self.idle.with_permits(|permits| permits.counts()).threads
            > self.permits.len() + self.config.blocking_threads
        {
            self.threads_beyond_limit.add_shared(1);
        }
        self.start_thread(thread, None)?;
        self.idle.started(thread);
        Ok(true)
    }

    /// Starts one more thread, without a permit, on a stopped host. The thread runs the remaining work and ends.
    pub(crate) fn start_last_thread(&'static self) {
        let thread = self.idle.begin(None);
        match self.start_thread(thread, None) {
            Ok(()) => self.idle.started(thread),
            Err(error) => {
                let host = &self.config.name;
                notifiers::run(move || {
                    crate::util::log::error!(%error, %host, "no thread could be started to run what is left: it runs \
                        when a stuck step returns");
                });
            }
        }
    }

    fn start_thread(&'static self, thread: usize, permit: Option<usize>) -> io::Result<()> {
        let name = format!("{}-{thread}", self.config.name);
        let made = self.threads.make(thread).ok_or_else(|| io::Error::other("there are no more thread records"));
        let start = |record| {
            let run = move || self.run_thread(thread, permit);
            let thread = spawn_thread_with(ThreadKind::Worker, name, self.config.stack, run)?;
            Ok(StartedThread::of_thread(thread, Some(record)))
        };
        match made.and_then(start) {
            Ok(started) => {
                self.keep_thread(started);
                Ok(())
            }
            Err(error) => {
                self.idle.dismiss(thread);
                Err(error)
            }
        }
    }

    fn run_thread(&'static self, index: usize, permit: Option<usize>) {
        let Some(thread) = self.threads.get(index) else { unreachable!("made before its thread was started") };
        if let Some(deque) = thread.occupy(self) {
            // If the host has been shut down, its user code is gone, and the remaining work is ended without it.
            let user = self.user().unwrap_or_default();
            let context = ThreadContext::new(self, user, (index, thread), permit, deque);
            if permit.is_none() {
                thread.call(CALLED);
            }
            self.inhabit(&context, ThreadContext::run);
            thread.vacate(context.deque);
        }
        self.idle.dismiss(index);
        self.wake_blocked_steps();
    }

    /// Returns whether the calling thread belongs to this host, regardless of what it is doing. A shutdown waits for
    /// such threads to end.
    pub(crate) fn has_this_thread(&self) -> bool {
        host_of_thread().is_some_and(|host| ptr::eq(host, self))
    }

    /// Sets up the calling thread as a thread of the host, and runs `body` as its only work.
    pub(crate) fn inhabit(&'static self, context: &ThreadContext, body: impl FnOnce(&ThreadContext)) {
        crate::util::panics::contain_thread();
        if self.recorder.is_on() {
            context.thread.call(RECORDED);
        }
        context.user.within(|| self.lend_thread(context, body));
    }

    /// Makes the calling thread one of the host's while `body` runs.
    pub(super) fn lend_thread(&'static self, context: &ThreadContext, body: impl FnOnce(&ThreadContext)) {
        let (host, kind) = (OF_HOST.replace(Some(self)), ThreadKind::current());
        let clock = use_clock(self.clock_override());
        let collects = collect_orphans(true);
        let sink = set_sink(Some(self));
        let congested = node_pool::set_known_congested(0);
        let seen = context.thread.be_seen_here();
        if context.is_driven {
            ThreadKind::Worker.enter();
        }
        let _back = defer(|| {
            OF_HOST.set(host);
            kind.enter();
            use_clock(clock);
            collect_orphans(collects);
            set_sink(sink);
            node_pool::set_known_congested(congested);
            be_seen_as(seen);
        });
        context.enter(body);
    }
}
