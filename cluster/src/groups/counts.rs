//! The number of members that each node has in each group, as recorded in the store: the entries that this node writes,
//! and those of other nodes that it knows.

use super::CountRequest;
use super::record::{Count, key, node_of};
use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::store::{Bucket, Change, Entry, Revision, StoreError};
use postroom::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The delay before an unreachable store is asked again, and between searches for orphaned entries.
const AGAIN: Duration = Duration::from_secs(1);

/// How long an entry must be orphaned before it is deleted. An entry is orphaned if its node is not a member of the
/// cluster as far as this node knows. But that node may have joined without having been seen yet.
const ORPHANED: Duration = Bucket::LEASE_TTL;

/// The entries of all nodes, as one node knows them.
pub(super) struct GroupCounts {
    node: NodeId,
    /// The epoch of this node's membership; `None` while it is not a member.
    epoch: Option<Revision>,
    /// The epochs of the other members.
    members: BTreeMap<NodeId, Revision>,
    /// This node's entries, by key.
    own: BTreeMap<String, OwnCount>,
    /// The entries of other nodes, by key.
    known: BTreeMap<String, KnownCount>,
    /// The nodes of `known`, by group.
    nodes_with: BTreeMap<String, BTreeSet<NodeId>>,
    /// The keys in the snapshot that the watch is reporting.
    snapshot: Option<BTreeSet<String>>,
    requests: VecDeque<CountRequest>,
    asked: BTreeMap<u64, CountAccess>,
    again_at: Option<Moment>,
    /// Whether there may be entries of nodes that are not members.
    has_orphans: bool,
    last_number: u64,
}

/// This node's count for one group, and the state of its entry in the store.
struct OwnCount {
    group: String,
    members: u32,
    stored: StoredCount,
    is_asked: bool,
    /// The revision up to which the watch has reported the entry as gone. The report may arrive before the answer to
    /// the write.
    gone: Revision,
    /// Whether the entry waits for the next timeout: the store could not be reached, or has returned an entry that is
    /// gone.
    rests: bool,
}

enum StoredCount {
    Nothing,
    /// An entry with this revision; its count and epoch, if it could be decoded.
    Count(Revision, Option<(u32, Revision)>),
    /// An entry that has to be read.
    Unknown,
}

/// An access to an entry of this node, in progress.
struct CountAccess {
    key: String,
    /// The count and epoch that a successful write leaves; `None` if it deletes the entry.
    wrote: Option<(u32, Revision)>,
}

struct KnownCount {
    node: NodeId,
    group: String,
    epoch: Revision,
    revision: Revision,
    /// When the entry was first found to be orphaned, or when its deletion was last requested.
    orphaned: Option<Moment>,
}

impl GroupCounts {
    /// Returns the counts known to a node that is not a member yet.
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            epoch: None,
            members: BTreeMap::new(),
            own: BTreeMap::new(),
            known: BTreeMap::new(),
            nodes_with: BTreeMap::new(),
            snapshot: None,
            requests: VecDeque::new(),
            asked: BTreeMap::new(),
            again_at: None,
            has_orphans: false,
            last_number: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the other nodes that have members of a group, according to their entries in the store.
    pub(super) fn nodes_with(&self, group: &str) -> impl Iterator<Item = NodeId> {
        self.nodes_with.get(group).into_iter().flatten().copied()
    }

    /// Sets how many members of a group this node has.
    pub(super) fn set(&mut self, group: &str, members: usize) {
        let key = key(self.node, group);
        let count = self.own.entry(key.clone()).or_insert_with(|| OwnCount {
            group: group.to_owned(),
            members: 0,
            stored: StoredCount::Nothing,
            is_asked: false,
            gone: Revision(0),
            rests: false,
        });
        // The exact number does not matter beyond this limit.
        count.members = u32::try_from(members).unwrap_or(u32::MAX);
        self.write(&key);
    }

