//! Streams of answers.

use super::call::send;
use crate::sync::{Arc, Mutex, lock};
use crate::util::{block_on::block_on, debug::impl_debug};
use crate::util::{notifiers::wake, panics::Site};
use crate::{Pid, SendError, engine::blocking::block_in_place::while_blocked};
use futures_core::Stream;
use std::task::{Context, Poll, Waker};
use std::{collections::VecDeque, future::poll_fn, pin::Pin};

/// The answering end of a stream: a message method takes it as `replies: Replies<T>`, and may keep it, clone it and
/// pass it on. The stream ends when the last clone is dropped.
pub struct Replies<T> {
    shared: Arc<StreamShared<T>>,
}

/// The receiving end of a stream: await [`ReplyStream::next`], use it as a [`Stream`], or iterate on a plain thread.
#[must_use = "dropping the stream discards its answers"]
pub struct ReplyStream<T> {
    shared: Arc<StreamShared<T>>,
}

struct StreamShared<T>(Mutex<StreamState<T>>);

struct StreamState<T> {
    answers: VecDeque<T>,
    senders: usize,
    wanted: bool,
    waker: Option<Waker>,
}

impl<T> StreamShared<T> {
    fn wake(&self, change: impl FnOnce(&mut StreamState<T>)) {
        let mut state = lock(&self.0);
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            wake(Site::StreamWaker, waker);
        }
    }
}

fn channel<T>() -> (Replies<T>, ReplyStream<T>) {
    let state = StreamState { answers: VecDeque::new(), senders: 1, wanted: true, waker: None };
    let shared = Arc::new(StreamShared(Mutex::new(state)));
    (Replies { shared: shared.clone() }, ReplyStream { shared })
}

impl<T: Send + 'static> Replies<T> {
    /// Sends one answer.
    ///
    /// # Errors
    /// The answer, if the receiver has dropped its end.
    pub fn send(&self, answer: T) -> Result<(), T> {
        if self.is_abandoned() {
            return Err(answer);
        }
        self.shared.wake(|state| state.answers.push_back(answer));
        Ok(())
    }

    /// Returns whether the receiver has dropped its end.
    pub fn is_abandoned(&self) -> bool {
        !lock(&self.shared.0).wanted
    }
}

impl<T> Replies<T> {
    /// Creates an answering end without a receiver. For generated code.
    #[doc(hidden)]
    pub fn unheard() -> Self {
        channel().0
    }
}

impl<T> Clone for Replies<T> {
    fn clone(&self) -> Self {
        lock(&self.shared.0).senders += 1;
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Replies<T> {
    fn drop(&mut self) {
        self.shared.wake(|state| state.senders -= 1);
    }
}

impl<T> ReplyStream<T> {
    /// Returns the next answer, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_answer(context)).await
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let waker = context.waker().clone();
        let mut state = lock(&self.shared.0);
        if let Some(answer) = state.answers.pop_front() {
            return Poll::Ready(Some(answer));
        }
        if state.senders == 0 {
            return Poll::Ready(None);
        }
        let before = state.waker.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }
}

/// Like [`ReplyStream::next`].
impl<T> Stream for ReplyStream<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.get_mut().poll_answer(context)
    }
}

/// Blocks the thread for each answer. Inside a process, another thread runs the other processes in the meantime.
impl<T> IntoIterator for ReplyStream<T> {
    type Item = T;
    type IntoIter = ReplyIter<T>;

    fn into_iter(self) -> ReplyIter<T> {
        ReplyIter(self)
    }
}

/// A blocking iterator over the answers of a [`ReplyStream`].
#[derive(Debug)]
#[must_use = "dropping the stream discards its answers"]
pub struct ReplyIter<T>(ReplyStream<T>);

impl<T> Iterator for ReplyIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        while_blocked(|| block_on(poll_fn(|context| self.0.poll_answer(context))))
    }
}

impl<T> Drop for ReplyStream<T> {
    fn drop(&mut self) {
        let left = {
            let mut state = lock(&self.shared.0);
            state.wanted = false;
            std::mem::take(&mut state.answers)
        };
        drop(left);
    }
}

/// A message that is answered with a stream, ready to be sent.
#[must_use = "nothing is sent until `.open()`"]
pub struct Streaming<M, T> {
    pid: Pid,
    method: &'static str,
    message: M,
    stream: ReplyStream<T>,
}

impl<M: Send + 'static, T: Send + 'static> Streaming<M, T> {
    /// Creates a message for `pid`; `message` builds it from the answering end of the stream. `method` is for
    /// display.
    pub fn new(pid: Pid, method: &'static str, message: impl FnOnce(Replies<T>) -> M) -> Self {
        let (replies, stream) = channel();
        Self { pid, method, message: message(replies), stream }
    }

    /// Sends the message and returns the stream of its answers. The stream ends when the process ends, or when it has
    /// dropped the answering end.
    ///
    /// # Errors
    /// The message and the reason if the process has ended.
    pub fn open(self) -> Result<ReplyStream<T>, SendError<M>> {
        send(self.pid, self.message).map(|()| self.stream)
    }
}

impl_debug!([T] Replies<T>, self => "Replies");
impl_debug!([T] ReplyStream<T>, self => "ReplyStream");
impl_debug!([M, T] Streaming<M, T>, self => "Streaming" { pid: self.pid, method: self.method, .. });
