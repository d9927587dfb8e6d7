//! How a host finishes what its processes have been sent: the first half of a drain, before all of them are told to end.
//!
//! # Drained
//!
//! A host is *drained* if at one moment no process of it runs or is about to, none has a message that it has not handled, and
//! none is in the middle of one. In the middle of one is
//!
//! * a process whose async method waits for something, in an async entry too, and one whose step blocks;
//! * one that runs a future beside its methods (`ctx.run`), which it does on behalf of one;
//! * one written by hand that waits for its yields.
//!
//! An async entry that waits is not, nor is who waits for a timer or for an item of a stream: these are sources of work, which
//! may never end. Nor is a process that keeps a reply for later.
//!
//! # One moment
//!
//! A message could be overlooked that is on its way from a process that is looked at too early to one that is looked at too
//! late: the receiver's mailbox was empty before, and the sender is idle after it. So all are looked at between two looks
//! that find the host *settled*, with the same number:
//!
//! * D1 the host is at rest ([`settle`](super::settle)), which gives a number that grows whenever a thread of the host gets up
//!   or a pinned process has a turn; and no step goes on that has no worker, or that waits on a thread's stack;
//! * D2 all processes, the lines of pools, and what is kept for children that are down, are looked at;
//! * D3 the host is settled, and the number is that of D1.
//!
//! No process of the host has run between D1 and D3, so nothing that D2 has looked at has changed but by others. What the
//! processes wrote before D1 is seen at D2: their threads lay down under the lock that D1 takes.
//!
//! What others send meanwhile (other threads, other runtimes, timers) is taken as any message is, and may come too late. A
//! source that is not to lose messages is stopped before its sink is drained.
//!
//! # Waiting for it
//!
//! As those do who wait until the host is at rest: Q1 and Q2, T1 to T3 of `settle`. A look at all processes is made without
//! the lock, under which threads lie down. If it finds something, there is nothing new to see before a thread has risen and
//! lain down again; but for what is kept outside of mailboxes, which other threads take out too: so it looks again after
//! [`AGAIN`] in any case.

use super::host::Host;
use crate::clock::{Moment, instant_now};
use crate::manual::Driven;
use crate::pid::Pid;
use crate::sync::{Ordering, fence, lock, wait_for};
use crate::table::Slot;
use std::time::{Duration, Instant};

/// After what time it looks again in any case.
const AGAIN: Duration = Duration::from_millis(100);

/// How many processes are named that had not finished.
const NAMED: usize = 5;

/// What part of a drain's time is kept for the shutdown after it, so that processes can clean up although the drain has not come
/// to its end.
const CLEAN_UP: u32 = 10;

/// How long a drain of so much time in all waits for what is queued.
pub(super) fn share(deadline: Duration) -> Duration {
    deadline - deadline / CLEAN_UP
}

impl Host {
    /// Waits until the host is drained, or until then. Gives some of the processes that had not finished, if it is not.
    pub(super) fn finish_work(&'static self, until: Option<Instant>) -> Result<(), Vec<(Pid, &'static str)>> {
        self.quiet.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let is_drained = self.wait_until_drained(until);
        self.quiet.waiting.fetch_sub(1, Ordering::SeqCst);
        if is_drained {
            return Ok(());
        }
        let at_work = self.at_work().filter(|slot| slot.living().is_some());
        let unfinished = at_work.chain(self.unfinished()).take(NAMED);
        Err(self.named(unfinished.collect()))
    }

    fn wait_until_drained(&'static self, until: Option<Instant>) -> bool {
        loop {
            let settled = self.settled();
            if settled.is_some() && self.has_finished() && self.settled() == settled {
                return true;
            }
            let rest = until.map_or(AGAIN, |until| until.saturating_duration_since(instant_now()).min(AGAIN));
            if rest.is_zero() {
                return false;
            }
            let guard = lock(&self.quiet.lock);
            // If not, it has moved since, and perhaps come to rest.
            if self.settled() == settled {
                drop(wait_for(&self.quiet.changed, guard, rest));
            }
        }
    }

    /// D1 and D3.
    fn settled(&self) -> Option<u64> {
        let number = self.at_rest()?;
        let is_settled =
            self.next_timer() > Moment::now_by(self.told) && self.idle.without_worker().is_empty() && self.posts.all_rest();
        is_settled.then_some(number)
    }

    /// D2.
    fn has_finished(&'static self) -> bool {
        self.unfinished().next().is_none() && self.backlogs.are_empty()
    }

    fn unfinished(&'static self) -> impl Iterator<Item = &'static Slot> {
        self.slots().filter(|slot| slot.has_work_left())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_time_is_left_for_the_clean_up() {
        assert_eq!(share(Duration::from_secs(10)), Duration::from_secs(9));
        assert_eq!(share(Duration::ZERO), Duration::ZERO);
        assert!(share(Duration::MAX) > Duration::MAX / 2);
    }
}