    /// Sets this node's epoch and the other members. Returns whether anything has changed.
    pub(super) fn set_membership(&mut self, epoch: Option<Revision>, members: &BTreeMap<NodeId, Revision>) -> bool {
        if self.epoch == epoch && self.members == *members {
            return false;
        }
        if epoch.is_some() && self.epoch == epoch && self.members != *members {
            let over: Vec<_> = self.members.iter().filter(|(node, epoch)| members.get(node) != Some(epoch)).collect();
            let is_over =
                |known: &KnownCount| over.iter().any(|(node, epoch)| **node == known.node && **epoch == known.epoch);
            let keys: Vec<_> =
                self.known.iter().filter(|(_, known)| is_over(known)).map(|(key, _)| key.clone()).collect();
            keys.into_iter().for_each(|key| self.delete_orphan(&key));
        }
        if self.members != *members {
            self.has_orphans = true;
            self.members.clone_from(members);
        }
        if self.epoch == epoch {
            return true;
        }
        self.epoch = epoch;
        self.has_orphans = true;
        // Sooner or later, the other nodes will delete the entries of the membership that is over, so these entries
        // have to be read.
        self.own.values_mut().for_each(|count| (count.stored, count.rests) = (StoredCount::Unknown, false));
        let keys: Vec<_> = self.own.keys().cloned().collect();
        keys.into_iter().for_each(|key| self.write(&key));
        true
    }

    /// Requests the access to the store that makes the entry match this node's count.
    fn write(&mut self, key: &str) {
        let (Some(epoch), Some(count)) = (self.epoch, self.own.get_mut(key)) else { return };
        if count.is_asked || count.rests {
            return;
        }
        let members = count.members;
        let record = || Count { group: count.group.clone(), epoch, members }.encode();
        let wrote = (members > 0).then_some((members, epoch));
        let access = match count.stored {
            StoredCount::Unknown => Access::Get,
            StoredCount::Nothing if members == 0 => {
                self.own.remove(key);
                return;
            }
            StoredCount::Nothing => Access::Create(record()),
            StoredCount::Count(revision, _) if members == 0 => Access::Delete(revision),
            StoredCount::Count(_, stored) if stored == wrote => return,
            StoredCount::Count(revision, _) => Access::Update(record(), revision),
        };
        count.is_asked = true;
        let number = self.number();
        self.asked.insert(number, CountAccess { key: key.to_owned(), wrote });
        self.requests.push_back(CountRequest { number, key: key.to_owned(), access });
    }

    pub(super) fn handle(&mut self, now: Moment, number: u64, answer: Answer) {
        let Some(CountAccess { key, wrote }) = self.asked.remove(&number) else { return };
        let epoch = self.epoch;
        let Some(count) = self.own.get_mut(&key) else { return };
        count.is_asked = false;
        count.stored = match answer {
            Answer::Written(Ok(revision)) => match wrote {
                // If the membership has changed in the meantime, the entry belongs to the earlier one and may be
                // deleted.
                Some(_) if wrote.map(|(_, epoch)| epoch) != epoch || revision <= count.gone => StoredCount::Unknown,
                Some(wrote) => StoredCount::Count(revision, Some(wrote)),
                None => StoredCount::Nothing,
            },
            Answer::Read(Ok(None)) => StoredCount::Nothing,
            Answer::Read(Ok(Some(entry))) if entry.revision > count.gone => {
                let stored = Count::decode(entry.value).filter(|stored| stored.group == count.group);
                StoredCount::Count(entry.revision, stored.map(|stored| (stored.members, stored.epoch)))
            }
            Answer::Written(Err(StoreError::Conflict { .. })) => StoredCount::Unknown,
            // A read that returns an entry which is gone may come from a leader that was cut off. Another read would
            // return the same for a while, so it is made later.
            Answer::Written(Err(_)) | Answer::Read(_) => {
                count.rests = true;
                self.again_at.get_or_insert(now + AGAIN);
                StoredCount::Unknown
            }
        };
        self.write(&key);
    }

