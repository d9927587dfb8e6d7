//! How a process hands its state to another definition, as far as the scheduler has to do with it.

use super::Process;
use super::body::Body;
use super::kind::{KindOfProcess, ProcessKind};
use std::any::Any;
use std::fmt;

/// A wish that a process hands its state to another definition. The process answers it, or refuses; one that is dropped
/// was never heard by a living process.
pub struct Upgrade(Box<dyn UpgradeRequest>);

/// The wish in terms of types.
pub(crate) trait UpgradeRequest: Send {
    /// Says why not.
    fn refuse(self: Box<Self>, refusal: UpgradeRefusal);
    /// The wish as what it is.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
    /// The same, to look at it.
    fn as_any(&self) -> &dyn Any;
}

/// Why a process does not do as it was asked.
#[derive(Clone, Copy)]
pub(crate) enum UpgradeRefusal {
    /// It is of this type.
    Type(&'static str),
    /// It runs this async entry.
    Entry(&'static str),
}

impl Upgrade {
    pub(crate) fn new(request: impl UpgradeRequest + 'static) -> Self {
        Self(Box::new(request))
    }

    pub(crate) fn refuse(self, refusal: UpgradeRefusal) {
        self.0.refuse(refusal);
    }

    /// Returns whether it is an `R`.
    pub(crate) fn is<R: UpgradeRequest + 'static>(&self) -> bool {
        self.0.as_any().is::<R>()
    }

    /// The wish, if it is an `R`.
    pub(crate) fn open<R: UpgradeRequest + 'static>(self) -> Result<Box<R>, Self> {
        if !self.is::<R>() {
            return Err(self);
        }
        match self.0.into_any().downcast() {
            Ok(request) => Ok(request),
            Err(_) => unreachable!("looked at before"),
        }
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upgrade")
    }
}

/// Another definition, ready to take a process's place.
pub(crate) struct Successor {
    pub(crate) body: Body,
    pub(crate) kind: &'static ProcessKind,
    /// Tells the process that asked for it. Dropped uncalled, it tells that this one has ended.
    pub(crate) done: Option<Box<dyn FnOnce() + Send>>,
}

impl Successor {
    /// A hand-written one, which is not waited for.
    pub(crate) fn by_hand<P: Process + Send>(process: P) -> Self {
        Self { body: Body::new(process), kind: KindOfProcess::<P>::KIND, done: None }
    }
}
