//! Recipients as sinks, with the feature `futures`.

use super::address::Recipient;
use crate::{SendError, errors::SendFailure, util::debug::impl_debug};
use futures_sink::Sink;
use std::task::{Context, Poll, ready};
use std::{future::Future, pin::Pin};

/// The sink of a [`Recipient`]; see [`Recipient::sink`].
#[must_use = "nothing is sent until something is put into the sink"]
pub struct MessageSink<M, T, E> {
    to: Recipient<M, T, E>,
    /// The pending send of a message for which the mailbox had no room.
    late: Option<Late<M>>,
}

type Late<M> = Pin<Box<dyn Future<Output = Result<(), SendError<M>>> + Send>>;

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Recipient<M, T, E> {
    /// Returns a sink that sends to this recipient: forwarding a stream into it waits while the mailbox is full, as
    /// [`Call::send_async`](crate::Call::send_async) does. Each clone of the recipient may have sinks of its own. A
    /// send allocates only when the mailbox is full. The sink then holds one message; if the sink is dropped, so is
    /// that message.
    ///
    /// An error means that the process has ended, and contains the message. Answers are dropped.
    ///
    /// ```
    /// use futures_util::{StreamExt, stream};
    /// use postroom::prelude::*;
    ///
    /// #[process]
    /// struct Sum { sum: u64 }
    ///
    /// #[process]
    /// impl Sum {
    ///     #[entry]
    ///     fn serve(&mut self) {}
    ///     #[message(u64)]
    ///     fn add(&mut self, number: u64) { self.sum += number; }
    ///     #[message]
    ///     fn sum(&mut self) -> u64 { self.sum }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// // Ten messages fit; the thousand that are forwarded have to wait for room.
    /// let sum = runtime.spawn(Sum { sum: 0 }).mailbox(Bound::Soft(10)).serve()?;
    /// let sink = Recipient::<u64>::from(sum).sink();
    /// runtime.block_on(stream::iter(1..=1000).map(Ok).forward(sink))?;
    /// runtime.until_idle()?; // the last ten may still fill the mailbox: a call from a thread would be refused
    /// assert_eq!(sum.sum().wait()?, 500_500);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sink(self) -> MessageSink<M, T, E> {
        MessageSink { to: self, late: None }
    }
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> MessageSink<M, T, E> {
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError<M>>> {
        let Some(late) = &mut self.late else { return Poll::Ready(Ok(())) };
        let outcome = ready!(late.as_mut().poll(context));
        self.late = None;
        Poll::Ready(outcome)
    }
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Sink<M> for MessageSink<M, T, E> {
    type Error = SendError<M>;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.get_mut().poll_late(context)
    }

    /// Accepts a message even if the sink is not ready. In that case the message that the sink already holds is sent
    /// first.
    fn start_send(mut self: Pin<&mut Self>, message: M) -> Result<(), Self::Error> {
        let to = self.to;
        if let Some(late) = self.late.take() {
            self.late = Some(Box::pin(async move {
                late.await?;
                to.call(message).send_async().await
            }));
            return Ok(());
        }
        match to.call(message).try_send() {
            Err(SendError { message, reason: SendFailure::Full(_) }) => {
                self.late = Some(Box::pin(to.call(message).send_async()));
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.get_mut().poll_late(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.get_mut().poll_late(context)
    }
}

impl_debug!([M, T, E] MessageSink<M, T, E>, self => "MessageSink" { to: self.to, full: self.late.is_some() });
