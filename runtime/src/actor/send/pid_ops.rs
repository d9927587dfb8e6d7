//! Stopping, killing and joining processes.

use crate::engine::{blocking::block_in_place::while_blocked, shutdown::send_control};
use crate::observe::spans;
use crate::process::control::{Control, EndWaiter, Join};
use crate::routing::alias::{self, EndSource, Request};
use crate::routing::hosts::{is_elsewhere, is_here};
use crate::routing::remote_links::{self, send_join};
use crate::routing::{ControlMessage, Node};
use crate::slots::{SendPolicy, Slot, TABLE};
use crate::{
    ExitReason, Payload, Pid, actor::tasks::ExitWaiter, env::clock::instant_now, mailbox::node::NodeKind, sync::Arc,
    util::oneshot::Oneshot,
};
use std::task::{Context, Poll};
use std::{future::Future, pin::Pin, time::Duration};

impl Pid {
    /// Returns the slot of the process that the PID stands for, and that process's own PID.
    fn slot_of(self) -> Option<(&'static Slot, Self)> {
        let pid = self.resolve().filter(|pid| !is_elsewhere(*pid))?;
        TABLE.living(pid).map(|slot| (slot, pid))
    }

    /// Sends a control to a process that is not alive here. Returns whether it was sent to another node.
    #[cold]
    fn control_elsewhere(self, message: ControlMessage) -> bool {
        self.resolve().is_some_and(|pid| !is_here(pid) && remote_links::send_control(pid, message))
    }

    /// If this is the alias of a child that has not begun, holds the request to end until the child begins. Returns
    /// whether the request is held.
    fn is_held(self, request: impl FnOnce() -> Request) -> bool {
        self.is_alias() && alias::hold(self, request())
    }

    /// Returns whether the process is alive. It may end right afterwards; `false` is final, except for an
    /// [alias](Self::is_alias), whose process may be restarted. Always `false` for a process of another node.
    pub fn is_alive(self) -> bool {
        self.slot_of().is_some()
    }

    /// Asks the process to end after it has handled all earlier messages. Never refused. Returns whether it was alive.
    ///
    /// A child that has [not begun](crate::supervision::Tree::start) receives the request when it begins, and this
    /// returns true. The same applies to [`cancel`](Self::cancel) and [`kill`](Self::kill); the child receives these
    /// before its first message.
    ///
    /// Later messages become dead letters. A process in an async entry sees the request only when it takes messages;
    /// [`cancel`](Self::cancel) ends even a process that never does. Returns at once: use [`join`](Self::join) to wait.
    ///
    /// A request for a process of another node goes to the node's [transport](crate::routing::Transport). In that case
    /// this method, like [`cancel`](Self::cancel) and [`kill`](Self::kill), returns whether the transport has accepted
    /// the request.
    pub fn stop(self) -> bool {
        if self.is_held(|| Request::Stop) {
            return true;
        }
        let Some((slot, pid)) = self.slot_of() else { return self.control_elsewhere(ControlMessage::Stop) };
        if slot.is_told_to_stop() {
            send_control(slot, pid.generation(), Control::Cancel(ExitReason::Normal));
            return true;
        }
        let payload = spans::may_be_wanted().then(|| Payload::sent(()));
        slot.deliver(pid, NodeKind::Stop, None, payload, SendPolicy::Anyway).is_ok()
    }

    /// Tells the process to end, ahead of queued messages. A process with a `#[signal]` method for [`Cancel`] decides
    /// for itself; any other process ends with this reason when its current method returns or awaits. Returns whether
    /// the process was alive.
    ///
    /// [`Cancel`]: crate::Cancel
    pub fn cancel(self, reason: impl Into<ExitReason>) -> bool {
        let reason = reason.into();
        if self.is_held(|| Request::Cancel(reason.clone())) {
            return true;
        }
        match self.slot_of() {
            Some((slot, pid)) => {
                send_control(slot, pid.generation(), Control::Cancel(reason));
                true
            }
            None => self.control_elsewhere(ControlMessage::Cancel(reason)),
        }
    }

    /// Ends the process before its next message, without asking it. A step in progress is not interrupted, but an async
    /// method is interrupted at its await. The state is dropped, as at any other end. Returns whether the process was
    /// alive.
    ///
    /// When a supervisor is killed, it first kills its children, and ends after them. A pool does the same with its
    /// members.
    pub fn kill(self) -> bool {
        if self.is_held(|| Request::Kill) {
            return true;
        }
        let Some((slot, pid)) = self.slot_of() else { return self.control_elsewhere(ControlMessage::Kill) };
        let control = if slot.is_told_to_stop() { Control::Cancel(ExitReason::Killed) } else { Control::Kill };
        send_control(slot, pid.generation(), control);
        true
    }

