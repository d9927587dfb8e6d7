//! What arrives for the directory, and broadcasts, which are handed out here.

use super::Delivery;
use crate::codec::Agreement;
use crate::directory::message::DirectoryMessage;
use crate::envelope::Content;
use crate::node::peer::Peer;
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
            Ok(message) => self.directory.on_message(peer.node(), message),
            Err(_) => false,
        };
        if !is_taken {
            self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Delivers a broadcast to each member of this node. One without room gets none, as with a broadcast within a node.
    fn broadcast(&mut self, peer: &Arc<Peer>, group: &str, content: &Content) {
        let members = self.directory.lock().groups.own_members(group);
        for member in members {
            let Ok((_, payload)) = self.decode(peer, content.clone(), Agreement::decode) else { return };
            // Not past what is kept for it.
            let is_delivered = !self.slow.contains_key(&(member, peer.node()))
                && self.node.try_deliver(Package::with_payload(member, payload)).is_ok();
            if !is_delivered {
                self.directory.counters.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
