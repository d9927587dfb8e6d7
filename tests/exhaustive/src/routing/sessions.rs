//! The connection between two nodes: a session, which may end at any moment, after which another one may follow.
//!
//! The events repeat the steps of `routing/connection.rs`. Between any two of them, other threads may perform theirs. A
//! link message is recorded among the ties and then passed on, or answered locally. An arriving message is recorded and
//! then posted. If the message makes a tie and the session was lost in the meantime, the end of that tie is posted as
//! well.
//!
//! A session keeps the order of all messages from one node to the other, and loses none while it lasts. Each node
//! learns of the end of the session at a different moment; messages that have not arrived by then are lost. No node is
//! in two sessions, and none enters a session before it has handled the message that it took from the previous one: see
//! `Transport`.

use super::ties::{Ties, answer_for_the_lost};
use crate::exit::ExitReason;
use crate::links::protocol::{ConnectionId, LinkEffect, LinkMessage};
use crate::pid::Pid;
use crate::world::{COUNT, State, World};
use std::collections::{BTreeMap, VecDeque};

/// The number of nodes.
pub(crate) const NODES: usize = 2;

/// The index of a node.
type Node = usize;

type Message = LinkMessage<ExitReason>;

/// An event between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeEvent {
    /// The next message that a process sends to the other node is recorded among the ties.
    Note(Pid),
    /// The transport accepts that message, or refuses it.
    Pass(Pid, bool),
    /// A node takes a message from the session, and records it among the ties.
    Take(Node),
    /// The node posts that message.
    Post(Node),
    /// The node checks whether the session was lost in the meantime.
    LookBack(Node),
    /// The node enters a session.
    Connect(Node),
    /// The node's transport accepts no more messages.
    Refuse(Node),
    /// The session is lost.
    Lose(Node),
}

/// One node's side of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Side {
    session: u8,
    ties: Ties,
    accepts: bool,
}

/// A message that a node has taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Taken {
    session: u8,
    from: Pid,
    to: Pid,
    message: Message,
    is_posted: bool,
}

/// A message that the thread of a process is about to send to the other node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Outgoing {
    to: Pid,
    message: Message,
    /// The session in which the message must be sent, if the process chose one when it created the message.
    chosen: Option<ConnectionId>,
}

