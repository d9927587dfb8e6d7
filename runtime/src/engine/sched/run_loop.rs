//! The run loop of a thread.
//!
//! The next action of a thread is a value, [`Next`]: run a process, park, or exit. Nothing below
//! [`ThreadContext::next`] blocks, so any thread may execute a `Next`: [`ThreadContext::run`] does so for its own
//! thread, and a single thread could do so for several contexts in turn.
//!
//! [`find`](super::find) describes where the next process comes from, [`spare`](super::spare) how a thread parks.

use super::spare::{Rest, RestStep};
use crate::engine::context::thread::ThreadContext;
use crate::engine::slice::scratch::StepScratch;
use crate::exit::Panic;
use crate::slots::Token;
use crate::sync::{Ordering, fence};
use crate::thread_cache::tokens::KeepsNothing;
use crate::util::panics::{Site, contain};

pub(crate) enum Next {
    Run(Token),
    /// Run one message of this process, and time it.
    RunTimed(Token),
    /// Run this process, and record its time slice.
    Recorded(Token),
    /// Park in this way, then continue with [`ThreadContext::resume`].
    Park(Rest),
    /// Exit: the host has stopped, or the thread has been a spare for too long.
    Exit(KeepsNothing),
}

impl ThreadContext {
    pub(crate) fn run(&self) {
        let mut scratch = StepScratch::new(self.thread);
        self.run_contained(&mut scratch, |scratch| self.run_with(scratch));
    }

    /// Calls `run`, and calls it again after each panic of a step.
    fn run_contained<R>(&self, scratch: &mut StepScratch, mut run: impl FnMut(&mut StepScratch) -> R) -> R {
        loop {
            let panic = match contain(Site::Slice, || run(scratch)) {
                Ok(output) => return output,
                Err(panic) => panic,
            };
            let seen_to = self.panicked_anew(scratch, panic);
            self.end_recorded_slice(scratch);
            if let Err(panic) = seen_to {
                // All user code runs under a guard; a panic in the runtime must not cost the host a permit either.
                crate::util::log::error!(%panic, "a panic came from the runtime, between two steps");
                let _panic = contain(Site::Backstop, || *scratch = StepScratch::new(self.thread));
                crate::engine::context::values::forget_values();
            }
        }
    }

    /// Runs processes, beginning with what `begin` returns. Returns the first action that it has not carried out: to
    /// park, to exit, or to run a process although `may_continue` has returned false.
    pub(super) fn run_while(
        &self,
        scratch: &mut StepScratch,
        begin: impl FnOnce() -> Next,
        may_continue: impl Fn() -> bool,
    ) -> Next {
        let (mut begin, mut has_run) = (Some(begin), false);
        self.run_contained(scratch, |scratch| {
            loop {
                let next = begin.take().map_or_else(|| self.next(), |begin| begin());
                let runs = !matches!(next, Next::Park(_) | Next::Exit(_));
                if !runs || std::mem::replace(&mut has_run, true) && !may_continue() {
                    return next;
                }
                if let Err(next) = self.run_next(next, scratch) {
                    return next;
                }
            }
        })
    }

    /// Ends the process whose step panicked, and those whose steps panic in the rest of the time slice.
    pub(crate) fn panicked_anew(&self, scratch: &mut StepScratch, panic: Panic) -> Result<(), Panic> {
        let mut panic = panic;
        loop {
            match contain(Site::Backstop, || self.panicked(scratch, panic)) {
                Ok(seen_to) => return seen_to,
                Err(another) => panic = another,
            }
        }
    }

    fn run_with(&self, scratch: &mut StepScratch) {
        loop {
            let token = match self.next() {
                Next::Run(token) => token,
                next => match self.carry_out(next, scratch) {
                    Some(token) => token,
                    None => return,
                },
            };
            self.run_slice(scratch, token);
        }
    }