    /// Waits for the end of the process, that is, until its state has been dropped and its name is free. Await the
    /// result, or `wait` for it on a plain thread. The result is the exit reason, or [`ExitReason::NoProcess`] if the
    /// process had ended before this call, since reasons are not kept. Dropping the future changes nothing.
    ///
    /// For a child without a process, because it has not begun or is being restarted, this waits for the end of its
    /// next process; if the child is not restarted, the result is the reason why its last process ended.
    ///
    /// For a process of another node, the result is [`ExitReason::NodeLost`] if the connection is lost, or if there is
    /// none.
    ///
    /// Costs an allocation and one control message to the process.
    ///
    /// ```
    /// use postroom::prelude::*;
    ///
    /// # #[process] struct Disk;
    /// # #[process]
    /// # impl Disk { #[entry] fn serve(&mut self) {} }
    /// let runtime = Runtime::new()?;
    /// let disk = runtime.spawn(Disk).serve()?.pid();
    /// let end = disk.join();
    /// assert!(disk.stop());
    /// assert!(matches!(end.wait(), ExitReason::Normal));
    /// assert!(matches!(disk.join().wait(), ExitReason::NoProcess));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn join(self) -> Ended {
        let ending = Arc::new(ExitWaiter(Oneshot::new()));
        self.join_with(ending.clone());
        Ended { ending, known: None }
    }

    pub(crate) fn join_with(self, waiter: Arc<dyn EndWaiter>) {
        let join = Join::new(waiter);
        // If the process has ended, the request is dropped, and the drop notifies the waiter. A process that is exiting
        // still accepts the request.
        match EndSource::of(self) {
            EndSource::Process(pid, _on_its_way) => match TABLE.last(pid).filter(|_| !is_elsewhere(pid)) {
                Some(slot) => send_control(slot, pid.generation(), Control::Join(join)),
                None if !is_here(pid) => send_join(pid, join),
                None => {}
            },
            EndSource::Alias(_, target) => drop(target.hold(Request::Join(join))),
            EndSource::Nothing => {}
        }
    }
}

impl Node {
    /// Passes a control from another node to the process `to` on this node. Returns whether that process was alive.
    pub fn control(self, to: Pid, control: ControlMessage) -> bool {
        let is_for_this = to.node() == self.id();
        is_for_this
            && self.enter(|| match control {
                ControlMessage::Stop => to.stop(),
                ControlMessage::Cancel(reason) => to.cancel(reason),
                ControlMessage::Kill => to.kill(),
            })
    }
}

/// The end of a process: await it, or call [`wait`](Self::wait). Created by [`Pid::join`]. Its output is the exit
/// reason.
#[must_use = "await it, or call `.wait()`"]
pub struct Ended {
    ending: Arc<ExitWaiter>,
    /// The exit reason, if the supervisor of the process has kept it.
    known: Option<ExitReason>,
}

impl Ended {
    pub(crate) fn or_known(mut self, known: Option<ExitReason>) -> Self {
        self.known = known;
        self
    }

    fn told(&self, reason: ExitReason) -> ExitReason {
        match (reason, &self.known) {
            (ExitReason::NoProcess, Some(known)) => known.clone(),
            (reason, _) => reason,
        }
    }

    /// Blocks the thread until the process has ended. Inside a process, another thread runs the other processes in the
    /// meantime. A process that waits for its own end waits forever.
    pub fn wait(self) -> ExitReason {
        let reason = while_blocked(|| self.ending.0.wait(None)).map_or(ExitReason::NoProcess, |(reason, _)| reason);
        self.told(reason)
    }

    /// Blocks for at most `timeout`, measured by the system's clock. Returns `None` if the process has not ended by
    /// then.
    pub fn wait_timeout(self, timeout: Duration) -> Option<ExitReason> {
        let deadline = instant_now().checked_add(timeout);
        while_blocked(|| self.ending.0.wait(deadline)).map(|(reason, _)| self.told(reason))
    }
}

/// Gives up the wait, so that its waiter can be discarded.
impl Drop for Ended {
    fn drop(&mut self) {
        self.ending.0.abandon();
    }
}

impl Future for Ended {
    type Output = ExitReason;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ExitReason> {
        self.ending.0.poll(context.waker()).map(|(reason, _)| self.told(reason))
    }
}

crate::util::debug::impl_debug!([] Ended, self => "Ended");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::mailbox::Mailbox;

    /// Catches: a wait that was given up is kept for as long as the process lives.
    #[test]
    fn a_wait_that_was_given_up_is_forgotten() {
        let mut mailbox = Mailbox::new().unwrap();
        let [first, second] = [(); 2].map(|()| mailbox.pid().join());
        let waiters = [&first, &second].map(|ended| Arc::downgrade(&ended.ending));
        // The first wait is given up by a drop, the second by a time limit.
        drop(first);
        assert_eq!(second.wait_timeout(Duration::ZERO), None);
        let kept = mailbox.pid().join();
        for _ in 0..1_000 {
            assert_eq!(mailbox.pid().join().wait_timeout(Duration::ZERO), None);
            // Receives the request to join.
            assert!(mailbox.try_receive().is_none());
        }
        assert!(waiters.iter().all(|waiter| waiter.upgrade().is_none()));
        drop(mailbox);
        assert_eq!(kept.wait(), ExitReason::Normal);
    }
}
