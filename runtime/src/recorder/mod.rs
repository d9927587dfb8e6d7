//! The recorder: what the threads of a host do, event by event, while someone wants to know.
//!
//! Each thread writes to a [`ring`] of its own, so recording adds no contention: a record is a time, a kind and three
//! words. While nothing is recorded it costs nothing, since every place that records is behind a branch that was there
//! before:
//! * turns and what happens in them: a bit of the thread's attention byte, which it checks between two turns anyway,
//!   sends it through a copy of the run loop (`engine/sched/recorded.rs`);
//! * sends, whichever thread makes them: while a host is recorded the gate of its
//!   [owners of slots](crate::slots::SlotOwner) shows no PID. So its processes seem to be gone, and where a message to
//!   a process that is gone is looked after, it is sent and recorded;
//! * spawns and exits: the flag that says that there are hooks; answers: the table of methods of the caller;
//! * rare events ask the recorder.
//!
//! # Whose ring it is
//!
//! A ring belongs to a thread of the system, not to a permit or to the record of a worker: a step that is stuck, and
//! whose permit another thread has taken over, writes to the ring of its own thread when it goes on, and the other
//! thread to its own. So each ring has one writer, whatever happens to permits.
//!
//! # Beginning and end
//!
//! A recording arms the threads first, waits until those between two steps have seen it, arms the sends then, and ends
//! in the opposite order: so of a message whose send is recorded, the handling is too, unless the recording ends first,
//! the process does, or its time slice was running when the recording began. Threads notice the end between two turns,
//! and give their rings back; those that rest are woken for it. A thread outside of the host keeps its ring until it
//! sends to a recorded host again, or ends.
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
