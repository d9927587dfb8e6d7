//! The queue of the delivery, and its wake-up.

use super::answers::AskAnswer;
use crate::engine::Lane;
use crate::envelope::AskKind;
use crate::frame::Table;
use crate::node::overflow::Room;
use crate::node::peer::{Arriving, Peer};
use crate::reply::Completer;
use crate::session::Item;
use bytes::Bytes;
use postroom::Pid;
use postroom::routing::Answerer;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(any(test, feature = "test"))]
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The action that follows the policy's decision on a request.
pub(crate) enum AfterDecision {
    /// Perform a request about a process, or deny it.
    Ask { to: Pid, ask: (AskKind, Bytes), lane: Lane, answer: AskAnswer },
    /// Call this function with the decision.
    Other(Box<dyn FnOnce(bool) + Send>),
}

/// An input to the delivery. Inputs are handled in order.
pub(crate) enum Arrival {
    /// A session begins: processes may send to the peer.
    Begun(Arc<Peer>),
    /// The session is open, and the peer has this table.
    Opened(Arc<Peer>, Table),
    /// A message of a session.
    Item(Arc<Peer>, Item),
    /// The policy has decided whether a request from the peer is allowed.
    Decided(Arc<Peer>, bool, AfterDecision),
    /// There is room for senders that wait.
    Room(Room),
    /// Abandoned calls to a peer: their callers have given up. The delivery drops them, since dropping them may resume
    /// a pool.
    Abandoned(Vec<Answerer>),
    /// The session is over.
    Ended(Arc<Peer>),
    /// The node leaves. Handled after everything that has arrived.
    Closed(Vec<Completer<()>>),
}

/// The queue of the delivery. It is bounded by the windows of the sessions.
#[derive(Default)]
pub(crate) struct Arrivals {
    queue: Mutex<ArrivalQueue>,
    arrived: Condvar,
    /// Wakes the delivery if it runs as a process, as it does in simulated tests.
    #[cfg(any(test, feature = "test"))]
    waker: Mutex<Option<Waker>>,
}

#[derive(Default)]
struct ArrivalQueue {
    arrivals: VecDeque<Arrival>,
    /// Whether the delivery sleeps and has not been woken. Only then is it woken, since a wake-up is a system call even
    /// when no thread sleeps.
    is_waiting: bool,
    /// Whether the delivery has ended.
    is_closed: bool,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, ArrivalQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an input. Returns whether the delivery must be [woken](Self::wake).
    fn add(&self, arrival: Arrival) -> bool {
        let mut queue = self.lock();
        // Each peer owns this queue, so a peer in a queue that no one empties any more would never be freed. Room and
        // abandoned calls come under the lock of a peer, where dropping them might run user code.
        if queue.is_closed && !matches!(arrival, Arrival::Room(_) | Arrival::Abandoned(_)) {
            // A decision of a policy that blocked until the node had left may contain user values.
            drop(queue);
            drop(arrival);
            return false;
        }
        queue.arrivals.push_back(arrival);
        let is_due = std::mem::take(&mut queue.is_waiting);
        #[cfg(any(test, feature = "test"))]
        let is_due = is_due | self.waker().is_some();
        is_due
    }

    pub(crate) fn push(&self, arrival: Arrival) {
        if self.add(arrival) {
            self.wake();
        }
    }

    #[cfg(any(test, feature = "test"))]
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like `wait`, but for a delivery that runs as a process.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn poll_wait(&self, context: &Context<'_>) -> Poll<()> {
        *self.waker() = Some(context.waker().clone());
        if self.lock().arrivals.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Closes the queue, because the delivery has ended. Returns the remaining inputs. They must be dropped outside the
    /// lock.
    pub(super) fn close(&self) -> VecDeque<Arrival> {
        let mut queue = self.lock();
        queue.is_closed = true;
        std::mem::take(&mut queue.arrivals)
    }

    pub(super) fn pop(&self) -> Option<Arrival> {
        self.lock().arrivals.pop_front()
    }

    /// Waits until the queue has an input, for at most `time`; `None` means no limit.
    pub(super) fn wait(&self, time: Option<Duration>) {
        let mut queue = self.lock();
        if !queue.arrivals.is_empty() {
            return;
        }
        queue.is_waiting = true;
        queue = match time {
            Some(time) => self.arrived.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0,
            None => self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner),
        };
        queue.is_waiting = false;
        drop(queue);
    }
}

impl Arriving for Arrivals {
    fn item(&self, from: Arc<Peer>, item: Item) -> bool {
        self.add(Arrival::Item(from, item))
    }

    fn room(&self, room: Room) -> bool {
        self.add(Arrival::Room(room))
    }

    fn abandoned(&self, calls: Vec<Answerer>) -> bool {
        self.add(Arrival::Abandoned(calls))
    }

    fn wake(&self) {
        self.arrived.notify_one();
        #[cfg(any(test, feature = "test"))]
        self.waker().take().into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a peer that stays in the queue after the end of the delivery.
    #[test]
    fn what_comes_after_the_end_is_dropped() {
        let arrivals = Arrivals::default();
        drop(arrivals.close());
        arrivals.push(Arrival::Closed(Vec::new()));
        assert!(arrivals.pop().is_none());
    }

    /// Fails if an input does not wake the sleeping delivery, or if `is_waiting` stays set after a sleep.
    #[test]
    fn what_arrives_wakes_the_delivery_when_the_lock_is_free() {
        let (arrivals, lock) = (Arrivals::default(), Mutex::new(()));
        std::thread::scope(|scope| {
            for _ in 0..100 {
                let waiting = scope.spawn(|| {
                    while arrivals.pop().is_none() {
                        arrivals.wait(None);
                    }
                    let _free = lock.lock().unwrap();
                });
                let held = lock.lock().unwrap();
                // In some rounds the delivery already sleeps at this point, in others it does not.
                std::thread::yield_now();
                let wakes = arrivals.add(Arrival::Closed(Vec::new()));
                drop(held);
                if wakes {
                    arrivals.wake();
                }
                waiting.join().unwrap();
            }
        });
        arrivals.wait(Some(Duration::ZERO));
        assert!(!arrivals.lock().is_waiting);
    }
}
