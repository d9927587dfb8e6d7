//! The public API of cluster groups.

use super::Cluster;
use crate::codec::{Agreement, CodecError, MessageId};
use crate::directory::message::DirectoryMessage;
use crate::directory::{MAX_NAME, is_name};
use crate::envelope::Content;
use crate::groups::MembershipError;
use crate::node::directory::Directory;
use crate::node::peer::anyone;
use crate::reply::Pending;
use bytes::Bytes;
use postroom::error::SendFailure;
use postroom::generic::SendTo;
use postroom::remote::RemoteValue;
use postroom::{GroupEvent, NodeId, Package, Payload, Pid};
use std::any::{TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Cluster {
    /// Returns a handle to the group with this name, whose members may be processes of any node. Handles are cheap to
    /// clone; the group exists while it has members or subscribers. It is independent of
    /// [`Host::group`](postroom::Host::group).
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use postroom_cluster::Cluster;
    /// use postroom_cluster::memory::Broker;
    ///
    /// #[process]
    /// #[derive(Default)]
    /// struct Teller { rate: u32 }
    ///
    /// #[process(remote)]
    /// impl Teller {
    ///     #[entry]
    ///     fn serve(&mut self) {}
    ///     #[message]
    ///     fn set_rate(&mut self, rate: u32) { self.rate = rate; }
    ///     #[message]
    ///     fn rate(&mut self) -> u32 { self.rate }
    /// }
    ///
    /// # let runtime = Runtime::new()?;
    /// # let broker = Broker::new();
    /// # let _running = broker.run();
    /// let cluster = Cluster::builder("bank").export::<Teller>().join(&runtime, broker.connect())?;
    /// let teller = runtime.spawn(Teller::default()).serve()?;
    /// let tellers = cluster.group("tellers");
    /// tellers.join(teller)?;
    /// tellers.broadcast(TellerSetRate { rate: 3 })?; // to the members on all nodes
    /// assert_eq!(teller.rate().wait()?, 3);
    /// assert_eq!(tellers.members().wait()?, [teller.pid()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(&self, name: impl Into<Arc<str>>) -> ClusterGroup {
        ClusterGroup { directory: Arc::clone(&self.shared.directory), name: name.into() }
    }
}

/// A named group of processes on any nodes of a cluster, from [`Cluster::group`].
///
/// A process is a member while it is alive and has joined more times than it has left. It leaves shortly after its end;
/// the members of a lost node leave when the loss is detected. Other nodes learn of a node's first member once the
/// broker's store has reported it.
#[derive(Clone)]
pub struct ClusterGroup {
    directory: Arc<Directory>,
    name: Arc<str>,
}

/// The outcome of a broadcast, as far as it is known at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it says which nodes and members were missed"]
pub struct Broadcast {
    /// Number of members on this node that received a copy.
    pub here: usize,
    /// Number of other nodes that the message was sent to, once each.
    pub nodes: usize,
    /// Number of members on this node whose mailboxes had no room.
    pub missed: usize,
    /// The nodes that the message was not sent to. [`SendFailure::UnknownNode`] means that there is no session with the
    /// node, either not yet or no longer.
    pub refused: Vec<(NodeId, SendFailure)>,
}

