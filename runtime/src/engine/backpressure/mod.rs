//! What keeps mailboxes from growing without bound.
//!
//! # Soft bounds: suspension
//!
//! A process that sends to a mailbox over its bound is *suspended* after its step: it does not run until there is room
//! for as much as it is likely to send, or the receiver is below half of the bound. Nothing is refused or lost, and no
//! thread waits. A message pays only for the test of a flag that is read anyway: the length of a mailbox is derived
//! from sequence numbers in its nodes, and checked with every 128th message.
//!
//! A process sends:
//! * W1 it compares the mailbox's length with the bound, with each message whose number 128 divides, and once a step
//!   while it sees CONGESTED; above the bound it raises CONGESTED, and its thread notes which mailbox it congests
//!   ([`congestion`]). From outside of processes the message is returned instead.
//!
//! Its step is over, and its thread has noted a mailbox ([`suspend`]):
//! * W2 its slot is marked SUSPENDED; W3 it joins the receiver's list, under the receiver's lock and only while the
//!   receiver is above half of its bound, CONGESTED is raised there, and then it checks whether the receiver is alive;
//!   W4 the receiver is woken; W5 the suspension becomes an edge of the wait graph.
//!
//! It is resumed:
//! * W6 the receiver, in each of its steps while CONGESTED is up, resumes as many as there is room for if each sends as
//!   much as in its last step, and at least one when it is below half of its bound; all, when it has nothing left or
//!   begins to wait for something else. To resume is to clear SUSPENDED, and then to wake.
//! * W7 a suspended process that is woken (an answer has come) takes what has come and keeps it for later; then checks
//!   SUSPENDED; then parks its token. A signal ends the suspension.
//! * W8 an ending receiver is unroutable first, checks CONGESTED then, and if it is up resumes all.
//!
//! Its step does not end:
//! * W9 after one more bound of messages `send` itself waits, and lends its permit: the step marks its process as
//!   suspended, and then checks whether the process has been told to end; the sender of such a signal sends it, and
//!   then checks the mark.
//!
//! # Why
//!
//! *No list is left behind.* A receiver that runs at W4 has another step after that, which does W6, or takes the wake
//! before it checks. One that waits for control only is left alone at W4: it has taken nothing since it parked its
//! token, and if it had caught up before that, W4 does W6 in its place. Of W3 and W8, which make the same two accesses
//! in opposite order, one sees the other: no process stays on the list of an ended receiver.
//!
//! *No wake is lost.* A wake that W7 takes before it checks came after SUSPENDED was cleared (W6); a later one prevents
//! the token from being parked.
//!
//! *A signal is not kept waiting.* Of the two checks in W9 one sees the other's action.
//!
//! *No process waits for ever:*
//! * a process is never suspended at itself, nor while its own mailbox is over its bound, and is resumed when that
//!   happens: so in a cycle of processes with full mailboxes none is suspended;
//! * a call that would close a cycle with the edge of W5 ends the suspension, and a suspension that would close one is
//!   not made (see `wait_graph`);
//! * in all other cases, such as a receiver that waits for something only the suspended process can bring about, a
//!   suspended process is resumed for one step after [a second](suspend), which is counted and logged.
//!
//! So the memory of a mailbox is bounded by its bound, what one step of each of its senders sends, and twice the bound
//! for a step that does not end.
//!
//! Locks: no thread locks two sides at a time, nor runs user code (a waker, a drop) while it holds one.
//!
//! Models of W2 to W8 and of how W9 ends are in `tests/models`.
//!
//! # Files
//!
//! * [`congestion`]: senders that have found a mailbox too full; [`suspend`]: senders that are suspended for it;
//!   [`waiters`]: threads and tasks that wait for room;
//! * [`abroad`]: senders to other nodes;
//! * [`placeholders`]: hard bounds, and the argument for their second queue;
//! * [`state`]: the state of a mailbox that has been full or has its own bound.

pub(crate) mod abroad;
pub(crate) mod congestion;
pub(crate) mod placeholders;
pub(crate) mod state;
pub(crate) mod suspend;
pub(crate) mod waiters;
