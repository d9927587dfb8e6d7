//! Why was this slow? One message taken apart along its causal path.
//!
//! A process does one thing at a time, so its time is a line: slices, and the gaps between them. A gap ended because
//! something came, and what came has a line of its own: the call that was answered, the mailbox that got room. So the
//! walk goes along a line from its end to its beginning. At the end of a gap that an answer ended it leaves the line
//! for the call, and comes back where the call was sent; what the process did between the send and the gap went on
//! *beside* the call, and is not on the path. The result is a tree of intervals, in which the parts of each fill it
//! exactly.
//!
//! What would be without a part is computed on the tree: an interval becomes as long as its parts are together, and
//! not shorter than what went on beside it. All else is taken to last as long as it did.

use super::index::{Handling, Index, Number, Point, Slice, Suspension, TracedMessage, Wake};
use super::moment::Then;
use super::part::{Cause, Interval, TracedProcess, sum};

/// How deep the walk goes: calls within calls, and whole mailboxes. Chains are short; the end of a longer one is one
/// part.
const MAX_DEPTH: usize = 64;
/// The intervals of one explanation. It bounds time and memory, and is more than anybody reads.
const MAX_INTERVALS: usize = 50_000;

pub(super) struct Walk<'a> {
    index: &'a Index,
    /// The messages that are being taken apart, each within the one before.
    path: Vec<u32>,
    /// How deep the walk is in calls, full mailboxes, and what went on beside them.
    depth: usize,
    intervals: usize,
    complete_from: Point,
}

impl<'a> Walk<'a> {
    pub(super) fn new(index: &'a Index) -> Self {
        Self { index, path: Vec::new(), depth: 0, intervals: 0, complete_from: index.complete_from() }
    }

    /// Takes apart a message from `from` to `to`, until its caller, if that is a process, went on.
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

