//! Returning the holder of a name instead of spawning a second process.

use crate::engine::host::Scheduler;
use crate::engine::lifecycle::spawn::Options;
use crate::slots::ProcessKind;
use crate::sync::Arc;
use crate::{Pid, SpawnError};

/// The process that may be returned instead of a new one.
pub(crate) struct Wanted {
    name: Arc<str>,
    kind: &'static ProcessKind,
}

impl Wanted {
    /// Returns the name and type to look for; `None` if the spawn must make a new process.
    #[inline]
    pub(crate) fn of(options: Option<&Options>, kind: &'static ProcessKind) -> Option<Self> {
        let options = options.filter(|options| options.or_existing)?;
        Some(Self { name: options.name.clone()?, kind })
    }

    /// Returns the holder of the name, before or after a race, or the result of `spawn`.
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
            // It has ended since it was found; its type is unknown now.
            _ => Ok(pid),
        }
    }
}
