//! What is known of a type of process.

use super::Process;
use std::any::TypeId;

/// What is known of a type of process.
#[derive(Debug)]
pub(crate) struct ProcessKind {
    /// The name that people know it by.
    pub(crate) name: fn() -> &'static str,
    /// The type whose address may be made from a PID.
    pub(crate) type_id: TypeId,
    /// Whether it answers the protocol of that type.
    pub(crate) answers: fn(TypeId) -> bool,
}

/// That of a hand-written process.
pub(crate) struct KindOfProcess<P>(std::marker::PhantomData<P>);

impl<P: Process> KindOfProcess<P> {
    pub(crate) const KIND: &'static ProcessKind =
        &ProcessKind { name: std::any::type_name::<P>, type_id: TypeId::of::<P>(), answers: |_| false };
}
