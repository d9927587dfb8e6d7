//! Blocking in a step: the thread hands off its permit to another thread, so that other processes can run, and gets a
//! permit back afterwards.
//!
//! The protocol is in `handoff`. The blocking code runs on the stack of the step, so it may borrow from it. It runs
//! outside of the context, so its messages count as sent from outside, whichever thread has the permit by then.

use crate::engine::context::thread::{ThreadContext, with_current};
use crate::engine::host::Scheduler;
use crate::engine::permits::handoff::Resumption;
use crate::engine::permits::holders::{At, HandedOff, Need};
use crate::engine::workers::worker::CALLED;
use crate::env::clock::forget_now;
use crate::pid::Pid;
use crate::recorder::kind::RecordKind;
use crate::sync::{Ordering, fence, lock, park, simulated, yield_now};
use crate::thread_cache::lock::LOST;
use crate::util::defer::defer;
use crate::util::notifiers;
use crate::util::panics::{Site, contain};
use std::cell::Cell;
use std::ptr;

thread_local! {
    /// The context of this thread while its step blocks.
    static BLOCKING_CONTEXT: Cell<*const ThreadContext> = const { Cell::new(ptr::null()) };
}

/// Runs `block`, which waits for another process. Inside a process, another thread runs the other processes in the
/// meantime.
pub(crate) fn while_blocked<R>(block: impl FnOnce() -> R) -> R {
    let context = BLOCKING_CONTEXT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: the pointer is not null only inside `ThreadContext::run_blocking`, which borrows the context.
    match unsafe { context.as_ref() } {
        Some(context) => context.wait_in_blocking(block),
        None => in_step(Need::Process, block),
    }
}

/// Runs `block`, which blocks its thread. Inside a process, another thread runs the other processes in the meantime,
/// and the step continues when a permit is available.
pub(crate) fn while_blocking<R>(block: impl FnOnce() -> R) -> R {
    in_step(Need::Blocking, block)
}

/// Runs `block` in a process while another thread runs the others. Returns `None` if no thread is available for that,
/// or if this is not called in a process.
pub(crate) fn while_handed_off<R>(block: impl FnOnce() -> R) -> Option<R> {
    if simulated::is_here() {
        return Some(while_simulated(block));
    }
    with_current(|context| {
        let context = context.filter(|context| context.thread.running().is_some())?;
        if context.pinned_thread.is_some() {
            return Some(context.block_pinned(block));
        }
        context.hand_off(Need::Room).then(|| context.block_handed_off(block, false))
    })
}

/// Runs `block` on a thread of a simulation: while it waits, other threads run.
pub(super) fn while_simulated<R>(block: impl FnOnce() -> R) -> R {
    with_current(|context| match context {
        Some(context) => context.block_pinned(block),
        None => block(),
    })
}

