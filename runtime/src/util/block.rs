//! A value in a block of its own, from the thread's cache.

use super::defer::defer;
use crate::mem::size_classes;
use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Like a `Box`, in memory of the size classes.
pub(crate) struct Block<T: ?Sized>(NonNull<T>);

// SAFETY: it owns the value.
unsafe impl<T: ?Sized + Send> Send for Block<T> {}

impl<T> Block<T> {
    #[inline]
    pub(crate) fn of(value: T) -> Self {
        let place = size_classes::take(Layout::new::<T>()).cast::<T>();
        // SAFETY: the block has the layout of `T`, and no other owner.
        unsafe { place.write(value) };
        Self(place)
    }

    #[inline]
    pub(crate) fn into_value(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the value is moved out, and the block, taken with this layout, freed without it.
        unsafe {
            let value = this.0.read();
            size_classes::give_back(this.0.cast(), Layout::new::<T>());
            value
        }
    }

    /// Moves the value into `to`, with one copy on the stack at a time: for large values.
    pub(crate) fn move_into(self, to: &mut Option<T>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: as above.
        unsafe {
            *to = Some(this.0.read());
            size_classes::give_back(this.0.cast(), Layout::new::<T>());
        }
    }
}

impl<T: ?Sized> Block<T> {
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    /// `place` came from `into_raw`, and is converted back once.
    #[inline]
    pub(crate) unsafe fn from_raw(place: NonNull<T>) -> Self {
        Self(place)
    }
}

impl<T: ?Sized> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: it is valid until it is dropped below.
        let layout = Layout::for_value(unsafe { self.0.as_ref() });
        // Even if the drop of the value panics.
        let block = self.0.cast();
        // SAFETY: taken with this layout; its value has been dropped.
        let _give_back = defer(|| unsafe { size_classes::give_back(block, layout) });
        // SAFETY: owned by this, and not used afterwards.
        unsafe { self.0.drop_in_place() };
    }
}

impl<T: ?Sized> Deref for Block<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: owned by this, and borrowed with it.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Block<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, exclusively.
        unsafe { self.0.as_mut() }
    }
}
