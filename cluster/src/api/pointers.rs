//! The addresses on a node that follow names of the cluster.

use crate::names::MAX_NAME;
use postroom::Pid;
use postroom::routing::Pointer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of names that a node has addresses for: as many as a cluster may have.
const MAX_POINTERS: usize = 100_000;

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamedError {
    /// The name is empty or too long.
    #[error("a name of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// This node has the maximum number of addresses, and all of their names have holders.
    #[error("this node has addresses for {limit} names, all of which have holders; ask for fewer")]
    TooMany {
        /// The maximum.
        limit: usize,
    },
}

/// The addresses on a node that follow names, one for each name that was requested.
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
    /// Returns the pointer for a name, which `make` creates on first use. If there are too many pointers, those of
    /// names without a holder are removed.
    pub(super) fn get(
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
        // Dropped outside the lock: the end of a pointer notifies watchers of groups.
        drop(retired);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postroom::Runtime;

    /// Catches: a leak in a program that keeps requesting new names; an address that is removed although a process
    /// holds its name.
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
