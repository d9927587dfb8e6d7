//! Three processes, and the messages in flight between them. Messages between two nodes are in `routing`.
//!
//! The messages of one sender in one lane arrive in order. There is no order between senders or between lanes.
//! Production guarantees more: all messages in a lane have one order. In the model, a notice can be received as soon as
//! the control lane has no more messages from the sender of the notice; in production, only when the lane is empty.

pub(crate) use crate::exit::ExitReason as Why;
use crate::links::protocol::{Cause, ConnectionId, LinkEffect, LinkMessage, Links, answer_for_the_dead};
use crate::routing::{NodeEvent, Sessions};
use std::collections::{BTreeMap, VecDeque};

/// The number of processes.
pub(crate) const COUNT: usize = 3;

/// The index of a process.
pub(crate) type Index = usize;

/// A message in the control lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Control {
    Link(ConnectionId, LinkMessage<Why>),
    /// A kill, or a cancellation by an owner that has exited.
    Kill,
}

/// A spontaneous act of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Link(Index),
    Unlink(Index),
    Watch(Index),
    Unwatch(u64),
    /// Toggles whether the process traps exits.
    Trap,
    /// Kills another process.
    Kill(Index),
    /// Exits, normally or with a failure.
    End(Why),
}

/// An event that changes the state of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Act(Index, Act),
    /// The second process receives a message from the first one. The number is the message's place in the control lane.
    Receive(Index, Index, usize),
    /// The second process receives the first's notice.
    ReceiveNotice(Index, Index),
    /// An exiting process notifies its partners.
    NotifyPartners(Index),
    /// A message from the first process finds the second one dead, and is answered on behalf of the dead process.
    AnswerForDead(Index, Index, usize),
    BetweenNodes(NodeEvent),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Running(Links<Index>),
    /// The process is exiting: its PID is unroutable, but it still receives link messages.
    Exiting(Links<Index>, Why),
    Dead,
}

/// The state of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MonitorState {
    Active,
    Delivered,
    Withdrawn,
}

/// A message of the link protocol, with the connection on which it arrived.
pub(crate) type Notice = (ConnectionId, LinkMessage<Why>);

/// The state of the search.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) states: [State; COUNT],
    /// Indexed by sender, then receiver.
    pub(crate) control: [[VecDeque<Control>; COUNT]; COUNT],
    pub(crate) notices: [[VecDeque<Notice>; COUNT]; COUNT],
    /// The number of acts that the processes may still perform.
    pub(crate) acts: u8,
    /// The sessions between the nodes of processes, if there are two nodes.
    pub(crate) sessions: Option<Box<Sessions>>,

    // What an outside observer knows, to be compared with what the processes know.
    pub(crate) traps: [bool; COUNT],
    pub(crate) watches: [BTreeMap<u64, (Index, MonitorState)>; COUNT],
    /// Whether the first process has yet to be notified of a failure of the second, to which it was linked.
    pub(crate) failure_pending: [[bool; COUNT]; COUNT],
    /// Whether the first process was notified of the exit of the second, and has not linked to it since.
    pub(crate) exit_delivered: [[bool; COUNT]; COUNT],
    pub(crate) killed: [bool; COUNT],
    /// Whether the first process owns the second.
    pub(crate) owns: [[bool; COUNT]; COUNT],
    /// A violation that an event has detected.
    pub(crate) fault: Option<&'static str>,
}

impl World {
    /// Creates three unrelated processes.
    pub(crate) fn new(acts: u8) -> Self {
        Self {
            states: std::array::from_fn(|_| State::Running(Links::default())),
            control: Default::default(),
            notices: Default::default(),
            acts,
            sessions: None,
            traps: Default::default(),
            watches: Default::default(),
            failure_pending: Default::default(),
            exit_delivered: Default::default(),
            killed: Default::default(),
            owns: Default::default(),
            fault: None,
        }
    }

    pub(crate) fn running(&self, process: Index) -> Option<&Links<Index>> {
        match &self.states[process] {
            State::Running(links) => Some(links),
            _ => None,
        }
    }

    pub(crate) fn is_dead(&self, process: Index) -> bool {
        self.states[process] == State::Dead
    }

    /// Returns the number of messages in flight.
    pub(crate) fn in_flight(&self) -> usize {
        let controls = self.control.as_flattened().iter().map(VecDeque::len);
        let here: usize = controls.chain(self.notices.as_flattened().iter().map(VecDeque::len)).sum();
        here + self.sessions.as_ref().map_or(0, |sessions| sessions.in_flight())
    }

