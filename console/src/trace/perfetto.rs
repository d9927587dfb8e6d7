//! Writes a recording as a file for Perfetto.
//!
//! The events are read twice and written as they are read, so memory use depends on the number of processes, not of
//! events. The first pass finds the flows with both ends recorded, the messages that were already in mailboxes at the
//! beginning, and the types of processes.

use super::moment::{Legend, Moment, What};
use super::packet::{Details, Packets, Refused, TrackEventKind};
use super::text::{method, short};
use postroom::Pid;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;

/// Minimum interval in nanoseconds between two values of a counter. More values would not be visible, but would fill
/// half of the file.
const COUNT_EVERY: u64 = 100_000;

/// Tracks that contain other tracks.
const THREADS: u64 = 1;
const MAILBOXES: u64 = 2;
const PROCESSES: u64 = 3;
/// The first track of each kind.
const FIRST_THREAD: u64 = 1 << 32;
const FIRST_MAILBOX: u64 = 2 << 32;
const FIRST_PROCESS: u64 = 3 << 32;

/// The result of the first pass.
#[derive(Default)]
struct Survey {
    /// For each flow, which of its ends are recorded.
    ends: Vec<u8>,
    types: HashMap<Pid, u32>,
    /// Number of messages in mailboxes at the beginning of the recording and then of each sample, by process type.
    queued: Vec<HashMap<u32, u64>>,
    /// The process types that received messages.
    receivers: BTreeSet<u32>,
}

/// Bits of [`Survey::ends`].
const LEAVES: u8 = 1;
const ARRIVES: u8 = 2;

impl Survey {
    fn of(moments: impl Iterator<Item = Moment>) -> Self {
        let mut survey = Self::default();
        let mut handled_before: Vec<HashMap<Pid, u64>> = vec![HashMap::new()];
        let mut to = BTreeSet::new();
        for Moment { what, .. } in moments {
            match what {
                What::SliceBegan { process, of } | What::Spawned { process, of } | What::Ended { process, of } => {
                    survey.types.insert(process, of);
                }
                What::Sent { to: receiver, flow, .. } => {
                    survey.mark(flow, LEAVES);
                    to.insert(receiver);
                }
                What::HandlingBegan { process, flow, .. } => {
                    to.insert(process);
                    if let Some(flow) = flow {
                        survey.mark(flow, ARRIVES);
                    } else if let Some(handled) = handled_before.last_mut() {
                        *handled.entry(process).or_default() += 1;
                    }
                }
                What::Answered { answer: Some(answer), .. } => survey.mark(answer, LEAVES),
                What::AnswerTaken { answer, .. } => survey.mark(answer, ARRIVES),
                What::SampleBegan => handled_before.push(HashMap::new()),
                _ => {}
            }
        }
        for handled in handled_before {
            let mut queued = HashMap::new();
            let typed = handled.into_iter().filter_map(|(process, count)| Some((*survey.types.get(&process)?, count)));
            typed.for_each(|(of, count)| *queued.entry(of).or_default() += count);
            survey.queued.push(queued);
        }
        survey.receivers = to.iter().filter_map(|process| survey.types.get(process).copied()).collect();
        survey
    }

    fn mark(&mut self, flow: u32, end: u8) {
        let place = flow as usize;
        if self.ends.len() <= place {
            self.ends.resize(place + 1, 0);
        }
        self.ends[place] |= end;
    }

    /// Returns the flow if both of its ends are recorded.
    fn whole(&self, flow: u32) -> Option<u64> {
        (self.ends.get(flow as usize) == Some(&(LEAVES | ARRIVES))).then_some(u64::from(flow))
    }
}

/// Returns the track of a thread.
fn track_of(thread: u32) -> u64 {
    FIRST_THREAD + u64::from(thread)
}

/// A slice that is open on a thread's track.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Slice,
    Message,
    Blocking,
    Sample,
}

pub(super) struct Writer<'a, W> {
    packets: Packets<W>,
    legend: &'a Legend,
    survey: Survey,
    with_processes: bool,
    /// The open slices of each thread, innermost last.
    open: Vec<Vec<Open>>,
    /// The type of the message that each process is still handling.
    handled: HashMap<Pid, u32>,
    /// Number of messages sent but not yet handled, by receiver.
    sent: HashMap<Pid, u64>,
    lengths: BTreeMap<u32, u64>,
    changed: BTreeSet<u32>,
    /// Number of samples that have begun.
    samples: usize,
    counted_at: u64,
    now: u64,
    /// The track of each process, and the number of open slices on it.
    tracks: HashMap<Pid, (u64, u32)>,
    /// Number of process tracks defined so far.
    tracks_made: u64,
}

