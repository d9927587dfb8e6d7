//! Recordings: the records of all threads in chronological order, and their conversion into events.
//!
//! # Flows
//!
//! The send and the handling of a message are recorded with the receiver's slot and generation, and with the sequence
//! number of the message in its mailbox. Sequence numbers restart whenever the mailbox has been empty while its process
//! was idle, and they wrap. So a handling belongs to the latest earlier send with the same three values that has no
//! handling yet. If records were overwritten, a send from before the last gap is not paired at all: its handling may be
//! missing, and a later one must not be mistaken for it.

use super::event::{EndKind, EventKind, Fate, FlowId, Party, RecordedEvent, SliceEnd, ThreadIndex, TypeIndex};
use super::kind::{KIND_BITS, RecordKind};
use super::ring::{Record, TypeName};
use crate::env::clock::Moment;
use crate::pid::{GENERATION_BITS, Pid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::{NonZeroU32, NonZeroU64};
use std::time::{Duration, Instant};

#[cfg(all(test, not(loom)))]
mod tests;

/// Mask of the message's sequence number in the extra word of a send.
pub(crate) const SEQUENCE_MASK: u64 = (1 << (64 - GENERATION_BITS - 4)) - 1;

/// The contents read from a thread's ring.
pub(super) struct RawTrack {
    pub(super) thread: String,
    pub(super) records: Vec<Record>,
    pub(super) lost: u64,
}

/// A thread of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedThread {
    name: String,
    lost: u64,
}

impl RecordedThread {
    /// Returns the name of the thread. The name of a worker consists of the name of its host and its number.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the thread's records that were overwritten before the recording ended. Each message takes
    /// at least three records.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// A record with its time and its thread, and the numbers of its type and its flow, if it has them.
#[derive(Clone, Copy, Debug)]
struct Stamped {
    at: u64,
    thread: u32,
    kind: RecordKind,
    name: u32,
    /// The number of the record's flow; zero if it has none.
    flow: u32,
    /// For a send, the number of the answer's flow.
    answer: u32,
    process: u64,
    extra: u64,
}

const NO_NAME: u32 = u32::MAX;

impl Stamped {
    const NOTHING: Self =
        Self { at: 0, thread: 0, kind: RecordKind::Time, name: NO_NAME, flow: 0, answer: 0, process: 0, extra: 0 };
}

/// The events of a host during some period. See [`Host::record`](crate::Host::record).
#[derive(Clone, Debug)]
pub struct Recording {
    records: Vec<Stamped>,
    threads: Vec<RecordedThread>,
    types: Vec<&'static str>,
    missed: u64,
    duration: Duration,
    /// The node and host of its processes.
    place: NonZeroU64,
    /// The fate of each flow, by number; `None` if the flow is an answer.
    fates: Vec<Option<Fate>>,
}

impl Recording {
    /// Creates a recording from records that are stamped with ticks, between two moments.
    pub(super) fn timed(
        raw: Vec<RawTrack>,
        missed: u64,
        place: NonZeroU64,
        nanoseconds: impl Fn(u64) -> u64,
        (from, to): (u64, u64),
        mut samples: Vec<(u64, u64)>,
        begin: Instant,
    ) -> Self {
        let begin = Moment::from_instant(begin).nanoseconds().saturating_add(from);
        let mut builder = RecordingBuilder::new(place, begin);
        // Merges two samples if one begins in the nanosecond in which the other ends, since the order of that end and
        // that beginning would be unknown.
        samples.dedup_by(|next, last| {
            let meet = next.0 <= last.1;
            last.1 = if meet { next.1 } else { last.1 };
            meet
        });
        let is_whole = |at: u64| {
            let next = samples.partition_point(|(began, _)| *began <= at);
            next.checked_sub(1).is_some_and(|place| at <= samples[place].1)
        };
        let within = |at: &u64| (from..=to).contains(at);
        // A sample that was open when the recording began has no event for its beginning.
        let begins = samples.iter().map(|(began, _)| *began).filter(|at| within(at) && *at > from);
        let begins: Vec<u64> = begins.map(|at| at - from).collect();
        let ends: Vec<u64> = samples.iter().map(|(_, ended)| *ended).filter(within).map(|at| at - from).collect();
        // The beginnings are added before the records, and the ends after them, so that they enclose records of the
        // same moment: the sort is stable.
        let sampler = raw.len() as u32;
        builder.bound(sampler, &begins, RecordKind::SampleBegin);
        for track in raw {
            let thread = builder.thread(track.thread, track.lost);
            let mut complete_from = 0;
            for (index, record) in track.records.into_iter().enumerate() {
                let at = nanoseconds(record.words[0] >> KIND_BITS);
                if index == 0 && track.lost > 0 {
                    complete_from = at;
                }
                let is_sampled = RecordKind::of(record.words[0]).is_some_and(RecordKind::is_sampled);
                if within(&at) && (!is_sampled || is_whole(at)) {
                    builder.add(thread, at - from, at - from, record);
                }
            }
            builder.complete_from = builder.complete_from.max(complete_from.saturating_sub(from));
        }
        builder.bound(sampler, &ends, RecordKind::SampleEnd);
        if !(begins.is_empty() && ends.is_empty()) {
            builder.thread("samples".into(), 0);
        }
        builder.finish(missed, Duration::from_nanos(to - from))
    }

