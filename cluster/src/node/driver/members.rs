//! The members of the cluster as a node sees them: its own membership and lease, and the loss of others.

use super::{AGAIN, Driver, JoinAttempt};
use crate::access::Answer;
use crate::clock::Moment;
use crate::engine::Lane;
use crate::lease::{Fence, Lease, LeaseEvent};
use crate::membership::{
    Finding, Identity, Inquiry, JoinRefusal, Loss, Membership, MembershipEvent, Record, RecordError,
};
use crate::names::{Holder, RegisterError};
use crate::node::inbox::Input;
use crate::node::view::{Member, Outage};
use crate::reply::pair;
use crate::store::{Bucket, Change, Revision};
use postroom::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The interval at which a node probes its neighbours. With the grace of a second, a node whose connection is closed
/// counts as lost within 1.5 s.
const PROBE_EVERY: Duration = Duration::from_millis(400);
/// Number of neighbours that a node probes: the next ones in a ring ordered by ID. Each node is thus probed by two
/// others, whatever the size of the cluster, and all nodes see the findings in the store.
const NEIGHBOURS: usize = 2;

impl Driver {
    /// Probes the neighbours if that is due.
    pub(super) fn probe_neighbours(&mut self, now: Moment) {
        if now < self.probe_at || !self.may_send(now) {
            return;
        }
        self.probe_at = now + PROBE_EVERY;
        let own = self.setup.node;
        let after = self.members.keys().filter(|node| **node > own);
        let neighbours: Vec<_> = after.chain(self.members.keys()).take(NEIGHBOURS).copied().collect();
        if let Some(attempt) = &mut self.attempt {
            neighbours.into_iter().for_each(|node| attempt.membership.suspect(node));
        }
    }

    /// Joins if that is due.
    pub(super) fn join(&mut self, now: Moment) {
        if self.leaving.is_some() || self.join_at.is_none_or(|at| now < at) {
            return;
        }
        if self.leases.contains_key(&self.own) {
            // The lease of the earlier membership still exists, so this node could not acquire another yet.
            self.join_at = Some(now + AGAIN);
            return;
        }
        self.join_at = None;
        self.last_attempt += 1;
        let run = (self.setup.draw)();
        let record = match Record::new(self.setup.name.clone(), run) {
            Ok(record) => record,
            // Impossible: the builder has checked the name.
            Err(error) => unreachable!("{error}"),
        };
        let mut membership = match self.epoch_before {
            Some(before) => Membership::rejoin(self.setup.node, record, before),
            None => Membership::new(self.setup.node, record),
        };
        membership.remember(std::mem::take(&mut self.bindings));
        let (known, over_at) = &self.known_before;
        if now < *over_at {
            membership.expect(known.clone(), *over_at);
        }
        self.attempt = Some(JoinAttempt { number: self.last_attempt, membership, epoch: None, lease: None });
        // The earlier attempt has consumed the reports of the watch, so a new watch is needed.
        if self.last_attempt > 1 {
            self.watch_members_anew();
        }
    }

    pub(super) fn watch_members_anew(&mut self) {
        let inbox = Arc::clone(&self.setup.inbox);
        let on_change = Box::new(move |change| inbox.push(Input::Members(change)));
        // If the engine is closed, this node ends: its other requests fail, too.
        if let Ok(watch) = self.setup.engine.watch(Bucket::Nodes, None, on_change) {
            self._subscriptions[0] = watch;
        }
    }

    pub(super) fn advance_membership(&mut self, now: Moment) {
        let Some(attempt) = &mut self.attempt else { return };
        let number = attempt.number;
        attempt.membership.handle_timeout(now);
        let mut events = Vec::new();
        while let Some(event) = attempt.membership.poll_event() {
            events.push(event);
        }
        while let Some(request) = attempt.membership.poll_request() {
            self.unanswered += 1;
            let inbox = Arc::clone(&self.setup.inbox);
            let answered = move |finding| inbox.push(Input::Found { attempt: number, number: request.number, finding });
            let engine = &*self.setup.engine;
            match request.inquiry {
                Inquiry::Record(access) => {
                    let key = request.node.to_string();
                    access.perform(engine, Bucket::Nodes, &key, move |answer| answered(Finding::Record(answer)));
                }
                Inquiry::Probe => {
                    let subject = self.subjects.frame(&request.node, Lane::Control, &self.own);
                    engine.probe(&subject, Box::new(move |outcome| answered(Finding::Probe(outcome))));
                }
            }
        }
        events.into_iter().for_each(|event| self.member_event(now, event));
    }

