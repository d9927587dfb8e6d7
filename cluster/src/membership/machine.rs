//! One node's view of the members.

use super::record::read;
use super::{
    Finding, GRACE, Identity, Inquiry, JoinRefusal, Loss, MAX_BINDINGS, MembershipEvent, MembershipRequest, OWN_RETRY,
    PROBE_AGAIN, RETRY, Record, RecordError,
};
use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::engine::ProbeOutcome;
use crate::store::{Change, Entry, Revision, StoreError};
use postroom::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One node's view of the members of its cluster. The [module documentation](super) describes the protocol.
///
/// ```
/// use postroom::NodeId;
/// use postroom_cluster::access::{Access, Answer};
/// use postroom_cluster::clock::Moment;
/// use postroom_cluster::store::{Change, Entry, Revision};
/// use postroom_cluster::membership::{Finding, Inquiry, Membership, MembershipEvent, Record};
///
/// let now = Moment::START;
/// let (here, there) = (NodeId::new(0x7f3a).unwrap(), NodeId::new(0x21).unwrap());
/// let mut members = Membership::new(here, Record::new("eu-1", 1)?);
/// let request = members.poll_request().unwrap();
/// assert!(matches!(request.inquiry, Inquiry::Record(Access::Create(_))));
/// members.handle(now, request.number, Finding::Record(Answer::Written(Ok(Revision(1)))));
/// assert_eq!(members.poll_event(), Some(MembershipEvent::Entered(Revision(1))));
///
/// let record = Record::new("eu-2", 2)?;
/// let entry = Entry { key: "eu-2.21".into(), value: record.encode(), revision: Revision(2) };
/// members.on_change(Change::Put(entry));
/// assert_eq!(members.poll_event(), Some(MembershipEvent::Joined { node: there, revision: Revision(2), record }));
/// # Ok::<(), postroom_cluster::membership::RecordError>(())
/// ```
pub struct Membership {
    node: NodeId,
    record: Record,
    own: Own,
    members: BTreeMap<NodeId, TrackedMember>,
    /// Members that were reported lost, with the last revisions that were seen. Their records may still be reported.
    departed: BTreeMap<NodeId, Revision>,
    bindings: KnownNames,
    /// The proof that this node waits for before it joins again.
    proof: Option<Proof>,
    /// The nodes in the snapshot that the watch is reporting.
    snapshot: Option<BTreeSet<NodeId>>,
    /// When to perform the next step for a node.
    timers: BTreeMap<NodeId, Moment>,
    requests: VecDeque<MembershipRequest>,
    last_number: u64,
    events: VecDeque<MembershipEvent>,
}

/// The name that each ID belongs to: that of the first record seen with the ID.
#[derive(Clone, Debug, Default)]
pub struct KnownNames {
    names: BTreeMap<NodeId, String>,
}

impl KnownNames {
    /// Returns the name to which an ID belongs.
    pub fn name_of(&self, node: NodeId) -> Option<&str> {
        self.names.get(&node).map(String::as_str)
    }

    /// Returns whether the ID of `identity` is bound to its name.
    pub fn has(&self, identity: &Identity) -> bool {
        self.name_of(identity.id) == Some(&identity.name)
    }

    /// Binds an ID to a name, unless it is bound to another.
    fn bind(&mut self, identity: &Identity) -> Result<(), RecordError> {
        match self.name_of(identity.id) {
            Some(name) if name == identity.name => Ok(()),
            Some(holder) => Err(RecordError::Claimed { key: identity.to_string(), holder: holder.into() }),
            None => {
                self.names.insert(identity.id, identity.name.clone());
                Ok(())
            }
        }
    }
}

/// What proves that the store is the one of this node's earlier membership.
struct Proof {
    /// Records of that time, with their revisions. A different store never has a record with such a revision.
    records: BTreeMap<NodeId, Revision>,
    /// When no proof is needed any more.
    until: Moment,
}