    /// Creates a recording from records that are stamped with their order.
    pub(super) fn ordered(
        raw: Vec<RawTrack>,
        missed: u64,
        place: NonZeroU64,
        began: Moment,
        lasted: Duration,
        (from, to): (u64, u64),
    ) -> Self {
        let mut builder = RecordingBuilder::new(place, began.nanoseconds());
        for track in raw {
            let thread = builder.thread(track.thread, track.lost);
            let mut now = 0;
            for (index, record) in track.records.into_iter().enumerate() {
                let order = record.words[0] >> KIND_BITS;
                if RecordKind::of(record.words[0]) == Some(RecordKind::Time) {
                    now = record.words[2].saturating_sub(began.nanoseconds());
                }
                if index == 0 && track.lost > 0 {
                    builder.complete_from = builder.complete_from.max(order);
                }
                if (from..=to).contains(&order) {
                    builder.add(thread, order, now, record);
                }
            }
        }
        builder.finish(missed, lasted)
    }

    /// Returns the events of all threads in chronological order.
    pub fn events(&self) -> RecordedEvents<'_> {
        RecordedEvents {
            recording: self,
            next: 0,
            ready: VecDeque::new(),
            slices: vec![None; self.threads.len()],
            handlings: BTreeMap::new(),
        }
    }

    /// Returns the threads, in the order of their indices.
    pub fn threads(&self) -> &[RecordedThread] {
        &self.threads
    }

    /// Returns the names of the types of processes and messages, in the order of their indices.
    pub fn types(&self) -> &[&'static str] {
        &self.types
    }

    /// Returns the number of missing records: those that were overwritten (see [`RecordedThread::lost`] for each
    /// thread), and those of threads for which there was no memory left.
    pub fn lost(&self) -> u64 {
        self.missed + self.threads.iter().map(RecordedThread::lost).sum::<u64>()
    }

    /// Returns the duration of the recording by its host's clock.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns the fate of a message whose send was recorded, or `None` if the flow is not that of a message, or
    /// belongs to another recording.
    pub fn fate(&self, flow: FlowId) -> Option<Fate> {
        self.fates.get(flow.0.get() as usize - 1).copied().flatten()
    }

    fn pid(&self, incarnation: u64) -> Pid {
        Pid::of_words(self.place, incarnation)
    }
}

/// Collects the records of all threads.
struct RecordingBuilder {
    place: NonZeroU64,
    /// When the recording began, by the timers' clock.
    began: u64,
    /// The records, each with its sort key.
    records: Vec<(u64, Stamped)>,
    threads: Vec<RecordedThread>,
    types: Vec<&'static str>,
    numbers: BTreeMap<&'static str, u32>,
    addresses: BTreeMap<usize, u32>,
    /// The sort key from which the records of all threads are complete.
    complete_from: u64,
}

