//! The queue of a transport, as seen by the senders that wait for room in it.
//!
//! # Why no wake-up is lost
//!
//! A transport without room refuses a package and calls `set_full`, both under its own lock. When there is room again,
//! it records that under its lock and calls `set_room` afterwards. A sender that was refused joins the list under the
//! lock of the queue, and only while the queue is full. Suppose that room appears between the refusal and the joining.
//! Then `set_room` comes either before the joining, which finds that the queue is not full, or after it, and resumes
//! the sender. The end of a connection must call `set_room` too: the next attempt to send then detects the end.
//!
//! If the transport becomes full again before it calls `set_room`, that call marks a full queue as one with room. A
//! sender that was refused then does not wait but retries, and is refused again, which marks the queue as full again.

use crate::sync::{Arc, Mutex, lock};
use std::collections::VecDeque;

/// A sender that waits for room in the queue of a transport: a suspended process, a thread or a task.
pub(crate) trait RoomListener: Send {
    /// Resumes the listener, since there may be room. Returns whether it was still waiting.
    fn resume(self: Box<Self>) -> bool;

    /// Returns whether the listener may still be waiting.
    fn is_wanted(&self) -> bool;

    /// Returns the number of the suspension, if the listener is a process.
    fn suspension(&self) -> Option<u64>;
}

/// The queue of senders that wait for room in a [`Transport`](super::Transport).
///
/// The transport owns it and reports when it is [full](Self::set_full) and when it [has room](Self::set_room). The
/// runtime adds the processes that it suspends, and the threads and tasks that wait.
///
/// Call `set_full` under the lock under which the transport refuses a package. Call `set_room` and
/// [`resume`](Self::resume) without that lock, since they wake threads and tasks. Each `set_full` must eventually be
/// followed by a `set_room`, even if the connection is lost.
#[derive(Clone, Default)]
pub struct TransportQueue(Arc<Mutex<WaitingRoom>>);

#[derive(Default)]
struct WaitingRoom {
    is_full: bool,
    listeners: VecDeque<Box<dyn RoomListener>>,
}

impl TransportQueue {
    /// Creates a queue that has room.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that the transport has refused a package: from here on, senders wait.
    pub fn set_full(&self) {
        lock(&self.0).is_full = true;
    }

    /// Records that there is room, and resumes all waiting senders.
    pub fn set_room(&self) {
        let mut waiting = lock(&self.0);
        waiting.is_full = false;
        let listeners = std::mem::take(&mut waiting.listeners);
        drop(waiting);
        listeners.into_iter().for_each(|listener| _ = listener.resume());
    }

    /// Resumes up to `most` senders, beginning with those that have waited longest. The queue still counts as full.
    /// Returns the number of senders that still wait.
    pub fn resume(&self, most: usize) -> usize {
        let mut resumed = 0;
        loop {
            let mut waiting = lock(&self.0);
            let first = if resumed < most { waiting.listeners.pop_front() } else { None };
            let left = waiting.listeners.len();
            drop(waiting);
            let Some(first) = first else { return left };
            resumed += usize::from(first.resume());
        }
    }

    /// Returns the number of waiting senders.
    pub fn waiting(&self) -> usize {
        lock(&self.0).listeners.len()
    }

    /// Adds a listener if the queue is full. Returns whether the listener has to wait.
    pub(crate) fn wait(&self, listener: impl RoomListener + 'static) -> bool {
        let mut waiting = lock(&self.0);
        if !waiting.is_full {
            return false;
        }
        let unwanted = match waiting.listeners.len() == waiting.listeners.capacity() {
            // Listeners that gave up are removed whenever the list would grow.
            true => {
                let all = std::mem::take(&mut waiting.listeners);
                let (wanted, unwanted): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(|it| it.is_wanted());
                waiting.listeners = wanted;
                unwanted
            }
            false => VecDeque::new(),
        };
        waiting.listeners.push_back(Box::new(listener));
        drop(waiting);
        // They are dropped outside the lock, because a listener may contain a user's waker.
        drop(unwanted);
        true
    }

    /// Removes the listener of a suspension.
    pub(crate) fn forget(&self, suspension: u64) {
        let mut waiting = lock(&self.0);
        let place = waiting.listeners.iter().position(|listener| listener.suspension() == Some(suspension));
        let listener = place.and_then(|place| waiting.listeners.remove(place));
        drop(waiting);
        drop(listener);
    }
}

crate::util::debug::impl_debug!([] TransportQueue, self => "TransportQueue" { waiting: self.waiting(), .. });

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};

    /// Counts how many times it was resumed.
    struct Counts(Arc<AtomicU64>, u64, bool);

    impl RoomListener for Counts {
        fn resume(self: Box<Self>) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.2
        }

        fn is_wanted(&self) -> bool {
            self.2
        }

        fn suspension(&self) -> Option<u64> {
            Some(self.1)
        }
    }

    #[test]
    fn those_that_wait_are_resumed_once_and_in_order() {
        let (queue, counts) = (TransportQueue::new(), Arc::new(AtomicU64::new(0)));
        let wait = |number| queue.wait(Counts(counts.clone(), number, true));
        assert!(!wait(0), "there is room");
        queue.set_full();
        assert!((1..=5).all(wait));
        queue.forget(1);
        queue.forget(1);
        assert_eq!((queue.resume(2), counts.load(Ordering::Relaxed)), (2, 2));
        assert!(wait(6), "it still counts as full");
        queue.set_room();
        assert_eq!((queue.waiting(), counts.load(Ordering::Relaxed)), (0, 5));
        assert!(!wait(7));
        queue.set_room();
        assert_eq!(counts.load(Ordering::Relaxed), 5);
    }

    /// Catches: room that is given to a listener that no longer waits, while others still wait.
    #[test]
    fn one_that_has_given_up_takes_no_room() {
        let (queue, counts) = (TransportQueue::new(), Arc::new(AtomicU64::new(0)));
        queue.set_full();
        assert!(queue.wait(Counts(counts.clone(), 1, false)));
        assert!(queue.wait(Counts(counts.clone(), 2, true)));
        assert!(queue.wait(Counts(counts, 3, true)));
        assert_eq!(queue.resume(1), 1);
        // Listeners that have given up do not accumulate in memory either.
        (0..10_000).for_each(|number| _ = queue.wait(Counts(Arc::default(), number, false)));
        assert!(queue.waiting() < 100, "{}", queue.waiting());
    }
}
