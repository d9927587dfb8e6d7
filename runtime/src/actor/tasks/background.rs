//! Futures that run beside a process's methods, and which of them want to be polled.
//!
//! A wake puts the future's row into a queue, so that a poll costs as much as there are futures that want it, however
//! many there are or have been.

use super::waker::{TableOwner, waker_of};
use crate::env::clock::Moment;
use crate::mailbox::payload::Payload;
use crate::sync::{Arc, AtomicBool, Ordering, SegQueue};
use slab::Slab;
use std::future::Future;
use std::pin::Pin;
use std::task::{Wake, Waker};

pub(crate) type BoxedFuture = Pin<Box<dyn Future<Output = Payload> + Send>>;

/// See the module.
#[derive(Default)]
pub(crate) struct Besides {
    /// `None` while the future is polled.
    rows: Slab<Option<Beside>>,
    /// How many of them act for a method.
    working: usize,
    wanted: Arc<SegQueue<usize>>,
}

/// A future that runs beside the process's methods.
pub(crate) struct Beside {
    pub(crate) row: usize,
    pub(crate) future: BoxedFuture,
    /// Which continuation gets the output.
    pub(crate) continuation: usize,
    pub(crate) acts: Acts,
    wish: Arc<WakeRequest>,
}

/// For whom a future runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Acts {
    /// For a method of the process, whose caller stops waiting then.
    Until(Option<Moment>),
    /// For a stream, whose items come as messages.
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

/// What wakes one of them. Of a future that is gone it names a row that another may have: that one is polled once too
/// often, which is harmless.
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
        // Acquire and release: what the waker did before goes before the poll that finds the row.
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.wanted.push(self.row);
        }
        self.waker.wake_by_ref();
    }
}

impl Beside {
    /// What wakes it.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(self.wish.clone())
    }
}

impl Besides {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether one of them acts for a method.
    pub(crate) fn works(&self) -> bool {
        self.working > 0
    }

    /// Adds a future, which wants to be polled.
    pub(crate) fn add(&mut self, owner: TableOwner, future: BoxedFuture, continuation: usize, acts: Acts) {
        self.working += usize::from(matches!(acts, Acts::Until(_)));
        let place = self.rows.vacant_entry();
        let (row, wanted) = (place.key(), self.wanted.clone());
        let wish = Arc::new(WakeRequest { row, queued: AtomicBool::new(true), wanted, waker: waker_of(owner) });
        place.insert(Some(Beside { row, future, continuation, acts, wish }));
        self.wanted.push(row);
    }

    /// Returns how many want to be polled. One that wakes itself while it is polled counts again.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// Takes out the next one that wants to be polled.
    pub(crate) fn take(&mut self) -> Option<Beside> {
        let beside = self.rows.get_mut(self.wanted.pop()?)?.take()?;
        // Before the poll: a wake from here on is a new wish.
        beside.wish.queued.swap(false, Ordering::AcqRel);
        Some(beside)
    }

    pub(crate) fn put_back(&mut self, beside: Beside) {
        let row = beside.row;
        self.rows[row] = Some(beside);
    }

    /// Lets go of the row of one that is ready.
    pub(crate) fn remove(&mut self, beside: &Beside) {
        self.working -= usize::from(matches!(beside.acts, Acts::Until(_)));
        self.rows.remove(beside.row);
    }
}
