//! Environment variables that make tests run longer or repeat them.

use std::str::FromStr;

/// Returns the value of an environment variable, or `None` if it is not set or does not parse as `T`.
pub fn variable<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}