    pub(super) fn member_event(&mut self, now: Moment, event: MembershipEvent) {
        match event {
            MembershipEvent::Entered(epoch) => {
                if let Some(before) = self.epoch_before.replace(epoch) {
                    // The holders of the earlier membership have ended with it, and its lease is over.
                    self.setup.view.names().membership_over(self.setup.node, before);
                }
                self.setup.view.change(|view| view.own = Some((self.own.name.clone(), epoch)));
                if let Some(attempt) = &mut self.attempt {
                    attempt.epoch = Some(epoch);
                    let holder = bytes::Bytes::copy_from_slice(&epoch.0.to_be_bytes());
                    attempt.lease = Some(Lease::new(self.setup.timing, holder));
                }
                let members: Vec<_> = self.members.keys().copied().collect();
                members.into_iter().for_each(|node| _ = self.begin_at.insert(node, now));
                self.refuse_if_full(now);
            }
            MembershipEvent::Joined { node, revision, record } => {
                self.members.insert(node, revision);
                self.begin_at.insert(node, now);
                let member = Member { id: node, name: record.name().to_owned(), is_connected: false };
                self.setup.view.change(|view| view.joined(member, revision));
                self.refuse_if_full(now);
            }
            MembershipEvent::Lost { node, revision, cause } => {
                self.members.remove(&node);
                self.begin_at.remove(&node);
                self.begun.remove(&(node, revision));
                self.end_session(node);
                self.setup.view.change(|view| view.lost(node));
                // A node that was lost for another reason may not know of its loss until its lease is over.
                if cause == Loss::Left {
                    self.setup.view.names().membership_over(node, revision);
                }
            }
            MembershipEvent::Refused(error) => self.refused(now, error),
            MembershipEvent::Evicted => self.store_is_another(now, Outage::Evicted),
            MembershipEvent::Unreadable { error, .. } => {
                let counters = &self.setup.counters;
                match error {
                    RecordError::Claimed { .. } => counters.claimed_ids.fetch_add(1, Ordering::Relaxed),
                    _ => counters.unreadable_records.fetch_add(1, Ordering::Relaxed),
                };
            }
        }
    }

    /// Returns whether an ID belongs to the name that claims it. This must be checked, since any node may write a lease
    /// whose key begins with its own name.
    pub(super) fn is_bound(&self, identity: &Identity) -> bool {
        self.attempt.as_ref().map_or(&self.bindings, |attempt| attempt.membership.bindings()).has(identity)
    }

    /// Leaves if the cluster has no room for this node. If several nodes join at once, those whose records come first
    /// in the store stay. A node that was a member before is never refused.
    pub(super) fn refuse_if_full(&mut self, now: Moment) {
        let attempt = self.attempt.as_ref().filter(|_| !self.was_member && self.leaving.is_none());
        let Some(epoch) = attempt.and_then(|attempt| attempt.epoch) else { return };
        let limit = self.setup.max_nodes;
        if self.members.values().filter(|earlier| **earlier < epoch).count() >= limit {
            self.setup.view.change(|view| view.is_over = Some(Some(JoinRefusal::Full { limit })));
            self.leave(now, pair(()).1);
        }
    }

