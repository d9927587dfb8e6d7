//! The state of one node for the processes by key: its questions, and its own processes.

use super::rendezvous::{KeyHash, home};
use super::{Found, KeyRefusal, KeyedError, KeyedStart};
use crate::clock::Moment;
use crate::directory::is_name;
use crate::directory::message::DirectoryMessage;
use crate::store::Revision;
use postroom::{NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The maximum number of keys on a node.
pub const MAX_KEYS: usize = 100_000;

/// The maximum number of questions that may wait on this node for a process that is starting or ending.
const MAX_WAITING: usize = 100_000;

/// The maximum number of bytes of answers that may wait for a node: the same as for other answers in its session.
pub const MAX_ANSWERS: usize = 16 << 20;

/// The minimum delay before a question is asked again. This happens, for example, if a node has refused the question
/// because it sees another home for the key. The value is a guess at how long the news of a member takes to arrive.
const AGAIN: Duration = Duration::from_millis(50);

/// How long a question waits for its answer: as long as a call.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a question waits for the first session with a member that may be its home. A guess: longer than two nodes
/// take to open a session, but short enough that an unreachable member does not delay all calls.
const MEETING: Duration = Duration::from_secs(2);

/// The state of one node for the processes by key. The [module documentation](super) describes the protocol.
pub struct KeyedProcesses {
    node: NodeId,
    is_member: bool,
    /// The other members with which this node has not had a session yet.
    unmet: BTreeSet<NodeId>,
    /// The other members.
    members: BTreeMap<NodeId, Revision>,
    /// The types that this node exports.
    exports: BTreeSet<&'static str>,
    /// The nodes that this node has a session with, and the types that they export.
    peers: BTreeMap<NodeId, ExportingPeer>,
    questions: BTreeMap<u64, Question>,
    /// The processes of this node, by type and key.
    places: BTreeMap<(String, String), Place>,
    keys_of: BTreeMap<Pid, (String, String)>,
    waiting: usize,
    starts: VecDeque<KeyedStart>,
    stops: VecDeque<Pid>,
    found: VecDeque<Found>,
    /// Nodes that have requested more answers than they take.
    floods: BTreeSet<NodeId>,
    last_number: u64,
}

#[derive(Default)]
struct ExportingPeer {
    exports: BTreeSet<&'static str>,
    /// The questions that have not been sent to the peer yet.
    asks: BTreeSet<u64>,
    answers: VecDeque<DirectoryMessage>,
    /// The size of the answers, in bytes.
    owed: usize,
}

/// A question of this node for the process of a key.
struct Question {
    process: String,
    entry: String,
    key: String,
    /// The node that was asked and has not answered yet.
    asked: Option<NodeId>,
    again_at: Moment,
    until: Moment,
}

enum Place {
    Starting(Vec<Waiter>),
    Running(Pid),
    /// The process was told to stop. If anyone waits, its successor then starts with this entry.
    Stopping(Vec<Waiter>, String),
}

/// A node that waits for the process of a key (this node or another), and the number of its question.
#[derive(Clone, Copy)]
struct Waiter {
    node: NodeId,
    number: u64,
}

impl Question {
    fn place(&self) -> (String, String, String) {
        (self.process.clone(), self.entry.clone(), self.key.clone())
    }
}

/// Returns how many bytes an answer takes in memory.
fn size_of_answer(answer: &DirectoryMessage) -> usize {
    let text = match answer {
        DirectoryMessage::NoKey { refusal: KeyRefusal::Failed(reason), .. } => reason.len(),
        _ => 0,
    };
    size_of::<DirectoryMessage>() + text
}

impl KeyedProcesses {
    /// Returns the state of a node that exports these types.
    pub fn new(node: NodeId, exports: BTreeSet<&'static str>) -> Self {
        Self {
            node,
            is_member: false,
            unmet: BTreeSet::new(),
            members: BTreeMap::new(),
            exports,
            peers: BTreeMap::new(),
            questions: BTreeMap::new(),
            places: BTreeMap::new(),
            keys_of: BTreeMap::new(),
            waiting: 0,
            starts: VecDeque::new(),
            stops: VecDeque::new(),
            found: VecDeque::new(),
            floods: BTreeSet::new(),
            last_number: 0,
        }
    }

    /// Returns the types that this node exports.
    pub(crate) fn exports(&self) -> impl Iterator<Item = &'static str> {
        self.exports.iter().copied()
    }

    /// Returns the home node of a key, as far as this node knows.
    pub fn home(&self, process: &str, key: &str) -> Option<NodeId> {
        let others = self.peers.iter().filter(|(_, peer)| peer.exports.contains(process)).map(|(node, _)| *node);
        home(process, key, others.chain(self.exports.contains(process).then_some(self.node)))
    }

    /// Returns true if a key's home may be a member that this node has not met yet. The exports of such a member are
    /// unknown.
    fn may_be_at_home_with_unmet(&self, known: Option<NodeId>, process: &str, key: &str) -> bool {
        let unmet = self.unmet.iter().copied();
        !self.unmet.is_empty() && home(process, key, unmet.chain(known)) != known
    }

    /// Asks for the process of a key. Returns the number of the [`Found`] that will answer.
    pub fn ask(&mut self, now: Moment, process: &str, entry: &str, key: &str) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        if !is_name(key) {
            self.answer(number, Err(KeyedError::Length { bytes: key.len() }));
            return number;
        }
        let (process, entry, key) = (process.to_owned(), entry.to_owned(), key.to_owned());
        let question = Question { process, entry, key, asked: None, again_at: now, until: now + PATIENCE };
        self.questions.insert(number, question);
        self.ask_its_home(now, number);
        number
    }

    fn ask_its_home(&mut self, now: Moment, number: u64) {
        let Some(question) = self.questions.get(&number) else { return };
        if !self.is_member {
            return self.answer(number, Err(KeyedError::NotAMember));
        }
        let home = self.home(&question.process, &question.key);
        let may_wait = now + (PATIENCE - MEETING) < question.until;
        if may_wait && self.may_be_at_home_with_unmet(home, &question.process, &question.key) {
            if let Some(question) = self.questions.get_mut(&number) {
                question.again_at = now + AGAIN;
            }
            return;
        }
        let Some(home) = home else {
            let process = question.process.clone();
            return self.answer(number, Err(KeyedError::NotExported { process }));
        };
        let (process, entry, key) = question.place();
        if let Some(question) = self.questions.get_mut(&number) {
            (question.asked, question.again_at) = (Some(home), now + AGAIN);
        }
        if home == self.node {
            self.serve(Waiter { node: home, number }, process, entry, key);
        } else if let Some(peer) = self.peers.get_mut(&home) {
            peer.asks.insert(number);
        }
    }

    fn answer(&mut self, number: u64, result: Result<Pid, KeyedError>) {
        if let Some(asked) = self.questions.remove(&number).and_then(|question| question.asked) {
            self.take_back(asked, number);
        }
        self.found.push_back(Found { number, result });
    }

    /// Withdraws a question that has not been sent.
    fn take_back(&mut self, asked: NodeId, number: u64) {
        if let Some(peer) = self.peers.get_mut(&asked) {
            peer.asks.remove(&number);
        }
    }

    /// Handles a question from this node or another about a key whose home is this node.
    fn serve(&mut self, waiter: Waiter, process: String, entry: String, key: String) {
        let (is_full, has_no_room) = (self.waiting >= MAX_WAITING, self.places.len() >= MAX_KEYS);
        let place = (process.clone(), key.clone());
        match self.places.get_mut(&place) {
            Some(Place::Running(pid)) => {
                let pid = *pid;
                self.tell(waiter, Ok(pid));
            }
            Some(Place::Starting(_) | Place::Stopping(..)) if is_full => self.tell(waiter, Err(KeyRefusal::Full)),
            Some(Place::Starting(waiters)) => {
                waiters.push(waiter);
                self.waiting += 1;
            }
            // A new process is started when the current one has ended.
            Some(Place::Stopping(waiters, next)) => {
                *next = entry;
                waiters.push(waiter);
                self.waiting += 1;
            }
            None if has_no_room => self.tell(waiter, Err(KeyRefusal::Full)),
            None => {
                self.places.insert(place, Place::Starting(vec![waiter]));
                self.waiting += 1;
                self.starts.push_back(KeyedStart { process, key, entry });
            }
        }
    }

    /// Refuses another node's question.
    pub(crate) fn refuse(&mut self, node: NodeId, number: u64, refusal: KeyRefusal) {
        self.tell(Waiter { node, number }, Err(refusal));
    }

    fn tell(&mut self, waiter: Waiter, result: Result<Pid, KeyRefusal>) {
        let Waiter { node, number } = waiter;
        if node == self.node {
            return self.heard(node, number, result);
        }
        // The node has no session now. It will ask again in the next one.
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let answer = match result {
            Ok(pid) => DirectoryMessage::KeyAt { number, pid },
            Err(refusal) => DirectoryMessage::NoKey { number, refusal: refusal.shortened() },
        };
        let size = size_of_answer(&answer);
        if peer.owed + size > MAX_ANSWERS {
            // The node gets no answer: its session ends instead.
            self.floods.insert(node);
            return;
        }
        peer.owed += size;
        peer.answers.push_back(answer);
    }

    /// Handles an answer. It is ignored unless it comes from the node that was asked.
    fn heard(&mut self, from: NodeId, number: u64, result: Result<Pid, KeyRefusal>) {
        let Some(question) = self.questions.get_mut(&number).filter(|question| question.asked == Some(from)) else {
            return;
        };
        let error = match result {
            Ok(pid) => return self.answer(number, Ok(pid)),
            // The node that was asked sees other members than this node.
            Err(KeyRefusal::Moved | KeyRefusal::NotExported | KeyRefusal::NotAMember) => {
                question.asked = None;
                return self.take_back(from, number);
            }
            Err(KeyRefusal::Full) => KeyedError::Full,
            Err(KeyRefusal::Failed(reason)) => KeyedError::Failed { reason },
            Err(KeyRefusal::Denied) => KeyedError::Denied,
        };
        self.answer(number, Err(error));
    }

    /// Handles the result of starting a process.
    pub fn started(&mut self, start: &KeyedStart, result: Result<Pid, String>) {
        let place = (start.process.clone(), start.key.clone());
        let Some(Place::Starting(waiters)) = self.places.remove(&place) else { return };
        self.waiting -= waiters.len();
        if let Ok(pid) = result {
            self.keys_of.insert(pid, place.clone());
            self.places.insert(place.clone(), Place::Running(pid));
        }
        for waiter in waiters {
            self.tell(waiter, result.clone().map_err(KeyRefusal::Failed));
        }
        // The members may have changed since the start was requested.
        self.move_on(&place);
    }

    /// Handles the end of a process of this node.
    pub fn ended(&mut self, pid: Pid) {
        let Some(place) = self.keys_of.remove(&pid) else { return };
        self.stops.retain(|stopped| *stopped != pid);
        let Some(Place::Stopping(waiters, entry)) = self.places.remove(&place) else { return };
        self.waiting -= waiters.len();
        let (process, key) = place;
        for waiter in waiters {
            self.question_of(waiter, process.clone(), entry.clone(), key.clone());
        }
    }

    /// Handles a question about a key. It is served if this node is the key's home, and refused otherwise.
    fn question_of(&mut self, waiter: Waiter, process: String, entry: String, key: String) {
        let refusal = match () {
            () if !self.is_member => KeyRefusal::NotAMember,
            () if !self.exports.contains(&*process) => KeyRefusal::NotExported,
            () if self.home(&process, &key) != Some(self.node) => KeyRefusal::Moved,
            () => return self.serve(waiter, process, entry, key),
        };
        self.tell(waiter, Err(refusal));
    }

    /// Stops the process of a key whose home is not here.
    fn move_on(&mut self, place: &(String, String)) {
        let is_here = self.is_member && self.home(&place.0, &place.1) == Some(self.node);
        if !is_here {
            self.stop(place);
        }
    }

    fn stop(&mut self, place: &(String, String)) {
        if let Some(Place::Running(pid)) = self.places.get(place) {
            self.stops.push_back(*pid);
            self.places.insert(place.clone(), Place::Stopping(Vec::new(), String::new()));
        }
    }

    /// Stops the running processes of the keys for which `moves` returns true.
    fn stop_all(&mut self, moves: impl Fn(&str, &str) -> bool) {
        let running = self.places.iter().filter(|(_, place)| matches!(place, Place::Running(_)));
        let moved: Vec<_> = running.map(|(place, _)| place).filter(|(p, key)| moves(p, key)).cloned().collect();
        moved.iter().for_each(|place| self.stop(place));
    }

    /// Sets whether this node is a member.
    pub fn set_member(&mut self, is_member: bool) {
        if std::mem::replace(&mut self.is_member, is_member) && !is_member {
            // When this node joins again, it has to meet the others again.
            self.members.clear();
            self.unmet.clear();
            self.stop_all(|_, _| true);
            let numbers: Vec<_> = self.questions.keys().copied().collect();
            numbers.into_iter().for_each(|number| self.answer(number, Err(KeyedError::NotAMember)));
        }
    }

    /// Sets the members, with the revisions of their records.
    pub fn set_members(&mut self, members: &BTreeMap<NodeId, Revision>) {
        if self.members == *members {
            return;
        }
        let is_new = |node: &NodeId, since| *node != self.node && self.members.get(node) != Some(since);
        let new: Vec<_> = members.iter().filter(|(node, since)| is_new(node, since)).map(|(node, _)| *node).collect();
        self.unmet.retain(|node| members.contains_key(node));
        self.unmet.extend(new.into_iter().filter(|node| !self.peers.contains_key(node)));
        self.members.clone_from(members);
    }

    /// Handles the start of a session with a node that exports these types.
    pub fn connected(&mut self, node: NodeId, exports: BTreeSet<&'static str>) {
        // Among the nodes known so far, this node is the home of each key whose process runs here. So only the new node
        // is compared.
        let own = self.node;
        self.stop_all(|process, key| {
            let hash = KeyHash::of(process, key);
            exports.contains(process) && hash.weight(node) > hash.weight(own)
        });
        self.unmet.remove(&node);
        self.peers.insert(node, ExportingPeer { exports, ..ExportingPeer::default() });
    }

    /// Handles the end of the session with a node.
    pub fn disconnected(&mut self, node: NodeId) {
        self.peers.remove(&node);
        self.floods.remove(&node);
        // The node may have started the process. The question now goes to another node, or to this one in a new
        // session.
        self.questions.values_mut().filter(|question| question.asked == Some(node)).for_each(|q| q.asked = None);
    }

    /// Handles a message from another node. Returns false if the message is not valid: a node may speak only for its
    /// own processes.
    pub(crate) fn on_message(&mut self, from: NodeId, message: DirectoryMessage) -> bool {
        match message {
            DirectoryMessage::AskKey { number, process, entry, key } => {
                self.question_of(Waiter { node: from, number }, process, entry, key);
            }
            DirectoryMessage::KeyAt { pid, .. } if pid.node() != from => return false,
            DirectoryMessage::KeyAt { number, pid } => self.heard(from, number, Ok(pid)),
            DirectoryMessage::NoKey { number, refusal } => self.heard(from, number, Err(refusal)),
            _ => return false,
        }
        true
    }

    /// Returns whether there is a message to send to a node.
    pub(crate) fn has_message(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| !peer.answers.is_empty() || !peer.asks.is_empty())
    }

    /// Returns the next message for a node that this node has a session with.
    pub(crate) fn poll_message(&mut self, node: NodeId) -> Option<DirectoryMessage> {
        let peer = self.peers.get_mut(&node)?;
        if let Some(answer) = peer.answers.pop_front() {
            peer.owed -= size_of_answer(&answer);
            return Some(answer);
        }
        let number = peer.asks.pop_first()?;
        let (process, entry, key) = self.questions.get(&number)?.place();
        Some(DirectoryMessage::AskKey { number, process, entry, key })
    }

    /// Takes back the message that was polled most recently for this node, because the session had no room for it.
    pub(crate) fn refused(&mut self, node: NodeId, message: DirectoryMessage) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        match message {
            DirectoryMessage::AskKey { number, .. } => {
                // The question may have been given up in the meantime.
                if self.questions.get(&number).is_some_and(|question| question.asked == Some(node)) {
                    peer.asks.insert(number);
                }
            }
            answer => {
                peer.owed += size_of_answer(&answer);
                peer.answers.push_front(answer);
            }
        }
    }

    /// Returns a node that has requested more answers than it takes; the session with it must end.
    pub(crate) fn poll_flood(&mut self) -> Option<NodeId> {
        self.floods.pop_first()
    }

    /// Returns the next process to start.
    pub fn poll_start(&mut self) -> Option<KeyedStart> {
        self.starts.pop_front()
    }

    /// Returns the next process to stop.
    pub fn poll_stop(&mut self) -> Option<Pid> {
        self.stops.pop_front()
    }

    /// Returns true if there are no open questions and no waiting nodes.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.waiting == 0 && self.questions.is_empty()
    }

    /// Returns the keys whose processes were told to stop.
    #[cfg(test)]
    pub(super) fn stopping(&self) -> impl Iterator<Item = &str> {
        let stopping = self.places.iter().filter(|(_, place)| matches!(place, Place::Stopping(..)));
        stopping.map(|((_, key), _)| key.as_str())
    }

    /// Returns the next answer to a question.
    pub fn poll_found(&mut self) -> Option<Found> {
        self.found.pop_front()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Moment> {
        let due = |question: &Question| match question.asked {
            Some(_) => question.until,
            None => question.until.min(question.again_at),
        };
        self.questions.values().map(due).min()
    }

    /// Asks questions again that are due, and gives up those that have waited too long.
    pub fn handle_timeout(&mut self, now: Moment) {
        let over = |question: &Question| question.until <= now;
        let late: Vec<_> = self.questions.iter().filter(|(_, q)| over(q)).map(|(number, _)| *number).collect();
        late.into_iter().for_each(|number| self.answer(number, Err(KeyedError::Timeout)));
        let due = |question: &Question| question.asked.is_none() && question.again_at <= now;
        let due: Vec<_> = self.questions.iter().filter(|(_, q)| due(q)).map(|(number, _)| *number).collect();
        due.into_iter().for_each(|number| self.ask_its_home(now, number));
    }
}
