//! The values that spawned processes inherit, in the thread that runs or starts their parent.

use crate::slots::slot::cold_state::{ValueMap, Values};
use crate::sync::Arc;
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

thread_local! {
    /// Whether the thread runs or starts a process with values to pass on.
    pub(crate) static HAS_VALUES: Cell<bool> = const { Cell::new(false) };
    /// The values of the process whose step this thread runs.
    static VALUES: RefCell<Option<Values>> = const { RefCell::new(None) };
}

#[inline]
pub(crate) fn with_inherited(own: Option<&BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>) -> Option<Values> {
    if own.is_none() && !HAS_VALUES.get() { None } else { joined_with_inherited(own) }
}

fn joined_with_inherited(own: Option<&BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>) -> Option<Values> {
    let inherited = inherited_values();
    let Some(own) = own.filter(|own| !own.is_empty()) else { return inherited };
    let mut all = inherited.map_or_else(BTreeMap::new, |inherited| inherited.0.clone());
    all.extend(own.iter().map(|(id, value)| (*id, value.clone())));
    Some(Arc::new(ValueMap(all)))
}

pub(crate) fn inherited_values() -> Option<Values> {
    if !HAS_VALUES.get() {
        return None;
    }
    VALUES.try_with(|values| values.borrow().clone()).ok().flatten()
}

/// Sets the values that this thread passes on; returns the previous ones.
pub(crate) fn replace_values(values: Option<Values>) -> Option<Values> {
    HAS_VALUES.set(values.is_some());
    // The thread-local may be inaccessible in the destructors of others, where nothing is inherited.
    VALUES.try_with(|own| own.replace(values)).unwrap_or_default()
}

/// Returns whether the thread runs or starts a process with values to pass on.
pub(crate) fn has_values() -> bool {
    HAS_VALUES.get()
}

/// Clears the values, because this thread runs a process without any.
pub(crate) fn forget_values() {
    if HAS_VALUES.get() {
        set_values(None);
    }
}

pub(crate) fn set_values(values: Option<Values>) {
    // The previous values are dropped after the cell is released: dropping the last reference to a value runs user
    // code.
    drop(replace_values(values));
}
