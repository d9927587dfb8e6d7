//! The methods with which an async entry takes messages.
//!
//! Only these methods borrow the context, because a message method needs it while it runs.

use super::serving::{deliver, in_span};
use crate::actor::definition::{Actor, Dispatched, MethodFuture};
use crate::actor::tasks::{Attachment, CommandResult, Patience, StashedMessage, Waits, Wanting, awaits, current};
use crate::observe::spans::HeldSpan;
use crate::{
    Context, ExitReason, Package, ProcessError, Signal, actor::definition::context::run_continuation,
    mailbox::node_pool, sync::Arc, util::defer::defer,
};
use std::future::{Future, pending, poll_fn};
use std::task::{Context as TaskContext, Poll, ready};
use std::{convert::Infallible, pin::pin, time::Duration};

/// The number of messages that a process may stash while it waits for others. Stashing more ends the process, since
/// nothing would slow the senders down.
const MOST_STASHED: usize = 16_384;

enum NextInput {
    Message(Package),
    Signal(Signal),
    Continuation(usize, CommandResult),
}

impl<P: Actor> Context<P> {
    /// Handles messages one after the other until the process ends. Not cancel safe: dropping the future cuts short a
    /// pending async method, and its caller is notified.
    pub async fn serve(&mut self, this: &mut P) -> Infallible {
        loop {
            self.serve_next(this).await;
        }
    }

    /// Handles messages until `future` is ready, and returns its output. A message in progress is finished first.
    pub async fn serve_until<F: Future>(&mut self, this: &mut P, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            if let Some(output) = self.serve_next_or(this, future.as_mut()).await {
                return output;
            }
        }
    }

    /// Waits for one message and handles it, or returns the output of `future` if that is ready first. A message
    /// whose handling has begun is finished, however long it takes. Use this to wait for messages *or* something
    /// else: in a `select!`, no other branch could use the context while [`serve_next`](Self::serve_next) borrows it.
    pub async fn serve_next_or<F: Future>(&mut self, this: &mut P, future: F) -> Option<F::Output> {
        let next = {
            let mut future = pin!(future);
            wanting(|wanting, context| match future.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Err(output)),
                Poll::Pending => poll_next(wanting, context).map(Ok),
            })
            .await
        };
        match next {
            Ok(next) => {
                self.handle(this, next).await;
                None
            }
            Err(output) => Some(output),
        }
    }

    /// Handles the messages that have arrived, without waiting for more, and returns their number. Signals, and results
    /// that a `then` closure receives, count as messages.
    pub async fn serve_ready(&mut self, this: &mut P) -> usize {
        let mut handled = 0;
        loop {
            // Polls until the machine finds a message or an empty mailbox.
            current::peek(|waits| waits.inbox.seen_empty = false);
            let next = wanting(|wanting, context| match poll_next(wanting, context) {
                Poll::Ready(next) => Poll::Ready(Some(next)),
                Poll::Pending if current::peek(|waits| waits.inbox.seen_empty) == Some(true) => Poll::Ready(None),
                Poll::Pending => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            });
            let Some(next) = next.await else { return handled };
            self.handle(this, next).await;
            handled += 1;
        }
    }

    /// Waits for one message, for at most `duration`, and handles it. Returns whether a message arrived. The time that
    /// its method takes does not count. A zero duration handles a message that has already arrived. Not cancel safe,
    /// like [`Context::serve`].
    pub async fn serve_next_within(&mut self, this: &mut P, duration: Duration) -> bool {
        let Some(next) = within(duration, poll_next).await else { return false };
        self.handle(this, next).await;
        true
    }

    /// Waits for one message and handles it.
    pub async fn serve_next(&mut self, this: &mut P) {
        let next = wanting(poll_next).await;
        self.handle(this, next).await;
    }

    async fn handle(&mut self, this: &mut P, next: NextInput) {
        // Restores the deadline after the message, even if this future is dropped.
        let deadline = current::deadline();
        let _restore = defer(move || _ = current::set_deadline(deadline));
        let mut delivery = match next {
            NextInput::Message(package) => {
                let span = package.open_span();
                let delivery = {
                    let _entered = span.as_ref().map(HeldSpan::enter);
                    deliver(this, self, package)
                };
                in_span(delivery, span)
            }
            NextInput::Signal(signal) => this.signal(self, signal).unwrap_or(Dispatched::Done),
            NextInput::Continuation(number, answer) => {
                run_continuation(this, self, number, answer);
                Dispatched::Done
            }
        };
        loop {
            delivery = match delivery {
                Dispatched::Done | Dispatched::Unhandled => return,
                Dispatched::Failed(error) => end_with(error).await,
                Dispatched::Pending(future) => finish_method(future).await,
            };
        }
    }

    /// Waits for a message of type `T`. Messages of other types are stashed in order and handled later. If the message
    /// is a call, its caller is notified that the call was dropped.
    ///
    /// Stashing more than 16,384 messages ends the process. Cancel safe.
    pub async fn receive<T: Send + 'static>(&mut self) -> T {
        let mut looked = 0;
        open(wanting(|wanting, context| poll_for::<T>(wanting, &mut looked, context)).await)
    }

    /// Like [`receive`](Self::receive), for at most `duration`. A zero duration takes a message that has already
    /// arrived. Stashed messages keep their order in either case. Cancel safe.
    pub async fn receive_within<T: Send + 'static>(&mut self, duration: Duration) -> Option<T> {
        let mut looked = 0;
        within(duration, |wanting, context| poll_for::<T>(wanting, &mut looked, context)).await.map(open)
    }
}

