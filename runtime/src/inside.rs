//! What a context can do that needs to know what kind of process it belongs to, and where that runs.

use crate::actor::address::Address;
use crate::actor::context::Context;
use crate::actor::definition::Actor;
use crate::actor::spawn::{Spawn, SpawnProcess};
use crate::process::Process;
use crate::runtime::Host;

impl<P: Actor> Context<P> {
    /// The process's own address.
    ///
    /// # Panics
    /// As [`Context::pid`].
    pub fn address(&self) -> Address<P> {
        Address::new(self.pid())
    }

    /// The host that it runs on; `None` if its machine is driven by hand.
    pub fn host(&self) -> Option<Host> {
        Host::current()
    }

    /// Spawns a process on the same host. See [`Spawn`].
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn spawn<Q: Actor>(&self, process: Q) -> Spawn<Q> {
        self.host_or_panic().spawn(process)
    }

    /// Spawns a process that is a hand-written [`Process`]. See [`SpawnProcess`].
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn spawn_process<Q: Process>(&self, process: Q) -> SpawnProcess<Q> {
        self.host_or_panic().spawn_process(process)
    }

    #[track_caller]
    pub(crate) fn host_or_panic(&self) -> Host {
        match Host::current() {
            Some(host) => host,
            None => panic!("a process that is driven by hand has no host"),
        }
    }
}