    /// Carries out `next` and the actions that follow it. Returns the next process to run, or `None` when the thread
    /// must exit.
    #[cold]
    #[inline(never)]
    fn carry_out(&self, mut next: Next, scratch: &mut StepScratch) -> Option<Token> {
        loop {
            next = match next {
                Next::Run(token) if !self.thread.is_recorded() => return Some(token),
                next => match self.run_next(next, scratch) {
                    Ok(()) => self.next(),
                    Err(Next::Park(rest)) => {
                        self.park_recorded(&rest);
                        self.resume(rest)
                    }
                    Err(_) => return None,
                },
            }
        }
    }

    /// Runs the process of `next`, or returns `next` if it is to park or to exit.
    fn run_next(&self, next: Next, scratch: &mut StepScratch) -> Result<(), Next> {
        match next {
            Next::Run(token) if !self.thread.is_recorded() => self.run_slice(scratch, token),
            Next::RunTimed(token) if !self.thread.is_recorded() => self.run_timed(scratch, token),
            Next::Run(token) | Next::RunTimed(token) | Next::Recorded(token) => self.run_recorded_slice(scratch, token),
            Next::Park(_) | Next::Exit(_) => return Err(next),
        }
        Ok(())
    }

    /// Returns the next action of the thread after a time slice.
    #[inline(always)]
    pub(crate) fn next(&self) -> Next {
        if self.thread.attention() != 0
            && let Some(next) = self.next_when_called()
        {
            return next;
        }
        match self.take_near() {
            Some(token) => Next::Run(token),
            None => self.search(self.host.idle.start_searching()),
        }
    }

    pub(crate) fn resume(&self, rest: Rest) -> Next {
        match rest {
            Rest::Inbox(pinned_thread) => self.next_of_pinned(pinned_thread),
            Rest::Permit(rest) => self.after_rest(self.go_on_resting(rest)),
        }
    }

    pub(super) fn after_rest(&self, step: RestStep) -> Next {
        match step {
            RestStep::Up => self.search(true),
            RestStep::Park(rest) => Next::Park(Rest::Permit(rest)),
            RestStep::Ended => self.exit(),
        }
    }

