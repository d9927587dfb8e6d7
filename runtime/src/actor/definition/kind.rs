//! Facts about a process type that need no instance.

use super::actor::Actor;
use crate::slots::ProcessKind;
use std::{any::TypeId, marker::PhantomData};

/// The table of facts for processes of type `P`.
pub(crate) struct KindOf<P>(PhantomData<P>);

impl<P: Actor> KindOf<P> {
    pub(crate) const KIND: &'static ProcessKind = &ProcessKind {
        name: || P::NAME,
        type_id: TypeId::of::<P>(),
        answers: |protocol| P::PROTOCOLS.iter().any(|answered| answered.type_id == protocol),
    };
}

/// Returns the entry of that name if it is async: the process then lives inside it.
pub(crate) fn async_entry<P: Actor>(name: &str) -> Option<&'static str> {
    P::ENTRIES.iter().find(|entry| entry.is_async && entry.name == name).map(|entry| entry.name)
}

/// Returns whether one of these signals is the exit of a linked process.
pub(crate) const fn traps_exits(signals: &[&str]) -> bool {
    let mut index = 0;
    while index < signals.len() {
        if matches!(signals[index].as_bytes(), b"Exit") {
            return true;
        }
        index += 1;
    }
    false
}