/// Returns the connection ID that the processes use for a session.
fn over(session: u8) -> ConnectionId {
    ConnectionId(session.into())
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sessions {
    nodes: [Node; COUNT],
    /// The number of the last session that the nodes may enter.
    last: u8,
    /// Whether a transport refuses messages before its session is lost.
    refuses: bool,
    /// The latest session of each node.
    latest: [u8; NODES],
    sides: [Option<Side>; NODES],
    /// The messages in flight to each node, with their sessions.
    queues: [VecDeque<(u8, Pid, Pid, Message)>; NODES],
    taken: [Option<Taken>; NODES],
    /// The messages that the thread of each process is about to send to the other node.
    outgoing: [VecDeque<Outgoing>; COUNT],
    /// The session in which the process recorded the first of those messages.
    noted: [Option<u8>; COUNT],

    // What an outside observer knows.
    /// The number of links that the first process has with the second, on another node. A link counts from when it is
    /// made until it ends for the first process: by an unlink of either, a normal exit, or a delivered exit.
    links: [[usize; COUNT]; COUNT],
    /// The session in which each watch was recorded.
    watches: [BTreeMap<u64, u8>; COUNT],
}

impl Sessions {
    /// Creates two nodes with these processes, in their first session.
    pub(crate) fn new(nodes: [Node; COUNT], last: u8, refuses: bool) -> Self {
        let side = Side { session: 1, ties: Ties::default(), accepts: true };
        Self {
            nodes,
            last,
            refuses,
            latest: [1; NODES],
            sides: [Some(side.clone()), Some(side)],
            queues: Default::default(),
            taken: Default::default(),
            outgoing: Default::default(),
            noted: Default::default(),
            links: Default::default(),
            watches: Default::default(),
        }
    }

    pub(crate) fn is_elsewhere(&self, one: Pid, other: Pid) -> bool {
        self.nodes[one] != self.nodes[other]
    }

    /// Returns whether the thread of the process is sending to the other node.
    pub(crate) fn is_sending(&self, process: Pid) -> bool {
        !self.outgoing[process].is_empty()
    }

    pub(crate) fn sends(&mut self, from: Pid, to: Pid, message: Message, chosen: Option<ConnectionId>) {
        self.outgoing[from].push_back(Outgoing { to, message, chosen });
    }

    /// Returns the session in which a process would make a link.
    pub(crate) fn choice(&self, process: Pid) -> ConnectionId {
        self.session(self.nodes[process]).map_or(ConnectionId::NONE, over)
    }

    /// Returns the number of messages that have not been posted.
    pub(crate) fn in_flight(&self) -> usize {
        let queued = self.queues.iter().map(VecDeque::len).sum::<usize>();
        let outgoing = self.outgoing.iter().map(VecDeque::len).sum::<usize>();
        queued + outgoing + self.taken.iter().flatten().count()
    }

    /// Returns true if both nodes are in the same session, or in none, and no transport refuses messages.
    pub(crate) fn agree(&self) -> bool {
        self.session(0) == self.session(1) && self.sides.iter().flatten().all(|side| side.accepts)
    }

    fn session(&self, node: Node) -> Option<u8> {
        self.sides[node].as_ref().map(|side| side.session)
    }

    /// Returns whether each node is in a session.
    pub(crate) fn is_connected(&self) -> bool {
        self.sides.iter().all(Option::is_some)
    }

    /// Returns whether the latest session followed the loss of an earlier one.
    pub(crate) fn is_renewed(&self) -> bool {
        self.is_connected() && self.latest[0] > 1
    }

    /// Returns the number of links of `process` with `other` that have not ended.
    pub(crate) fn links(&self, process: Pid, other: Pid) -> usize {
        self.links[process][other]
    }

    /// Returns the number of ties that a node has with the other, or `None` if the node is in no session.
    pub(crate) fn ties(&self, node: Node) -> Option<usize> {
        self.sides[node].as_ref().map(|side| side.ties.count())
    }

    pub(crate) fn of_node(&self, node: Node) -> impl Iterator<Item = Pid> {
        (0..COUNT).filter(move |process| self.nodes[*process] == node)
    }

    /// Returns the session that a node may enter, if any: the one that the other node has already entered, or else a
    /// new one.
    fn next_session(&self, node: Node) -> Option<u8> {
        if self.sides[node].is_some() || self.taken[node].is_some() {
            return None;
        }
        let other = self.session(1 - node).filter(|session| *session > self.latest[node]);
        let new = self.latest[0].max(self.latest[1]) + 1;
        other.or((new <= self.last).then_some(new))
    }

    pub(crate) fn events(&self, events: &mut Vec<NodeEvent>) {
        for process in (0..COUNT).filter(|process| self.is_sending(*process)) {
            let node = self.nodes[process];
            let Some(session) = self.noted[process] else {
                events.push(NodeEvent::Note(process));
                continue;
            };
            match &self.sides[node] {
                Some(side) if side.session == session => events.push(NodeEvent::Pass(process, side.accepts)),
                // A transport whose session is lost may refuse a message, or accept it to no effect.
                _ => events.extend([true, false].map(|accepts| NodeEvent::Pass(process, accepts))),
            }
        }
        for node in 0..NODES {
            match &self.taken[node] {
                Some(taken) if taken.is_posted => events.push(NodeEvent::LookBack(node)),
                Some(_) => events.push(NodeEvent::Post(node)),
                None => {
                    let next = self.queues[node].front().map(|(session, ..)| *session);
                    if self.sides[node].as_ref().is_some_and(|side| side.accepts && Some(side.session) == next) {
                        events.push(NodeEvent::Take(node));
                    }
                }
            }
            if let Some(side) = &self.sides[node] {
                events.push(NodeEvent::Lose(node));
                if self.refuses && side.accepts && self.taken[node].is_none() {
                    events.push(NodeEvent::Refuse(node));
                }
            }
            if self.next_session(node).is_some() {
                events.push(NodeEvent::Connect(node));
            }
        }
    }
}

impl World {
    pub(crate) fn elsewhere(&self, one: Pid, other: Pid) -> Option<&Sessions> {
        self.sessions.as_deref().filter(|sessions| sessions.is_elsewhere(one, other))
    }

    fn sessions(&mut self) -> &mut Sessions {
        self.sessions.as_mut().expect("there are two nodes")
    }

    pub(crate) fn between_nodes(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Note(process) => self.note(process),
            NodeEvent::Pass(process, accepts) => self.pass(process, accepts),
            NodeEvent::Take(node) => self.take(node),
            NodeEvent::Post(node) => self.post_taken(node),
            NodeEvent::LookBack(node) => self.look_back(node),
            NodeEvent::Connect(node) => {
                let sessions = self.sessions();
                let session = sessions.next_session(node).expect("it may enter one");
                sessions.latest[node] = session;
                sessions.sides[node] = Some(Side { session, ties: Ties::default(), accepts: true });
            }
            NodeEvent::Refuse(node) => self.sessions().sides[node].as_mut().expect("it is connected").accepts = false,
            NodeEvent::Lose(node) => self.lose(node),
        }
    }

    /// Mirrors `Way::send`, up to the point where the message is recorded.
    fn note(&mut self, from: Pid) {
        let sessions = self.sessions();
        let Outgoing { to, message, chosen } = sessions.outgoing[from].front().cloned().expect("it is sending");
        let side = sessions.sides[sessions.nodes[from]].as_mut();
        let Some(side) = side.filter(|side| chosen.is_none_or(|chosen| chosen == over(side.session))) else {
            return self.refuse(from, chosen.unwrap_or(ConnectionId::NONE));
        };
        if let LinkMessage::Watch(number) = message {
            sessions.watches[from].insert(number, side.session);
        }
        let names = side.ties.sends(from, to, &message);
        assert_eq!(names, [from], "there are no aliases");
        sessions.noted[from] = Some(side.session);
    }

    /// Mirrors the remainder of `Way::send`.
    fn pass(&mut self, from: Pid, accepts: bool) {
        let sessions = self.sessions();
        let session = sessions.noted[from].take().expect("it was noted");
        let Outgoing { to, message, .. } = sessions.outgoing[from].front().cloned().expect("it is sending");
        let [here, there] = [from, to].map(|process| sessions.nodes[process]);
        if accepts {
            sessions.outgoing[from].pop_front();
            // The message is lost if the other node can no longer take it.
            if sessions.latest[there] < session || sessions.session(there) == Some(session) {
                sessions.queues[there].push_back((session, from, to, message));
            }
            return;
        }
        if let Some(side) = sessions.sides[here].as_mut().filter(|side| side.session == session) {
            side.ties.unsent(from, to, &message);
        }
        self.refuse(from, over(session));
    }

    /// Answers a message that cannot be sent.
    fn refuse(&mut self, from: Pid, by: ConnectionId) {
        let sessions = self.sessions();
        let Outgoing { to, message, .. } = sessions.outgoing[from].pop_front().expect("it is sending");
        if let LinkMessage::Watch(number) = message {
            sessions.watches[from].insert(number, 0);
        }
        if let Some(answer) = answer_for_the_lost(&message) {
            self.post(by, to, from, answer);
        }
    }

    /// Mirrors `Connection::receive`, up to the point where the message is recorded.
    fn take(&mut self, node: Node) {
        let sessions = self.sessions();
        let (session, from, to, message) = sessions.queues[node].pop_front().expect("one is on its way");
        let side = sessions.sides[node].as_mut().expect("it is connected");
        let name = side.ties.receives(from, to, to, &message);
        assert_eq!(name, from, "there are no aliases");
        sessions.taken[node] = Some(Taken { session, from, to, message, is_posted: false });
    }

    fn post_taken(&mut self, node: Node) {
        let taken = self.sessions().taken[node].as_mut().expect("it has taken one");
        taken.is_posted = true;
        let Taken { session, from, to, message, .. } = taken.clone();
        if !matches!(message, LinkMessage::Link | LinkMessage::Watch(_)) {
            self.sessions().taken[node] = None;
        }
        self.post(over(session), from, to, message);
    }

    fn look_back(&mut self, node: Node) {
        let sessions = self.sessions();
        let Taken { session, from, to, message, .. } = sessions.taken[node].take().expect("it has taken one");
        if sessions.session(node) == Some(session) {
            return;
        }
        match message {
            LinkMessage::Watch(number) => self.post(over(session), from, to, LinkMessage::Unwatch(number)),
            _ => self.post(over(session), from, to, LinkMessage::Exit(ExitReason::NodeLost)),
        }
    }

    /// Mirrors `Connection::lose`.
    fn lose(&mut self, node: Node) {
        let sessions = self.sessions();
        let side = sessions.sides[node].take().expect("it is connected");
        sessions.queues[node].retain(|(session, ..)| *session > side.session);
        for (from, to, message) in side.ties.lost() {
            self.post(over(side.session), from, to, message);
        }
    }

    /// Records that a process has linked or unlinked.
    pub(crate) fn observe_act(&mut self, process: Pid, other: Pid) {
        if self.elsewhere(process, other).is_some() {
            let links = self.links_with(process, other);
            self.sessions().links[process][other] = links;
        }
    }

    /// Checks the effect of a message from the other node on a process.
    pub(crate) fn observe(
        &mut self,
        from: Pid,
        process: Pid,
        before: usize,
        message: &Message,
        effect: &LinkEffect<ExitReason>,
    ) {
        if self.elsewhere(process, from).is_none() || !matches!(self.states[process], State::Running(_)) {
            return;
        }
        let after = self.links_with(process, from);
        let sessions = self.sessions();
        let here = sessions.nodes[process];
        let links = &mut sessions.links[process][from];
        let is_quiet = matches!(message, LinkMessage::Unlink(_) | LinkMessage::Exit(ExitReason::Normal));
        let mut fault = None;
        match effect {
            LinkEffect::Exit(_) if *links == 0 => fault = Some("an exit of a link that had ended"),
            LinkEffect::End(_) if *links == 0 => fault = Some("a link that had ended has ended a process"),
            LinkEffect::Exit(_) => *links -= 1,
            _ if after < before && is_quiet => *links -= 1,
            _ if after > before => *links += 1,
            _ => {}
        }
        if let LinkEffect::Down(number, ExitReason::NodeLost) = effect {
            let noted = sessions.watches[process].get(number).copied();
            if noted.is_some() && noted == sessions.session(here) {
                fault = Some("a Down of a session that is not lost");
            }
        }
        if fault.is_some() {
            self.fault = fault;
        }
    }
}
