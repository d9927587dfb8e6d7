//! A value in its own block of memory, from the thread's cache.

use super::debug::impl_debug;
use super::defer::defer;
use crate::mem::size_classes;
use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Like a `Box`, but in memory from the size classes.
pub(crate) struct Block<T: ?Sized>(NonNull<T>);

// SAFETY: the block owns the value.
unsafe impl<T: ?Sized + Send> Send for Block<T> {}

impl<T> Block<T> {
    #[inline]
    pub(crate) fn of(value: T) -> Self {
        EmptyBlock::new().fill(value)
    }

    #[inline]
    pub(crate) fn into_value(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the value is moved out, and the block, which was taken with this layout, is given back without a
        // value.
        unsafe {
            let value = this.0.read();
            size_classes::give_back(this.0.cast(), Layout::new::<T>());
            value
        }
    }
}

impl<T: ?Sized> Block<T> {
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    /// `place` must come from `into_raw`, and must be converted back only once.
    #[inline]
    pub(crate) unsafe fn from_raw(place: NonNull<T>) -> Self {
        Self(place)
    }
}

impl<T: ?Sized> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: the value is valid until it is dropped below.
        let layout = Layout::for_value(unsafe { self.0.as_ref() });
        // The guard gives the block back even if the drop of the value panics.
        let block = self.0.cast();
        // SAFETY: the block was taken with this layout; its value has been dropped.
        let _give_back = defer(|| unsafe { size_classes::give_back(block, layout) });
        // SAFETY: this block owns the value, which is not used afterwards.
        unsafe { self.0.drop_in_place() };
    }
}

impl<T: ?Sized> Deref for Block<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this block owns the value, and is borrowed with it.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Block<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the borrow is exclusive.
        unsafe { self.0.as_mut() }
    }
}

/// A block that has no value yet, or whose value has been moved out.
pub struct EmptyBlock<T>(NonNull<T>);

// SAFETY: the block is memory without a value, and this is its only owner.
unsafe impl<T> Send for EmptyBlock<T> {}

impl<T> EmptyBlock<T> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self(size_classes::take(Layout::new::<T>()).cast())
    }

    #[inline(always)]
    pub(crate) fn fill(self, value: T) -> Block<T> {
        let place = ManuallyDrop::new(self).0;
        // SAFETY: the block has the layout of `T`, and no other owner.
        unsafe { place.write(value) };
        Block(place)
    }

    /// # Safety
    /// `place` must come from [`Block::into_raw`], and must be converted back only once. No other code may use its
    /// value, which may be moved out while this block lives.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(place: NonNull<T>) -> Self {
        Self(place)
    }
}

impl<T> Drop for EmptyBlock<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the block was taken with this layout, and has no value.
        unsafe { size_classes::give_back(self.0.cast(), Layout::new::<T>()) };
    }
}

impl_debug!([T] EmptyBlock<T>, self => "EmptyBlock");
