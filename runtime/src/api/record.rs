//! Recordings of a host, for a limited time or continuously.

use super::runtime::Host;
use crate::engine::blocking::block_in_place::while_blocked;
use crate::engine::host::Scheduler;
use crate::engine::sched::recorded::OpenSample;
use crate::env::clock::instant_now;
use crate::recorder::recording::Recording;
use crate::recorder::session::{
    Begun, DumpCause, DumpTrigger, LEAST_THREAD_MEMORY, MOST_MEMORY, MOST_RECORDINGS, Memory, THREAD_MEMORY,
};
use crate::sync::{Arc, AtomicU64, Ordering, SyncSender, ThreadKind, park, spawn_thread, sync_channel};
use crate::util::debug::impl_debug;
use crate::util::panics::{Site, contain, contain_thread};
use std::convert::Infallible;
use std::num::NonZeroU64;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// The maximum duration of a recording.
const MOST_DURATION: Duration = Duration::from_secs(3_600);

/// The duration of a sample. A message whose handling takes longer never fits into one sample. Shorter samples would
/// wake an idle program more often.
const SAMPLE: Duration = Duration::from_millis(10);

/// The default time from one sample to the next, as a multiple of the duration of a sample. A message between two
/// processes of a worker takes three to four times as long while it is recorded (`benches/instructions`, `timed`), so
/// on average it takes two to three percent longer.
const ONE_IN: u32 = 100;

/// The reason why nothing is recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The host already has the maximum number of recordings.
    #[error("{most} recordings of this host run, the flight recorder included, and no more may; end one of them first")]
    TooMany {
        /// The maximum number of recordings that can run at a time.
        most: usize,
    },
    /// The duration is zero or too long.
    #[error(
        "a recording cannot last {came:?}; use a duration above zero and up to {most:?}, or a flight recorder, which \
         keeps the newest records"
    )]
    Duration {
        /// The requested duration.
        came: Duration,
        /// The longest duration.
        most: Duration,
    },
    /// The memory of the recording is out of range.
    #[error("a recording cannot have {came} bytes of memory; use from {least} to {most}")]
    Memory {
        /// The requested number of bytes.
        came: usize,
        /// The minimum: what a single thread needs.
        least: usize,
        /// The maximum.
        most: usize,
    },
    /// The memory for each thread is out of range.
    #[error("a thread cannot have {came} bytes of a recording's {most}; use at least {least}")]
    ThreadMemory {
        /// The requested number of bytes.
        came: usize,
        /// The minimum.
        least: usize,
        /// The maximum, which is the memory of the whole recording.
        most: usize,
    },
    /// The host has been shut down.
    #[error("the host has been shut down, so there is nothing to record; record a host that runs")]
    Ended,
    /// A thread of the flight recorder, for its samples or its hook, could not be started.
    #[error("a thread of the flight recorder, for its samples or its hook, could not be started: {0}")]
    Thread(String),
}

