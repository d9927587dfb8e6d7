//! The kinds of records.

/// What a record is about. In the low bits of its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    Slice,
    SliceEnd,
    Handle,
    Send,
    Ask,
    Answer,
    AnswerTaken,
    Spawn,
    End,
    Suspend,
    Resume,
    Park,
    Wake,
    Steal,
    TimerSet,
    TimerFired,
    Block,
    Unblock,
    Stall,
    TakeOver,
    /// The time of a virtual clock.
    Time,
    /// Made when a recording is read: from here on, and up to here, slices and messages are recorded.
    SampleBegin,
    SampleEnd,
}

impl RecordKind {
    const ALL: [Self; 23] = [
        Self::Slice,
        Self::SliceEnd,
        Self::Handle,
        Self::Send,
        Self::Ask,
        Self::Answer,
        Self::AnswerTaken,
        Self::Spawn,
        Self::End,
        Self::Suspend,
        Self::Resume,
        Self::Park,
        Self::Wake,
        Self::Steal,
        Self::TimerSet,
        Self::TimerFired,
        Self::Block,
        Self::Unblock,
        Self::Stall,
        Self::TakeOver,
        Self::Time,
        Self::SampleBegin,
        Self::SampleEnd,
    ];

    pub(crate) fn of(word: u64) -> Option<Self> {
        Self::ALL.get((word & ((1 << KIND_BITS) - 1)) as usize).copied()
    }

    /// Returns whether it belongs to slices and messages, of which a sample has all. The others come singly.
    pub(crate) fn is_sampled(self) -> bool {
        matches!(
            self,
            Self::Slice
                | Self::SliceEnd
                | Self::Handle
                | Self::Send
                | Self::Ask
                | Self::Answer
                | Self::AnswerTaken
                | Self::Park
                | Self::Wake
                | Self::Steal
        )
    }
}

/// The rest of the first word is the time since the session began: with 2^59 cycles, some years.
pub(crate) const KIND_BITS: u32 = 5;
