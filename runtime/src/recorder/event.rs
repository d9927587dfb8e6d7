//! The events of a recording.

use crate::pid::Pid;
use std::num::NonZeroU32;
use std::time::Duration;

/// An event in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedEvent {
    /// The time since the recording began, by a monotonic clock or by the host's virtual clock.
    pub at: Duration,
    /// The thread on which the event happened.
    pub thread: ThreadIndex,
    /// What happened.
    pub kind: EventKind,
}

/// A thread in a recording: the index of its name in [`Recording::threads`](crate::record::Recording::threads).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadIndex(pub(super) u32);

impl ThreadIndex {
    /// Returns the index into the list of threads.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a message or a process in a recording: the index of its name in
/// [`Recording::types`](crate::record::Recording::types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeIndex(pub(super) u32);

impl TypeIndex {
    /// Returns the index into the list of types.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Connects the events of one message, which are its send and its handling, or those of one answer. Unique in its
/// recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(super) NonZeroU32);

impl FlowId {
    /// Returns the number, for custom formats.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// The fate of a message whose send was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// A process took it from its mailbox, and the recording shows when.
    Handled,
    /// It was in the mailbox when the recording ended, or its process took it in a step that is not shown because it
    /// began before the recording.
    Queued,
    /// Its receiver ended before it took the message.
    ProcessEnded,
    /// Its fate is unknown, because records of that time were overwritten.
    Overwritten,
    /// It was in the mailbox at the end of the sample in which it was sent. Its further fate is not recorded.
    SampleEnded,
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Party {
    /// A process, in one of its time slices.
    Process(Pid),
    /// A thread. The sender was code outside of processes, or a process in a slice whose beginning is not recorded.
    Thread(ThreadIndex),
}

/// The reason why a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SliceEnd {
    /// The process has nothing left to do.
    Idle,
    /// The process has more to do, but lets others run first.
    Ready,
    /// The process is waiting for answers, timers or other results.
    Waits,
    /// The process is suspended at a full mailbox.
    Suspended,
    /// The process has ended.
    Ended,
}

/// The kind of a process's exit reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndKind {
    /// It finished, or was stopped.
    Normal,
    /// It panicked.
    Panic,
    /// Its start failed or was refused.
    NotStarted,
    /// It was killed.
    Killed,
    /// It was cancelled, or its host was shut down.
    Cancelled,
    /// A process that it was linked to ended.
    Linked,
    /// It returned an error.
    Failed,
}

/// The kind of an event, with its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A slice of a process began: it runs on this thread until [`SliceEnded`](Self::SliceEnded).
    SliceBegan {
        /// The process.
        process: Pid,
        /// Its type.
        of: TypeIndex,
    },
    /// A slice of a process ended.
    SliceEnded {
        /// The process.
        process: Pid,
        /// Why the slice ended.
        then: SliceEnd,
    },
    /// A process took a message out of its mailbox.
    HandlingBegan {
        /// The process.
        process: Pid,
        /// The type of the message.
        message: TypeIndex,
        /// The message, if its send was recorded.
        flow: Option<FlowId>,
    },
    /// A process finished handling a message. (An async method may take several slices.)
    HandlingEnded {
        /// The process.
        process: Pid,
        /// The type of the message.
        message: TypeIndex,
        /// The message, if its send was recorded.
        flow: Option<FlowId>,
    },
    /// A message was sent.
    MessageSent {
        /// The sender.
        from: Party,
        /// The receiver.
        to: Pid,
        /// The type of the message.
        message: TypeIndex,
        /// The message.
        flow: FlowId,
        /// The answer, if the message is a call that a process awaits.
        answer: Option<FlowId>,
    },
    /// A recorded call was answered, or failed.
    Answered {
        /// The calling process.
        to: Pid,
        /// The answer, unless the record of the call was overwritten.
        flow: Option<FlowId>,
    },
    /// A process took the answer to a recorded call.
    AnswerTaken {
        /// The calling process.
        process: Pid,
        /// The answer.
        flow: FlowId,
    },
    /// A process was spawned.
    Spawned {
        /// The process.
        process: Pid,
        /// Its type.
        of: TypeIndex,
        /// The process of the same host that spawned it.
        parent: Option<Pid>,
    },
    /// A process ended.
    Ended {
        /// The process.
        process: Pid,
        /// Its type.
        of: TypeIndex,
        /// Why it ended.
        why: EndKind,
    },
    /// A process was suspended, because it sent to a full mailbox.
    Suspended {
        /// The process.
        process: Pid,
        /// The process whose mailbox is full; `None` if it is on another node.
        at: Option<Pid>,
    },
    /// A suspended process was resumed.
    Resumed {
        /// The process.
        process: Pid,
    },
    /// The thread parked, because it had nothing to do.
    Parked,
    /// The thread was woken.
    Woken,
    /// The thread took processes from the queue of another thread.
    Stole {
        /// The number of the other thread. The name of that thread ends with this number.
        from: u32,
        /// The number of processes.
        count: u32,
    },
    /// A timer was set.
    TimerSet {
        /// The process that waits for the timer, if one does.
        process: Option<Pid>,
        /// The due time, as a duration since the recording began.
        due: Duration,
    },
    /// A timer fired.
    TimerFired {
        /// The process that waits for the timer, if one does.
        process: Option<Pid>,
        /// How long after the due time it fired.
        late: Duration,
    },
    /// A step began to block, and passed its permit to another thread.
    BlockingBegan {
        /// The process that blocks; `None` if no process is involved.
        process: Option<Pid>,
    },
    /// A step has stopped blocking.
    BlockingEnded {
        /// The process that blocks; `None` if no process is involved.
        process: Option<Pid>,
    },
    /// A step exceeded the stall limit. Recorded on the thread that detected it.
    Stalled {
        /// The process.
        process: Pid,
        /// How long the step had run by then.
        lasted: Duration,
        /// The type of the message, if it was handling one.
        message: Option<TypeIndex>,
    },
    /// The permit of a step that did not end was passed to another thread. Recorded on the thread that detected the
    /// step.
    TakenOver {
        /// The process.
        process: Pid,
    },
    /// A flight recorder began to [sample](crate::record::FlightRecorder::sample). From now on, everything is recorded.
    /// The event belongs to a pseudo-thread named `samples`.
    SampleBegan,
    /// A flight recorder stopped sampling. From now on, only rare events are recorded (abnormal ends, stalls,
    /// suspensions, blocking). Slices and handlings that have not ended yet get no event for their end.
    SampleEnded,
}
