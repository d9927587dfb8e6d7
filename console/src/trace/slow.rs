//! Explains why a message was slow, by breaking down its time along its causal path.
//!
//! A process does one thing at a time, so its time is a line of slices with gaps between them. A gap ended because
//! something happened on another line: a called process answered, or a mailbox got room. So the walk follows a line
//! from its end to its beginning. If an answer ended a gap, the walk leaves the line at the end of the gap, follows the
//! call, and returns to the line at the point where the call was sent. What the process did between that send and the
//! gap happened *beside* the call, and is not on the path. The result is a tree of intervals, in which the parts of
//! each interval fill it exactly.
//!
//! The time that the message would have taken without a certain cause is computed on the tree: an interval becomes as
//! long as the sum of its parts, but not shorter than what happened beside it. Everything else is assumed to take as
//! long as it did.

use super::index::{Handling, Index, Number, Point, Slice, Suspension, TracedMessage, Wake};
use super::moment::Then;
use super::part::{Cause, Interval, TracedProcess, sum};

/// Maximum depth of the walk, in nested calls and full mailboxes. Chains are usually shorter; the rest of a longer
/// chain becomes a single part.
const MAX_DEPTH: usize = 64;
/// Maximum number of intervals in an explanation. The limit bounds time and memory, and is more than anyone reads.
const MAX_INTERVALS: usize = 50_000;

pub(super) struct Walk<'a> {
    index: &'a Index,
    /// The messages that are being broken down. Each one is nested in the one before it.
    path: Vec<u32>,
    /// Current depth of the walk in calls, full mailboxes, and the activities beside them.
    depth: usize,
    intervals: usize,
    complete_from: Point,
}

impl<'a> Walk<'a> {
    pub(super) fn new(index: &'a Index) -> Self {
        Self { index, path: Vec::new(), depth: 0, intervals: 0, complete_from: index.complete_from() }
    }

    /// Breaks down a message from `from` to `to`. If the caller is a process, this includes the time from the answer
    /// until the caller continued.
    pub(super) fn whole(mut self, flow: u32, message: &TracedMessage, from: Point, to: Point) -> Interval {
        let answered = message.answered.filter(|&answered| answered >= from && answered < to).unwrap_or(to);
        let mut interval = self.message(flow, from, answered);
        if answered < to {
            let caller = message.from.unwrap_or_default();
            interval.parts.extend(self.own(caller, answered, to));
            interval.to = self.index.at(to);
        }
        interval
    }

    /// Breaks down what happened to a message between two points.
    fn message(&mut self, flow: u32, from: Point, to: Point) -> Interval {
        let (begin, end) = (self.index.at(from), self.index.at(to));
        let Some((message, receiver)) = self.index.message(flow).and_then(|known| Some((*known, known.to?))) else {
            return Interval::leaf(Cause::Unknown, begin, end);
        };
        let by = self.subject(receiver);
        let name = self.index.legend.name(message.of);
        let cause = Cause::Message { to: by, message: name };
        let stop = match () {
            // The message may have been handled, and the record of its handling may be lost.
            () if message.began.is_none() && self.index.legend.lost > 0 => Some(Cause::Unknown),
            () if self.path.contains(&flow) => Some(Cause::Cycle),
            () if self.is_deep() => Some(Cause::Remainder),
            () => None,
        };
        if let Some(stop) = stop {
            return Interval::of(cause, begin, end, vec![Interval::leaf(stop, begin, end)]);
        }
        self.path.push(flow);
        self.depth += 1;
        let mut parts = Vec::new();
        let began = message.began.map_or(to, |began| began.clamp(from, to));
        if from < began {
            let waits = self.busy(receiver, from, began);
            parts.push(self.interval(Cause::Mailbox { of: by }, from, began, waits));
        }
        let ended = message.ended.map_or(to, |ended| ended.clamp(began, to));
        if began < ended {
            let handled = self.own(receiver, began, ended);
            parts.push(self.interval(Cause::Handling { by, message: name }, began, ended, handled));
        }
        if ended < to {
            parts.push(self.interval(Cause::Deferred { by }, ended, to, Vec::new()));
        }
        self.path.pop();
        self.depth -= 1;
        self.interval(cause, from, to, parts)
    }

