//! A process that has the name already, in place of one that is to be spawned with it.

use crate::engine::host::Scheduler;
use crate::engine::lifecycle::spawn::Options;
use crate::errors::SpawnError;
use crate::pid::Pid;
use crate::slots::ProcessKind;
use crate::sync::Arc;

/// Which process does as well as the one that is to be spawned.
pub(crate) struct Wanted {
    name: Arc<str>,
    kind: &'static ProcessKind,
}

impl Wanted {
    /// That of a spawn with these options; `None` if it has to be a new one.
    #[inline]
    pub(crate) fn of(options: Option<&Options>, kind: &'static ProcessKind) -> Option<Self> {
        let options = options.filter(|options| options.or_existing)?;
        Some(Self { name: options.name.clone()?, kind })
    }

    /// The one that is there, or that was faster than `spawn`; else what `spawn` gives.
    #[inline]
    pub(crate) fn or_spawn(
        wanted: Option<Self>,
        host: &'static Scheduler,
        spawn: impl FnOnce() -> Result<Pid, SpawnError>,
    ) -> Result<Pid, SpawnError> {
        let Some(wanted) = wanted else { return spawn() };
        if let Some(pid) = host.names.whereis(&wanted.name) {
            return wanted.check(pid);
        }
        match spawn() {
            Err(SpawnError::Name { holder, .. }) => wanted.check(holder),
            spawned => spawned,
        }
    }

    fn check(&self, pid: Pid) -> Result<Pid, SpawnError> {
        match crate::routing::alias::kind(pid) {
            Some(found) if found.type_id != self.kind.type_id => {
                let (expected, found) = ((self.kind.name)(), (found.name)());
                Err(SpawnError::NameType { name: self.name.to_string(), pid, expected, found })
            }
            // One that has ended since it was found was there: of its type nothing is known any more.
            _ => Ok(pid),
        }
    }
}
