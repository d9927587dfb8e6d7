//! Who is bound to whom: links, monitors, and those that own others.
//!
//! Each process keeps its own half of each bond in its [`Bonds`](protocol::Links), which only the holder of its token
//! touches, so there is no lock; the halves agree by what the processes say to each other:
//!
//! | said | travels in | means |
//! |---|---|---|
//! | link, unlink, unlinked, watch, unwatch, disowned | the control lane | changes the other's half |
//! | down, exit | the data lane, behind the last message of the dead | a notice of an end |
//! | failed | the control lane | the same end, for a partner that does not trap exits and shall not finish its backlog first |
//!
//! 1. What one process says to another in one lane arrives in that order. A notice is heard only when the control lane
//!    was found empty after the notice was taken: whatever its sender said before it died has been heard by then.
//!    Without this a link could be made with a process whose notice has been heard already, and would stay for ever.
//! 2. Who unlinks remembers that under a number until the other has answered with it. A link said before the answer is
//!    one that the other said before it heard of the unlinking, and is ignored; so is an exit. Without the number, of
//!    an unlinking, a new link and another unlinking the first answer would end the last.
//! 3. Who ends tells its partners, its watchers, and those that it watches (who would keep its half otherwise), after
//!    its state has been dropped and its names are free.
//! 4. A process that is on its way out still hears what is said to it and answers with its end. A message that reaches
//!    no process is answered for the ended process by the thread that finds it undeliverable: see
//!    [`Bond`](message::SentLinkMessage).
//!
//! Links are Erlang's, with the numbered unlinking of its distribution protocol (OTP 23). The model check of
//! [`protocol`] is in `tests/exhaustive`.
//!
//! * [`protocol`]: one half, as a state machine without a clock, a thread or a mailbox;
//! * [`message`]: what is said, on its way;
//! * [`registrations`]: names, groups and subscriptions, which end with their process.

pub(crate) mod message;
pub(crate) mod protocol;
pub(crate) mod registrations;