/// The state of this node itself.
struct Own {
    identity: Identity,
    /// Whether this node joins for the first time, so that no other node can have seen its ID.
    is_new: bool,
    step: OwnStep,
    /// The number of the request in progress. An answer to any other request is late, and is ignored.
    pending: u64,
    /// The greatest revision of this node's key that the watch has reported. That report may arrive before the answer
    /// to the creation.
    seen: Revision,
    /// The revision of the last snapshot that lacked this node's record.
    missing: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnStep {
    /// Deleting the record of the earlier membership. The record had this revision.
    Remove(Revision),
    /// Creating the record.
    Create,
    /// Reading the record to learn whose it is, after the creation has conflicted or had no answer.
    Check,
    /// A member with this epoch.
    In(Revision),
    /// A member whose record is missing from a snapshot, and which reads the record to learn whether it is gone.
    Doubt(Revision),
    /// Leaving while it is not known whether the record was created. If it was, it will be deleted.
    Withdraw,
    /// Has left, or never was a member.
    Out,
}

struct TrackedMember {
    revision: Revision,
    step: LossCheck,
    pending: u64,
}

/// The current step of the check whether a member is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LossCheck {
    /// No check.
    Rest,
    /// Reading the record, which may be gone. If it exists, this step follows.
    Read(IfThere),
    /// The first probe.
    Probe,
    /// The wait after the first probe found no subscriber.
    Grace,
    /// The second probe.
    ProbeAgain,
    /// Deleting the record, after two probes found no subscriber.
    Delete,
    /// Deleting the record, because the lease is over.
    Expire,
}

/// The step that follows if a member's record still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfThere {
    Rest,
    Probe,
    Expire,
}

impl LossCheck {
    /// Returns the step that follows if the record turns out to exist after all.
    fn if_there(self) -> IfThere {
        match self {
            Self::Rest => IfThere::Rest,
            Self::Read(then) => then,
            Self::Probe | Self::Grace | Self::ProbeAgain | Self::Delete => IfThere::Probe,
            Self::Expire => IfThere::Expire,
        }
    }
}

impl From<IfThere> for LossCheck {
    fn from(then: IfThere) -> Self {
        match then {
            IfThere::Rest => Self::Rest,
            IfThere::Probe => Self::Probe,
            IfThere::Expire => Self::Expire,
        }
    }
}

impl Membership {
    /// Begins to join the cluster as `node`, and to track its members.
    pub fn new(node: NodeId, record: Record) -> Self {
        Self::begin(node, record, OwnStep::Create)
    }

    /// Begins to join again: this node's membership with epoch `before` is over, but its record may still exist.
    pub fn rejoin(node: NodeId, record: Record, before: Revision) -> Self {
        Self::begin(node, record, OwnStep::Remove(before))
    }

    /// Delays the creation of the record until `until`, unless the store proves to be the one of the earlier
    /// membership: it still has one of these records from that time, in the same revision. Must be called before any
    /// change is reported.
    pub fn expect(&mut self, records: BTreeMap<NodeId, Revision>, until: Moment) {
        self.proof = Some(Proof { records, until });
    }

    /// Restores the names of the IDs that this node saw in its earlier memberships.
    pub fn remember(&mut self, bindings: KnownNames) {
        let own = self.own.identity.clone();
        self.bindings = bindings;
        self.bindings.names.insert(own.id, own.name);
    }

    /// Returns the name that each ID belongs to.
    pub fn bindings(&self) -> &KnownNames {
        &self.bindings
    }

    fn begin(node: NodeId, record: Record, step: OwnStep) -> Self {
        let identity = Identity { name: record.name().to_owned(), id: node };
        let mut bindings = KnownNames::default();
        bindings.names.insert(node, identity.name.clone());
        let mut this = Self {
            node,
            record,
            bindings,
            proof: None,
            own: Own {
                identity,
                is_new: step == OwnStep::Create,
                step,
                pending: 0,
                seen: Revision(0),
                missing: Revision(0),
            },
            members: BTreeMap::new(),
            departed: BTreeMap::new(),
            snapshot: None,
            timers: BTreeMap::new(),
            requests: VecDeque::new(),
            last_number: 0,
            events: VecDeque::new(),
        };
        this.ask_own(step);
        this
    }

    /// Handles a change that the watch of the records has reported.
    pub fn on_change(&mut self, change: Change) {
        if matches!(self.own.step, OwnStep::Withdraw | OwnStep::Out) {
            return;
        }
        match change {
            Change::Resync => self.snapshot = Some(BTreeSet::new()),
            Change::Put(entry) => match Identity::parse(&entry.key) {
                Some(identity) => self.put(identity, entry),
                None => self.unreadable(&entry.key, RecordError::Key),
            },
            Change::Deleted { key, revision } => {
                // The deletion of an ignored record says nothing about the node whose ID it claimed.
                if let Some(identity) = Identity::parse(&key).filter(|identity| self.bindings.has(identity)) {
                    self.deleted(identity.id, revision);
                }
            }
            Change::Synced { revision } => self.synced(revision),
        }
    }

