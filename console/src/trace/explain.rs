//! What users ask of a recording: which calls were slow, and why one of them was.

use super::index::{Index, Point, TracedMessage};
use super::moment::{Legend, Moment, moments};
use super::part::{Cause, Interval, Part, PathStep, Remedy, TracedProcess};
use super::slow::Walk;
use postroom::record::Recording;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The messages that a list names for each type.
const SLOWEST_OF_TYPE: usize = 5;

/// A recording, indexed by message, process and thread: see [`Analysis::of`](Self::of).
///
/// Takes about as much memory as the recording, which is not needed any more.
#[derive(Debug)]
pub struct Analysis {
    /// Of each sample, or one of the whole.
    samples: Vec<Index>,
}

/// One message taken apart. As text it is what a person reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The number of the message's flow.
    pub flow: u32,
    /// When it was sent, since the recording began.
    pub sent: Duration,
    /// The whole, and what it is made of.
    pub whole: Part,
    /// The critical path, from the send to the end.
    pub path: Vec<PathStep>,
    /// The one change that would have helped most; none if all is unknown.
    pub remedy: Option<Remedy>,
    /// Whether a process awaited the answer. Otherwise the whole ends when the message was handled.
    pub is_call: bool,
    /// False: the recording ended first, or its sample did, and the whole is what that shows.
    pub is_finished: bool,
    /// How many records of the recording were lost. Time that they would have explained is [`Cause::Unknown`].
    pub lost: u64,
}

/// Why a message cannot be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The recording shows no send with this flow.
    #[error(
        "flow {flow} is no message whose send is in this recording; take one from `Analysis::slowest`, or from an \
         event `MessageSent` of this recording"
    )]
    NoSuchMessage {
        /// The number that was given.
        flow: u32,
    },
}

/// How long the messages of one type took, at receivers of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeTimes {
    /// The type of the receivers; empty if the recording does not show it.
    pub to: &'static str,
    /// The type of the messages.
    pub message: &'static str,
    /// How many were finished.
    pub count: u64,
    /// Half of them took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// The slowest, the slowest first.
    pub slowest: Vec<Timed>,
}

/// A message, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timed {
    /// The number of its flow: [`FlowId::get`](postroom::record::FlowId::get).
    pub flow: u32,
    /// The receiver.
    pub to: TracedProcess,
    /// When it was sent, since the recording began.
    pub sent: Duration,
    /// From its send until its answer was taken, or until it was handled if no process awaited an answer.
    pub took: Duration,
}

impl Analysis {
    /// Indexes a recording.
    pub fn of(recording: &Recording) -> Self {
        Self::new(moments(recording), Legend::from(recording))
    }

    pub(super) fn new(moments: impl Iterator<Item = Moment>, legend: Legend) -> Self {
        Self { samples: Index::samples(moments, legend) }
    }

    /// Returns how long messages took, by type of receiver and message: the type with the slowest message first.
    pub fn slowest(&self) -> Vec<TypeTimes> {
        let mut types: BTreeMap<(&str, &str), Vec<(Duration, u32)>> = BTreeMap::new();
        for index in &self.samples {
            for (flow, message) in index.messages() {
                if let (Some(took), Some(to)) = (index.took(message), index.receiver(message)) {
                    types.entry((to.of, index.legend.name(message.of))).or_default().push((took, flow));
                }
            }
        }
        let mut all: Vec<TypeTimes> = types
            .into_iter()
            .map(|((to, message), mut times)| {
                // Of those that took as long, the first that was sent.
                times.sort_unstable_by_key(|&(took, flow)| (took, Reverse(flow)));
                let at = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1].0;
                let slowest = times.iter().rev().take(SLOWEST_OF_TYPE);
                let slowest = slowest.filter_map(|&(took, flow)| self.timed(flow, took)).collect();
                TypeTimes { to, message, count: times.len() as u64, p50: at(50), p99: at(99), slowest }
            })
            .collect();
        all.sort_by_key(|times| Reverse(times.slowest.first().map(|first| first.took)));
        all
    }

    /// Takes a message apart: where its time went, on its way through all processes that it waited for.
    ///
    /// # Errors
    /// The recording shows no send with this flow.
    pub fn explain(&self, flow: u32) -> Result<Explanation, ExplainError> {
        let unknown = ExplainError::NoSuchMessage { flow };
        let (index, message) = self.message(flow).ok_or(unknown)?;
        let from = message.sent.ok_or(unknown)?;
        let finished = index.finished(message);
        let to = finished.unwrap_or_else(|| index.end()).max(from);
        let whole = Walk::new(index).whole(flow, message, from, to);
        let mut path = Vec::new();
        whole.path(&mut path);
        let remedy = remedy(&whole);
        Ok(Explanation {
            flow,
            sent: Duration::from_nanos(index.at(from)),
            whole: whole.into_part(),
            path,
            remedy,
            is_call: message.is_call,
            is_finished: finished.is_some(),
            lost: index.legend.lost,
        })
    }

    fn message(&self, flow: u32) -> Option<(&Index, &TracedMessage)> {
        self.samples.iter().find_map(|index| Some((index, index.message(flow)?)))
    }

    fn timed(&self, flow: u32, took: Duration) -> Option<Timed> {
        let (index, message) = self.message(flow)?;
        let sent = Duration::from_nanos(index.at(message.sent?));
        Some(Timed { flow, to: index.receiver(message)?, sent, took })
    }
}

impl Index {
    fn finished(&self, message: &TracedMessage) -> Option<Point> {
        if message.is_call { message.taken.or(message.answered) } else { message.ended }
    }

    fn took(&self, message: &TracedMessage) -> Option<Duration> {
        let (from, to) = (message.sent?, self.finished(message)?);
        Some(Duration::from_nanos(self.at(to).saturating_sub(self.at(from))))
    }

    fn receiver(&self, message: &TracedMessage) -> Option<TracedProcess> {
        let process = self.process(message.to?);
        Some(TracedProcess { pid: process.pid, of: process.of.map_or("", |of| self.legend.name(of)) })
    }
}

/// Finds the cause without which the whole would have been shortest.
fn remedy(whole: &Interval) -> Option<Remedy> {
    let (mut causes, mut lengths) = (Vec::new(), HashMap::new());
    whole.causes(&mut causes, &mut lengths);
    // Nothing saves more than it took. Stable: of two that save as much, the outer one.
    causes.sort_by_key(|cause| Reverse(lengths[cause]));
    let mut best: Option<(Cause, u64)> = None;
    for cause in causes {
        let saved = best.map_or(0, |(_, then)| whole.length() - then);
        if lengths[&cause] <= saved {
            break;
        }
        let then = whole.without(&cause);
        if then < whole.length() && best.is_none_or(|(_, least)| then < least) {
            best = Some((cause, then));
        }
    }
    best.map(|(without, then)| Remedy { without, then: Duration::from_nanos(then) })
}
