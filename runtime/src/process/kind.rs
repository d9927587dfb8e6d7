//! Facts about a process type.

use super::Process;
use super::tap::ShowMessage;
use std::any::TypeId;

#[derive(Debug)]
pub(crate) struct ProcessKind {
    pub(crate) name: fn() -> &'static str,
    /// Identifies the type, to check typed addresses.
    pub(crate) type_id: TypeId,
    /// Returns whether it implements the protocol of that type.
    pub(crate) answers: fn(TypeId) -> bool,
    /// Whether it may be asked for its state.
    pub(crate) is_inspected: bool,
    /// Writes a message, if its method says that it may be shown.
    pub(crate) show_message: ShowMessage,
}

pub(crate) struct KindOfProcess<P>(std::marker::PhantomData<P>);

impl<P: Process> KindOfProcess<P> {
    pub(crate) const KIND: &'static ProcessKind = &ProcessKind {
        name: std::any::type_name::<P>,
        type_id: TypeId::of::<P>(),
        answers: |_| false,
        is_inspected: false,
        show_message: |_, _| None,
    };
}