    /// Exits, unless the host has stopped and work is left, even if only in the run-next slot of a busy thread
    /// (shutdown:L1).
    #[cold]
    pub(super) fn exit(&self) -> Next {
        if self.pinned_thread.is_some() || !self.host.is_stopped() {
            return Next::Exit(self.flush());
        }
        fence(Ordering::SeqCst);
        loop {
            let keeps_nothing = self.flush();
            let found = self
                .look_everywhere()
                .or_else(|| self.host.threads_in_use().find_map(|(_, thread)| self.host.take_local(thread)));
            match found {
                Some(token) => return Next::Run(token),
                None if !self.empty_late_slots() => return Next::Exit(keeps_nothing),
                None => {}
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Next, Rest};
    use crate::Runtime;
    use crate::engine::context::thread::ThreadContext;
    use crate::engine::host::Scheduler;
    use crate::engine::slice::scratch::StepScratch;
    use crate::manual::{Events, Process, StepOutput};
    use crate::sync::{Arc, AtomicUsize, Ordering, lock};

    pub(in super::super) struct Counts(pub(in super::super) Arc<AtomicUsize>);

    impl Process for Counts {
        fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), crate::ProcessError> {
            while events.next().is_some() {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        }
    }

    /// Returns the context for a thread with `permit` on a host without threads. The calling thread plays the role of
    /// that thread.
    pub(in super::super) fn begin(host: &'static Scheduler, permit: usize) -> ThreadContext {
        let index = host.idle.begin(Some(permit));
        *lock(&host.launched) += 1;
        let worker = host.threads.get(index).expect("made with the host");
        let deque = worker.occupy(host).expect("no thread has it");
        let user = host.user().expect("it has not been shut down");
        ThreadContext::new(host, user, (index, worker), Some(permit), deque)
    }

    /// Runs processes until the thread parks. Returns how it parks, and the number of time slices that it ran.
    pub(in super::super) fn run_until_parked(
        context: &ThreadContext,
        scratch: &mut StepScratch,
        begun: Next,
    ) -> (Rest, usize) {
        let (mut next, mut ran) = (begun, 0);
        loop {
            next = match next {
                Next::Run(token) | Next::RunTimed(token) => {
                    context.enter(|context| context.run_slice(scratch, token));
                    ran += 1;
                    context.next()
                }
                Next::Recorded(_) => panic!("nothing is recorded"),
                Next::Park(rest) => return (rest, ran),
                Next::Exit(_) => panic!("the host has not stopped"),
            }
        }
    }

    /// Catches: a run loop that blocks, or that only its own thread can execute.
    #[test]
    fn one_thread_plays_two_workers() {
        let runtime = Runtime::builder().workers(2).seed(1).paused().build().expect("it is built");
        let (host, handled) = (runtime.host().scheduler(), Arc::new(AtomicUsize::new(0)));
        let pids: Vec<_> =
            (0..8).map(|_| runtime.spawn_process(Counts(handled.clone())).start().expect("it starts")).collect();
        let contexts: Vec<_> = (0..2).map(|permit| begin(host, permit)).collect();
        let mut scratches: Vec<_> = contexts.iter().map(|context| StepScratch::new(context.thread)).collect();

        let mut rests: Vec<_> = contexts
            .iter()
            .zip(&mut scratches)
            .map(|(context, scratch)| run_until_parked(context, scratch, context.next()).0)
            .collect();
        let mut ran = [0, 0];
        for round in 1..=50 {
            pids.iter().for_each(|&pid| runtime.send(pid, round).expect("it lives"));
            // Repeats until a pass over both workers runs nothing, since a worker that parks may have woken the other
            // one.
            let mut before = None;
            while before != Some(ran) {
                before = Some(ran);
                for worker in [round % 2, 1 - round % 2] {
                    let (context, rest) = (&contexts[worker], rests.remove(worker));
                    let (rest, steps) = run_until_parked(context, &mut scratches[worker], context.resume(rest));
                    rests.insert(worker, rest);
                    ran[worker] += steps;
                }
            }
            assert_eq!(handled.load(Ordering::SeqCst), 8 * round, "a worker parked while there was work");
        }
        assert!(ran.iter().all(|&steps| steps > 0), "one worker did it all: {ran:?}");

        pids.iter().for_each(|pid| _ = pid.kill());
        while runtime.statistics().processes.live > 0 {
            for worker in 0..2 {
                let (context, rest) = (&contexts[worker], rests.remove(worker));
                let rest = run_until_parked(context, &mut scratches[worker], context.resume(rest)).0;
                rests.insert(worker, rest);
            }
        }
        for context in contexts {
            context.thread.vacate(context.deque);
            host.idle.dismiss(context.index);
        }
    }

    /// Tests of the tokens that a thread keeps to itself.
    #[cfg(not(postroom_no_local))]
    mod kept {
        use super::*;
        use crate::engine::workers::worker::RECORDED;
        use crate::manual::Event;
        use crate::process::fixtures::Brief;
        use crate::recorder::session::Memory;
        use crate::slots::TABLE;
        use crate::sync::AtomicBool;
        use crate::thread_cache::lock::NOTIFIED;
        use crate::{Host, Pid};

        /// A process that passes the ball to `next` until `over` is set. Sets the flag that a message carries, if it
        /// carries one.
        struct Passes {
            next: Option<Pid>,
            over: Arc<AtomicBool>,
        }

        impl Process for Passes {
            fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), crate::ProcessError> {
                while let Some(event) = events.next() {
                    let Event::Message(message) = event else { continue };
                    match message.take::<Pid>().map_err(|message| message.take::<Arc<AtomicBool>>()) {
                        Ok(next) => self.next = Some(next),
                        Err(Ok(seen)) => seen.store(true, Ordering::SeqCst),
                        Err(Err(_)) if self.over.load(Ordering::SeqCst) => {}
                        Err(Err(_)) => {
                            Host::current().expect("a host").send(self.next.expect("a ring"), ()).expect("it lives");
                        }
                    }
                }
                out.idle();
                Ok(())
            }
        }

        /// Catches: a thread that is not notified when another thread sends to a process in its cache. The process then
        /// waits for the next tick of the watchdog.
        #[test]
        fn a_thread_is_told_of_a_message_to_its_cache() {
            const RING: usize = 30;
            let runtime = Runtime::builder().workers(1).paused().build().expect("it is built");
            let (host, over) = (runtime.host().scheduler(), Arc::new(AtomicBool::new(false)));
            let passes = || Passes { next: None, over: over.clone() };
            let ring: Vec<_> = (0..RING).map(|_| runtime.spawn_process(passes()).start().expect("it starts")).collect();
            for (place, &pid) in ring.iter().enumerate() {
                runtime.send(pid, ring[(place + 1) % RING]).expect("it lives");
            }
            runtime.send(ring[0], ()).expect("it lives");
            let context = begin(host, 0);
            let mut scratch = StepScratch::new(context.thread);
            let mut run = |steps: u64| {
                let until = context.thread.counters.steps.get() + steps;
                while context.thread.counters.steps.get() < until {
                    let Next::Run(token) = context.next() else { panic!("the ring continues") };
                    context.enter(|context| context.run_slice(&mut scratch, token));
                }
            };
            // At a tick the thread flushes its cache, and the cache's table then stays disabled for some steps.
            let slot = |pid: &Pid| TABLE.slot(pid.slot()).expect("it lives");
            let cached = std::iter::repeat_with(|| {
                run(50);
                ring.iter().find(|&pid| slot(pid).permit.is_in_table()).copied()
            });
            let cached = cached.take(10_000).flatten().next().expect("those that wait for the ball are cached");
            assert!(context.thread.local.has_in_table(slot(&cached)));
            let seen = Arc::new(AtomicBool::new(false));
            runtime.send(cached, seen.clone()).expect("it lives");
            assert!(context.thread.attention() & NOTIFIED != 0, "told");
            run(1);
            assert!(!context.thread.local.is_table_enabled() && !context.thread.local.has_table());
            // The processes of the ring may come first for a streak.
            run(100);
            assert!(seen.load(Ordering::SeqCst));

            over.store(true, Ordering::SeqCst);
            ring.iter().for_each(|pid| _ = pid.kill());
            let (mut rest, _) = run_until_parked(&context, &mut scratch, context.next());
            while runtime.statistics().processes.live > 0 {
                (rest, _) = run_until_parked(&context, &mut scratch, context.resume(rest));
            }
            context.thread.vacate(context.deque);
            host.idle.dismiss(context.index);
        }

        /// Catches: a thread that sleeps with vacant slots, because the run loop of a recorded host puts it to sleep by
        /// a separate path.
        #[test]
        fn a_thread_that_is_recorded_rests_with_nothing() {
            let runtime = Runtime::builder().workers(1).paused().build().expect("it is built");
            let host = runtime.host().scheduler();
            let context = begin(host, 0);
            let mut scratch = StepScratch::new(context.thread);
            let ended = runtime.spawn_process(Brief).start().expect("it starts");
            let Next::Run(token) = context.next() else { panic!("it was spawned") };
            context.enter(|context| context.run_slice(&mut scratch, token));
            assert!(context.thread.local.has_vacant());
            let session = host.recorder.begin(Memory { all: 1 << 20, thread: 1 << 16 }, None).expect("the first one");
            session.open();
            context.thread.call(RECORDED);
            let Next::Park(_) = context.enter(ThreadContext::next) else { panic!("there is nothing to run") };
            assert!(!context.thread.local.has_vacant());
            assert_eq!(ended.join().wait(), crate::ExitReason::NoProcess);
            session.close();
            host.recorder.end(&session);
            context.thread.vacate(context.deque);
            host.idle.dismiss(context.index);
        }
    }
}
