//! The ties between processes of this node and those of one other node. They end when the connection to that node is
//! lost.
//!
//! Each process keeps its half of a link. [`Ties`] is a shadow of the local halves, updated by each link message that
//! passes in either direction. It may list a tie that its process has ended in the meantime; the process then ignores
//! the notice. It never lacks a tie: an outgoing message is recorded after its process has changed its half and before
//! the message is sent, and an incoming message is recorded before its process can change its half. `tests/exhaustive`
//! checks the shadow together with a process's half.
//!
//! # Aliases
//!
//! A process may link with or monitor an alias of the other node. Only that node can resolve the alias. There, the tie
//! is with the process that the alias resolves to at that moment, and the alias is recorded: messages from that process
//! then have the alias as their sender, because that is the name that the other process knows. (A `Down` is identified
//! by its number instead.) If the alias has no process, the tie may be with the alias itself. The alias then counts as
//! a local process here.

use crate::exit::ExitReason;
use crate::links::protocol::LinkMessage;
use crate::pid::Pid;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ties {
    /// Links, by the local process and the name of the other process.
    links: BTreeSet<(Pid, Pid)>,
    /// Links that the local process has ended, without an acknowledgement from the other process so far. Each has the
    /// number of the unlink, and tells whether the local process has linked again.
    unlinking: BTreeMap<(Pid, Pid), (u64, bool)>,
    /// Processes that local processes monitor, by the local process and the number of the monitor.
    watched: BTreeMap<(Pid, u64), Pid>,
    /// Local processes that are monitored, by the monitoring process and the number of the monitor.
    watchers: BTreeMap<(Pid, u64), Pid>,
    /// Local processes that are linked through an alias, by the alias and the other process.
    aliased: BTreeMap<(Pid, Pid), Pid>,
    /// The aliases of the links in `aliased`, by the local process and the other one.
    aliases: BTreeMap<(Pid, Pid), BTreeSet<Pid>>,
}

impl Ties {
    /// Records a message that a local process sends. Returns the names from which it is sent.
    pub(super) fn sends(&mut self, from: Pid, to: Pid, message: &LinkMessage<ExitReason>) -> Vec<Pid> {
        let mut names = vec![from];
        match message {
            LinkMessage::Link => {
                self.links.insert((from, to));
                self.unlinking.entry((from, to)).and_modify(|(_, again)| *again = true);
            }
            LinkMessage::Unlink(number) => {
                self.links.remove(&(from, to));
                self.unlinking.insert((from, to), (*number, false));
            }
            LinkMessage::Watch(number) => _ = self.watched.insert((from, *number), to),
            LinkMessage::Unwatch(number) => _ = self.watched.remove(&(from, *number)),
            LinkMessage::Down(number, _) => _ = self.watchers.remove(&(to, *number)),
            LinkMessage::Exit(_) => _ = self.links.remove(&(from, to)),
            LinkMessage::Unlinked(_) | LinkMessage::Disowned | LinkMessage::Failed(_) => {}
        }
        match message {
            LinkMessage::Exit(_) => names.extend(self.forget_aliases(from, to)),
            LinkMessage::Unlinked(_) if !self.is_linked((from, to)) => {
                names.extend(self.forget_aliases(from, to));
            }
            LinkMessage::Unlink(_) | LinkMessage::Unlinked(_) | LinkMessage::Failed(_) => {
                names.extend(self.aliases.get(&(from, to)).into_iter().flatten());
            }
            _ => {}
        }
        names
    }

    /// Records that a message was not sent, and that its request is answered here.
    pub(super) fn unsent(&mut self, from: Pid, to: Pid, message: &LinkMessage<ExitReason>) {
        match message {
            LinkMessage::Link => _ = self.links.remove(&(from, to)),
            LinkMessage::Unlink(_) => _ = self.unlinking.remove(&(from, to)),
            LinkMessage::Watch(number) => _ = self.watched.remove(&(from, *number)),
            _ => {}
        }
    }

    /// Returns the number of links and monitors.
    pub(super) fn count(&self) -> usize {
        self.links.len() + self.unlinking.len() + self.watched.len() + self.watchers.len()
    }

