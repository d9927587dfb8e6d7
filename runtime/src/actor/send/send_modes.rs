//! Other ways to send than `send`: those that say what becomes of a message for a full mailbox.

use super::call::{Call, send};
use crate::actor::tasks::time_source::now_for;
use crate::engine::backpressure::congestion::{Manner, in_manner};
use crate::engine::backpressure::waiters::{self, RoomRequest, RoomSignal};
use crate::env::clock::{Moment, TimeKeeper, instant_now};
use crate::errors::SendError;
use crate::pid::Pid;
use crate::routing::alias::{DEPTH, behind, points_on_here};
use crate::slots::TABLE;
use crate::time::timekeeper::timekeeper;
use crate::util::oneshot::Oneshot;
use std::future::poll_fn;
use std::time::{Duration, Instant};

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Call<M, T, E> {
    /// Sends the message, expects no answer, and never waits: a process that sends so is not suspended for it.
    ///
    /// # Errors
    /// The message, with the reason, if the process has ended or if its mailbox is full.
    pub fn try_send(self) -> Result<(), SendError<M>> {
        let (pid, message) = (self.pid(), self.into_message());
        in_manner(Manner::Try, || send(pid, message))
    }

    /// Sends the message and expects no answer; blocks the thread while the mailbox is full, or while the process is a
    /// child that is being restarted, until the call's time is up if it was given one with [`timeout`](Call::timeout)
    /// or [`deadline`](Call::deadline). Inside a process another thread runs the others meanwhile.
    ///
    /// # Errors
    /// The message, with the reason, if the process has ended or if the time is up.
    pub fn send_wait(self) -> Result<(), SendError<M>> {
        let until = self.limit().filter(|limit| *limit != Moment::NEVER);
        let until = until.map(|limit| instant_now() + limit.since(now_for(self.pid())));
        let (pid, mut message) = (self.pid(), self.into_message());
        loop {
            match in_manner(Manner::Try, || send(pid, message)) {
                Err(SendError { message: back, reason }) if reason.is_retryable() && !is_over(until) => message = back,
                outcome => return outcome,
            }
            if let Some(wish) = wish(pid) {
                wish.wait(until);
            }
        }
    }

    /// Sends the message and expects no answer; waits while the mailbox is full, or while the process is a child that
    /// is being restarted. Safe to cancel: the message is dropped.
    ///
    /// # Errors
    /// The message, with the reason, if the process has ended.
    pub async fn send_async(self) -> Result<(), SendError<M>> {
        let (pid, mut message) = (self.pid(), self.into_message());
        loop {
            match in_manner(Manner::Try, || send(pid, message)) {
                Err(SendError { message: back, reason }) if reason.is_retryable() => message = back,
                outcome => return outcome,
            }
            if let Some(wish) = wish(pid) {
                poll_fn(|context| wish.poll(context.waker())).await;
            }
        }
    }
}

fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| instant_now() >= until)
}

/// How long to wait where nothing tells when there is room. A guess: long beside a look, short beside what people
/// notice.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Asks for room in a mailbox; `None` if there is some by now, or if the process has ended.
pub(crate) fn wish(pid: Pid) -> Option<RoomRequest> {
    wish_behind(pid).or_else(|| waiters::ask(TABLE.living(pid)?, pid.generation()))
}

/// Asks for room where a PID points on to; `None` for one that does not.
fn wish_behind(pid: Pid) -> Option<RoomRequest> {
    if !points_on_here(pid) {
        return None;
    }
    let mut target = pid;
    for _ in 0..DEPTH {
        let Some(behind) = behind(target) else { break };
        let asked = match behind.now() {
            Some(next) if points_on_here(next) => {
                target = next;
                continue;
            }
            Some(process) => TABLE.living(process).and_then(|slot| waiters::ask(slot, process.generation())),
            None => behind.room().map(RoomRequest::of),
        };
        if asked.is_some() {
            return asked;
        }
        break;
    }
    // There may be some already, and there is no telling: then it is looked for again soon.
    let room = RoomSignal::new(Oneshot::new());
    let inside = room.clone();
    // By the system's time, which that timekeeper goes by whatever a test does to that of a host.
    timekeeper().later(Moment::now_by(None).after(LOOK_AGAIN), Box::new(move || _ = inside.put(())))?;
    Some(RoomRequest::of(room))
}
