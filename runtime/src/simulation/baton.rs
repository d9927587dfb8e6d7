//! The threads of a simulation. One of them runs at a time: the one that holds the baton.
//!
//! The thread of the test runs the body. Processes run on another thread, the driver, so that the body can continue
//! while a step of a process waits on its stack (`.wait()`): that step keeps its thread, and another driver takes over.

use crate::sync::{Arc, Condvar, Mutex, ThreadHandle, ThreadKind, current_thread, lock, spawn_thread, wait};
use std::thread::ThreadId;

/// An instruction to a waiting thread.
pub(crate) enum Instruction {
    /// Continue with the baton.
    Go,
    /// Drive this run, beginning with the baton.
    Drive(Arc<dyn Drive>),
    /// Leave the run; a thread that is in no run ends.
    Leave,
}

/// A run of a simulation.
pub(crate) trait Drive: Send + Sync {
    /// Drives the run on the calling thread until that thread is told to leave. The thread has received the baton at
    /// `seat`.
    fn drive(self: Arc<Self>, seat: &Arc<Seat>);
}

/// The place at which a thread waits for the baton.
pub(crate) struct Seat {
    order: Mutex<Option<Instruction>>,
    given: Condvar,
}

impl Seat {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { order: Mutex::new(None), given: Condvar::new() })
    }

    /// Passes the baton to the thread that waits here, or is about to.
    pub(crate) fn give(&self, order: Instruction) {
        *lock(&self.order) = Some(order);
        self.given.notify_one();
    }

    /// Waits for the baton.
    pub(crate) fn wait(&self) -> Instruction {
        let mut order = lock(&self.order);
        loop {
            match order.take() {
                Some(order) => return order,
                None => order = wait(&self.given, order),
            }
        }
    }
}

/// Threads each of which drives one run after another. They end when this is dropped.
///
/// The drivers belong to one simulation. If simulations shared them, user thread-locals would pass from one test to
/// another, and the runs of a test would depend on earlier tests. In a simulation of one seed, the start of a driver
/// takes about 30 µs of 180 µs.
#[derive(Default)]
pub(crate) struct Drivers {
    idle: Mutex<Vec<Arc<Seat>>>,
}

impl Drivers {
    /// Returns the seat of a thread that is in no run.
    pub(crate) fn take(self: &Arc<Self>) -> std::io::Result<Arc<Seat>> {
        if let Some(seat) = lock(&self.idle).pop() {
            return Ok(seat);
        }
        let seat = Seat::new();
        let its = seat.clone();
        let start = || spawn_thread(ThreadKind::Outside, "postroom-simulation".to_string(), move || drive_runs(&its));
        crate::sync::simulated::outside(start).map(|_| seat)
    }

    /// Takes back a thread that has left its run.
    pub(crate) fn give_back(&self, seat: Arc<Seat>) {
        lock(&self.idle).push(seat);
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        lock(&self.idle).drain(..).for_each(|seat| seat.give(Instruction::Leave));
    }
}

fn drive_runs(seat: &Arc<Seat>) {
    while let Instruction::Drive(run) = seat.wait() {
        run.drive(seat);
    }
}

/// A thread of a run.
pub(crate) struct SimThread {
    pub(crate) id: ThreadId,
    pub(crate) seat: Arc<Seat>,
    /// Whether it was unparked while it ran.
    pub(crate) unparked: bool,
    /// The number of the process whose step it runs; zero for the test itself.
    pub(crate) actor: u32,
}

impl SimThread {
    pub(crate) fn of_this_thread(seat: Arc<Seat>) -> Self {
        Self { id: current_thread().id(), seat, unparked: false, actor: 0 }
    }
}

/// Returns whether `thread` is the calling thread.
pub(crate) fn is_this(thread: &ThreadHandle) -> bool {
    thread.id() == current_thread().id()
}
