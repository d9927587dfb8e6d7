//! How a workload says that it is over.

use std::time::Instant;

use ::tokio::sync::oneshot;

use crate::plan::Outcome;

/// For the process that sees the end.
pub struct Finish(oneshot::Sender<(Instant, u64)>);

/// The end of the run, for the waiting thread.
pub struct Finished(oneshot::Receiver<(Instant, u64)>);

pub fn finish() -> (Finish, Finished) {
    let (sender, receiver) = oneshot::channel();
    (Finish(sender), Finished(receiver))
}

impl Finish {
    /// It is over now, and came to `check`.
    pub fn with(self, check: u64) {
        self.at(Instant::now(), check);
    }

    /// It was over at `end`.
    pub fn at(self, end: Instant, check: u64) {
        self.0.send((end, check)).expect("somebody should wait for the end");
    }
}

impl Finished {
    pub async fn outcome(self, start: Instant, operations: u64) -> Outcome {
        let (end, check) = self.0.await.expect("a process should finish the workload");
        Outcome { elapsed: end - start, operations, check, ..Outcome::default() }
    }
}
