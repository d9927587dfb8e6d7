//! The second cache line of a slot: the description of its process. The fast path of a message does not touch it.

use super::cold_state::{ColdState, ProcessKind};
use crate::pid::{GENERATION_BITS, GENERATION_MASK, NodeId, Pid};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, OwnedCell};
use std::ptr;

/// The description of a process. It is accessed with plain loads and stores. Only the token's holder writes it.
#[repr(C, align(64))]
pub(crate) struct Metadata {
    /// A `&'static ProcessKind`.
    pub(crate) kind: AtomicPtr<ProcessKind>,
    /// A `&'static &'static str`: the name of the entry.
    pub(crate) entry: AtomicPtr<&'static str>,
    /// A `&'static Location`.
    pub(crate) place: AtomicPtr<std::panic::Location<'static>>,
    /// Slot and generation of the parent; zero if there is none. The parent's host is in `steps`.
    pub(crate) parent: AtomicU64,
    /// Number of yields that have no answer yet.
    pub(crate) outstanding: AtomicU32,
    pub(crate) index: u32,
    /// Number of steps, without those counted on the slot's first line; the upper 16 bits are the parent's host.
    pub(crate) steps: AtomicU64,
    /// Number of messages, without those counted on the slot's first line; the highest bit is a flag (see `state`).
    pub(crate) messages: AtomicU64,
    pub(crate) cold_state: OwnedCell<Option<Box<ColdState>>>,
}

/// The parent's host is above these bits.
pub(crate) const HOST_SHIFT: u32 = 48;
pub(crate) const ALL_STEPS: u64 = (1 << HOST_SHIFT) - 1;

impl Metadata {
    pub(crate) fn unused(index: u32) -> Self {
        Self {
            kind: AtomicPtr::new(ptr::null_mut()),
            entry: AtomicPtr::new(ptr::null_mut()),
            place: AtomicPtr::new(ptr::null_mut()),
            parent: AtomicU64::new(0),
            outstanding: AtomicU32::new(0),
            index,
            steps: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            cold_state: OwnedCell::new(None),
        }
    }

    /// Clears the description of the slot's previous process. This is for a process without a type, which writes no
    /// description itself.
    pub(crate) fn wipe(&self) {
        self.kind.store(ptr::null_mut(), Ordering::Release);
        self.entry.store(ptr::null_mut(), Ordering::Release);
        self.place.store(ptr::null_mut(), Ordering::Release);
        self.set_parent(None);
    }

    pub(crate) fn set_parent(&self, parent: Option<Pid>) {
        let (slot, host) = parent
            .map_or((0, 0), |pid| (u64::from(pid.slot()) << GENERATION_BITS | pid.generation(), pid.host_number()));
        self.parent.store(slot, Ordering::Relaxed);
        self.steps.store(u64::from(host) << HOST_SHIFT, Ordering::Relaxed);
    }

    /// Returns the process that spawned this one. Both are in the same program, on `node`.
    pub(crate) fn parent(&self, node: NodeId) -> Option<Pid> {
        let parent = self.parent.load(Ordering::Relaxed);
        let (slot, generation) = ((parent >> GENERATION_BITS) as u32, parent & GENERATION_MASK);
        // Generations start at one, so zero is no process.
        let host = (self.steps.load(Ordering::Relaxed) >> HOST_SHIFT) as u16;
        (parent != 0).then(|| Pid::new(node, host, slot, generation))
    }

    pub(crate) fn names(&self) -> Option<(&'static str, &'static str)> {
        let kind = self.kind()?;
        // SAFETY: only addresses of static values are stored, with Release.
        let entry = unsafe { self.entry.load(Ordering::Acquire).as_ref()? };
        Some(((kind.name)(), entry))
    }

    pub(crate) fn kind(&self) -> Option<&'static ProcessKind> {
        // SAFETY: only addresses of static values are stored, with Release.
        unsafe { self.kind.load(Ordering::Acquire).as_ref() }
    }

    pub(crate) fn place(&self) -> Option<&'static std::panic::Location<'static>> {
        // SAFETY: only addresses of static values are stored, with Release.
        unsafe { self.place.load(Ordering::Acquire).as_ref() }
    }
}
