//! The recordings of a host. Recordings that run at the same time share one session, and with it the rings of the
//! threads.

use super::recording::{RawTrack, Recording};
use super::ring::{RECORD_BYTES, Ring};
use super::track::{SessionClock, Stamps, Track};
use crate::env::clock::{ClockOverride, Moment, instant_now};
use crate::env::ticks::{TickMark, TickSource};
use crate::pid::Pid;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, SyncSender, lock};
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Maximum number of concurrent recordings of a host.
pub(crate) const MOST_RECORDINGS: usize = 2;

/// Maximum memory of a recording in bytes.
pub(crate) const MOST_MEMORY: usize = 256 << 20;

/// Minimum memory for the ring of a thread in bytes.
pub(crate) const LEAST_THREAD_MEMORY: usize = 4096;

/// Default memory for the ring of a thread in bytes.
pub(crate) const THREAD_MEMORY: usize = 8 << 20;

/// Maximum number of samples whose times a session keeps: enough for several hours at two samples per second.
const MOST_SAMPLES: usize = 1 << 16;

/// Memory that the rings may use, in total and for each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) all: usize,
    pub(crate) thread: usize,
}

/// The recorder of a host. It is never freed, like the host's record.
#[derive(Default)]
pub(crate) struct Recorder {
    /// The number of the current session; zero while there is none.
    pub(super) current: AtomicU64,
    /// The number of the current sample. Zero while there is none; slices and messages are then not recorded.
    sample: AtomicU64,
    state: Mutex<RecorderState>,
    /// Held while threads and sends are armed or disarmed according to the recorder's state.
    fitting: Mutex<()>,
    dumps: Mutex<Vec<Arc<Dumps>>>,
}

/// The reason why a flight recorder calls its hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DumpCause {
    /// A step of this process exceeded the stall limit.
    Stalled(Pid),
    /// This supervisor gave up.
    GaveUp(Pid),
}

/// The channel to the thread that calls the hook of a flight recorder.
struct Dumps {
    causes: SyncSender<DumpCause>,
    every: Duration,
    last: Mutex<Option<Instant>>,
    skipped: Arc<AtomicU64>,
}

/// The registration of a flight recorder's hook. It ends when this is dropped.
pub(crate) struct DumpTrigger {
    recorder: &'static Recorder,
    dumps: Arc<Dumps>,
}

impl Drop for DumpTrigger {
    fn drop(&mut self) {
        lock(&self.recorder.dumps).retain(|dumps| !Arc::ptr_eq(dumps, &self.dumps));
    }
}

