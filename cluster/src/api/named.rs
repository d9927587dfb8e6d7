//! Addresses that follow a name of the cluster from holder to holder.

use super::{Cluster, NamedError};
use crate::names::MAX_NAME;
use postroom::Address;
use postroom::generic::Addressed;
use postroom::remote::Remote;
use std::sync::Arc;

impl Cluster {
    /// Returns an address that follows a name of the cluster: each message and each call goes to the current holder, on
    /// any node, as far as this node [knows](Self::holder) it. While no process holds the name, messages are returned
    /// with [`SendFailure::UnknownName`](postroom::error::SendFailure::UnknownName), and calls fail with
    /// [`CallError::UnknownName`](postroom::CallError::UnknownName).
    ///
    /// The holder is not checked to be a `P`: a process of another type answers the messages of `P` as unhandled. Links
    /// and monitors are made with the current holder and stay with it. For the token, or the PID of a particular
    /// holder, use `holder`.
    ///
    /// Each node has one such address per name, and each message costs a lookup. The addresses are kept until the node
    /// has 100,000 of them, the maximum number of names in a cluster. At that limit, the addresses of names without a
    /// holder are removed, and from then on behave like addresses of processes that have ended.
    ///
    /// # Errors
    /// A [`NamedError`] if the name is empty or longer than 1,024 bytes, or if there are too many addresses.
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
