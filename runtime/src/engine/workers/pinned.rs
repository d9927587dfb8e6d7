//! The records of pinned processes' threads: each owns a slot and has an inbox. See `engine/pinned` for their use.

use super::worker::Worker;
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::process::body::Body;
use crate::slots::{Schedule, SlotOwner, TABLE, Token};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, OnceLock, Ordering, lock, wait};
use crate::util::oneshot::Oneshot;

/// The record of a pinned process's thread. It is never freed, like a host's record, since a late sender may read it.
pub(crate) struct PinnedThread {
    /// The record that every thread has, with the process that it runs and its counters.
    pub(crate) thread: Worker,
    slot_owner: OnceLock<&'static SlotOwner>,
    in_use: AtomicBool,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
}

#[derive(Default)]
struct Inbox {
    work: Option<Work>,
    /// Whether the thread waits for work, or does not exist.
    rests: bool,
    /// Whether the thread should wake up once even if there is no work.
    looks: bool,
    /// Number of times that the thread has been given work.
    rises: u64,
    /// The process, once it has had a time slice.
    runs: Option<Pid>,
}

pub(crate) enum Work {
    Slice(Token),
    /// The start has failed: close and drop the state, and report a panic of either.
    Close(Body, ExitReason, Arc<Oneshot<Option<ExitReason>>>),
    /// The start has failed without making a state.
    Leave,
}

impl Inbox {
    /// Returns whether there is work that may be done now. (On a paused host a process is started, and then waits.)
    fn is_ready(&self, is_paused: impl Fn() -> bool) -> bool {
        match &self.work {
            Some(Work::Slice(_)) => !is_paused(),
            Some(_) => true,
            None => false,
        }
    }
}

#[derive(Default)]
pub(crate) struct PinnedThreads(Mutex<PinnedLists>);

#[derive(Default)]
struct PinnedLists {
    all: Vec<&'static PinnedThread>,
    free: Vec<&'static PinnedThread>,
}

impl PinnedThreads {
    /// Returns a free record, or a new one.
    pub(crate) fn take(&self, host: &'static SlotOwner) -> &'static PinnedThread {
        let mut lists = lock(&self.0);
        if let Some(pinned_thread) = lists.free.pop() {
            pinned_thread.in_use.store(true, Ordering::Relaxed);
            return pinned_thread;
        }
        let pinned_thread: &'static PinnedThread = Box::leak(Box::new(PinnedThread {
            thread: Worker::new(),
            slot_owner: OnceLock::new(),
            in_use: AtomicBool::new(true),
            inbox: Mutex::new(Inbox { rests: true, ..Inbox::default() }),
            arrived: Condvar::new(),
        }));
        let slot_owner: &'static SlotOwner = Box::leak(Box::new(host.beside(pinned_thread)));
        let _first = pinned_thread.slot_owner.set(slot_owner);
        lists.all.push(pinned_thread);
        pinned_thread
    }

    pub(crate) fn give_back(&self, pinned_thread: &'static PinnedThread) {
        pinned_thread.in_use.store(false, Ordering::Relaxed);
        lock(&self.0).free.push(pinned_thread);
    }

    pub(crate) fn all(&self) -> Vec<&'static PinnedThread> {
        lock(&self.0).all.clone()
    }

    /// Returns how many pinned processes are alive, starting or ending.
    pub(crate) fn count(&self) -> usize {
        let lists = lock(&self.0);
        lists.all.len() - lists.free.len()
    }

    /// Returns how many times the threads have got work or have rested in a wait, if all of them are at rest.
    pub(crate) fn at_rest(&self) -> Option<u64> {
        self.all().into_iter().try_fold(0, |sum: u64, pinned_thread| Some(sum.wrapping_add(pinned_thread.at_rest()?)))
    }

    /// Allows time slices, since the host has been started.
    pub(crate) fn resume(&self) {
        for pinned_thread in self.all() {
            // A thread that found the host paused under this lock is waiting by now.
            drop(lock(&pinned_thread.inbox));
            pinned_thread.arrived.notify_all();
        }
    }
}

impl PinnedThread {
    pub(crate) fn slot_owner(&self) -> &'static SlotOwner {
        self.slot_owner.get().unwrap_or_else(|| unreachable!("set when the pinned_thread was made"))
    }

    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Returns how many completions and signals came too late for the thread's processes.
    pub(crate) fn late(&self) -> u64 {
        self.slot_owner().late.load(Ordering::Relaxed)
    }

    pub(crate) fn give(&self, work: Work) {
        let mut inbox = lock(&self.inbox);
        debug_assert!(inbox.work.is_none(), "a process has one token");
        inbox.work = Some(work);
        inbox.rests = false;
        inbox.rises += 1;
        drop(inbox);
        self.arrived.notify_all();
    }

    /// Takes the work, unless it is a time slice and the host is paused. Calls `rests` when the thread comes to rest.
    pub(crate) fn try_take(&self, is_paused: impl Fn() -> bool, rests: impl Fn()) -> Option<Work> {
        let mut inbox = lock(&self.inbox);
        loop {
            if inbox.is_ready(&is_paused) {
                return inbox.work.take();
            }
            if inbox.rests {
                return None;
            }
            inbox.rests = true;
            // Called outside the lock: `rests` may lead to a check of whether all threads are at rest, and that check
            // takes the same lock.
            drop(inbox);
            rests();
            inbox = lock(&self.inbox);
        }
    }

    /// Blocks the thread until [`try_take`](Self::try_take) returns something, or until it is [nudged](Self::nudge).
    pub(crate) fn wait(&self, is_paused: impl Fn() -> bool) {
        let mut inbox = lock(&self.inbox);
        while !inbox.is_ready(&is_paused) && !std::mem::take(&mut inbox.looks) {
            inbox = wait(&self.arrived, inbox);
        }
    }

    /// Makes a thread that waits for work check for other requests once.
    pub(crate) fn nudge(&'static self) {
        lock(&self.inbox).looks = true;
        self.arrived.notify_all();
    }

    /// Returns a number that changes whenever the thread does anything; `None` while it is not at rest.
    fn at_rest(&self) -> Option<u64> {
        let inbox = lock(&self.inbox);
        let (rests, rises) = (inbox.rests, inbox.rises);
        drop(inbox);
        (rests || self.thread.is_at_rest()).then(|| rises.wrapping_add(self.thread.rests()))
    }

    /// Returns whether the process has had a time slice, and has ended in it: no other thread can end it.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.inbox).runs.is_some_and(|pid| TABLE.living(pid).is_none())
    }

    pub(crate) fn runs(&self, pid: Option<Pid>) {
        lock(&self.inbox).runs = pid;
    }

    /// Records that the thread is being started, with work to do.
    pub(crate) fn begins(&self) {
        lock(&self.inbox).rests = false;
    }

    pub(crate) fn ends(&self) {
        let mut inbox = lock(&self.inbox);
        (inbox.rests, inbox.runs) = (true, None);
    }
}

impl Schedule for PinnedThread {
    fn wake(&'static self, token: Token) {
        self.give(Work::Slice(token));
    }
}
