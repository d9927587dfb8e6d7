//! Draining a host: the first half of a graceful shutdown, before its processes are told to end.
//!
//! A drain changes nothing for the processes. It refuses no messages and no spawns; it only waits until the host is
//! drained, and then the shutdown follows. It does not count messages either, but examines the processes whenever the
//! host has become idle.
//!
//! # Drained
//!
//! A host is *drained* if, at a single moment, none of its processes runs or is about to run, and no work is queued.
//! Work is
//!
//! * a message in a mailbox, or one that its process has taken and not handled (an async entry that waits for another
//!   type of message sets it aside);
//! * a message that is being handled: by an async method that awaits (called by the runtime or by an async entry that
//!   serves), by a future beside the methods (`ctx.run`), or by a hand-written process that waits for its yields. (A
//!   process whose step blocks its thread is running.)
//! * a message that waits in front of a process: in the queue of a pool, or for a child that will be restarted and
//!   keeps its messages (see [`backlog`](crate::engine::host::backlog)).
//!
//! The following is not work, because it may never end or is a source of new work: an async entry that waits for
//! anything; a timer that is not due; an attached stream; a [`Reply`](crate::Reply) that was kept, and hence the
//! continuation (`ctx.call`) in which its caller waits for it; a child that will be restarted and has no messages
//! waiting. For a call to a process of the same host, the caller need not be examined: the message is work until the
//! called process has handled it.
//!
//! # One moment
//!
//! Examining all processes takes a while. A message would be overlooked if its receiver were examined before the
//! message arrived, and its sender after the sender had become idle. Hence the order:
//!
//! * E1 The host is idle ([`quiescence`](crate::engine::shutdown::quiescence)), and no timer is due. This yields a
//!   number that grows whenever a thread of the host unparks or a pinned process has a time slice.
//! * E2 All processes are parked, and neither they nor the backlogs have work.
//! * E3 The host is idle, and the number is still that of E1.
//!
//! Equal numbers show that no process of the host had a time slice between E1 and E3, so the findings of E2 were true
//! throughout, except for the actions of outside threads. E2 sees everything that the processes wrote before E1: their
//! threads enter the list of sleepers, under its lock, after their last step, and E1 reads that list. (So the data that
//! E2 reads may be written relaxed.) A process whose step blocks is not parked, even though its thread has given its
//! permit away and may be at rest.
//!
//! An outside thread (one that sends, one of another host, one that advances a virtual clock) may hold a process in
//! order to queue it: E2 sees that the process is not parked. It may also have taken a message out of the queue of a
//! pool, to give it to a member: the pool's backlog counts as empty only when no thread acts for the pool. If the
//! thread releases either between E1 and E3, a thread of the host unparks.
//!
//! So the effects of sends that had returned by E1 are complete when E3 succeeds. The effects of later sends may not
//! be: such messages are accepted as usual, and those that come too late are discarded and counted, as in any shutdown.
//! Preventing that would require a gate in front of every send; a program should stop its sources first.
//!
//! # Waiting
//!
//! The drain waits by rest:Q1, rest:Q2 and rest:T1 to rest:T3, except that E2 runs without the lock under which parking
//! threads notify. If E2 finds work, a thread of the host has to unpark and park again before that changes, and parking
//! signals the condition variable. If that has already happened, the check under the lock sees a different number.
//! Outside threads change things that no thread of the host signals, such as a backlog or the timers of a virtual
//! clock, so the drain checks again after [`AGAIN`] even without a signal.

use crate::engine::host::Scheduler;
use crate::engine::shutdown::report::Unfinished;
use crate::env::clock::{Moment, instant_now};
use crate::slots::Slot;
use crate::sync::{lock, wait_for};
use crate::time::virtual_clock::ClockUser;
use std::time::{Duration, Instant};

const AGAIN: Duration = Duration::from_millis(100);

/// Maximum number of unfinished processes that are named.
const NAMED: usize = 5;

/// One part in this many of a drain's time is reserved for the shutdown after it, so that processes can clean up even
/// if the drain is not completed.
const CLEAN_UP: u32 = 10;

