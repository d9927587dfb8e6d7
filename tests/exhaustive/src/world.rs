//! Three processes, and what is on its way between them.
//!
//! What one process says to another in one lane arrives in that order; between senders, and between lanes, there is no
//! order. That is less than production promises, where a lane has one order for all senders. A notice is heard when
//! nothing is left in the control lane of what its sender said; production waits until the lane is empty.

use crate::links::{Cause, LinkEffect, LinkMessage, Links};
use std::collections::{BTreeMap, VecDeque};

/// How many processes there are.
pub(crate) const COUNT: usize = 3;

/// Which one.
pub(crate) type Who = usize;

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Why {
    Normal,
    Failed,
    Gone,
}

impl Cause for Why {
    fn is_quiet(&self) -> bool {
        *self == Self::Normal
    }

    fn gone() -> Self {
        Self::Gone
    }
}

/// What travels in the control lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Control {
    Said(LinkMessage<Why>),
    /// A kill, or the cancel of an owner that has ended.
    Die,
}

/// What a process does of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Link(Who),
    Unlink(Who),
    Watch(Who),
    Unwatch(u64),
    /// Traps exits from here on, or not any more.
    Trap,
    /// Kills another.
    Kill(Who),
    /// Ends: normally, or by a failure.
    End(Why),
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Acts(Who, Act),
    /// The second hears what the first has said in that place of the control lane.
    Hears(Who, Who, usize),
    /// The second hears the first's notice.
    Notices(Who, Who),
    /// One that is on its way out tells those that it was bound to.
    Tells(Who),
    /// Something that the first said finds the second dead, and is answered for it.
    Buries(Who, Who, usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    Living(Links<Who>),
    /// Its PID is unroutable, and it still hears.
    Leaving(Links<Who>, Why),
    Dead,
}

/// What became of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Watch {
    Waits,
    Told,
    TakenBack,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) lives: [Life; COUNT],
    /// By sender, then receiver.
    pub(crate) control: [[VecDeque<Control>; COUNT]; COUNT],
    pub(crate) notices: [[VecDeque<LinkMessage<Why>>; COUNT]; COUNT],
    /// How much the processes may still do.
    pub(crate) acts: u8,

    // What is known from outside, to be compared with what the processes know.
    pub(crate) traps: [bool; COUNT],
    pub(crate) watches: [BTreeMap<u64, (Who, Watch)>; COUNT],
    /// Whether the first has yet to learn that the second, which was linked to it, has failed.
    pub(crate) owed: [[bool; COUNT]; COUNT],
    /// Whether the first was told of the exit of the second, and has not linked with it since.
    pub(crate) told: [[bool; COUNT]; COUNT],
    pub(crate) condemned: [bool; COUNT],
    /// Those that each owns.
    pub(crate) owns: [[bool; COUNT]; COUNT],
    /// What must not happen, and has.
    pub(crate) fault: Option<&'static str>,
}

impl World {
    /// Three that know nothing of each other.
    pub(crate) fn new(acts: u8) -> Self {
        Self {
            lives: std::array::from_fn(|_| Life::Living(Links::default())),
            control: Default::default(),
            notices: Default::default(),
            acts,
            traps: Default::default(),
            watches: Default::default(),
            owed: Default::default(),
            told: Default::default(),
            condemned: Default::default(),
            owns: Default::default(),
            fault: None,
        }
    }

    pub(crate) fn living(&self, who: Who) -> Option<&Links<Who>> {
        match &self.lives[who] {
            Life::Living(links) => Some(links),
            _ => None,
        }
    }

    pub(crate) fn is_dead(&self, who: Who) -> bool {
        self.lives[who] == Life::Dead
    }

    /// How much is on its way.
    pub(crate) fn in_flight(&self) -> usize {
        let controls = self.control.as_flattened().iter().map(VecDeque::len);
        controls.chain(self.notices.as_flattened().iter().map(VecDeque::len)).sum()
    }