    /// Takes apart what happened to a message in that time.
    fn message(&mut self, flow: u32, from: Point, to: Point) -> Interval {
        let (begin, end) = (self.index.at(from), self.index.at(to));
        let Some((message, receiver)) = self.index.message(flow).and_then(|known| Some((*known, known.to?))) else {
            return Interval::leaf(Cause::Unknown, begin, end);
        };
        let by = self.subject(receiver);
        let name = self.index.legend.name(message.of);
        let cause = Cause::Message { to: by, message: name };
        let stop = match () {
            // It may have been handled, and the record of that is lost.
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

    /// What a process did from one point to another, message by message: what it handled, and the time between.
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

    /// What a process did, or waited for, from one point to another.
    fn own(&mut self, process: Number, from: Point, to: Point) -> Vec<Interval> {
        let mut intervals = Vec::new();
        let (begin, mut at) = (from, to);
        // Before that, what is not recorded may have happened all the same.
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

    /// A part of a slice, or its whole. Returns from where on it is told.
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

    /// A gap between two slices, which ends at `at`. Returns from where on it is told: its beginning, or the send of
    /// the call whose answer ended it.
    fn gap(
        &mut self,
        process: Number,
        last: Option<Slice>,
        next: Option<&Slice>,
        from: Point,
        at: Point,
        told: &mut Vec<Interval>,
    ) -> Point {
        let gap = last.and_then(|slice| slice.ended).unwrap_or(from).max(from);
        let (subject, message) = (self.subject(process), self.handled(process, gap, at));
        let thread = next.filter(|slice| slice.began == at).map(|slice| slice.thread);
        let wake = match last.map(|slice| slice.then) {
            // The process could have gone on at once: it had more to do, or a message was there.
            None | Some(Then::Ready | Then::Idle | Then::Ended) => None,
            Some(Then::Suspended) => Some(self.suspension(process, at)),
            Some(Then::Waits) => self.wake(process, last, next, gap),
        };
        match wake {
            None => {
                told.push(self.worker(process, thread, gap, at));
                gap
            }
            Some(GapEnd::Room(suspension)) => {
                let end = suspension.and_then(|known| known.ended).map_or(at, |ended| ended.clamp(gap, at));
                if end < at {
                    told.push(self.worker(process, thread, end, at));
                }
                let interval = match suspension {
                    Some(Suspension { at: Some(full), .. }) => {
                        let busy = self.inner(gap, end, |walk| walk.busy(full, gap, end));
                        let cause = Cause::Suspended { process: subject, at: self.subject(full) };
                        self.interval(cause, gap, end, busy)
                    }
                    // Its receiver is on another node.
                    Some(_) => self.leaf(Cause::Outside { process: subject, message }, gap, end),
                    None => self.leaf(Cause::Unknown, gap, end),
                };
                told.push(interval);
                gap
            }
            Some(GapEnd::Timer { fired, late }) => {
                let due = self.index.at(fired).saturating_sub(late);
                let fired = fired.min(at);
                if fired < at {
                    told.push(self.worker(process, thread, fired, at));
                }
                let (begin, end) = (self.index.at(gap), self.index.at(fired));
                let due = due.clamp(begin, end);
                self.intervals += 2;
                told.push(Interval::leaf(Cause::LateTimer { process: subject, message }, due, end));
                told.push(Interval::leaf(Cause::Timer { process: subject, message }, begin, due));
                gap
            }
            Some(GapEnd::Answer { flow, answered }) => {
                let answered = answered.min(at);
                if answered < at {
                    told.push(self.worker(process, thread, answered, at));
                }
                let sent = self.index.message(flow).and_then(|message| message.sent);
                let sent = sent.map_or(gap, |sent| sent.clamp(from, gap));
                let mut call = self.message(flow, sent, answered);
                if sent < gap && !self.path.contains(&flow) {
                    call.beside = self.inner(sent, gap, |walk| walk.own(process, sent, gap));
                    debug_assert!(sum(&call.beside) <= call.length());
                }
                told.push(call);
                sent
            }
            Some(GapEnd::Unknown) => {
                let is_known = self.index.legend.lost == 0;
                let cause = if is_known { Cause::Outside { process: subject, message } } else { Cause::Unknown };
                told.push(self.leaf(cause, gap, at));
                gap
            }
        }
    }

    /// Walks along another line, if the walk is not too deep already.
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

    /// What a process that waits has waited for in a gap, which may end later than what is told of it. `None`: it had
    /// come before the slice was over.
    fn wake(&self, process: Number, last: Option<Slice>, next: Option<&Slice>, gap: Point) -> Option<GapEnd> {
        let known = self.index.process(process);
        let first = known.wakes.partition_point(|(point, _)| *point < gap);
        // A slice that follows another one on its thread has the time of that one's end: what made the process ready
        // may seem to come a little later.
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
        // What came during the slice, after the process had looked, made it ready again.
        let before = first.checked_sub(1).map(|place| known.wakes[place].0);
        if next.is_some() && before.is_some_and(|point| last.is_some_and(|slice| point > slice.began)) {
            return None;
        }
        // The last call before the gap, if the recording ends before its answer.
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

    /// A process was ready, and its next slice, on that thread, had not begun: what the thread did meanwhile.
    fn worker(&mut self, process: Number, thread: Option<u32>, from: Point, to: Point) -> Interval {
        let cause = Cause::Worker { process: self.subject(process) };
        let mut parts = Vec::new();
        let mut at = from;
        // A worker that was taken from a step that did not end ran that step, on another thread.
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

    /// The worker ran nothing, and had not begun with the process either.
    fn idle(&mut self, process: Number, from: Point, to: Point) -> Option<Interval> {
        let cause = Cause::Waking { process: self.subject(process) };
        (from < to).then(|| self.leaf(cause, from, to))
    }

    /// Returns the type of the message that a process handled in that time, the last if there were several.
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

/// What a gap ended with.
enum GapEnd {
    Answer { flow: u32, answered: Point },
    Timer { fired: Point, late: u64 },
    Room(Option<Suspension>),
    Unknown,
}
