//! Back-pressure keeps mailboxes from growing without bound.
//!
//! # Soft bounds: suspension
//!
//! A process that sends to a mailbox over its bound is *suspended* after its step: it does not run until there is room
//! for as much as it is likely to send, or the receiver's mailbox is below half of its bound. Nothing is refused or
//! lost, and no thread waits. The only cost per message is the test of a flag that is read anyway: the length of a
//! mailbox is derived from sequence numbers in its nodes, and checked with every 128th message.
//!
//! When a process sends:
//! * W1 with each message whose number is a multiple of 128, and once per step while it sees CONGESTED, it compares the
//!   mailbox's length with the bound; above the bound it sets CONGESTED, and its thread notes which mailbox it congests
//!   ([`congestion`]). Code outside of processes gets the message back instead.
//!
//! When its step is over, and its thread has noted a mailbox ([`suspend`]):
//! * W2 its slot is marked SUSPENDED; W3 under the receiver's lock, and only while the receiver is above half of its
//!   bound, the process joins the receiver's list, sets the receiver's CONGESTED, and then checks whether the receiver
//!   is alive; W4 the receiver is woken; W5 the suspension becomes an edge of the wait graph.
//!
//! It is resumed:
//! * W6 in each step while CONGESTED is set, the receiver resumes as many senders as it has room for, assuming that
//!   each sends as much as in its last step. It resumes at least one when it is below half of its bound, and all when
//!   it has nothing left or begins to wait for something else. Resuming a process means clearing SUSPENDED and then
//!   waking the process.
//! * W7 a suspended process that is woken (by an answer, for example) takes what has arrived and keeps it for later;
//!   then it checks SUSPENDED; then it parks its token. A signal ends the suspension.
//! * W8 an ending receiver first becomes unroutable, then checks CONGESTED, and if that is set resumes all.
//!
//! When its step does not end:
//! * W9 once the step has sent as many further messages as the bound, `send` itself waits, and hands off its permit:
//!   the step marks its process as suspended, and then checks whether the process has been told to end; a sender of a
//!   signal to end sends the signal, and then checks the mark.
//!
//! # Why
//!
//! *No waiter is left on a list.* A receiver that runs at W4 either has another step afterwards, and that step does W6,
//! or takes the wake in the current step before it does W6. A receiver that waits only for control is not woken at W4:
//! it has taken nothing since it parked its token, and if it had made room before that, W4 does W6 in its place. W3 and
//! W8 make the same two accesses in opposite order, so one of them sees the other: no process stays on the list of an
//! ended receiver.
//!
//! *No wake is lost.* A wake that W7 takes before it checks came after SUSPENDED was cleared (W6); a later one prevents
//! the token from being parked.
//!
//! *No signal is kept waiting.* At least one of the two checks in W9 sees the action of the other side.
//!
//! *No process waits forever:*
//! * a process is never suspended at itself, nor while its own mailbox is over its bound, and is resumed as soon as
//!   that mailbox exceeds its bound: so in a cycle of processes with full mailboxes, none is suspended;
//! * a call that would close a cycle with the edge of W5 ends the suspension, and a suspension that would close one is
//!   not made (see `wait_graph`);
//! * in all other cases, such as a receiver that waits for something that only the suspended process can do, a
//!   suspended process is resumed for one step after [a second](suspend), and this is counted and logged.
//!
//! So the memory of a mailbox is limited to its bound, plus the messages that one step of each of its senders sends,
//! which are at most twice the bound for a step that does not end.
//!
//! Locks: no thread holds the locks of two mailboxes at a time, or runs user code (a waker, a drop) under one.
//!
//! Models of W2 to W8 and of how W9 ends are in `tests/models`.
//!
//! # Files
//!
//! * [`congestion`]: senders that have found a mailbox too full; [`suspend`]: senders that are suspended because of it;
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
