//! One node's view of the eventual names, and its messages about them to other nodes.

use super::{ClaimError, NameLost};
use crate::clock::Moment;
use crate::directory::is_name;
use crate::directory::message::DirectoryMessage;
use crate::directory::notices::Notices;
use postroom::{NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of names that the processes of one node may claim.
pub const MAX_CLAIMS: usize = 100_000;

/// One node's view of the eventual names of its cluster. The [module documentation](super) describes the protocol.
///
/// ```
/// use postroom_cluster::eventual::EventualNames;
/// use postroom::{NodeId, Pid};
///
/// let node = NodeId::new(7).unwrap();
/// let mut names = EventualNames::new(node);
/// let process: Pid = "<7.0.5.1>".parse().unwrap();
/// names.claim("leader", process).unwrap(); // at once
/// assert_eq!(names.holder("leader"), Some(process));
/// ```
pub struct EventualNames {
    node: NodeId,
    /// The greatest stamp seen so far.
    clock: u64,
    /// The claims of processes of this node.
    own: BTreeMap<String, Claim>,
    names_of: BTreeMap<Pid, BTreeSet<String>>,
    /// The claims of processes of other nodes.
    claims: BTreeMap<String, BTreeMap<NodeId, Claim>>,
    peers: BTreeMap<NodeId, Listener>,
    notices: Notices<NameLost>,
}

/// A claim. Claims are ordered so that the smallest wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    stamp: u64,
    pid: Pid,
}

/// A node that this node has a session with.
#[derive(Default)]
struct Listener {
    /// Names with a claim of this node that has not been reported to the peer yet.
    due: BTreeSet<String>,
    /// Names whose claims of this node were reported to the peer, but no longer exist. Their withdrawals are sent
    /// first, since the peer accepts only a limited number of claims from a node.
    gone: BTreeSet<String>,
    /// Names with a claim of this node that the peer knows.
    told: BTreeSet<String>,
    /// Names that the peer claims.
    claims: BTreeSet<String>,
}

impl Listener {
    /// Records that the claim for a name has changed, or is gone.
    fn changed(&mut self, name: &str, is_claimed: bool) {
        let (now, before) = if is_claimed { (&mut self.due, &mut self.gone) } else { (&mut self.gone, &mut self.due) };
        before.remove(name);
        // A claim that was never reported to the peer need not be withdrawn there.
        if is_claimed || self.told.contains(name) {
            now.insert(name.to_owned());
        }
    }
}

