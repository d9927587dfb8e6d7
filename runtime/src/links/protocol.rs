//! What a process knows of those that it is bound to. See the folder's head for what is said when, and why.

use std::collections::{BTreeMap, BTreeSet};

/// Why a process ended, as far as this matters here.
pub(crate) trait Cause: Clone {
    /// Returns whether partners are left alone.
    fn is_quiet(&self) -> bool;

    /// It had ended before anyone asked.
    fn gone() -> Self;
}

/// What one process says to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LinkMessage<Why> {
    /// We are linked from here on.
    Link,
    /// We are not any more; answer with this number.
    Unlink(u64),
    /// The answer.
    Unlinked(u64),
    /// Tell me of your end, under this number.
    Watch(u64),
    /// Do not.
    Unwatch(u64),
    /// You own me, and I have ended.
    Disowned,
    /// I have ended, and you asked to be told.
    Down(u64, Why),
    /// I have ended, and we were linked.
    Exit(Why),
    /// The same, for one that does not trap exits.
    Failed(Why),
}

impl<Why: Cause> LinkMessage<Why> {
    /// What is answered for one that has ended and will never hear this.
    pub(crate) fn answer_for_the_dead(&self) -> Option<Self> {
        match self {
            Self::Link => Some(Self::Exit(Why::gone())),
            Self::Unlink(number) => Some(Self::Unlinked(*number)),
            Self::Watch(number) => Some(Self::Down(*number, Why::gone())),
            _ => None,
        }
    }
}

/// What follows from what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkEffect<Why> {
    Nothing,
    /// The one that said it is to be told this.
    Answer(LinkMessage<Why>),
    /// One that is watched has ended.
    Down(u64, Why),
    /// A partner has failed, and exits are trapped.
    Exit(Why),
    /// A partner has failed, and so does this process.
    End(Why),
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LinkState {
    Linked,
    /// Unlinked from here, and the other has not answered with this number.
    Unlinking(u64),
}

/// One process's half of all its links.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Links<Who: Ord> {
    links: BTreeMap<Who, LinkState>,
    /// Whom this process watches, by number.
    watched: BTreeMap<u64, Who>,
    /// Who watches it, with their numbers.
    watchers: BTreeSet<(Who, u64)>,
    owned: BTreeSet<Who>,
    owner: Option<Who>,
    traps: bool,
    /// The number given out last.
    number: u64,
}

