//! The events of a recording, as the writer and the analysis read them.
//!
//! Only this file depends on the recorder's events, so that both can be tested on event streams that no program
//! produces.

use postroom::Pid;
use postroom::record::{EventKind, FlowId, Party, RecordedEvent, Recording, SliceEnd, TypeIndex};

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Nanoseconds since the recording began.
    pub(super) at: u64,
    /// The number of the thread on which the event happened.
    pub(super) thread: u32,
    pub(super) what: What,
}

/// The kind of an event. Types are indices into [`Legend::types`]; flow numbers start at one.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    SliceBegan { process: Pid, of: u32 },
    SliceEnded { process: Pid, then: Then },
    HandlingBegan { process: Pid, message: u32, flow: Option<u32> },
    HandlingEnded { process: Pid },
    Sent { from: Option<Pid>, to: Pid, message: u32, flow: u32, answer: Option<u32> },
    Answered { to: Pid, answer: Option<u32> },
    AnswerTaken { process: Pid, answer: u32 },
    Spawned { process: Pid, of: u32 },
    Ended { process: Pid, of: u32 },
    Suspended { process: Pid, at: Option<Pid> },
    Resumed { process: Pid },
    Stole { count: u32 },
    TimerFired { process: Option<Pid>, late: u64 },
    BlockingBegan { process: Option<Pid> },
    BlockingEnded { process: Option<Pid> },
    Stalled { process: Pid, message: Option<u32> },
    TakenOver { process: Pid },
    SampleBegan,
    SampleEnded,
}

/// Why a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing was left to do.
    Idle,
    /// There was more to do.
    Ready,
    /// The process awaited something.
    Waits,
    /// The process was suspended at a full mailbox.
    Suspended,
    Ended,
}

/// The meaning of the numbers in moments, and how many records are missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Legend {
    pub(super) types: Vec<&'static str>,
    pub(super) threads: Vec<TracedThread>,
    /// Number of missing records of all threads.
    pub(super) lost: u64,
    /// Duration in nanoseconds.
    pub(super) length: u64,
}

#[derive(Clone, Debug)]
pub(super) struct TracedThread {
    pub(super) name: String,
    pub(super) lost: u64,
}

impl Legend {
    pub(super) fn name(&self, of: u32) -> &'static str {
        self.types.get(of as usize).copied().unwrap_or("?")
    }
}

impl From<&Recording> for Legend {
    fn from(recording: &Recording) -> Self {
        let thread = |thread: &postroom::record::RecordedThread| TracedThread {
            name: thread.name().into(),
            lost: thread.lost(),
        };
        Self {
            types: recording.types().to_vec(),
            threads: recording.threads().iter().map(thread).collect(),
            lost: recording.lost(),
            length: u64::try_from(recording.duration().as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// Returns the events of a recording in the form that the writer and the analysis read.
pub(super) fn moments(recording: &Recording) -> impl Iterator<Item = Moment> {
    recording.events().filter_map(moment)
}

fn moment(event: RecordedEvent) -> Option<Moment> {
    let of = |index: TypeIndex| u32::try_from(index.index()).unwrap_or(u32::MAX);
    let flow_of = |flow: Option<FlowId>| flow.map(FlowId::get);
    let what = match event.kind {
        EventKind::SliceBegan { process, of: kind } => What::SliceBegan { process, of: of(kind) },
        EventKind::SliceEnded { process, then } => What::SliceEnded {
            process,
            then: match then {
                SliceEnd::Idle => Then::Idle,
                SliceEnd::Ready => Then::Ready,
                SliceEnd::Suspended => Then::Suspended,
                SliceEnd::Ended => Then::Ended,
                _ => Then::Waits,
            },
        },
        EventKind::HandlingBegan { process, message, flow } => {
            What::HandlingBegan { process, message: of(message), flow: flow_of(flow) }
        }
        EventKind::HandlingEnded { process, .. } => What::HandlingEnded { process },
        EventKind::MessageSent { from, to, message, flow, answer } => {
            let from = match from {
                Party::Process(process) => Some(process),
                _ => None,
            };
            What::Sent { from, to, message: of(message), flow: flow.get(), answer: flow_of(answer) }
        }
        EventKind::Answered { to, flow } => What::Answered { to, answer: flow_of(flow) },
        EventKind::AnswerTaken { process, flow } => What::AnswerTaken { process, answer: flow.get() },
        EventKind::Spawned { process, of: kind, .. } => What::Spawned { process, of: of(kind) },
        EventKind::Ended { process, of: kind, .. } => What::Ended { process, of: of(kind) },
        EventKind::Suspended { process, at } => What::Suspended { process, at },
        EventKind::Resumed { process } => What::Resumed { process },
        EventKind::Stole { count, .. } => What::Stole { count },
        EventKind::TimerFired { process, late } => {
            What::TimerFired { process, late: u64::try_from(late.as_nanos()).unwrap_or(u64::MAX) }
        }
        EventKind::BlockingBegan { process } => What::BlockingBegan { process },
        EventKind::BlockingEnded { process } => What::BlockingEnded { process },
        EventKind::Stalled { process, message, .. } => What::Stalled { process, message: message.map(of) },
        EventKind::TakenOver { process } => What::TakenOver { process },
        EventKind::SampleBegan => What::SampleBegan,
        EventKind::SampleEnded => What::SampleEnded,
        // Sleeping threads appear as gaps. Events that later versions record are not known here.
        _ => return None,
    };
    let at = u64::try_from(event.at.as_nanos()).unwrap_or(u64::MAX);
    Some(Moment { at, thread: u32::try_from(event.thread.index()).unwrap_or(u32::MAX), what })
}
