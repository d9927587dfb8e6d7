//! A stand-in for aliases and liveness. A model decides which processes have exited, and its threads see these exits in
//! one order (`models/registrations` shows that the real liveness check guarantees this, too).

use crate::call::package::{Package, Undeliverable};
use crate::pid::{NodeId, Pid};
use crate::slots::ProcessKind;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The methods of the production trait that the names module needs.
#[allow(dead_code)]
pub(crate) trait AliasTarget: Send + Sync {
    fn now(&self) -> Option<Pid>;
    fn take(&self, package: Package) -> Result<(), Undeliverable>;
    fn life(&self) -> Option<Pid>;
    fn kind(&self) -> Option<&'static ProcessKind>;
    fn owner(&self) -> u16;
}

thread_local! {
    static GIVEN_OUT: Cell<u64> = const { Cell::new(0) };
    static POINTING: RefCell<BTreeSet<Pid>> = const { RefCell::new(BTreeSet::new()) };
    static ENDED: RefCell<BTreeSet<Pid>> = const { RefCell::new(BTreeSet::new()) };
}

/// An alias. It is valid until it is dropped.
pub(crate) struct Alias(Pid);

impl Alias {
    pub(crate) fn new(_behind: Arc<dyn AliasTarget>) -> Self {
        let number = GIVEN_OUT.replace(GIVEN_OUT.get() + 1);
        let pid = Pid::of_alias(NodeId::new(7).expect("a node id"), u16::MAX, 0, number);
        POINTING.with_borrow_mut(|pointing| pointing.insert(pid));
        Self(pid)
    }

    pub(crate) fn pid(&self) -> Pid {
        self.0
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        POINTING.with_borrow_mut(|pointing| pointing.remove(&self.0));
    }
}

/// Returns true if the process is still alive or, for an alias, if it has not been retired.
pub(crate) fn lives(pid: Pid) -> bool {
    if pid.is_alias() {
        POINTING.with_borrow(|pointing| pointing.contains(&pid))
    } else {
        ENDED.with_borrow(|ended| !ended.contains(&pid))
    }
}

/// Returns the number of aliases.
pub(crate) fn count() -> usize {
    POINTING.with_borrow(BTreeSet::len)
}

/// Marks the process as exited.
pub(crate) fn end(pid: Pid) {
    ENDED.with_borrow_mut(|ended| ended.insert(pid));
}

/// Resets the state between executions.
pub(crate) fn reset() {
    GIVEN_OUT.set(0);
    POINTING.take();
    ENDED.take();
}
