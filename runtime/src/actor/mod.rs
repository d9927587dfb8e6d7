//! What `#[process]` stands on: typed addresses, calls, contexts, and the state machine that owns a struct.
//!
//! * [`definition`]: what the macro says of a struct;
//! * [`waits`]: what a process waits for, and how an awaited thing finds its way back to it;
//! * [`outcome`]: answers to whoever is no process;
//! * [`call`], [`reply`]: both ends of a call;
//! * [`address`], [`life`]: what can be done with an address, and with a PID;
//! * [`context`], [`serve`]: what a method can do;
//! * [`machine`]: the state machine;
//! * [`entry`], [`spawn`]: how a process is started, by method and by name.

pub(crate) mod address;
pub(crate) mod call;
pub(crate) mod context;
pub(crate) mod definition;
pub(crate) mod entry;
pub(crate) mod life;
pub(crate) mod machine;
pub(crate) mod outcome;
pub(crate) mod reply;
pub(crate) mod serve;
pub(crate) mod spawn;
pub(crate) mod stream;
pub(crate) mod waits;
