//! The simulation's replacement for the run loop: a thread of a host without threads.

use super::launch::OF_HOST;
use crate::engine::context::keep::NO_CACHE;
use crate::engine::context::thread::ThreadContext;
use crate::engine::host::Scheduler;
use crate::slots::Token;
use std::ops::Range;

/// A simulated thread of a host without threads. A simulation runs one such thread at a time.
pub(crate) struct SimulatedThread {
    pub(crate) host: &'static Scheduler,
    workers: Vec<ThreadContext>,
}

/// Prepares the calling thread to act as [`SimulatedThread`]s while `body` runs.
pub(crate) fn as_simulated_thread(body: impl FnOnce()) {
    crate::call::caller::collect_orphans(true);
    crate::util::panics::contain_thread();
    body();
    crate::call::dead_letter::set_sink(None);
    OF_HOST.set(None);
}

impl SimulatedThread {
    /// Takes the records `threads` of the host. The thread acts as one worker for each record, and each worker has a
    /// permit. If there are several, they are registered with the host, and steal from each other.
    pub(crate) fn begin(host: &'static Scheduler, threads: Range<usize>) -> Self {
        let steal = threads.len() > 1;
        let context = |(permit, index): (usize, usize)| {
            if steal {
                // Only the first thread has real permits. The others act as workers whose steps have not returned.
                let registered = host.idle.begin((threads.start == 0).then_some(permit));
                assert_eq!(registered, index, "records are taken in order");
                if threads.start > 0 {
                    host.idle.started(index);
                }
            }
            let thread = host.threads.make(index).and_then(|thread| Some((thread, thread.occupy(host)?)));
            let Some((thread, deque)) = thread else {
                unreachable!("each worker of a simulation has a record of its own")
            };
            let context =
                ThreadContext::new(host, host.user().unwrap_or_default(), (index, thread), Some(permit), deque);
            context.cooldown.set(NO_CACHE);
            context
        };
        Self { host, workers: threads.clone().enumerate().map(context).collect() }
    }

    /// Returns the workers that this thread acts as.
    pub(crate) fn workers(&self) -> &[ThreadContext] {
        &self.workers
    }

    /// Runs `body` as a thread of this host.
    pub(crate) fn run<R>(&self, body: impl FnOnce(&[ThreadContext]) -> R) -> R {
        OF_HOST.set(Some(self.host));
        crate::call::dead_letter::set_sink(Some(self.host));
        body(&self.workers)
    }
}

impl Drop for SimulatedThread {
    fn drop(&mut self) {
        let steal = self.workers.len() > 1;
        for context in self.workers.drain(..) {
            context.thread.vacate(context.deque);
            if steal {
                self.host.idle.dismiss(context.index);
            }
        }
    }
}

impl ThreadContext {
    /// Returns the process that this worker would run next in production: from its own queues, or stolen.
    pub(crate) fn find_next(&self) -> Option<Token> {
        self.take_near().or_else(|| self.look_everywhere())
    }
}