impl EventualNames {
    /// Returns the view of a node that does not know any other node.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            clock: 0,
            own: BTreeMap::new(),
            names_of: BTreeMap::new(),
            claims: BTreeMap::new(),
            peers: BTreeMap::new(),
            notices: Notices::default(),
        }
    }

    /// Claims a name for a process of this node. The process holds the name at once. Returns true if the process did
    /// not hold it before.
    ///
    /// # Errors
    /// If this node knows of another holder, the name is not valid, the process belongs to another node, or this node
    /// has the maximum number of claims.
    pub fn claim(&mut self, name: &str, pid: Pid) -> Result<bool, ClaimError> {
        if !is_name(name) {
            return Err(ClaimError::Length { bytes: name.len() });
        }
        if pid.node() != self.node {
            return Err(ClaimError::Elsewhere { pid });
        }
        match self.holder(name) {
            Some(holder) if holder == pid => return Ok(false),
            Some(holder) => return Err(ClaimError::Taken { name: name.to_owned(), holder }),
            None if self.own.len() == MAX_CLAIMS => return Err(ClaimError::Full { limit: MAX_CLAIMS }),
            None => {}
        }
        self.clock = self.clock.saturating_add(1);
        self.own.insert(name.to_owned(), Claim { stamp: self.clock, pid });
        self.names_of.entry(pid).or_default().insert(name.to_owned());
        self.changed(name);
        Ok(true)
    }

    /// Releases a name. Returns whether the process held it.
    pub fn release(&mut self, name: &str, pid: Pid) -> bool {
        let is_held = self.own.get(name).is_some_and(|claim| claim.pid == pid);
        if is_held {
            self.withdraw(name);
        }
        is_held
    }

    /// Handles the end of a process of this node: its names become free.
    pub fn ended(&mut self, pid: Pid) {
        self.notices.ended(pid);
        self.names_of.remove(&pid).unwrap_or_default().iter().for_each(|name| _ = self.withdraw(name));
    }

    fn withdraw(&mut self, name: &str) -> Option<Pid> {
        let Claim { pid, .. } = self.own.remove(name)?;
        if let Some(names) = self.names_of.get_mut(&pid) {
            names.remove(name);
            if names.is_empty() {
                self.names_of.remove(&pid);
            }
        }
        self.changed(name);
        Some(pid)
    }

    /// Records for each peer that this node's claim for a name has changed, or is gone.
    fn changed(&mut self, name: &str) {
        let is_claimed = self.own.contains_key(name);
        self.peers.values_mut().for_each(|peer| peer.changed(name, is_claimed));
    }

    /// Returns the holder of a name, as far as this node knows.
    pub fn holder(&self, name: &str) -> Option<Pid> {
        let others = self.claims.get(name).into_iter().flat_map(BTreeMap::values);
        self.own.get(name).into_iter().chain(others).min().map(|claim| claim.pid)
    }

    /// Handles the start of a session with a node.
    pub fn connected(&mut self, node: NodeId) {
        self.disconnected(node);
        self.peers.insert(node, Listener { due: self.own.keys().cloned().collect(), ..Listener::default() });
    }

    /// Handles the end of the session with a node. Its claims become unknown.
    pub fn disconnected(&mut self, node: NodeId) {
        let Some(peer) = self.peers.remove(&node) else { return };
        peer.claims.iter().for_each(|name| self.forget(name, node));
    }

    fn forget(&mut self, name: &str, node: NodeId) {
        if let Some(claims) = self.claims.get_mut(name) {
            claims.remove(&node);
            if claims.is_empty() {
                self.claims.remove(name);
            }
        }
    }

    /// Handles a message from another node. Returns false if the message is not valid: a node may speak only for its
    /// own processes, and may claim only a limited number of names.
    pub(crate) fn on_message(&mut self, from: NodeId, message: DirectoryMessage) -> bool {
        let Some(peer) = self.peers.get_mut(&from) else { return true };
        match message {
            DirectoryMessage::Claim { name, pid, stamp } => {
                if pid.node() != from || (peer.claims.len() == MAX_CLAIMS && !peer.claims.contains(&name)) {
                    return false;
                }
                peer.claims.insert(name.clone());
                self.clock = self.clock.max(stamp);
                let theirs = Claim { stamp, pid };
                self.claims.entry(name.clone()).or_default().insert(from, theirs);
                if self.own.get(&name).is_some_and(|own| theirs < *own)
                    && let Some(loser) = self.withdraw(&name)
                {
                    self.notices.push(loser, NameLost { name, holder: pid });
                }
            }
            DirectoryMessage::Unclaim { name } => {
                peer.claims.remove(&name);
                self.forget(&name, from);
            }
            _ => return false,
        }
        true
    }

    /// Returns whether there is a message to send to a node.
    pub(crate) fn has_message(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| !(peer.due.is_empty() && peer.gone.is_empty()))
    }

    /// Returns the next message for a node that this node has a session with.
    pub(crate) fn poll_message(&mut self, node: NodeId) -> Option<DirectoryMessage> {
        let peer = self.peers.get_mut(&node)?;
        let name = peer.gone.pop_first().or_else(|| peer.due.pop_first())?;
        Some(match self.own.get(&name) {
            Some(Claim { stamp, pid }) => {
                peer.told.insert(name.clone());
                DirectoryMessage::Claim { name, pid: *pid, stamp: *stamp }
            }
            None => {
                peer.told.remove(&name);
                DirectoryMessage::Unclaim { name }
            }
        })
    }

    /// Takes back the message that was polled most recently for this node, because the session had no room for it.
    pub(crate) fn refused(&mut self, node: NodeId, message: DirectoryMessage) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if let DirectoryMessage::Claim { name, .. } | DirectoryMessage::Unclaim { name } = message {
            let is_claimed = self.own.contains_key(&name);
            // If the message was an `Unclaim`, the peer still knows of the claim.
            peer.told.insert(name.clone());
            peer.changed(&name, is_claimed);
        }
    }

    /// Returns messages for a process that has lost names. The caller delivers them; until it calls
    /// [`told`](Self::told), that process gets no others.
    pub fn poll_lost(&mut self) -> Option<(Pid, Vec<NameLost>)> {
        self.notices.poll()
    }

    /// Reports that a process has received its messages, except for those in `refused`, for which its mailbox had no
    /// room.
    pub fn told(&mut self, now: Moment, pid: Pid, refused: Vec<NameLost>) {
        self.notices.back(now, pid, refused);
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Moment> {
        self.notices.next_timeout()
    }

    /// Retries the delivery to processes whose mailboxes had no room.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.notices.handle_timeout(now);
    }
}
