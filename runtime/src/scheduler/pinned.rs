//! stub
use super::birth::{Birth, First};
use super::host::Host;
use crate::errors::{InitError, SpawnError};
use crate::pid::Pid;
use crate::process::{InitContext, Process};

impl Host {
    pub(crate) fn spawn_pinned<P: Process>(
        &'static self,
        _birth: Birth,
        _make: impl FnOnce() -> P + Send + 'static,
        _start: impl FnOnce(&mut P, &mut InitContext<'_>) -> Result<First, InitError> + Send + 'static,
    ) -> Result<Pid, SpawnError> {
        Err(SpawnError::Slots)
    }
}
pub(crate) fn note_entry(_pid: Pid, _entry: &'static &'static str) {}