impl<'a, W: Write> Writer<'a, W> {
    /// Writes the whole trace and returns its size in bytes. Calls `moments` twice.
    pub(super) fn write<I: Iterator<Item = Moment>>(
        out: W,
        limit: u64,
        legend: &'a Legend,
        with_processes: bool,
        moments: impl Fn() -> I,
    ) -> Result<u64, Refused> {
        let survey = Survey::of(moments());
        let mut writer = Self {
            packets: Packets::new(out, limit)?,
            legend,
            lengths: BTreeMap::new(),
            samples: 0,
            changed: BTreeSet::new(),
            survey,
            with_processes,
            open: vec![Vec::new(); legend.threads.len()],
            handled: HashMap::new(),
            sent: HashMap::new(),
            counted_at: 0,
            now: 0,
            tracks: HashMap::new(),
            tracks_made: 0,
        };
        writer.begin_lengths();
        writer.begin()?;
        for moment in moments() {
            if (moment.thread as usize) < writer.open.len() {
                writer.add(moment)?;
            }
        }
        writer.finish()
    }

    fn begin(&mut self) -> Result<(), Refused> {
        let legend = self.legend;
        self.packets.track(THREADS, None, "Threads", 0)?;
        for (number, thread) in (0..).zip(&legend.threads) {
            let lost = if thread.lost == 0 { String::new() } else { format!(", {} records lost", thread.lost) };
            self.packets.track(FIRST_THREAD + number, Some(THREADS), &format!("{}{lost}", thread.name), number)?;
        }
        self.packets.track(MAILBOXES, None, "Messages in mailboxes", 1)?;
        for (rank, &of) in (0..).zip(&self.survey.receivers) {
            let name = short(legend.name(of));
            self.packets.counter_track(FIRST_MAILBOX + u64::from(of), MAILBOXES, &name, rank)?;
        }
        if self.with_processes {
            self.packets.track(PROCESSES, None, "Processes", 2)?;
        }
        self.count()
    }

    fn finish(mut self) -> Result<u64, Refused> {
        self.count()?;
        let end = self.legend.length.max(self.now);
        self.close_all(end)?;
        self.packets.finish()
    }

