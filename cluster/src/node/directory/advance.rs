//! The actions of a directory's state machines, performed by the driver: requests to the store, messages to peers,
//! and notifications, starts and stops of processes of this node.

use super::{Directory, DirectoryState};
use crate::clock::Moment;
use crate::directory::message::DirectoryMessage;
use crate::groups::{CountRequest, MembershipError};
use crate::keyed::{Found, KeyedError, KeyedStart};
use crate::node::peer::Peer;
use crate::reply::Completer;
use crate::store::{Bucket, Revision};
use postroom::__private::discard_panic;
use postroom::error::SendFailure;
use postroom::{NodeId, Pid, payloads};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The wait before messages are offered again to a peer without room.
const BUSY: Duration = Duration::from_millis(5);

/// The state machine that a message belongs to.
#[derive(Clone, Copy)]
enum DirectoryPart {
    Groups,
    Eventual,
    Keys,
}

/// Notifications that did not fit into the mailbox of their process.
enum Told {
    Events(Vec<(u64, postroom::GroupEvent)>),
    Lost(Vec<crate::eventual::NameLost>),
}

/// A pending request of a user, with its answer.
type Answered<T, E, A> = (Completer<Result<T, E>>, A);

/// The actions that are due, for the driver to perform without the lock.
struct DueActions {
    requests: Vec<CountRequest>,
    events: Vec<(Pid, Vec<(u64, postroom::GroupEvent)>)>,
    lost: Vec<(Pid, Vec<crate::eventual::NameLost>)>,
    starts: Vec<KeyedStart>,
    stops: Vec<Pid>,
    listed: Vec<Answered<Vec<Pid>, MembershipError, Vec<Pid>>>,
    found: Vec<Answered<Pid, KeyedError, Result<Pid, KeyedError>>>,
    /// Peers that announce too much, so that their sessions must end.
    floods: Vec<Arc<Peer>>,
    /// The peers for which there are messages.
    to_tell: Vec<NodeId>,
}

impl Directory {
    /// Performs all pending actions. Called by the driver, which passes this node's epoch if the node is a member.
    pub(crate) fn advance(
        self: &Arc<Self>,
        now: Moment,
        epoch: Option<Revision>,
        members: &BTreeMap<NodeId, Revision>,
    ) {
        // The flag is cleared first, so that changes from now on are announced again.
        let is_announced = self.is_announced.swap(false, Ordering::AcqRel);
        let mut state = self.lock();
        let is_changed = state.groups.set_membership(epoch, members);
        if !is_announced && !is_changed && state.next_timeout().is_none_or(|at| now < at) {
            return;
        }
        state.keys.set_member(epoch.is_some());
        if epoch.is_some() {
            state.keys.set_members(members);
        }
        let due = state.take_due(now);
        drop(state);
        self.perform(now, due);
    }

    /// Performs actions, without the lock.
    fn perform(self: &Arc<Self>, now: Moment, due: DueActions) {
        for request in due.requests {
            let directory = Arc::clone(self);
            let then = move |answer| {
                let now = directory.now();
                directory.change(|state| state.groups.handle(now, request.number, answer));
            };
            // Succeeds: the driver owns the engine while it calls this.
            if let Some(engine) = self.engine.upgrade() {
                request.access.perform(&*engine, Bucket::Groups, &request.key, then);
            }
        }
        due.events.into_iter().for_each(|(pid, events)| self.tell(pid, events, |event| &event.1, Told::Events));
        due.lost.into_iter().for_each(|(pid, lost)| self.tell(pid, lost, |lost| lost, Told::Lost));
        due.starts.into_iter().for_each(|start| self.start(start));
        due.stops.into_iter().for_each(|pid| _ = pid.stop());
        due.listed.into_iter().for_each(|(then, members)| then.complete(Ok(members)));
        due.found.into_iter().for_each(|(then, result)| then.complete(result));
        due.floods.into_iter().for_each(|peer| peer.end_flood());
        due.to_tell.into_iter().for_each(|node| self.talk(now, node));
    }

    /// Sends the pending messages to a peer, as far as its session has room.
    fn talk(&self, now: Moment, node: NodeId) {
        loop {
            let mut state = self.lock();
            // The peer and the message are taken under one lock, so that a message for this session is not sent in an
            // earlier one.
            let Some(peer) = state.peers.get(&node).cloned() else { return };
            let message = state.poll_message(node);
            drop(state);
            let Some((part, message)) = message else { return };
            match peer.offer(&message) {
                // The end of a session is reported soon, and then its pending messages are forgotten.
                Ok(()) | Err(SendFailure::UnknownNode(_)) => {}
                Err(SendFailure::Full(_)) => {
                    let mut state = self.lock();
                    state.blocked_until = Some(now + BUSY);
                    if !state.peers.get(&node).is_some_and(|now| Arc::ptr_eq(now, &peer)) {
                        return;
                    }
                    match part {
                        DirectoryPart::Groups => state.groups.refused(node, message),
                        DirectoryPart::Eventual => state.eventual.refused(node, message),
                        DirectoryPart::Keys => state.keys.refused(node, message),
                    }
                    return;
                }
                // The limits on names and members keep each message short enough, unless the peer's own limit is lower
                // than this node's. In that case its request for members is still answered, with an empty list.
                Err(_) => {
                    self.counters.missed.fetch_add(1, Ordering::Relaxed);
                    if let DirectoryMessage::Members { group, .. } = message {
                        let _ = peer.offer(&DirectoryMessage::Members { group, members: Vec::new() });
                    }
                }
            }
        }
    }

