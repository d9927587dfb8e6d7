//! The inputs that callbacks and users pass to the driver.

use crate::access::Answer;
use crate::clock::Moment;
use crate::membership::{Finding, Identity};
use crate::names::{RegisterError, Token};
use crate::reply::Completer;
use crate::store::Change;
use bytes::Bytes;
use postroom::{NodeId, Pid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(any(test, feature = "test"))]
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// An input to the driver.
pub(crate) enum Input {
    /// A change of the members' records.
    Members(Change),
    /// A change of the leases.
    Leases(Change),
    /// A change of the names.
    Names(Change),
    /// The answer to request `number` of the membership of attempt `attempt` to join.
    Found { attempt: u64, number: u64, finding: Finding },
    /// The answer to request `number` of the lease of attempt `attempt` to join.
    Leased { attempt: u64, number: u64, answer: Answer },
    /// The answer to request `number` of the names. If the store was replaced, `unconfirmed` is the number of the
    /// attempt to join whose record is missing from the new store.
    Named { number: u64, answer: Answer, unconfirmed: Option<u64> },
    /// A frame from a node with which there is no session.
    Stray { from: Identity, payload: Bytes },
    /// There is something to transmit to this node, or a frame from it has caused an event.
    Ready(NodeId),
    /// Registers a name.
    Register { name: String, pid: Pid, then: Completer<Result<Token, RegisterError>> },
    /// Releases a name.
    Release { name: String, pid: Pid, then: Completer<bool> },
    /// A process that holds a name, or is registering one, has ended.
    Ended(Pid),
    /// Waits for a change of the view, for at most `time`.
    Wait { time: Duration, check: Check },
    /// The directory has something to do.
    Directory,
    /// Leaves the cluster.
    Leave(Completer<()>),
}

impl Input {
    /// Answers an input that will no longer be handled. A wait checks its condition once more. The condition may have
    /// held, or may have become impossible, before the wait was pushed.
    fn refuse(self) {
        if let Self::Wait { mut check, .. } = self
            && let Some(answer) = check(true)
        {
            answer();
        }
    }
}

/// A check of the view, for a wait. Its argument is true when the time of the wait is over. Once the wait has ended,
/// the check returns a function that answers the wait; dropping the check answers the wait, too. When the driver has
/// ended, the check runs once more, as if the time were over.
pub(crate) type Check = Box<dyn FnMut(bool) -> Option<Box<dyn FnOnce() + Send>> + Send>;

/// Maximum number of queued frames from nodes without a session: without a limit, a program that may publish here could
/// queue any number of them.
const MAX_STRAYS: usize = 1_024;

/// The queue of the driver. It is bounded by the number of open requests, and by [`MAX_STRAYS`].
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<InputQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct InputQueue {
    inputs: VecDeque<Input>,
    strays: usize,
    /// Number of frames that were dropped because too many were queued.
    dropped: u64,
    /// The time at which the driver wakes by itself; `None` while it is awake.
    wakes_at: Option<Moment>,
    /// The peers whose next timeout may have become earlier since the driver last checked, with that timeout.
    reminders: BTreeMap<NodeId, Moment>,
    /// Wakes the driver if it runs as a process, as it does in simulated tests.
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

    /// Passes an input to the driver. After the end of the driver the input is [refused](Input::refuse), which
    /// answers it.
    pub(crate) fn push(&self, input: Input) {
        let mut queue = self.lock();
        if queue.is_closed {
            // The lock is released first, since the answer may run user code.
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

    /// Wakes the driver, but only if it sleeps: a notification is a system call even if no thread waits.
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

    /// Returns the number of dropped frames from nodes without a session. Such frames are sent again.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Like [`wait`](Self::wait), but for a driver that runs as a process, and that sleeps until `until` by itself.
    /// `waits` must be false for the first poll of a wait.
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

    /// Ends the wait of a driver that runs as a process.
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

    /// Makes the driver check a peer in its next turn, and wakes it if it would sleep past `at`.
    pub(crate) fn remind(&self, node: NodeId, at: Moment) {
        let mut queue = self.lock();
        queue.reminders.entry(node).and_modify(|before| *before = at.min(*before)).or_insert(at);
        // A driver that is awake may already have checked the peer, but it reads the reminders before it sleeps.
        if queue.wakes_at.is_some_and(|until| at < until) {
            self.wake(queue);
        }
    }

    /// Returns the peers that the driver was reminded of, and clears the reminders.
    pub(crate) fn take_reminded(&self) -> BTreeMap<NodeId, Moment> {
        std::mem::take(&mut self.lock().reminders)
    }

    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Refuses all queued and future inputs: the driver has ended.
    pub(crate) fn close(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        let inputs = std::mem::take(&mut queue.inputs);
        drop(queue);
        inputs.into_iter().for_each(Input::refuse);
    }
}
