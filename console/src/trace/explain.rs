//! Answers to the questions that users ask of a recording: which calls were slow, and why.

use super::index::{Index, Point, TracedMessage};
use super::moment::{Legend, Moment, moments};
use super::part::{Cause, Interval, Part, PathStep, Remedy, TracedProcess};
use super::slow::Walk;
use postroom::record::Recording;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Number of messages listed for each type.
const SLOWEST_OF_TYPE: usize = 5;

/// A recording, indexed by message, process and thread; see [`Analysis::of`](Self::of).
///
/// Takes about as much memory as the recording. The recording itself can then be dropped.
#[derive(Debug)]
pub struct Analysis {
    /// One index for each sample, or a single one if the recording has no samples.
    samples: Vec<Index>,
}

/// The breakdown of one message's time. Its `Display` text is meant for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The number of the message's flow.
    pub flow: u32,
    /// When the message was sent, measured from the beginning of the recording.
    pub sent: Duration,
    /// The total time, and the parts that it consists of.
    pub whole: Part,
    /// The critical path, from the send to the end.
    pub path: Vec<PathStep>,
    /// The single change that would have helped most; none if no single change would have helped.
    pub remedy: Option<Remedy>,
    /// Whether a process awaited the answer. If not, the total time ends when the message has been handled.
    pub is_call: bool,
    /// Whether the message was finished. If not, the recording or its sample ended first, and the total time ends at
    /// that moment.
    pub is_finished: bool,
    /// Number of lost records of the recording. Time that they would have explained is [`Cause::Unknown`].
    pub lost: u64,
}

/// Why a message cannot be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The recording contains no send with this flow.
    #[error(
        "flow {flow} is no message whose send is in this recording; take one from `Analysis::slowest`, or from an \
         event `MessageSent` of this recording"
    )]
    NoSuchMessage {
        /// The requested flow.
        flow: u32,
    },
}

/// How long messages of one type took at receivers of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeTimes {
    /// The type of the receivers; empty if the recording does not contain it.
    pub to: &'static str,
    /// The type of the messages.
    pub message: &'static str,
    /// How many messages were finished.
    pub count: u64,
    /// The median time.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The slowest messages, slowest first.
    pub slowest: Vec<Timed>,
}

/// A message, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timed {
    /// The number of the message's flow, as returned by [`FlowId::get`](postroom::record::FlowId::get).
    pub flow: u32,
    /// The receiver.
    pub to: TracedProcess,
    /// When the message was sent, measured from the beginning of the recording.
    pub sent: Duration,
    /// Time from the send until the answer was taken, or until the message was handled if no process awaited an answer.
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

    /// Returns how long messages took, by type of receiver and message. The type with the slowest message comes first.
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
                // If several messages took equally long, the one sent first is listed first.
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

    /// Breaks down the time of a message, through all processes that it waited for.
    ///
    /// # Errors
    /// Returns [`ExplainError::NoSuchMessage`] if the recording contains no send with this flow.
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

/// Finds the cause whose removal would have shortened the total time the most.
fn remedy(whole: &Interval) -> Option<Remedy> {
    let (mut causes, mut lengths) = (Vec::new(), HashMap::new());
    whole.causes(&mut causes, &mut lengths);
    // Removing a cause saves at most the time that it took. The sort is stable: if two causes save the same time, the
    // outer one is chosen.
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
