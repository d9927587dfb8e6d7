//! One node's view of the names, and its requests to the store.

use super::record::{Holder, MAX_NAME, decode, encode, key};
use super::{NameRequest, RegisterError, Registered, Token};
use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::store::{Change, Entry, Revision, StoreError};
use postroom::{NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The number of memberships whose late names are deleted as soon as they appear. The caller finds the names of older
/// memberships with [`memberships`](Names::memberships).
const MAX_OVER: usize = 1_024;

/// The delay before a deletion is repeated if the store was not available.
const REPEAT: Duration = Duration::from_secs(1);
/// The delay before a deletion is repeated if the store refused it: an operator has to correct the cause.
const REPEAT_REFUSED: Duration = Duration::from_secs(30);

/// One node's view of the names of its cluster. The [module documentation](super) describes the protocol.
///
/// ```
/// use postroom_cluster::access::{Access, Answer};
/// use postroom_cluster::clock::Moment;
/// use postroom_cluster::store::Revision;
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
    /// The epoch of this node's membership; `None` while it is not a member.
    epoch: Option<Revision>,
    /// The holders that the watch has reported, by key.
    known: BTreeMap<String, KnownHolder>,
    /// The keys of the snapshot that the watch is reporting.
    snapshot: Option<BTreeSet<String>>,
    /// The names that this node holds, by key.
    held: BTreeMap<String, Held>,
    /// The operations for each entry, in order; the first is in progress. They are performed one at a time, since a
    /// read that overtook a deletion would find a name that has been released.
    pending: BTreeMap<String, VecDeque<NameOperation>>,
    /// For each entry with pending operations, the revision up to which the watch has reported it gone. The watch may
    /// report that before the operation is answered.
    gone: BTreeMap<String, Revision>,
    /// The keys of the requests in progress, by request number.
    asked: BTreeMap<u64, String>,
    /// Deletions that the store has not performed, to be repeated.
    undone: Vec<(String, Revision)>,
    repeat_at: Option<Moment>,
    /// Memberships of other nodes that are over. Their names are deleted as soon as they appear.
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
    /// Registers the name: creates the entry, or reads it after a conflict.
    Register(Registration),
    /// Deletes the entry.
    Delete(Revision),
}

struct Registration {
    number: u64,
    name: String,
    pid: Pid,
    epoch: Revision,
    /// Whether the process has ended since the registration began.
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
    /// Records that this node has become a member.
    pub fn joined(&mut self, epoch: Revision) {
        self.epoch = Some(epoch);
    }

    /// Stops registering names, because this node leaves. Returns the processes that hold names; each name is released
    /// when its process has [ended](Self::ended).
    pub fn leave(&mut self) -> BTreeSet<Pid> {
        self.epoch = None;
        self.held.values().map(|held| held.pid).collect()
    }

