//! Dropping user values, whose destructors may panic or block.

use super::notifiers;
use super::panics::{Site, contain};

/// Drops a value that contains user data. A panic in its destructor is logged, and has no other consequence. If the
/// calling thread must not run user code, a notifier drops it.
#[inline]
pub(crate) fn dispose<T: Send + 'static>(site: Site, value: T) {
    if std::mem::needs_drop::<T>() && notifiers::is_needed() {
        return notifiers::notify(Box::new(move || dispose_here(site, value)));
    }
    dispose_here(site, value);
}

/// Like [`dispose`], for a value that cannot leave its thread. That thread must be allowed to run user code.
#[inline]
pub(crate) fn dispose_here<T>(site: Site, value: T) {
    if std::mem::needs_drop::<T>()
        && let Err(panic) = contain(site, || drop(value))
    {
        crate::util::log::error!(%panic, what = site.text(), "the drop of a value panicked");
    }
}
