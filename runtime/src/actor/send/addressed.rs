//! What can be the type of an address, and the handle that the address derefs to.

use crate::pid::Pid;
use std::any::TypeId;

/// What an [`Address`](crate::Address) can be of: a process, or `dyn` and a protocol.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a process nor a protocol",
    label = "not a process",
    note = "write `#[process]` before its struct and `#[process]` before the impl block with its entries and messages; or \
            `#[protocol]` before its trait, and `dyn` before its name"
)]
pub trait Addressed: 'static {
    /// What `Address<Self>` derefs to: a method for each message.
    type Handle: Copy + Send + Sync + 'static;
    /// The name of the process or protocol.
    const LABEL: &'static str;
    /// Whether it is a protocol.
    const IS_PROTOCOL: bool;

    /// The handle for a PID. For generated code.
    fn handle_of(pid: Pid) -> Self::Handle;
    /// The PID of a handle. For generated code.
    fn pid_of(handle: &Self::Handle) -> Pid;
}

/// What is known of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolInfo {
    /// The name of the trait.
    pub name: &'static str,
    /// The message methods.
    pub messages: &'static [&'static str],
    /// The type of `dyn` and the trait.
    pub type_id: TypeId,
}

/// A handle that others may deref to. For generated code.
pub trait Link: Copy + Send + Sync + 'static {
    /// The handle for a PID.
    fn of(pid: Pid) -> Self;
    /// The PID of a handle.
    fn pid(&self) -> Pid;
}

/// The last handle: it has no messages. For generated code.
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

/// Whatever a message of type `M` can be sent to: a PID (checked at delivery), or an address of a process that has a
/// method for it (checked by the compiler).
pub trait SendTo<M> {
    /// The PID.
    fn target(&self) -> Pid;
}

impl<M> SendTo<M> for Pid {
    fn target(&self) -> Pid {
        *self
    }
}