impl RecordingBuilder {
    fn new(place: NonZeroU64, began: u64) -> Self {
        Self {
            place,
            began,
            records: Vec::new(),
            threads: Vec::new(),
            types: Vec::new(),
            numbers: BTreeMap::new(),
            addresses: BTreeMap::new(),
            complete_from: 0,
        }
    }

    fn thread(&mut self, name: String, lost: u64) -> u32 {
        self.threads.push(RecordedThread { name, lost });
        self.threads.len() as u32 - 1
    }

    /// Adds the beginnings or the ends of samples.
    fn bound(&mut self, thread: u32, times: &[u64], kind: RecordKind) {
        let bounds = times.iter().map(|&at| (at, Stamped { at, thread, kind, ..Stamped::NOTHING }));
        self.records.extend(bounds);
    }

    fn add(&mut self, thread: u32, sorted: u64, at: u64, record: Record) {
        let [first, process, extra] = record.words;
        let Some(kind) = RecordKind::of(first).filter(|kind| *kind != RecordKind::Time) else { return };
        let name = record.name.map_or(NO_NAME, |name| self.name(name));
        if kind == RecordKind::Slice && extra & SLICE_OVER != 0 {
            let (kind, extra) = (RecordKind::SliceEnd, extra & !SLICE_OVER);
            self.records.push((sorted, Stamped { at, thread, kind, extra, ..Stamped::NOTHING }));
        }
        let extra = if kind == RecordKind::TimerSet { extra.saturating_sub(self.began) } else { extra };
        self.records.push((sorted, Stamped { at, thread, kind, name, process, extra, ..Stamped::NOTHING }));
    }

    fn name(&mut self, name: &'static TypeName) -> u32 {
        let Self { types, numbers, addresses, .. } = self;
        // A type may have several name constants.
        *addresses.entry(std::ptr::from_ref(name).addr()).or_insert_with(|| {
            let name = name();
            *numbers.entry(name).or_insert_with(|| {
                types.push(name);
                types.len() as u32 - 1
            })
        })
    }

    fn finish(mut self, missed: u64, duration: Duration) -> Recording {
        // The sort is stable: records of one thread keep their order.
        self.records.sort_by_key(|(sorted, _)| *sorted);
        end_turns_in_time(&mut self.records);
        let fates = tie(&mut self.records, self.complete_from);
        Recording {
            records: self.records.into_iter().map(|(_, record)| record).collect(),
            threads: self.threads,
            types: self.types,
            missed,
            duration,
            place: self.place,
            fates,
        }
    }
}

