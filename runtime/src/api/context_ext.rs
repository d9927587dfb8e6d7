//! The operations of a context that need the type of its process, or the host.

use super::runtime::Host;
use crate::actor::definition::{Actor, Migratable};
use crate::engine::lifecycle::spawn::current_host_ref;
use crate::{Address, Context, Spawn, actor::spawn::SpawnProcess, process::Process};
use std::panic::Location;

impl<P: Actor> Context<P> {
    /// Returns the address of this process.
    ///
    /// # Panics
    /// In a machine that is driven by hand: see [`Context::pid`].
    pub fn address(&self) -> Address<P> {
        Address::new(self.pid())
    }

    /// Returns the host of this process; `None` if its machine is driven by hand.
    pub fn host(&self) -> Option<Host> {
        Host::current()
    }

    /// Spawns a process on the same host. See [`Spawn`].
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn spawn<Q>(&self, process: Q) -> Spawn<Q>
    where
        Q: Migratable,
    {
        match current_host_ref() {
            Some(host) => Spawn::new(host, Location::caller(), process),
            None => driven_by_hand(),
        }
    }

    /// Spawns a process with its own thread on the same host. See [`Host::spawn_pinned`].
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn spawn_pinned<Q: Actor>(&self, make: impl FnOnce() -> Q + Send + 'static) -> Spawn<Q> {
        self.host_or_panic().spawn_pinned(make)
    }

    /// Spawns a hand-written [`Process`]. See [`SpawnProcess`].
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn spawn_process<Q: Process + Send>(&self, process: Q) -> SpawnProcess<Q> {
        self.host_or_panic().spawn_process(process)
    }

    /// Spawns a hand-written [`Process`] with its own thread. See [`Host::spawn_process_pinned`].
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn spawn_process_pinned<Q: Process>(&self, make: impl FnOnce() -> Q + Send + 'static) -> SpawnProcess<Q> {
        self.host_or_panic().spawn_process_pinned(make)
    }

    #[track_caller]
    pub(crate) fn host_or_panic(&self) -> Host {
        match Host::current() {
            Some(host) => host,
            None => driven_by_hand(),
        }
    }
}

#[cold]
#[track_caller]
fn driven_by_hand() -> ! {
    panic!("a process that is driven by hand has no host")
}
