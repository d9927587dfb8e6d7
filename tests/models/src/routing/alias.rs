//! A stand-in for PIDs that point on, and for who lives: a model says which processes have ended. What it says is in
//! one order for all of its threads (`models/registrations` shows that the real one is, too).

use crate::call::package::{Package, Undeliverable};
use crate::pid::{NodeId, Pid};
use crate::slots::ProcessKind;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The production one's, as far as names need it.
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

/// A PID that points on, until this is dropped.
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

/// Whether the process has not ended, or the alias not been retired.
pub(crate) fn lives(pid: Pid) -> bool {
    if pid.is_alias() {
        POINTING.with_borrow(|pointing| pointing.contains(&pid))
    } else {
        ENDED.with_borrow(|ended| !ended.contains(&pid))
    }
}

/// How many aliases there are.
pub(crate) fn count() -> usize {
    POINTING.with_borrow(BTreeSet::len)
}

/// The process ends.
pub(crate) fn end(pid: Pid) {
    ENDED.with_borrow_mut(|ended| ended.insert(pid));
}

/// Forgets all of an execution.
pub(crate) fn reset() {
    GIVEN_OUT.set(0);
    POINTING.take();
    ENDED.take();
}