impl Dumps {
    /// Passes the cause on, unless the previous one was passed on too recently. Never blocks.
    fn trigger(&self, cause: DumpCause) {
        let now = instant_now();
        let mut last = lock(&self.last);
        let is_early = last.is_some_and(|last| now.saturating_duration_since(last) < self.every);
        if !is_early && self.causes.try_send(cause).is_ok() {
            *last = Some(now);
        } else {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
struct RecorderState {
    session: Option<Arc<Session>>,
    recordings: usize,
    /// Number of sessions so far.
    sessions: u64,
    /// Number of samples so far.
    samples: u64,
}

/// The times at which a session recorded slices and messages. A recording that includes such events keeps a sample
/// open; overlapping samples of several recordings count as one.
#[derive(Default)]
struct SampleTimes {
    /// Number of open samples.
    open: usize,
    /// When the first open sample began.
    since: u64,
    /// The beginnings and ends of the earlier samples, in order.
    over: VecDeque<(u64, u64)>,
}

/// The period from the beginning of the first of several overlapping recordings to the end of the last.
pub(crate) struct Session {
    recorder: &'static Recorder,
    clock: Arc<SessionClock>,
    begin: TickMark,
    memory: Memory,
    taken: AtomicUsize,
    tracks: Mutex<Vec<Arc<Track>>>,
    /// Number of records for which there was no ring.
    missed: AtomicU64,
    times: Mutex<SampleTimes>,
}

/// The state of the session when a recording began.
pub(crate) struct Begun {
    session: Arc<Session>,
    stamp: u64,
    /// The time of the host's virtual clock, if it has one.
    time: Option<Moment>,
    written: Vec<u64>,
    missed: u64,
}

impl Recorder {
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.current.load(Ordering::Relaxed) != 0
    }

    /// Returns the number of the current sample, or zero if there is none.
    pub(crate) fn sample(&self) -> u64 {
        self.sample.load(Ordering::SeqCst)
    }

    /// Returns whether frequent events are recorded, and not only rare ones.
    #[inline(always)]
    pub(crate) fn is_sampling(&self) -> bool {
        self.sample.load(Ordering::Relaxed) != 0
    }

    /// Excludes other threads from arming or disarming threads and sends.
    pub(crate) fn fit(&self) -> MutexGuard<'_, ()> {
        lock(&self.fitting)
    }

    /// Returns the current session.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        if !self.is_on() {
            return None;
        }
        lock(&self.state).session.clone()
    }

    /// Begins a recording, and the session if none runs. Frequent events are not recorded before a sample is
    /// [opened](Session::open). Returns `None` if too many recordings run.
    pub(crate) fn begin(&'static self, memory: Memory, clock: ClockOverride) -> Option<Arc<Session>> {
        let mut state = lock(&self.state);
        if state.recordings >= MOST_RECORDINGS {
            return None;
        }
        state.recordings += 1;
        if let Some(session) = &state.session {
            return Some(session.clone());
        }
        state.sessions += 1;
        let source = TickSource::choose();
        let (stamps, begin) = match clock {
            Some(clock) => (Stamps::Order(clock), TickMark::now(source)),
            None => (Stamps::Ticks(source), TickMark::now(source)),
        };
        let base = if clock.is_some() { 0 } else { begin.ticks };
        let session = Arc::new(Session {
            recorder: self,
            clock: SessionClock::new(&self.current, state.sessions, stamps, base),
            begin,
            memory,
            taken: AtomicUsize::new(0),
            tracks: Mutex::default(),
            missed: AtomicU64::new(0),
            times: Mutex::default(),
        });
        state.session = Some(session.clone());
        self.current.store(state.sessions, Ordering::SeqCst);
        Some(session)
    }

    /// Ends a recording of `session`. Returns whether it was the last, in which case the caller disarms the threads.
    pub(crate) fn end(&self, session: &Arc<Session>) -> bool {
        let mut state = lock(&self.state);
        if !state.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            // The host has ended in the meantime.
            return false;
        }
        state.recordings -= 1;
        if state.recordings > 0 {
            return false;
        }
        self.finish(&mut state);
        true
    }

    /// Passes causes for a dump to `causes`, at most one in each period of `every`, until the result is dropped.
    pub(crate) fn on_dump(
        &'static self,
        causes: SyncSender<DumpCause>,
        every: Duration,
        skipped: Arc<AtomicU64>,
    ) -> DumpTrigger {
        let dumps = Arc::new(Dumps { causes, every, last: Mutex::new(None), skipped });
        lock(&self.dumps).push(dumps.clone());
        DumpTrigger { recorder: self, dumps }
    }

    /// Makes flight recorders call their hooks. Never blocks.
    #[cold]
    pub(crate) fn dump(&self, cause: DumpCause) {
        if self.is_on() {
            lock(&self.dumps).iter().for_each(|dumps| dumps.trigger(cause));
        }
    }

    /// Ends all recordings, because the host has ended.
    pub(crate) fn reset(&self) {
        let mut state = lock(&self.state);
        state.recordings = 0;
        self.finish(&mut state);
    }

    fn finish(&self, state: &mut RecorderState) {
        state.session = None;
        self.sample.store(0, Ordering::SeqCst);
        self.current.store(0, Ordering::SeqCst);
    }
}

impl Session {
    pub(super) fn clock(&self) -> &Arc<SessionClock> {
        &self.clock
    }

    /// Creates a track for the calling thread, unless the memory is used up.
    pub(super) fn add_track(self: &Arc<Self>) -> Option<Arc<Track>> {
        let Memory { all, thread } = self.memory;
        let more = |taken: usize| taken.checked_add(thread).filter(|sum| *sum <= all);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let track = Arc::new(Track::new(self.clock.clone(), Ring::new(thread / RECORD_BYTES)));
        lock(&self.tracks).push(track.clone());
        Some(track)
    }

