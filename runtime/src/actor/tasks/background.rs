//! Futures that run beside a process's methods, and the queue of those to poll.
//!
//! A wake-up enqueues the future's row, so the cost of polling depends on the number of woken futures, not on the
//! total.

use super::waker::waker_of;
use crate::sync::{Arc, AtomicBool, Ordering, SegQueue};
use crate::{Payload, env::clock::Moment};
use slab::Slab;
use std::task::{Wake, Waker};
use std::{future::Future, pin::Pin};

pub(crate) type BoxedFuture = Pin<Box<dyn Future<Output = Payload> + Send>>;

#[derive(Default)]
pub(crate) struct BackgroundFutures {
    /// `None` while the future is being polled.
    rows: Slab<Option<BackgroundFuture>>,
    /// The number of futures that were started by a method.
    working: usize,
    wanted: Arc<SegQueue<usize>>,
}

pub(crate) struct BackgroundFuture {
    pub(crate) row: usize,
    pub(crate) future: BoxedFuture,
    /// The index of the continuation that receives the output.
    pub(crate) continuation: usize,
    pub(crate) acts: Acts,
    request: Arc<WakeRequest>,
}

/// The purpose of a background future.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Acts {
    /// Started by a method; carries the deadline of the method's caller.
    Until(Option<Moment>),
    /// Pumps a stream whose items become messages.
    ForStream,
}

impl Acts {
    pub(crate) fn deadline(self) -> Option<Moment> {
        match self {
            Self::Until(deadline) => deadline,
            Self::ForStream => None,
        }
    }
}

/// The state shared with a future's wakers. If the future is gone, another future may have its row. A late wake-up then
/// polls that other future once more than necessary.
struct WakeRequest {
    row: usize,
    queued: AtomicBool,
    wanted: Arc<SegQueue<usize>>,
    waker: Waker,
}

impl Wake for WakeRequest {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Acquire and release: writes before the wake-up happen before the poll that finds the row.
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.wanted.push(self.row);
        }
        self.waker.wake_by_ref();
    }
}

impl BackgroundFuture {
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(self.request.clone())
    }
}

impl BackgroundFutures {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn works(&self) -> bool {
        self.working > 0
    }

    pub(crate) fn add(&mut self, incarnation: u64, future: BoxedFuture, continuation: usize, acts: Acts) {
        self.working += usize::from(matches!(acts, Acts::Until(_)));
        let place = self.rows.vacant_entry();
        let (row, wanted) = (place.key(), self.wanted.clone());
        let waker = waker_of(incarnation);
        let request = Arc::new(WakeRequest { row, queued: AtomicBool::new(true), wanted, waker });
        place.insert(Some(BackgroundFuture { row, future, continuation, acts, request }));
        self.wanted.push(row);
    }

    pub(crate) fn into_futures(self) -> impl Iterator<Item = BackgroundFuture> {
        self.rows.into_iter().filter_map(|(_, background)| background)
    }

    /// Returns the number of enqueued futures. A future that wakes itself while it is polled counts again.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted.len()
    }

    pub(crate) fn take(&mut self) -> Option<BackgroundFuture> {
        let background = self.rows.get_mut(self.wanted.pop()?)?.take()?;
        // Cleared before the poll: a wake-up from here on enqueues the future again.
        background.request.queued.swap(false, Ordering::AcqRel);
        Some(background)
    }

    pub(crate) fn put_back(&mut self, background: BackgroundFuture) {
        let row = background.row;
        self.rows[row] = Some(background);
    }

    pub(crate) fn remove(&mut self, background: &BackgroundFuture) {
        self.working -= usize::from(matches!(background.acts, Acts::Until(_)));
        self.rows.remove(background.row);
    }
}