    /// Whether nothing happens any more unless somebody acts.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.in_flight() == 0 && !self.lives.iter().any(|life| matches!(life, Life::Leaving(..)))
    }

    /// The two as one spawned the other, before that one runs: linked, watched or owned.
    pub(crate) fn born(&mut self, parent: Who, child: Who, linked: bool, watched: bool, owned: bool) {
        let [one, two] = self.lives.get_disjoint_mut([parent, child]).expect("two processes");
        let (Life::Living(links), Life::Living(spawned)) = (one, two) else { unreachable!("both live") };
        if linked {
            links.link_child(parent, spawned, child);
        }
        if watched {
            links.watch_child(parent, spawned, child);
            let number = self.watches[parent].len() as u64 + 1;
            self.watches[parent].insert(number, (child, Watch::Waits));
        }
        if owned {
            links.own_child(parent, spawned, child);
            self.owns[parent][child] = true;
        }
    }

    fn blame(&mut self, fault: &'static str) {
        self.fault = Some(fault);
    }

    /// `engine/context/own.rs`: what is of no interest to the dead, and asks for no answer, is gone at once.
    fn say(&mut self, from: Who, to: Who, said: LinkMessage<Why>) {
        let is_notice = matches!(said, LinkMessage::Down(..) | LinkMessage::Exit(_));
        match &self.lives[to] {
            Life::Dead if said.answer_for_the_dead().is_none() => {}
            // Never heard: `engine/lifecycle/exit.rs` drops what is in the data lane.
            Life::Leaving(..) if is_notice => {}
            _ if is_notice => self.notices[from][to].push_back(said),
            _ => self.control[from][to].push_back(Control::Said(said)),
        }
    }

    fn condemn(&mut self, from: Who, to: Who) {
        self.condemned[to] = true;
        if !self.is_dead(to) {
            self.control[from][to].push_back(Control::Die);
        }
    }

    /// The PID becomes unroutable, and the state is dropped.
    fn leave(&mut self, who: Who, why: Why) {
        let life = std::mem::replace(&mut self.lives[who], Life::Dead);
        let Life::Living(links) = life else { unreachable!("a process ends once") };
        self.lives[who] = Life::Leaving(links, why);
        for from in 0..COUNT {
            self.notices[from][who].clear();
            self.owed[who][from] = false;
        }
    }

    /// What `who` knows of itself, if it lives.
    fn links(&mut self, who: Who) -> Option<&mut Links<Who>> {
        match &mut self.lives[who] {
            Life::Living(links) => Some(links),
            _ => None,
        }
    }

    /// Gives whether anything has changed.
    pub(crate) fn act(&mut self, who: Who, act: Act) -> bool {
        self.acts -= 1;
        let Some(links) = self.links(who) else { return false };
        match act {
            Act::Link(other) => {
                let Some(said) = links.link(other) else { return false };
                self.told[who][other] = false;
                self.say(who, other, said);
            }
            Act::Unlink(other) => {
                let Some(said) = links.unlink(other) else { return false };
                self.owed[who][other] = false;
                self.say(who, other, said);
            }
            Act::Watch(other) => {
                let number = links.watch(other);
                self.watches[who].insert(number, (other, Watch::Waits));
                self.say(who, other, LinkMessage::Watch(number));
            }
            Act::Unwatch(number) => {
                let Some(other) = links.unwatch(number) else { return false };
                self.watches[who].insert(number, (other, Watch::TakenBack));
                self.say(who, other, LinkMessage::Unwatch(number));
            }
            Act::Trap => {
                self.traps[who] = !self.traps[who];
                let traps = self.traps[who];
                self.links(who).expect("it lives").trap(traps);
            }
            Act::Kill(other) => self.condemn(who, other),
            Act::End(why) => self.leave(who, why),
        }
        true
    }

    /// `StepInput::receive`, and `receive` of `exit.rs` of one that is on its way out.
    pub(crate) fn receives(&mut self, from: Who, who: Who, place: usize) {
        let Some(control) = self.control[from][who].remove(place) else { return };
        let Control::Said(said) = control else {
            if self.living(who).is_some() {
                self.leave(who, Why::Failed);
            }
            return;
        };
        let heard = match &mut self.lives[who] {
            Life::Living(links) | Life::Leaving(links, _) => links.receive(from, &said),
            Life::Dead => unreachable!("the dead hear nothing"),
        };
        let lives = self.living(who).is_some();
        match heard {
            LinkEffect::Nothing => {}
            LinkEffect::Answer(answer) => self.say(who, from, answer),
            LinkEffect::End(why) if lives => {
                if self.traps[who] || why.is_quiet() {
                    self.blame("a failure ended a process that it should not");
                }
                self.leave(who, Why::Failed);
            }
            LinkEffect::End(_) => {}
            LinkEffect::Down(..) | LinkEffect::Exit(_) => self.blame("a notice came ahead of messages"),
        }
    }

    /// `Feed::next_notice`.
    pub(crate) fn notices(&mut self, from: Who, who: Who) {
        let Some(said) = self.notices[from][who].pop_front() else { return };
        let Some(links) = self.links(who) else { unreachable!("what is said to the leaving is dropped") };
        match links.receive(from, &said) {
            LinkEffect::Nothing => {}
            LinkEffect::Answer(_) => self.blame("a notice was answered"),
            LinkEffect::Down(number, _) => {
                if self.watches[who].insert(number, (from, Watch::Told)) != Some((from, Watch::Waits)) {
                    self.blame("a Down that nobody waits for");
                }
            }
            LinkEffect::Exit(why) => {
                self.owed[who][from] = false;
                if !self.traps[who] {
                    self.blame("an exit was given to a process that does not trap exits");
                }
                if why.is_quiet() {
                    self.blame("a normal end was told to a partner");
                }
                if std::mem::replace(&mut self.told[who][from], true) {
                    self.blame("an exit was told twice");
                }
            }
            LinkEffect::End(why) => {
                if self.traps[who] || why.is_quiet() {
                    self.blame("an exit ended a process that it should not");
                }
                self.leave(who, Why::Failed);
            }
        }
    }

    /// `exit.rs::tell_bound`.
    pub(crate) fn tells(&mut self, who: Who) {
        let life = std::mem::replace(&mut self.lives[who], Life::Dead);
        let Life::Leaving(links, why) = life else { unreachable!("it is on its way out") };
        if !why.is_quiet() {
            for other in links.links() {
                self.owed[other][who] = match &self.lives[other] {
                    // It has unlinked, and this one has not heard of it.
                    Life::Living(links) => !is_unlinking(links, who),
                    _ => false,
                };
            }
        }
        for other in 0..COUNT {
            self.condemned[other] |= self.owns[who][other];
        }
        let (owned, said) = links.end(&why);
        for other in owned {
            self.condemn(who, other);
        }
        for (other, said) in said {
            self.say(who, other, said);
        }
        for from in 0..COUNT {
            self.control[from][who].retain(is_question);
        }
    }

    /// The drop of a `Bond` that reached nobody.
    pub(crate) fn buries(&mut self, from: Who, dead: Who, place: usize) {
        if let Some(Control::Said(said)) = self.control[from][dead].remove(place)
            && let Some(answer) = said.answer_for_the_dead()
        {
            self.say(dead, from, answer);
        }
    }
}

/// Whether the dead answer it.
fn is_question(control: &Control) -> bool {
    matches!(control, Control::Said(said) if said.answer_for_the_dead().is_some())
}

/// Whether the process waits for the answer to an unlinking: it says nothing when it is asked to unlink, and has
/// something to say when it is asked to link, as if it had never heard of the other; but it has.
pub(crate) fn is_unlinking(links: &Links<Who>, other: Who) -> bool {
    let mut linked = links.clone();
    let says = linked.link::<Why>(other).is_some();
    let mut fresh = links.clone();
    // Of two halves that are not linked, one that hears of a link is linked then, unless it waits for an answer.
    let _nothing: LinkEffect<Why> = fresh.receive(other, &LinkMessage::Link);
    says && !fresh.links().any(|linked| linked == other)
}
