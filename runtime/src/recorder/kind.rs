//! The kinds of records.

/// The kind of a record, stored in the low bits of its first word.
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
    /// The current time of a virtual clock.
    Time,
    /// Inserted when a recording is read: slices and messages are recorded between `SampleBegin` and `SampleEnd`.
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

    /// Returns whether records of this kind are sampled: a recording contains all of them from within a sample, and
    /// none from outside. They concern slices, messages, and what threads do between slices. Records of other kinds do
    /// not depend on samples.
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

/// Number of bits for the kind. The rest of the first word is the time since the session began: 2^59 cycles last for
/// years.
pub(crate) const KIND_BITS: u32 = 5;
