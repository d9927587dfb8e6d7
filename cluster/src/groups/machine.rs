//! One node's view of the groups: its members and subscribers, and its messages to and from other nodes.

use super::counts::GroupCounts;
use super::{CountRequest, Listed, MembershipError};
use crate::access::Answer;
use crate::clock::Moment;
use crate::directory::message::DirectoryMessage;
use crate::directory::notices::Notices;
use crate::directory::{MAX_NAME, is_name};
use crate::store::{Change, Revision};
use postroom::{ExitReason, GroupEvent, NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The maximum number of changes that may wait for a peer, or for a subscriber.
pub const MAX_QUEUED: usize = 1_024;

/// The maximum number of members of one group on a node: their list is one message.
pub const MAX_MEMBERS: usize = 100_000;

/// The maximum number of groups that a peer may follow here.
const MAX_FOLLOWED: usize = 100_000;

/// One node's view of the groups of its cluster. The [module documentation](super) describes the protocol.
pub struct Groups {
    node: NodeId,
    /// The maximum number of members of one group on this node.
    most: usize,
    /// The member counts in the store, of this node and of the others.
    counts: GroupCounts,
    /// The members on this node, and how many times each of them has joined.
    own: BTreeMap<String, BTreeMap<Pid, u32>>,
    /// The groups of each of this node's members and subscribers.
    groups_of: BTreeMap<Pid, BTreeSet<String>>,
    /// Nodes that this node has a session with.
    peers: BTreeMap<NodeId, Follower>,
    /// Nodes that have sent more than this node keeps for any one node.
    floods: BTreeSet<NodeId>,
    followed: BTreeMap<String, Followed>,
    notices: Notices<(u64, GroupEvent)>,
    listed: VecDeque<Listed>,
    last_number: u64,
}

/// A peer, which may follow groups of this node.
#[derive(Default)]
struct Follower {
    follows: BTreeSet<String>,
    queue: VecDeque<DirectoryMessage>,
    /// Groups whose list of members has to be sent after the queue.
    due: BTreeSet<String>,
}

/// A group that this node follows.
#[derive(Default)]
struct Followed {
    /// The members on each node that was asked; `None` until the node has answered.
    nodes: BTreeMap<NodeId, Option<BTreeSet<Pid>>>,
    subscribers: BTreeMap<Pid, GroupSubscriber>,
    /// Numbers of the unanswered questions for the members.
    questions: Vec<u64>,
}

struct GroupSubscriber {
    /// The number of the subscription. Events with another number belong to an earlier subscription, and are dropped.
    number: u64,
    /// If the queue was too long for further changes: the members that the subscriber will know once it has received
    /// its queue. Otherwise `None`.
    told: Option<BTreeSet<Pid>>,
}

impl Groups {
    /// Returns the view of a node that is not a member yet.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            most: MAX_MEMBERS,
            counts: GroupCounts::new(node),
            own: BTreeMap::new(),
            groups_of: BTreeMap::new(),
            peers: BTreeMap::new(),
            floods: BTreeSet::new(),
            followed: BTreeMap::new(),
            notices: Notices::default(),
            listed: VecDeque::new(),
            last_number: 0,
        }
    }

    /// Limits the members of one group on this node so that their list fits into a message of `longest` bytes, for
    /// sessions with shorter messages than usual.
    pub(crate) fn limit_lists(&mut self, longest: usize) {
        // The message also contains its code, the name with its length, and the kind of the envelope.
        self.most = (longest.saturating_sub(MAX_NAME + 4) / size_of::<Pid>()).clamp(1, MAX_MEMBERS);
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Adds a process of this node to a group, or one more membership if it is a member already. Returns true if it was
    /// not a member before.
    ///
    /// # Errors
    /// If the name is not valid, the process belongs to another node, or the group is full.
    pub fn join(&mut self, group: &str, pid: Pid) -> Result<bool, MembershipError> {
        self.check(group, pid)?;
        let members = self.own.entry(group.to_owned()).or_default();
        if members.len() >= self.most && !members.contains_key(&pid) {
            return Err(MembershipError::Full { limit: self.most });
        }
        let joins = members.entry(pid).or_default();
        *joins = joins.saturating_add(1);
        if *joins > 1 {
            return Ok(false);
        }
        self.groups_of.entry(pid).or_default().insert(group.to_owned());
        self.changed(group, pid, Ok(()));
        Ok(true)
    }

    fn check(&self, group: &str, pid: Pid) -> Result<(), MembershipError> {
        match () {
            () if !is_name(group) => Err(MembershipError::Length { bytes: group.len() }),
            () if pid.node() != self.node => Err(MembershipError::Elsewhere { pid }),
            () => Ok(()),
        }
    }

    /// Removes one membership. Returns whether the process was a member.
    pub fn leave(&mut self, group: &str, pid: Pid) -> bool {
        let Some(joins) = self.own.get_mut(group).and_then(|members| members.get_mut(&pid)) else { return false };
        *joins -= 1;
        if *joins == 0 {
            self.remove(group, pid, None);
            self.forget_if_unused(group, pid);
        }
        true
    }

    /// Handles the end of a process of this node. The process is no longer a member or a subscriber.
    pub fn ended(&mut self, pid: Pid, reason: &ExitReason) {
        self.notices.ended(pid);
        for group in self.groups_of.remove(&pid).unwrap_or_default() {
            self.unsubscribe(&group, pid);
            if self.own.get(&group).is_some_and(|members| members.contains_key(&pid)) {
                self.remove(&group, pid, Some(reason.clone()));
            }
        }
    }

    /// Removes a member of this node.
    fn remove(&mut self, group: &str, pid: Pid, reason: Option<ExitReason>) {
        if let Some(members) = self.own.get_mut(group) {
            members.remove(&pid);
            if members.is_empty() {
                self.own.remove(group);
            }
        }
        self.changed(group, pid, Err(reason));
    }

    fn forget_if_unused(&mut self, group: &str, pid: Pid) {
        let is_member = self.own.get(group).is_some_and(|members| members.contains_key(&pid));
        let subscribes = self.followed.get(group).is_some_and(|followed| followed.subscribers.contains_key(&pid));
        if is_member || subscribes {
            return;
        }
        if let Some(groups) = self.groups_of.get_mut(&pid) {
            groups.remove(group);
            if groups.is_empty() {
                self.groups_of.remove(&pid);
            }
        }
    }

    /// Updates the count, and tells peers and subscribers, after a process of this node has joined or left.
    fn changed(&mut self, group: &str, pid: Pid, change: Result<(), Option<ExitReason>>) {
        self.counts.set(group, self.own.get(group).map_or(0, BTreeMap::len));
        let message = || match &change {
            Ok(()) => DirectoryMessage::Joined { group: group.to_owned(), pid },
            Err(reason) => DirectoryMessage::Left { group: group.to_owned(), pid, reason: reason.clone() },
        };
        for follower in self.peers.values_mut() {
            // A list that is due will include this change.
            if !follower.follows.contains(group) || follower.due.contains(group) {
                continue;
            }
            if follower.queue.len() < MAX_QUEUED {
                follower.queue.push_back(message());
            } else {
                follower.queue.retain(|queued| !is_about(queued, group));
                follower.due.insert(group.to_owned());
            }
        }
        self.tell(group, pid, change);
    }

    /// Tells the subscribers on this node about a change that has already been applied.
    fn tell(&mut self, group: &str, pid: Pid, change: Result<(), Option<ExitReason>>) {
        if self.followed.get(group).is_none_or(|followed| followed.subscribers.is_empty()) {
            return;
        }
        let mut before = None;
        let subscribers: Vec<_> = self.followed[group].subscribers.iter().map(|(pid, s)| (*pid, s.number)).collect();
        for (subscriber, number) in subscribers {
            if self.is_behind(group, subscriber) {
                continue;
            }
            if self.notices.waiting(subscriber) < MAX_QUEUED {
                self.notices.push(subscriber, (number, event(group, pid, &change)));
                continue;
            }
            // The members that the subscriber will know of when its queue is empty.
            let before = before.get_or_insert_with(|| {
                let mut members = self.members_known(group);
                match change {
                    Ok(()) => members.remove(&pid),
                    Err(_) => members.insert(pid),
                };
                members
            });
            if let Some(subscriber) = self.followed.get_mut(group).and_then(|f| f.subscribers.get_mut(&subscriber)) {
                subscriber.told = Some(before.clone());
            }
        }
    }

    fn is_behind(&self, group: &str, subscriber: Pid) -> bool {
        let subscriber = self.followed.get(group).and_then(|followed| followed.subscribers.get(&subscriber));
        subscriber.is_some_and(|subscriber| subscriber.told.is_some())
    }

    /// Returns the members that this node knows: its own, and those of nodes that it follows.
    fn members_known(&self, group: &str) -> BTreeSet<Pid> {
        let own = self.own.get(group).into_iter().flat_map(|members| members.keys());
        let followed = self.followed.get(group).into_iter().flat_map(|followed| followed.nodes.values());
        own.chain(followed.flatten().flatten()).copied().collect()
    }

    /// Returns the members of a group on this node.
    pub fn own_members(&self, group: &str) -> Vec<Pid> {
        self.own.get(group).map(|members| members.keys().copied().collect()).unwrap_or_default()
    }

    /// Returns the other nodes that have members and a session with this node.
    pub fn nodes_with_members(&self, group: &str) -> Vec<NodeId> {
        self.counts.nodes_with(group).filter(|node| self.peers.contains_key(node)).collect()
    }

    /// Returns the other nodes that have members but no session with this node: the session is about to open, or was
    /// lost.
    pub fn nodes_out_of_reach(&self, group: &str) -> Vec<NodeId> {
        self.counts.nodes_with(group).filter(|node| !self.peers.contains_key(node)).collect()
    }

    /// Subscribes a process of this node to the changes of a group. Returns the members that are known here; those of
    /// nodes that are not followed yet are reported as changes.
    ///
    /// # Errors
    /// The same as for [`join`](Self::join).
    pub fn subscribe(&mut self, group: &str, pid: Pid) -> Result<Vec<Pid>, MembershipError> {
        self.check(group, pid)?;
        self.groups_of.entry(pid).or_default().insert(group.to_owned());
        let members: Vec<_> = self.members_known(group).into_iter().collect();
        let number = self.number();
        let followed = self.followed.entry(group.to_owned()).or_default();
        followed.subscribers.entry(pid).or_insert(GroupSubscriber { number, told: None });
        self.follow(group);
        Ok(members)
    }

    /// Ends a subscription. Returns whether the process was subscribed.
    pub fn unsubscribe(&mut self, group: &str, pid: Pid) -> bool {
        let Some(followed) = self.followed.get_mut(group) else { return false };
        let removed = followed.subscribers.remove(&pid);
        let was_there = removed.is_some();
        if let Some(GroupSubscriber { number, .. }) = removed {
            self.notices.retain(pid, |(of, _)| *of != number);
            // If nothing is queued, no later batch would make the subscriber catch up in its other groups.
            if self.notices.is_idle(pid) {
                self.catch_up(pid);
            }
        }
        self.unfollow_if_unused(group);
        self.forget_if_unused(group, pid);
        was_there
    }

    /// Asks for the members on all nodes. Returns the number of the [`Listed`] that will answer.
    pub fn ask_members(&mut self, group: &str) -> u64 {
        let number = self.number();
        self.followed.entry(group.to_owned()).or_default().questions.push(number);
        self.follow(group);
        self.answer_questions(group);
        number
    }

    /// Asks each node with members for the list, unless it was already asked.
    fn follow(&mut self, group: &str) {
        let with_members = self.nodes_with_members(group);
        let Some(followed) = self.followed.get_mut(group) else { return };
        for node in with_members {
            if let (false, Some(peer)) = (followed.nodes.contains_key(&node), self.peers.get_mut(&node)) {
                followed.nodes.insert(node, None);
                peer.say_to_follow(group, true);
            }
        }
    }

    fn unfollow_if_unused(&mut self, group: &str) {
        let is_unused = |followed: &Followed| followed.subscribers.is_empty() && followed.questions.is_empty();
        if !self.followed.get(group).is_some_and(is_unused) {
            return;
        }
        for node in self.followed.remove(group).into_iter().flat_map(|followed| followed.nodes.into_keys()) {
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.say_to_follow(group, false);
            }
        }
    }

    /// Answers the questions for the members once all nodes have answered.
    fn answer_questions(&mut self, group: &str) {
        let Some(followed) = self.followed.get_mut(group) else { return };
        if followed.questions.is_empty() || followed.nodes.values().any(Option::is_none) {
            return;
        }
        let questions = std::mem::take(&mut followed.questions);
        let members: Vec<_> = self.members_known(group).into_iter().collect();
        self.listed.extend(questions.into_iter().map(|number| Listed { number, members: members.clone() }));
        self.unfollow_if_unused(group);
    }

    /// Handles the start of a session with a node.
    pub fn connected(&mut self, node: NodeId) {
        self.peers.insert(node, Follower::default());
        let groups: Vec<_> = self.followed.keys().cloned().collect();
        groups.into_iter().for_each(|group| self.follow(&group));
    }

    /// Handles the end of the session with a node.
    pub fn disconnected(&mut self, node: NodeId) {
        self.peers.remove(&node);
        self.floods.remove(&node);
        let groups: Vec<_> = self.followed.keys().cloned().collect();
        for group in groups {
            while let Some(pid) = self.followed_members(&group, node).and_then(BTreeSet::pop_first) {
                self.tell(&group, pid, Err(Some(ExitReason::NodeLost)));
            }
            if let Some(followed) = self.followed.get_mut(&group) {
                followed.nodes.remove(&node);
            }
            self.answer_questions(&group);
        }
    }

    /// Handles a message from another node. Returns false if the message is not valid: a node may speak only for its
    /// own processes.
    pub(crate) fn on_message(&mut self, from: NodeId, message: DirectoryMessage) -> bool {
        match message {
            DirectoryMessage::Follow { group } => {
                let Some(peer) = self.peers.get_mut(&from) else { return true };
                if peer.follows.len() == MAX_FOLLOWED && !peer.follows.contains(&group) {
                    // If this request were just ignored, the peer's question for the members would never be answered.
                    self.floods.insert(from);
                    return true;
                }
                peer.queue.retain(|queued| !is_about(queued, &group));
                peer.due.insert(group.clone());
                peer.follows.insert(group);
            }
            DirectoryMessage::Unfollow { group } => {
                if let Some(peer) = self.peers.get_mut(&from) {
                    peer.follows.remove(&group);
                    peer.due.remove(&group);
                    peer.queue.retain(|queued| !is_about(queued, &group));
                }
            }
            DirectoryMessage::Members { group, members } => {
                if members.iter().any(|pid| pid.node() != from) {
                    return false;
                }
                let members: BTreeSet<_> = members.into_iter().collect();
                if members.len() > MAX_MEMBERS {
                    self.floods.insert(from);
                    return true;
                }
                self.listed_by(from, &group, members);
            }
            DirectoryMessage::Joined { pid, .. } | DirectoryMessage::Left { pid, .. } if pid.node() != from => {
                return false;
            }
            DirectoryMessage::Joined { group, pid } => {
                let Some(members) = self.followed_members(&group, from) else { return true };
                if members.len() == MAX_MEMBERS && !members.contains(&pid) {
                    self.floods.insert(from);
                } else if members.insert(pid) {
                    self.tell(&group, pid, Ok(()));
                }
            }
            DirectoryMessage::Left { group, pid, reason } => {
                if self.followed_members(&group, from).is_some_and(|members| members.remove(&pid)) {
                    self.tell(&group, pid, Err(reason));
                }
            }
            _ => return false,
        }
        true
    }

    /// Returns the members of a group on a node that has answered.
    fn followed_members(&mut self, group: &str, node: NodeId) -> Option<&mut BTreeSet<Pid>> {
        self.followed.get_mut(group)?.nodes.get_mut(&node)?.as_mut()
    }

    /// Handles the list of a node's members: each difference from the known members is a change.
    fn listed_by(&mut self, node: NodeId, group: &str, now: BTreeSet<Pid>) {
        let Some(known) = self.followed.get_mut(group).and_then(|followed| followed.nodes.get_mut(&node)) else {
            return;
        };
        let before = known.get_or_insert_default().clone();
        for pid in before.difference(&now) {
            self.followed_members(group, node).map(|members| members.remove(pid));
            self.tell(group, *pid, Err(None));
        }
        for pid in now.difference(&before) {
            self.followed_members(group, node).map(|members| members.insert(*pid));
            self.tell(group, *pid, Ok(()));
        }
        self.answer_questions(group);
    }

    /// Returns whether there is a message to send to a node.
    pub(crate) fn has_message(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| !peer.queue.is_empty() || !peer.due.is_empty())
    }

    /// Returns the next message for a node that this node has a session with.
    pub(crate) fn poll_message(&mut self, node: NodeId) -> Option<DirectoryMessage> {
        let peer = self.peers.get_mut(&node)?;
        if let Some(message) = peer.queue.pop_front() {
            return Some(message);
        }
        let group = peer.due.pop_first()?;
        let members = self.own_members(&group);
        Some(DirectoryMessage::Members { group, members })
    }

    /// Returns a node that has sent more than this node keeps for any one node; the session with it must end.
    pub(crate) fn poll_flood(&mut self) -> Option<NodeId> {
        self.floods.pop_first()
    }

    /// Takes back the message that was polled most recently for `node`, because the session had no room for it. The
    /// message will be sent next.
    pub(crate) fn refused(&mut self, node: NodeId, message: DirectoryMessage) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        match message {
            // The list may be out of date by the time there is room.
            DirectoryMessage::Members { group, .. } => {
                peer.queue.retain(|queued| !is_about(queued, &group));
                peer.due.insert(group);
            }
            message => peer.queue.push_front(message),
        }
    }

    /// Returns events for a subscriber, each with the number of its subscription. The caller delivers them; until it
    /// calls [`told`](Self::told), that subscriber gets no others.
    pub fn poll_events(&mut self) -> Option<(Pid, Vec<(u64, GroupEvent)>)> {
        self.notices.poll()
    }

    /// Reports that a subscriber has received its events, except for those in `refused`, for which its mailbox had no
    /// room.
    pub fn told(&mut self, now: Moment, subscriber: Pid, mut refused: Vec<(u64, GroupEvent)>) {
        let numbers = self.groups_of.get(&subscriber).into_iter().flatten();
        let numbers = numbers.filter_map(|group| Some(self.followed.get(group)?.subscribers.get(&subscriber)?.number));
        let numbers: BTreeSet<_> = numbers.collect();
        refused.retain(|(number, _)| numbers.contains(number));
        if self.notices.back(now, subscriber, refused) {
            self.catch_up(subscriber);
        }
    }

    /// Queues the net change for a subscriber that has received its whole queue, but was too far behind to get each
    /// change.
    fn catch_up(&mut self, subscriber: Pid) {
        for group in self.groups_of.get(&subscriber).cloned().unwrap_or_default() {
            let known = self.members_known(&group);
            let followed = self.followed.get_mut(&group);
            let state = followed.and_then(|followed| followed.subscribers.get_mut(&subscriber));
            let Some(state) = state else { continue };
            let (Some(told), number) = (state.told.take(), state.number) else { continue };
            let left = told.difference(&known).map(|pid| event(&group, *pid, &Err(None)));
            let joined = known.difference(&told).map(|pid| event(&group, *pid, &Ok(())));
            left.chain(joined).for_each(|event| self.notices.push(subscriber, (number, event)));
        }
    }

    /// Returns the next answer to a question for members.
    pub fn poll_listed(&mut self) -> Option<Listed> {
        self.listed.pop_front()
    }
}