    /// Sends notifications to a process of this node. Sending may run user code. `told` wraps the notifications for
    /// which there was no room, so that they return to their state machine.
    fn tell<T: Send + 'static, M: Clone + Send + 'static>(
        self: &Arc<Self>,
        pid: Pid,
        messages: Vec<T>,
        message: impl Fn(&T) -> &M + Send + 'static,
        told: impl FnOnce(Vec<T>) -> Told + Send + 'static,
    ) {
        let directory = Arc::clone(self);
        self.run(Box::new(move || {
            let mut refused = Vec::new();
            for notice in messages {
                // After a refused notification, the others wait too.
                let is_refused = !refused.is_empty()
                    || matches!(
                        directory.host.try_send(pid, message(&notice).clone()),
                        Err(error) if matches!(error.reason, SendFailure::Full(_))
                    );
                if is_refused {
                    refused.push(notice);
                }
            }
            let now = directory.now();
            directory.change(|state| match told(refused) {
                Told::Events(refused) => state.groups.told(now, pid, refused),
                Told::Lost(refused) => state.eventual.told(now, pid, refused),
            });
        }));
    }

    /// Starts the process of a key.
    fn start(self: &Arc<Self>, start: KeyedStart) {
        let directory = Arc::clone(self);
        self.run_start(
            &start.process.clone(),
            &start.key.clone(),
            Box::new(move || {
                if directory.lock().is_over {
                    return;
                }
                let KeyedStart { process, key, entry } = &start;
                let begin = || directory.host.start(process, entry, payloads![key.clone()]);
                let started = catch_unwind(AssertUnwindSafe(begin));
                let result = match started {
                    Ok(result) => result.map_err(|error| error.to_string()),
                    Err(panic) => {
                        discard_panic(panic);
                        Err("the start has panicked".into())
                    }
                };
                let pid = result.as_ref().ok().copied();
                let is_over = directory.change(|state| {
                    state.keys.started(&start, result);
                    state.is_over
                });
                match pid {
                    // The driver would stop the process, but it may have ended.
                    Some(pid) if is_over => _ = pid.stop(),
                    Some(pid) => _ = directory.watch(pid),
                    None => {}
                }
            }),
        );
    }
}

impl DirectoryState {
    /// Advances the state machines to `now`, and takes the actions that are due.
    fn take_due(&mut self, now: Moment) -> DueActions {
        self.groups.handle_timeout(now);
        self.eventual.handle_timeout(now);
        self.keys.handle_timeout(now);
        if self.blocked_until.is_some_and(|until| until <= now) {
            self.blocked_until = None;
        }
        let mut listed = Vec::new();
        while let Some(answer) = self.groups.poll_listed() {
            listed.extend(self.listing.remove(&answer.number).map(|then| (then, answer.members)));
        }
        let mut found = Vec::new();
        while let Some(Found { number, result }) = self.keys.poll_found() {
            found.extend(self.asking.remove(&number).map(|then| (then, result)));
        }
        let floods: Vec<_> =
            std::iter::from_fn(|| self.groups.poll_flood().or_else(|| self.keys.poll_flood())).collect();
        DueActions {
            requests: std::iter::from_fn(|| self.groups.poll_request()).collect(),
            events: std::iter::from_fn(|| self.groups.poll_events()).collect(),
            lost: std::iter::from_fn(|| self.eventual.poll_lost()).collect(),
            starts: std::iter::from_fn(|| self.keys.poll_start()).collect(),
            stops: self.take_stops(),
            listed,
            found,
            floods: floods.iter().filter_map(|node| self.peers.get(node).cloned()).collect(),
            to_tell: match self.blocked_until {
                None => self.peers.keys().copied().filter(|node| self.has_message(*node)).collect(),
                Some(_) => Vec::new(),
            },
        }
    }

    /// Returns the processes of keys that have to be stopped.
    pub(super) fn take_stops(&mut self) -> Vec<Pid> {
        std::iter::from_fn(|| self.keys.poll_stop()).collect()
    }

    fn has_message(&self, node: NodeId) -> bool {
        self.groups.has_message(node) || self.eventual.has_message(node) || self.keys.has_message(node)
    }

    /// Returns the next message for a peer.
    fn poll_message(&mut self, node: NodeId) -> Option<(DirectoryPart, DirectoryMessage)> {
        let groups = self.groups.poll_message(node).map(|message| (DirectoryPart::Groups, message));
        let eventual = || self.eventual.poll_message(node).map(|message| (DirectoryPart::Eventual, message));
        groups.or_else(eventual).or_else(|| self.keys.poll_message(node).map(|message| (DirectoryPart::Keys, message)))
    }
}
