//! The three ways to name the receiver of a message.

use crate::plan::Via;
use postroom::prelude::*;

/// The receiver of a message, as its sender refers to it.
pub enum Target<P: postroom::generic::Actor> {
    Address(Address<P>),
    Pid(Pid),
    /// A name, looked up for each message.
    Name(&'static str),
}

impl<P: postroom::generic::Actor> Target<P> {
    /// Returns the target for a process that was spawned as `name`.
    pub fn new(via: Via, address: Address<P>, name: &'static str) -> Self {
        match via {
            Via::Address => Self::Address(address),
            Via::Pid => Self::Pid(address.pid()),
            Via::Name => Self::Name(name),
        }
    }
}

/// Returns the process that has that name, on the calling process's host.
pub fn named<P: postroom::generic::Actor>(ctx: &Context<P>, name: &str) -> Pid {
    ctx.host().and_then(|host| host.whereis(name)).expect("a process of that name")
}
