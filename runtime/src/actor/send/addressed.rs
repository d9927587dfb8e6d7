//! The types that an address can have, and the handle that it derefs to.

use crate::Pid;
use std::any::TypeId;

/// The type of an [`Address`](crate::Address): a process, or `dyn` of a protocol.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a process nor a protocol",
    label = "not a process",
    note = "write `#[process]` before its struct and `#[process]` before the impl block with its entries and messages; \
            or `#[protocol]` before its trait, and `dyn` before its name"
)]
pub trait Addressed: 'static {
    /// The type that `Address<Self>` dereferences to, with one method for each message.
    type Handle: Copy + Send + Sync + 'static;
    /// The name of the process or protocol.
    const LABEL: &'static str;
    /// Whether the type is a protocol.
    const IS_PROTOCOL: bool;

    /// Creates the handle for a PID. For generated code.
    fn handle_of(pid: Pid) -> Self::Handle;
    /// Returns the PID of a handle. For generated code.
    fn pid_of(handle: &Self::Handle) -> Pid;
}

/// The description of a protocol at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolInfo {
    /// The name of the trait.
    pub name: &'static str,
    /// The message methods.
    pub messages: &'static [&'static str],
    /// The type ID of `dyn` of the trait.
    pub type_id: TypeId,
}

/// A handle in the deref chain of an address. For generated code.
pub trait Link: Copy + Send + Sync + 'static {
    /// Creates the handle for a PID.
    fn of(pid: Pid) -> Self;
    /// Returns the PID of a handle.
    fn pid(&self) -> Pid;
}

/// The end of the deref chain: no messages. For generated code.
#[derive(Clone, Copy, Debug)]
pub struct End(Pid);

impl Link for End {
    fn of(pid: Pid) -> Self {
        Self(pid)
    }

    fn pid(&self) -> Pid {
        self.0
    }
}

/// A target for messages of type `M`: a PID (checked at delivery), or an address (checked by the compiler).
pub trait SendTo<M> {
    /// Returns the PID.
    fn target(&self) -> Pid;
}

impl<M> SendTo<M> for Pid {
    fn target(&self) -> Pid {
        *self
    }
}
