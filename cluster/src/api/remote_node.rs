//! Nodes of the cluster as targets for starting processes.

use super::Cluster;
use crate::node::peer::Peer;
use crate::starts::StartError;
use postroom::generic::Addressed;
use postroom::remote::Remote;
use postroom::{Address, NodeId, Payloads};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why no node was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No member has the name.
    #[error("no other node of the cluster is called `{name}`; there are {}", listed(members))]
    Unknown {
        /// The name.
        name: String,
        /// The names of the members.
        members: Vec<String>,
    },
    /// No member that this node has a session with exports the type.
    #[error("no node of the cluster that can be reached exports `{process}`; export it with `.export::<{process}>()`")]
    NotExported {
        /// The type.
        process: &'static str,
    },
}

fn listed(members: &[String]) -> String {
    if members.is_empty() { "none".into() } else { members.join(", ") }
}

impl Cluster {
    /// Returns the member with this name, to start processes on it. If several members have the name, returns the one
    /// that joined most recently.
    ///
    /// # Errors
    /// [`NodeError::Unknown`], which lists the members.
    pub fn node(&self, name: &str) -> Result<RemoteNode, NodeError> {
        let view = self.shared.view.lock();
        let latest = view.latest();
        match latest.iter().find(|member| member.name == name) {
            Some(member) => {
                Ok(RemoteNode { cluster: self.clone(), id: member.id, name: name.to_owned(), is_any: false })
            }
            None => {
                let members = latest.iter().map(|member| member.name.clone()).collect();
                Err(NodeError::Unknown { name: name.to_owned(), members })
            }
        }
    }

    /// Returns one of the nodes that export `P`, taking them in turn. It may be this node.
    ///
    /// # Errors
    /// [`NodeError::NotExported`] if no node that can be reached exports `P`.
    pub fn any<P: Remote>(&self) -> Result<RemoteNode, NodeError> {
        self.any_with(P::NAME)
    }

    pub(super) fn any_with(&self, process: &'static str) -> Result<RemoteNode, NodeError> {
        let nodes = self.exporters(process);
        if nodes.is_empty() {
            return Err(NodeError::NotExported { process });
        }
        let id = nodes[self.shared.turn.fetch_add(1, Ordering::Relaxed) % nodes.len()];
        Ok(RemoteNode { cluster: self.clone(), id, name: self.name_of(id), is_any: true })
    }

    /// Returns the nodes on which a process of this type can be started.
    pub(super) fn exporters(&self, process: &str) -> Vec<NodeId> {
        let shared = &self.shared;
        let view = shared.view.lock();
        let exports = |peer: &&Arc<Peer>| peer.agreement().is_some_and(|agreement| agreement.can_start(process));
        let latest = view.latest();
        let peers =
            latest.iter().filter_map(|member| view.peers.get(&member.id)).filter(exports).map(|peer| peer.node());
        let own = shared.exports.contains(process).then_some(shared.id);
        peers.chain(own).collect()
    }

    pub(super) fn name_of(&self, id: NodeId) -> String {
        let view = self.shared.view.lock();
        view.members.get(&id).map_or_else(|| self.shared.name.clone(), |member| member.name.clone())
    }
}

/// A node of the cluster on which to start processes, from [`Cluster::node`] or [`Cluster::any`].
#[derive(Clone, Debug)]
pub struct RemoteNode {
    pub(super) cluster: Cluster,
    pub(super) id: NodeId,
    pub(super) name: String,
    /// Whether any other node that exports the type would do as well.
    pub(super) is_any: bool,
}

impl RemoteNode {
    /// Returns the node's ID.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns the node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts a `P` with this entry, and with inputs as for [`Host::start`](postroom::Host::start); they are checked on
    /// this node. The start begins when the result is first polled or waited for.
    ///
    /// # Errors
    /// The result is an error if the inputs do not fit, or if the node cannot be reached or refuses the start. If the
    /// node is lost before it answers, the process may have been started: it then ends with its node, or keeps running
    /// although the caller does not know it. With a [key](Starting::key), the start can be repeated.
    pub fn start<P: Remote + Addressed>(&self, entry: &str, inputs: Payloads) -> Starting<P> {
        Starting::new(self.clone(), entry, inputs)
    }
}

/// The request for a start.
pub(super) struct StartRequest {
    pub(super) process: &'static str,
    pub(super) entry: String,
    pub(super) inputs: Payloads,
    pub(super) key: Option<String>,
}

/// A process that is about to be started, perhaps on another node. Await this, or call [`wait`](Self::wait), to start
/// the process and get its address.
#[must_use = "nothing is started until it is awaited, or waited for"]
pub struct Starting<P> {
    pub(super) node: RemoteNode,
    pub(super) request: StartRequest,
    pub(super) process: std::marker::PhantomData<fn() -> P>,
}

impl<P: Remote + Addressed> Starting<P> {
    /// Waits until the process has been started. If the caller is a process, its worker runs other processes meanwhile.
    ///
    /// # Errors
    /// The same as for [`RemoteNode::start`].
    pub fn wait(self) -> Result<Address<P>, StartError> {
        let (begun, node) = self.begin();
        let started = begun?.wait();
        started.map(Address::assume).map_err(|why| why.into_error(node))
    }
}

impl<P: Remote + Addressed + 'static> IntoFuture for Starting<P> {
    type Output = Result<Address<P>, StartError>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (begun, node) = self.begin();
            let started = begun?.await;
            started.map(Address::assume).map_err(|why| why.into_error(node))
        })
    }
}
