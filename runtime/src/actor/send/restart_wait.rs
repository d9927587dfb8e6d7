//! Calls that wait for a child which is being restarted.

use super::call::{Call, CallFuture};
use super::send_modes::room_request;
use crate::engine::{backpressure::waiters::RoomRequest, blocking::block_in_place::while_blocked};
use crate::{
    CallError, Pid, SendError, actor::tasks::TimerFuture, env::clock::Moment, errors::SendFailure,
    util::block_on::block_on,
};
use std::future::{Future, IntoFuture, poll_fn};
use std::task::{Context, Poll, ready};
use std::{convert::Infallible, fmt, marker::PhantomData, pin::Pin};

/// A call that waits, until its deadline, for a child that is being restarted. Created by [`Call::wait_for_restart`];
/// finish it with `.await` or `.wait()`. In a method that must not wait, use
/// `ctx.run(call.wait_for_restart().into_future()).then(…)`.
#[must_use = "a call does nothing until it is awaited, or waited for with `.wait()`"]
pub struct PatientCall<M, T = (), E = Infallible>(Call<M, T, E>);

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Call<M, T, E> {
    /// Waits for a child that is being restarted, until the call's deadline, instead of failing with
    /// [`Restarting`](CallError::Restarting). Has no effect for other processes.
    ///
    /// This covers only calls that are made while the child has no process. A call that is in a child's mailbox when
    /// the child ends fails as [`Gone`](CallError::Gone), unless the child [keeps its
    /// messages](crate::supervision::Child::keep_messages).
    pub fn wait_for_restart(self) -> PatientCall<M, T, E> {
        PatientCall(self)
    }
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> PatientCall<M, T, E> {
    /// Blocks the thread until the answer arrives; see [`Call::wait`].
    ///
    /// # Errors
    /// Those of [`Call::wait`], and [`CallError::Restarting`] if the child has not been restarted before the deadline.
    /// In that case the message was not delivered.
    pub fn wait(self) -> Result<T, CallError<E>> {
        let Self(mut call) = self;
        let (pid, method, due) = (call.pid(), call.method(), call.due());
        loop {
            let message = match call.until(due).attempt() {
                Err(SendError { message, reason: SendFailure::Restarting(_) }) => message,
                outcome => return outcome.unwrap_or_else(|refused| Err(refused.into())),
            };
            let mut pause = Pause::new(pid, due);
            if !while_blocked(|| block_on(poll_fn(|context| pause.poll(context)))) {
                return Err(CallError::Restarting);
            }
            call = Call::new(pid, method, message);
        }
    }

    /// Like [`wait`](Self::wait), but for async code. A timeout is counted from the first poll.
    async fn answer(self) -> Result<T, CallError<E>> {
        let Self(mut call) = self;
        let (pid, method, due) = (call.pid(), call.method(), call.due());
        loop {
            let message = match CallFuture::sent(call.until(due)).await {
                Err(SendError { message, reason: SendFailure::Restarting(_) }) => message,
                Err(refused) => return Err(refused.into()),
                Ok(sent) => return sent.await,
            };
            let mut pause = Pause::new(pid, due);
            if !poll_fn(|context| pause.poll(context)).await {
                return Err(CallError::Restarting);
            }
            call = Call::new(pid, method, message);
        }
    }
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> IntoFuture for PatientCall<M, T, E> {
    type Output = Result<T, CallError<E>>;
    type IntoFuture = PatientCallFuture<M, T, E>;

    fn into_future(self) -> Self::IntoFuture {
        PatientCallFuture(Box::pin(self.answer()), PhantomData)
    }
}

/// A [`PatientCall`] that waits for its answer. Dropping it cancels the call. Costs one allocation more than a
/// [`CallFuture`].
#[must_use = "a future does nothing until it is awaited"]
pub struct PatientCallFuture<M, T = (), E = Infallible>(Answer<T, E>, PhantomData<fn(M)>);

type Answer<T, E> = Pin<Box<dyn Future<Output = Result<T, CallError<E>>> + Send>>;

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Future for PatientCallFuture<M, T, E> {
    type Output = Result<T, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

/// The wait between two attempts.
struct Pause {
    /// `None` if there may be a process now.
    request: Option<RoomRequest>,
    limit: TimerFuture,
}

impl Pause {
    fn new(pid: Pid, due: Option<Moment>) -> Self {
        Self { request: room_request(pid), limit: TimerFuture::new(due.unwrap_or(Moment::NEVER)) }
    }

    /// Returns true if there may be a process now, false at the deadline.
    fn poll(&mut self, context: &Context<'_>) -> Poll<bool> {
        // The limit is checked first, so that a loop of attempts ends. Even a call with a timeout of zero has made one
        // attempt by now.
        if self.limit.poll(context).is_ready() {
            return Poll::Ready(false);
        }
        if let Some(request) = &self.request {
            ready!(request.poll(context.waker()));
        }
        Poll::Ready(true)
    }
}

impl<M, T, E> fmt::Debug for PatientCall<M, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PatientCall").field(&self.0).finish()
    }
}

crate::util::debug::impl_debug!([M, T, E] PatientCallFuture<M, T, E>, self => "PatientCallFuture");
