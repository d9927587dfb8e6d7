//! The hosts that this node has or had, by their numbers.

use crate::env::program::HOSTLESS;
use crate::sync::{AtomicU16, OnceLock, Ordering, PoisonError, RwLock};
use std::collections::HashMap;

/// Returns whether each is being shut down, or has been.
fn hosts() -> &'static RwLock<HashMap<u16, bool>> {
    static HOSTS: OnceLock<RwLock<HashMap<u16, bool>>> = OnceLock::new();
    HOSTS.get_or_init(|| RwLock::new(HashMap::from([(HOSTLESS, false)])))
}

fn set(number: u16, is_down: bool) {
    hosts().write().unwrap_or_else(PoisonError::into_inner).insert(number, is_down);
}

fn get(number: u16) -> Option<bool> {
    hosts().read().unwrap_or_else(PoisonError::into_inner).get(&number).copied()
}

/// A number for a new host. After 65,535 of them the numbers start anew: what makes a PID unique is its slot and
/// generation, which all hosts of a program share.
pub(crate) fn new_host() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % HOSTLESS;
    set(number, false);
    number
}

/// The shutdown of the host of that number has begun.
pub(crate) fn goes_down(number: u16) {
    set(number, true);
}

/// Returns whether this node has, or had, a host of that number.
pub(crate) fn is_known(number: u16) -> bool {
    get(number).is_some()
}

/// Returns whether the host of that number is being shut down, or has been; if several have had the number, the last of
/// them.
pub(crate) fn is_down(number: u16) -> bool {
    get(number) == Some(true)
}
