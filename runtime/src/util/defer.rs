//! A guard that runs a closure when it is dropped, even during a panic.

pub(crate) struct Defer<F: FnMut()>(F);

/// Runs `action` when the returned guard is dropped.
#[inline]
pub(crate) fn defer<F: FnMut()>(action: F) -> Defer<F> {
    Defer(action)
}

impl<F: FnMut()> Drop for Defer<F> {
    #[inline]
    fn drop(&mut self) {
        (self.0)();
    }
}
