//! Concurrent processes. In simulated tests they take the place of threads.

use postroom::Running;
use postroom::prelude::*;
use postroom::test::Sim;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

type Acts<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A process that does what one thread does in the threaded tests.
#[process]
pub(super) struct Racer<T: Send + 'static>(Option<Acts<T>>);

#[process]
impl<T: Send + 'static> Racer<T> {
    #[entry]
    async fn run(&mut self) -> T {
        self.0.take().expect("it is run once").await
    }
}

/// Runs `acts` concurrently with everything else.
pub(super) fn race<T: Send + 'static>(
    sim: &Sim,
    acts: impl Future<Output = T> + Send + 'static,
) -> Running<Racer<T>, T> {
    sim.spawn(Racer(Some(Box::pin(acts)))).run().expect("it starts")
}

/// Waits for all racers, and returns their results.
#[track_caller]
pub(super) fn all<T: Send + 'static>(racers: impl IntoIterator<Item = Running<Racer<T>, T>>) -> Vec<T> {
    racers.into_iter().map(|racer| racer.wait().unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// Yields once, so that other processes can run.
pub(super) async fn pause() {
    let mut is_over = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
