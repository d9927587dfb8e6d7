//! Blocking in async code: if no thread can take the permit, the process queues for one.
//!
//! There is one more difference from `block_in_place`: the returning thread does not wait for a permit; its process
//! does, in a run queue.

use super::block_in_place::Passed;
use crate::engine::context::thread::{ThreadContext, with_current};
use crate::engine::host::Scheduler;
use crate::engine::permits::blocking_queue::WaiterId;
use crate::engine::permits::holders::Need;
use crate::thread_cache::lock::LOST;
use crate::util::dispose::dispose_here;
use crate::util::panics::Site;
use std::ptr;
use std::task::Waker;

pub(crate) enum BlockOutcome<F, R> {
    /// The code has run. True if the step may continue; otherwise its process is queued, and the thread has no permit.
    Ran(R, bool),
    /// The code has not run: the process is woken when a thread is available.
    Waits(F, QueuedPlace),
}

/// A place in the queue for a thread. Dropping it gives the place up.
pub(crate) struct QueuedPlace {
    host: &'static Scheduler,
    waiter: WaiterId,
}

impl Drop for QueuedPlace {
    fn drop(&mut self) {
        let (was_reserved, waker) = self.host.idle.leave_queue(self.waiter);
        dispose_here(Site::BlockedWaker, waker);
        if was_reserved {
            self.host.wake_blocked_steps();
        }
    }
}

/// Runs `block` in an async step, or queues the process until a thread can take the permit.
pub(crate) fn block_async<F: FnOnce() -> R, R>(
    block: F,
    place: Option<QueuedPlace>,
    waker: &Waker,
) -> BlockOutcome<F, R> {
    if crate::sync::simulated::is_here() {
        drop(place);
        return BlockOutcome::Ran(super::block_in_place::while_simulated(block), true);
    }
    with_current(|context| match context.filter(|context| context.thread.running().is_some()) {
        None => BlockOutcome::Ran(block(), true),
        Some(context) if context.pinned_thread.is_some() => BlockOutcome::Ran(context.block_pinned(block), true),
        Some(context) => match context.hand_off_or_queue(place, waker) {
            Ok(true) => {
                let output = context.block_handed_off(block, true);
                BlockOutcome::Ran(output, context.thread.attention() & LOST == 0)
            }
            Ok(false) => BlockOutcome::Ran(context.block_with_permit(block), true),
            Err(place) => BlockOutcome::Waits(block, place),
        },
    })
}

impl ThreadContext {
    /// Performs handoff:H0 to handoff:H2 in async code. Returns whether another thread has the permit. If the step
    /// would have to keep its permit, queues the process instead.
    fn hand_off_or_queue(&self, place: Option<QueuedPlace>, waker: &Waker) -> Result<bool, QueuedPlace> {
        let host = self.host;
        let place = place.filter(|place| ptr::eq(place.host, host));
        let mut grown = false;
        loop {
            // The waker is cloned and dropped outside the lock, since both may run foreign code. For the same reason,
            // it is cloned before the flush.
            let waiter = place.as_ref().map(|place| place.waiter);
            let waker = (!grown).then(|| waker.clone());
            let keeps_nothing = self.flush();
            let (handed_off, unneeded) = match waker {
                None => (Ok(host.idle.hand_off(self.index, Need::Blocking, true, keeps_nothing)), None),
                Some(waker) => host.idle.hand_off_or_queue(self.index, waiter, waker, keeps_nothing),
            };
            let handed_off = match handed_off {
                Ok(handed_off) => handed_off,
                Err(waiter) => {
                    self.without_context(|| {
                        dispose_here(Site::BlockedWaker, unneeded);
                        // If no thread will ever become available, this reserves one beyond the limit.
                        host.wake_blocked_steps();
                    });
                    return Err(place.unwrap_or(QueuedPlace { host, waiter }));
                }
            };
            let passed = self.pass(handed_off, waiter.map_or(Need::Blocking, Need::Reserved));
            // Processes that are woken by the drop must not be queued on this thread. A panic in the drop must not
            // prevent the return after the hand-off.
            self.without_context(|| dispose_here(Site::BlockedWaker, unneeded));
            if let Passed::Gone | Passed::Stays = passed {
                self.without_context(|| drop(place));
                return Ok(passed == Passed::Gone);
            }
            grown = passed == Passed::Grown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manual::{Events, Process, StepOutput};
    use crate::{ProcessError, Runtime};
    use std::sync::mpsc::{Sender, channel};
    use std::task::{RawWaker, RawWakerVTable};

    /// A waker whose clones panic when they are dropped.
    fn bomb() -> Waker {
        const CLONE: RawWakerVTable = RawWakerVTable::new(clone, nothing, nothing, panics);
        const FIRST: RawWakerVTable = RawWakerVTable::new(clone, nothing, nothing, nothing);
        fn clone(_: *const ()) -> RawWaker {
            RawWaker::new(std::ptr::null(), &CLONE)
        }
        fn nothing(_: *const ()) {}
        fn panics(_: *const ()) {
            panic!("as a drop may");
        }
        // SAFETY: the functions do not use the pointer.
        unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &FIRST)) }
    }

    /// A process that blocks in its step.
    struct Blocks(Sender<bool>);

    impl Process for Blocks {
        fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            let outcome = block_async(|| 7, None, &bomb());
            self.0.send(matches!(outcome, BlockOutcome::Ran(7, _))).expect("it is waited for");
            out.done();
            Ok(())
        }
    }

    /// Catches: a waker whose drop panics between the hand-off and the return, so the step continues, or ends, on a
    /// thread that does not know that it has lost its permit.
    #[test]
    fn a_waker_that_is_not_needed_may_panic_when_it_is_dropped() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let (tell, told) = channel();
        runtime.spawn_process(Blocks(tell)).start().expect("it starts");
        assert_eq!(told.recv(), Ok(true));
        assert!(runtime.shutdown().expect("asked from outside").is_clean());
    }
}
