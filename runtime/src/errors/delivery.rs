//! Whether the message of a failed send or call was delivered.

use std::fmt;

/// Whether the message of a failed send or call was delivered, and so whether it may be repeated.
///
/// A message that was *not delivered* can be repeated without harm. One whose delivery is *unknown* may have been
/// handled, in whole or in part, or may be handled later: repeat it only if it is *idempotent*, so that handling it
/// twice has the effect of once, and undo nothing on the assumption that it was not handled. The guide's chapter
/// *Calls* shows how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// No method has seen it or will.
    NotDelivered,
    /// It may have been handled, in whole or in part, or may be handled later.
    Unknown,
    /// Its method has received it and returned.
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
