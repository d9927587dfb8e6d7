//! Incidents of a host (abnormal ends, stalls and dead letters), kept for observers.
//!
//! Nothing is kept while there is no observer: each incident then costs one load. A ring contains text and numbers,
//! never user values, so that no user code runs where a ring is read, or where a later entry displaces an earlier one.
//! The `Display` of a reason is called where the process ends, under guard and without a lock. A worker never waits for
//! a ring: an incident that finds the ring locked is counted, but not kept.

use crate::call::dead_letter::{DeadLetter, DeadLetterReason};
use crate::engine::watchdog::report::Stall;
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, lock, try_lock};
use crate::util::panics::Shown;
use std::collections::VecDeque;
use std::panic::Location;
use std::time::Instant;

/// Maximum number of bytes of a reason that are kept.
const REASON_BYTES: usize = 1 << 10;

/// The end of a process for a reason other than [`Normal`](ExitReason::Normal) or [`Shutdown`](ExitReason::Shutdown).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AbnormalEnd {
    /// The time just after its state was dropped.
    pub at: Instant,
    /// Its PID.
    pub pid: Pid,
    /// The name of its type.
    pub process: &'static str,
    /// The entry that it was spawned with.
    pub entry: &'static str,
    /// Its label, if it had one.
    pub label: Option<Arc<str>>,
    /// The process that spawned it, if one did.
    pub parent: Option<Pid>,
    /// The source location of the spawn, if known.
    pub place: Option<&'static Location<'static>>,
    /// The reason, truncated to at most 1 KiB.
    pub reason: String,
    /// The type of the message that it was handling when it failed.
    pub message: Option<&'static str>,
    /// The processes that were notified: those linked with it, then those that monitored it.
    pub told: Vec<Pid>,
    /// Whether it had a supervisor. If so, the supervisor was notified.
    pub supervised: bool,
}

/// A [stall](Stall), as it was most recently reported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeptStall {
    /// The time at which the stall, or its end, was detected.
    pub at: Instant,
    /// The label of the process.
    pub label: Option<Arc<str>>,
    /// The report.
    pub stall: Stall,
}

/// A [dead letter](DeadLetter), without the message itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostMessage {
    /// The time at which it was lost.
    pub at: Instant,
    /// The process that sent it, if the runtime knows it: see [`DeadLetter::from`].
    pub from: Option<Pid>,
    /// The PID that it was sent to.
    pub to: Pid,
    /// The name of that process's type, if the process is or was in this program and its slot has not been reused.
    pub process: Option<&'static str>,
    /// The label of that process, if it is alive.
    pub label: Option<Arc<str>>,
    /// The type of the message.
    pub message: &'static str,
    /// Why it was lost.
    pub reason: DeadLetterReason,
}

/// The latest incidents of one kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recent<T> {
    /// Number of incidents since the observation began, including those that were not kept.
    pub total: u64,
    /// The latest incidents, oldest first.
    pub kept: Vec<Arc<T>>,
}

struct RecentRing<T>(Mutex<RecentState<T>>);

struct RecentState<T> {
    total: u64,
    kept: VecDeque<Arc<T>>,
}

impl<T> RecentRing<T> {
    fn new() -> Self {
        Self(Mutex::new(RecentState { total: 0, kept: VecDeque::new() }))
    }

    fn recent(&self) -> Recent<T> {
        let state = lock(&self.0);
        Recent { total: state.total, kept: state.kept.iter().cloned().collect() }
    }

    /// Stores an entry. If `replaces` holds for earlier entries, the new one takes the place of the last of them.
    fn keep(&self, most: usize, missed: &AtomicUsize, entry: &Arc<T>, replaces: impl Fn(&T) -> bool) {
        let Some(mut state) = try_lock(&self.0) else {
            missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if let Some(before) = state.kept.iter_mut().rev().find(|before| replaces(before)) {
            *before = entry.clone();
            return;
        }
        state.total += 1;
        if state.kept.len() >= most {
            state.kept.pop_front();
        }
        if most > 0 {
            state.kept.push_back(entry.clone());
        }
    }
}

/// The rings of one observer.
pub(crate) struct IncidentRings {
    most: usize,
    /// Number of incidents that found a ring locked.
    missed: AtomicUsize,
    ends: RecentRing<AbnormalEnd>,
    stalls: RecentRing<KeptStall>,
    lost: RecentRing<LostMessage>,
}

impl IncidentRings {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            missed: AtomicUsize::new(0),
            ends: RecentRing::new(),
            stalls: RecentRing::new(),
            lost: RecentRing::new(),
        }
    }

    pub(crate) fn ends(&self) -> Recent<AbnormalEnd> {
        self.ends.recent()
    }

    pub(crate) fn stalls(&self) -> Recent<KeptStall> {
        self.stalls.recent()
    }

    pub(crate) fn lost(&self) -> Recent<LostMessage> {
        self.lost.recent()
    }

    pub(crate) fn missed(&self) -> usize {
        self.missed.load(Ordering::Relaxed)
    }
}

