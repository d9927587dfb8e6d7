//! What a spawn consists of before its entry is known.

use crate::scheduler::birth::Options;
use crate::scheduler::host::Host;
use std::cell::{Cell, RefCell};
use std::panic::Location;

/// What a spawn consists of, inside the entries that the macro generates.
pub struct SpawnCore<P> {
    pub(crate) host: &'static Host,
    pub(crate) place: &'static Location<'static>,
    pub(crate) process: Cell<Option<P>>,
    /// Made when there are any.
    pub(crate) options: RefCell<Option<Box<Options>>>,
}
