//! Handing the state to another definition, as the scheduler sees it.

use super::kind::{KindOfProcess, ProcessKind};
use super::{Process, body::Body};
use std::any::Any;

/// A request to a process to hand its state to another definition. The process answers or refuses it; dropping it means
/// that no live process got it.
pub struct Upgrade(Box<dyn UpgradeRequest>);

/// A request with its type erased.
pub(crate) trait UpgradeRequest: Any + Send {
    fn refuse(self: Box<Self>, refusal: UpgradeRefusal);
}

#[derive(Clone, Copy)]
pub(crate) enum UpgradeRefusal {
    /// It has this type instead.
    Type(&'static str),
    /// It runs this async entry.
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

/// The process of another definition, ready to be installed.
pub(crate) struct Successor {
    pub(crate) body: Body,
    pub(crate) kind: &'static ProcessKind,
    /// Notifies the requester. Dropped uncalled, it reports that the process has ended.
    pub(crate) done: Option<Box<dyn FnOnce() + Send>>,
}

impl Successor {
    /// Makes one from a hand-written process, without a waiting requester.
    pub(crate) fn by_hand<P: Process + Send>(process: P) -> Self {
        Self { body: Body::new(process), kind: KindOfProcess::<P>::KIND, done: None }
    }
}