/// Why a message was not broadcast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BroadcastError {
    /// The name is empty or too long.
    #[error("the name of a group of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// The message does not belong to a process type that this node exports.
    #[error(
        "`{type_name}` is no message of an exported process, so other nodes could not read it; export a process that \
         has it with `.export::<…>()`"
    )]
    NotExported {
        /// The type of the message.
        type_name: &'static str,
    },
    /// The message cannot be encoded. It may still have been sent to nodes that have it in another codec.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl ClusterGroup {
    /// Returns the group's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a process of this node to the group. If it is a member already, adds one more membership: a process has to
    /// leave as many times as it has joined. Returns true if it was not a member before.
    ///
    /// # Errors
    /// A [`MembershipError`] if the process has ended or runs on another node, the name is not valid, or the group is
    /// full.
    pub fn join(&self, member: impl Into<Pid>) -> Result<bool, MembershipError> {
        let pid = super::held_by(member.into());
        self.enter(pid, |directory| directory.change(|state| state.groups.join(&self.name, pid)))
    }

    /// Runs `enter` for a process, and then watches the process, so that its end is reported after its entry.
    fn enter<R>(
        &self,
        pid: Pid,
        enter: impl FnOnce(&Directory) -> Result<R, MembershipError>,
    ) -> Result<R, MembershipError> {
        if self.directory.lock().is_over {
            return Err(MembershipError::Left);
        }
        if pid.node() == self.directory.node && !pid.is_alive() {
            return Err(MembershipError::Ended { pid });
        }
        let entered = enter(&self.directory)?;
        // If the process has ended in the meantime, `watch` still reports its end.
        if self.directory.watch(pid) { Ok(entered) } else { Err(MembershipError::Left) }
    }

    /// Removes one membership. Returns whether the process was a member.
    pub fn leave(&self, member: impl Into<Pid>) -> bool {
        let pid = super::held_by(member.into());
        self.directory.change(|state| state.groups.leave(&self.name, pid))
    }

    /// Asks each node that has members to list them. The pending result contains the members in the order of their
    /// PIDs, without those on nodes that have no session with this one, either not yet or no longer.
    pub fn members(&self) -> Pending<Result<Vec<Pid>, MembershipError>> {
        self.directory.members(&self.name)
    }

    /// Sends a copy of `message` to each member: directly to the members on this node, and as one message to each other
    /// node with members. That node hands out the copies. Never waits: a member without room gets no copy, and its node
    /// counts the loss in [`Statistics::missed`](crate::Statistics::missed).
    ///
    /// Messages from one sender to one member stay in order, whether they are broadcast or not.
    ///
    /// # Errors
    /// A [`BroadcastError`] if other nodes could not read the message, whether or not they have members.
    pub fn broadcast<M: RemoteValue>(&self, message: M) -> Result<Broadcast, BroadcastError> {
        if !is_name(&self.name) {
            return Err(BroadcastError::Length { bytes: self.name.len() });
        }
        if !self.directory.codecs.has_message(TypeId::of::<M>()) {
            return Err(BroadcastError::NotExported { type_name: type_name::<M>() });
        }
        let (members, peers, unmet) = {
            let state = self.directory.lock();
            let nodes = state.groups.nodes_with_members(&self.name);
            let peers = nodes.iter().filter_map(|node| state.peers.get(node).map(|peer| (*node, Arc::clone(peer))));
            let (peers, unmet) = (peers.collect::<Vec<_>>(), state.groups.nodes_out_of_reach(&self.name));
            (state.groups.own_members(&self.name), peers, unmet)
        };
        let (mut outcome, mut payload) = (Broadcast::default(), Payload::new(message));
        let unmet = unmet.into_iter().map(|node| (node, SendFailure::UnknownNode(anyone(node))));
        outcome.refused.extend(unmet);
        // All nodes read the same bytes, except those that have the message only in another codec.
        let mut encoded = BTreeMap::new();
        for (node, peer) in peers {
            let agreement = peer.agreement().ok_or(SendFailure::UnknownNode(peer.anyone()));
            let content = agreement.and_then(|agreement| {
                encode(&agreement, &mut payload, &mut encoded).map_err(|error| {
                    self.directory.codecs.report(&error);
                    self.directory.codecs.failure(&error, peer.anyone())
                })
            });
            let group = self.name.to_string();
            match content.and_then(|content| peer.offer(&DirectoryMessage::Cast { group, content })) {
                Ok(()) => outcome.nodes += 1,
                Err(failure) => outcome.refused.push((node, failure)),
            }
        }
        if !members.is_empty() {
            self.hand_out(&members, &mut payload, &mut encoded, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// Hands copies to the members of this node in the way that other nodes do: each copy is decoded, so that a message
    /// need not be `Clone`.
    fn hand_out(
        &self,
        members: &[Pid],
        payload: &mut Payload,
        encoded: &mut BTreeMap<MessageId, Bytes>,
        outcome: &mut Broadcast,
    ) -> Result<(), CodecError> {
        let own = &self.directory.own_agreement;
        let content = encode(own, payload, encoded)?;
        for member in members {
            let (_, copy) = own.decode(MessageId(content.message), &content.bytes)?;
            match self.directory.local.try_deliver(Package::with_payload(*member, copy)) {
                Ok(()) => outcome.here += 1,
                Err(refused) if matches!(refused.reason, SendFailure::Full(_)) => {
                    outcome.missed += 1;
                    self.directory.counters.missed.fetch_add(1, Ordering::Relaxed);
                }
                // The member has just ended.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Sends `subscriber`, a process of this node, a [`GroupEvent`] for each later change, and returns the members that
    /// this node knows: its own, and those of nodes that an earlier subscriber has already asked. The other members
    /// follow as [`GroupEvent::Joined`]. Each member is either in the list or in an event, never in both, and the
    /// changes on one node arrive in order. Subscribing again returns a new list and keeps the events. If a member
    /// ended with an error, the reason contains only the error's text, even on the member's own node: an error contains
    /// user code, which could block others.
    ///
    /// The members of a lost node leave with the reason [`NodeLost`](postroom::ExitReason::NodeLost), and join again
    /// when the node is back. A full mailbox loses no events: they wait. A subscriber that is 1,024 events behind gets
    /// the net change instead of each event.
    ///
    /// # Errors
    /// The same as for [`join`](Self::join).
    pub fn subscribe(&self, subscriber: impl SendTo<GroupEvent>) -> Result<Vec<Pid>, MembershipError> {
        let pid = super::held_by(subscriber.target());
        self.enter(pid, |directory| directory.change(|state| state.groups.subscribe(&self.name, pid)))
    }

    /// Ends a subscription. Events that are already in the mailbox stay. Returns whether the process was subscribed.
    pub fn unsubscribe(&self, subscriber: impl SendTo<GroupEvent>) -> bool {
        let pid = super::held_by(subscriber.target());
        self.directory.change(|state| state.groups.unsubscribe(&self.name, pid))
    }
}

/// Encodes a message for nodes with this agreement. The bytes for each message ID are encoded once and reused.
fn encode(
    agreement: &Agreement,
    payload: &mut Payload,
    encoded: &mut BTreeMap<MessageId, Bytes>,
) -> Result<Content, CodecError> {
    let id = agreement.id_of(payload)?;
    let bytes = match encoded.get(&id) {
        Some(bytes) => bytes.clone(),
        None => {
            let bytes = agreement.encode_as(id, payload)?.bytes;
            encoded.insert(id, bytes.clone());
            bytes
        }
    };
    Ok(Content { message: id.0, bytes })
}

impl fmt::Debug for ClusterGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClusterGroup").field(&self.name).finish()
    }
}