    /// Returns true if nothing is under way, so that only an act, or the loss or beginning of a session, can change the
    /// state.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.in_flight() == 0
            && !self.states.iter().any(|state| matches!(state, State::Exiting(..)))
            && self.sessions.as_ref().is_none_or(|sessions| sessions.agree())
    }

    /// Returns whether the thread of the process is between two steps.
    pub(crate) fn is_idle(&self, process: Index) -> bool {
        !self.sessions.as_ref().is_some_and(|sessions| sessions.is_sending(process))
    }

    /// Returns the number of links that a running process has with another: one for each session.
    pub(crate) fn links_with(&self, process: Index, other: Index) -> usize {
        self.running(process).map_or(0, |links| links.links_with(other).count())
    }

    /// Binds two processes as if one had just spawned the other: linked, monitored or owned.
    pub(crate) fn bind_spawned(&mut self, parent: Index, child: Index, linked: bool, watched: bool, owned: bool) {
        let [one, two] = self.states.get_disjoint_mut([parent, child]).expect("two processes");
        let (State::Running(links), State::Running(spawned)) = (one, two) else { unreachable!("both run") };
        if linked {
            links.link_child(parent, spawned, child);
        }
        if watched {
            links.watch_child(parent, spawned, child);
            let number = self.watches[parent].len() as u64 + 1;
            self.watches[parent].insert(number, (child, MonitorState::Active));
        }
        if owned {
            links.own_child(parent, spawned, child);
            self.owns[parent][child] = true;
        }
    }

    fn report(&mut self, fault: &'static str) {
        self.fault = Some(fault);
    }

    /// Mirrors `send_link_message` of `engine/context/own.rs`.
    fn send(&mut self, from: Index, to: Index, message: LinkMessage<Why>) {
        match &mut self.sessions {
            Some(sessions) if sessions.is_elsewhere(from, to) => sessions.sends(from, to, message, None),
            _ => self.post(ConnectionId::LOCAL, from, to, message),
        }
    }

    /// Sends a message. If the receiver is dead, the message is dropped at once, unless it asks for an answer.
    pub(crate) fn post(&mut self, by: ConnectionId, from: Index, to: Index, message: LinkMessage<Why>) {
        let is_notice = matches!(message, LinkMessage::Down(..) | LinkMessage::Exit(_));
        match &self.states[to] {
            State::Dead if answer_for_the_dead(&message).is_none() => {}
            // The notice would never be received: `engine/lifecycle/exit.rs` drops the data lane.
            State::Exiting(..) if is_notice => {}
            _ if is_notice => self.notices[from][to].push_back((by, message)),
            _ => self.control[from][to].push_back(Control::Link(by, message)),
        }
    }

    fn kill(&mut self, from: Index, to: Index) {
        self.killed[to] = true;
        if !self.is_dead(to) {
            self.control[from][to].push_back(Control::Kill);
        }
    }

    /// Begins the exit of a process: makes its PID unroutable and drops its state.
    fn begin_exit(&mut self, process: Index, why: Why) {
        let state = std::mem::replace(&mut self.states[process], State::Dead);
        let State::Running(links) = state else { unreachable!("a process exits once") };
        self.states[process] = State::Exiting(links, why);
        for from in 0..COUNT {
            self.notices[from][process].clear();
            self.failure_pending[process][from] = false;
        }
    }

    /// Returns the links of `process`, if it is running.
    fn links(&mut self, process: Index) -> Option<&mut Links<Index>> {
        match &mut self.states[process] {
            State::Running(links) => Some(links),
            _ => None,
        }
    }

    /// Toggles whether a process traps exits.
    pub(crate) fn trap(&mut self, process: Index) {
        self.traps[process] = !self.traps[process];
        let traps = self.traps[process];
        self.links(process).expect("it runs").trap(traps);
    }

    /// Performs an act. Returns whether it changed anything.
    pub(crate) fn act(&mut self, process: Index, act: Act) -> bool {
        self.acts -= 1;
        let over = match (act, &self.sessions) {
            (Act::Link(other), Some(sessions)) if sessions.is_elsewhere(process, other) => sessions.choice(process),
            _ => ConnectionId::LOCAL,
        };
        let Some(links) = self.links(process) else { return false };
        match act {
            Act::Link(other) => {
                let before = links.links_with(other).count();
                let message = links.link(other, over);
                if message.is_none() && links.links_with(other).count() == before {
                    return false;
                }
                self.exit_delivered[process][other] = false;
                self.observe_act(process, other);
                match (&mut self.sessions, message) {
                    (Some(sessions), Some(message)) if over != ConnectionId::LOCAL => {
                        sessions.sends(process, other, message, Some(over));
                    }
                    (_, Some(message)) => self.send(process, other, message),
                    (_, None) => {}
                }
            }
            Act::Unlink(other) => {
                let Some(message) = links.unlink(other) else { return false };
                self.failure_pending[process][other] = false;
                self.observe_act(process, other);
                self.send(process, other, message);
            }
            Act::Watch(other) => {
                let number = links.watch(other);
                self.watches[process].insert(number, (other, MonitorState::Active));
                self.send(process, other, LinkMessage::Watch(number));
            }
            Act::Unwatch(number) => {
                let Some(other) = links.unwatch(number) else { return false };
                self.watches[process].insert(number, (other, MonitorState::Withdrawn));
                self.send(process, other, LinkMessage::Unwatch(number));
            }
            Act::Trap => self.trap(process),
            Act::Kill(other) => self.kill(process, other),
            Act::End(why) => self.begin_exit(process, why),
        }
        true
    }

    /// Mirrors `StepInput::receive`, or `receive` of `engine/lifecycle/exit.rs` for an exiting process.
    pub(crate) fn receive(&mut self, from: Index, process: Index, place: usize) {
        let Some(control) = self.control[from][process].remove(place) else { return };
        let Control::Link(by, message) = control else {
            if self.running(process).is_some() {
                self.begin_exit(process, Why::Failed);
            }
            return;
        };
        let before = self.links_with(process, from);
        let received = match &mut self.states[process] {
            State::Running(links) | State::Exiting(links, _) => links.receive((from, by), &message),
            State::Dead => unreachable!("the dead receive nothing"),
        };
        self.observe(from, process, before, &message, &received);
        let runs = self.running(process).is_some();
        match received {
            LinkEffect::Nothing => {}
            LinkEffect::Answer(answer) => self.send(process, from, answer),
            LinkEffect::End(why) if runs => {
                if self.traps[process] || why.is_quiet() {
                    self.report("a failure ended a process that traps exits, or was a normal exit");
                }
                self.begin_exit(process, Why::Failed);
            }
            LinkEffect::End(_) => {}
            LinkEffect::Down(..) | LinkEffect::Exit(_) => self.report("a notice came through the control lane"),
        }
    }

    /// Mirrors `StepInput::next_notice`.
    pub(crate) fn receive_notice(&mut self, from: Index, process: Index) {
        let Some((by, message)) = self.notices[from][process].pop_front() else { return };
        let before = self.links_with(process, from);
        let Some(links) = self.links(process) else { unreachable!("notices to an exiting process are dropped") };
        let received = links.receive((from, by), &message);
        self.observe(from, process, before, &message, &received);
        let is_elsewhere = self.elsewhere(process, from).is_some();
        match received {
            LinkEffect::Nothing => {}
            LinkEffect::Answer(_) => self.report("a notice was answered"),
            LinkEffect::Down(number, _) => {
                if self.watches[process].insert(number, (from, MonitorState::Delivered))
                    != Some((from, MonitorState::Active))
                {
                    self.report("a Down that no process waits for");
                }
            }
            LinkEffect::Exit(why) => {
                self.failure_pending[process][from] = false;
                if !self.traps[process] {
                    self.report("an exit was delivered to a process that does not trap exits");
                }
                if why.is_quiet() {
                    self.report("a normal exit was delivered to a partner");
                }
                if !is_elsewhere && std::mem::replace(&mut self.exit_delivered[process][from], true) {
                    self.report("an exit was delivered twice");
                }
            }
            LinkEffect::End(why) => {
                if self.traps[process] || why.is_quiet() {
                    self.report("an exit ended a process that traps exits, or was a normal exit");
                }
                self.begin_exit(process, Why::Failed);
            }
        }
    }

    /// Mirrors `ExitingProcess::tell_bound`.
    pub(crate) fn notify_partners(&mut self, process: Index) {
        let state = std::mem::replace(&mut self.states[process], State::Dead);
        let State::Exiting(links, why) = state else { unreachable!("it is exiting") };
        if !why.is_quiet() {
            for other in links.links() {
                self.failure_pending[other][process] = match &self.states[other] {
                    // No notification is due if the other process has unlinked and this process has not received the
                    // unlink yet. Notifications from a process on another node are observed in `routing`.
                    State::Running(links) => {
                        let has_unlinked = links.links_with(process).count() == 0 && is_unlinking(links, process);
                        !has_unlinked && self.elsewhere(other, process).is_none()
                    }
                    _ => false,
                };
            }
        }
        for other in 0..COUNT {
            self.killed[other] |= self.owns[process][other];
        }
        let (owned, message) = links.end(&why);
        for other in owned {
            self.kill(process, other);
        }
        for (other, message) in message {
            self.send(process, other, message);
        }
        for from in 0..COUNT {
            self.control[from][process].retain(is_question);
        }
    }

    /// Mirrors the drop of a `SentLinkMessage` that reached no process.
    pub(crate) fn answer_for_dead(&mut self, from: Index, dead: Index, place: usize) {
        if let Some(Control::Link(_, message)) = self.control[from][dead].remove(place)
            && let Some(answer) = answer_for_the_dead(&message)
        {
            self.send(dead, from, answer);
        }
    }
}

/// Returns whether the message is answered on behalf of a dead process.
fn is_question(control: &Control) -> bool {
    matches!(control, Control::Link(_, message) if answer_for_the_dead(message).is_some())
}

/// Returns true if the process is waiting for the answer to an unlink. Until then it accepts no link from the other
/// process.
pub(crate) fn is_unlinking(links: &Links<Index>, other: Index) -> bool {
    const UNUSED: ConnectionId = ConnectionId(u64::MAX - 1);
    let mut linked = links.clone();
    let _nothing: LinkEffect<Why> = linked.receive((other, UNUSED), &LinkMessage::Link);
    linked == *links
}
