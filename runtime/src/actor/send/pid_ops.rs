//! The life of a process, through its PID.

use crate::actor::tasks::outside::ExitWaiter;
use crate::engine::blocking::block_in_place::while_blocked;
use crate::engine::shutdown::tell;
use crate::env::clock::instant_now;
use crate::exit::ExitReason;
use crate::mailbox::node::NodeKind;
use crate::pid::Pid;
use crate::process::control::{Control, EndWaiter, Join};
use crate::slots::{Slot, TABLE};
use crate::sync::Arc;
use crate::util::oneshot::Oneshot;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};
use std::time::Duration;

impl Pid {
    /// The slot of the process that the PID means, and the PID of that.
    fn slot_of(self) -> Option<(&'static Slot, Self)> {
        let pid = self.resolve()?;
        TABLE.living(pid).map(|slot| (slot, pid))
    }

    /// Returns whether the process lives, as far as this node knows.
    pub fn is_alive(self) -> bool {
        self.slot_of().is_some()
    }

    /// Asks the process to end when it has seen all that was sent before. Never refused by a full mailbox. Gives
    /// whether it lived.
    ///
    /// What arrives later is dead letters. A process in an async entry sees the request when it takes messages.
    pub fn stop(self) -> bool {
        let Some((slot, pid)) = self.slot_of() else { return false };
        if slot.is_told_to_stop() {
            tell(slot, pid.generation(), Control::Cancel(ExitReason::Normal));
            return true;
        }
        slot.enqueue(NodeKind::Stop, pid, ptr::null_mut(), None).is_ok()
    }

    /// Tells the process to end, ahead of what waits in its mailbox. One with a `#[signal]` method for [`Cancel`]
    /// decides itself; any other one ends, with this reason, when its present method is done or awaits. Returns whether
    /// it lived.
    ///
    /// [`Cancel`]: crate::Cancel
    pub fn cancel(self, reason: impl Into<ExitReason>) -> bool {
        self.control(Control::Cancel(reason.into()))
    }

    /// Ends the process before its next message. Its state is dropped and closed as ever; it is not asked. Gives
    /// whether it lived.
    ///
    /// A supervisor kills its children, and a pool its members; they have ended when those have.
    pub fn kill(self) -> bool {
        let Some((slot, pid)) = self.slot_of() else { return false };
        let control = if slot.is_told_to_stop() { Control::Cancel(ExitReason::Killed) } else { Control::Kill };
        tell(slot, pid.generation(), control);
        true
    }

    fn control(self, control: Control) -> bool {
        let Some((slot, pid)) = self.slot_of() else { return false };
        tell(slot, pid.generation(), control);
        true
    }

    /// Waits for the end of the process: until its state has been dropped and its name is free. Await it, or `wait` on
    /// a plain thread. The result is why it ended: [`ExitReason::Gone`] if it had ended before it was asked.
    pub fn join(self) -> Ended {
        let ending = Arc::new(ExitWaiter(Oneshot::new()));
        self.join_with(ending.clone());
        Ended { ending, known: None }
    }

    /// Tells `waiter` of the end of the process.
    pub(crate) fn join_with(self, waiter: Arc<dyn EndWaiter>) {
        let join = Join::new(waiter);
        // Dropped if the process has ended: that tells the waiter. One that is being taken apart still takes it.
        if let Some(pid) = self.resolve()
            && let Some(slot) = TABLE.last(pid)
        {
            tell(slot, pid.generation(), Control::Join(join));
        }
    }
}

/// The end of a process, to be waited for.
#[must_use = "await it, or call `.wait()`"]
pub struct Ended {
    ending: Arc<ExitWaiter>,
    /// Why it ended, if that was kept.
    known: Option<ExitReason>,
}

impl Ended {
    /// What is to be told of a process that had ended before.
    pub(crate) fn or_known(self, known: Option<ExitReason>) -> Self {
        Self { known, ..self }
    }

    fn told(&self, reason: ExitReason) -> ExitReason {
        match (reason, &self.known) {
            (ExitReason::Gone, Some(known)) => known.clone(),
            (reason, _) => reason,
        }
    }

    /// Blocks the thread until the process has ended.
    pub fn wait(self) -> ExitReason {
        let reason = while_blocked(|| self.ending.0.wait(None)).map_or(ExitReason::Gone, |(reason, _)| reason);
        self.told(reason)
    }

    /// The same, for a while. `None`: it has not ended yet.
    pub fn wait_timeout(self, timeout: Duration) -> Option<ExitReason> {
        let deadline = instant_now().checked_add(timeout);
        while_blocked(|| self.ending.0.wait(deadline)).map(|(reason, _)| self.told(reason))
    }
}

impl Future for Ended {
    type Output = ExitReason;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ExitReason> {
        self.ending.0.poll(context.waker()).map(|(reason, _)| self.told(reason))
    }
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ended")
    }
}
