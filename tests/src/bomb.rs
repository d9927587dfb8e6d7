//! Values and calls that panic.

use crate::face::watched;
use postroom::future::Ended;
use postroom::manual::{Event, Events, Process, StepOutput};
use postroom::prelude::*;
use postroom::{Builder, ProcessError};
use std::fmt;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};
use std::time::Duration;

/// A limit far above the duration of any step. It turns a wait that hangs into a failed test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Panics with a payload whose drop panics in turn, `depth` levels deep.
pub fn explode(depth: usize) -> ! {
    match depth {
        0 => panic!("a bomb"),
        depth => panic_any(Payload(depth)),
    }
}

/// The payload of a bomb's panic.
struct Payload(usize);

impl Drop for Payload {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            explode(self.0 - 1);
        }
    }
}

/// A value whose drop panics. It counts its drops.
#[derive(Debug)]
pub struct Bomb {
    pub depth: usize,
    pub went_off: Arc<AtomicUsize>,
}

impl Bomb {
    pub fn new(depth: usize, went_off: &Arc<AtomicUsize>) -> Self {
        Self { depth, went_off: went_off.clone() }
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.went_off.fetch_add(1, SeqCst);
        // A panic while another one unwinds aborts the program, even inside a `catch_unwind`.
        if !std::thread::panicking() {
            explode(self.depth);
        }
    }
}

/// An error whose drop panics.
#[derive(Debug)]
pub struct BombError(pub Bomb);

impl fmt::Display for BombError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error that is a bomb")
    }
}

impl std::error::Error for BombError {}

/// An error whose `Display` panics.
#[derive(Debug)]
pub struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        explode(0)
    }
}

impl std::error::Error for Unspeakable {}

/// A waker whose wake panics.
pub struct BombWaker;

impl Wake for BombWaker {
    fn wake(self: Arc<Self>) {
        explode(1)
    }
}

pub fn bomb_waker() -> Waker {
    Waker::from(Arc::new(BombWaker))
}

/// Returns a builder with two workers and [`PATIENCE`] as the shutdown deadline.
pub fn builder() -> Builder {
    Runtime::builder().workers(2).shutdown_deadline(PATIENCE)
}

/// Runs `body` with a two-worker runtime, then checks that the runtime still works and shuts down cleanly.
pub fn with_runtime(body: impl FnOnce(&Runtime) + Send + 'static) {
    watched(move || {
        let runtime = builder().build().expect("a runtime with two workers can be built");
        body(&runtime);
        unharmed(&runtime);
        let report = runtime.shutdown().expect("asked from outside");
        assert!(!report.was_forced(), "{report}");
    });
}

/// Like [`with_runtime`], but with one worker, without stall detection, and without the check by [`unharmed`].
pub fn with_one_worker(body: impl FnOnce(&Runtime) + Send + 'static) {
    watched(move || {
        let runtime =
            builder().workers(1).stall_limit(Duration::MAX).build().expect("a runtime with one worker can be built");
        body(&runtime);
        let report = runtime.shutdown().expect("asked from outside");
        assert!(!report.was_forced(), "{report}");
    });
}

/// Checks that both workers still run processes. Two bystanders wait for each other, each in a step.
pub fn unharmed(runtime: &Runtime) {
    let steps = Arc::new(AtomicUsize::new(0));
    let meet = |_| {
        let steps = steps.clone();
        let step = move |events: &mut Events<'_>, out: &mut StepOutput<'_>| {
            if let Some(Event::Message(_)) = events.next() {
                steps.fetch_add(1, SeqCst);
                crate::eventually(|| steps.load(SeqCst) == 2);
                out.done();
            }
            Ok(())
        };
        runtime.spawn_process(crate::act(step)).start().expect("a bystander starts")
    };
    let pids: Vec<Pid> = (0..2).map(meet).collect();
    let ends: Vec<_> = pids.iter().map(|pid| pid.join()).collect();
    pids.iter().for_each(|pid| runtime.send(*pid, ()).expect("a bystander lives"));
    for end in ends {
        assert_eq!(end.wait_timeout(PATIENCE), Some(ExitReason::Normal), "a bystander was harmed");
    }
}

/// Waits until a process has exited, checks that it is gone, and returns its exit reason.
#[track_caller]
pub fn ended(pid: Pid, end: Ended) -> ExitReason {
    let Some(reason) = end.wait_timeout(PATIENCE) else { panic!("{pid} has not ended") };
    assert!(!pid.is_alive() && !pid.kill(), "{pid} has ended, and lives");
    reason
}

/// A process that monitors others and logs their exit reasons.
pub struct Listener {
    pub monitors: Vec<Pid>,
    pub heard: crate::face::Log<ExitReason>,
}

impl Process for Listener {
    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        for pid in self.monitors.drain(..) {
            pid.monitor()?;
        }
        while let Some(event) = events.next() {
            if let Event::Signal(postroom::Signal::Down(down)) = event {
                self.heard.add(down.reason);
            }
        }
        Ok(())
    }
}
