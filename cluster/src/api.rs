//! A node of a cluster: the API for user programs.

mod asking;
mod builder;
mod eventual;
mod group;
mod keyed;
mod keyed_start;
mod named;
mod placement;
mod pointers;
mod remote_node;
#[cfg(any(test, feature = "test"))]
mod simulated;
mod statistics;
mod status;
mod topic;

use crate::engine::Engine;
use crate::names::{RegisterError, Token};
use crate::node::delivery::NodeCounters;
use crate::node::directory::Directory;
use crate::node::inbox::{Inbox, Input};
use crate::node::keys::StartKeys;
use crate::node::view::View;
use crate::reply::{Pending, pair};
use postroom::{Host, NodeId, Pid};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use crate::node::view::{Member, Outage};
pub use builder::{Builder, JoinError};
pub use group::{Broadcast, BroadcastError, ClusterGroup};
pub use keyed::Keyed;
pub use pointers::NamedError;
pub use remote_node::{NodeError, RemoteNode, Starting};
#[cfg(any(test, feature = "test"))]
pub(crate) use simulated::SimulatedJoin;
pub use statistics::Statistics;
pub use status::Status;
pub use topic::ClusterTopic;

/// A node of a cluster. Clones refer to the same node. The node leaves the cluster when [`leave`](Self::leave) is
/// called, or when the last clone is dropped.
///
/// ```
/// use postroom::prelude::*;
/// use postroom_cluster::Cluster;
/// use postroom_cluster::memory::Broker;
///
/// #[process]
/// #[derive(Default)]
/// struct Account { balance: i64 }
///
/// #[process(remote)]
/// impl Account {
///     #[entry]
///     fn serve(&mut self, opening: i64) { self.balance = opening; }
///     #[message]
///     fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
/// }
///
/// let runtime = Runtime::new()?;
/// let broker = Broker::new();
/// let _running = broker.run();
/// let cluster = Cluster::builder("bank").node("eu-1").export::<Account>().join(&runtime, broker.connect())?;
/// let account = cluster.any::<Account>()?.start::<Account>("serve", payloads![100]).wait()?;
/// assert_eq!(account.deposit(5).wait()?, 105);
/// let token = cluster.register("acct-7", account).wait()?;
/// assert_eq!(cluster.holder("acct-7"), Some((account.pid(), token)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<NodeShared>,
}

struct NodeShared {
    id: NodeId,
    name: String,
    host: Host,
    inbox: Arc<Inbox>,
    view: Arc<View>,
    /// Weak, so that only the driver owns the engine: when the node has left, the engine's connections are closed.
    engine: Weak<dyn Engine>,
    counters: Arc<NodeCounters>,
    /// Index of the member that [`Cluster::any`] picks next.
    turn: AtomicUsize,
    /// The names of the types that this node exports.
    exports: BTreeSet<&'static str>,
    /// The keys of processes that were started here.
    keys: Arc<StartKeys>,
    /// The addresses that follow names.
    pointers: pointers::Pointers,
    directory: Arc<Directory>,
}

impl Cluster {
    /// Returns this node's ID.
    pub fn id(&self) -> NodeId {
        self.shared.id
    }

    /// Returns this node's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns whether this node is currently a member. A node that is cut off is not one; [`status`](Self::status)
    /// returns the reason, and the node rejoins automatically.
    pub fn is_member(&self) -> bool {
        self.shared.view.lock().is_member
    }

    /// Returns the other members, as this node sees them. If several have the same name, only the one that joined most
    /// recently is listed: a restarted node replaces its predecessor at once.
    pub fn members(&self) -> Vec<Member> {
        self.shared.view.lock().latest().into_iter().cloned().collect()
    }

    /// Waits up to `time` for sessions with at least `count` other nodes. Returns whether there are that many.
    pub fn wait_for_members(&self, count: usize, time: Duration) -> bool {
        self.wait_for_members_async(count, time).wait()
    }

    /// Like [`wait_for_members`](Self::wait_for_members), but asynchronous.
    pub fn wait_for_members_async(&self, count: usize, time: Duration) -> Pending<bool> {
        let (pending, then) = pair(false);
        let view = Arc::clone(&self.shared.view);
        let mut then = Some(then);
        let check = move |is_late: bool| {
            let connected = view.lock().latest().iter().filter(|member| member.is_connected).count();
            if connected < count && !is_late {
                return None;
            }
            let then = then.take()?;
            Some(Box::new(move || then.complete(connected >= count)) as Box<dyn FnOnce() + Send>)
        };
        self.shared.inbox.push(Input::Wait { time, check: Box::new(check) });
        pending
    }

    /// Registers a name of the cluster for a process of this node. The process holds the name until it ends or releases
    /// the name with [`release`](Self::release), or until its node is lost. The result is the fencing [`Token`].
    ///
    /// # Errors
    /// The pending result is [`RegisterError::Taken`] if another process has the name. It is also an error while the
    /// broker's servers have no majority: the call does not wait for one.
    pub fn register(&self, name: impl Into<String>, process: impl Into<Pid>) -> Pending<Result<Token, RegisterError>> {
        let (pid, name) = (held_by(process.into()), name.into());
        let (pending, then) = pair(Err(RegisterError::NotAMember));
        if pid.node() == self.shared.id {
            self.shared.inbox.push(Input::Register { name, pid, then });
        } else {
            then.complete(Err(RegisterError::Elsewhere { pid }));
        }
        pending
    }

    /// Releases a name. The result is whether the process held it.
    pub fn release(&self, name: impl Into<String>, process: impl Into<Pid>) -> Pending<bool> {
        let (pending, then) = pair(false);
        self.shared.inbox.push(Input::Release { name: name.into(), pid: held_by(process.into()), then });
        pending
    }

    /// Returns the holder of a name and the token of that holder, as last reported to this node. Both may be out of
    /// date.
    pub fn holder(&self, name: &str) -> Option<(Pid, Token)> {
        self.shared.view.names().holder(name)
    }

    /// Leaves the cluster. Holders of names are cancelled, and killed if they have not ended after four seconds; their
    /// names become free. Queued messages are still sent, and the peers are notified; both together may take up to
    /// three seconds per peer.
    pub fn leave(&self) -> Pending<()> {
        let (pending, then) = pair(());
        self.shared.inbox.push(Input::Leave(then));
        pending
    }
}

/// Returns the process that becomes the holder if a name is given to `pid`. An address may outlive its process, as that
/// of a supervised child does. Then the holder is the process behind the address now, and the name ends with that
/// process.
fn held_by(pid: Pid) -> Pid {
    pid.resolve().unwrap_or(pid)
}

impl Drop for NodeShared {
    fn drop(&mut self) {
        let (_, then) = pair(());
        self.inbox.push(Input::Leave(then));
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("id", &self.id()).field("is_member", &self.is_member()).finish_non_exhaustive()
    }
}