    /// Opens a sample: slices and messages are recorded until [`close`](Self::close) has been called as many times as
    /// `open`. The caller then arms threads and sends.
    pub(crate) fn open(self: &Arc<Self>) {
        let mut state = lock(&self.recorder.state);
        let mut times = lock(&self.times);
        times.open += 1;
        if times.open == 1 && state.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, self)) {
            // The time is read before the threads record, so that all their records are within the sample.
            times.since = self.clock.stamp();
            state.samples += 1;
            self.recorder.sample.store(state.samples, Ordering::SeqCst);
        }
    }

    /// Closes a sample. Returns whether it was the last open one, in which case the caller disarms threads and sends.
    pub(crate) fn close(self: &Arc<Self>) -> bool {
        let state = lock(&self.recorder.state);
        let mut times = lock(&self.times);
        times.open -= 1;
        let is_last = times.open == 0 && state.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, self));
        if is_last {
            let sample = (times.since, self.clock.stamp());
            times.over.push_back(sample);
            if times.over.len() > MOST_SAMPLES {
                times.over.pop_front();
            }
            self.recorder.sample.store(0, Ordering::SeqCst);
        }
        is_last
    }

    /// Returns the beginning and end of each sample, in order. If the last sample is still open, it has no end.
    fn samples(&self) -> Vec<(u64, Option<u64>)> {
        let times = lock(&self.times);
        let open = (times.open > 0).then_some((times.since, None));
        times.over.iter().map(|&(since, end)| (since, Some(end))).chain(open).collect()
    }

    pub(super) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the state of the session for a recording that begins now.
    pub(crate) fn mark(self: &Arc<Self>) -> Begun {
        let written = lock(&self.tracks).iter().map(|track| track.ring.written()).collect();
        let time = match self.clock.stamps {
            Stamps::Order(clock) => Some(clock.load()),
            Stamps::Ticks(_) => None,
        };
        Begun {
            stamp: self.clock.stamp(),
            time,
            written,
            missed: self.missed.load(Ordering::Relaxed),
            session: self.clone(),
        }
    }
}

impl Begun {
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns the recording from its beginning until now, or only its most recent part, of duration `keep`. No thread
    /// is paused.
    pub(crate) fn recorded(&self, place: NonZeroU64, keep: Option<Duration>) -> Recording {
        let session = &self.session;
        let end_stamp = session.clock.stamp();
        let end = match session.clock.stamps {
            Stamps::Ticks(source) => TickMark::now(source),
            Stamps::Order(_) => session.begin,
        };
        let tracks: Vec<Arc<Track>> = lock(&session.tracks).clone();
        let raw = tracks.iter().enumerate().map(|(index, track)| {
            let from = self.written.get(index).copied().unwrap_or(0);
            let mut records = Vec::new();
            let lost = track.ring.read(from, |record| records.push(record));
            RawTrack { thread: track.thread.clone(), records, lost }
        });
        let raw: Vec<RawTrack> = raw.collect();
        let missed = session.missed.load(Ordering::Relaxed) - self.missed;
        let nanoseconds = |stamp: u64| session.begin.nanoseconds(&end, session.clock.base.wrapping_add(stamp));
        match (self.time, session.clock.stamps) {
            (Some(began), Stamps::Order(clock)) => {
                let lasted = clock.load().since(began);
                Recording::ordered(raw, missed, place, began, lasted, (self.stamp, end_stamp))
            }
            _ => {
                let (began, ended) = (nanoseconds(self.stamp), nanoseconds(end_stamp));
                let from = keep.map_or(began, |keep| began.max(ended.saturating_sub(keep.as_nanos() as u64)));
                let samples = session.samples().into_iter();
                let samples = samples.map(|(from, to)| (nanoseconds(from), to.map_or(u64::MAX, nanoseconds))).collect();
                Recording::timed(raw, missed, place, nanoseconds, (from, ended), samples, session.begin.instant)
            }
        }
    }
}