/// The observers of a host. By the time that an observer stops, the record may belong to another host.
#[derive(Default)]
pub(crate) struct IncidentWatchers {
    count: AtomicUsize,
    rings: Mutex<Vec<Arc<IncidentRings>>>,
}

impl IncidentWatchers {
    pub(crate) fn add(&self, rings: Arc<IncidentRings>) {
        let mut all = lock(&self.rings);
        all.push(rings);
        self.count.store(all.len(), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, rings: &Arc<IncidentRings>) {
        let mut all = lock(&self.rings);
        all.retain(|other| !Arc::ptr_eq(other, rings));
        self.count.store(all.len(), Ordering::Relaxed);
    }

    /// Removes the observers of an ended host.
    pub(crate) fn clear(&self) {
        lock(&self.rings).clear();
        self.count.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    fn each(&self, keep: impl Fn(&IncidentRings)) {
        let all = lock(&self.rings).clone();
        all.iter().for_each(|rings| keep(rings));
    }

    pub(crate) fn ended(&self, end: AbnormalEnd) {
        let end = Arc::new(end);
        self.each(|rings| rings.ends.keep(rings.most, &rings.missed, &end, |_| false));
    }

    pub(crate) fn stalled(&self, stall: KeptStall) {
        let stall = Arc::new(stall);
        // The report that a stall is over replaces the report of its beginning.
        let is_same =
            |before: &KeptStall| stall.stall.is_over && !before.stall.is_over && before.stall.pid == stall.stall.pid;
        self.each(|rings| rings.stalls.keep(rings.most, &rings.missed, &stall, is_same));
    }

    pub(crate) fn lost(&self, message: LostMessage) {
        let message = Arc::new(message);
        self.each(|rings| rings.lost.keep(rings.most, &rings.missed, &message, |_| false));
    }
}

/// Returns the text of a reason, truncated. The `Display` of a user's error may panic, or its text may be long.
pub(crate) fn reason_text(reason: &ExitReason) -> String {
    let mut text = Shown(reason).to_string();
    if text.len() > REASON_BYTES {
        text.truncate(text.floor_char_boundary(REASON_BYTES));
        text.push('…');
    }
    text
}

/// Returns the entry for a dead letter.
pub(crate) fn lost_message(
    letter: &DeadLetter,
    at: Instant,
    process: Option<&'static str>,
    label: Option<Arc<str>>,
) -> LostMessage {
    let DeadLetter { to, from, message, reason, .. } = letter;
    LostMessage { at, from: *from, to: *to, process, label, message: message.type_name(), reason: *reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_the_last_and_counts_all() {
        let (ring, missed) = (RecentRing::new(), AtomicUsize::new(0));
        (0..10).for_each(|number| ring.keep(3, &missed, &Arc::new(number), |_| false));
        let recent = ring.recent();
        assert_eq!((recent.total, recent.kept.iter().map(|kept| **kept).collect::<Vec<_>>()), (10, vec![7, 8, 9]));
        // A replacement does not add an entry, and does not move to the end.
        ring.keep(3, &missed, &Arc::new(80), |before| *before == 8);
        let recent = ring.recent();
        assert_eq!((recent.total, recent.kept.iter().map(|kept| **kept).collect::<Vec<_>>()), (10, vec![7, 80, 9]));
    }

    #[test]
    fn no_thread_waits_for_a_ring() {
        let (ring, missed) = (RecentRing::new(), AtomicUsize::new(0));
        let locked = lock(&ring.0);
        ring.keep(3, &missed, &Arc::new(1), |_| false);
        drop(locked);
        assert_eq!((ring.recent().total, missed.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn a_long_reason_is_cut_between_two_letters() {
        let text = reason_text(&ExitReason::error("ä".repeat(2_000)));
        assert!(text.len() <= REASON_BYTES + '…'.len_utf8() && text.ends_with('…'), "{}", text.len());
    }
}
