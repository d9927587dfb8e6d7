//! What `#[process]` stands on: typed addresses, calls, contexts, and the state machine that owns a struct.
//!
//! From the bottom up:
//! * [`waker`]: what wakes a process; [`beside`]: futures beside its methods; [`attachment`]: how far an attached stream is;
//!   [`waits`]: what a process waits for, and how an awaited thing finds its way back to it; [`active`]: which process a thread runs; [`outcome`]: answers to whoever is no process;
//! * [`target`], [`call`] and [`patient`], [`reply`], [`stream`]: both ends of a message and of its answer; [`life`]: what can be done with
//!   a PID;
//! * [`awaits`], [`interval`]: what async code can wait for besides calls; [`context`]: what a method can do;
//!   [`blocking`]: something in it that blocks;
//! * [`placement`]: which threads may run it; [`inputs`] (and `json`): what is given to something that is known by its name; [`entry`]: how an entry is
//!   started by its name; [`seed`]: a spawn before its
//!   entry is known;
//! * [`addressed`]: what can be the type of an address;
//! * [`definition`]: what the macro says of a struct, in terms of all these; [`protocol`]: what it says of a protocol, and
//!   of a struct that answers one;
//! * [`outgoing`]: how a message is sent by the name of its method;
//! * [`kind`]: what is known of a struct without one at hand; [`serving`]: how a struct serves what arrives;
//! * [`existing`]: a process that is there already, in place of a new one;
//! * [`handover`]: a wish that a struct hands its state to another, for the machine;
//! * [`address`] (and `sink`, which sends to one), [`serve`], [`attach`], [`machine`], [`spawn`]: what can be done with a struct of which that is known; [`by_hand`]: how one without a macro is spawned;
//!   [`upgrade`]: how another takes its place.

pub(crate) mod active;
pub(crate) mod address;
pub(crate) mod addressed;
pub(crate) mod attach;
pub(crate) mod attachment;
mod awaits;
pub(crate) mod beside;
pub(crate) mod blocking;
pub(crate) mod by_hand;
pub(crate) mod call;
pub(crate) mod context;
pub(crate) mod definition;
pub(crate) mod entry;
mod existing;
pub(crate) mod handover;
pub(crate) mod inputs;
pub(crate) mod interval;
#[cfg(feature = "serde")]
pub(crate) mod json;
mod keeping;
pub(crate) mod kind;
pub(crate) mod later;
pub(crate) mod life;
pub(crate) mod machine;
pub(crate) mod outcome;
pub(crate) mod outgoing;
pub(crate) mod patient;
pub(crate) mod placement;
pub(crate) mod protocol;
pub(crate) mod reply;
pub(crate) mod seed;
mod sending;
pub(crate) mod serve;
pub(crate) mod serving;
#[cfg(feature = "futures")]
pub(crate) mod sink;
pub(crate) mod spawn;
pub(crate) mod stream;
pub(crate) mod target;
pub(crate) mod upgrade;
pub(crate) mod waits;
pub(crate) mod waker;
