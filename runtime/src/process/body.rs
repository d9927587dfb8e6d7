//! The storage of a process's state.

use super::Process;
use crate::{mem::size_classes, util::defer::defer};
use std::ops::{Deref, DerefMut};
use std::{alloc::Layout, ptr::NonNull};

/// A process in its own block of memory.
pub(crate) struct Body(NonNull<dyn Process>);

// SAFETY: it owns the process, which `new` requires to be `Send`.
unsafe impl Send for Body {}

impl Body {
    pub(crate) fn new<P: Process + Send>(process: P) -> Self {
        let place = size_classes::take(Layout::new::<P>()).cast::<P>();
        // SAFETY: the block has the layout of `P`, and no other owner.
        unsafe { place.write(process) };
        Self(place)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // SAFETY: it is valid until it is dropped below.
        let layout = Layout::for_value(unsafe { self.0.as_ref() });
        // Even if the drop of the process panics.
        let block = self.0.cast();
        // SAFETY: `new` took the block with this layout; its value has been dropped.
        let _give_back = defer(|| unsafe { size_classes::give_back(block, layout) });
        // SAFETY: owned by this, and not used afterwards.
        unsafe { self.0.drop_in_place() };
    }
}

impl Deref for Body {
    type Target = dyn Process;

    #[inline]
    fn deref(&self) -> &dyn Process {
        // SAFETY: owned by this, and borrowed with it.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Body {
    #[inline]
    fn deref_mut(&mut self) -> &mut dyn Process {
        // SAFETY: as above, exclusively.
        unsafe { self.0.as_mut() }
    }
}
