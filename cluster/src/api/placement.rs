//! Placement of supervisors' children on nodes.

use super::{Cluster, RemoteNode};
use crate::node::peer::Peer;
use crate::starts::StartError;
use postroom::supervision::{Place, Placement};
use std::error::Error;
use std::sync::Arc;

/// Starts each child on the node that has this name at the time. If the node was restarted, that is its successor.
///
/// ```
/// use postroom::prelude::*;
/// use postroom_cluster::Cluster;
/// use postroom_cluster::memory::Broker;
///
/// # #[process] #[derive(Default)] struct Account { balance: i64 }
/// # #[process(remote)]
/// # impl Account {
/// #     #[entry] fn serve(&mut self, opening: i64) { self.balance = opening; }
/// #     #[message] fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
/// # }
/// # let runtime = Runtime::new()?;
/// # let broker = Broker::new();
/// # let _running = broker.run();
/// let cluster = Cluster::builder("bank").export::<Account>().join(&runtime, broker.connect())?;
/// let tree = Supervisor::one_for_one()
///     // On any node that exports `Account`; for a specific node, use `spawn.on(&cluster.node("eu-2")?)`.
///     .child("account", move |spawn| spawn.on(&cluster).start::<Account>("serve", payloads![100]))
///     .spawn(&runtime)?;
/// let account: Address<Account> = tree.child("account")?; // valid across restarts on any node
/// assert_eq!(account.deposit(5).wait()?, 105);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Placement for RemoteNode {
    fn choose(&self, _process: &'static str) -> Result<Place, Box<dyn Error + Send + Sync>> {
        let shared = &self.cluster.shared;
        if self.id == shared.id {
            return Ok(Place::Here);
        }
        let view = shared.view.lock();
        // This node or its successor.
        let latest = view.latest().into_iter().find(|member| member.id == self.id || member.name == self.name);
        match latest.and_then(|member| view.peers.get(&member.id)).cloned() {
            Some(peer) => Ok(elsewhere(&self.name, peer)),
            None => Err(StartError::Unreachable { node: self.name.clone() }.into()),
        }
    }
}

/// Starts each child on one of the nodes that export the type, this node included. It takes the nodes in turn, as
/// [`Cluster::any`] does, so a child that has failed is restarted on the next node.
impl Placement for Cluster {
    fn choose(&self, process: &'static str) -> Result<Place, Box<dyn Error + Send + Sync>> {
        self.any_with(process)?.choose(process)
    }
}

fn elsewhere(name: &str, peer: Arc<Peer>) -> Place {
    let node: Arc<str> = name.into();
    let name = Arc::clone(&node);
    Place::elsewhere(node, move |start| peer.start_child(&name, start))
}