    /// Returns what a process did between two points, divided into the messages that it handled and the time between
    /// them.
    fn busy(&mut self, process: Number, from: Point, to: Point) -> Vec<Interval> {
        let handlings = &self.index.process(process).handlings;
        let first = handlings.partition_point(|handling| handling.ended.is_some_and(|ended| ended <= from));
        let (mut intervals, mut at) = (Vec::new(), from);
        let of = self.subject(process);
        for &Handling { began, ended, of: message, .. } in &handlings[first..] {
            if began >= to {
                break;
            }
            let (began, ended) = (began.clamp(at, to), ended.unwrap_or(to).clamp(at, to));
            if at < began {
                intervals.extend(self.own(process, at, began));
            }
            let own = self.own(process, began, ended);
            let cause = Cause::Behind { of, message: self.index.legend.name(message) };
            intervals.push(self.interval(cause, began, ended, own));
            at = ended;
        }
        if at < to {
            intervals.extend(self.own(process, at, to));
        }
        intervals
    }

    /// Returns what a process did or waited for between two points.
    fn own(&mut self, process: Number, from: Point, to: Point) -> Vec<Interval> {
        let mut intervals = Vec::new();
        let (begin, mut at) = (from, to);
        // Before this point, anything may have happened without being recorded.
        let from = self.complete_from.clamp(from, to);
        let slices = &self.index.process(process).slices;
        while from < at {
            if self.intervals >= MAX_INTERVALS {
                intervals.push(self.leaf(Cause::Remainder, from, at));
                break;
            }
            let next = slices.partition_point(|slice| slice.began < at);
            let last = next.checked_sub(1).map(|place| slices[place]);
            at = match last {
                Some(slice) if slice.ended.is_none_or(|ended| at <= ended) => {
                    self.slice(process, slice, slice.began.max(from), at, &mut intervals)
                }
                _ => self.gap(process, last, slices.get(next), from, at, &mut intervals),
            };
        }
        if begin < from {
            intervals.push(self.leaf(Cause::Unknown, begin, from));
        }
        intervals.reverse();
        intervals
    }

    /// Adds the last part of a slice, up to `at`. Returns where that part begins.
    fn slice(&mut self, process: Number, slice: Slice, from: Point, at: Point, told: &mut Vec<Interval>) -> Point {
        let known = self.index.process(process);
        let blocked = known.blocked[..known.blocked.partition_point(|(began, _)| *began < at)].last();
        let (mut begin, mut blocks) = (from, None);
        if let Some(&(began, ended)) = blocked
            && began >= slice.began
            && ended.is_none_or(|ended| ended > from)
        {
            let ended = ended.unwrap_or(at).min(at);
            if ended < at {
                begin = ended;
            } else {
                (begin, blocks) = (began.max(from), Some(()));
            }
        }
        let (subject, message) = (self.subject(process), self.handled(process, begin, at));
        let cause = match blocks {
            Some(()) => Cause::Blocked { process: subject, message },
            None => Cause::Running { process: subject, message },
        };
        told.push(self.leaf(cause, begin, at));
        begin
    }

    /// Adds a gap between two slices, up to `at`. Returns where the added time begins: at the beginning of the gap or,
    /// if an answer ended the gap, at the send of that call.
    fn gap(
        &mut self,
        process: Number,
        last: Option<Slice>,
        next: Option<&Slice>,
        from: Point,
        at: Point,
        told: &mut Vec<Interval>,
    ) -> Point {
        let begin = last.and_then(|slice| slice.ended).unwrap_or(from).max(from);
        let thread = next.filter(|slice| slice.began == at).map(|slice| slice.thread);
        let gap = Gap { process, thread, begin, end: at };
        let wake = match last.map(|slice| slice.then) {
            // The process could have continued immediately: it had more to do, or a message was waiting.
            None | Some(Then::Ready | Then::Idle | Then::Ended) => None,
            Some(Then::Suspended) => Some(self.suspension(process, at)),
            Some(Then::Waits) => self.wake(process, last, next, begin),
        };
        match wake {
            None => told.push(self.worker(process, thread, begin, at)),
            Some(GapEnd::Room(suspension)) => self.suspended(&gap, suspension, told),
            Some(GapEnd::Timer { fired, late }) => self.slept(&gap, fired, late, told),
            Some(GapEnd::Answer { flow, answered }) => return self.called(&gap, from, flow, answered, told),
            Some(GapEnd::Unknown) => {
                let is_known = self.index.legend.lost == 0;
                let cause = if is_known { self.outside(&gap) } else { Cause::Unknown };
                told.push(self.leaf(cause, begin, at));
            }
        }
        begin
    }

