//! The values that a process hands on to what it spawns, as the thread that runs or starts it has them.

use crate::slots::slot::cold_state::Values;
use crate::sync::Arc;
use crate::util::panics::{Site, contain};
use std::any::{Any, TypeId};
use std::cell::Cell;
use std::collections::HashMap;

thread_local! {
    /// Whether the thread runs or starts a process with values to hand on.
    pub(crate) static HAS_VALUES: Cell<bool> = const { Cell::new(false) };
}

/// The values of a process that is spawned with `own`.
pub(crate) fn with_inherited(own: Option<&HashMap<TypeId, Arc<dyn Any + Send + Sync>>>) -> Option<Values> {
    let inherited = inherited_values();
    let Some(own) = own.filter(|own| !own.is_empty()) else { return inherited };
    let mut all = inherited.map_or_else(HashMap::new, |inherited| HashMap::clone(&inherited));
    all.extend(own.iter().map(|(id, value)| (*id, value.clone())));
    Some(Arc::new(all))
}

thread_local! {
    /// The values of the process whose step this thread runs.
    static VALUES: std::cell::RefCell<Option<Values>> = const { std::cell::RefCell::new(None) };
}

/// The values that a process spawned now inherits.
pub(crate) fn inherited_values() -> Option<Values> {
    if !HAS_VALUES.get() {
        return None;
    }
    VALUES.try_with(|values| values.borrow().clone()).ok().flatten()
}

/// From here on this thread hands these values on; gives those before.
pub(crate) fn replace_values(values: Option<Values>) -> Option<Values> {
    HAS_VALUES.set(values.is_some());
    // Not there any more in the destructors of a thread's own variables, where nothing is inherited.
    VALUES.try_with(|own| own.replace(values)).unwrap_or_default()
}

/// From here on this thread runs a process without values.
pub(crate) fn forget_values() {
    if HAS_VALUES.get() {
        set_values(None);
    }
}

/// From here on this thread runs a process with these values.
pub(crate) fn set_values(values: Option<Values>) {
    // Dropped when the cell is free again, and under guard: the last one to hold a value runs its user's drop.
    let before = replace_values(values);
    if let Err(panic) = contain(Site::InheritedDrop, || drop(before)) {
        crate::util::log::error!(%panic, "the drop of an inherited value panicked");
    }
}
