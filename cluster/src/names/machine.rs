//! One node's view of the names, and what it asks of the store.

use super::record::{Holder, MAX_NAME, decode, encode, key};
use super::{NameRequest, RegisterError, Registered, Token};
use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::engine::{Change, Entry, Revision, StoreError};
use postroom::{NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The most memberships whose late names are looked out for. The caller finds those of older ones as they are seen, by
/// [`memberships`](Names::memberships).
const MAX_OVER: usize = 1_024;

/// The wait before a deletion is repeated that the store could not do, and before one that it has refused: an operator
/// has to put that right.
const REPEAT: Duration = Duration::from_secs(1);
const REPEAT_REFUSED: Duration = Duration::from_secs(30);

/// One node's view of the names of its cluster. The head of the [module](super) has the protocol.
///
/// ```
/// use postroom_cluster::access::{Access, Answer};
/// use postroom_cluster::clock::Moment;
/// use postroom_cluster::engine::Revision;
/// use postroom_cluster::names::{Names, Token};
///
/// let mut names = Names::default();
/// names.joined(Revision(4));
/// let process = "<7f.0.5.1>".parse().unwrap();
/// let number = names.register("acct-7", process);
/// let request = names.poll_request().unwrap();
/// assert!(matches!(request.access, Access::Create(_)));
/// names.handle(Moment::START, request.number, Answer::Written(Ok(Revision(21))));
/// let registered = names.poll_registered().unwrap();
/// assert_eq!((registered.number, registered.result), (number, Ok(Token(21))));
/// ```
#[derive(Default)]
pub struct Names {
    /// This node's membership; `None` while it has none.
    epoch: Option<Revision>,
    /// What the watch has reported, by key.
    known: BTreeMap<String, KnownHolder>,
    /// The keys of the snapshot that the watch is reporting.
    snapshot: Option<BTreeSet<String>>,
    /// What this node holds, by key.
    held: BTreeMap<String, Held>,
    /// What is to be done with each entry, in order; the first is being done. One at a time: a read that overtook a
    /// deletion would find a name that has been given up.
    pending: BTreeMap<String, VecDeque<NameOperation>>,
    /// Up to which revision the entries that something is being done with are gone, as far as the watch has reported.
    /// It may do so before the answer comes.
    gone: BTreeMap<String, Revision>,
    /// The keys of what is being done, by request.
    asked: BTreeMap<u64, String>,
    /// Deletions that the store has not done, to be repeated.
    undone: Vec<(String, Revision)>,
    repeat_at: Option<Moment>,
    /// Memberships of other nodes that are over: their names are to be deleted when they are seen.
    over: BTreeSet<(NodeId, Revision)>,
    requests: VecDeque<NameRequest>,
    registered: VecDeque<Registered>,
    /// Processes whose names are gone from the store.
    lost: VecDeque<Pid>,
    last_number: u64,
}

struct KnownHolder {
    name: String,
    holder: Holder,
    revision: Revision,
}

struct Held {
    name: String,
    pid: Pid,
    token: Revision,
}

enum NameOperation {
    /// Register the name: create the entry, or read it after a conflict.
    Register(Registration),
    /// Delete the entry.
    Delete(Revision),
}

struct Registration {
    number: u64,
    name: String,
    pid: Pid,
    epoch: Revision,
    /// The process has ended meanwhile.
    has_ended: bool,
}

impl Registration {
    fn holder(&self) -> Holder {
        Holder { pid: self.pid, epoch: self.epoch }
    }

    fn create(&self) -> Access {
        Access::Create(encode(&self.name, &self.holder()))
    }
}

impl Names {
    /// This node has become a member.
    pub fn joined(&mut self, epoch: Revision) {
        self.epoch = Some(epoch);
    }

    /// This node leaves: registers no more. Returns the processes that hold names; each name is given up when its
    /// process has [ended](Self::ended).
    pub fn leave(&mut self) -> BTreeSet<Pid> {
        self.epoch = None;
        self.held.values().map(|held| held.pid).collect()
    }

    /// Returns whether nothing is being asked of the store.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.undone.is_empty()
    }

    /// This node is no member any more. Returns the processes that held names, or have [lost](Self::poll_lost) them:
    /// they must end before the grace of the lease is over. Registrations that wait fail.
    pub fn fenced(&mut self) -> BTreeSet<Pid> {
        self.epoch = None;
        let held = std::mem::take(&mut self.held);
        held.into_values().map(|held| held.pid).chain(self.lost.drain(..)).collect()
    }

    /// This node asks the store no more. A registration that has been asked for may come to pass: it is answered as
    /// unknown.
    pub fn give_up(&mut self) {
        for (place, operation) in std::mem::take(&mut self.pending).into_values().flat_map(|all| (0..).zip(all)) {
            if let NameOperation::Register(Registration { number, name, .. }) = operation {
                let error = if place == 0 { RegisterError::Unknown { name } } else { RegisterError::NotAMember };
                self.answer(number, Err(error));
            }
        }
        self.asked.clear();
        self.requests.clear();
    }

    /// Registers `name` for a process of this node. Returns the number that [`Registered`] will have.
    pub fn register(&mut self, name: &str, pid: Pid) -> u64 {
        let number = self.number();
        let Some(epoch) = self.epoch else {
            self.answer(number, Err(RegisterError::NotAMember));
            return number;
        };
        if name.is_empty() || name.len() > MAX_NAME {
            self.answer(number, Err(RegisterError::Length { bytes: name.len() }));
            return number;
        }
        let registration = Registration { number, name: name.to_owned(), pid, epoch, has_ended: false };
        self.operate(key(name), NameOperation::Register(registration));
        number
    }

    /// Gives `name` up, if `pid` holds it. Returns whether it does.
    pub fn release(&mut self, name: &str, pid: Pid) -> bool {
        let key = key(name);
        if self.held.get(&key).is_none_or(|held| held.pid != pid || held.name != name) {
            return false;
        }
        self.let_go(key);
        true
    }

    /// A process of this node has ended: its names are free.
    pub fn ended(&mut self, pid: Pid) {
        let keys: Vec<_> = self.held.iter().filter(|(_, held)| held.pid == pid).map(|(key, _)| key.clone()).collect();
        keys.into_iter().for_each(|key| self.let_go(key));
        for operation in self.pending.values_mut().flatten() {
            if let NameOperation::Register(registration) = operation
                && registration.pid == pid
            {
                registration.has_ended = true;
            }
        }
    }

    fn let_go(&mut self, key: String) {
        if let Some(held) = self.held.remove(&key) {
            self.operate(key, NameOperation::Delete(held.token));
        }
    }

    /// The membership of a node is over, and so is its lease: its names are free.
    pub fn membership_over(&mut self, node: NodeId, epoch: Revision) {
        if self.over.len() == MAX_OVER {
            self.over.pop_first();
        }
        self.over.insert((node, epoch));
        let is_theirs = |known: &KnownHolder| known.holder.pid.node() == node && known.holder.epoch == epoch;
        let theirs = self.known.iter().filter(|(_, known)| is_theirs(known));
        let theirs: Vec<_> = theirs.map(|(key, known)| (key.clone(), known.revision)).collect();
        theirs.into_iter().for_each(|(key, revision)| self.operate(key, NameOperation::Delete(revision)));
    }

    /// Returns whether the names of a membership are being deleted as they are seen.
    pub(crate) fn is_over(&self, node: NodeId, epoch: Revision) -> bool {
        self.over.contains(&(node, epoch))
    }

    /// Handles a change that the watch of the names reports.
    pub fn on_change(&mut self, change: Change) {
        match change {
            Change::Resync => self.snapshot = Some(BTreeSet::new()),
            Change::Put(entry) => self.put(entry),
            Change::Deleted { key, revision } => {
                self.note_gone(&key, revision);
                if self.known.get(&key).is_some_and(|known| known.revision < revision) {
                    self.known.remove(&key);
                }
                if self.held.get(&key).is_some_and(|held| held.token < revision) {
                    self.lose(&key);
                }
            }
            Change::Synced { revision } => {
                if let Some(snapshot) = self.snapshot.take() {
                    self.known.retain(|key, known| snapshot.contains(key) || known.revision > revision);
                    let is_gone = |(key, held): &(&String, &Held)| held.token <= revision && !snapshot.contains(*key);
                    let gone: Vec<_> = self.held.iter().filter(is_gone).map(|(key, _)| key.clone()).collect();
                    gone.iter().for_each(|key| self.lose(key));
                    let missing = self.pending.keys().filter(|key| !snapshot.contains(*key));
                    let missing: Vec<_> = missing.cloned().collect();
                    missing.iter().for_each(|key| self.note_gone(key, revision));
                }
            }
        }
    }

    /// What an entry was up to this revision is gone.
    fn note_gone(&mut self, key: &str, revision: Revision) {
        if self.pending.contains_key(key) {
            let gone = self.gone.entry(key.to_owned()).or_default();
            *gone = revision.max(*gone);
        }
    }

    /// The entry of a name that this node holds is gone, or is another's: its holder must end.
    fn lose(&mut self, key: &str) {
        self.lost.extend(self.held.remove(key).map(|held| held.pid));
    }

    fn put(&mut self, entry: Entry) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.insert(entry.key.clone());
        }
        self.note_gone(&entry.key, Revision(entry.revision.0.saturating_sub(1)));
        if self.known.get(&entry.key).is_some_and(|known| known.revision >= entry.revision) {
            return;
        }
        // What this node holds it never writes again.
        if self.held.get(&entry.key).is_some_and(|held| held.token < entry.revision) {
            self.lose(&entry.key);
        }
        // What is no record is held by none that could be sent to.
        let Ok((name, holder)) = decode(entry.value) else {
            self.known.remove(&entry.key);
            return;
        };
        if self.over.contains(&(holder.pid.node(), holder.epoch)) {
            self.operate(entry.key.clone(), NameOperation::Delete(entry.revision));
        }
        self.known.insert(entry.key.clone(), KnownHolder { name, holder, revision: entry.revision });
        self.delete_stray(entry.key);
    }

    /// Deletes an entry of this membership that no process of it holds: its registration was answered as unknown. Else
    /// the name would be taken for as long as this node is a member.
    fn delete_stray(&mut self, key: String) {
        let is_own = |known: &&KnownHolder| self.epoch == Some(known.holder.epoch);
        let Some(known) = self.known.get(&key).filter(is_own) else { return };
        if !self.held.contains_key(&key) && !self.pending.contains_key(&key) {
            let revision = known.revision;
            self.operate(key, NameOperation::Delete(revision));
        }
    }

    /// Returns the holder of a name and its token: one of this node, or another as far as the watch has reported.
    pub fn holder(&self, name: &str) -> Option<(Pid, Token)> {
        let key = key(name);
        // The watch reports a little later than the registration is answered.
        if let Some(held) = self.held.get(&key).filter(|held| held.name == name) {
            return Some((held.pid, held.token.into()));
        }
        let known = self.known.get(&key).filter(|known| known.name == name)?;
        Some((known.holder.pid, known.revision.into()))
    }

    /// Returns the memberships during which the known names were registered, of each name one.
    pub fn memberships(&self) -> impl Iterator<Item = (NodeId, Revision)> {
        self.known.values().map(|known| (known.holder.pid.node(), known.holder.epoch))
    }

    /// Returns the names that are known, with their holders.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Pid)> {
        self.known.values().map(|known| (known.name.as_str(), known.holder.pid))
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Does this with the entry when what is being done is done; deletions before registrations, which would find what
    /// is to be deleted.
    fn operate(&mut self, key: String, operation: NameOperation) {
        let operations = self.pending.entry(key.clone()).or_default();
        if let NameOperation::Delete(revision) = operation
            && operations.iter().any(|other| matches!(other, NameOperation::Delete(other) if *other == revision))
        {
            return;
        }
        match operation {
            NameOperation::Delete(_) if !operations.is_empty() => operations.insert(1, operation),
            _ => operations.push_back(operation),
        }
        if operations.len() == 1 {
            self.begin(key);
        }
    }

    /// Begins the first operation on an entry.
    fn begin(&mut self, key: String) {
        let access = match self.pending.get(&key).and_then(VecDeque::front) {
            Some(NameOperation::Register(registration)) => registration.create(),
            Some(NameOperation::Delete(revision)) => Access::Delete(*revision),
            None => {
                self.pending.remove(&key);
                self.gone.remove(&key);
                return self.delete_stray(key);
            }
        };
        self.request(key, access);
    }

    fn request(&mut self, key: String, access: Access) {
        let number = self.number();
        self.asked.insert(number, key.clone());
        self.requests.push_back(NameRequest { number, key, access });
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Moment> {
        self.repeat_at
    }

    /// Repeats what the store has not done.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.repeat_at.is_none_or(|at| now < at) {
            return;
        }
        self.repeat_at = None;
        let undone = std::mem::take(&mut self.undone);
        undone.into_iter().for_each(|(key, revision)| self.operate(key, NameOperation::Delete(revision)));
    }

    /// Returns the next request.
    pub fn poll_request(&mut self) -> Option<NameRequest> {
        self.requests.pop_front()
    }

    /// Returns a process that held a name which is gone from the store, or is another's: it must end before the grace
    /// of the lease is over.
    pub fn poll_lost(&mut self) -> Option<Pid> {
        self.lost.pop_front()
    }

    /// Returns what came of a registration.
    pub fn poll_registered(&mut self) -> Option<Registered> {
        self.registered.pop_front()
    }

    fn answer(&mut self, number: u64, result: Result<Token, RegisterError>) {
        self.registered.push_back(Registered { number, result, holder: None });
    }

    /// Handles the answer to a request, which came at `now`.
    pub fn handle(&mut self, now: Moment, number: u64, answer: Answer) {
        let Some(key) = self.asked.remove(&number) else { return };
        let Some(operation) = self.pending.get_mut(&key).and_then(VecDeque::pop_front) else { return };
        match operation {
            NameOperation::Register(registration) => {
                if let Some(access) = self.registered(&key, registration, answer) {
                    return self.request(key, access);
                }
            }
            NameOperation::Delete(revision) => {
                let pause = match answer {
                    // A conflict means that it is gone already; a store that is closed is not asked again.
                    Answer::Written(Ok(_) | Err(StoreError::Conflict { .. } | StoreError::Closed)) => None,
                    Answer::Written(Err(StoreError::Unavailable | StoreError::Unknown)) => Some(REPEAT),
                    Answer::Written(Err(_)) | Answer::Read(_) => Some(REPEAT_REFUSED),
                };
                if let Some(pause) = pause {
                    self.undone.push((key.clone(), revision));
                    let at = now + pause;
                    self.repeat_at = Some(self.repeat_at.map_or(at, |earlier| earlier.min(at)));
                } else if self.known.get(&key).is_some_and(|known| known.revision == revision) {
                    // The watch tells of it later.
                    self.known.remove(&key);
                }
            }
        }
        self.begin(key);
    }

    /// Handles the answer to a registration. Returns what to ask next, if it is not answered yet.
    fn registered(&mut self, key: &str, registration: Registration, answer: Answer) -> Option<Access> {
        let Registration { number, name, .. } = &registration;
        let (number, name) = (*number, name.clone());
        let access = match answer {
            Answer::Written(Ok(revision)) => return self.hold(key, registration, revision),
            Answer::Written(Err(StoreError::Conflict { .. } | StoreError::Unknown)) => Access::Get,
            // It was deleted meanwhile: as if this had come first.
            Answer::Read(Ok(None)) => registration.create(),
            Answer::Read(Ok(Some(entry))) => {
                match decode(entry.value) {
                    Ok((held, holder)) if held == name && holder == registration.holder() => {
                        return self.hold(key, registration, entry.revision);
                    }
                    Ok((_, holder)) => {
                        let result = Err(RegisterError::Taken { name, holder: holder.pid });
                        self.registered.push_back(Registered { number, result, holder: Some(holder) });
                    }
                    Err(error) => self.answer(number, Err(RegisterError::Unreadable { name, error })),
                }
                return None;
            }
            Answer::Written(Err(StoreError::Unavailable)) => {
                self.answer(number, Err(RegisterError::Unavailable { name }));
                return None;
            }
            Answer::Read(Err(_)) => {
                self.answer(number, Err(RegisterError::Unknown { name }));
                return None;
            }
            Answer::Written(Err(error)) => {
                self.answer(number, Err(RegisterError::Store { name, error }));
                return None;
            }
        };
        self.pending.entry(key.to_owned()).or_default().push_front(NameOperation::Register(registration));
        Some(access)
    }

    fn hold(&mut self, key: &str, registration: Registration, token: Revision) -> Option<Access> {
        let operations = self.pending.entry(key.to_owned()).or_default();
        if matches!(operations.front(), Some(NameOperation::Delete(revision)) if *revision == token) {
            // It was given up while this found it.
            operations.insert(1, NameOperation::Register(registration));
            return None;
        }
        let Registration { number, name, pid, epoch, has_ended } = registration;
        let error = match () {
            // Its holder would not have been told of the fence.
            () if self.epoch != Some(epoch) => RegisterError::NotAMember,
            () if has_ended => RegisterError::Ended { pid },
            () => {
                self.held.insert(key.to_owned(), Held { name, pid, token });
                self.answer(number, Ok(token.into()));
                if self.gone.get(key).is_some_and(|gone| token <= *gone) {
                    self.lose(key);
                }
                return None;
            }
        };
        self.pending.entry(key.to_owned()).or_default().push_front(NameOperation::Delete(token));
        self.answer(number, Err(error));
        None
    }
}
