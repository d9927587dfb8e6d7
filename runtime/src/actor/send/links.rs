//! What a process calls to bind itself to others.

use crate::engine::blocking::block_in_place::while_blocked;
use crate::engine::context::own::{say, with_own};
use crate::engine::shutdown::tell;
use crate::exit::{Monitor, Signal};
use crate::links::message::Bindings;
use crate::links::protocol::LinkMessage;
use crate::pid::Pid;
use crate::process::control::{Control, Inspect};
use crate::slots::TABLE;
use crate::sync::Arc;
use crate::util::oneshot::Oneshot;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Why a process could not be bound to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// It was asked for outside of a process, or by one that is being closed: no process could be told.
    #[error(
        "only the code of a living process can link with {0} or monitor it; elsewhere wait for its end with \
            `pid.join()`"
    )]
    NoProcess(Pid),
    /// The process named itself.
    #[error("{0} is the process itself, whose end it would not live to hear of")]
    Itself(Pid),
}

impl Pid {
    /// The calling process will get one [`Down`](crate::Down) when this one ends, however that comes; at once if it has
    /// ended already. Monitoring it twice gives two. It says nothing to the process that is monitored, which may know
    /// nothing of it.
    ///
    /// Of a PID that [points on](Pid::is_alias) it is the process that answers for it now which is monitored, and which
    /// the `Down` names.
    ///
    /// Await [`join`](Pid::join) instead where the end is to be waited for. Costs one control message to the process.
    ///
    /// # Errors
    /// [`TopologyError`], outside of processes and for the process itself.
    pub fn monitor(self) -> Result<Monitor, TopologyError> {
        let other = self.meant();
        let bound = with_own(|slot, me, cold_state| {
            if me == other {
                return Err(TopologyError::Itself(me));
            }
            Ok((slot, me, cold_state.links().watch(other)))
        });
        let (slot, me, number) = bound.unwrap_or(Err(TopologyError::NoProcess(self)))?;
        say((slot, me), other, LinkMessage::Watch(number));
        Ok(Monitor::new(other, number))
    }

    /// Links the calling process with this one: if either fails, so does the other, with
    /// [`ExitReason::Linked`](crate::ExitReason::Linked), unless it traps exits: then it gets an [`Exit`](crate::Exit).
    /// An end as planned ([`ExitReason::Normal`](crate::ExitReason::Normal)) ends the link and nothing else. Linking
    /// twice is one link. A process that has ended already counts as failed.
    ///
    /// # Errors
    /// [`TopologyError`], outside of processes and for the process itself.
    pub fn link(self) -> Result<(), TopologyError> {
        let other = self.meant();
        let bound = with_own(|slot, me, cold_state| {
            if me == other {
                return Err(TopologyError::Itself(me));
            }
            Ok((slot, me, cold_state.links().link(other)))
        });
        let (slot, me, said) = bound.unwrap_or(Err(TopologyError::NoProcess(self)))?;
        if let Some(said) = said {
            say((slot, me), other, said);
        }
        Ok(())
    }

    /// Ends the link with this one, if there is one: from here on neither hears of the other's end by it.
    ///
    /// # Errors
    /// [`TopologyError`], outside of processes and for the process itself.
    pub fn unlink(self) -> Result<(), TopologyError> {
        let other = self.meant();
        let bound = with_own(|slot, me, cold_state| {
            if me == other {
                return Err(TopologyError::Itself(me));
            }
            Ok((slot, me, cold_state.links().unlink(other)))
        });
        let (slot, me, said) = bound.unwrap_or(Err(TopologyError::NoProcess(self)))?;
        let is_its = |signal: &Signal| matches!(signal, Signal::Exit(exit) if exit.pid == other);
        let _unheard = crate::actor::tasks::current::peek(|waits| take_out(&mut waits.signals, is_its));
        if let Some(said) = said {
            say((slot, me), other, said);
        }
        Ok(())
    }

    /// The process that a bond is made with: of a PID that points on, the one that answers for it now. If none does,
    /// the PID is as that of a process which has ended.
    fn meant(self) -> Self {
        self.resolve().unwrap_or(self)
    }
}

impl Pid {
    /// What binds the process to others, as of its next step; `None` if it has ended. Await it, or `wait` on a plain
    /// thread. Costs one control message to the process.
    pub fn bindings(self) -> Inspection {
        let told = Arc::new(Oneshot::new());
        let pid = self.meant();
        let inspect = Inspect::new(told.clone());
        if let Some(slot) = TABLE.living(pid) {
            tell(slot, pid.generation(), Control::Inspect(inspect));
        }
        Inspection(told)
    }
}

/// What binds a process to others, as it is about to tell.
#[must_use = "await it, or call `.wait()`"]
pub struct Inspection(Arc<Oneshot<Option<Bindings>>>);

impl Inspection {
    /// Blocks the thread until the process has told.
    pub fn wait(self) -> Option<Bindings> {
        while_blocked(|| self.0.wait(None)).flatten()
    }
}

impl Future for Inspection {
    type Output = Option<Bindings>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bindings>> {
        self.0.poll(context.waker())
    }
}

impl std::fmt::Debug for Inspection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inspection")
    }
}

impl Monitor {
    /// Takes the monitor back: its [`Down`](crate::Down) does not come any more, even if it was on its way. Gives
    /// whether it was still to come; also if another process asks, whose monitor it is not: then it is left alone.
    pub fn demonitor(self) -> bool {
        let ended = with_own(|slot, me, cold_state| {
            let links = cold_state.links();
            (links.watched(self.number()) == Some(self.pid())).then(|| links.unwatch(self.number()))?;
            Some((slot, me))
        });
        if let Some((slot, me)) = ended.flatten() {
            say((slot, me), self.pid(), LinkMessage::Unwatch(self.number()));
            return true;
        }
        // It may have been heard, and not have been given to the process.
        let is_its = |signal: &Signal| matches!(signal, Signal::Down(down) if down.monitor == self);
        let unheard = crate::actor::tasks::current::peek(|waits| take_out(&mut waits.signals, is_its));
        unheard.is_some_and(|unheard| !unheard.is_empty())
    }
}

/// Takes signals out that the process has not been given. They hold exit reasons, with drops of users' own, which run
/// when the process's table is not in use.
fn take_out(signals: &mut VecDeque<Signal>, is_such: impl Fn(&Signal) -> bool) -> VecDeque<Signal> {
    let (out, left) = std::mem::take(signals).into_iter().partition(is_such);
    *signals = left;
    out
}

/// The calling process will get a `Down` for one that it has just spawned: it was spawned so, or is monitored now.
/// Returns the PID that the `Down` will name.
pub(crate) fn monitor_child(pid: Pid) -> Result<Pid, TopologyError> {
    match with_own(|_, _, cold_state| cold_state.links().watches_newest(pid)) {
        Some(true) => Ok(pid),
        _ => pid.monitor().map(Monitor::pid),
    }
}

/// From here on the failure of a linked process is told to the calling one instead of ending it, or not any more.
pub(crate) fn trap_exits(traps: bool) {
    // Driven by hand it has no partners.
    let _driven_by_hand = with_own(|_, _, cold_state| cold_state.links().trap(traps));
}