    /// Returns true if there is a link, or if the local process has ended one and the other process has not
    /// acknowledged its end.
    fn is_linked(&self, link: (Pid, Pid)) -> bool {
        self.links.contains(&link) || self.unlinking.contains_key(&link)
    }

    fn forget_aliases(&mut self, local: Pid, other: Pid) -> BTreeSet<Pid> {
        let aliases = self.aliases.remove(&(local, other)).unwrap_or_default();
        for alias in &aliases {
            self.aliased.remove(&(*alias, other));
        }
        aliases
    }

    /// Returns the local process with the tie that a message from `from` to the alias `to` refers to. `None` if the
    /// message is for the process that the alias resolves to now.
    pub(super) fn meant(&self, from: Pid, to: Pid, message: &LinkMessage<ExitReason>) -> Option<Pid> {
        match message {
            LinkMessage::Link | LinkMessage::Watch(_) => None,
            LinkMessage::Unwatch(number) => self.watchers.get(&(from, *number)).copied(),
            _ => self.aliased.get(&(to, from)).copied().or_else(|| self.is_linked((to, from)).then_some(to)),
        }
    }

    /// Records a message to the local process `to`, which was addressed as `name`. Returns the name from which the
    /// message comes: for the notice of a monitor, the name that was monitored.
    pub(super) fn receives(&mut self, from: Pid, to: Pid, name: Pid, message: &LinkMessage<ExitReason>) -> Pid {
        let link = (to, from);
        match message {
            LinkMessage::Link => {
                // If the local process has unlinked, the other process sent this before it received the unlink.
                if self.unlinking.get(&link).is_none_or(|(_, again)| *again) {
                    self.links.insert(link);
                }
                if name != to && self.links.contains(&link) {
                    self.aliased.insert((name, from), to);
                    self.aliases.entry(link).or_default().insert(name);
                }
            }
            LinkMessage::Unlink(_) => _ = self.links.remove(&link),
            LinkMessage::Unlinked(number) => {
                if self.unlinking.get(&link).is_some_and(|(unlinking, _)| unlinking == number) {
                    self.unlinking.remove(&link);
                    if !self.links.contains(&link) {
                        self.forget_aliases(to, from);
                    }
                }
            }
            LinkMessage::Exit(_) => {
                self.links.remove(&link);
                self.forget_aliases(to, from);
            }
            LinkMessage::Watch(number) => _ = self.watchers.insert((from, *number), to),
            LinkMessage::Unwatch(number) => _ = self.watchers.remove(&(from, *number)),
            LinkMessage::Down(number, _) => return self.watched.remove(&(to, *number)).unwrap_or(from),
            LinkMessage::Disowned | LinkMessage::Failed(_) => {}
        }
        from
    }

    /// Ends all ties. Returns the messages that notify the local processes, each with its sender and its receiver.
    pub(super) fn lost(self) -> Vec<(Pid, Pid, LinkMessage<ExitReason>)> {
        let mut messages = Vec::new();
        for (local, other) in self.links {
            messages.push((other, local, LinkMessage::Failed(ExitReason::NodeLost)));
            messages.push((other, local, LinkMessage::Exit(ExitReason::NodeLost)));
        }
        for ((local, other), (number, _)) in self.unlinking {
            messages.push((other, local, LinkMessage::Unlinked(number)));
        }
        for ((local, number), other) in self.watched {
            messages.push((other, local, LinkMessage::Down(number, ExitReason::NodeLost)));
        }
        for ((other, number), local) in self.watchers {
            messages.push((other, local, LinkMessage::Unwatch(number)));
        }
        messages
    }
}

/// Returns the answer to a local process on behalf of a process that cannot be reached.
pub(super) fn answer_for_the_lost(message: &LinkMessage<ExitReason>) -> Option<LinkMessage<ExitReason>> {
    match message {
        LinkMessage::Link => Some(LinkMessage::Exit(ExitReason::NodeLost)),
        LinkMessage::Unlink(number) => Some(LinkMessage::Unlinked(*number)),
        LinkMessage::Watch(number) => Some(LinkMessage::Down(*number, ExitReason::NodeLost)),
        _ => None,
    }
}