/// Moves the end of a slice to just before the next slice of its process, if that slice runs on another thread. The
/// recorded end may be too late, because the clock is read only after the process has been released, and often only
/// when the next slice of the thread begins. Adds an end to a slice whose end is not recorded because the sample ended
/// first.
fn end_turns_in_time(records: &mut Vec<(u64, Stamped)>) {
    let mut running: BTreeMap<u64, u32> = BTreeMap::new();
    let mut slices: BTreeMap<u32, u64> = BTreeMap::new();
    // For each thread, the index of the next slice of the process that the thread still seems to run.
    let mut next: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut ends, mut moved): (Vec<(usize, Stamped)>, BTreeSet<usize>) = Default::default();
    let unknown = |thread, next| {
        let (kind, extra) = (RecordKind::SliceEnd, IDLE | SLICE_IN_MESSAGE);
        (next, Stamped { thread, kind, extra, ..Stamped::NOTHING })
    };
    for (index, &(_, record)) in records.iter().enumerate() {
        let thread = record.thread;
        match record.kind {
            RecordKind::Slice => {
                if let Some(other) = running.insert(record.process, thread)
                    && other != thread
                    && slices.get(&other) == Some(&record.process)
                {
                    next.entry(other).or_insert(index);
                }
                slices.insert(thread, record.process);
                ends.extend(next.remove(&thread).map(|next| unknown(thread, next)));
            }
            RecordKind::SliceEnd => {
                if let Some(next) = next.remove(&thread) {
                    moved.insert(index);
                    ends.push((next, record));
                }
                if let Some(process) = slices.remove(&thread)
                    && running.get(&process) == Some(&thread)
                {
                    running.remove(&process);
                }
            }
            RecordKind::SampleEnd => {
                running.clear();
                slices.clear();
                ends.extend(std::mem::take(&mut next).into_iter().map(|(thread, next)| unknown(thread, next)));
            }
            _ => {}
        }
    }
    ends.extend(next.into_iter().map(|(thread, next)| unknown(thread, next)));
    if ends.is_empty() {
        return;
    }
    ends.sort_unstable_by_key(|(next, end)| (*next, end.thread));
    let mut ends = ends.into_iter().peekable();
    let mut ordered = Vec::with_capacity(records.len());
    for (index, &(sorted, record)) in records.iter().enumerate() {
        while let Some((_, end)) = ends.next_if(|(next, _)| *next == index) {
            ordered.push((sorted, Stamped { at: record.at, ..end }));
        }
        if !moved.contains(&index) {
            ordered.push((sorted, record));
        }
    }
    *records = ordered;
}

/// Connects sends to handlings and answers. Returns the fate of each flow, by number.
fn tie(records: &mut [(u64, Stamped)], complete_from: u64) -> Vec<Option<Fate>> {
    let mut flows = Flows::default();
    for index in 0..records.len() {
        flows.tie(records, index, complete_from);
    }
    flows.into_fates()
}

/// The flows of the records so far, in chronological order.
#[derive(Default)]
struct Flows {
    /// The fate of the message of each flow, and its receiver, by number. The fate is `None` if the flow is an answer.
    fates: Vec<(Option<Fate>, u64)>,
    /// The flows that wait for their handling, by receiver and sequence number.
    sent: BTreeMap<(u64, u64), Vec<u32>>,
    /// The flows of answers, by caller and tag.
    asked: BTreeMap<(u64, u64), u32>,
    ended: BTreeSet<u64>,
    /// The process that each thread runs.
    slices: BTreeMap<u32, u64>,
    /// The index of the most recent send of each thread.
    last_send: BTreeMap<u32, usize>,
}

impl Flows {
    /// Adds a flow. Returns its number.
    fn begin(&mut self, fate: Option<Fate>, receiver: u64) -> u32 {
        self.fates.push((fate, receiver));
        self.fates.len() as u32
    }

    fn end(&mut self, flow: u32, fate: Fate) {
        self.fates[flow as usize - 1].0 = Some(fate);
    }

    /// Connects a record to earlier ones.
    fn tie(&mut self, records: &mut [(u64, Stamped)], index: usize, complete_from: u64) {
        let (sorted, record) = records[index];
        match record.kind {
            RecordKind::Slice => _ = self.slices.insert(record.thread, record.process),
            RecordKind::SliceEnd => _ = self.slices.remove(&record.thread),
            RecordKind::Send => {
                let is_known = sorted >= complete_from;
                let flow = self.begin(Some(if is_known { Fate::Queued } else { Fate::Overwritten }), record.process);
                if is_known {
                    self.sent.entry((record.process, record.extra & SEQUENCE_MASK)).or_default().push(flow);
                }
                records[index].1.flow = flow;
                self.last_send.insert(record.thread, index);
            }
            RecordKind::Handle => {
                let waiting = self.sent.get_mut(&(record.process, record.extra & SEQUENCE_MASK));
                if let Some(flow) = waiting.and_then(Vec::pop) {
                    self.end(flow, Fate::Handled);
                    records[index].1.flow = flow;
                }
            }
            RecordKind::Ask => {
                let caller = self.slices.get(&record.thread).copied();
                if let (Some(caller), Some(&send)) = (caller, self.last_send.get(&record.thread)) {
                    let answer = self.begin(None, caller);
                    self.asked.insert((caller, record.extra), answer);
                    records[send].1.answer = answer;
                }
            }
            RecordKind::Answer | RecordKind::AnswerTaken => {
                let key = (record.process, record.extra);
                records[index].1.flow = self.asked.get(&key).copied().unwrap_or(0);
                if record.kind == RecordKind::AnswerTaken {
                    self.asked.remove(&key);
                }
            }
            RecordKind::End => _ = self.ended.insert(record.process),
            // An open flow may end before the next sample, and a later message may have the same number.
            RecordKind::SampleEnd => {
                for flow in std::mem::take(&mut self.sent).into_values().flatten() {
                    self.end(flow, Fate::SampleEnded);
                }
                self.slices.clear();
                self.last_send.clear();
                self.asked.clear();
            }
            _ => {}
        }
    }

