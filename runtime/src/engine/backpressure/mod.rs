//! What keeps mailboxes from growing without bound.
//!
//! # Soft bounds: suspension
//!
//! A process that sends to a mailbox over its bound is *suspended* after its step: it does not run until there is room
//! for as much as it is likely to send, or the receiver is below half of the bound. Nothing is refused or lost, and no
//! thread waits. The path of a message pays nothing for it but a look at a flag that is there anyway: the length of a
//! mailbox follows from sequence numbers in its nodes, and is looked at with every 128th message.
//!
//! 1. A sender whose message has a number that 128 divides compares the mailbox's length with its bound; above it, it
//!    raises CONGESTED, and its thread notes which mailbox it congests ([`congestion`]).
//! 2. So does, once a step, a sender that sees CONGESTED. From outside of processes the message goes back instead.
//! 3. After the step the process is suspended ([`suspend`]): (a) its slot is marked SUSPENDED; (b) it joins the
//!    receiver's list, under the receiver's lock and only while the receiver is above half of its bound, CONGESTED is
//!    raised there, and then it looks whether the receiver is alive; (c) the receiver is woken; one that waits for
//!    control only is left alone, and its list is looked after in its place, in case it caught up before its token was
//!    parked; (d) the suspension becomes an edge in the wait graph.
//! 4. The receiver, in each of its steps while CONGESTED is up, resumes as many as there is room for if each sends as
//!    much as in its last step, and one when it is below half of its bound; all, when it has nothing left or comes to
//!    wait for something else. If it runs at (3c) it has a step after that, or takes the wake before it looks: so no
//!    list is left behind by a receiver that was already past its last look.
//! 5. A suspended process that is woken (an answer has come) first takes what has come and keeps it for later; then
//!    looks for SUSPENDED; then parks its token. Its resumption clears SUSPENDED and then wakes it: a wake that was
//!    taken before the look came after the flag was cleared, and one that comes after it is seen when the token is
//!    parked. A signal ends the suspension.
//! 6. An ending receiver is unroutable first and looks for CONGESTED then, where (3b) raises it first and then looks
//!    whether the receiver is alive: one of the two is seen, so no process stays on the list of an ended receiver.
//! 7. A step that sends on and on does not end: after one more bound of messages `send` itself waits, and lends its
//!    permit. Not if its process has been told to end: the step marks its process as suspended and then looks for that,
//!    where the sender of the signal sends it first and then looks for the mark.
//!
//! Locks: no thread locks two sides at a time, nor runs code of users (a waker, a drop) while it has one.
//!
//! Models of steps 3 to 6 and of how 7 ends are in `tests/models`.
//!
//! Why no process waits for ever:
//! * a process is never suspended at itself, nor while its own mailbox is over its bound, and is resumed when that
//!   comes to pass: so in a cycle of processes with full mailboxes none is suspended;
//! * a suspension is an edge in the same graph as calls: one that would close a cycle is not made, and a call that
//!   would is a reason to end the suspension (see `wait_graph`);
//! * an ending receiver resumes all;
//! * in all other cases, such as a receiver that waits for something only the suspended process can bring about, a
//!   suspended process is resumed for one step after [a second](suspend), which is counted and logged.
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
//! * [`state`]: what is kept of a mailbox that has been full, and how full it is;
//! * [`congestion`]: senders that have found a mailbox too full; [`suspend`]: senders that are suspended for it;
//!   [`waiters`]: threads and tasks that wait for room;
//! * [`entry_points`]: what senders, spawns and exits call.

pub(crate) mod bounded_queue;
pub(crate) mod congestion;
pub(crate) mod entry_points;
pub(crate) mod placeholders;
pub(crate) mod state;
pub(crate) mod suspend;
pub(crate) mod waiters;
