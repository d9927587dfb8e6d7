//! What callbacks and users hand to the driver.

use crate::access::Answer;
use crate::clock::Moment;
use crate::engine::Change;
use crate::membership::{Finding, Identity};
use crate::names::{RegisterError, Token};
use crate::reply::Completer;
use bytes::Bytes;
use postroom::{NodeId, Pid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(any(test, feature = "test"))]
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Something to be handled by the driver.
pub(crate) enum Input {
    /// The watch of the members' records.
    Members(Change),
    /// The watch of the leases.
    Leases(Change),
    /// The watch of the names.
    Names(Change),
    /// An answer to the membership of attempt `attempt` to join.
    Found { attempt: u64, number: u64, finding: Finding },
    /// An answer to the lease of attempt `attempt` to join.
    Leased { attempt: u64, number: u64, answer: Answer },
    /// An answer to the names, and the number of the attempt to join whose record the store does not have, if it is
    /// another store.
    Named { number: u64, answer: Answer, unconfirmed: Option<u64> },
    /// A frame of a node with which there is no session.
    Stray { from: Identity, payload: Bytes },
    /// There is something to transmit to this node, or something has come of a frame.
    Ready(NodeId),
    /// Register a name.
    Register { name: String, pid: Pid, then: Completer<Result<Token, RegisterError>> },
    /// Give a name up.
    Release { name: String, pid: Pid, then: Completer<bool> },
    /// A process that holds, or is to hold, a name has ended.
    Ended(Pid),
    /// Wait for a change of the view, for at most that long.
    Wait { time: Duration, check: Check },
    /// There is something to do for the directory.
    Directory,
    /// Leave the cluster.
    Leave(Completer<()>),
}

impl Input {
    /// Answers what will not be handled any more. A wait looks once more: what it waits for, or why that will not
    /// come, may have been known before it was handed over.
    fn refuse(self) {
        if let Self::Wait { mut check, .. } = self
            && let Some(answer) = check(true)
        {
            answer();
        }
    }
}

/// Looks at the view, and is told whether the time is over. Returns what answers the wait when that has come to its
/// end; dropped instead, it is answered too. If the driver has ended it looks once more, as if its time were over.
pub(crate) type Check = Box<dyn FnMut(bool) -> Option<Box<dyn FnOnce() + Send>> + Send>;

/// The most frames of nodes without a session that may wait: a program that may publish here could send any number.
const MAX_STRAYS: usize = 1_024;

/// The queue of the driver. Bounded by what is asked for, and by [`MAX_STRAYS`].
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<InputQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct InputQueue {
    inputs: VecDeque<Input>,
    strays: usize,
    /// How many were dropped because too many waited.
    dropped: u64,
    /// When the driver wakes by itself; it is awake if there is no time.
    wakes_at: Option<Moment>,
    /// The peers whose next moment may be earlier than the driver knows, and that moment, since it last looked.
    reminders: BTreeMap<NodeId, Moment>,
    /// Wakes it, if it is a process.
    #[cfg(any(test, feature = "test"))]
    waker: Option<Waker>,
    is_closed: bool,
}

impl InputQueue {
    fn is_reminded_before(&self, until: Moment) -> bool {
        self.reminders.values().any(|at| *at < until)
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, InputQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over. After the end of the driver the input is [refused](Input::refuse), which answers it.
    pub(crate) fn push(&self, input: Input) {
        let mut queue = self.lock();
        if queue.is_closed {
            // Outside the lock: what it answers is a user's.
            drop(queue);
            return input.refuse();
        }
        if matches!(input, Input::Stray { .. }) {
            if queue.strays == MAX_STRAYS {
                queue.dropped += 1;
                return;
            }
            queue.strays += 1;
        }
        queue.inputs.push_back(input);
        self.wake(queue);
    }

    /// Wakes the driver if it sleeps: waking is a system call, whether anyone sleeps or not.
    fn wake(&self, mut queue: MutexGuard<'_, InputQueue>) {
        let is_asleep = queue.wakes_at.take().is_some();
        #[cfg(any(test, feature = "test"))]
        let waker = queue.waker.take();
        drop(queue);
        if is_asleep {
            self.arrived.notify_one();
        }
        #[cfg(any(test, feature = "test"))]
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns how many frames of nodes without a session were dropped: they are sent again.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Like [`wait`](Self::wait), for a driver that is a process, which also waits for `until`. `waits` is whether it
    /// was called before, for this wait.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn poll_wait(&self, until: Moment, waits: &mut bool, context: &Context<'_>) -> Poll<()> {
        let mut queue = self.lock();
        let is_woken = match std::mem::replace(waits, true) {
            false => queue.is_reminded_before(until),
            true => queue.wakes_at.is_none(),
        };
        if !queue.inputs.is_empty() || is_woken {
            return Poll::Ready(());
        }
        queue.wakes_at = Some(until);
        queue.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// The driver that is a process waits no more.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn awake(&self) {
        self.lock().wakes_at = None;
    }

    pub(crate) fn pop(&self) -> Option<Input> {
        let mut queue = self.lock();
        let input = queue.inputs.pop_front();
        if let Some(Input::Stray { .. }) = input {
            queue.strays -= 1;
        }
        input
    }

    /// Waits until there is an input, or something is due earlier than `until`, for at most `time`.
    pub(crate) fn wait(&self, until: Moment, time: Duration) {
        let mut queue = self.lock();
        if queue.inputs.is_empty() && !queue.is_reminded_before(until) {
            queue.wakes_at = Some(until);
            queue = self.arrived.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0;
            queue.wakes_at = None;
        }
        drop(queue);
    }

    /// Has the driver look at a peer when it next does anything, and wakes it if it would sleep past `at`.
    pub(crate) fn remind(&self, node: NodeId, at: Moment) {
        let mut queue = self.lock();
        queue.reminders.entry(node).and_modify(|before| *before = at.min(*before)).or_insert(at);
        // A driver that is awake may already have looked, but looks again before it sleeps.
        if queue.wakes_at.is_some_and(|until| at < until) {
            self.wake(queue);
        }
    }

    /// Takes the peers that the driver was reminded of.
    pub(crate) fn take_reminded(&self) -> BTreeMap<NodeId, Moment> {
        std::mem::take(&mut self.lock().reminders)
    }

    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// The driver has ended: what is queued, and what comes, is refused.
    pub(crate) fn close(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        let inputs = std::mem::take(&mut queue.inputs);
        drop(queue);
        inputs.into_iter().for_each(Input::refuse);
    }
}
