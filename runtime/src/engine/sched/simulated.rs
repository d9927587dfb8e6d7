//! What a simulation does in place of the run loop: a thread of a host without threads, and a time slice that it has
//! chosen.

use super::launch::OF_HOST;
use super::step::{SliceBudget, StepScratch};
use crate::engine::context::keep::NO_CACHE;
use crate::engine::context::thread::ThreadContext;
use crate::engine::host::Scheduler;
use crate::exit::Panic;
use crate::slots::Token;
use crate::slots::slot::deficit::Deferral;
use crate::util::panics::{Site, contain};
use std::ops::Range;

/// A thread of a host without threads, for a simulation, in which one such thread runs at a time.
pub(crate) struct SimulatedThread {
    pub(crate) host: &'static Scheduler,
    workers: Vec<ThreadContext>,
}

/// Makes the calling thread fit for [`SimulatedThread`]s while `body` runs.
pub(crate) fn as_simulated_thread(body: impl FnOnce()) {
    crate::call::caller::collect_orphans();
    crate::util::panics::contain_thread();
    body();
    crate::call::dead_letter::set_sink(None);
    OF_HOST.set(None);
}

impl SimulatedThread {
    /// Takes the records `threads` of the host. The thread plays as many workers as there are records, each with a
    /// permit; with several, they know of each other and steal.
    pub(crate) fn begin(host: &'static Scheduler, threads: Range<usize>) -> Self {
        let steal = threads.len() > 1;
        let context = |(permit, index): (usize, usize)| {
            if steal {
                // The permits are those of the first thread; the others play workers whose steps have not returned.
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

    /// Returns the workers that it plays.
    pub(crate) fn workers(&self) -> &[ThreadContext] {
        &self.workers
    }

    /// Runs `body` on a thread of this host.
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
    /// Returns what this worker runs next by production's rules: from its own queues, or stolen.
    pub(crate) fn find_next(&self) -> Option<Token> {
        self.take_near().or_else(|| self.look_everywhere())
    }

    /// Runs a time slice as production does.
    pub(crate) fn run_usual_slice(&self, scratch: &mut StepScratch, token: Token) {
        self.begin_recorded_slice(scratch, &token);
        let panic = contain(Site::Slice, || self.run_begun_slice(scratch, token)).err();
        self.see_to_panic(scratch, panic);
        self.end_recorded_slice(scratch);
    }

    /// Begins the step of a process that is to end as if it had panicked. Returns the panic, unless the process is and
    /// stays suspended.
    fn crash(&self, scratch: &mut StepScratch, token: Token, panic: Panic) -> Option<Panic> {
        let mut token = token.acquire();
        self.thread.running.begin(&token);
        if !token.slot().deficit.is_none() {
            token = self.stay_suspended(token)?;
        }
        self.begin_slice(scratch, &token, SliceBudget::Exactly(1));
        let slot = token.slot();
        // SAFETY: this is the token, and only the input uses the lanes until the step is over.
        unsafe { scratch.input.begin(&slot.lanes, slot, token.generation()) };
        Some(panic)
    }

    fn see_to_panic(&self, scratch: &mut StepScratch, panic: Option<Panic>) {
        if let Some(panic) = panic
            && let Err(panic) = self.panicked_anew(scratch, panic)
        {
            crate::util::log::error!(%panic, "a panic came from the runtime, between two steps");
        }
    }

    /// Runs a time slice of that budget, for a simulation; or, with `crash`, ends the process as if its step had
    /// panicked before it took anything.
    pub(crate) fn run_simulated_slice(
        &self,
        scratch: &mut StepScratch,
        token: Token,
        budget: u32,
        crash: Option<Panic>,
    ) {
        self.begin_recorded_slice(scratch, &token);
        if let Deferral::Slices(_) = token.slot().deficit.deferral() {
            // The simulation decides who comes first.
            token.slot().deficit.clear();
        }
        let panic = match crash {
            Some(panic) => self.crash(scratch, token, panic),
            None => contain(Site::Slice, || self.run_any_slice(scratch, token, SliceBudget::Exactly(budget))).err(),
        };
        self.see_to_panic(scratch, panic);
        self.end_recorded_slice(scratch);
    }
}
