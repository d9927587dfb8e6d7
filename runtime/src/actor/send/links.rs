//! Links and monitors, from inside a process.

use crate::engine::context::own::{send_link_message, with_own};
use crate::engine::{blocking::block_in_place::while_blocked, shutdown::send_control};
use crate::env::program::this_node;
use crate::links::protocol::{ConnectionId, LinkMessage, Links};
use crate::process::control::{Control, Inspect};
use crate::routing::alias::{EndSource, names_of_links};
use crate::routing::hosts::is_elsewhere;
use crate::routing::remote_links::Way;
use crate::slots::{Slot, TABLE};
use crate::{Monitor, Pid, Signal, links::message::Bindings, sync::Arc, util::oneshot::Oneshot};
use std::task::{Context, Poll};
use std::{collections::VecDeque, future::Future, pin::Pin};

/// The reason why a process could not be linked or monitored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Requested outside of a process, or by a process that is being closed: there is no process to notify.
    #[error(
        "only a live process can link to {0} or monitor it; elsewhere wait for its end with \
            `pid.join()`"
    )]
    NoProcess(Pid),
    /// The process named itself.
    #[error("{0} is the calling process, which can neither link to itself nor monitor itself")]
    Itself(Pid),
}

impl Pid {
    /// Monitors this process: the caller gets one [`Down`](crate::Down) when the process ends for any reason, or at
    /// once if it has already ended. Monitoring a process twice yields two notices. The monitored process is not told
    /// about it.
    ///
    /// For an [alias](Pid::is_alias), the current target is monitored, and the `Down` names it. In two cases the `Down`
    /// names the alias: for an alias of another node, and for a child on this node that has no process at the moment.
    /// In the second case, the child's next process is monitored. The reason is
    /// [`NodeLost`](crate::ExitReason::NodeLost) if the connection to a process's node is lost, or if there is none:
    /// see [`Transport`](crate::routing::Transport).
    ///
    /// To wait for an end, await [`join`](Pid::join) instead. Costs one control message to the process.
    ///
    /// # Errors
    /// [`TopologyError`] outside of processes and for the process itself.
    pub fn monitor(self) -> Result<Monitor, TopologyError> {
        let source = EndSource::of(self);
        let other = source.name(self);
        let (own, number) = self.bind(other, |links| links.watch(other))?;
        send_link_message(own, other, LinkMessage::Watch(number));
        Ok(Monitor::new(other, own.1.incarnation(), number))
    }

    /// Links the calling process with this one: if either fails, so does the other, with
    /// [`ExitReason::Linked`](crate::ExitReason::Linked), unless it traps exits and gets an [`Exit`](crate::Exit)
    /// instead. A normal end ([`ExitReason::Normal`](crate::ExitReason::Normal)) only removes the link. Linking twice
    /// makes one link. A process that has already ended counts as failed, and so does a process of another node if
    /// the connection to it is lost or does not exist. A child without a process is linked once it has its next
    /// process; the [`Exit`](crate::Exit) then names its alias.
    ///
    /// # Errors
    /// [`TopologyError`] outside of processes and for the process itself.
    pub fn link(self) -> Result<(), TopologyError> {
        let source = EndSource::of(self);
        let (other, names) = (source.name(self), names_of_links(self));
        // Chosen once, so that the link belongs to the connection that carries its message.
        let way = (other.node() != this_node()).then(|| Way::between(this_node(), other.node()));
        let over = way.as_ref().map_or(ConnectionId::LOCAL, Way::id);
        let (own, message) =
            self.bind(other, |links| match names.iter().any(|name| name.is_alias() && links.is_linked(*name)) {
                true => None,
                false => links.link(other, over),
            })?;
        match (message, way) {
            (Some(message), Some(way)) => way.send(own.1, other, message),
            (Some(message), None) => send_link_message(own, other, message),
            (None, _) => {}
        }
        Ok(())
    }

    /// Removes the link with this process, if there is one: from here on, neither process is notified of the other's
    /// end.
    ///
    /// # Errors
    /// [`TopologyError`] outside of processes and for the process itself.
    pub fn unlink(self) -> Result<(), TopologyError> {
        let names = names_of_links(self);
        let process = names.last().copied().unwrap_or(self);
        let unlink = |links: &mut Links<Self>| -> Vec<_> { names.iter().map(|name| links.unlink(*name)).collect() };
        let (own, messages) = self.bind(process, unlink)?;
        let is_its = |signal: &Signal| matches!(signal, Signal::Exit(exit) if names.contains(&exit.pid));
        let _unheard = crate::actor::tasks::current::peek(|waits| take_out(&mut waits.inbox.signals, is_its));
        for (name, message) in names.into_iter().zip(messages) {
            if let Some(message) = message {
                send_link_message(own, name, message);
            }
        }
        Ok(())
    }