impl<Who: Ord> Default for Links<Who> {
    fn default() -> Self {
        Self {
            links: BTreeMap::new(),
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

    /// From here on failures of partners are heard of, or end the process.
    pub(crate) fn trap(&mut self, traps: bool) {
        self.traps = traps;
    }

    /// Links with `other`. Returns what is to be said to it.
    pub(crate) fn link<Why>(&mut self, other: Who) -> Option<LinkMessage<Why>> {
        match self.links.insert(other, LinkState::Linked) {
            Some(LinkState::Linked) => None,
            None | Some(LinkState::Unlinking(_)) => Some(LinkMessage::Link),
        }
    }

    /// Takes a link with `other` back. Returns what is to be said to it.
    pub(crate) fn unlink<Why>(&mut self, other: Who) -> Option<LinkMessage<Why>> {
        if self.links.get(&other) != Some(&LinkState::Linked) {
            return None;
        }
        let number = self.next_number();
        self.links.insert(other, LinkState::Unlinking(number));
        Some(LinkMessage::Unlink(number))
    }

    /// Watches `other`. Returns the number that its end will be told under, which is to be said to it.
    pub(crate) fn watch(&mut self, other: Who) -> u64 {
        let number = self.next_number();
        self.watched.insert(number, other);
        number
    }

    /// Whom the number stands for.
    pub(crate) fn watched(&self, number: u64) -> Option<Who> {
        self.watched.get(&number).copied()
    }

    /// Returns whether `other` is the one that it began to watch last, and still does: of a process that was spawned
    /// just now, whether it was spawned so.
    pub(crate) fn watches_newest(&self, other: Who) -> bool {
        self.watched.get(&self.number) == Some(&other)
    }

    /// Watches it no longer; its end is not heard of, even if the notice is on its way. Returns whom this is to be said
    /// to.
    pub(crate) fn unwatch(&mut self, number: u64) -> Option<Who> {
        self.watched.remove(&number)
    }

    /// Both halves of a link with a process that has not begun, and so hears nothing yet.
    pub(crate) fn link_child(&mut self, me: Who, spawned: &mut Self, other: Who) {
        self.links.insert(other, LinkState::Linked);
        spawned.links.insert(me, LinkState::Linked);
    }

    /// The same, for a watch.
    pub(crate) fn watch_child(&mut self, me: Who, spawned: &mut Self, other: Who) {
        let number = self.watch(other);
        spawned.watchers.insert((me, number));
    }

    /// The same, for one that ends with this process.
    pub(crate) fn own_child(&mut self, me: Who, spawned: &mut Self, other: Who) {
        self.owned.insert(other);
        spawned.owner = Some(me);
    }

    /// Hears what `from` says. What is said stays the caller's, who drops it when nothing of this is borrowed any more:
    /// the last holder of a reason runs its user's drop, which may bind or unbind the very process that hears this.
    pub(crate) fn hear<Why: Cause>(&mut self, from: Who, said: &LinkMessage<Why>) -> LinkEffect<Why> {
        match said {
            LinkMessage::Link => {
                self.links.entry(from).or_insert(LinkState::Linked);
                LinkEffect::Nothing
            }
            LinkMessage::Unlink(number) => {
                // Of two that unlink at once each waits for its own answer.
                if self.links.get(&from) == Some(&LinkState::Linked) {
                    self.links.remove(&from);
                }
                LinkEffect::Answer(LinkMessage::Unlinked(*number))
            }
            LinkMessage::Unlinked(number) => {
                if self.links.get(&from) == Some(&LinkState::Unlinking(*number)) {
                    self.links.remove(&from);
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
            LinkMessage::Exit(why) => match self.links.remove(&from) {
                Some(LinkState::Linked) if why.is_quiet() => LinkEffect::Nothing,
                Some(LinkState::Linked) if self.traps => LinkEffect::Exit(why.clone()),
                Some(LinkState::Linked) => LinkEffect::End(why.clone()),
                Some(LinkState::Unlinking(_)) | None => LinkEffect::Nothing,
            },
            // Its notice follows: if exits are trapped, that is what is heard of.
            LinkMessage::Failed(why) => match self.links.get(&from) {
                Some(LinkState::Linked) if !self.traps => LinkEffect::End(why.clone()),
                _ => LinkEffect::Nothing,
            },
        }
    }

    /// The process has ended. Returns those that end with it, and what is to be said to whom.
    pub(crate) fn end<Why: Cause>(self, why: &Why) -> (BTreeSet<Who>, Vec<(Who, LinkMessage<Why>)>) {
        let linked = self.links.iter().filter(|(_, link)| **link == LinkState::Linked);
        let exits = linked.flat_map(|(&other, _)| {
            let failed = (!why.is_quiet()).then(|| (other, LinkMessage::Failed(why.clone())));
            // In this order: who does not trap exits has ended when the notice comes.
            failed.into_iter().chain([(other, LinkMessage::Exit(why.clone()))])
        });
        let downs = self.watchers.iter().map(|&(other, number)| (other, LinkMessage::Down(number, why.clone())));
        let unwatched = self.watched.iter().map(|(&number, &other)| (other, LinkMessage::Unwatch(number)));
        let disowned = self.owner.iter().map(|&owner| (owner, LinkMessage::Disowned));
        let said = exits.chain(downs).chain(unwatched).chain(disowned).collect();
        (self.owned, said)
    }

    /// Partners.
    pub(crate) fn links(&self) -> impl Iterator<Item = Who> {
        self.links.iter().filter(|(_, link)| **link == LinkState::Linked).map(|(&other, _)| other)
    }

    /// Those that are watched, as often as they are.
    pub(crate) fn all_watched(&self) -> impl Iterator<Item = Who> {
        self.watched.values().copied()
    }

    /// Those that watch, as often as they do.
    pub(crate) fn watchers(&self) -> impl Iterator<Item = Who> {
        self.watchers.iter().map(|&(other, _)| other)
    }

    /// Those that end with it.
    pub(crate) fn owned(&self) -> impl Iterator<Item = Who> {
        self.owned.iter().copied()
    }
}
