//! The recorder: what the threads of a host do, event by event, while someone wants to know.
//!
//! Each thread writes to a [`ring`] of its own, so recording adds no contention: a record is a time, a kind and three
//! words. While nothing is recorded it costs nothing, since every place that records is behind a branch that was there
//! before:
//! * slices and what happens in them: a bit of the thread's attention word, which it checks between two slices anyway,
//!   sends it through a copy of the run loop (`engine/sched/recorded.rs`);
//! * sends, whichever thread makes them: while a host is recorded the gate of its
//!   [owners of slots](crate::slots::SlotOwner) shows no PID. So sends take the way of those to a process that has
//!   ended, which asks whether they are recorded;
//! * spawns and exits: the flag that says that there are hooks; answers: the table of methods of the caller;
//! * rare events ask the recorder.
//!
//! # Whose ring it is
//!
//! A ring belongs to a thread of the system, not to a permit or to the record of a worker: a step that is stuck, and
//! whose permit another thread has taken over, writes to the ring of its own thread when it goes on, and the other
//! thread to its own. So each ring has one writer, whatever happens to permits.
//!
//! # Samples
//!
//! What is frequent, slices and messages, is recorded while a *sample* is open: in a recording from its beginning to
//! its end, in a flight recorder again and again for a short time. A session knows when that was, and what a thread
//! writes outside of that, because it sees the end of a sample only after its slice, is left out when the recording is
//! read. Rare events are recorded whether or not a sample is open.
//!
//! (Rejected: a mark that travels with one message in a thousand, and has it recorded along its causal path. Each send
//! would have to look whether its process handles such a message, and in a sample each has what it waits for: the
//! messages before it, and the other processes of its worker.)
//!
//! # Beginning and end
//!
//! A sample arms the threads first, waits until those between two steps have seen it, arms the sends then, and ends in
//! the opposite order: so of a message whose send is recorded, the handling is too, unless the sample ends first, the
//! process does, or its time slice was running when the sample began. Threads notice the end between two slices. After
//! the last recording they give their rings back, and those that rest are woken for it. A thread outside of the host
//! keeps its ring until it sends to a recorded host again, or ends.
//!
//! * [`ring`]: the ring; [`kind`]: what its records are about; [`track`]: the ring of a thread, and its clock;
//! * [`session`]: who records what of a host;
//! * [`event`]: what users see; [`recording`]: how it is made of the records.

pub(crate) mod event;
pub(crate) mod kind;
pub(crate) mod recording;
pub(crate) mod ring;
pub(crate) mod session;
pub(crate) mod track;
