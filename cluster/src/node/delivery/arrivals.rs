//! The queue of the delivery, and how what is put into it wakes the delivery.

use super::Delivery;
use crate::frame::Table;
use crate::node::overflow::Room;
use crate::node::peer::Peer;
use crate::reply::Completer;
use crate::session::Item;
use postroom::routing::Answerer;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(any(test, feature = "test"))]
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What follows when the policy has allowed something, or not.
pub(crate) type AfterDecision = Box<dyn FnOnce(&mut Delivery, bool) + Send>;

/// What the driver hands over, in order.
pub(crate) enum Arrival {
    /// A session begins: processes may send there.
    Begun(Arc<Peer>),
    /// The session is open: the peer has this table.
    Opened(Arc<Peer>, Table),
    /// A message of a session.
    Item(Arc<Peer>, Item),
    /// The policy has decided on something that the peer has asked: whether it is allowed, and what follows.
    Decided(Arc<Peer>, bool, AfterDecision),
    /// There is room for some that wait to send.
    Room(Room),
    /// Calls to a peer whose callers have given up, to be dropped here: a pool goes on by that.
    Abandoned(Vec<Answerer>),
    /// The session is over.
    Ended(Arc<Peer>),
    /// The node leaves, behind all that has arrived.
    Closed(Vec<Completer<()>>),
}

/// The queue of the delivery. Bounded by the windows of the sessions.
#[derive(Default)]
pub(crate) struct Arrivals {
    queue: Mutex<ArrivalQueue>,
    arrived: Condvar,
    /// Wakes a delivery that is a process.
    #[cfg(any(test, feature = "test"))]
    waker: Mutex<Option<Waker>>,
}

#[derive(Default)]
struct ArrivalQueue {
    arrivals: VecDeque<Arrival>,
    /// The delivery sleeps, and has not been woken. Waking costs a system call, even when no thread sleeps.
    is_waiting: bool,
    /// The delivery has ended.
    is_closed: bool,
}

/// Wakes the delivery when it is dropped, if something was put into its queue that it sleeps for.
///
/// For those that hold the lock of a peer, which the delivery takes first of all: woken earlier, it would have to sleep
/// again.
pub(crate) struct WakeLater<'a> {
    arrivals: &'a Arrivals,
    is_due: bool,
}

impl WakeLater<'_> {
    pub(crate) fn push(&mut self, arrival: Arrival) {
        let mut queue = self.arrivals.lock();
        if queue.is_closed && matches!(arrival, Arrival::Decided(..)) {
            // By a policy that has blocked until the node had left. Without the lock: it may hold a user's values.
            drop(queue);
            return drop(arrival);
        }
        queue.arrivals.push_back(arrival);
        self.is_due |= std::mem::take(&mut queue.is_waiting);
        #[cfg(any(test, feature = "test"))]
        {
            self.is_due |= self.arrivals.waker().is_some();
        }
    }
}

impl Drop for WakeLater<'_> {
    fn drop(&mut self) {
        if self.is_due {
            self.arrivals.arrived.notify_one();
            #[cfg(any(test, feature = "test"))]
            self.arrivals.waker().take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, ArrivalQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before the lock is taken that the wake-up is to come behind.
    pub(crate) fn wake_later(&self) -> WakeLater<'_> {
        WakeLater { arrivals: self, is_due: false }
    }

    pub(crate) fn push(&self, arrival: Arrival) {
        self.wake_later().push(arrival);
    }

    #[cfg(any(test, feature = "test"))]
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like `wait`, for a delivery that is a process.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn poll_wait(&self, context: &Context<'_>) -> Poll<()> {
        *self.waker() = Some(context.waker().clone());
        if self.lock().arrivals.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// The delivery ends. Returns what has come behind that, to be dropped without the lock.
    pub(super) fn close(&self) -> VecDeque<Arrival> {
        let mut queue = self.lock();
        queue.is_closed = true;
        std::mem::take(&mut queue.arrivals)
    }

    pub(super) fn pop(&self) -> Option<Arrival> {
        self.lock().arrivals.pop_front()
    }

    /// Waits until there is something, for at most `time`; `None` is without a limit.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if what is put into the queue does not wake the one that sleeps, or if the flag outlives a sleep.
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
                let mut wake = arrivals.wake_later();
                let held = lock.lock().unwrap();
                // In some rounds it sleeps by then, in some not yet.
                std::thread::yield_now();
                wake.push(Arrival::Closed(Vec::new()));
                drop((held, wake));
                waiting.join().unwrap();
            }
        });
        arrivals.wait(Some(Duration::ZERO));
        assert!(!arrivals.lock().is_waiting);
    }
}