    /// Adds a gap in which the process was suspended.
    fn suspended(&mut self, gap: &Gap, suspension: Option<Suspension>, told: &mut Vec<Interval>) {
        let end = suspension.and_then(|known| known.ended).map_or(gap.end, |ended| ended.clamp(gap.begin, gap.end));
        self.then_ready(gap, end, told);
        let interval = match suspension {
            Some(Suspension { at: Some(full), .. }) => {
                let busy = self.inner(gap.begin, end, |walk| walk.busy(full, gap.begin, end));
                let cause = Cause::Suspended { process: self.subject(gap.process), at: self.subject(full) };
                self.interval(cause, gap.begin, end, busy)
            }
            // The receiver is on another node.
            Some(_) => self.leaf(self.outside(gap), gap.begin, end),
            None => self.leaf(Cause::Unknown, gap.begin, end),
        };
        told.push(interval);
    }

    /// Adds a gap in which the process waited for a timer. The timer fired `late` nanoseconds late.
    fn slept(&mut self, gap: &Gap, fired: Point, late: u64, told: &mut Vec<Interval>) {
        let due = self.index.at(fired).saturating_sub(late);
        let fired = fired.min(gap.end);
        self.then_ready(gap, fired, told);
        let (begin, end) = (self.index.at(gap.begin), self.index.at(fired));
        let due = due.clamp(begin, end);
        self.intervals += 2;
        let (process, message) = (self.subject(gap.process), self.handled(gap.process, gap.begin, gap.end));
        told.push(Interval::leaf(Cause::LateTimer { process, message }, due, end));
        told.push(Interval::leaf(Cause::Timer { process, message }, begin, due));
    }

    /// Adds a gap in which the process waited for an answer, together with the time since the call was sent, but no
    /// time before `from`. Returns where the added time begins.
    fn called(&mut self, gap: &Gap, from: Point, flow: u32, answered: Point, told: &mut Vec<Interval>) -> Point {
        let answered = answered.min(gap.end);
        self.then_ready(gap, answered, told);
        let sent = self.index.message(flow).and_then(|message| message.sent);
        let sent = sent.map_or(gap.begin, |sent| sent.clamp(from, gap.begin));
        let mut call = self.message(flow, sent, answered);
        if sent < gap.begin && !self.path.contains(&flow) {
            call.beside = self.inner(sent, gap.begin, |walk| walk.own(gap.process, sent, gap.begin));
            debug_assert!(sum(&call.beside) <= call.length());
        }
        told.push(call);
        sent
    }

    /// Adds the rest of a gap, in which the process could have continued.
    fn then_ready(&mut self, gap: &Gap, from: Point, told: &mut Vec<Interval>) {
        if from < gap.end {
            told.push(self.worker(gap.process, gap.thread, from, gap.end));
        }
    }

    /// Returns the cause of a gap that was ended by something outside of the recording.
    fn outside(&self, gap: &Gap) -> Cause {
        let message = self.handled(gap.process, gap.begin, gap.end);
        Cause::Outside { process: self.subject(gap.process), message }
    }

    /// Walks along another line, unless the walk is too deep already.
    fn inner(&mut self, from: Point, to: Point, walk: impl FnOnce(&mut Self) -> Vec<Interval>) -> Vec<Interval> {
        if self.is_deep() {
            return vec![self.leaf(Cause::Remainder, from, to)];
        }
        self.depth += 1;
        let intervals = walk(self);
        self.depth -= 1;
        intervals
    }

    fn is_deep(&self) -> bool {
        self.depth >= MAX_DEPTH || self.intervals >= MAX_INTERVALS
    }

    /// Returns what a waiting process waited for in a gap. The gap may extend beyond the time being broken down.
    /// Returns `None` if the awaited event came before the slice was over.
    fn wake(&self, process: Number, last: Option<Slice>, next: Option<&Slice>, gap: Point) -> Option<GapEnd> {
        let known = self.index.process(process);
        let first = known.wakes.partition_point(|(point, _)| *point < gap);
        // If a slice follows another one on its thread, it begins with the timestamp of that slice's end. So the event
        // that made the process ready may appear to come slightly later.
        let until = next.map(|slice| slice.ended.unwrap_or(slice.began));
        if let Some(&(point, wake)) = known.wakes.get(first)
            && until.is_none_or(|until| point <= until)
        {
            return Some(match wake {
                Wake::Answer(Some(flow)) => GapEnd::Answer { flow, answered: point },
                Wake::Answer(None) => GapEnd::Unknown,
                Wake::Timer { late } => GapEnd::Timer { fired: point, late },
            });
        }
        // An event that came during the slice, after the process had checked for it, made the process ready again.
        let before = first.checked_sub(1).map(|place| known.wakes[place].0);
        if next.is_some() && before.is_some_and(|point| last.is_some_and(|slice| point > slice.began)) {
            return None;
        }
        // If the recording ended before the answer, the process was waiting for its last call before the gap.
        let calls = &known.calls[..known.calls.partition_point(|(sent, _)| *sent < gap)];
        let is_open = |flow: &u32| self.index.message(*flow).is_some_and(|call| call.answered.is_none());
        let open = calls.last().map(|(_, flow)| *flow).filter(|flow| next.is_none() && is_open(flow));
        Some(open.map_or(GapEnd::Unknown, |flow| GapEnd::Answer { flow, answered: self.index.end() }))
    }

