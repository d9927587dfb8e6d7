//! A running node of a cluster: the state machines of this crate, an [engine](crate::engine), and the runtime.
//!
//! ```text
//!  processes ──send──► Peer ──frames──► engine ──► other nodes
//!                       ▲ │
//!  Driver ──handles─────┘ └──items──► Delivery ──deliver──► processes
//! ```
//!
//! * [`inbox`]: inputs from callbacks and users to the driver;
//! * [`peer`]: the session with one other node, and its open calls and starts. It is the runtime's transport to that
//!   node, so processes send on their own threads, encode there, and queue in the session;
//! * [`keys`]: starts that may be repeated;
//! * [`overflow`]: messages for which a peer's session had no room, and senders that wait for room in it;
//! * `books`: open operations of a node with other nodes, for tests;
//! * [`view`]: the driver's knowledge as users see it;
//! * [`driver`]: a thread that renews the lease, follows the members and names, and moves frames. It runs no user
//!   code, so that slow user code never costs the node its lease;
//! * [`delivery`]: a thread that decodes received messages and delivers them. The user types' serde code runs here;
//! * [`directory`]: groups, eventual names, keys and topics;
//! * [`policy`]: the requests that peers may make to this node;
//! * [`porter`]: processes that run user code for all of these, and watch the node's processes.
//!
//! In a simulated test, processes of the node's host replace the two threads, and the seed orders their turns: see
//! `turns`.
//!
//! # Invariants
//! 1. **One lock per peer.** It is held for one queue operation, never while user code runs, and never together with
//!    the lock of another peer. The only locks taken while it is held are those of queues, and no lock is taken while
//!    those are held.
//! 2. Messages from a peer, and the end of its session, pass through one queue to the delivery, so no message of a
//!    session is delivered after the session's end was reported.
//! 3. A call, or a start, is answered once, by the thread that takes it out of the peer's table.
//! 4. A frame is published only while the lease permits it, according to a reading of the clock taken after the frame
//!    was made.

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
