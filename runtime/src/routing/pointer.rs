//! Pointers: aliases whose target is determined by a closure.

use super::alias::{Alias, AliasTarget};
use crate::call::package::{Package, Undeliverable};
use crate::errors::SendFailure;
use crate::pid::Pid;
use crate::slots::ProcessKind;
use crate::sync::Arc;
use crate::util::panics::{Site, contain};

/// A PID that resolves to a process of this node or another. The process may change at any time. Created by
/// [`Host::pointer`](crate::Host::pointer). When the pointer is dropped, its PID behaves like that of an ended process.
pub struct Pointer(Alias);

impl Pointer {
    pub(crate) fn new(owner: u16, now: impl Fn() -> Option<Pid> + Send + Sync + 'static) -> Self {
        Self(Alias::new(Arc::new(PointerTarget { owner, now })))
    }

    /// Returns the PID. A message to it goes to the process that it resolves to when the message is sent.
    pub fn pid(&self) -> Pid {
        self.0.pid()
    }
}

crate::util::debug::impl_debug!([] Pointer, self => "Pointer{}", self.pid());

struct PointerTarget<F> {
    owner: u16,
    now: F,
}

impl<F: Fn() -> Option<Pid> + Send + Sync> AliasTarget for PointerTarget<F> {
    fn now(&self) -> Option<Pid> {
        contain(Site::Transport, || (self.now)()).unwrap_or_else(|panic| {
            crate::util::log::error!(%panic, "the code that leads a pointer panicked: it leads nowhere");
            None
        })
    }

    fn take(&self, package: Package) -> Result<(), Undeliverable> {
        Err(Undeliverable { package, reason: SendFailure::UnknownName })
    }

    fn life(&self) -> Option<Pid> {
        self.now()
    }

    fn kind(&self) -> Option<&'static ProcessKind> {
        None
    }

    fn owner(&self) -> u16 {
        self.owner
    }
}
