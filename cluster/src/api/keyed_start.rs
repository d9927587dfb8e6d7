//! Starts that have a key, and the choice of the node that a start goes to.

use super::remote_node::StartRequest;
use super::{RemoteNode, Starting};
use crate::keyed::home;
use crate::node::peer::Peer;
use crate::reply::{Pending, pair};
use crate::starts::{MAX_KEY, StartError, Started};
use postroom::Payloads;
use postroom::generic::Addressed;
use postroom::remote::Remote;
use std::marker::PhantomData;
use std::sync::Arc;

impl<P: Remote + Addressed> Starting<P> {
    pub(super) fn new(node: RemoteNode, entry: &str, inputs: Payloads) -> Self {
        let request = StartRequest { process: P::NAME, entry: entry.to_owned(), inputs, key: None };
        Self { node, request, process: PhantomData }
    }

    /// Makes the start repeatable: for the same key, a node starts one process and returns its PID each time, whether
    /// or not the process still runs. If the answer to a start was lost with the session, repeat the start with its
    /// key. A node remembers 1,024 keys, each for five minutes after its last use.
    ///
    /// After [`Cluster::any`](crate::Cluster::any), the key determines the node, by rendezvous hashing among the nodes
    /// that export the type. While the members stay the same, a repetition goes to the same node, even if another node
    /// repeats it. When a node joins or is lost, the keys that move to or from it start new processes.
    ///
    /// ```
    /// # use postroom::prelude::*;
    /// # use postroom_cluster::Cluster;
    /// # use postroom_cluster::memory::Broker;
    /// # #[process] #[derive(Default)] struct Order;
    /// # #[process(remote)] impl Order { #[entry] fn serve(&mut self, items: u32) { let _ = items; } }
    /// # let runtime = Runtime::new()?;
    /// # let broker = Broker::new();
    /// # let _running = broker.run();
    /// # let cluster = Cluster::builder("shop").export::<Order>().join(&runtime, broker.connect())?;
    /// let start = || Ok::<_, Box<dyn std::error::Error>>(
    ///     cluster.any::<Order>()?.start::<Order>("serve", payloads![3_u32]).key("order-17").wait()?,
    /// );
    /// assert_eq!(start()?, start()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.request.key = Some(key.into());
        self
    }

    /// Requests the start from the node. Also returns the node's name.
    pub(super) fn begin(self) -> (Result<Pending<Started>, StartError>, String) {
        let Self { mut node, request, .. } = self;
        if let Some(key) = &request.key {
            if key.is_empty() || key.len() > MAX_KEY {
                return (Err(StartError::KeyLength { bytes: key.len() }), node.name);
            }
            if node.is_any {
                let exporters = node.cluster.exporters(request.process);
                if let Some(id) = home(request.process, key, exporters) {
                    let name = node.cluster.name_of(id);
                    node = RemoteNode { id, name, ..node };
                }
            }
        }
        (node.request(request), node.name)
    }
}

impl RemoteNode {
    fn request(&self, request: StartRequest) -> Result<Pending<Started>, StartError> {
        let StartRequest { process, entry, inputs, key } = request;
        let shared = &self.cluster.shared;
        let (pending, then) = pair(Err("it was lost before it answered".into()));
        if self.id == shared.id {
            let start = || shared.host.start(process, &entry, inputs).map_err(|error| error.to_string().into());
            match key {
                None => then.complete(start()),
                Some(key) => shared.keys.start(key, process, move |started| then.complete(started), start),
            }
            return Ok(pending);
        }
        let peer: Option<Arc<Peer>> = shared.view.lock().peers.get(&self.id).cloned();
        let Some(peer) = peer else { return Err(StartError::Unreachable { node: self.name.clone() }) };
        peer.start(process, &entry, inputs, key, then)?;
        Ok(pending)
    }
}