fn in_step<R>(need: Need, block: impl FnOnce() -> R) -> R {
    if simulated::is_here() {
        return while_simulated(block);
    }
    with_current(|context| match context.filter(|context| context.thread.running().is_some()) {
        None => block(),
        Some(context) if context.host.recorder.is_on() => {
            context.record_blocked(RecordKind::Block);
            let _over = defer(|| context.record_blocked(RecordKind::Unblock));
            context.block(need, block)
        }
        Some(context) => context.block(need, block),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    Gone,
    /// The step keeps its permit while it blocks.
    Stays,
    /// A thread has been started to take the permit.
    Grown,
    /// No thread could be started, since none is needed any more or none is allowed yet: try again.
    Again,
}

impl ThreadContext {
    fn block<R>(&self, need: Need, block: impl FnOnce() -> R) -> R {
        if self.pinned_thread.is_some() {
            self.block_pinned(block)
        } else if self.hand_off(need) {
            self.block_handed_off(block, false)
        } else {
            self.block_with_permit(block)
        }
    }

    #[cold]
    fn record_blocked(&self, kind: RecordKind) {
        self.host.recorder.note(kind, self.pid().map_or(0, Pid::incarnation), 0, None);
    }

    /// Performs handoff:H0 to handoff:H2. Returns whether another thread has the permit; if not, the step keeps it.
    fn hand_off(&self, need: Need) -> bool {
        let mut grown = false;
        loop {
            // Flush in each round, since foreign code may have run in between.
            let handed_off = self.host.idle.hand_off(self.index, need, grown, self.flush());
            match self.pass(handed_off, need) {
                Passed::Gone => return true,
                Passed::Stays => return false,
                passed => grown = passed == Passed::Grown,
            }
        }
    }

    /// Performs handoff:H2.
    pub(crate) fn pass(&self, handed_off: HandedOff, need: Need) -> Passed {
        let host = self.host;
        match handed_off {
            HandedOff::ToSpare(next) | HandedOff::ToWaiting(next) => {
                host.leave_behind(self.index, self.thread);
                host.unpark(next);
                Passed::Gone
            }
            // The permit was taken over, and this thread may have queued something before it noticed: see `handoff`.
            HandedOff::HadNone => {
                host.leave_behind(self.index, self.thread);
                host.announce();
                Passed::Gone
            }
            HandedOff::Stays => Passed::Stays,
            HandedOff::Grow => host.try_to_grow(need),
        }
    }

    /// Performs handoff:H3, and then comes back for a permit. In async code it does not wait for one.
    pub(crate) fn block_handed_off<R>(&self, block: impl FnOnce() -> R, is_async: bool) -> R {
        self.run_blocking(|| {
            let _comes_back = defer(|| self.come_back(is_async));
            self.tell_reactor(block)
        })
    }

    /// Runs `block` on the thread of a pinned process, which has no permit to hand off.
    pub(crate) fn block_pinned<R>(&self, block: impl FnOnce() -> R) -> R {
        self.without_context(|| {
            let output = block();
            forget_now();
            output
        })
    }

    pub(crate) fn block_with_permit<R>(&self, block: impl FnOnce() -> R) -> R {
        self.host.blocked_in_place.add_shared(1);
        self.log_in_place();
        self.run_blocking(|| {
            let _stayed = defer(|| self.host.idle.with_permits(|permits| permits.record(self.index).in_place = false));
            self.tell_reactor(block)
        })
    }

    /// Runs `block`, which blocks a thread that may have other tasks of the reactor.
    fn tell_reactor<R>(&self, block: impl FnOnce() -> R) -> R {
        if self.has_tasks_of_reactor.get() { self.user.while_blocking(block) } else { block() }
    }

    fn run_blocking<R>(&self, block: impl FnOnce() -> R) -> R {
        self.without_context(|| {
            // Now that this thread waits, all blocked threads may be waiting for processes. In that case a queued step
            // gets a thread beyond the limit.
            self.host.wake_blocked_steps();
            let outer = BLOCKING_CONTEXT.replace(self);
            let _back = defer(|| {
                BLOCKING_CONTEXT.set(outer);
                forget_now();
            });
            block()
        })
    }

    /// Runs `block`, which waits for another process, from within blocking code. If that code already counted as
    /// waiting for a process, it still does afterwards.
    fn wait_in_blocking<R>(&self, block: impl FnOnce() -> R) -> R {
        let idle = &self.host.idle;
        let (keeps_permit, waited) = idle.with_permits(|permits| {
            let is_blocked = permits.at(self.index) == At::Blocked;
            let record = permits.record(self.index);
            (record.in_place && !is_blocked, std::mem::replace(&mut record.waits, true))
        });
        let has_handed_off = keeps_permit && self.hand_off(Need::Process);
        let _waited = defer(|| {
            if has_handed_off {
                self.come_back(false);
            }
            idle.with_permits(|permits| {
                let record = permits.record(self.index);
                (record.in_place, record.waits) = (record.in_place || has_handed_off, waited);
            });
        });
        self.host.wake_blocked_steps();
        block()
    }

    /// Logs, once for each type of process, that a step blocks its permit.
    fn log_in_place(&self) {
        let names = self.thread.running().and_then(|slot| slot.metadata.names());
        let (process, entry) = names.unwrap_or(("?", "?"));
        if lock(&self.host.in_place_logged).insert(process) {
            let bound = self.host.config.blocking_threads;
            crate::util::log::warn!(
                pid = self.pid().map(tracing::field::display),
                process,
                entry,
                bound,
                "a step blocks its worker: the limit of threads is reached; see `Builder::blocking_threads`"
            );
        }
    }

    /// Performs handoff:B1 and handoff:B2: gets a permit to continue the step, or becomes detached.
    fn come_back(&self, is_async: bool) {
        let host = self.host;
        // Earlier calls no longer matter: if this thread gets a permit, a waiting thread calls it again.
        self.thread.acknowledge();
        let mut back = host.idle.come_back(self.index, is_async);
        if let Resumption::Waits(others) = &back {
            // watchdog:G4.
            host.notify_watchdog();
            for &other in others {
                if let Some(thread) = host.threads.get(other) {
                    thread.call(CALLED);
                }
            }
            back = loop {
                match host.idle.served(self.index) {
                    Some(back) => break back,
                    None => park(None),
                }
            };
            if host.idle.with_permits(|permits| permits.is_wanted()) {
                // A thread that still waits has not called this one.
                self.thread.call(CALLED);
            }
        }
        match back {
            Resumption::With(permit, displaced) => {
                self.take_up(permit);
                self.see_to_watch();
                displaced.into_iter().for_each(|displaced| host.unpark(displaced));
                host.wake_blocked_steps();
            }
            Resumption::Detached | Resumption::Waits(_) => self.thread.call(LOST),
        }
    }

    pub(crate) fn take_up(&self, permit: usize) {
        self.permit_index.set(permit);
        self.permit.set(&self.host.permits[permit]);
    }
}

impl Scheduler {
    fn try_to_grow(&'static self, need: Need) -> Passed {
        match self.grow(need) {
            Ok(true) => Passed::Grown,
            Ok(false) => {
                // A thread that is about to end may have to finish first.
                yield_now();
                Passed::Again
            }
            Err(error) => {
                // Logged by a notifier: the watchdog starts threads, too, and must not run a log subscriber.
                notifiers::run(move || {
                    crate::util::log::error!(%error, host = %self.config.name, "no thread could be started for a \
                        step that blocks");
                });
                Passed::Stays
            }
        }
    }

    /// Wakes queued async steps that may block now, since a thread may be available. Must be called outside of the
    /// context.
    pub(crate) fn wake_blocked_steps(&self) {
        for waker in self.idle.reserve_threads() {
            // A waker may be foreign code.
            if let Err(panic) = contain(Site::BlockedWaker, || waker.wake()) {
                crate::util::log::error!(%panic, "the waker of a step that waits to block panicked");
            }
        }
    }

    /// Performs handoff:M1 to handoff:M4: thread `number` has been in the same step for a long time, and others wait.
    /// Its permit goes to another thread, and its step continues without one. Returns false if the limit of threads is
    /// reached, or if the thread has no permit.
    ///
    /// Called by the watchdog, and by tests.
    pub(crate) fn take_over(&'static self, number: usize) -> bool {
        let Some(thread) = self.threads.get(number) else { return false };
        let next = loop {
            let is_in_step = || thread.running().is_some() || thread.is_visiting();
            match self.idle.take_over(number, is_in_step) {
                HandedOff::ToSpare(next) | HandedOff::ToWaiting(next) => break next,
                HandedOff::HadNone | HandedOff::Stays => return false,
                HandedOff::Grow if self.try_to_grow(Need::Blocking) == Passed::Stays => return false,
                HandedOff::Grow => {}
            }
        };
        thread.call(LOST);
        fence(Ordering::SeqCst);
        self.move_local(thread, next);
        self.leave_behind(number, thread);
        self.unpark(next);
        self.announce();
        true
    }
}

#[cfg(test)]
mod tests {
    use crate as postroom;
    use crate::manual::{Events, Process, StepOutput};
    use crate::prelude::*;
    use crate::sync::window::{Window, do_in};
    use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering, yield_now};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::{Duration, Instant};

    /// A process whose steps call the closure.
    struct Steps<F>(F);

    impl<F: FnMut(&mut Events<'_>) + Send + 'static> Process for Steps<F> {
        fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            (self.0)(events);
            out.idle();
            Ok(())
        }
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            yield_now();
        }
    }

    #[test]
    fn what_a_step_that_does_not_end_has_woken_and_wakes_runs_when_it_is_taken_over() {
        // The watchdog never takes over a permit.
        let builder = Runtime::builder().workers(1).stall_limit(std::time::Duration::MAX);
        let runtime = builder.build().expect("it starts");
        let (inside, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let counted = Arc::new(AtomicUsize::new(0));
        let wake = Arc::new(AtomicBool::new(false));
        let (counts, wakes) = (counted.clone(), wake.clone());
        let counter = Steps(move |events: &mut Events<'_>| {
            while events.next().is_some() {
                counts.fetch_add(1, Ordering::SeqCst);
            }
        });
        let counter = runtime.spawn_process(counter).start().expect("it starts");
        let (host, is_inside, is_over) = (runtime.host(), inside.clone(), over.clone());
        let hog = Steps(move |_: &mut Events<'_>| {
            host.send(counter, ()).expect("it lives");
            is_inside.store(true, Ordering::SeqCst);
            until(|| wakes.load(Ordering::SeqCst));
            // By now this step has lost its permit.
            host.send(counter, ()).expect("it lives");
            until(|| is_over.load(Ordering::SeqCst));
        });
        let hog = runtime.spawn_process(hog).start().expect("it starts");
        until(|| inside.load(Ordering::SeqCst));
        let scheduler = runtime.host().scheduler();
        assert!(counted.load(Ordering::SeqCst) == 0, "it waits behind the step");
        assert!(scheduler.take_over(0));
        assert!(!scheduler.take_over(0), "it has no permit any more");
        until(|| counted.load(Ordering::SeqCst) == 1);
        wake.store(true, Ordering::SeqCst);
        until(|| counted.load(Ordering::SeqCst) == 2);
        assert_eq!((runtime.statistics().blocking.detached, runtime.statistics().blocking.blocked), (1, 0));
        over.store(true, Ordering::SeqCst);
        until(|| {
            let statistics = runtime.statistics();
            (statistics.blocking.detached, statistics.blocking.spare) == (0, 1)
        });
        assert!(hog.is_alive() && runtime.shutdown().expect("not inside").is_clean());
    }

    /// A process that does not become idle until its flag is set. It counts its steps.
    struct Restless(Arc<AtomicBool>, Arc<AtomicUsize>);

    impl Process for Restless {
        fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            while events.next().is_some() {}
            self.1.fetch_add(1, Ordering::SeqCst);
            if self.0.load(Ordering::SeqCst) {
                out.idle()
            } else {
                out.go_on()
            }
            Ok(())
        }
    }

    /// Catches: a process that waits until another one's step ends. The thread of that step has queued the process in
    /// its deque after its permit was taken over, and the thread that got the permit has enough other work.
    #[test]
    fn what_a_step_has_queued_too_late_runs_while_it_blocks() {
        let builder = Runtime::builder().workers(1).stall_limit(Duration::MAX);
        let runtime = builder.build().expect("it starts");
        let counted = Arc::new(AtomicUsize::new(0));
        let counts = counted.clone();
        let counter = Steps(move |events: &mut Events<'_>| {
            while events.next().is_some() {
                counts.fetch_add(1, Ordering::SeqCst);
            }
        });
        let counter = runtime.spawn_process(counter).start().expect("it starts");
        runtime.until_idle().expect("it comes to rest");
        let (rest, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let restless = runtime.spawn_process(Restless(rest.clone(), steps.clone())).start().expect("it starts");
        let (host, (let_go, wait)) = (runtime.host(), channel::<()>());
        let (begun, begins) = channel();
        let blocks = Steps(move |_: &mut Events<'_>| {
            let steps = steps.clone();
            do_in(Window::BeforeSharing, move || {
                let scheduler = host.scheduler();
                assert!(scheduler.take_over(0), "it had its permit");
                // Wait until the other thread has emptied the deque, and no longer looks at it.
                until(|| scheduler.threads.get(0).is_some_and(|thread| !thread.is_left.load(Ordering::SeqCst)));
                let made = steps.load(Ordering::SeqCst);
                until(|| steps.load(Ordering::SeqCst) > made + 1);
            });
            host.send(counter, ()).expect("it lives");
            begun.send(()).expect("it is waited for");
            postroom::block_in_place(|| _ = wait.recv());
        });
        let blocks = runtime.spawn_process(blocks).start().expect("it starts");
        begins.recv().expect("it runs");
        let deadline = Instant::now() + LIMIT;
        until(|| counted.load(Ordering::SeqCst) == 1 || Instant::now() > deadline);
        assert_eq!(counted.load(Ordering::SeqCst), 1, "while the step blocks");
        rest.store(true, Ordering::SeqCst);
        drop(let_go);
        assert!(restless.is_alive() && blocks.is_alive() && runtime.shutdown().expect("not inside").is_clean());
    }

    const LIMIT: Duration = Duration::from_secs(60);

    #[postroom::process(crate = crate)]
    struct Blocks {}

    #[postroom::process(crate = crate)]
    impl Blocks {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn ping(&mut self) -> u32 {
            1
        }
        #[message]
        async fn read(&mut self, ctx: &mut Context<Self>) -> u32 {
            ctx.blocking(|| 2).await
        }
        #[message]
        fn waits_in_a_wait(&mut self, other: Address<Self>) -> u32 {
            postroom::block_on(async {
                other.ping().wait().expect("it answers") + other.read().timeout(LIMIT).await.expect("it answers")
            })
        }
        #[message]
        fn waits_in_place(&mut self, other: Address<Self>) -> u32 {
            postroom::block_in_place(|| {
                postroom::block_on(async {
                    other.ping().wait().expect("it answers") + other.ping().timeout(LIMIT).await.expect("it answers")
                })
            })
        }
        #[message]
        fn stay(&mut self, stays: Sender<()>, until: Receiver<()>) {
            postroom::block_in_place(|| {
                stays.send(()).expect("it is waited for");
                let _over = until.recv();
            });
        }
    }

    /// Makes a host with as few threads as possible. Its permits are never taken over.
    fn narrow() -> (Runtime, impl Fn(&Runtime) -> Address<Blocks>) {
        let builder = Runtime::builder().workers(1).blocking_threads(1).stall_limit(Duration::MAX);
        let spawn = |runtime: &Runtime| runtime.spawn(Blocks {}).serve().expect("it starts");
        (builder.build().expect("it starts"), spawn)
    }

    /// Catches: a nested wait after which the step no longer counts as waiting for processes, so no thread is found for
    /// the process that it waits for.
    #[test]
    fn a_step_that_has_waited_within_a_wait_still_waits() {
        let (runtime, spawn) = narrow();
        let (blocks, other) = (spawn(&runtime), spawn(&runtime));
        assert_eq!(blocks.waits_in_a_wait(other).timeout(LIMIT).wait(), Ok(3));
    }

    /// Catches: a wait, nested in a wait that has handed off the permit, that takes a permit back. The step would then
    /// keep that permit while it still waits.
    #[test]
    fn a_wait_within_one_that_has_handed_the_permit_off_takes_none() {
        let (runtime, spawn) = narrow();
        let (stays, blocks, other) = (spawn(&runtime), spawn(&runtime), spawn(&runtime));
        let ((stay, stayed), (let_go, until)) = (channel(), channel());
        stays.stay(stay, until).send().expect("it lives");
        stayed.recv().expect("it uses the only thread for that");
        assert_eq!(blocks.waits_in_place(other).timeout(LIMIT).wait(), Ok(2));
        drop(let_go);
    }
}
