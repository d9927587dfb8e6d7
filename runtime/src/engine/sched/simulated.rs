//! What a simulation does in place of the run loop: a thread of a host without threads, and a time slice that it has
//! chosen.

use super::launch::OF_HOST;
use super::step::StepScratch;
use crate::engine::context::local::ThreadContext;
use crate::engine::host::Scheduler;
use crate::exit::Panic;
use crate::slots::Token;
use crate::slots::slot::deficit::Deferral;
use crate::sync::Ordering;
use crate::util::panics::{Site, contain};
use std::ptr;

/// Makes the calling thread number `index` of a host without threads, with its only permit, while `body` runs: for a
/// simulation, in which one such thread runs at a time.
pub(crate) fn simulated_thread(host: &'static Scheduler, index: usize, body: impl FnOnce(&ThreadContext)) {
    let thread = host.threads.make(index).and_then(|thread| Some((thread, thread.occupy(host)?)));
    let Some((thread, deque)) = thread else { unreachable!("each thread of a simulation has a record of its own") };
    let context = ThreadContext::new(host, host.user().unwrap_or_default(), (index, thread), Some(0), deque);
    OF_HOST.set(host);
    crate::call::caller::collect_orphans();
    crate::util::panics::contain_thread();
    crate::call::dead_letter::set_sink(Some(host));
    body(&context);
    crate::call::dead_letter::set_sink(None);
    OF_HOST.set(ptr::null());
    thread.vacate(context.deque);
}

impl ThreadContext {
    /// Runs a time slice of that budget, for a simulation; or, with `crash`, ends the process as if its step had
    /// panicked before it took anything.
    pub(crate) fn run_simulated_slice(
        &self,
        scratch: &mut StepScratch,
        token: Token,
        budget: u32,
        crash: Option<Panic>,
    ) {
        let token = token.taken_up();
        let slot = token.slot();
        self.thread.running.begin(&token);
        slot.permit.store(self.permit_index.get() as u16, Ordering::Relaxed);
        scratch.input.begin_slice_of(budget);
        let token = match slot.deficit.deferral() {
            _ if slot.deficit.is_none() => token,
            Deferral::Suspended { .. } => match self.stay_suspended(token) {
                Some(token) => token,
                None => return,
            },
            // The simulation decides who comes first.
            Deferral::Slices(_) => {
                slot.deficit.clear();
                token
            }
        };
        let panic = match crash {
            Some(panic) => {
                // SAFETY: this is the token, and only the input uses the lanes until the step is over.
                unsafe { scratch.input.begin(&slot.lanes, slot, token.generation()) };
                Some(panic)
            }
            None => contain(Site::Slice, || self.go_on(scratch, token)).err(),
        };
        if let Some(panic) = panic
            && let Err(panic) = self.panicked_anew(scratch, panic)
        {
            crate::util::log::error!(%panic, "a panic came from the runtime, between two steps");
        }
    }
}
