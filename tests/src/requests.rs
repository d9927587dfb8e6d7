//! A command whose completions are passed to the test. The test can answer them at any time and on any thread.

use postroom::{Builder, Command, Completion};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Asks the test for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask(pub u64);

impl Command for Ask {
    type Output = u64;
}

/// The queue of completions that the test has not taken yet.
#[derive(Clone)]
pub struct Requests(Arc<Mutex<Receiver<Request>>>);

/// The number in an [`Ask`], and the completion that answers it.
type Request = (u64, Completion<u64>);

impl Requests {
    /// Registers a handler on `builder` that puts the runtime's [`Ask`]s into a queue. Returns the builder and the
    /// queue.
    pub fn at(builder: Builder) -> (Builder, Self) {
        let (send, receive) = channel();
        let send: Mutex<Sender<_>> = Mutex::new(send);
        let builder = builder.handler(move |Ask(what), completion: Completion<u64>| {
            // If the test is over, the send fails and drops the completion. The drop answers the command.
            let _over = send.lock().unwrap_or_else(PoisonError::into_inner).send((what, completion));
        });
        (builder, Self(Arc::new(Mutex::new(receive))))
    }

    /// Waits for the next request.
    ///
    /// # Panics
    /// If the runtime is gone.
    pub fn next(&self) -> (u64, Completion<u64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recv().expect("the runtime's handler is there")
    }

    /// Returns the next request, if there is one.
    pub fn try_next(&self) -> Option<(u64, Completion<u64>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }
}
