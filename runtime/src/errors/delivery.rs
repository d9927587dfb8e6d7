//! How far a message came whose send or call has failed.

use std::fmt;

/// How far a message came that was sent, or called with, in vain: what decides whether it may be repeated.
///
/// A message that was *not delivered* can be repeated without harm. One whose delivery is *unknown* may have been
/// handled, in whole or in part, or be handled later: repeat it only if it is *idempotent*, so that handling it twice
/// is as good as once, and undo nothing on the assumption that it was not handled. The guide's chapter *Calls* shows
/// how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// No method has seen it, and none will.
    NotDelivered,
    /// It may have been handled, in whole or in part, or be handled later.
    Unknown,
    /// Its method has seen it and returned.
    Handled,
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDelivered => "not delivered",
            Self::Unknown => "perhaps handled",
            Self::Handled => "handled",
        })
    }
}