    /// Returns the fate of each flow, by number.
    fn into_fates(self) -> Vec<Option<Fate>> {
        let Self { fates, ended, .. } = self;
        let fate = |(fate, receiver)| match fate {
            Some(Fate::Queued) if ended.contains(&receiver) => Some(Fate::ProcessEnded),
            fate => fate,
        };
        fates.into_iter().map(fate).collect()
    }
}

/// The events of a recording in chronological order: see [`Recording::events`].
#[derive(Debug)]
pub struct RecordedEvents<'a> {
    recording: &'a Recording,
    next: usize,
    ready: VecDeque<RecordedEvent>,
    /// The process that each thread runs.
    slices: Vec<Option<u64>>,
    /// The message that each process handles: its type and its flow.
    handlings: BTreeMap<u64, (TypeIndex, Option<FlowId>)>,
}

impl Iterator for RecordedEvents<'_> {
    type Item = RecordedEvent;

    fn next(&mut self) -> Option<RecordedEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let record = *self.recording.records.get(self.next)?;
            self.next += 1;
            self.see(record);
        }
    }
}

impl RecordedEvents<'_> {
    fn see(&mut self, record: Stamped) {
        let Stamped { at, thread, kind, name, flow, answer, process, extra } = record;
        let pid = |incarnation| self.recording.pid(incarnation);
        let (of, flow) = (TypeIndex(name), NonZeroU32::new(flow).map(FlowId));
        let of_process = |incarnation: u64| (incarnation != 0).then(|| pid(incarnation));
        let event = match kind {
            RecordKind::Slice => {
                self.end_slice(at, thread, None);
                self.slices[thread as usize] = Some(process);
                EventKind::SliceBegan { process: pid(process), of }
            }
            RecordKind::SliceEnd => return self.end_slice(at, thread, Some(extra)),
            RecordKind::Handle => {
                self.end_handling(at, thread, process);
                self.handlings.insert(process, (of, flow));
                EventKind::HandlingBegan { process: pid(process), message: of, flow }
            }
            RecordKind::Send => {
                let Some(flow) = flow else { return };
                let from = self.slices[thread as usize];
                let from = from.map_or(Party::Thread(ThreadIndex(thread)), |process| Party::Process(pid(process)));
                let answer = NonZeroU32::new(answer).map(FlowId);
                EventKind::MessageSent { from, to: pid(process), message: of, flow, answer }
            }
            RecordKind::Ask | RecordKind::Time => return,
            RecordKind::SampleBegin => EventKind::SampleBegan,
            RecordKind::SampleEnd => {
                self.slices.fill(None);
                self.handlings.clear();
                EventKind::SampleEnded
            }
            RecordKind::Answer => EventKind::Answered { to: pid(process), flow },
            // Without a flow, what was taken is the result of something else, such as a timer or a command.
            RecordKind::AnswerTaken => match flow {
                Some(flow) => EventKind::AnswerTaken { process: pid(process), flow },
                None => return,
            },
            RecordKind::Spawn => EventKind::Spawned { process: pid(process), of, parent: of_process(extra) },
            RecordKind::End => {
                self.end_handling(at, thread, process);
                let why = end_kind(extra);
                EventKind::Ended { process: pid(process), of, why }
            }
            RecordKind::Suspend => EventKind::Suspended { process: pid(process), at: of_process(extra) },
            RecordKind::Resume => EventKind::Resumed { process: pid(process) },
            RecordKind::Park => EventKind::Parked,
            RecordKind::Wake => EventKind::Woken,
            RecordKind::Steal => EventKind::Stole { from: process as u32, count: extra as u32 },
            RecordKind::TimerSet => {
                EventKind::TimerSet { process: of_process(process), due: Duration::from_nanos(extra) }
            }
            RecordKind::TimerFired => {
                EventKind::TimerFired { process: of_process(process), late: Duration::from_nanos(extra) }
            }
            RecordKind::Block => EventKind::BlockingBegan { process: of_process(process) },
            RecordKind::Unblock => EventKind::BlockingEnded { process: of_process(process) },
            RecordKind::Stall => {
                let message = (name != NO_NAME).then_some(of);
                EventKind::Stalled { process: pid(process), lasted: Duration::from_nanos(extra), message }
            }
            RecordKind::TakeOver => EventKind::TakenOver { process: pid(process) },
        };
        self.push(at, thread, event);
    }

    fn push(&mut self, at: u64, thread: u32, kind: EventKind) {
        self.ready.push_back(RecordedEvent { at: Duration::from_nanos(at), thread: ThreadIndex(thread), kind });
    }

    /// Ends the slice of a thread. `ended` is the extra word of the record of that end, or `None` if the record was
    /// overwritten.
    fn end_slice(&mut self, at: u64, thread: u32, ended: Option<u64>) {
        let Some(process) = self.slices[thread as usize].take() else { return };
        let word = ended.unwrap_or(IDLE);
        if word & SLICE_IN_MESSAGE == 0 {
            self.end_handling(at, thread, process);
        }
        let then = match word & !SLICE_IN_MESSAGE {
            READY => SliceEnd::Ready,
            WAITS => SliceEnd::Waits,
            SUSPENDED => SliceEnd::Suspended,
            ENDED => SliceEnd::Ended,
            _ => SliceEnd::Idle,
        };
        self.push(at, thread, EventKind::SliceEnded { process: self.recording.pid(process), then });
    }

    fn end_handling(&mut self, at: u64, thread: u32, process: u64) {
        if let Some((message, flow)) = self.handlings.remove(&process) {
            let process = self.recording.pid(process);
            self.push(at, thread, EventKind::HandlingEnded { process, message, flow });
        }
    }
}

/// The reason why a slice ended, in the extra word of its record.
pub(crate) const IDLE: u64 = 0;
pub(crate) const READY: u64 = 1;
pub(crate) const WAITS: u64 = 2;
pub(crate) const SUSPENDED: u64 = 3;
pub(crate) const ENDED: u64 = 4;
/// Combined with a reason: the process has not finished handling a message.
pub(crate) const SLICE_IN_MESSAGE: u64 = 1 << 8;
/// Combined with a reason in the extra word of a slice's beginning: the reason tells why the previous slice of the
/// thread ended.
pub(crate) const SLICE_OVER: u64 = 1 << 9;

/// The kinds of exit reasons. The extra word in the record of a process's end is an index into this list.
const END_KINDS: [EndKind; 7] = [
    EndKind::Normal,
    EndKind::Panic,
    EndKind::NotStarted,
    EndKind::Killed,
    EndKind::Cancelled,
    EndKind::Linked,
    EndKind::Failed,
];

pub(crate) fn end_word(kind: EndKind) -> u64 {
    END_KINDS.iter().position(|other| *other == kind).unwrap_or(0) as u64
}

fn end_kind(word: u64) -> EndKind {
    END_KINDS.get(word as usize).copied().unwrap_or(EndKind::Failed)
}
