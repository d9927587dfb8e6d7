//! State that belongs to the world of a program's processes, rather than to one host.
//!
//! Addresses outlive their hosts, so all hosts of a program share the slots, the aliases, the wait graph and similar
//! state: they form one world. Each such value is a static of type [`World`], and a test rejects any other static
//! except for those of memory and of the machine. So support for several worlds side by side, each with its own PIDs,
//! needs a change to this file only: a dereference would return the value of the thread's current world. While there is
//! only one world, a dereference costs nothing.

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