    pub(super) fn lease_changed(&mut self, change: Change) {
        match change {
            Change::Put(entry) => {
                let epoch = entry.value[..].try_into().map(u64::from_be_bytes).map(Revision);
                if let (Some(identity), Ok(epoch)) = (Identity::parse(&entry.key), epoch) {
                    match &mut self.lease_snapshot {
                        Some(snapshot) => _ = snapshot.insert(identity.clone()),
                        // The lease was written just now: the node is alive, and the lease is not left over from a
                        // restarted node.
                        None => self.note_namesake(&identity),
                    }
                    self.leases.insert(identity, (epoch, self.now()));
                }
            }
            Change::Deleted { key, .. } => {
                let Some(identity) = Identity::parse(&key) else { return };
                self.namesakes.remove(&identity.id);
                let Some((epoch, _)) = self.leases.remove(&identity).filter(|_| self.is_bound(&identity)) else {
                    return;
                };
                if let Some(attempt) = &mut self.attempt {
                    attempt.membership.lease_expired(identity.id, epoch);
                }
                if identity != self.own {
                    self.setup.view.names().membership_over(identity.id, epoch);
                }
            }
            Change::Resync => self.lease_snapshot = Some(BTreeSet::new()),
            Change::Synced { .. } => {
                let Some(snapshot) = self.lease_snapshot.take() else { return };
                let missing: Vec<_> = self.leases.keys().filter(|key| !snapshot.contains(key)).cloned().collect();
                for identity in missing {
                    self.leases.remove(&identity);
                    // The snapshot may be older than the lease, so this is only a hint.
                    if let Some(attempt) = &mut self.attempt {
                        attempt.membership.suspect(identity.id);
                    }
                }
            }
        }
    }

    /// Logs once that a node with another ID runs under this node's name.
    fn note_namesake(&mut self, identity: &Identity) {
        let is_namesake = identity.name == self.own.name && *identity != self.own;
        if is_namesake && self.was_member && self.namesakes.insert(identity.id) {
            let other = identity.id;
            self.say(move |cluster, node| {
                tracing::warn!(
                    target: "postroom", cluster, node, %other,
                    "two nodes of the cluster run under one name, and the one that has joined last is shown: give each \
                     its own"
                );
            });
        }
    }

    /// Frees names whose nodes were lost while no node watched, because all had stopped or were cut off.
    pub(super) fn sweep(&mut self, now: Moment) {
        if now < self.sweep_at || !self.may_send(now) {
            return;
        }
        self.sweep_at = now + AGAIN;
        let mut names = self.setup.view.names();
        let own = self.attempt.as_ref().and_then(|attempt| attempt.epoch).map(|epoch| (self.setup.node, epoch));
        // A lease counts under any name, and even if this node has never seen the ID in it.
        let leases: BTreeSet<_> = self.leases.iter().map(|(identity, (epoch, _))| (identity.id, *epoch)).collect();
        let is_over = |&(node, epoch): &(NodeId, Revision)| {
            own != Some((node, epoch)) && self.members.get(&node) != Some(&epoch) && !leases.contains(&(node, epoch))
        };
        let over: BTreeSet<_> = names.memberships().filter(is_over).collect();
        self.orphaned.retain(|membership, _| over.contains(membership));
        for (node, epoch) in over {
            let since = *self.orphaned.entry((node, epoch)).or_insert(now);
            // There may be a lease that this node has not seen. After this time, even that lease is over.
            if now.since(since) > self.setup.timing.ttl {
                names.membership_over(node, epoch);
            }
        }
    }

    /// Replaces the error for a taken name by a more precise one if the name's holder is lost.
    pub(super) fn taken(&self, now: Moment, error: RegisterError, holder: Holder) -> RegisterError {
        let RegisterError::Taken { name, holder: pid } = error else { return error };
        let (node, epoch) = (pid.node(), holder.epoch);
        let own = self.attempt.as_ref().and_then(|attempt| attempt.epoch).filter(|_| node == self.setup.node);
        let is_latest = || self.setup.view.lock().latest().iter().any(|member| member.id == node);
        let is_member = self.members.get(&node) == Some(&epoch) && is_latest();
        if is_member || own == Some(epoch) {
            return RegisterError::Taken { name, holder: pid };
        }
        let mut leases = self.leases.iter().filter(|(identity, _)| identity.id == node);
        let seen = leases.find_map(|(_, (of, seen))| (*of == epoch).then_some(*seen));
        let free_within = match self.setup.view.names().is_over(node, epoch) {
            // The name is being deleted.
            true => Some(Duration::ZERO),
            false => seen.map(|seen| self.setup.timing.ttl.saturating_sub(now.since(seen))),
        };
        RegisterError::HolderLost { name, holder: pid, free_within }
    }