    /// Returns true if no operation on the store is pending, and none has to be repeated.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.undone.is_empty()
    }

    /// Records that this node is no longer a member. Returns the processes that held names, or have
    /// [lost](Self::poll_lost) them: they must end before the grace of the lease is over. Pending registrations fail.
    pub fn fenced(&mut self) -> BTreeSet<Pid> {
        self.epoch = None;
        let held = std::mem::take(&mut self.held);
        held.into_values().map(|held| held.pid).chain(self.lost.drain(..)).collect()
    }

    /// Stops all requests to the store. A registration whose request is in progress may still succeed, so it is
    /// answered as unknown.
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

    /// Registers `name` for a process of this node. Returns the number of the resulting [`Registered`].
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

    /// Releases `name` if `pid` holds it. Returns whether `pid` held it.
    pub fn release(&mut self, name: &str, pid: Pid) -> bool {
        let key = key(name);
        if self.held.get(&key).is_none_or(|held| held.pid != pid || held.name != name) {
            return false;
        }
        self.let_go(key);
        true
    }

    /// Releases the names of a process of this node that has ended.
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

    /// Deletes the names of a membership that is over. Its holders must have ended: the node has left, or its lease is
    /// over.
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

    /// Returns whether the names of a membership are deleted as soon as they appear.
    pub(crate) fn is_over(&self, node: NodeId, epoch: Revision) -> bool {
        self.over.contains(&(node, epoch))
    }

    /// Handles a change that the watch of the names reports.
    pub fn on_change(&mut self, change: Change) {
        match change {
            Change::Resync => self.snapshot = Some(BTreeSet::new()),
            Change::Put(entry) => {
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.insert(entry.key.clone());
                }
                self.note_gone(&entry.key, Revision(entry.revision.0.saturating_sub(1)));
                self.put(entry);
            }
            Change::Deleted { key, revision } => self.note_gone(&key, revision),
            Change::Synced { revision } => {
                let Some(snapshot) = self.snapshot.take() else { return };
                let keys = self.known.keys().chain(self.held.keys()).chain(self.pending.keys());
                let missing: BTreeSet<_> = keys.filter(|key| !snapshot.contains(*key)).cloned().collect();
                missing.iter().for_each(|key| self.note_gone(key, revision));
            }
        }
    }

    /// Records that all revisions of an entry up to this one are gone. A name that is held with one of them is lost:
    /// this node never writes again to an entry that it holds, so the entry is gone, or another node's.
    fn note_gone(&mut self, key: &str, revision: Revision) {
        if self.pending.contains_key(key) {
            let gone = self.gone.entry(key.to_owned()).or_default();
            *gone = revision.max(*gone);
        }
        if self.known.get(key).is_some_and(|known| known.revision <= revision) {
            self.known.remove(key);
        }
        if self.held.get(key).is_some_and(|held| held.token <= revision) {
            self.lose(key);
        }
    }

    /// Takes a name from its holder, since the entry is gone or belongs to another process. The holder must end.
    fn lose(&mut self, key: &str) {
        self.lost.extend(self.held.remove(key).map(|held| held.pid));
    }

    /// Adds an entry that was reported. Its earlier revisions must be gone already.
    fn put(&mut self, entry: Entry) {
        // The known entry is this one, or a later one.
        if self.known.contains_key(&entry.key) {
            return;
        }
        // An unreadable record has no holder that messages could be sent to.
        let Ok((name, holder)) = decode(entry.value) else { return };
        if self.over.contains(&(holder.pid.node(), holder.epoch)) {
            self.operate(entry.key.clone(), NameOperation::Delete(entry.revision));
        }
        self.known.insert(entry.key.clone(), KnownHolder { name, holder, revision: entry.revision });
        self.delete_stray(entry.key);
    }

    /// Deletes an entry of this membership that no process of this node holds: its registration was answered as
    /// unknown. Otherwise the name would be taken for as long as this node is a member.
    fn delete_stray(&mut self, key: String) {
        let is_own = |known: &&KnownHolder| self.epoch == Some(known.holder.epoch);
        let Some(known) = self.known.get(&key).filter(is_own) else { return };
        if !self.held.contains_key(&key) && !self.pending.contains_key(&key) {
            let revision = known.revision;
            self.operate(key, NameOperation::Delete(revision));
        }
    }

    /// Returns the holder of a name, and its token. For a name that another node holds, this is what the watch has
    /// reported.
    pub fn holder(&self, name: &str) -> Option<(Pid, Token)> {
        let key = key(name);
        // The watch reports a registration slightly after it is answered.
        if let Some(held) = self.held.get(&key).filter(|held| held.name == name) {
            return Some((held.pid, held.token.into()));
        }
        let known = self.known.get(&key).filter(|known| known.name == name)?;
        Some((known.holder.pid, known.revision.into()))
    }

    /// Returns the memberships during which the known names were registered, one for each name.
    pub fn memberships(&self) -> impl Iterator<Item = (NodeId, Revision)> {
        self.known.values().map(|known| (known.holder.pid.node(), known.holder.epoch))
    }

    /// Returns the known names with their holders.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Pid)> {
        self.known.values().map(|known| (known.name.as_str(), known.holder.pid))
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Queues an operation on an entry, to be performed when the one in progress is done. Deletions go before
    /// registrations: a registration would otherwise find the entry that is about to be deleted.
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

    /// Repeats the deletions that the store has not performed.
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

    /// Returns a process that held a name whose entry is gone from the store, or belongs to another process. It must
    /// end before the grace of the lease is over.
    pub fn poll_lost(&mut self) -> Option<Pid> {
        self.lost.pop_front()
    }

    /// Returns the result of a registration.
    pub fn poll_registered(&mut self) -> Option<Registered> {
        self.registered.pop_front()
    }

    fn answer(&mut self, number: u64, result: Result<Token, RegisterError>) {
        self.registered.push_back(Registered { number, result, holder: None });
    }

    /// Handles the answer to a request, received at `now`.
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
                    // A conflict means that the entry is gone already; a closed store is not asked again.
                    Answer::Written(Ok(_) | Err(StoreError::Conflict { .. } | StoreError::Closed)) => None,
                    Answer::Written(Err(StoreError::Unavailable | StoreError::Unknown)) => Some(REPEAT),
                    Answer::Written(Err(_)) | Answer::Read(_) => Some(REPEAT_REFUSED),
                };
                if let Some(pause) = pause {
                    self.undone.push((key.clone(), revision));
                    let at = now + pause;
                    self.repeat_at = Some(self.repeat_at.map_or(at, |earlier| earlier.min(at)));
                } else if self.known.get(&key).is_some_and(|known| known.revision == revision) {
                    // The watch reports the deletion later.
                    self.known.remove(&key);
                }
            }
        }
        self.begin(key);
    }

    /// Handles the answer to a registration. Returns the next access if the registration is not finished yet.
    fn registered(&mut self, key: &str, registration: Registration, answer: Answer) -> Option<Access> {
        let Registration { number, name, .. } = &registration;
        let (number, name) = (*number, name.clone());
        let access = match answer {
            Answer::Written(Ok(revision)) => return self.hold(key, registration, revision),
            Answer::Written(Err(StoreError::Conflict { .. } | StoreError::Unknown)) => Access::Get,
            // The entry was deleted in the meantime, so create it again, as if the deletion had come first.
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
            // The entry that was found is about to be deleted, as its name was released. Register the name after that.
            operations.insert(1, NameOperation::Register(registration));
            return None;
        }
        let Registration { number, name, pid, epoch, has_ended } = registration;
        let error = match () {
            // The node was fenced. That did not end the process, since the process did not hold the name yet.
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