/// Requests to the store, and its answers and reports.
impl Groups {
    /// Sets this node's epoch, if it is a member, and the epochs of the other members. Returns whether anything has
    /// changed.
    pub fn set_membership(&mut self, epoch: Option<Revision>, members: &BTreeMap<NodeId, Revision>) -> bool {
        self.counts.set_membership(epoch, members)
    }

    /// Handles the answer to a request. The answer arrived at `now`.
    pub fn handle(&mut self, now: Moment, number: u64, answer: Answer) {
        self.counts.handle(now, number, answer);
    }

    /// Handles a change that the watch of the groups has reported.
    pub fn on_change(&mut self, change: Change) {
        if let Some(group) = self.counts.on_change(change) {
            self.follow(&group);
        }
    }

    /// Returns the next request to the store.
    pub fn poll_request(&mut self) -> Option<CountRequest> {
        self.counts.poll_request()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Moment> {
        [self.counts.next_timeout(), self.notices.next_timeout()].into_iter().flatten().min()
    }

    /// Repeats accesses that the store has not performed, and deletes entries of nodes that are gone.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.notices.handle_timeout(now);
        self.counts.handle_timeout(now);
    }
}

impl Follower {
    /// Queues a `Follow` or an `Unfollow`. An `Unfollow` instead cancels a `Follow` that has not been sent.
    fn say_to_follow(&mut self, group: &str, follows: bool) {
        let is_unsaid =
            |message: &DirectoryMessage| matches!(message, DirectoryMessage::Follow { group: of } if of == group);
        match self.queue.iter().position(is_unsaid).filter(|_| !follows) {
            Some(at) => _ = self.queue.remove(at),
            None if follows => self.queue.push_back(DirectoryMessage::Follow { group: group.to_owned() }),
            None => self.queue.push_back(DirectoryMessage::Unfollow { group: group.to_owned() }),
        }
    }
}

/// Returns whether a message is about the members of a group.
fn is_about(message: &DirectoryMessage, group: &str) -> bool {
    match message {
        DirectoryMessage::Members { group: of, .. }
        | DirectoryMessage::Joined { group: of, .. }
        | DirectoryMessage::Left { group: of, .. } => of == group,
        _ => false,
    }
}

fn event(group: &str, pid: Pid, change: &Result<(), Option<ExitReason>>) -> GroupEvent {
    let group: Arc<str> = group.into();
    match change {
        Ok(()) => GroupEvent::Joined { group, pid },
        Err(reason) => GroupEvent::Left { group, pid, reason: reason.clone() },
    }
}