    fn suspension(&self, process: Number, at: Point) -> GapEnd {
        let suspensions = &self.index.process(process).suspensions;
        let before = suspensions.partition_point(|suspension| suspension.began < at);
        GapEnd::Room(before.checked_sub(1).map(|place| suspensions[place]))
    }

    /// Returns the time in which a process was ready but its next slice, on `thread`, had not begun, divided by what
    /// the thread did in that time.
    fn worker(&mut self, process: Number, thread: Option<u32>, from: Point, to: Point) -> Interval {
        let cause = Cause::Worker { process: self.subject(process) };
        let mut parts = Vec::new();
        let mut at = from;
        // If a worker was taken from a step that did not end, the worker had been running that step until then, on
        // another thread.
        let taken = self.index.taken_over.partition_point(|(point, _)| *point <= to);
        let taken = taken.checked_sub(1).map(|place| self.index.taken_over[place]).filter(|(point, _)| *point > from);
        if let Some((point, other)) = taken {
            let slices = &self.index.process(other).slices;
            let slice = slices[..slices.partition_point(|slice| slice.began < point)].last();
            if let Some(&Slice { began, .. }) = slice {
                let began = began.max(from);
                parts.extend(self.idle(process, from, began));
                parts.push(self.occupied(other, began, point));
                at = point;
            }
        }
        let slices = thread.map_or(&[][..], |thread| self.index.thread(thread));
        let first = slices.partition_point(|slice| slice.ended.is_some_and(|ended| ended <= at));
        for slice in &slices[first..] {
            if slice.began >= to || self.intervals >= MAX_INTERVALS {
                break;
            }
            let (began, ended) = (slice.began.clamp(at, to), slice.ended.unwrap_or(to).clamp(at, to));
            parts.extend(self.idle(process, at, began));
            parts.push(self.occupied(slice.process, began, ended));
            at = ended;
        }
        parts.extend(self.idle(process, at, to));
        self.interval(cause, from, to, parts)
    }

    fn occupied(&mut self, process: Number, from: Point, to: Point) -> Interval {
        let known = self.index.process(process);
        let is_in = |point: &Point| *point > from && *point <= to;
        let is_stalled = known.stalls.iter().any(is_in)
            || self.index.taken_over.iter().any(|(point, other)| *other == process && is_in(point));
        let message = self.handled(process, from, to);
        self.leaf(Cause::Busy { process: self.subject(process), message, is_stalled }, from, to)
    }

    /// Returns the time in which the worker was idle, and had not yet begun to run the process.
    fn idle(&mut self, process: Number, from: Point, to: Point) -> Option<Interval> {
        let cause = Cause::Waking { process: self.subject(process) };
        (from < to).then(|| self.leaf(cause, from, to))
    }

    /// Returns the type of the message that a process handled between two points: the last one, if there were several.
    fn handled(&self, process: Number, from: Point, to: Point) -> Option<&'static str> {
        let handlings = &self.index.process(process).handlings;
        let before = handlings.partition_point(|handling| handling.began < to);
        let last = handlings[..before].last()?;
        last.ended.is_none_or(|ended| ended > from).then(|| self.index.legend.name(last.of))
    }

    fn subject(&self, process: Number) -> TracedProcess {
        let known = self.index.process(process);
        TracedProcess { pid: known.pid, of: known.of.map_or("", |of| self.index.legend.name(of)) }
    }

    fn leaf(&mut self, cause: Cause, from: Point, to: Point) -> Interval {
        self.interval(cause, from, to, Vec::new())
    }

    fn interval(&mut self, cause: Cause, from: Point, to: Point, parts: Vec<Interval>) -> Interval {
        self.intervals += 1;
        Interval::of(cause, self.index.at(from), self.index.at(to), parts)
    }
}

/// The time between two slices of a process.
struct Gap {
    process: Number,
    /// The thread of the next slice, if that began at the end of the gap.
    thread: Option<u32>,
    begin: Point,
    end: Point,
}

/// The event that ended a gap.
enum GapEnd {
    Answer { flow: u32, answered: Point },
    Timer { fired: Point, late: u64 },
    Room(Option<Suspension>),
    Unknown,
}
