//! The argument with which a closure of a supervisor or a pool spawns a child, and the permitted return types of the
//! closure.

use super::runtime::Host;
use crate::actor::definition::{Actor, KindOf, Migratable};
use crate::engine::lifecycle::spawn::Noted;
use crate::process::{Process, guardian::Guardian};
use crate::{Address, Pid, Running, Spawn, actor::spawn::SpawnProcess, slots::ProcessKind};
use std::{any::Any, fmt::Display, panic::Location, sync::Arc};

/// A record that belongs to a supervisor: its registry of children, or one run of a child. This module does not know
/// the record's type.
pub(crate) type AnyRegistry = Arc<dyn Any + Send + Sync>;

/// Spawns one child: the argument of the closure with which a supervisor or a pool creates its processes.
///
/// Use it once, for the child itself: `spawn.of(Parser::default()).serve()`. The child runs on the host of its parent.
/// Other processes that the child needs are spawned on the [`host`](Self::host), unsupervised. If the closure then
/// fails, or returns another process, the start fails, and the process that was spawned through this value is killed.
pub struct ChildSpawn {
    host: Host,
    /// Whether the spawner monitors and owns the child.
    is_owned: bool,
    guardian: Option<Arc<dyn Guardian>>,
    /// If the child is a supervisor, the children of its previous incarnation.
    subtree: Option<AnyRegistry>,
    /// The supervisor's view of the child and its siblings.
    siblings: Option<AnyRegistry>,
    /// The supervisor's record of this run of the child.
    run: Option<AnyRegistry>,
    /// Where the PID of the child is recorded, so that its parent can end the child if the closure fails.
    noted: Option<Noted>,
}

/// Describes the fault of a closure that has spawned one process through its [`ChildSpawn`] and returned another.
pub(crate) fn returned_another(spawned: impl Display, returned: Pid) -> String {
    format!(
        "the closure spawned {spawned} through `spawn` but returned {returned}; spawn other processes on `spawn.host()`"
    )
}

impl ChildSpawn {
    pub(crate) fn new(host: Host) -> Self {
        Self { host, is_owned: false, guardian: None, subtree: None, siblings: None, run: None, noted: None }
    }

    /// Creates the `ChildSpawn` of a child that the spawning process monitors and owns.
    pub(crate) fn owned(host: Host, noted: Noted) -> Self {
        Self { is_owned: true, noted: Some(noted), ..Self::new(host) }
    }

    /// Creates the `ChildSpawn` of a supervised child: `run` is notified of the end of the child; `siblings` are the
    /// supervisor's children.
    pub(crate) fn guarded<R: Guardian + 'static>(
        host: Host,
        run: Arc<R>,
        subtree: Option<AnyRegistry>,
        siblings: AnyRegistry,
        noted: Noted,
    ) -> Self {
        let guardian = Some(Arc::clone(&run) as Arc<dyn Guardian>);
        let (siblings, run, noted) = (Some(siblings), Some(run as AnyRegistry), Some(noted));
        Self { host, is_owned: false, guardian, subtree, siblings, run, noted }
    }

    pub(crate) fn run(&self) -> Option<AnyRegistry> {
        self.run.clone()
    }

    pub(crate) fn siblings(&self) -> Option<AnyRegistry> {
        self.siblings.clone()
    }

    /// Spawns a process: set its options, then call one of its entries. See [`Spawn`].
    #[track_caller]
    pub fn of<P>(self, process: P) -> Spawn<P>
    where
        P: Migratable,
    {
        let spawn = Spawn::new(self.host.reference(), Location::caller(), process);
        spawn.for_parent(self.guardian, self.is_owned).noted(self.noted)
    }

    /// Spawns a process with its own thread, on which `make` makes its state; each restart uses a new thread. See
    /// [`Host::spawn_pinned`].
    #[track_caller]
    pub fn of_pinned<P: Actor>(self, make: impl FnOnce() -> P + Send + 'static) -> Spawn<P> {
        let spawn = Spawn::pinned(self.host.reference(), Location::caller(), make);
        spawn.for_parent(self.guardian, self.is_owned).noted(self.noted)
    }

    /// Spawns a hand-written [`Process`]. See [`SpawnProcess`].
    #[track_caller]
    pub fn process<P: Process + Send>(self, process: P) -> SpawnProcess<P> {
        let spawn = SpawnProcess::new(self.host.reference(), Location::caller(), process);
        spawn.for_parent(self.guardian, self.is_owned).noted(self.noted)
    }

    /// Spawns a hand-written [`Process`] with a thread of its own. See [`Host::spawn_process_pinned`].
    #[track_caller]
    pub fn process_pinned<P: Process>(self, make: impl FnOnce() -> P + Send + 'static) -> SpawnProcess<P> {
        let spawn = SpawnProcess::pinned(self.host.reference(), Location::caller(), make);
        spawn.for_parent(self.guardian, self.is_owned).noted(self.noted)
    }

    pub(crate) fn into_parts(self) -> (Host, Option<Arc<dyn Guardian>>, Option<AnyRegistry>) {
        (self.host, self.guardian, self.subtree)
    }

    pub(crate) fn noted(&self) -> Option<Noted> {
        self.noted.clone()
    }

    /// Records the PID of the child. Called for a child whose PID is an alias.
    pub(crate) fn note(&self, pid: Pid) {
        if let Some(noted) = &self.noted {
            let _first = noted.set(pid);
        }
    }

    /// Returns the host of the child.
    pub fn host(&self) -> Host {
        self.host
    }
}

crate::util::debug::impl_debug!([] ChildSpawn, self => "ChildSpawn" { host: self.host, .. });

/// What the entry of a process that was spawned by a [`ChildSpawn`] returns: an [`Address`], a [`Running`] (it is
/// dropped, and the process continues), or a [`Pid`].
pub trait Spawned {
    /// The type of the process; `()` if it is unknown.
    type Process: KnownType;

    /// Whether the child is a supervisor. A supervisor has a tree in addition to its process.
    #[doc(hidden)]
    const IS_TREE: bool = false;

    /// Returns the PID of the process.
    fn pid(&self) -> Pid;

    /// Returns the tree of a supervisor.
    #[doc(hidden)]
    fn subtree(&self) -> Option<AnyRegistry> {
        None
    }
}

/// A process type, as the table of processes identifies it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct KnownKind(pub(crate) &'static ProcessKind);

/// The possible types of [`Spawned::Process`].
#[doc(hidden)]
pub trait KnownType: 'static {
    /// The type that addresses are checked against, if it is known.
    const KIND: Option<KnownKind>;
}

impl<P: Actor> KnownType for P {
    const KIND: Option<KnownKind> = Some(KnownKind(KindOf::<P>::KIND));
}

/// A hand-written process: only its PID is known.
impl KnownType for () {
    const KIND: Option<KnownKind> = None;
}

impl<P: Actor> Spawned for Address<P> {
    type Process = P;

    fn pid(&self) -> Pid {
        Self::pid(*self)
    }
}

impl<P: Actor, T: Send + 'static, E: Send + 'static> Spawned for Running<P, T, E> {
    type Process = P;

    fn pid(&self) -> Pid {
        Self::pid(self)
    }
}

impl Spawned for Pid {
    type Process = ();

    fn pid(&self) -> Pid {
        *self
    }
}
