//! Variables of the environment that make a test longer, or repeat it.

use std::str::FromStr;

/// Returns the value of a variable; `None` if it is not set or not of that type.
pub fn variable<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}
