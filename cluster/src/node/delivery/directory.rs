//! Messages from peers to the directory. The broadcasts among them are delivered here.

use super::Delivery;
use super::arrivals::AfterDecision;
use crate::codec::Agreement;
use crate::directory::message::DirectoryMessage;
use crate::envelope::Content;
use crate::keyed::KeyRefusal;
use crate::node::peer::Peer;
use crate::node::policy::{Ask, Verdict};
use bytes::Bytes;
use postroom::Package;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Delivery {
    pub(super) fn directory(&mut self, peer: &Arc<Peer>, bytes: Bytes) {
        let is_taken = match DirectoryMessage::decode(bytes) {
            Ok(DirectoryMessage::Cast { group, content }) => {
                self.broadcast(peer, &group, &content);
                true
            }
            Ok(DirectoryMessage::AskKey { number, process, entry, key }) => {
                self.asked_for_key(peer, number, (process, entry, key))
            }
            Ok(message) => self.directory.on_message(peer.node(), message),
            Err(_) => false,
        };
        if !is_taken {
            self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Handles a peer's request for the process of a key. The request may start the process, so the policy treats it as
    /// a start.
    fn asked_for_key(&self, peer: &Arc<Peer>, number: u64, (process, entry, key): (String, String, String)) -> bool {
        let (node, directory) = (peer.node(), Arc::clone(&self.directory));
        let Some((exported, its_entry)) = directory.codecs.entry_names(&process, &entry) else {
            let reason = format!("`{process}` has no exported entry `{entry}` there");
            directory.refuse_key(node, number, KeyRefusal::Failed(reason));
            return true;
        };
        let go_on = move |is_allowed: bool| match is_allowed {
            true => _ = directory.on_message(node, DirectoryMessage::AskKey { number, process, entry, key }),
            false => directory.refuse_key(node, number, KeyRefusal::Denied),
        };
        match self.policy.verdict(node, Ask::Start { process: exported, entry: its_entry, is_child: false }) {
            Verdict::Now(is_allowed) => go_on(is_allowed),
            Verdict::Later(hearing) => self.decide(peer, hearing, AfterDecision::Other(Box::new(go_on))),
        }
        true
    }

    /// Delivers a broadcast to each member on this node. A member whose mailbox has no room misses the broadcast, as it
    /// would within a node.
    fn broadcast(&mut self, peer: &Arc<Peer>, group: &str, content: &Content) {
        let members = self.directory.lock().groups.own_members(group);
        for member in members {
            let Ok((_, payload)) = self.decode(peer, content.clone(), Agreement::decode) else { return };
            // A broadcast must not overtake messages that are stored for the member.
            let is_delivered = !self.slow.contains_key(&(member, peer.node()))
                && self.node.try_deliver(Package::with_payload(member, payload)).is_ok();
            if !is_delivered {
                self.directory.counters.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
