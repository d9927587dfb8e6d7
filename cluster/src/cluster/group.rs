//! Groups of the cluster, as a program uses them.

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
    /// Returns the group of this name: processes of any nodes. A handle, cheap to clone; the group exists while it has
    /// members or subscribers. It has nothing to do with [`Host::group`](postroom::Host::group).
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

/// A name for any number of processes on the nodes of a cluster, from [`Cluster::group`].
///
/// A process is a member while it is alive and has joined more often than left. It leaves shortly after its end; the
/// members of a node that is lost leave when that is heard. Other nodes hear of a first member when the broker's store
/// has reported it.
#[derive(Clone)]
pub struct ClusterGroup {
    directory: Arc<Directory>,
    name: Arc<str>,
}

/// What a broadcast has come to, as far as that is known at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it says which nodes and members were missed"]
pub struct Broadcast {
    /// The members of this node that got a copy.
    pub here: usize,
    /// The other nodes that it was sent to, as one message each.
    pub nodes: usize,
    /// The members of this node that had no room.
    pub missed: usize,
    /// The nodes that it was not sent to. [`SendFailure::UnknownNode`]: there is no session with it, not yet or not any
    /// more.
    pub refused: Vec<(NodeId, SendFailure)>,
}

/// Why nothing was broadcast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BroadcastError {
    /// The name has no bytes, or too many.
    #[error("the name of a group of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// How many.
        bytes: usize,
    },
    /// The message is none of a process that this node exports.
    #[error(
        "`{type_name}` is no message of an exported process, so other nodes could not read it; export a process that \
         has it with `.export::<…>()`"
    )]
    NotExported {
        /// The type of the message.
        type_name: &'static str,
    },
    /// It cannot be encoded. Nodes whose codec could, if they have another, may have been sent it.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl ClusterGroup {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a process of this node, or one more membership: it then has to leave as often. Returns whether it was not
    /// a member before.
    ///
    /// # Errors
    /// [`MembershipError`], if the process has ended or runs elsewhere, or the name cannot be one.
    pub fn join(&self, member: impl Into<Pid>) -> Result<bool, MembershipError> {
        let pid = super::held_by(member.into());
        self.enter(pid, |directory| directory.change(|state| state.groups.join(&self.name, pid)))
    }

    /// Enters a process, and has its end heard behind that.
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
        // If it has ended meanwhile, that is heard all the same.
        if self.directory.watch(pid) { Ok(entered) } else { Err(MembershipError::Left) }
    }

    /// Removes one membership. Returns whether the process was a member.
    pub fn leave(&self, member: impl Into<Pid>) -> bool {
        let pid = super::held_by(member.into());
        self.directory.change(|state| state.groups.leave(&self.name, pid))
    }

    /// Asks each node that has members which these are. The pending result has them in the order of their PIDs; those
    /// of a node with which there is no session, not yet or not any more, are left out.
    pub fn members(&self) -> Pending<Result<Vec<Pid>, MembershipError>> {
        self.directory.members(&self.name)
    }

    /// Sends each member a copy of `message`: to those of this node, and as one message to each node that has others,
    /// which hands it out. Never waits: a member without room gets none, which is counted on its node in
    /// [`Statistics::missed`](crate::Statistics::missed).
    ///
    /// The messages of one sender to one member stay in their order, broadcast or not.
    ///
    /// # Errors
    /// [`BroadcastError`] if other nodes could not read it, whether there are members there or not.
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
        // Each node reads the same bytes, unless it has the message in another codec only.
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

    /// Hands copies to the members of this node as other nodes do: decoded for each, so a message needs not be `Clone`.
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
                // It has just ended.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Sends `subscriber`, a process of this node, a [`GroupEvent`] for each later change, and returns the members
    /// that this node knows: its own, and those of nodes that another subscriber has asked already. The others follow
    /// as [`GroupEvent::Joined`]. Each member is in the list or in an event, not in both, and the changes of one node
    /// come in their order. Subscribing again returns a new list and keeps the events. If a member has ended with an
    /// error, the reason has its text, also on its own node: the error is the user's code, which may hold others up.
    ///
    /// The members of a node that is lost leave with the reason [`NodeLost`](postroom::ExitReason::NodeLost), and join
    /// again when it is back. Nothing is refused by a full mailbox: events wait. A subscriber that is 1,024 events
    /// behind gets the net change in place of each.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn subscribe(&self, subscriber: impl SendTo<GroupEvent>) -> Result<Vec<Pid>, MembershipError> {
        let pid = super::held_by(subscriber.target());
        self.enter(pid, |directory| directory.change(|state| state.groups.subscribe(&self.name, pid)))
    }

    /// Ends a subscription; events in the mailbox stay. Returns whether there was one.
    pub fn unsubscribe(&self, subscriber: impl SendTo<GroupEvent>) -> bool {
        let pid = super::held_by(subscriber.target());
        self.directory.change(|state| state.groups.unsubscribe(&self.name, pid))
    }
}

/// Encodes a message for those who understand each other like this, once for each form that it has.
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
