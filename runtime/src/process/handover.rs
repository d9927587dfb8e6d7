//! Upgrades of a process to another definition, as the scheduler sees them.

use super::kind::{KindOfProcess, ProcessKind};
use super::{Process, body::Body};
use std::any::Any;

/// A request to a process to hand its state to another definition. The process answers or refuses it; dropping it means
/// that it reached no live process.
pub struct Upgrade(Box<dyn UpgradeRequest>);

/// A request with its type erased.
pub(crate) trait UpgradeRequest: Any + Send {
    fn refuse(self: Box<Self>, refusal: UpgradeRefusal);
}

#[derive(Clone, Copy)]
pub(crate) enum UpgradeRefusal {
    /// The process has this type instead.
    Type(&'static str),
    /// The process is running this async entry.
    Entry(&'static str),
}

impl Upgrade {
    pub(crate) fn new(request: impl UpgradeRequest) -> Self {
        Self(Box::new(request))
    }

    pub(crate) fn refuse(self, refusal: UpgradeRefusal) {
        self.0.refuse(refusal);
    }

    pub(crate) fn is<R: UpgradeRequest>(&self) -> bool {
        (&*self.0 as &dyn Any).is::<R>()
    }

    pub(crate) fn open<R: UpgradeRequest>(self) -> Result<Box<R>, Self> {
        if !self.is::<R>() {
            return Err(self);
        }
        (self.0 as Box<dyn Any>).downcast().map_err(|_| unreachable!("looked at before"))
    }
}

crate::util::debug::impl_debug!([] Upgrade, self => "Upgrade");

/// A process of another definition, ready to be installed.
pub(crate) struct Successor {
    pub(crate) body: Body,
    pub(crate) kind: &'static ProcessKind,
    /// Notifies the requester. If it is dropped uncalled, it reports that the process has ended.
    pub(crate) done: Option<Box<dyn FnOnce() + Send>>,
}

impl Successor {
    /// Creates a successor from a hand-written process, without a waiting requester.
    pub(crate) fn by_hand<P: Process + Send>(process: P) -> Self {
        Self { body: Body::new(process), kind: KindOfProcess::<P>::KIND, done: None }
    }
}
