//! The storage of a process's state.

use super::Process;
use crate::util::block::Block;

/// A process in its own block of memory.
pub(crate) type Body = Block<dyn Process + Send>;

impl Body {
    pub(crate) fn new<P: Process + Send>(process: P) -> Self {
        // SAFETY: the pointer comes from `into_raw` and is converted back only here.
        unsafe { Self::from_raw(Block::of(process).into_raw()) }
    }
}