impl Host {
    /// Records the activity of the host's threads, event by event: slices of processes, messages from their send to the
    /// end of their handling, calls and answers, spawns and ends, and when threads rest and wait. Set options, then
    /// [wait](RecordingOptions::wait) until the duration is over, or [start](RecordingOptions::start) the recording and
    /// continue.
    ///
    /// A host that is not recorded pays nothing for this. During a recording, each event takes some tens of
    /// nanoseconds and 32 bytes of a ring that only its thread writes; when the ring is full, the oldest records are
    /// overwritten and counted.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use postroom::record::EventKind;
    /// use std::time::Duration;
    ///
    /// #[process]
    /// struct Counter { count: u64 }
    ///
    /// #[process]
    /// impl Counter {
    ///     #[entry]
    ///     fn serve(&mut self) {}
    ///     #[message]
    ///     fn add(&mut self, more: u64) -> u64 { self.count += more; self.count }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let counter = runtime.spawn(Counter { count: 0 }).serve()?;
    /// let active = runtime.record(Duration::from_secs(10)).start()?;
    /// assert_eq!(counter.add(7).wait()?, 7);
    /// let recording = active.stop();
    /// let handled = |kind| matches!(kind, EventKind::HandlingBegan { .. });
    /// assert_eq!(recording.events().filter(|event| handled(event.kind)).count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record(self, duration: Duration) -> RecordingOptions {
        RecordingOptions { host: self, duration, memory: Memory { all: MOST_MEMORY, thread: THREAD_MEMORY } }
    }

    /// Records continuously, and keeps the newest records: see [`FlightRecorder`]. The recording ends when the result
    /// is dropped.
    ///
    /// # Errors
    /// [`RecordError`] if the memory is out of range, if the time to keep is zero, if two recordings of the host are
    /// running, if the host has been shut down, or if a thread of the recorder cannot be started.
    pub fn flight_recorder(self, recorder: FlightRecorder) -> Result<FlightRecording, RecordError> {
        recorder.start(self)
    }

    /// Returns the part of the PID that all processes of the host have in common.
    fn place(self) -> NonZeroU64 {
        crate::Pid::new(self.node(), self.number(), 0, 0).place()
    }

    fn begin_recording(self, memory: Memory) -> Result<RunningSession, RecordError> {
        let Memory { all, thread } = memory;
        if !(LEAST_THREAD_MEMORY..=MOST_MEMORY).contains(&all) {
            return Err(RecordError::Memory { came: all, least: LEAST_THREAD_MEMORY, most: MOST_MEMORY });
        }
        if !(LEAST_THREAD_MEMORY..=all).contains(&thread) {
            return Err(RecordError::ThreadMemory { came: thread, least: LEAST_THREAD_MEMORY, most: all });
        }
        let scheduler = self.scheduler();
        if scheduler.is_stopped() {
            return Err(RecordError::Ended);
        }
        let clock = scheduler.clock_override();
        let Some(session) = scheduler.recorder.begin(memory, clock) else {
            return Err(RecordError::TooMany { most: MOST_RECORDINGS });
        };
        let sample = OpenSample::begin(scheduler, session.clone());
        Ok(RunningSession { scheduler, place: self.place(), begun: session.mark(), sample: Some(sample) })
    }
}

/// A recording in progress. It ends on drop.
struct RunningSession {
    scheduler: &'static Scheduler,
    place: NonZeroU64,
    begun: Begun,
    /// The sample that is open for as long as the recording runs. `None` if a thread takes brief samples instead.
    sample: Option<OpenSample>,
}

impl RunningSession {
    fn recorded(&self, keep: Option<Duration>) -> Recording {
        self.begun.recorded(self.place, keep)
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        if self.scheduler.recorder.end(self.begun.session()) {
            self.scheduler.fit_recorder();
        }
    }
}

/// The options of a recording: see [`Host::record`].
#[derive(Clone, Copy)]
#[must_use = "nothing is recorded until `start` or `wait` is called"]
pub struct RecordingOptions {
    host: Host,
    duration: Duration,
    memory: Memory,
}

impl RecordingOptions {
    /// Sets how much memory the rings of all threads may take: 256 MiB by default, which is also the maximum. A
    /// thread for which none is left records nothing, and its events are counted as lost.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory.all = bytes;
        self.memory.thread = self.memory.thread.min(bytes);
        self
    }

    /// Sets the size of each thread's ring: 8 MiB by default, for 262,144 records. Only the written part takes up
    /// memory. If another recording of the host is already running, its sizes apply to both.
    pub fn thread_memory(mut self, bytes: usize) -> Self {
        self.memory.thread = bytes;
        self
    }

    /// Starts the recording.
    ///
    /// # Errors
    /// [`RecordError`] if the duration or the memory is out of range, if two recordings of the host are running, or
    /// if the host has been shut down.
    pub fn start(self) -> Result<ActiveRecording, RecordError> {
        if self.duration.is_zero() || self.duration > MOST_DURATION {
            return Err(RecordError::Duration { came: self.duration, most: MOST_DURATION });
        }
        let session = self.host.begin_recording(self.memory)?;
        Ok(ActiveRecording { session, until: instant_now() + self.duration })
    }

    /// Records for the whole duration, and blocks the thread while it does. The duration is in system time, even if the
    /// host has a virtual clock.
    ///
    /// # Errors
    /// Those of [`RecordingOptions::start`].
    pub fn wait(self) -> Result<Recording, RecordError> {
        Ok(self.start()?.wait())
    }
}

/// A recording in progress. Dropping it ends the recording and discards the records.
#[must_use = "the recording ends when this is dropped"]
pub struct ActiveRecording {
    session: RunningSession,
    until: Instant,
}