    /// Ends all open slices, of threads and of processes.
    fn close_all(&mut self, at: u64) -> Result<(), Refused> {
        (0..self.legend.threads.len() as u32).try_for_each(|thread| self.close(thread, None, at))?;
        for (track, open) in self.tracks.values_mut() {
            for _ in 0..std::mem::take(open) {
                self.packets.end(at, *track)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, moment: Moment) -> Result<(), Refused> {
        if !self.changed.is_empty() && moment.at >= self.counted_at.saturating_add(COUNT_EVERY) {
            self.count()?;
        }
        self.now = moment.at.max(self.now);
        let thread = moment.thread;
        match moment.what {
            What::SliceBegan { process, of } => self.slice_began(thread, process, of),
            What::SliceEnded { .. } => self.close(thread, Some(Open::Slice), self.now),
            What::HandlingBegan { process, message, flow } => self.handling_began(thread, process, message, flow),
            What::HandlingEnded { process } => {
                self.close(thread, Some(Open::Message), self.now)?;
                if self.handled.remove(&process).is_some() { self.close_of(process) } else { Ok(()) }
            }
            What::Sent { to, message, flow, .. } => self.sent(thread, to, message, flow),
            What::Answered { to, answer } => self.answered(thread, to, answer),
            What::AnswerTaken { process, answer } => self.answer_taken(thread, process, answer),
            What::Spawned { process, of } => {
                self.instant_of(thread, &format!("spawn {}", short(self.legend.name(of))), process)
            }
            What::Ended { process, of } => self.ended(thread, process, of),
            What::Suspended { process, at: full } => self.suspended(thread, process, full),
            What::Resumed { process } => {
                self.instant_of(thread, "resumed", process)?;
                self.close_of(process)
            }
            What::BlockingBegan { .. } => {
                self.open_on(thread, Open::Blocking, "blocking", "blocking", Details::default())
            }
            What::BlockingEnded { .. } => self.close(thread, Some(Open::Blocking), self.now),
            What::TimerFired { late, .. } => {
                let details = Details { number: Some(("late in ns", late)), ..Details::default() };
                self.instant(thread, "timer", "timer", details)
            }
            What::Stole { count } => {
                let details = Details { number: Some(("processes", u64::from(count))), ..Details::default() };
                self.instant(thread, "worker", "stole", details)
            }
            What::Stalled { process, message } => {
                let what = message.map_or_else(|| self.type_of(process), |message| self.method(process, message));
                self.instant_of(thread, &format!("stalled: {what}"), process)
            }
            What::TakenOver { process } => {
                let what = format!("worker taken from {}", self.type_of(process));
                self.instant_of(thread, &what, process)
            }
            What::SampleBegan => {
                self.samples += 1;
                self.begin_lengths();
                self.open_on(thread, Open::Sample, "sample", "sample", Details::default())
            }
            What::SampleEnded => self.end_sample(),
        }
    }

    fn slice_began(&mut self, thread: u32, process: Pid, of: u32) -> Result<(), Refused> {
        self.close(thread, None, self.now)?;
        let (name, pid) = (short(self.legend.name(of)), process.to_string());
        let details = Details { text: Some(("pid", &pid)), ..Details::default() };
        self.open_on(thread, Open::Slice, "slice", &name, details)?;
        if let Some(&message) = self.handled.get(&process) {
            let name = self.method(process, message);
            self.open_on(thread, Open::Message, "continued", &name, details)?;
        }
        Ok(())
    }

    fn handling_began(&mut self, thread: u32, process: Pid, message: u32, flow: Option<u32>) -> Result<(), Refused> {
        self.close(thread, Some(Open::Message), self.now)?;
        let (name, pid) = (self.method(process, message), process.to_string());
        let arrives = flow.and_then(|flow| self.survey.whole(flow));
        let details = Details { text: Some(("pid", &pid)), arrives, ..Details::default() };
        self.open_on(thread, Open::Message, "message", &name, details)?;
        self.handled.insert(process, message);
        self.open_of(process, "process", &name)?;
        if let Some(sent) = self.sent.get_mut(&process)
            && flow.is_some()
        {
            *sent = sent.saturating_sub(1);
        }
        self.change(process, -1);
        Ok(())
    }

    fn sent(&mut self, thread: u32, to: Pid, message: u32, flow: u32) -> Result<(), Refused> {
        let (name, to_text) = (format!("send {}", self.method(to, message)), to.to_string());
        let leaves = self.survey.whole(flow);
        let details = Details { text: Some(("to", &to_text)), leaves, ..Details::default() };
        self.instant(thread, "send", &name, details)?;
        *self.sent.entry(to).or_default() += 1;
        self.change(to, 1);
        Ok(())
    }

    fn answered(&mut self, thread: u32, to: Pid, answer: Option<u32>) -> Result<(), Refused> {
        let to = to.to_string();
        let leaves = answer.and_then(|answer| self.survey.whole(answer));
        self.instant(thread, "answer", "answer", Details { text: Some(("to", &to)), leaves, ..Details::default() })
    }

    fn answer_taken(&mut self, thread: u32, process: Pid, answer: u32) -> Result<(), Refused> {
        let (pid, arrives) = (process.to_string(), self.survey.whole(answer));
        let details = Details { text: Some(("pid", &pid)), arrives, ..Details::default() };
        self.instant(thread, "answer", "answer taken", details)
    }

    fn ended(&mut self, thread: u32, process: Pid, of: u32) -> Result<(), Refused> {
        self.instant_of(thread, &format!("end of {}", short(self.legend.name(of))), process)?;
        self.handled.remove(&process);
        if let Some(rest) = self.sent.remove(&process) {
            self.change(process, -(rest as i64));
        }
        let now = self.now;
        let (own, open) = self.tracks.remove(&process).unwrap_or_default();
        (0..open).try_for_each(|_| self.packets.end(now, own))
    }

    fn suspended(&mut self, thread: u32, process: Pid, full: Option<Pid>) -> Result<(), Refused> {
        let full = full.map_or_else(|| "another node".to_owned(), |full| self.type_of(full));
        let name = format!("suspended at {full}");
        self.instant_of(thread, &name, process)?;
        self.open_of(process, "suspended", &name)
    }

    /// Ends all open slices and forgets all messages in flight: what happens to them next is not recorded.
    fn end_sample(&mut self) -> Result<(), Refused> {
        self.close_all(self.now)?;
        self.handled.clear();
        self.sent.clear();
        self.lengths.values_mut().for_each(|length| *length = 0);
        self.changed = self.survey.receivers.clone();
        Ok(())
    }

    /// Starts counting the messages in mailboxes, from the number already queued.
    fn begin_lengths(&mut self) {
        let queued = self.survey.queued.get(self.samples);
        let length = |of: &u32| queued.and_then(|queued| queued.get(of)).copied().unwrap_or(0);
        self.lengths = self.survey.receivers.iter().map(|of| (*of, length(of))).collect();
        self.changed = self.survey.receivers.clone();
    }

    /// Writes an instant for an event that happened on a thread.
    fn instant(
        &mut self,
        thread: u32,
        category: &'static str,
        name: &str,
        details: Details<'_>,
    ) -> Result<(), Refused> {
        self.packets.event((TrackEventKind::Instant, self.now, track_of(thread)), category, name, details)
    }

    /// Writes an instant for an event that happened to a process on a thread.
    fn instant_of(&mut self, thread: u32, name: &str, process: Pid) -> Result<(), Refused> {
        let pid = process.to_string();
        self.instant(thread, "event", name, Details { text: Some(("pid", &pid)), ..Details::default() })
    }

    /// Begins a slice on a thread's track.
    fn open_on(
        &mut self,
        thread: u32,
        open: Open,
        category: &'static str,
        name: &str,
        details: Details<'_>,
    ) -> Result<(), Refused> {
        self.packets.event((TrackEventKind::Begin, self.now, track_of(thread)), category, name, details)?;
        self.open[thread as usize].push(open);
        Ok(())
    }

    /// Begins a slice on a process's track, if processes have tracks.
    fn open_of(&mut self, process: Pid, category: &'static str, name: &str) -> Result<(), Refused> {
        let Some(own) = self.process(process)? else { return Ok(()) };
        self.packets.event((TrackEventKind::Begin, self.now, own), category, name, Details::default())?;
        if let Some((_, open)) = self.tracks.get_mut(&process) {
            *open += 1;
        }
        Ok(())
    }

    /// Ends the open slices of a thread down to `last`, or all of them if it is none. Does nothing if `last` is not
    /// open.
    fn close(&mut self, thread: u32, last: Option<Open>, at: u64) -> Result<(), Refused> {
        let open = &mut self.open[thread as usize];
        let keep = match last {
            None => 0,
            Some(last) => open.iter().rposition(|open| *open == last).unwrap_or(open.len()),
        };
        open.drain(keep..).try_for_each(|_| self.packets.end(at, track_of(thread)))
    }

    /// Returns the track of a process, or `None` if processes have no tracks. The track is defined on first use.
    fn process(&mut self, process: Pid) -> Result<Option<u64>, Refused> {
        if !self.with_processes {
            return Ok(None);
        }
        if let Some((track, _)) = self.tracks.get(&process) {
            return Ok(Some(*track));
        }
        let number = self.tracks_made;
        self.tracks_made += 1;
        let track = FIRST_PROCESS + number;
        let name = format!("{} {process}", self.type_of(process));
        self.packets.track(track, Some(PROCESSES), &name, number)?;
        self.tracks.insert(process, (track, 0));
        Ok(Some(track))
    }

    /// Ends a slice on a process's track, if one is open.
    fn close_of(&mut self, process: Pid) -> Result<(), Refused> {
        match self.tracks.get_mut(&process) {
            Some((track, open)) if *open > 0 => {
                *open -= 1;
                self.packets.end(self.now, *track)
            }
            _ => Ok(()),
        }
    }

    fn type_of(&self, process: Pid) -> String {
        short(self.survey.types.get(&process).map_or("process", |&of| self.legend.name(of)))
    }

    fn method(&self, process: Pid, message: u32) -> String {
        method(self.survey.types.get(&process).map_or("", |&of| self.legend.name(of)), self.legend.name(message))
    }

    /// Adjusts the number of messages in the mailboxes of the process's type.
    fn change(&mut self, process: Pid, by: i64) {
        if let Some(&of) = self.survey.types.get(&process)
            && let Some(length) = self.lengths.get_mut(&of)
        {
            *length = length.saturating_add_signed(by);
            self.changed.insert(of);
        }
    }

    /// Writes the counters that have changed.
    fn count(&mut self) -> Result<(), Refused> {
        self.counted_at = self.now;
        for of in std::mem::take(&mut self.changed) {
            self.packets.count(self.now, FIRST_MAILBOX + u64::from(of), self.lengths[&of])?;
        }
        Ok(())
    }
}
