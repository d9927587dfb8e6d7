//! Another node, and starts of processes on it.

use super::{Cluster, keyed_start};
use crate::starts::StartError;
use postroom::generic::Addressed;
use postroom::remote::Remote;
use postroom::{Address, NodeId, Payloads};

/// A node of the cluster, to start processes on: made by [`Cluster::node`] and [`Cluster::any`].
#[derive(Clone, Debug)]
pub struct RemoteNode {
    pub(super) cluster: Cluster,
    pub(super) id: NodeId,
    pub(super) name: String,
    /// Any other that exports the type would do.
    pub(super) is_any: bool,
}

impl RemoteNode {
    /// Returns its ID.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts a `P` at this entry, with inputs as for [`Host::start`](postroom::Host::start); they are checked here.
    /// Begins when the result is waited for, or polled for the first time.
    ///
    /// # Errors
    /// The result is an error if the inputs do not fit, or the node cannot be reached or refuses. If it is lost before
    /// it answers, the process may have been started: it ends with its node, or goes on without you. With a
    /// [key](Starting::key), the start can be repeated.
    pub fn start<P: Remote + Addressed>(&self, entry: &str, inputs: Payloads) -> Starting<P> {
        Starting::new(self.clone(), entry, inputs)
    }
}

/// A process that is to be started, perhaps on another node: to be awaited, or waited for.
#[must_use = "nothing is started until it is awaited, or waited for"]
pub struct Starting<P> {
    pub(super) node: RemoteNode,
    pub(super) request: keyed_start::StartRequest,
    pub(super) process: std::marker::PhantomData<fn() -> P>,
}

impl<P: Remote + Addressed> Starting<P> {
    /// Waits until the process has been started. In a process, its worker goes on with others meanwhile.
    ///
    /// # Errors
    /// As [`RemoteNode::start`] says.
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