/// Returns how long a drain with this deadline waits for queued work.
pub(crate) fn share(deadline: Duration) -> Duration {
    deadline - deadline / CLEAN_UP
}

impl Scheduler {
    /// Waits until the host is drained, but not beyond `until`. If the host is not drained by then, returns some of the
    /// unfinished processes.
    pub(crate) fn finish_work(&'static self, until: Option<Instant>) -> Result<(), Vec<Unfinished>> {
        let _waiting = self.quiet.wait();
        // E2.
        let has_finished = || self.unfinished().next().is_none() && self.backlogs.are_empty();
        loop {
            let settled = self.settled();
            if settled.is_some() && has_finished() && self.settled() == settled {
                return Ok(());
            }
            let rest = until.map_or(AGAIN, |until| until.saturating_duration_since(instant_now()).min(AGAIN));
            if rest.is_zero() {
                return Err(self.unfinished().take(NAMED).map(|slot| self.describe_unfinished(slot)).collect());
            }
            let guard = lock(&self.quiet.lock);
            // Otherwise the host has changed since E1, and may be idle again: check at once.
            if self.settled() == settled {
                drop(wait_for(&self.quiet.changed, guard, rest));
            }
        }
    }

    /// Performs E1 or E3: returns the number if the host is idle and no timer is due.
    fn settled(&self) -> Option<u64> {
        let number = self.at_rest()?;
        (self.next_timer() > Moment::now()).then_some(number)
    }

    fn describe_unfinished(&self, slot: &Slot) -> Unfinished {
        let (process, entry) = slot.metadata.names().unzip();
        let pid = self.slot_owner().pid(slot.index(), slot.last());
        Unfinished {
            pid,
            process: process.unwrap_or("?"),
            label: self.label(pid),
            entry: entry.filter(|entry| !entry.is_empty()),
            queued: slot.lanes.depth(),
            is_working: slot.is_working(),
        }
    }

    fn unfinished(&'static self) -> impl Iterator<Item = &'static Slot> {
        self.slots().filter(|slot| slot.has_work_left())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::host::backlog::Backlog;
    use crate::process::fixtures::OnMessage;
    use crate::sync::{Arc, AtomicBool, Ordering};
    use crate::{Pid, Runtime};
    use std::sync::mpsc::channel;

    /// A backlog that sends its message when asked whether it is empty. By then the receiving process has been
    /// examined.
    struct Hands {
        runtime: Runtime,
        to: Pid,
        are_empty: AtomicBool,
    }

    impl Backlog for Hands {
        fn is_empty(&self) -> bool {
            if !self.are_empty.swap(true, Ordering::SeqCst) {
                self.runtime.send(self.to, ()).expect("it lives");
            }
            true
        }
    }

    /// Catches: E2 without E3. It overlooks a message that moves from a place that E2 has yet to examine to one that it
    /// has already examined.
    #[test]
    fn a_message_that_moves_while_a_drain_looks_is_waited_for() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let host = runtime.host().scheduler();
        let (let_go, held) = channel();
        let to = runtime
            .spawn_process(OnMessage(move |_| held.recv().expect("the test allows it")))
            .start()
            .expect("it starts");
        let hands = Arc::new(Hands { runtime, to, are_empty: AtomicBool::new(false) });
        let known: Arc<dyn Backlog> = hands.clone();
        host.backlogs.add(Arc::downgrade(&known));
        // Each call checks once. The first calls may find a thread that has not gone to sleep yet, and then do not ask
        // the backlog.
        while !hands.are_empty.load(Ordering::SeqCst) {
            assert!(host.finish_work(Some(instant_now())).is_err(), "the message is not handled");
        }
        let_go.send(()).expect("it waits");
        assert_eq!(host.finish_work(None), Ok(()));
    }

    #[test]
    fn a_tenth_of_the_time_is_left_for_the_clean_up() {
        assert_eq!(share(Duration::from_secs(10)), Duration::from_secs(9));
        assert_eq!(share(Duration::ZERO), Duration::ZERO);
        assert!(share(Duration::MAX) > Duration::MAX / 2);
    }
}
