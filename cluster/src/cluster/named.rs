//! Addresses that follow a name of the cluster from holder to holder.

use super::{Cluster, NamedError};
use crate::names::MAX_NAME;
use postroom::Address;
use postroom::generic::Addressed;
use postroom::remote::Remote;
use std::sync::Arc;

impl Cluster {
    /// Returns an address that follows a name of the cluster: each message and each call goes to its holder at that
    /// moment, on whatever node, as far as this node has [heard](Self::holder). While no process holds the name,
    /// messages are returned with [`SendFailure::UnknownName`](postroom::error::SendFailure::UnknownName), and calls
    /// fail with [`CallError::UnknownName`](postroom::CallError::UnknownName).
    ///
    /// The holder is said to be a `P`: a message of another type is answered as unhandled. Links and monitors are made
    /// with the holder of that moment, and stay with it. `holder` has the token, and the PID for a certain holder.
    ///
    /// A name has one such address on each node, which costs a lookup with each message. It is kept until the node has
    /// as many as a cluster may have names, 100,000: then those of names without a holder are like addresses of
    /// processes that have ended.
    ///
    /// # Errors
    /// [`NamedError`] if the name is empty or longer than 1,024 bytes, or if there are too many.
    pub fn named<P: Remote + Addressed>(&self, name: &str) -> Result<Address<P>, NamedError> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(NamedError::Length { bytes: name.len() });
        }
        let shared = &self.shared;
        let make = |name: Arc<str>| {
            let view = Arc::clone(&shared.view);
            shared.host.pointer(move || view.names().holder(&name).map(|(pid, _)| pid))
        };
        let pid = shared.pointers.get(name, make, |name| shared.view.names().holder(name).is_some())?;
        Ok(Address::assume(pid))
    }
}
