//! What belongs to the world that a program's processes live in, and not to one host.
//!
//! An address outlives the host that gave it out, so all hosts of a program share the slots, the aliases, the wait
//! graph and the like: they are one world. Each is a static of type [`World`], and a test refuses any other static that
//! is neither memory nor the machine's. So what several worlds side by side need, each with PIDs of its own, is a
//! change of this file: the world that a thread is in would decide what it is led to here. There is one, at no cost.

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
