//! The recorder. It logs what a host's threads do, event by event, while a recording or a flight recorder runs.
//!
//! Each thread writes to its own [`ring`], so recording adds no contention. A record is a time, a kind and three words.
//! While no recording runs, the recorder costs nothing, because each place that records is behind a branch that the
//! program needs anyway:
//! * slices and events within them: the thread checks its attention word between two slices anyway, and a bit of that
//!   word sends it through a variant of the run loop (`engine/sched/recorded.rs`);
//! * sends, from any thread: while a host is recorded, the gate of its [owners of slots](crate::slots::SlotOwner) shows
//!   no PID. So each send takes the path for a process that has ended, and that path checks whether the send is
//!   recorded;
//! * spawns and exits: the flag for the presence of hooks; answers: the method table of the caller;
//! * rare events: a check of the recorder itself.
//!
//! # Ownership of rings
//!
//! A ring belongs to an OS thread, not to a permit or the record of a worker. Suppose that a step is stuck and another
//! thread takes over its permit. When the step continues, it writes to the ring of its own thread, and the other thread
//! writes to another ring. So each ring has one writer, whatever happens to permits.
//!
//! # Samples
//!
//! Frequent events, which are slices and messages, are recorded while a *sample* is open. In a recording, a sample is
//! open from the beginning to the end; in a flight recorder, one is opened repeatedly for a short time. A thread sees
//! the end of a sample only after its slice. So the session stores the times of its samples, and records outside of
//! these times are left out when the recording is read. Rare events are recorded whether or not a sample is open.
//!
//! (Rejected: marking one message in a thousand and recording it along its causal path. Each send would have to check
//! whether its process is handling such a message. And a sample also contains what a message waits for: the messages
//! ahead of it, and the other processes of its worker.)
//!
//! # Beginning and end
//!
//! To begin a sample, the threads are armed first. Once the threads that are between two steps have noticed that, the
//! sends are armed. A sample ends in the opposite order. So if the send of a message is recorded, its handling is
//! recorded too, unless the sample or the process ends first, or the process was in a time slice when the sample began.
//! Threads notice the end between two slices. When the last recording has ended, they release their rings, and parked
//! threads are woken to do so. A thread outside the host keeps its ring until it next sends to a recorded host, or
//! ends.
//!
//! * [`ring`]: the ring; [`kind`]: the kinds of records; [`track`]: the ring of a thread, and its clock;
//! * [`session`]: the running recordings of a host; [`note`]: writing to the ring of the calling thread;
//! * [`event`]: the public events; [`recording`]: their reconstruction from the records.

pub(crate) mod event;
pub(crate) mod kind;
mod note;
pub(crate) mod recording;
pub(crate) mod ring;
pub(crate) mod session;
pub(crate) mod track;