impl ActiveRecording {
    /// Ends the recording now.
    pub fn stop(self) -> Recording {
        self.session.recorded(None)
    }

    /// Blocks the thread until the duration of the recording has passed, and then ends the recording.
    pub fn wait(self) -> Recording {
        while_blocked(|| rest(self.until));
        self.stop()
    }
}

fn rest(until: Instant) {
    loop {
        let left = until.saturating_duration_since(instant_now());
        if left.is_zero() {
            return;
        }
        park(Some(left));
    }
}

type DumpHook = Box<dyn FnMut(DumpCause, Recording) + Send>;

/// A recorder that runs continuously and keeps the newest records: see [`Host::flight_recorder`].
///
/// ```
/// use postroom::prelude::*;
/// use postroom::record::FlightRecorder;
/// use std::time::Duration;
///
/// let runtime = Runtime::new()?;
/// let flight = FlightRecorder::new().keep(Duration::from_secs(10)).memory(32 << 20);
/// let flight = runtime.flight_recorder(flight.on_dump(|cause, recording| {
///     eprintln!("{cause:?}: the last {:?} are {} events", recording.duration(), recording.events().count());
/// }))?;
/// let recording = flight.snapshot();
/// assert_eq!(recording.lost(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is recorded until it is given to `Host::flight_recorder`"]
pub struct FlightRecorder {
    keep: Duration,
    memory: Memory,
    one_in: u32,
    every: Duration,
    hook: Option<DumpHook>,
}

impl Default for FlightRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl FlightRecorder {
    /// Creates a flight recorder that keeps the last ten seconds, in at most 32 MiB, and records slices and messages
    /// for one hundredth of the time.
    pub fn new() -> Self {
        Self {
            keep: Duration::from_secs(10),
            memory: Memory { all: 32 << 20, thread: 2 << 20 },
            one_in: ONE_IN,
            every: Duration::from_secs(60),
            hook: None,
        }
    }

    /// Sets how far back a snapshot reaches, if the memory suffices.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Sets how much memory the rings of all threads may take. Each thread gets a sixteenth of it, but not less than
    /// the minimum.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = Memory { all: bytes, thread: (bytes / 16).max(LEAST_THREAD_MEMORY).min(bytes) };
        self
    }

    /// Sets the sampling rate: slices and messages are recorded for ten milliseconds, then not recorded for
    /// `one_in - 1` times as long, and so on. The default is 100, at which message passing takes two to three percent
    /// longer. With 1 (or 0), everything is always recorded.
    ///
    /// In a sample, everything is recorded; between two samples, only abnormal ends, stalls, suspensions and blocking
    /// are. The events [`SampleBegan`](crate::record::EventKind::SampleBegan) and
    /// [`SampleEnded`](crate::record::EventKind::SampleEnded) mark the samples. An additional sample is taken before
    /// the [hook](Self::on_dump) is called, and while a [recording](Host::record) runs. A host with a virtual clock
    /// takes no samples: everything is recorded.
    pub fn sample(mut self, one_in: u32) -> Self {
        self.one_in = one_in;
        self
    }

    /// Sets the size of each thread's ring, which is a part of the [memory](Self::memory).
    pub fn thread_memory(mut self, bytes: usize) -> Self {
        self.memory.thread = bytes;
        self
    }

    /// Calls `hook` with a snapshot when a step stalls and when a supervisor gives up. The hook runs on a thread of its
    /// own, so it may block. A panic in it is logged.
    pub fn on_dump(mut self, hook: impl FnMut(DumpCause, Recording) + Send + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Sets the minimum time between two calls of the hook: a minute by default. Causes that come sooner, or while
    /// the hook runs, are only [counted](FlightRecording::skipped).
    pub fn dump_every(mut self, least: Duration) -> Self {
        self.every = least;
        self
    }

    fn start(self, host: Host) -> Result<FlightRecording, RecordError> {
        let Self { keep, memory, one_in, every, hook } = self;
        if keep.is_zero() {
            return Err(RecordError::Duration { came: keep, most: Duration::MAX });
        }
        let mut session = host.begin_recording(memory)?;
        let samples = match session.sample.take_if(|_| one_in > 1 && host.scheduler().clock_override().is_none()) {
            None => None,
            Some(first) => Some(sample_thread(host, &session, first, one_in)?),
        };
        let session = Arc::new(session);
        let skipped = Arc::new(AtomicU64::new(0));
        let dumps = match hook {
            None => None,
            Some(hook) => Some(dump_thread(host, &session, keep, every, hook, skipped.clone())?),
        };
        Ok(FlightRecording { session, keep, skipped, dumps, samples })
    }
}

