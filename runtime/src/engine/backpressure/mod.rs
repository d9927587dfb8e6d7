//! What keeps mailboxes from growing without bound.
//!
//! # Soft bounds: holds
//!
//! A process that sends to a mailbox over its bound is *held* after its step: it runs no more until there is room for
//! what it is likely to send, or the receiver is below half of the bound. Nothing is refused or lost, and no thread
//! waits. The path of a message pays nothing for it but a look at a flag that is there anyway; how long a mailbox is
//! says a number in its nodes, looked at with every 128th message.
//!
//! 1. A sender whose message has a number that 128 divides compares the mailbox's length with its bound; if it is over
//!    it, it raises OVERFULL, and notes on its thread that it presses, and on whom ([`congestion`]).
//! 2. So does, once a step, one that sees OVERFULL. From outside of processes the message goes back instead.
//! 3. After the step the process is held ([`suspend`]): (a) its slot is marked HELD; (b) it is put on the receiver's
//!    list, under the receiver's lock and only while the receiver is above half of its bound, OVERFULL is raised there,
//!    and then it looks whether the receiver lives; (c) the receiver is told, by a wake; but one that waits for control
//!    only is left alone, and looked after in its place, should it have caught up before it laid its token down; (d)
//!    the hold becomes an edge in the wait graph.
//! 4. The receiver, in each of its steps while OVERFULL is up, lets as many go as there is room for if each sends as
//!    much as in its last step, and one when it is below half of its bound; all, when it has nothing left or comes to
//!    wait for something else. If it runs at (3c) it has a step after that, or takes the wake before it looks: so a
//!    list is never left behind by a receiver that was already past its last look.
//! 5. A held process that is woken (an answer has come) first takes what has come, as it is, and keeps it for later;
//!    then looks for HELD; then lays its token down. Who lets it go takes HELD away and then wakes it: a wake that was
//!    taken before the look came after its mark had gone, and one that comes after it is seen when the token is laid. A
//!    signal ends the hold.
//! 6. An ending receiver is unroutable first and looks for OVERFULL then, where (3b) raises it first and looks whether
//!    it lives then: one of the two is seen, and nobody is left on the list of the dead.
//! 7. A step that sends on and on does not end: after one more bound of messages `send` itself waits, and lends its
//!    permit. Not if its process has been told to end: the step marks its process as held and then looks for that,
//!    where whoever says so says it first and looks for the mark then.
//!
//! Locks: nobody has two sides locked at a time, nor runs code of others (a waker, a drop) while one is.
//!
//! Models of steps 3 to 6 and of how 7 ends are in `tests/models`.
//!
//! Why nobody waits for ever:
//! * a process is never held at itself, nor while its own mailbox is over its bound, and is let go when that comes to
//!   pass: so of a ring of processes with full mailboxes none is held;
//! * a hold is an edge in the same graph as calls: one that would close a ring is not made, and a call that would is a
//!   reason to end the hold (see `wait_graph`);
//! * an ending receiver lets all go;
//! * whatever is left, such as a receiver that waits for something only the held one can bring about: after [a
//!   second](suspend) a held process is let go for one step, which is counted and logged.
//!
//! So the memory of a mailbox is bounded by its bound, what one step of each of its senders sends, and twice the bound
//! for a step that does not end.
//!
//! # Hard bounds
//!
//! These mailboxes keep their messages in a [`bounded_queue`] under a lock; what travels in the lane are tickets for
//! it.
//!
//! * [`bounded_queue`]: the messages under a hard bound; [`placeholders`]: how messages get in and out of it;
//! * [`state`]: what is kept of a mailbox that has been full; [`measure`]: how full a mailbox is;
//! * [`congestion`]: senders that have found a mailbox too full; [`suspend`]: senders that are suspended for it;
//!   [`waiters`]: threads and tasks that wait for room;
//! * [`entry_points`]: what senders, spawns and exits call.

pub(crate) mod bounded_queue;
pub(crate) mod congestion;
pub(crate) mod entry_points;
pub(crate) mod measure;
pub(crate) mod placeholders;
pub(crate) mod state;
pub(crate) mod suspend;
pub(crate) mod waiters;
