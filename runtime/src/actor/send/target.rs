//! What a message can be sent to.

use crate::pid::Pid;

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