    /// Applies `change` to the links of the calling process, and returns that process together with the result. Fails
    /// outside of processes, and if `other` is the calling process.
    fn bind<R>(
        self,
        other: Self,
        change: impl FnOnce(&mut Links<Self>) -> R,
    ) -> Result<((&'static Slot, Self), R), TopologyError> {
        let bound = with_own(|slot, me, cold_state| match me == other {
            true => Err(TopologyError::Itself(me)),
            false => Ok(((slot, me), change(cold_state.links()))),
        });
        bound.unwrap_or(Err(TopologyError::NoProcess(self)))
    }

    /// Returns the process that the PID stands for: for an alias, its current target.
    fn meant(self) -> Self {
        self.resolve().unwrap_or(self)
    }

    /// Requests the links and monitors that the process has at its next step. The result is `None` if it has ended, or
    /// lives on another node. Await the result, or `wait` for it on a plain thread. Costs one control message to the
    /// process.
    pub fn bindings(self) -> Inspection {
        let told = Arc::new(Oneshot::new());
        let pid = self.meant();
        let inspect = Inspect::new(told.clone());
        if let Some(slot) = TABLE.living(pid).filter(|_| !is_elsewhere(pid)) {
            send_control(slot, pid.generation(), Control::Inspect(inspect));
        }
        Inspection(told)
    }
}

/// A request for the links and monitors of a process: await it, or call [`wait`](Self::wait). Created by
/// [`Pid::bindings`].
#[must_use = "await it, or call `.wait()`"]
pub struct Inspection(Arc<Oneshot<Option<Bindings>>>);

impl Inspection {
    /// Blocks the thread until the process has answered, in its next step. Returns `None` if it has ended. Inside a
    /// process, another thread runs the other processes in the meantime.
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

crate::util::debug::impl_debug!([] Inspection, self => "Inspection");

impl Monitor {
    /// Removes the monitor: its [`Down`](crate::Down) will not arrive, even if it is in flight. Returns whether the
    /// `Down` was still to come. Call this in the process that owns the monitor: no other process can remove it.
    pub fn demonitor(self) -> bool {
        let ended = with_own(|slot, me, cold_state| {
            let links = cold_state.links();
            let is_its = me.incarnation() == self.watcher() && links.watched(self.number()) == Some(self.pid());
            is_its.then(|| links.unwatch(self.number()))?;
            Some((slot, me))
        });
        if let Some((slot, me)) = ended.flatten() {
            send_link_message((slot, me), self.pid(), LinkMessage::Unwatch(self.number()));
            return true;
        }
        // The `Down` may have been received, but not yet delivered to the process.
        let is_its = |signal: &Signal| matches!(signal, Signal::Down(down) if down.monitor == self);
        let unheard = crate::actor::tasks::current::peek(|waits| take_out(&mut waits.inbox.signals, is_its));
        unheard.is_some_and(|unheard| !unheard.is_empty())
    }
}

/// Removes undelivered signals and returns them. They hold user values, which must be dropped after the process's table
/// is released.
fn take_out(signals: &mut VecDeque<Signal>, is_such: impl Fn(&Signal) -> bool) -> VecDeque<Signal> {
    let (out, left) = std::mem::take(signals).into_iter().partition(is_such);
    *signals = left;
    out
}

/// Monitors a process that the caller has just spawned, unless the spawn has already done so. Returns the PID that the
/// `Down` will name.
pub(crate) fn monitor_child(pid: Pid) -> Result<Pid, TopologyError> {
    match with_own(|_, _, cold_state| cold_state.links().watches_newest(pid)) {
        Some(true) => Ok(pid),
        _ => pid.monitor().map(Monitor::pid),
    }
}

pub(crate) fn trap_exits(traps: bool) {
    // A machine that is driven by hand has no links.
    let _driven_by_hand = with_own(|_, _, cold_state| {
        cold_state.chose_to_trap = true;
        cold_state.links().trap(traps);
    });
}