    /// Handles a change from the watch. If the change is that another node has members of a group, returns that group.
    pub(super) fn on_change(&mut self, change: Change) -> Option<String> {
        match change {
            Change::Resync => self.snapshot = Some(BTreeSet::new()),
            Change::Put(entry) => {
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.insert(entry.key.clone());
                }
                self.note_gone(&entry.key, Revision(entry.revision.0.saturating_sub(1)));
                return self.put(entry);
            }
            Change::Deleted { key, revision } => self.note_gone(&key, revision),
            Change::Synced { revision } => {
                let snapshot = self.snapshot.take()?;
                let keys = self.known.keys().chain(self.own.keys());
                let missing: Vec<_> = keys.filter(|key| !snapshot.contains(*key)).cloned().collect();
                missing.iter().for_each(|key| self.note_gone(key, revision));
            }
        }
        None
    }

    /// Records that all revisions of an entry up to this one are gone. If the entry is this node's own, a node that
    /// considered this one lost may have changed it.
    fn note_gone(&mut self, key: &str, revision: Revision) {
        if self.known.get(key).is_some_and(|known| known.revision <= revision) {
            self.forget(key);
        }
        let Some(count) = self.own.get_mut(key) else { return };
        count.gone = revision.max(count.gone);
        if matches!(count.stored, StoredCount::Count(stored, _) if stored <= revision) && !count.is_asked {
            count.stored = StoredCount::Unknown;
            self.write(key);
        }
    }

    /// Adds another node's entry that was reported. Its earlier revisions must be gone already.
    fn put(&mut self, Entry { key, value, revision }: Entry) -> Option<String> {
        let node = node_of(&key).filter(|node| *node != self.node)?;
        // The known entry is this one, or a later one.
        if self.known.contains_key(&key) {
            return None;
        }
        // An entry that cannot be decoded counts as no members.
        let Count { group, epoch, .. } = Count::decode(value)?;
        self.nodes_with.entry(group.clone()).or_default().insert(node);
        self.has_orphans |= self.members.get(&node) != Some(&epoch);
        self.known.insert(key, KnownCount { node, group: group.clone(), epoch, revision, orphaned: None });
        Some(group)
    }

    fn forget(&mut self, key: &str) {
        let Some(KnownCount { node, group, .. }) = self.known.remove(key) else { return };
        if let Some(nodes) = self.nodes_with.get_mut(&group) {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.nodes_with.remove(&group);
            }
        }
    }

    fn delete_orphan(&mut self, key: &str) {
        let Some(revision) = self.known.get(key).map(|known| known.revision) else { return };
        let number = self.number();
        // The answer is ignored: a deletion that fails is not repeated, since the orphan will be found again, and a
        // conflict means that another node was faster.
        self.requests.push_back(CountRequest { number, key: key.to_owned(), access: Access::Delete(revision) });
    }

    pub(super) fn poll_request(&mut self) -> Option<CountRequest> {
        self.requests.pop_front()
    }

    pub(super) fn next_timeout(&self) -> Option<Moment> {
        self.again_at
    }

    pub(super) fn handle_timeout(&mut self, now: Moment) {
        if self.has_orphans && self.epoch.is_some() {
            self.again_at.get_or_insert(now + AGAIN);
        }
        if self.again_at.is_none_or(|at| now < at) {
            return;
        }
        self.again_at = None;
        let resting = self.own.iter_mut().filter(|(_, count)| count.rests);
        let keys: Vec<_> = resting.map(|(key, count)| (count.rests = false, key.clone()).1).collect();
        keys.into_iter().for_each(|key| self.write(&key));
        self.look_for_orphans(now);
    }

    fn look_for_orphans(&mut self, now: Moment) {
        if self.epoch.is_none() {
            return;
        }
        self.has_orphans = false;
        let mut orphans = Vec::new();
        for (key, known) in &mut self.known {
            if self.members.get(&known.node) == Some(&known.epoch) {
                known.orphaned = None;
                continue;
            }
            self.has_orphans = true;
            let since = known.orphaned.get_or_insert(now);
            if now.since(*since) > ORPHANED {
                // Try again in a while, if the entry still exists.
                *since = now;
                orphans.push(key.clone());
            }
        }
        orphans.into_iter().for_each(|key| self.delete_orphan(&key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::START;

    /// Returns the counts of a node that has requested the creation of an entry, and the request.
    fn asking() -> (GroupCounts, CountRequest) {
        let mut counts = GroupCounts::new(NodeId::new(1).unwrap());
        counts.set_membership(Some(Revision(4)), &BTreeMap::new());
        counts.set("sinks", 1);
        let request = counts.poll_request().unwrap();
        assert!(matches!(request.access, Access::Create(_)));
        (counts, request)
    }

    fn next(counts: &mut GroupCounts) -> Option<Access> {
        counts.poll_request().map(|request| request.access)
    }

    /// Catches: trusting an answer that arrives after the watch has reported a later change of the entry.
    #[test]
    fn an_answer_that_comes_after_a_later_change_is_read_again() {
        for case in ["deleted", "another's", "not in a snapshot", "its own", "deleted before"] {
            let (mut counts, CountRequest { number, key, .. }) = asking();
            let put = |revision| Change::Put(Entry { key: key.clone(), value: "value".into(), revision });
            let changes = match case {
                "deleted" => vec![Change::Deleted { key: key.clone(), revision: Revision(22) }],
                "another's" => vec![put(Revision(23))],
                "not in a snapshot" => vec![Change::Resync, Change::Synced { revision: Revision(21) }],
                "its own" => vec![Change::Resync, put(Revision(21)), Change::Synced { revision: Revision(21) }],
                _ => vec![Change::Deleted { key: key.clone(), revision: Revision(20) }],
            };
            changes.into_iter().for_each(|change| assert_eq!(counts.on_change(change), None));
            counts.handle(NOW, number, Answer::Written(Ok(Revision(21))));
            let is_there = matches!(case, "its own" | "deleted before");
            assert_eq!(next(&mut counts), (!is_there).then_some(Access::Get), "{case}");
        }
    }

    /// A read may come from a leader that was cut off, so it is repeated after a while.
    #[test]
    fn a_read_of_what_is_gone_is_asked_again_later() {
        let (mut counts, CountRequest { number, key, .. }) = asking();
        counts.handle(NOW, number, Answer::Written(Err(StoreError::Conflict { key: key.clone() })));
        let CountRequest { number, access, .. } = counts.poll_request().unwrap();
        assert_eq!(access, Access::Get);
        counts.on_change(Change::Deleted { key: key.clone(), revision: Revision(22) });
        let value = Count { group: "sinks".into(), epoch: Revision(4), members: 1 }.encode();
        counts.handle(NOW, number, Answer::Read(Ok(Some(Entry { key, value, revision: Revision(21) }))));
        assert_eq!(next(&mut counts), None);
        counts.handle_timeout(counts.next_timeout().unwrap());
        assert_eq!(next(&mut counts), Some(Access::Get));
    }

    /// A watch that starts over may repeat known reports, or report a snapshot that is older than they are.
    #[test]
    fn what_a_watch_reports_late_takes_nothing_back() {
        let key = |group: &str| key(NodeId::new(2).unwrap(), group);
        let put = |group: &str, revision| {
            let value = Count { group: group.into(), epoch: Revision(1), members: 1 }.encode();
            Change::Put(Entry { key: key(group), value, revision: Revision(revision) })
        };
        let known = |counts: &GroupCounts| ["a", "b", "c"].map(|group| counts.nodes_with(group).count());
        let mut counts = GroupCounts::new(NodeId::new(1).unwrap());
        for (group, revision, is_new) in [("a", 7, true), ("a", 5, false), ("b", 3, true), ("c", 9, true)] {
            assert_eq!(counts.on_change(put(group, revision)).is_some(), is_new, "{group}, {revision}");
        }
        counts.on_change(Change::Deleted { key: key("a"), revision: Revision(6) });
        assert_eq!(known(&counts), [1, 1, 1]);
        counts.on_change(Change::Resync);
        counts.on_change(put("a", 7));
        counts.on_change(Change::Synced { revision: Revision(8) });
        assert_eq!(known(&counts), [1, 0, 1], "the second is gone, and the third is newer than the snapshot");
        counts.on_change(Change::Deleted { key: key("a"), revision: Revision(10) });
        counts.on_change(Change::Put(Entry { key: key("c"), value: "no record".into(), revision: Revision(11) }));
        assert_eq!(known(&counts), [0, 0, 0]);
    }
}
