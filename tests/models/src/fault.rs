//! Planted faults, which a model must find.
//!
//! A fault weakens one kind of operation everywhere, in [`crate::sync`], or changes one step of a driver. All threads
//! of a model run on the thread that checks it, one at a time, so a test's fault is stored per thread.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `fence` does nothing.
    NoFence,
    /// `fence_for_models` does nothing: sequentially consistent accesses have no single order.
    NoSingleOrder,
    /// `light_barrier` does nothing.
    NoLightBarrier,
    /// `heavy_barrier` does nothing.
    NoHeavyBarrier,
    /// Exchanges of pointers order nothing.
    RelaxedSwap,
    /// Stores of pointers order nothing.
    RelaxedStore,
    /// Loads of pointers order nothing.
    RelaxedLoad,
    /// Compare-and-swaps of pointers order nothing.
    RelaxedCompare,
    /// Compare-and-swaps of pointers are a load and a store.
    TornCompare,
    /// Exchanges of pointers are a load and a store.
    TornSwap,
    /// A driver omits a step or performs it in the wrong order. The number identifies the step.
    Driver(u8),
}

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Returns whether `fault` is planted.
pub(crate) fn is(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Runs `body` with `fault` planted.
pub(crate) fn with(fault: Fault, body: impl FnOnce()) {
    struct Remove;
    impl Drop for Remove {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }
    let _remove = Remove;
    PLANTED.set(Some(fault));
    body();
}
