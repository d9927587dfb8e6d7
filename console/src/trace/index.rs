//! The events of a recording, indexed by message, process and thread.
//!
//! Many events have the same time; in a simulation, most do. So an event is identified by its position in the sequence,
//! a [`Point`], and its time is looked up.

use super::moment::{Legend, Moment, Then, What};
use postroom::Pid;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A position in the sequence of events, starting at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point(NonZeroU32);

/// The history of a message, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TracedMessage {
    pub(super) sent: Option<Point>,
    pub(super) began: Option<Point>,
    pub(super) ended: Option<Point>,
    /// When the answer reached the calling process.
    pub(super) answered: Option<Point>,
    /// When the calling process took the answer.
    pub(super) taken: Option<Point>,
    /// The sender, if the send is known.
    pub(super) from: Option<Number>,
    /// The receiver, if the send or the handling is known.
    pub(super) to: Option<Number>,
    /// The type of the message, if the send or the handling is known.
    pub(super) of: u32,
    /// Whether a process awaits an answer.
    pub(super) is_call: bool,
}

/// The number of a process, starting at zero.
pub(super) type Number = u32;

/// The events of a process.
#[derive(Debug)]
pub(super) struct ProcessHistory {
    pub(super) pid: Pid,
    pub(super) of: Option<u32>,
    pub(super) slices: Vec<Slice>,
    pub(super) handlings: Vec<Handling>,
    pub(super) suspensions: Vec<Suspension>,
    /// Events that the process may have waited for.
    pub(super) wakes: Vec<(Point, Wake)>,
    /// The calls that the process has sent, with their flows.
    pub(super) calls: Vec<(Point, u32)>,
    /// Periods within time slices in which the process blocked its thread.
    pub(super) blocked: Vec<(Point, Option<Point>)>,
    pub(super) stalls: Vec<Point>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) began: Point,
    pub(super) ended: Option<Point>,
    pub(super) thread: u32,
    pub(super) then: Then,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Handling {
    pub(super) began: Point,
    pub(super) ended: Option<Point>,
    /// The type of the message.
    pub(super) of: u32,
    pub(super) flow: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Suspension {
    pub(super) began: Point,
    pub(super) ended: Option<Point>,
    /// The process whose mailbox is full; none if it is on another node.
    pub(super) at: Option<Number>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Wake {
    /// The answer to the call with this flow.
    Answer(Option<u32>),
    /// A timer, and by how many nanoseconds it was late.
    Timer { late: u64 },
}

/// A time slice on a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadSlice {
    pub(super) began: Point,
    pub(super) ended: Option<Point>,
    pub(super) process: Number,
}

/// The index of a recording or of one of its samples. Takes about as much memory as the recording or sample.
#[derive(Debug)]
pub(super) struct Index {
    times: Vec<u64>,
    /// The flow of the first entry of `messages`, which is indexed by flow.
    first: u32,
    messages: Vec<TracedMessage>,
    numbers: HashMap<Pid, Number>,
    processes: Vec<ProcessHistory>,
    threads: Vec<Vec<ThreadSlice>>,
    /// When a worker was taken from a step that did not end, and the process of that step.
    pub(super) taken_over: Vec<(Point, Number)>,
    /// The time from which the records of all threads are complete.
    pub(super) complete_from: u64,
    pub(super) legend: Arc<Legend>,
    /// The time of the end, in nanoseconds.
    length: u64,
}

/// Ends the last of several periods at `point`, if that period has no end yet.
fn close(last: Option<&mut Option<Point>>, point: Point) {
    if let Some(ended) = last {
        ended.get_or_insert(point);
    }
}

impl Index {
    /// Indexes a recording. Each of its samples gets an index of its own: no flow leads from one sample to another, and
    /// what a process did between two samples is not known.
    pub(super) fn samples(moments: impl Iterator<Item = Moment>, legend: Legend) -> Vec<Self> {
        let legend = Arc::new(legend);
        let (mut over, mut index) = (Vec::new(), Self::new(&legend, 0));
        let (mut answers, mut complete_from, mut now) = (HashMap::new(), 0, 0);
        let mut seen = vec![false; legend.threads.len()];
        for moment in moments {
            // Four billion events would take more memory than a recording may use.
            let Some(point) = u32::try_from(index.times.len() + 1).ok().and_then(NonZeroU32::new).map(Point) else {
                break;
            };
            // Keep time monotonic even if the events are not.
            now = moment.at.max(now);
            if let Some(seen) = seen.get_mut(moment.thread as usize)
                && !std::mem::replace(seen, true)
                && legend.threads[moment.thread as usize].lost > 0
            {
                complete_from = now;
            }
            if let What::SampleEnded = moment.what {
                let next = Self::new(&legend, index.first + index.messages.len() as u32);
                over.push(Self { length: now, ..std::mem::replace(&mut index, next) });
                answers.clear();
                continue;
            }
            index.times.push(now);
            index.add(point, moment, &mut answers);
        }
        index.length = index.length.max(now);
        over.push(index);
        over.iter_mut().for_each(|index| index.complete_from = complete_from);
        over
    }

    fn new(legend: &Arc<Legend>, first: u32) -> Self {
        Self {
            times: Vec::new(),
            first,
            messages: Vec::new(),
            numbers: HashMap::new(),
            processes: Vec::new(),
            threads: vec![Vec::new(); legend.threads.len()],
            taken_over: Vec::new(),
            complete_from: 0,
            legend: legend.clone(),
            length: legend.length,
        }
    }

    /// Adds an event. For each call whose answer has not been taken yet, `answers` maps the flow of the answer to the
    /// flow of the call.
    fn add(&mut self, point: Point, moment: Moment, answers: &mut HashMap<u32, u32>) {
        let thread = moment.thread;
        match moment.what {
            What::SliceBegan { process, of } => self.slice_began(point, thread, process, of),
            What::SliceEnded { process, then } => self.slice_ended(point, thread, process, then),
            What::HandlingBegan { process, message, flow } => self.handling_began(point, process, message, flow),
            What::HandlingEnded { process } => {
                let number = self.number(process);
                self.end_handling(number, point);
            }
            What::Sent { from, to, message, flow, answer } => {
                if let Some(answer) = answer {
                    answers.insert(answer, flow);
                }
                self.sent(point, (from, to), message, flow, answer.is_some());
            }
            What::Answered { to, answer } => {
                let flow = answer.and_then(|answer| answers.get(&answer).copied());
                if let Some(flow) = flow {
                    self.message_mut(flow).answered = Some(point);
                }
                self.process_mut(to).wakes.push((point, Wake::Answer(flow)));
            }
            What::AnswerTaken { answer, .. } => {
                if let Some(flow) = answers.remove(&answer) {
                    self.message_mut(flow).taken = Some(point);
                }
            }
            What::Suspended { process, at } => {
                let at = at.map(|at| self.number(at));
                self.process_mut(process).suspensions.push(Suspension { began: point, ended: None, at });
            }
            What::Resumed { process } => {
                let suspension = self.process_mut(process).suspensions.last_mut();
                close(suspension.map(|suspension| &mut suspension.ended), point);
            }
            What::TimerFired { process: Some(process), late } => {
                self.process_mut(process).wakes.push((point, Wake::Timer { late }));
            }
            What::BlockingBegan { process: Some(process) } => self.process_mut(process).blocked.push((point, None)),
            What::BlockingEnded { process: Some(process) } => {
                let blocked = self.process_mut(process).blocked.last_mut();
                close(blocked.map(|(_, ended)| ended), point);
            }
            What::Stalled { process, .. } => self.process_mut(process).stalls.push(point),
            What::TakenOver { process } => {
                let number = self.number(process);
                self.taken_over.push((point, number));
            }
            What::Spawned { process, of } | What::Ended { process, of } => self.process_mut(process).of = Some(of),
            What::SampleBegan
            | What::SampleEnded
            | What::Stole { .. }
            | What::TimerFired { process: None, .. }
            | What::BlockingBegan { process: None }
            | What::BlockingEnded { process: None } => {}
        }
    }

    fn slice_began(&mut self, point: Point, thread: u32, process: Pid, of: u32) {
        let number = self.number(process);
        let known = &mut self.processes[number as usize];
        known.of = Some(of);
        // A slice whose end is not known ends no later than the next one begins.
        close(known.slices.last_mut().map(|slice| &mut slice.ended), point);
        known.slices.push(Slice { began: point, ended: None, thread, then: Then::Ready });
        if let Some(slices) = self.threads.get_mut(thread as usize) {
            close(slices.last_mut().map(|slice| &mut slice.ended), point);
            slices.push(ThreadSlice { began: point, ended: None, process: number });
        }
    }

    fn slice_ended(&mut self, point: Point, thread: u32, process: Pid, then: Then) {
        let number = self.number(process);
        if let Some(slice) = self.processes[number as usize].slices.last_mut()
            && slice.ended.is_none()
        {
            (slice.ended, slice.then) = (Some(point), then);
        }
        let on_thread = self.threads.get_mut(thread as usize).and_then(|slices| slices.last_mut());
        close(on_thread.filter(|slice| slice.process == number).map(|slice| &mut slice.ended), point);
    }

    fn handling_began(&mut self, point: Point, process: Pid, message: u32, flow: Option<u32>) {
        let number = self.number(process);
        self.end_handling(number, point);
        let handling = Handling { began: point, ended: None, of: message, flow };
        self.processes[number as usize].handlings.push(handling);
        if let Some(flow) = flow {
            let known = self.message_mut(flow);
            (known.began, known.to, known.of) = (Some(point), Some(number), message);
        }
    }

    fn sent(&mut self, point: Point, (from, to): (Option<Pid>, Pid), message: u32, flow: u32, is_call: bool) {
        let (from, to) = (from.map(|from| self.number(from)), self.number(to));
        if let Some(from) = from.filter(|_| is_call) {
            self.processes[from as usize].calls.push((point, flow));
        }
        let known = self.message_mut(flow);
        (known.sent, known.from, known.to) = (Some(point), from, Some(to));
        (known.of, known.is_call) = (message, is_call);
    }

    fn number(&mut self, pid: Pid) -> Number {
        let processes = &mut self.processes;
        *self.numbers.entry(pid).or_insert_with(|| {
            processes.push(ProcessHistory::new(pid));
            (processes.len() - 1) as Number
        })
    }

    fn process_mut(&mut self, pid: Pid) -> &mut ProcessHistory {
        let number = self.number(pid);
        &mut self.processes[number as usize]
    }

    fn message_mut(&mut self, flow: u32) -> &mut TracedMessage {
        // The flows of a sample have larger numbers than those of earlier samples.
        let place = flow.saturating_sub(self.first) as usize;
        if self.messages.len() <= place {
            self.messages.resize(place + 1, TracedMessage::default());
        }
        &mut self.messages[place]
    }

    fn end_handling(&mut self, number: Number, point: Point) {
        if let Some(handling) = self.processes[number as usize].handlings.last_mut()
            && handling.ended.is_none()
        {
            handling.ended = Some(point);
            if let Some(flow) = handling.flow {
                self.message_mut(flow).ended = Some(point);
            }
        }
    }

    /// Returns the time of a point; for a point after the last event, the time of the end.
    pub(super) fn at(&self, point: Point) -> u64 {
        self.times.get(point.0.get() as usize - 1).copied().unwrap_or(self.length)
    }

    /// Returns the point after all events.
    pub(super) fn end(&self) -> Point {
        Point(NonZeroU32::MIN.saturating_add(self.times.len() as u32))
    }

    /// Returns the point from which the records of all threads are complete.
    pub(super) fn complete_from(&self) -> Point {
        let before = self.times.partition_point(|&at| at < self.complete_from);
        Point(NonZeroU32::MIN.saturating_add(before as u32))
    }

    pub(super) fn process(&self, number: Number) -> &ProcessHistory {
        &self.processes[number as usize]
    }

    pub(super) fn message(&self, flow: u32) -> Option<&TracedMessage> {
        let place = flow.checked_sub(self.first)?;
        self.messages.get(place as usize).filter(|message| message.sent.is_some() || message.began.is_some())
    }

    /// Returns all messages whose sends are known, with their flows.
    pub(super) fn messages(&self) -> impl Iterator<Item = (u32, &TracedMessage)> {
        (self.first..).zip(&self.messages).filter(|(_, message)| message.sent.is_some())
    }

    pub(super) fn thread(&self, thread: u32) -> &[ThreadSlice] {
        self.threads.get(thread as usize).map_or(&[], Vec::as_slice)
    }
}

impl ProcessHistory {
    fn new(pid: Pid) -> Self {
        Self {
            pid,
            of: None,
            slices: Vec::new(),
            handlings: Vec::new(),
            suspensions: Vec::new(),
            wakes: Vec::new(),
            calls: Vec::new(),
            blocked: Vec::new(),
            stalls: Vec::new(),
        }
    }
}
