//! Links, monitors and ownership between processes.
//!
//! Each process keeps its own half of each link in its [`Links`](protocol::Links). Only the holder of the process's
//! token accesses these, so there is no lock. The two halves are kept consistent by messages between the processes:
//!
//! | message | travels in | means |
//! |---|---|---|
//! | link, unlink, unlinked, watch, unwatch, disowned | the control lane | changes the other's half |
//! | down, exit | the data lane, behind the last message of the process that ended | a notice of an end |
//! | failed | the control lane | the same notice, for a partner that does not trap exits and so must end at once |
//!
//! * U1 Messages of one process in one lane arrive in order. A notice is handled only after the control lane has been
//!   found empty since the notice was taken: by then everything that its sender sent before it ended has been handled.
//!   Otherwise a link could be made with a process whose notice had already been handled, and would stay forever.
//! * U2 A process that unlinks remembers the unlink, under a number, until the other process has answered with that
//!   number. If a link arrives before that answer, it was sent before the other process received the unlink, and is
//!   ignored; so is an exit. Without the number, in the sequence unlink, link, unlink, the answer to the first unlink
//!   would complete the second.
//! * U3 A process that ends notifies its partners, its watchers, and the processes that it watches (which would
//!   otherwise keep their half), after its state has been dropped and its names are free.
//! * U4 A process that is exiting still handles link messages, and answers with its end. If a message reaches no
//!   process, the thread that finds it undeliverable answers it on behalf of the ended process: see
//!   [`SentLinkMessage`](message::SentLinkMessage).
//!
//! * U5 Between nodes, a message belongs to the connection over which it arrived, and so does a link. A process may
//!   handle a message of a lost connection when it is already linked with the sender again, over the next connection;
//!   the message does not affect that link. Until an unlink is answered, by the other process or by the loss of the
//!   connection, no link is accepted from the other process, unless this process itself has linked again over the same
//!   connection.
//!
//! The protocol is Erlang's, with the numbered unlinking of its distribution protocol (OTP 23). The model check of
//! [`protocol`] is in `tests/exhaustive`.
//!
//! * [`protocol`]: one half of a link, as a state machine without a clock, threads or mailboxes;
//! * [`message`]: link messages in flight;
//! * [`registrations`]: names, groups and subscriptions, which end with their process.

pub(crate) mod message;
pub(crate) mod protocol;
pub(crate) mod registrations;
