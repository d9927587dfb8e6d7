//! One process's half of its links and monitors. The parent module describes the messages and their order.

use std::collections::{BTreeMap, BTreeSet};

/// An exit reason, reduced to what links need.
pub(crate) trait Cause: Clone {
    /// Returns whether an exit with this reason leaves partners unaffected.
    fn is_quiet(&self) -> bool;

    /// Returns the reason for a process that had already ended.
    fn gone() -> Self;
}

/// Identifies the connection between two nodes over which a link was made or a message arrived. Each connection has its
/// own ID.
///
/// A message affects only links of its own connection: a process may handle a message that was sent before a loss when
/// it is already linked with the sender over the next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

impl ConnectionId {
    /// The ID for links within a node.
    pub(crate) const LOCAL: Self = Self(0);
    /// The ID for links with a process of a node that is not connected: such links are lost as soon as they are made.
    pub(crate) const NONE: Self = Self(u64::MAX);
}

/// Messages that processes exchange about links and monitors; `Why` is an exit reason.
///
/// Transports carry them between nodes unchanged and need not interpret them: a number belongs to the process that
/// assigned it, and comes back in the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkMessage<Why> {
    /// The sender is now linked with the receiver.
    Link,
    /// The sender is no longer linked with the receiver. The receiver answers with this number.
    Unlink(u64),
    /// Answers an unlink.
    Unlinked(u64),
    /// Asks the receiver to notify the sender of its end, under this number.
    Watch(u64),
    /// Cancels a watch.
    Unwatch(u64),
    /// The sender has ended, and the receiver owned it.
    Disowned,
    /// The sender has ended, and the receiver watched it under this number.
    Down(u64, Why),
    /// The sender has ended, and was linked with the receiver.
    Exit(Why),
    /// Like `Exit`, for a partner that does not trap exits.
    Failed(Why),
}

