//! One node of a cluster at work: the state machines of this crate, an [engine](crate::engine), and the runtime.
//!
//! ```text
//!  processes ──send──► Peer ──frames──► engine ──► other nodes
//!                       ▲ │
//!  Driver ──handles─────┘ └──items──► Delivery ──deliver──► processes
//! ```
//!
//! * [`inbox`]: what callbacks and users hand to the driver;
//! * [`peer`]: what this node has to do with one other: the session, open calls, and starts. It is the runtime's
//!   transport to that node, so processes send on their own threads, encode there, and queue in the session;
//! * [`keys`]: starts that may be repeated;
//! * [`overflow`]: what has found a peer's session full, and who waits for room in it;
//! * `books`: what a node has open with others, for tests;
//! * [`view`]: what the driver knows and users look at;
//! * [`driver`]: a thread that renews the lease, follows the members and names, and moves frames. It runs no code of a
//!   user, so that a slow one never costs the node its lease;
//! * [`delivery`]: a thread that decodes what has arrived and delivers it. Here serde's code for the users' types runs;
//! * [`directory`]: groups, eventual names, keys and topics;
//! * [`policy`]: who may ask what of this node;
//! * [`porter`]: processes that run users' code for all of these, and watch the node's processes.
//!
//! In a simulated test the two threads are processes of the node's host, whose turns the
//! seed orders: see `turns`.
//!
//! # Invariants
//! 1. **One lock per peer**, held for a queue operation: not while a user's code runs, and never two at a time. The
//!    only locks taken inside it are those of queues, which nothing else is taken inside of.
//! 2. What arrives from a peer, and the end of its session, pass through one queue to the delivery: so nothing of a
//!    session is delivered after its end was told.
//! 3. A call, and a start, is answered once, by the thread that takes it out of the peer's table.
//! 4. A frame is published only while the lease says so, by a reading of the clock after the frame was made.

#[cfg(any(test, feature = "test"))]
pub(crate) mod books;
pub(crate) mod delivery;
pub(crate) mod directory;
pub(crate) mod driver;
pub(crate) mod inbox;
pub(crate) mod keys;
mod overflow;
pub(crate) mod peer;
pub(crate) mod policy;
pub(crate) mod porter;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "test"))]
pub(crate) mod turns;
pub(crate) mod view;
