//! State that belongs to the world of a program's processes, rather than to one host.
//!
//! An address outlives its host, so all hosts of a program share the slots, the aliases, the wait graph and the like:
//! they are one world. Each is a static of type [`World`], and a test refuses any other static that is neither memory
//! nor the machine's. So several worlds side by side, each with its own PIDs, need a change of this file only: a
//! thread's current world would decide what it dereferences to. There is one world, at no cost.

use std::ops::Deref;

/// A value that all hosts of the world share.
pub(crate) struct World<T>(T);

impl<T> World<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for World<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
