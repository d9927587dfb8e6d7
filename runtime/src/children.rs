//! What a process that starts others for its user hands to the user's closure: the door to spawn by, as a supervisor or a
//! pool does, and what may come back through it.

use crate::actor::address::Address;
use crate::actor::definition::Actor;
use crate::actor::kind::KindOf;
use crate::actor::spawn::{Running, Spawn, SpawnProcess};
use crate::pid::Pid;
use crate::process::Process;
use crate::runtime::Host;
use crate::table::ProcessKind;

/// Spawns one child: what the closure that a supervisor or a pool makes its processes with is given.
///
/// It is used as a [`Host`] is: `spawn.of(Parser::default()).serve()`. The child runs on the host of whoever starts it,
/// which is its parent.
#[derive(Clone, Copy, Debug)]
pub struct ChildSpawn {
    host: Host,
    /// Whether the child is monitored and owned by whoever spawns it.
    bound: bool,
}

impl ChildSpawn {
    #[allow(dead_code, reason = "called by supervisors")]
    pub(crate) fn new(host: Host) -> Self {
        Self { host, bound: false }
    }

    /// The process that spawns by it monitors and owns what it spawns.
    pub(crate) fn bound(host: Host) -> Self {
        Self { host, bound: true }
    }

    /// Spawns a process: say what it should have, then call one of its entries by name. See [`Spawn`].
    #[track_caller]
    pub fn of<P: Actor>(&self, process: P) -> Spawn<P> {
        let spawn = self.host.spawn(process);
        if self.bound { spawn.monitored().owned() } else { spawn }
    }

    /// Spawns a hand-written [`Process`]. See [`SpawnProcess`].
    #[track_caller]
    pub fn process<P: Process>(&self, process: P) -> SpawnProcess<P> {
        let spawn = self.host.spawn_process(process);
        if self.bound { spawn.monitored().owned() } else { spawn }
    }

    /// Where it spawns.
    pub fn host(&self) -> Host {
        self.host
    }
}

/// A process that a [`ChildSpawn`] has spawned, in the form that its entry gives: an [`Address`], a [`Running`] (which is
/// dropped: the process runs on), or a [`Pid`].
pub trait Spawned {
    /// Its type; `()` where that is not known.
    type Process;

    /// Its PID.
    fn pid(&self) -> Pid;

    /// What addresses of it are checked by, where that is known beforehand.
    #[doc(hidden)]
    fn kind() -> Option<Kind> {
        None
    }
}

/// A type of process, as the table knows it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Kind(pub(crate) &'static ProcessKind);

impl<P: Actor> Spawned for Address<P> {
    type Process = P;

    fn pid(&self) -> Pid {
        Self::pid(*self)
    }

    fn kind() -> Option<Kind> {
        Some(Kind(KindOf::<P>::KIND))
    }
}

impl<P, T: Send + 'static, E: Send + 'static> Spawned for Running<P, T, E> {
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
