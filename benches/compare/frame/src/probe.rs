//! Common code of the rows `probe_…`: the thread that sends the probe's messages, and the load that runs at the same
//! time.
//!
//! The sender never waits until a message has been handled. So if a system stalls for a second, the delay shows in all
//! the messages that were sent in that second, and not in only one of them.

use crate::kernel::Random;
use crate::plan::{Outcome, Plan, Workload};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Number of messages in flight per process of the flood.
pub const IN_FLIGHT: u64 = 10;

/// Number of processes that the timers send to.
pub const TIMED: u64 = 1_000;

/// Pause between two messages to the probe.
const PAUSE: Duration = Duration::from_millis(1);

/// Time between the start of the load and the first message, in which the system settles.
const CALM: Duration = Duration::from_millis(100);

/// Time for which the load continues after the last message if the probe has not handled all. A guess: longer than most
/// systems need, and shorter than the limit of a run.
const GRACE: Duration = Duration::from_secs(10);

/// Number of messages of the flood that are counted together, so that the count costs little.
const LOT: u64 = 64;

/// The work that the load has done, and whether it must end.
#[derive(Debug)]
pub struct Load {
    start: Instant,
    period: Duration,
    done: AtomicU64,
    over: AtomicBool,
}

impl Load {
    pub fn of(plan: &Plan) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            period: plan.work,
            done: AtomicU64::new(0),
            over: AtomicBool::new(false),
        })
    }

    /// Returns whether the processes of the load must end.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts one action of the load.
    #[inline]
    pub fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Performs a step of `ProbeBlocking` or of `ProbeTold`: a system call that takes as long as the plan says.
    pub fn block(&self) {
        self.count();
        thread::sleep(self.period);
    }

    /// Performs a step of `ProbeLooping`.
    pub fn spin(&self) {
        self.count();
        let begin = Instant::now();
        while begin.elapsed() < self.period {
            spin_loop();
        }
    }

    /// Returns the next moment at which all timers are to fire.
    pub fn next_round(&self) -> Instant {
        let passed = self.start.elapsed().as_nanos() / self.period.as_nanos().max(1);
        self.start + self.period * (passed as u32 + 1)
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// A process of the flood. It has the addresses of all processes of the flood, and its own counts.
#[derive(Debug)]
pub struct Flooder<A> {
    pub load: Arc<Load>,
    everybody: Arc<OnceLock<Vec<A>>>,
    random: Random,
    seen: u64,
}

impl<A> Flooder<A> {
    /// Creates the process with the given number. `everybody` must be set before the process sends.
    pub fn of(number: u64, load: &Arc<Load>, everybody: &Arc<OnceLock<Vec<A>>>) -> Self {
        Self { load: load.clone(), everybody: everybody.clone(), random: Random::seeded(number), seen: 0 }
    }

    /// Returns a random receiver.
    #[inline]
    pub fn other(&mut self) -> &A {
        let everybody = self.everybody.get().expect("everybody is known");
        &everybody[self.random.below(everybody.len() as u64) as usize]
    }

    /// Handles a message. If the flood continues, returns the receiver of the next message.
    #[inline]
    pub fn hit(&mut self) -> Option<&A> {
        self.seen += 1;
        if self.seen.is_multiple_of(LOT) {
            self.load.done.fetch_add(LOT, Ordering::Relaxed);
        }
        (!self.load.is_over()).then(|| self.other())
    }
}

/// Returns the amount of work after which the load is well under way.
fn under_way(plan: &Plan) -> u64 {
    match plan.workload {
        Workload::ProbeFlood => plan.width * IN_FLIGHT,
        Workload::ProbeBlocking | Workload::ProbeTold | Workload::ProbeLooping => plan.workers as u64,
        Workload::ProbeTimers => plan.width,
        _ => 0,
    }
}

/// Returns the number of timers of each of the [`TIMED`] processes.
pub fn timers_each(plan: &Plan) -> u64 {
    plan.width / TIMED
}

/// The latencies that the probe records.
#[derive(Debug)]
pub struct Notes {
    latencies: Vec<u64>,
    all: usize,
    finished: mpsc::Sender<Vec<u64>>,
}

impl Notes {
    /// Returns empty notes, and a receiver that gets all latencies at the end.
    pub fn of(plan: &Plan) -> (Self, mpsc::Receiver<Vec<u64>>) {
        let (finished, noted) = mpsc::channel();
        let all = plan.size as usize;
        (Self { latencies: Vec::with_capacity(all), all, finished }, noted)
    }

    /// Records the latency of a message that was sent at the time `sent`.
    #[inline]
    pub fn note(&mut self, sent: Instant) {
        self.latencies.push(sent.elapsed().as_nanos() as u64);
        if self.latencies.len() == self.all {
            // `drive` waits for this, or has already stopped waiting.
            let _ = self.finished.send(std::mem::take(&mut self.latencies));
        }
    }
}

/// Sends the probe's messages once the load is under way, and ends the load once all of them have been handled. Must be
/// called on a thread that runs no processes.
pub fn drive(plan: &Plan, load: &Load, noted: &mpsc::Receiver<Vec<u64>>, send: impl Fn(Instant)) -> Outcome {
    while load.done() < under_way(plan) {
        thread::sleep(PAUSE);
    }
    thread::sleep(CALM);
    let (begin, before) = (Instant::now(), load.done());
    for _ in 0..plan.size {
        thread::sleep(PAUSE);
        send(Instant::now());
    }
    let in_time = noted.recv_timeout(GRACE);
    let (elapsed, after) = (begin.elapsed(), load.done());
    load.over.store(true, Ordering::Relaxed);
    let latencies = in_time.or_else(|_| noted.recv()).expect("the probe notes all its messages");
    Outcome {
        elapsed,
        operations: plan.size,
        check: latencies.len() as u64,
        latencies,
        load: (plan.workload != Workload::ProbeIdle).then_some(after - before),
        ..Outcome::default()
    }
}
