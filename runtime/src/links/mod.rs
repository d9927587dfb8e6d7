//! Links, monitors and ownership between processes.
//!
//! Each process keeps its own half of each link in its [`Links`](protocol::Links), which only the holder of its token
//! accesses, so there is no lock; the halves agree by messages between the processes:
//!
//! | message | travels in | means |
//! |---|---|---|
//! | link, unlink, unlinked, watch, unwatch, disowned | the control lane | changes the other's half |
//! | down, exit | the data lane, behind the last message of the dead | a notice of an end |
//! | failed | the control lane | the same, for a partner that does not trap exits and so must end at once |
//!
//! * U1 Messages of one process in one lane arrive in order. A notice is handled only after the control lane was found
//!   empty since the notice was taken: everything that its sender sent before it died has been handled by then.
//!   Otherwise a link could be made with a process whose notice was handled already, and would stay for ever.
//! * U2 A process that unlinks remembers that, under a number, until the other has answered with the number. A link
//!   that arrives before the answer was sent before the other got the unlink, and is ignored; so is an exit. Without
//!   the number, after an unlink, a new link and another unlink, the first answer would complete the last.
//! * U3 A process that ends notifies its partners, its watchers, and those that it watches (which would otherwise keep
//!   their half), after its state has been dropped and its names are free.
//! * U4 A process that is exiting still handles link messages, and answers with its end. A message that reaches no
//!   process is answered, on behalf of the ended process, by the thread that finds it undeliverable: see
//!   [`SentLinkMessage`](message::SentLinkMessage).
//!
//! * U5 Between nodes a message belongs to the connection that it came by, and so does a link. A process may come to a
//!   message of a lost connection when it is linked with the sender again, over the next one; the message does not
//!   concern that link. Until an unlink is answered, by the other or by the loss, no link is taken from the other,
//!   unless the process itself has linked again over the same connection.
//!
//! Links are Erlang's, with the numbered unlinking of its distribution protocol (OTP 23). The model check of
//! [`protocol`] is in `tests/exhaustive`.
//!
//! * [`protocol`]: one half, as a state machine without clock, threads or mailboxes;
//! * [`message`]: link messages in flight;
//! * [`registrations`]: names, groups and subscriptions, which end with their process.

pub(crate) mod message;
pub(crate) mod protocol;
pub(crate) mod registrations;
