//! Facts about a process type.

use super::Process;
use super::tap::ShowMessage;
use std::any::TypeId;

#[derive(Debug)]
pub(crate) struct ProcessKind {
    pub(crate) name: fn() -> &'static str,
    /// The ID of the type, against which typed addresses are checked.
    pub(crate) type_id: TypeId,
    /// Returns whether the process implements the protocol with this type ID.
    pub(crate) answers: fn(TypeId) -> bool,
    /// Whether descriptions of the state may be requested.
    pub(crate) is_inspected: bool,
    /// Writes a message, if its method is marked `#[message(inspect)]`.
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
