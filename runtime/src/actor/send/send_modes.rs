//! Sends with an explicit behaviour at a full mailbox.

use super::call::{Call, send_held};
use crate::call::package::{Package, Undeliverable};
use crate::engine::backpressure::congestion::{SendMode, with_mode};
use crate::engine::backpressure::waiters::{self, RoomRequest, RoomSignal};
use crate::env::clock::{Moment, TimeKeeper, instant_now};
use crate::mailbox::payload::HeldMessage;
use crate::routing::alias::{DEPTH, is_local_alias, target_of};
use crate::routing::hosts::is_here;
use crate::routing::router::{Node, queue_abroad};
use crate::routing::transport::Receiver;
use crate::{
    Pid, SendError, actor::tasks::time_source::now_for, slots::TABLE, time::timekeeper::timekeeper,
    util::oneshot::Oneshot,
};
use std::future::poll_fn;
use std::time::{Duration, Instant};

impl Node {
    /// Like `deliver`, but never waits. This is for a thread that delivers the packages of many senders and must not be
    /// held up by one full mailbox.
    ///
    /// # Errors
    /// The package and the reason, which is [`Full`](crate::error::SendFailure::Full) even for a mailbox where senders
    /// would wait.
    pub fn try_deliver(self, package: Package) -> Result<(), Undeliverable> {
        with_mode(SendMode::Try, || self.deliver(package))
    }
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Call<M, T, E> {
    /// Sends the message, expects no answer, and never waits: a sending process is not suspended.
    ///
    /// # Errors
    /// Those of [`Call::send`], and [`Full`](crate::error::SendFailure::Full) if the mailbox is full, even inside a
    /// process.
    pub fn try_send(self) -> Result<(), SendError<M>> {
        let (pid, message) = self.into_parts();
        with_mode(SendMode::Try, || send_held(pid, message))
    }

    /// Sends the message and expects no answer. Blocks the thread while the mailbox is full, or while the process is a
    /// child that is being restarted, until the deadline set with [`timeout`](Call::timeout) or
    /// [`deadline`](Call::deadline), if any. Inside a process, another thread runs the other processes in the meantime.
    ///
    /// # Errors
    /// The message and the reason: [`Full`](crate::error::SendFailure::Full) or
    /// [`Restarting`](crate::error::SendFailure::Restarting) if the deadline has passed, otherwise those of
    /// [`Call::send`].
    pub fn send_wait(self) -> Result<(), SendError<M>> {
        let until = self.limit().filter(|limit| *limit != Moment::NEVER);
        let until = until.map(|limit| instant_now() + limit.since(now_for(self.pid())));
        let (pid, mut message) = self.into_parts();
        loop {
            match with_mode(SendMode::Try, || send_held(pid, message)) {
                Err(SendError { message: back, reason }) if reason.is_retryable() && !is_over(until) => {
                    message = HeldMessage::new(back);
                }
                outcome => return outcome,
            }
            if let Some(request) = room_request(pid) {
                request.wait(until);
            }
        }
    }

    /// Sends the message and expects no answer. Waits while the mailbox is full, or while the process is a child that
    /// is being restarted; a timeout or deadline of the call has no effect. Cancel safe: dropping the future before it
    /// completes drops the message unsent.
    ///
    /// # Errors
    /// Those of [`Call::send`], except [`Full`](crate::error::SendFailure::Full) and
    /// [`Restarting`](crate::error::SendFailure::Restarting).
    pub async fn send_async(self) -> Result<(), SendError<M>> {
        let (pid, mut message) = self.into_parts();
        loop {
            match with_mode(SendMode::Try, || send_held(pid, message)) {
                Err(SendError { message: back, reason }) if reason.is_retryable() => message = HeldMessage::new(back),
                outcome => return outcome,
            }
            if let Some(request) = room_request(pid) {
                poll_fn(|context| request.poll(context.waker())).await;
            }
        }
    }
}

fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| instant_now() >= until)
}

/// The retry interval for targets that send no signal when there is room. A guess: long compared with an attempt, too
/// short for people to notice.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Requests a signal that fires when there may be room in a mailbox. Returns `None` if there is room now, or if the
/// process has ended.
pub(crate) fn room_request(pid: Pid) -> Option<RoomRequest> {
    if !is_here(pid) {
        return room_abroad(pid);
    }
    room_at_alias(pid).or_else(|| waiters::ask(TABLE.living(pid)?, pid.generation()))
}

/// Requests a signal that fires when there may be room at an alias. Returns `None` for any other PID.
fn room_at_alias(pid: Pid) -> Option<RoomRequest> {
    if !is_local_alias(pid) {
        return None;
    }
    let mut alias = pid;
    for _ in 0..DEPTH {
        let Some(target) = target_of(alias) else { break };
        let asked = match target.now() {
            Some(next) if is_local_alias(next) => {
                alias = next;
                continue;
            }
            Some(process) if !is_here(process) => return room_abroad(process),
            Some(process) => TABLE.living(process).and_then(|slot| waiters::ask(slot, process.generation())),
            None => target.room().map(RoomRequest::of),
        };
        if asked.is_some() {
            return asked;
        }
        break;
    }
    // There may be room already, and then no signal would come.
    room_soon()
}

/// Requests a signal that fires when there may be room in the transport to another node.
fn room_abroad(pid: Pid) -> Option<RoomRequest> {
    let asked = queue_abroad(pid).and_then(|queue| waiters::ask_abroad(&queue));
    // There may be room already, or the transport sends no signal.
    asked.or_else(room_soon)
}

/// Requests a signal that fires when it is time for another attempt, for targets that send no signal of their own.
fn room_soon() -> Option<RoomRequest> {
    let room = RoomSignal::new(Oneshot::new());
    let inside = room.clone();
    // In system time, which this timekeeper uses even if a test controls the clock of the host.
    timekeeper().later(Moment::now_by(None).after(LOOK_AGAIN), Box::new(move || _ = inside.put(())))?;
    Some(RoomRequest::of(room))
}
