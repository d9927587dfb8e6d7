//! A stand-in for `util/dispose.rs`.

use super::panics::Site;

/// Drops `value`.
pub(crate) fn dispose<T>(_site: Site, value: T) {
    drop(value);
}