/// Polls until something is found, with the process marked as waiting for input.
async fn wanting<R>(mut poll: impl FnMut(&Wanting, &mut TaskContext<'_>) -> Poll<R>) -> R {
    let wanting = Wanting;
    poll_fn(|context| poll(&wanting, context)).await
}

async fn within<R>(duration: Duration, mut poll: impl FnMut(&Wanting, &mut TaskContext<'_>) -> Poll<R>) -> Option<R> {
    let limit = pin!(awaits::sleep(duration));
    let mut patience = Patience::new(limit);
    wanting(|wanting, context| match poll(wanting, context) {
        Poll::Ready(found) => Poll::Ready(Some(found)),
        Poll::Pending if patience.is_over(context) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Awaits an async method, and marks the process as being in a method while the future is pending.
async fn finish_method(mut future: MethodFuture<'_, Dispatched<'static>>) -> Dispatched<'static> {
    // Runs when the method returns or is dropped.
    let _over = defer(|| _ = current::peek(|waits| waits.inbox.in_method = false));
    poll_fn(|context| {
        let poll = future.as_mut().poll(context);
        if poll.is_pending() {
            current::peek(|waits| waits.inbox.in_method = true);
        }
        poll
    })
    .await
}

/// Polls for a message of type `T`, and stashes the others. Skips the first `looked` stashed messages, which were
/// checked before.
fn poll_for<T: 'static>(wanting: &Wanting, looked: &mut usize, context: &mut TaskContext<'_>) -> Poll<Package> {
    loop {
        let found = ready!(poll_input(wanting, context, |waits| look_for::<T>(waits, looked)));
        match current::open_stashed(found) {
            Some(package) if package.take_up() => return Poll::Ready(package),
            Some(withdrawn) => withdrawn.throw_away(),
            // The message came from a stream that has been detached.
            None => {}
        }
        *looked = 0;
    }
}

/// Takes the next message of type `T`. Also returns the stream, if any, whose item was handled before: the process is
/// done with that item, because it looks for its next input.
fn look_for<T: 'static>(waits: &mut Waits, looked: &mut usize) -> Look<StashedMessage> {
    // Keeps the order: messages that were stashed earlier come before those that have arrived since.
    let before = waits.inbox.stash.len();
    let came = waits.inbox.messages.drain(..);
    waits.inbox.stash.extend(came);
    let place = waits.inbox.stash.iter().skip(*looked).position(|stashed| stashed.package.is::<T>());
    let found = place.and_then(|place| waits.inbox.stash.remove(*looked + place));
    if found.as_ref().is_some_and(|found| found.from.is_some() || *looked + place.unwrap_or(0) < before) {
        // A message that has just come from the mailbox has already been counted.
        node_pool::spend(1);
    }
    *looked = waits.inbox.stash.len();
    waits.inbox.wants_message = found.is_none();
    if *looked > MOST_STASHED && !waits.ending.ends_now() {
        let full =
            format!("stashed more than {MOST_STASHED} messages while waiting for a `{}`", std::any::type_name::<T>());
        let _none_before = waits.ending.end_with(ExitReason::error(full));
    }
    (found, waits.inbox.handling.take())
}

fn open<T: Send + 'static>(package: Package) -> T {
    match package.take::<T>() {
        Ok(message) => message,
        Err(_) => unreachable!("looked at before it was taken"),
    }
}

async fn end_with(error: ProcessError) -> Dispatched<'static> {
    super::serving::end(error.into_reason());
    pending().await
}

/// The input found in the table, and the stream whose previous item has now been handled.
type Look<R> = (Option<R>, Option<Arc<Attachment>>);

/// Takes input out of the table. If the table holds none, asks the machine for a message.
fn poll_input<R>(
    wanting: &Wanting,
    context: &mut TaskContext<'_>,
    look: impl FnOnce(&mut Waits) -> Look<R>,
) -> Poll<R> {
    if current::is_to_pause() {
        context.waker().wake_by_ref();
        return Poll::Pending;
    }
    let (found, handled) = current::with(look).unwrap_or_default();
    if let Some(stream) = handled {
        stream.handled();
    }
    if found.is_none() {
        wanting.keep_waker(context);
    }
    found.map_or(Poll::Pending, Poll::Ready)
}

fn poll_next(wanting: &Wanting, context: &mut TaskContext<'_>) -> Poll<NextInput> {
    loop {
        let stashed = match ready!(poll_input(wanting, context, look)) {
            Found::Next(next) => return Poll::Ready(next),
            Found::Stashed(stashed) => stashed,
        };
        if let Some(package) = current::open_stashed(stashed) {
            return Poll::Ready(NextInput::Message(package));
        }
    }
}

enum Found {
    Next(NextInput),
    Stashed(StashedMessage),
}

/// Takes the next input, and the stream whose previous item has now been handled.
fn look(waits: &mut Waits) -> Look<Found> {
    waits.inbox.wants_message = false;
    let (found, handled) = if let Some(signal) = waits.inbox.signals.pop_front() {
        (Some(Found::Next(NextInput::Signal(signal))), waits.inbox.handling.take())
    } else if let Some((number, answer)) = waits.ready.pop_front() {
        (Some(Found::Next(NextInput::Continuation(number, answer))), waits.inbox.handling.take())
    } else {
        let (stashed, handled) = waits.inbox.next_stashed();
        (stashed.map(Found::Stashed), handled)
    };
    waits.inbox.wants_message = found.is_none();
    (found, handled)
}