    fn put(&mut self, identity: Identity, entry: Entry) {
        let node = identity.id;
        if let Err(error) = self.bindings.bind(&identity) {
            // Two nodes have drawn the same ID. But if this node is not new, others already know its ID, and the record
            // is a false claim.
            if node == self.node && self.own.is_new && matches!(self.own.step, OwnStep::Create | OwnStep::Check) {
                return self.refuse(JoinRefusal::Collision { node, holder: identity.name });
            }
            return self.unreadable(&entry.key, error);
        }
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.insert(node);
            if self.proof.as_ref().is_some_and(|proof| proof.records.get(&node) == Some(&entry.revision)) {
                self.proved();
            }
        }
        if node == self.node {
            return self.own_changed(entry.revision);
        }
        self.found(identity, entry);
    }

    /// Handles a write or deletion of this node's key. A change that came before the creation of its current record
    /// belongs to an earlier membership.
    fn own_changed(&mut self, revision: Revision) {
        self.own.seen = self.own.seen.max(revision);
        if let OwnStep::In(own) | OwnStep::Doubt(own) = self.own.step
            && self.own.seen > own
        {
            self.evicted();
        }
    }

    fn evicted(&mut self) {
        self.abandon();
        self.events.push_back(MembershipEvent::Evicted);
    }

    /// Handles a record, which belongs to a known membership or to a new one.
    fn found(&mut self, identity: Identity, entry: Entry) {
        let node = identity.id;
        let known = self.members.get(&node).map(|member| member.revision).max(self.departed.get(&node).copied());
        if known.is_some_and(|known| entry.revision <= known) {
            return;
        }
        self.lose(node, Loss::Rejoined);
        self.departed.remove(&node);
        match read(&identity, entry.value) {
            Ok(record) => {
                let revision = entry.revision;
                self.members.insert(node, TrackedMember { revision, step: LossCheck::Rest, pending: 0 });
                self.events.push_back(MembershipEvent::Joined { node, revision, record });
            }
            Err(error) => {
                self.departed.insert(node, entry.revision);
                self.unreadable(&entry.key, error);
            }
        }
    }

    fn unreadable(&mut self, key: &str, error: RecordError) {
        self.events.push_back(MembershipEvent::Unreadable { key: key.chars().take(80).collect(), error });
    }

    fn deleted(&mut self, node: NodeId, revision: Revision) {
        if node == self.node {
            return self.own_changed(revision);
        }
        if self.members.get(&node).is_some_and(|member| member.revision < revision) {
            self.lose(node, Loss::Removed);
        }
        // The watch will not report anything older.
        if self.departed.get(&node).is_some_and(|&departed| departed < revision) {
            self.departed.remove(&node);
        }
    }

    /// Handles the end of a snapshot, which covers everything up to `revision`.
    fn synced(&mut self, revision: Revision) {
        let Some(snapshot) = self.snapshot.take() else { return };
        let missing: Vec<_> = self.members.keys().filter(|node| !snapshot.contains(node)).copied().collect();
        for node in missing {
            let then = self.members[&node].step.if_there();
            self.go(node, LossCheck::Read(then));
        }
        self.departed.retain(|node, departed| snapshot.contains(node) || *departed > revision);
        self.forget();
        if !snapshot.contains(&self.node) {
            self.own.missing = revision;
            self.doubt();
        }
    }

    /// Forgets the names of those IDs that no longer belong to members, if there are too many names.
    fn forget(&mut self) {
        if self.bindings.names.len() > MAX_BINDINGS {
            let (members, departed, own) = (&self.members, &self.departed, self.node);
            let is_kept = |node: &NodeId| members.contains_key(node) || departed.contains_key(node) || *node == own;
            self.bindings.names.retain(|node, _| is_kept(node));
        }
    }

    /// Reads this node's record if it is missing from a snapshot that should contain it.
    fn doubt(&mut self) {
        if let OwnStep::In(own) = self.own.step
            && own <= self.own.missing
        {
            self.ask_own(OwnStep::Doubt(own));
        }
    }

    /// Handles a hint that a node may be down.
    pub fn suspect(&mut self, node: NodeId) {
        match self.members.get_mut(&node).map(|member| &mut member.step) {
            Some(LossCheck::Rest) => self.go(node, LossCheck::Probe),
            Some(LossCheck::Read(then @ IfThere::Rest)) => *then = IfThere::Probe,
            _ => {}
        }
    }

    /// Handles the broker's deletion of the lease that a node had for its membership with epoch `revision`. The caller
    /// has checked that the lease's key has the name that the ID [belongs to](Self::bindings).
    pub fn lease_expired(&mut self, node: NodeId, revision: Revision) {
        if self.members.get(&node).is_some_and(|member| member.revision == revision) {
            self.go(node, LossCheck::Expire);
        }
        // The node was reported lost, but its record may still exist. Whatever the answer, the node is not a member.
        if self.departed.get(&node) == Some(&revision) && self.own.step != OwnStep::Out {
            self.request(node, Inquiry::Record(Access::Delete(revision)));
        }
    }

    /// Handles a goodbye from a node as the member with epoch `revision`.
    pub fn goodbye(&mut self, node: NodeId, revision: Revision) {
        if self.members.get(&node).is_some_and(|member| member.revision == revision) {
            self.lose(node, Loss::Left);
        }
    }

    /// Leaves the cluster by deleting this node's record. Its sessions notify the peers.
    pub fn leave(&mut self) {
        let step = self.own.step;
        self.abandon();
        match step {
            OwnStep::In(revision) | OwnStep::Doubt(revision) => self.delete_own(revision),
            OwnStep::Create | OwnStep::Check => self.own.step = OwnStep::Withdraw,
            OwnStep::Remove(_) | OwnStep::Withdraw | OwnStep::Out => {}
        }
    }

    fn delete_own(&mut self, revision: Revision) {
        self.own.step = OwnStep::Out;
        self.request(self.node, Inquiry::Record(Access::Delete(revision)));
    }

    /// Ends the membership without using the store, since this node's lease is over. All members are reported lost.
    pub fn abandon(&mut self) {
        self.own.step = OwnStep::Out;
        // Requests that have not been taken will not be answered.
        self.requests.clear();
        self.timers.clear();
        let members: Vec<_> = self.members.keys().copied().collect();
        members.into_iter().for_each(|node| self.lose(node, Loss::Fenced));
    }

    /// Reports a member as lost, if it is one.
    fn lose(&mut self, node: NodeId, cause: Loss) {
        if let Some(TrackedMember { revision, .. }) = self.members.remove(&node) {
            self.timers.remove(&node);
            self.departed.insert(node, revision);
            self.events.push_back(MembershipEvent::Lost { node, revision, cause });
        }
    }

    /// Begins a step of a member's check.
    fn go(&mut self, node: NodeId, step: LossCheck) {
        let Some(member) = self.members.get_mut(&node) else { return };
        // Any answer that is still to come belongs to an earlier step.
        (member.step, member.pending) = (step, 0);
        self.timers.remove(&node);
        let inquiry = match step {
            LossCheck::Rest | LossCheck::Grace => return,
            LossCheck::Read(_) => Inquiry::Record(Access::Get),
            LossCheck::Probe | LossCheck::ProbeAgain => Inquiry::Probe,
            LossCheck::Delete | LossCheck::Expire => Inquiry::Record(Access::Delete(member.revision)),
        };
        let number = self.request(node, inquiry);
        if let Some(member) = self.members.get_mut(&node) {
            member.pending = number;
        }
    }

    fn ask_own(&mut self, step: OwnStep) {
        self.own.step = step;
        let access = match step {
            OwnStep::Remove(before) => Access::Delete(before),
            OwnStep::Create => Access::Create(self.record.encode()),
            OwnStep::Check | OwnStep::Doubt(_) => Access::Get,
            OwnStep::In(_) | OwnStep::Withdraw | OwnStep::Out => return,
        };
        self.own.pending = self.request(self.node, Inquiry::Record(access));
    }

    fn request(&mut self, node: NodeId, inquiry: Inquiry) -> u64 {
        self.last_number += 1;
        // Each node that a request is about has a bound name.
        let name = self.bindings.name_of(node).unwrap_or_default().to_owned();
        let node = Identity { name, id: node };
        self.requests.push_back(MembershipRequest { number: self.last_number, node, inquiry });
        self.last_number
    }

    /// Returns the next request.
    pub fn poll_request(&mut self) -> Option<MembershipRequest> {
        self.requests.pop_front()
    }

    /// Handles the answer to a request.
    ///
    /// # Panics
    /// If `finding` is not an answer to that request.
    pub fn handle(&mut self, now: Moment, number: u64, finding: Finding) {
        if self.own.pending == number {
            self.own.pending = 0;
            if let Finding::Record(answer) = finding {
                self.handle_own(now, answer);
            }
            return;
        }
        let found = self.members.iter().find(|(_, member)| member.pending == number);
        let Some((&node, &TrackedMember { revision, step, .. })) = found else { return };
        match (step, finding) {
            (LossCheck::Read(then), Finding::Record(Answer::Read(answer))) => self.handle_read(now, node, then, answer),
            (LossCheck::Probe | LossCheck::ProbeAgain, Finding::Probe(outcome)) => {
                self.handle_probe(now, node, step, outcome)
            }
            (LossCheck::Delete | LossCheck::Expire, Finding::Record(Answer::Written(answer))) => match answer {
                Ok(_) => self.lose(node, Loss::Down),
                // The results of the probes may be out of date by the next attempt, so a suspect is probed again.
                Err(StoreError::Unavailable) => self.wait(now + RETRY, node, step.if_there().into()),
                // Another node was faster, or the answer to this deletion was lost, or the node has joined again.
                Err(_) => self.go(node, LossCheck::Read(step.if_there())),
            },
            (step, finding) => unreachable!("{finding:?} for {step:?} of {node} with {revision}"),
        }
    }

    fn handle_read(&mut self, now: Moment, node: NodeId, then: IfThere, answer: Result<Option<Entry>, StoreError>) {
        match answer {
            Ok(None) => self.lose(node, Loss::Removed),
            Ok(Some(entry)) => {
                self.go(node, then.into());
                // If the record has another revision, this member is lost, and the step is dropped with it.
                let name = self.bindings.name_of(node).unwrap_or_default().to_owned();
                self.found(Identity { name, id: node }, entry);
            }
            Err(_) => self.wait(now + RETRY, node, LossCheck::Read(then)),
        }
    }

    fn handle_probe(&mut self, now: Moment, node: NodeId, step: LossCheck, outcome: ProbeOutcome) {
        match (outcome, step) {
            (ProbeOutcome::Responders, _) => self.go(node, LossCheck::Rest),
            (ProbeOutcome::NoResponders, LossCheck::ProbeAgain) => self.go(node, LossCheck::Delete),
            (ProbeOutcome::NoResponders, _) => self.wait(now + GRACE, node, LossCheck::Grace),
            // Repeat both probes. They must find no subscriber, a grace apart, without an unknown outcome in between.
            (ProbeOutcome::Unknown, _) => self.wait(now + PROBE_AGAIN, node, LossCheck::Probe),
        }
    }

    /// Schedules a step for later.
    fn wait(&mut self, until: Moment, node: NodeId, step: LossCheck) {
        if let Some(member) = self.members.get_mut(&node) {
            (member.step, member.pending) = (step, 0);
            self.timers.insert(node, until);
        }
    }

    fn handle_own(&mut self, now: Moment, answer: Answer) {
        match (self.own.step, answer) {
            (OwnStep::Remove(before), Answer::Written(Ok(_))) => {
                let is_known = |proof: &Proof| proof.records.get(&self.node) == Some(&before);
                self.proof = self.proof.take().filter(|proof| !is_known(proof));
                self.come_in(now);
            }
            // Another node was faster.
            (OwnStep::Remove(_), Answer::Written(Err(StoreError::Conflict { .. }))) => self.come_in(now),
            (OwnStep::Remove(_), Answer::Written(Err(StoreError::Unavailable | StoreError::Unknown))) => {
                self.wait_own(now);
            }
            (OwnStep::Remove(_), Answer::Written(Err(error))) => self.refuse(JoinRefusal::Store(error)),
            (OwnStep::Create, Answer::Written(Ok(revision))) => self.enter(revision),
            (OwnStep::Create, Answer::Written(Err(error))) => match error {
                StoreError::Conflict { .. } | StoreError::Unknown => self.ask_own(OwnStep::Check),
                StoreError::Unavailable => self.wait_own(now),
                error => self.refuse(JoinRefusal::Store(error)),
            },
            (OwnStep::Check, Answer::Read(Ok(None))) => self.ask_own(OwnStep::Create),
            (OwnStep::Check, Answer::Read(Ok(Some(entry)))) => {
                if entry.value == self.record.encode() {
                    return self.enter(entry.revision);
                }
                if !self.own.is_new {
                    // This key belongs to this node: no other node with its name has drawn the same ID. A program may
                    // rewrite the record again and again; the delay limits how many requests that causes.
                    self.own.step = OwnStep::Remove(entry.revision);
                    return self.wait_own(now);
                }
                let holder = Record::decode(entry.value).map_or_else(|_| "?".into(), |record| record.name().to_owned());
                self.refuse(JoinRefusal::Collision { node: self.node, holder });
            }
            (OwnStep::Doubt(revision), Answer::Read(Ok(entry))) => {
                if entry.is_some_and(|entry| entry.revision == revision) {
                    self.own.step = OwnStep::In(revision);
                } else {
                    self.evicted();
                }
            }
            (OwnStep::Withdraw, Answer::Written(Ok(revision))) => self.delete_own(revision),
            (OwnStep::Withdraw, Answer::Written(Err(StoreError::Conflict { .. } | StoreError::Unknown))) => {
                self.own.pending = self.request(self.node, Inquiry::Record(Access::Get));
            }
            (OwnStep::Withdraw, Answer::Read(Ok(Some(entry)))) if entry.value == self.record.encode() => {
                self.delete_own(entry.revision);
            }
            (OwnStep::Withdraw, _) => self.own.step = OwnStep::Out,
            (OwnStep::Check | OwnStep::Doubt(_), Answer::Read(Err(_))) => self.wait_own(now),
            (OwnStep::In(_) | OwnStep::Out, _) => {}
            (step, answer) => unreachable!("{answer:?} for this node, at {step:?}"),
        }
    }

    /// Handles the removal of this node's earlier record. Creates the new record as soon as that is allowed.
    fn come_in(&mut self, now: Moment) {
        match &self.proof {
            Some(Proof { until, .. }) if now < *until => {
                self.own.step = OwnStep::Create;
                self.timers.insert(self.node, *until);
            }
            _ => self.ask_own(OwnStep::Create),
        }
    }

    /// Records that the proof has been found: the store is the same one.
    fn proved(&mut self) {
        self.proof = None;
        if self.own.step == OwnStep::Create && self.own.pending == 0 {
            self.timers.remove(&self.node);
            self.ask_own(OwnStep::Create);
        }
    }

    fn wait_own(&mut self, now: Moment) {
        self.timers.insert(self.node, now + OWN_RETRY);
    }

    fn enter(&mut self, revision: Revision) {
        self.own.step = OwnStep::In(revision);
        self.events.push_back(MembershipEvent::Entered(revision));
        self.own_changed(revision);
        self.doubt();
    }

    fn refuse(&mut self, error: JoinRefusal) {
        self.abandon();
        self.events.push_back(MembershipEvent::Refused(error));
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Moment> {
        self.timers.values().min().copied()
    }

    /// Performs the steps that are due by `now`.
    pub fn handle_timeout(&mut self, now: Moment) {
        let due: Vec<_> = self.timers.iter().filter(|(_, at)| **at <= now).map(|(node, _)| *node).collect();
        for node in due {
            self.timers.remove(&node);
            if node == self.node {
                self.ask_own(self.own.step);
            } else if let Some(step) = self.members.get(&node).map(|member| member.step) {
                self.go(node, if step == LossCheck::Grace { LossCheck::ProbeAgain } else { step });
            }
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<MembershipEvent> {
        self.events.pop_front()
    }

    /// Returns the members besides this node, with their epochs.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, Revision)> {
        self.members.iter().map(|(node, member)| (*node, member.revision))
    }

    /// Returns the key of this node's record.
    pub fn key(&self) -> String {
        self.own.identity.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state that is kept for lost members is dropped once the watch can no longer report their records.
    #[test]
    fn what_is_kept_of_the_lost_does_not_grow() {
        let id = |number| NodeId::new(number).unwrap();
        let mut members = Membership::new(id(1), Record::new("one", 1).unwrap());
        let mut last = 0;
        let mut next = || {
            last += 1;
            Revision(last)
        };
        for number in 2..100 {
            let record = Record::new("other", number).unwrap();
            let (joined, key) = (next(), format!("other.{}", id(number)));
            members.on_change(Change::Put(Entry { key: key.clone(), value: record.encode(), revision: joined }));
            match number % 3 {
                0 => members.on_change(Change::Deleted { key, revision: next() }),
                1 => {
                    members.goodbye(id(number), joined);
                    assert_eq!(members.departed.len(), 1);
                    members.on_change(Change::Deleted { key, revision: next() });
                }
                _ => {
                    members.goodbye(id(number), joined);
                    members.on_change(Change::Resync);
                    members.on_change(Change::Synced { revision: next() });
                }
            }
            assert!(members.departed.is_empty() && members.members.is_empty());
        }
    }
}