/// Returns the answer to a message on behalf of a process that has ended.
pub(crate) fn answer_for_the_dead<Why: Cause>(message: &LinkMessage<Why>) -> Option<LinkMessage<Why>> {
    match message {
        LinkMessage::Link => Some(LinkMessage::Exit(Why::gone())),
        LinkMessage::Unlink(number) => Some(LinkMessage::Unlinked(*number)),
        LinkMessage::Watch(number) => Some(LinkMessage::Down(*number, Why::gone())),
        _ => None,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkEffect<Why> {
    Nothing,
    /// Send this answer to the sender.
    Answer(LinkMessage<Why>),
    /// A watched process has ended.
    Down(u64, Why),
    /// A partner has failed, and exits are trapped.
    Exit(Why),
    /// A partner has failed, and this process fails with it.
    End(Why),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unlinking {
    /// Number that the other process must answer with.
    number: u64,
    /// Connection over which this process has linked with the other again, if it has.
    again: Option<ConnectionId>,
}

/// One process's half of all its links and monitors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Links<Who: Ord> {
    links: BTreeSet<(Who, ConnectionId)>,
    /// Processes that this one has unlinked from, and that have not answered yet.
    unlinking: BTreeMap<Who, Unlinking>,
    /// Processes that this one watches, by number.
    watched: BTreeMap<u64, Who>,
    /// Watchers of this process, with their numbers.
    watchers: BTreeSet<(Who, u64)>,
    owned: BTreeSet<Who>,
    owner: Option<Who>,
    traps: bool,
    /// The most recently assigned number.
    number: u64,
}

impl<Who: Ord> Default for Links<Who> {
    fn default() -> Self {
        Self {
            links: BTreeSet::new(),
            unlinking: BTreeMap::new(),
            watched: BTreeMap::new(),
            watchers: BTreeSet::new(),
            owned: BTreeSet::new(),
            owner: None,
            traps: false,
            number: 0,
        }
    }
}

impl<Who: Ord + Copy> Links<Who> {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Sets whether the process traps exits. If it does, failures of partners are delivered to it instead of ending it.
    pub(crate) fn trap(&mut self, traps: bool) {
        self.traps = traps;
    }

    /// Returns the links with `other`. A lost link remains until the process handles the notice.
    pub(crate) fn links_with(&self, other: Who) -> impl Iterator<Item = (Who, ConnectionId)> {
        self.links.range((other, ConnectionId::LOCAL)..=(other, ConnectionId::NONE)).copied()
    }

    pub(crate) fn is_linked(&self, other: Who) -> bool {
        self.links_with(other).next().is_some()
    }

    /// Links with `other` over a connection. Returns the message to send to `other`; `None` if they are linked already.
    pub(crate) fn link<Why>(&mut self, other: Who, over: ConnectionId) -> Option<LinkMessage<Why>> {
        if self.is_linked(other) {
            return None;
        }
        self.links.insert((other, over));
        if let Some(unlinking) = self.unlinking.get_mut(&other) {
            unlinking.again = Some(over);
        }
        Some(LinkMessage::Link)
    }

    /// Unlinks from `other`. Returns the message to send to `other`; `None` if they are not linked.
    pub(crate) fn unlink<Why>(&mut self, other: Who) -> Option<LinkMessage<Why>> {
        if !self.is_linked(other) {
            return None;
        }
        let links = self.links_with(other).collect::<Vec<_>>();
        links.iter().for_each(|link| _ = self.links.remove(link));
        let number = self.next_number();
        self.unlinking.insert(other, Unlinking { number, again: None });
        Some(LinkMessage::Unlink(number))
    }

    /// Watches `other`. Returns the number of the watch. The caller must send it to `other`.
    pub(crate) fn watch(&mut self, other: Who) -> u64 {
        let number = self.next_number();
        self.watched.insert(number, other);
        number
    }

    pub(crate) fn watched(&self, number: u64) -> Option<Who> {
        self.watched.get(&number).copied()
    }

    /// Returns whether `other` is the most recently watched process and is still watched. For a process that was just
    /// spawned, this tells whether the spawn set up the watch.
    pub(crate) fn watches_newest(&self, other: Who) -> bool {
        self.watched.get(&self.number) == Some(&other)
    }

    /// Cancels a watch: the end of the watched process is not reported, even if the notice is on its way. Returns the
    /// watched process. The caller must notify it.
    pub(crate) fn unwatch(&mut self, number: u64) -> Option<Who> {
        self.watched.remove(&number)
    }

    /// Creates both halves of a link with a process that has not started. (It gets no messages yet, so none is sent.)
    pub(crate) fn link_child(&mut self, me: Who, spawned: &mut Self, other: Who) {
        self.links.insert((other, ConnectionId::LOCAL));
        spawned.links.insert((me, ConnectionId::LOCAL));
    }

    pub(crate) fn watch_child(&mut self, me: Who, spawned: &mut Self, other: Who) {
        let number = self.watch(other);
        spawned.watchers.insert((me, number));
    }

    pub(crate) fn own_child(&mut self, me: Who, spawned: &mut Self, other: Who) {
        self.owned.insert(other);
        spawned.owner = Some(me);
    }

    /// Handles a message from `from` that arrived over connection `by`. The caller keeps the message, and must drop it
    /// when nothing here is borrowed: the drop of the last reference to a reason is user code, and may link or unlink
    /// this very process.
    pub(crate) fn receive<Why: Cause>(
        &mut self,
        (from, by): (Who, ConnectionId),
        message: &LinkMessage<Why>,
    ) -> LinkEffect<Why> {
        match message {
            LinkMessage::Link => {
                // If this condition is false, the link was sent before the other process received the unlink.
                if self.unlinking.get(&from).is_none_or(|unlinking| unlinking.again == Some(by)) {
                    self.links.insert((from, by));
                }
                LinkEffect::Nothing
            }
            LinkMessage::Unlink(number) => {
                // If both processes unlink at once, each waits for its own answer.
                self.links.remove(&(from, by));
                LinkEffect::Answer(LinkMessage::Unlinked(*number))
            }
            LinkMessage::Unlinked(number) => {
                if self.unlinking.get(&from).is_some_and(|unlinking| unlinking.number == *number) {
                    self.unlinking.remove(&from);
                }
                LinkEffect::Nothing
            }
            LinkMessage::Watch(number) => {
                self.watchers.insert((from, *number));
                LinkEffect::Nothing
            }
            LinkMessage::Unwatch(number) => {
                self.watchers.remove(&(from, *number));
                LinkEffect::Nothing
            }
            LinkMessage::Disowned => {
                self.owned.remove(&from);
                LinkEffect::Nothing
            }
            LinkMessage::Down(number, why) if self.watched.get(number) == Some(&from) => {
                self.watched.remove(number);
                LinkEffect::Down(*number, why.clone())
            }
            LinkMessage::Down(..) => LinkEffect::Nothing,
            LinkMessage::Exit(why) => match self.links.remove(&(from, by)) {
                true if why.is_quiet() => LinkEffect::Nothing,
                true if self.traps => LinkEffect::Exit(why.clone()),
                true => LinkEffect::End(why.clone()),
                false => LinkEffect::Nothing,
            },
            // The notice follows. If exits are trapped, it is the notice that gets delivered.
            LinkMessage::Failed(why) => match self.links.contains(&(from, by)) {
                true if !self.traps => LinkEffect::End(why.clone()),
                _ => LinkEffect::Nothing,
            },
        }
    }

    /// Handles the end of the process. Returns the processes that must end with it, and the messages to send.
    pub(crate) fn end<Why: Cause>(self, why: &Why) -> (BTreeSet<Who>, Vec<(Who, LinkMessage<Why>)>) {
        let exits = self.links().flat_map(|other| {
            let failed = (!why.is_quiet()).then(|| (other, LinkMessage::Failed(why.clone())));
            // `Failed` precedes `Exit`, so that a partner that does not trap exits has ended when the notice arrives.
            failed.into_iter().chain([(other, LinkMessage::Exit(why.clone()))])
        });
        let downs = self.watchers.iter().map(|&(other, number)| (other, LinkMessage::Down(number, why.clone())));
        let unwatched = self.watched.iter().map(|(&number, &other)| (other, LinkMessage::Unwatch(number)));
        let disowned = self.owner.iter().map(|&owner| (owner, LinkMessage::Disowned));
        let messages = exits.chain(downs).chain(unwatched).chain(disowned).collect();
        (self.owned, messages)
    }

    /// Returns the linked processes, each once.
    pub(crate) fn links(&self) -> impl Iterator<Item = Who> {
        let mut before = None;
        self.links.iter().map(|(other, _)| *other).filter(move |other| before.replace(*other) != Some(*other))
    }

    /// Returns whether an unlink is unanswered. Simulations call this between turns.
    #[cfg(feature = "test")]
    pub(crate) fn is_unlinking(&self) -> bool {
        self.unlinking.values().any(|unlinking| unlinking.again.is_none())
    }

    pub(crate) fn all_watched(&self) -> impl Iterator<Item = Who> {
        self.watched.values().copied()
    }

    pub(crate) fn watchers(&self) -> impl Iterator<Item = Who> {
        self.watchers.iter().map(|&(other, _)| other)
    }

    pub(crate) fn owned(&self) -> impl Iterator<Item = Who> {
        self.owned.iter().copied()
    }
}
