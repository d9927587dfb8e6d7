//! Addresses that follow a name of the cluster from holder to holder.

use super::Cluster;
use crate::names::MAX_NAME;
use postroom::generic::Addressed;
use postroom::remote::Remote;
use postroom::routing::Pointer;
use postroom::{Address, Pid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most names that a node has addresses for: as many as a cluster has names.
const MAX_POINTERS: usize = 100_000;

/// Why there is no address for a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamedError {
    /// The name has no bytes, or too many.
    #[error("a name of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// How many.
        bytes: usize,
    },
    /// This node has addresses for as many names as there may be, and each of those has a holder.
    #[error("this node has addresses for {limit} names, all of which have holders; ask for fewer")]
    TooMany {
        /// How many.
        limit: usize,
    },
}

/// The addresses of one node that follow names: one for each name that was asked for.
pub(super) struct Pointers {
    by_name: Mutex<BTreeMap<Arc<str>, Pointer>>,
    limit: usize,
}

impl Default for Pointers {
    fn default() -> Self {
        Self { by_name: Mutex::default(), limit: MAX_POINTERS }
    }
}

impl Pointers {
    /// Returns the pointer for a name, made by `make` the first time. When there are too many, those whose names have
    /// no holder go first.
    fn get(
        &self,
        name: &str,
        make: impl FnOnce(Arc<str>) -> Pointer,
        has_holder: impl Fn(&str) -> bool,
    ) -> Result<Pid, NamedError> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pointer) = by_name.get(name) {
            return Ok(pointer.pid());
        }
        let mut retired = BTreeMap::new();
        if by_name.len() >= self.limit {
            retired = by_name.extract_if(.., |name, _| !has_holder(name)).collect();
        }
        let made = if by_name.len() < self.limit {
            let name = Arc::<str>::from(name);
            Ok(by_name.entry(Arc::clone(&name)).or_insert_with(|| make(name)).pid())
        } else {
            Err(NamedError::TooMany { limit: self.limit })
        };
        drop(by_name);
        // Outside the lock: watchers of groups hear of their ends.
        drop(retired);
        made
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use postroom::Runtime;

    /// Catches: a leak in a program that asks for ever new names; an address that goes though its name has a holder.
    #[test]
    fn addresses_are_bounded_and_those_of_held_names_stay() {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let pointers = Pointers { limit: 3, ..Pointers::default() };
        let make = |_| runtime.pointer(|| None);
        let get = |name: &str| pointers.get(name, make, |name| name.starts_with("held"));
        let first = get("held-1").unwrap();
        (0..100).for_each(|number| _ = get(&format!("free-{number}")).unwrap());
        assert!(pointers.by_name.lock().unwrap().len() <= 3);
        assert_eq!(get("held-1"), Ok(first));
        assert!(get("held-2").is_ok() && get("held-3").is_ok());
        assert_eq!(get("held-4"), Err(NamedError::TooMany { limit: 3 }));
        assert_eq!(get("held-1"), Ok(first));
    }
}
