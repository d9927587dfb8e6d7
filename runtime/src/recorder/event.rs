//! The events of a recording.

use crate::pid::Pid;
use std::num::NonZeroU32;
use std::time::Duration;

/// Something that happened while a recording ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedEvent {
    /// The time since the recording began, by a monotonic clock or by the host's virtual clock.
    pub at: Duration,
    /// The thread that it happened on.
    pub thread: ThreadIndex,
    /// What happened.
    pub kind: EventKind,
}

/// A thread in a recording: the place of its name in [`Recording::threads`](crate::record::Recording::threads).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadIndex(pub(super) u32);

impl ThreadIndex {
    /// Returns the index into the list of threads.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a message or a process in a recording: the place of its name in
/// [`Recording::types`](crate::record::Recording::types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeIndex(pub(super) u32);

impl TypeIndex {
    /// Returns the index into the list of types.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Ties the two ends of a message: the event of its send and that of its handling; or those of an answer. Unique in its
/// recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(super) NonZeroU32);

impl FlowId {
    /// Returns the number, for formats of one's own.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// What has become of a message whose send was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// A process has taken it out of its mailbox, and the recording shows when.
    Handled,
    /// It was in the mailbox when the recording ended; or its process took it in a step that had begun before the
    /// recording, which does not show that.
    Queued,
    /// Its process ended first.
    ProcessEnded,
    /// Records of that time were overwritten: it is not known.
    Overwritten,
    /// It was in the mailbox when the sample ended in which it was sent: what followed is not recorded.
    SampleEnded,
}

/// The sender of a message, or the one that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Party {
    /// A process, in one of its turns.
    Process(Pid),
    /// A thread: code outside of processes, or a slice whose beginning is not recorded.
    Thread(ThreadIndex),
}

/// Why a slice was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SliceEnd {
    /// Nothing is left to do.
    Idle,
    /// The process has more to do, and lets others run first.
    Ready,
    /// The process waits for answers, timers or other results.
    Waits,
    /// The process is suspended at a full mailbox.
    Suspended,
    /// The process has ended.
    Ended,
}

/// Why a process ended, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndKind {
    /// It was done, or was stopped.
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

/// What happened.
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
    /// The slice is over.
    SliceEnded {
        /// The process.
        process: Pid,
        /// Why it is over.
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
    /// It is done with the message. (An async method may take several slices.)
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
        /// The answer, if it is a call that a process awaits.
        answer: Option<FlowId>,
    },
    /// A call that was recorded was answered, or failed.
    Answered {
        /// The process that had called.
        to: Pid,
        /// The answer, unless the record of the call was overwritten.
        flow: Option<FlowId>,
    },
    /// A process took the answer of its call, which was recorded.
    AnswerTaken {
        /// The process that had called.
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
        /// Why.
        why: EndKind,
    },
    /// A process was suspended, because it sent to a full mailbox.
    Suspended {
        /// The process.
        process: Pid,
        /// Whose mailbox is full. `None`: that of a process on another node.
        at: Option<Pid>,
    },
    /// A suspended process was resumed.
    Resumed {
        /// The process.
        process: Pid,
    },
    /// The thread has nothing to do, and rests.
    Parked,
    /// The thread rests no more.
    Woken,
    /// The thread took processes from the queue of another one.
    Stole {
        /// The number of that thread, with which its name ends.
        from: u32,
        /// How many.
        count: u32,
    },
    /// A timer was set.
    TimerSet {
        /// The process that waits for it, if it is one that does.
        process: Option<Pid>,
        /// When it is due, since the recording began.
        due: Duration,
    },
    /// A timer fired.
    TimerFired {
        /// The process that waits for it, if it is one that does.
        process: Option<Pid>,
        /// How long after it was due.
        late: Duration,
    },
    /// A step began to block, and gave its permit to another thread.
    BlockingBegan {
        /// The process, if it is one that blocks.
        process: Option<Pid>,
    },
    /// It blocks no more.
    BlockingEnded {
        /// The process, if it is one that blocks.
        process: Option<Pid>,
    },
    /// A step has exceeded the stall limit. On the thread that found it.
    Stalled {
        /// The process.
        process: Pid,
        /// How long the step had run by then.
        lasted: Duration,
        /// The type of the message, if it was handling one.
        message: Option<TypeIndex>,
    },
    /// The permit of a step that did not end was given to another thread. On the thread that found it.
    TakenOver {
        /// The process.
        process: Pid,
    },
    /// A flight recorder [samples](crate::record::FlightRecorder::sample): from here on all is recorded. In place of a
    /// thread, the event has one named `samples`.
    SampleBegan,
    /// From here on, only what is rare is recorded: abnormal ends, stalls, suspensions, blocking. What has begun and
    /// not ended by now, slices and handlings, has no event for its end.
    SampleEnded,
}
