//! How an async entry takes messages.
//!
//! The methods here are the only ones that borrow the context, since a message method gets it while it runs.

use super::context::{Context, run_continuation};
use super::definition::{Actor, Delivery};
use super::waits::{self, Answer};
use crate::errors::ProcessError;
use crate::exit::{ExitReason, Signal};
use crate::package::Package;
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// How many messages a process may set aside while it waits for others: more ends it, since nobody would hold their
/// senders.
const ASIDE: usize = 16_384;

/// What there is to do for a process that takes messages.
enum Next {
    Message(Package),
    Signal(Signal),
    Continuation(usize, Answer),
}

impl<P: Actor> Context<P> {
    /// Handles messages, one after the other, until the process ends. Not safe to cancel: a message whose async method is
    /// pending then is cut short, and its caller told.
    pub async fn serve(&mut self, this: &mut P) -> Infallible {
        loop {
            self.serve_next(this).await;
        }
    }

    /// Handles messages until `future` is ready, and gives its output. The message that is handled at that moment is
    /// finished first.
    pub async fn serve_until<F: Future>(&mut self, this: &mut P, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            let next = poll_fn(|context| {
                if let Poll::Ready(output) = future.as_mut().poll(context) {
                    return Poll::Ready(Err(output));
                }
                poll_next().map(Ok)
            })
            .await;
            match next {
                Ok(next) => self.handle(this, next).await,
                Err(output) => {
                    waits::with(|waits| waits.wants_message = false);
                    return output;
                }
            }
        }
    }

    /// Handles the messages that have arrived, and waits for no others. Gives how many it handled.
    pub async fn serve_ready(&mut self, this: &mut P) -> usize {
        let mut handled = 0;
        loop {
            // The machine looks for a message once, and polls again whether or not there was one.
            let mut asked = false;
            let next = poll_fn(|context| match poll_next() {
                Poll::Ready(next) => Poll::Ready(Some(next)),
                Poll::Pending if asked => Poll::Ready(None),
                Poll::Pending => {
                    asked = true;
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            })
            .await;
            let Some(next) = next else {
                waits::with(|waits| waits.wants_message = false);
                return handled;
            };
            self.handle(this, next).await;
            handled += 1;
        }
    }

    /// Waits for one message and handles it.
    pub async fn serve_next(&mut self, this: &mut P) {
        let next = poll_fn(|_| poll_next()).await;
        self.handle(this, next).await;
    }

    async fn handle(&mut self, this: &mut P, next: Next) {
        let mut delivery = match next {
            Next::Message(package) => this.deliver(self, package),
            Next::Signal(signal) => this.signal(self, signal).unwrap_or(Delivery::Done),
            Next::Continuation(number, answer) => {
                run_continuation(this, self, number, answer);
                Delivery::Done
            }
        };
        loop {
            delivery = match delivery {
                Delivery::Done => return,
                Delivery::Unhandled(package) => {
                    drop(package);
                    return;
                }
                Delivery::Failed(error) => end_with(error).await,
                Delivery::Pending(future) => future.await,
            };
        }
    }

    /// Waits for a message of type `T`, whatever else arrives before it: that is set aside, in its order, for later. A
    /// caller that waits for an answer to it is told that it was dropped.
    ///
    /// Setting aside more than 16,384 messages ends the process. Safe to cancel.
    pub async fn receive<T: Send + 'static>(&mut self) -> T {
        let mut looked = 0;
        let package = poll_fn(|_| {
            let found = waits::with(|waits| {
                let place = waits.aside.iter().skip(looked).position(Package::is::<T>);
                let found = place.and_then(|place| waits.aside.remove(looked + place));
                looked = waits.aside.len();
                waits.wants_message = found.is_none();
                found.or_else(|| {
                    let package = waits.inbox.pop_front()?;
                    if package.is::<T>() {
                        waits.wants_message = false;
                        return Some(package);
                    }
                    waits.aside.push_back(package);
                    looked += 1;
                    if waits.aside.len() > ASIDE {
                        let full = format!(
                            "more than {ASIDE} messages set aside while waiting for a `{}`",
                            std::any::type_name::<T>()
                        );
                        waits.end = Some(ExitReason::error(full));
                    }
                    None
                })
            });
            match found.flatten() {
                Some(package) => Poll::Ready(package),
                None => Poll::Pending,
            }
        })
        .await;
        match package.take::<T>() {
            Ok(message) => message,
            Err(_) => unreachable!("looked at before it was taken"),
        }
    }
}

/// Ends the process from inside a future.
async fn end_with(error: ProcessError) -> Delivery<'static> {
    waits::with(|waits| waits.end = Some(error.into_reason()));
    pending().await
}

/// The next thing to do; asks the machine for a message if there is none.
fn poll_next() -> Poll<Next> {
    let next = waits::with(|waits| {
        waits.wants_message = false;
        if let Some(signal) = waits.signals.pop_front() {
            return Some(Next::Signal(signal));
        }
        if let Some((number, answer)) = waits.ready.pop_front() {
            return Some(Next::Continuation(number, answer));
        }
        if let Some(package) = waits.aside.pop_front().or_else(|| waits.inbox.pop_front()) {
            return Some(Next::Message(package));
        }
        waits.wants_message = true;
        None
    });
    next.flatten().map_or(Poll::Pending, Poll::Ready)
}