/// Starts the thread that takes samples after `first`, which has already begun. The thread ends when the result is
/// dropped.
fn sample_thread(
    host: Host,
    session: &RunningSession,
    first: OpenSample,
    one_in: u32,
) -> Result<SyncSender<Infallible>, RecordError> {
    let (running, over) = sync_channel::<Infallible>(0);
    let (scheduler, session) = (session.scheduler, session.begun.session().clone());
    let run = move || {
        let (mut sample, mut begun) = (first, instant_now());
        loop {
            if over.recv_timeout(SAMPLE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            drop(sample);
            // The duration of the sample is measured, so that the sampled share is right however late the system wakes
            // this thread.
            let others = instant_now().saturating_duration_since(begun).saturating_mul(one_in - 1);
            if over.recv_timeout(others) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            begun = instant_now();
            sample = OpenSample::begin_brief(scheduler, session.clone());
        }
    };
    let begun = spawn_thread(ThreadKind::Sampler, format!("{}-samples", host.name()), run);
    begun.map_err(|error| RecordError::Thread(error.to_string()))?;
    Ok(running)
}

/// Starts the thread that calls the hook, and returns its trigger. The thread ends with the flight recording.
fn dump_thread(
    host: Host,
    session: &Arc<RunningSession>,
    keep: Duration,
    every: Duration,
    hook: DumpHook,
    skipped: Arc<AtomicU64>,
) -> Result<DumpTrigger, RecordError> {
    let (sender, causes) = sync_channel::<DumpCause>(1);
    let is_sampled = session.sample.is_none();
    let (scheduler, begun) = (session.scheduler, session.begun.session().clone());
    let recorded = Arc::downgrade(session);
    let mut hook = hook;
    let run = move || {
        contain_thread();
        for cause in causes {
            if is_sampled {
                // Samples the activity of the host at the time of the cause.
                let _sample = OpenSample::begin_brief(scheduler, begun.clone());
                rest(instant_now() + SAMPLE);
            }
            let Some(session) = recorded.upgrade() else { return };
            let recording = session.recorded(Some(keep));
            drop(session);
            if let Err(panic) = contain(Site::DumpHook, || hook(cause, recording)) {
                crate::util::log::error!(%panic, "the hook of a flight recorder panicked");
            }
        }
        if let Err(panic) = contain(Site::HookDrop, || drop(hook)) {
            crate::util::log::error!(%panic, "the drop of a flight recorder's hook panicked");
        }
    };
    let begun = spawn_thread(ThreadKind::Notifier, format!("{}-dumps", host.name()), run);
    begun.map_err(|error| RecordError::Thread(error.to_string()))?;
    Ok(host.scheduler().recorder.on_dump(sender, every, skipped))
}

/// A running flight recorder. Dropping it ends the recording.
#[must_use = "the flight recorder ends when this is dropped"]
pub struct FlightRecording {
    session: Arc<RunningSession>,
    keep: Duration,
    skipped: Arc<AtomicU64>,
    /// Dropping this ends the thread that calls the hook; dropping `samples` ends the thread that takes samples.
    dumps: Option<DumpTrigger>,
    samples: Option<SyncSender<Infallible>>,
}

impl FlightRecording {
    /// Returns a recording of the recent past. No thread is paused.
    pub fn snapshot(&self) -> Recording {
        self.session.recorded(Some(self.keep))
    }

    /// Returns the number of causes for which the hook was not called, because it was running or had been called
    /// shortly before.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

impl_debug!([] RecordingOptions, self => "RecordingOptions" { duration: self.duration });
impl_debug!([] ActiveRecording, self => "ActiveRecording" { until: self.until });
impl_debug!([] FlightRecorder, self => "FlightRecorder" {
    keep: self.keep, one_in: self.one_in, has_hook: self.hook.is_some()
});
impl_debug!([] FlightRecording, self => "FlightRecording" {
    keep: self.keep, takes_samples: self.samples.is_some(), has_hook: self.dumps.is_some()
});
