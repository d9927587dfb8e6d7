//! The notification of the end of a workload.

use std::time::Instant;

use ::tokio::sync::oneshot;

use crate::plan::Outcome;

/// The sender, for the process that observes the end.
pub struct Finish(oneshot::Sender<(Instant, u64)>);

/// The receiver, for the waiting thread.
pub struct Finished(oneshot::Receiver<(Instant, u64)>);

pub fn finish() -> (Finish, Finished) {
    let (sender, receiver) = oneshot::channel();
    (Finish(sender), Finished(receiver))
}

impl Finish {
    /// Reports that the workload has ended now, with the result `check`.
    pub fn with(self, check: u64) {
        self.at(Instant::now(), check);
    }

    /// Reports that the workload ended at `end`, with the result `check`.
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
