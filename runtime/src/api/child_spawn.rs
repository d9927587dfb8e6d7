//! What a process that starts others for its user hands to the user's closure: the door to spawn by, as a supervisor or
//! a pool does, and what may come back through it.

use super::runtime::Host;
use crate::actor::definition::actor::{Actor, Migratable};
use crate::actor::definition::kind::KindOf;
use crate::actor::handle::address::Address;
use crate::actor::spawn::builder::{Running, Spawn};
use crate::actor::spawn::by_hand::SpawnProcess;
use crate::pid::Pid;
use crate::process::Process;
use crate::process::guardian::Guardian;
use crate::slots::ProcessKind;
use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// What a child leaves behind for its successor, and what it has besides its process.
pub(crate) type Inheritance = Arc<dyn Any + Send + Sync>;

/// Spawns one child: what the closure that a supervisor or a pool makes its processes with is given.
///
/// It is used once, for the child itself: `spawn.of(Parser::default()).serve()`. The child runs on the host of the
/// process that starts it, which is its parent. What the child needs besides is spawned on the [`host`](Self::host),
/// and is not supervised.
pub struct ChildSpawn {
    host: Host,
    /// Whether the child is monitored and owned by its spawner.
    bound: bool,
    guardian: Option<Arc<dyn Guardian>>,
    /// What the child's last life left behind for the next one.
    inheritance: Option<Inheritance>,
    /// What is known of its siblings, and itself, by their supervisor.
    siblings: Option<Inheritance>,
}

impl ChildSpawn {
    pub(crate) fn new(host: Host) -> Self {
        Self { host, bound: false, guardian: None, inheritance: None, siblings: None }
    }

    /// The process that spawns by it monitors and owns what it spawns.
    pub(crate) fn bound(host: Host) -> Self {
        Self { bound: true, ..Self::new(host) }
    }

    /// For a supervised child: `guardian` is told of its end, and `siblings` are the children of its supervisor.
    pub(crate) fn guarded(
        host: Host,
        guardian: Arc<dyn Guardian>,
        inheritance: Option<Inheritance>,
        siblings: Inheritance,
    ) -> Self {
        Self { host, bound: false, guardian: Some(guardian), inheritance, siblings: Some(siblings) }
    }

    /// What is known of the child's siblings.
    pub(crate) fn siblings(&self) -> Option<Inheritance> {
        self.siblings.clone()
    }

    /// Spawns a process: say what it should have, then call one of its entries by name. See [`Spawn`].
    #[track_caller]
    pub fn of<P>(self, process: P) -> Spawn<P>
    where
        P: Migratable,
    {
        let spawn = Spawn::new(self.host.life(), Location::caller(), process).guarded(self.guardian);
        if self.bound { spawn.monitored().owned() } else { spawn }
    }

    /// Spawns a process with a thread of its own, on which `make` makes its state; each time it is started again that
    /// is another thread. See [`Host::spawn_pinned`].
    #[track_caller]
    pub fn of_pinned<P: Actor>(self, make: impl FnOnce() -> P + Send + 'static) -> Spawn<P> {
        let spawn = Spawn::pinned(self.host.life(), Location::caller(), make).guarded(self.guardian);
        if self.bound { spawn.monitored().owned() } else { spawn }
    }

    /// Spawns a hand-written [`Process`]. See [`SpawnProcess`].
    #[track_caller]
    pub fn process<P: Process + Send>(self, process: P) -> SpawnProcess<P> {
        let spawn = SpawnProcess::new(self.host.life(), Location::caller(), process).guarded(self.guardian);
        if self.bound { spawn.monitored().owned() } else { spawn }
    }

    /// Spawns a hand-written [`Process`] with a thread of its own. See [`Host::spawn_process_pinned`].
    #[track_caller]
    pub fn process_pinned<P: Process>(self, make: impl FnOnce() -> P + Send + 'static) -> SpawnProcess<P> {
        let spawn = SpawnProcess::pinned(self.host.life(), Location::caller(), make).guarded(self.guardian);
        if self.bound { spawn.monitored().owned() } else { spawn }
    }

    /// What it consists of, for a process that is spawned in a way of its own.
    pub(crate) fn into_parts(self) -> (Host, Option<Arc<dyn Guardian>>, Option<Inheritance>) {
        (self.host, self.guardian, self.inheritance)
    }

    /// Where it spawns.
    pub fn host(&self) -> Host {
        self.host
    }
}

impl fmt::Debug for ChildSpawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpawn").field("host", &self.host).finish_non_exhaustive()
    }
}

/// A process that a [`ChildSpawn`] has spawned, in the form that its entry gives: an [`Address`], a [`Running`] (which
/// is dropped: the process runs on), or a [`Pid`].
pub trait Spawned {
    /// Its type; `()` where that is not known.
    type Process;

    /// Whether it is the supervisor of others, so that there is more to it than its process.
    #[doc(hidden)]
    const HAS_ESTATE: bool = false;

    /// Its PID.
    fn pid(&self) -> Pid;

    /// What addresses of it are checked by, where that is known beforehand.
    #[doc(hidden)]
    fn kind() -> Option<KnownKind> {
        None
    }

    /// What there is more.
    #[doc(hidden)]
    fn inheritance(&self) -> Option<Inheritance> {
        None
    }
}

/// A type of process, as the table knows it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct KnownKind(pub(crate) &'static ProcessKind);

impl KnownKind {
    pub(crate) fn of<P: Actor>() -> Self {
        Self(KindOf::<P>::KIND)
    }
}

/// What [`Spawned::Process`] can be.
#[doc(hidden)]
pub trait KnownType {
    /// What addresses of it are checked by, if it is known.
    fn kind() -> Option<KnownKind>;
}

impl<P: Actor> KnownType for P {
    fn kind() -> Option<KnownKind> {
        Some(KnownKind::of::<P>())
    }
}

/// A hand-written process, of which only the PID is known.
impl KnownType for () {
    fn kind() -> Option<KnownKind> {
        None
    }
}

impl<P: Actor> Spawned for Address<P> {
    type Process = P;

    fn pid(&self) -> Pid {
        Self::pid(*self)
    }

    fn kind() -> Option<KnownKind> {
        Some(KnownKind::of::<P>())
    }
}

impl<P: Actor, T: Send + 'static, E: Send + 'static> Spawned for Running<P, T, E> {
    type Process = P;

    fn pid(&self) -> Pid {
        Self::pid(self)
    }

    fn kind() -> Option<KnownKind> {
        Some(KnownKind::of::<P>())
    }
}

impl Spawned for Pid {
    type Process = ();

    fn pid(&self) -> Pid {
        *self
    }
}