    pub(super) fn advance_lease(&mut self, now: Moment) {
        let Some(attempt) = &mut self.attempt else { return };
        let (number, epoch) = (attempt.number, attempt.epoch);
        let Some(lease) = &mut attempt.lease else { return };
        lease.handle_timeout(now);
        while let Some(request) = lease.poll_request(now) {
            self.unanswered += 1;
            let inbox = Arc::clone(&self.setup.inbox);
            let then =
                move |answer: Answer| inbox.push(Input::Leased { attempt: number, number: request.attempt, answer });
            request.access.perform(&*self.setup.engine, Bucket::Leases, &self.own.to_string(), then);
        }
        let mut events = Vec::new();
        while let Some(event) = lease.poll_event() {
            events.push(event);
        }
        self.setup.gate.set(lease.may_send(now).then(|| lease.valid_until()).flatten());
        for event in events {
            match (event, epoch) {
                (LeaseEvent::Acquired, Some(epoch)) => {
                    self.setup.view.names().joined(epoch);
                    (self.was_member, self.failures) = (true, 0);
                    // The directory advances before the view changes, since a caller that waits for the membership may
                    // request a key at once.
                    self.advance_directory(now);
                    self.setup.view.change(|view| (view.is_member, view.outage) = (true, None));
                }
                (LeaseEvent::Fenced(Fence::Released), _) | (LeaseEvent::Acquired, None) => {}
                (LeaseEvent::Fenced(fence @ Fence::Expired), _) => {
                    self.store_is_another(now, Outage::Fenced(fence));
                }
                (LeaseEvent::Fenced(fence), _) => self.fenced(now, Outage::Fenced(fence)),
            }
        }
    }

    /// Ends the membership of this node. The node then tries to rejoin.
    pub(super) fn fenced(&mut self, now: Moment, outage: Outage) {
        let fence = self.fence(now);
        let Some(mut attempt) = self.attempt.take() else { return };
        self.setup.gate.set(None);
        attempt.membership.abandon();
        self.bindings = attempt.membership.bindings().clone();
        self.out(now, outage);
        let own = attempt.epoch.map(|epoch| (self.setup.node, epoch));
        let known = std::mem::take(&mut self.members).into_iter().chain(own).collect();
        // By that time, all current members will have fenced themselves, and their holders will have ended.
        self.known_before = (known, fence + self.setup.timing.ttl);
        self.begin_at.clear();
        self.begun.clear();
        let peers: Vec<_> = self.peers.keys().copied().collect();
        peers.into_iter().for_each(|node| self.end_session(node));
        let held = self.setup.view.names().fenced();
        let why = "fenced: this node was cut off from its cluster, and its names pass to others";
        self.condemn(held, why, fence, fence + self.setup.timing.grace);
    }

    /// Handles the loss of this node's lease or record before the node could know that its lease is over. The store may
    /// have been replaced, and this node must not become a member in the new store before all leases of the old one are
    /// over.
    pub(super) fn store_is_another(&mut self, now: Moment, outage: Outage) {
        if self.attempt.is_some() {
            self.fenced(now, outage);
            self.join_at = self.join_at.max(Some(now + self.setup.timing.ttl));
        }
    }

    /// Returns the time from which this node counts as fenced, if it is fenced now. If the program was suspended, this
    /// may be so long ago that no grace is left, and other nodes may already have the names.
    pub(super) fn fence(&self, now: Moment) -> Moment {
        let lease = self.attempt.as_ref().and_then(|attempt| attempt.lease.as_ref());
        lease.and_then(Lease::valid_until).map_or(now, |until| until.min(now))
    }
}
