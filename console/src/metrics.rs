//! The figures of a runtime, as text in the format of Prometheus and for the `metrics` facade.
//!
//! Metric names are stable. Label values are the runtime's name, type names and constants in this file, so the source
//! of the program bounds their number; a PID, a name or a label of a process is never a label value.

use crate::api::{DEPTHS, Sight, TypeTotals, by_type, thread_state};
use crate::methods::method_of;
use crate::samples::{BOUNDS, Buckets, Totals};
use postroom::Host;
use postroom::inspect::{Statistics, WorkerStatistics};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// The content type of `/metrics`.
pub(crate) const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Maximum number of types listed separately; the others are combined as `other`.
const MOST_TYPES: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
enum MetricKind {
    Counter,
    Gauge,
    /// A histogram. Its samples have the suffixes and labels that the text format requires.
    Histogram,
}

/// All samples of one metric name.
struct Family {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    samples: Vec<Sample>,
}

struct Sample {
    /// Suffix of the family's name.
    suffix: &'static str,
    labels: Vec<(&'static str, Cow<'static, str>)>,
    value: Value,
}

#[derive(Clone, Copy)]
enum Value {
    Count(u64),
    Seconds(f64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Seconds(seconds) => seconds.fmt(f),
        }
    }
}

impl Family {
    fn new(kind: MetricKind, name: &'static str, help: &'static str) -> Self {
        Self { name, kind, help, samples: Vec::new() }
    }

    fn of(mut self, value: u64) -> Self {
        self.samples.push(Sample { suffix: "", labels: Vec::new(), value: Value::Count(value) });
        self
    }

    /// Adds the samples of one histogram. The last bucket must count all observations.
    fn histogram(
        &mut self,
        labels: impl Fn() -> Vec<(&'static str, Cow<'static, str>)>,
        buckets: impl Iterator<Item = (Cow<'static, str>, u64)>,
        sum: Value,
    ) {
        let mut all = 0;
        for (bound, count) in buckets {
            let mut labels = labels();
            labels.push(("le", bound));
            self.samples.push(Sample { suffix: "_bucket", labels, value: Value::Count(count) });
            all = count;
        }
        self.samples.push(Sample { suffix: "_sum", labels: labels(), value: sum });
        self.samples.push(Sample { suffix: "_count", labels: labels(), value: Value::Count(all) });
    }

    /// Adds one sample for each value of a label.
    fn by(mut self, label: &'static str, samples: impl IntoIterator<Item = (&'static str, u64)>) -> Self {
        let sample = |(content, value)| {
            let labels = vec![(label, Cow::Borrowed(content))];
            Sample { suffix: "", labels, value: Value::Count(value) }
        };
        self.samples.extend(samples.into_iter().map(sample));
        self
    }
}

fn counter(name: &'static str, help: &'static str) -> Family {
    Family::new(MetricKind::Counter, name, help)
}

fn gauge(name: &'static str, help: &'static str) -> Family {
    Family::new(MetricKind::Gauge, name, help)
}

/// Collects all families of a host except the sampled times.
fn families(host: Host) -> Vec<Family> {
    let statistics = host.statistics();
    let Statistics { processes, dead_letters: dead, backpressure, watchdog, directory, program, .. } = &statistics;
    let reasons = [
        ("ended", dead.ended),
        ("unhandled", dead.unhandled),
        ("overflow", dead.overflow),
        ("expired", dead.expired),
        ("withdrawn", dead.withdrawn),
    ];
    let mut states: BTreeMap<&'static str, u64> = BTreeMap::new();
    statistics.threads.iter().for_each(|thread| *states.entry(thread_state(thread.state)).or_default() += 1);
    states.remove("ended");
    let queued = |of: fn(&WorkerStatistics) -> usize| statistics.workers.iter().map(of).sum::<usize>() as u64;
    let queues = [
        ("global", statistics.global_queue as u64),
        ("local", queued(|worker| worker.queue)),
        ("inject", queued(|worker| worker.inject_queue)),
    ];
    let types = types(host);
    let by_type = |of: fn(&TypeTotals) -> u64| types.iter().map(move |(process, totals)| (*process, of(totals)));
    vec![
        gauge("postroom_processes", "Processes that are alive.").by("type", by_type(|totals| totals.processes)),
        depths(&types),
        gauge("postroom_mailbox_longest", "Messages in the longest mailbox, at this moment.")
            .by("type", by_type(|totals| totals.longest_mailbox)),
        counter("postroom_spawned_total", "Processes spawned.").of(processes.spawned),
        counter("postroom_ended_total", "Processes that have ended.").of(processes.ended),
        counter("postroom_steps_total", "Steps run.").of(statistics.steps()),
        counter("postroom_messages_total", "Messages delivered to processes.").of(statistics.messages()),
        counter("postroom_dead_letters_total", "Messages that no process handled.").by("reason", reasons),
        gauge("postroom_suspended", "Processes suspended at full mailboxes of others.")
            .of(backpressure.suspended as u64),
        counter("postroom_suspensions_total", "Suspensions at full mailboxes.").of(backpressure.suspensions),
        counter("postroom_stalls_total", "Steps that ran too long while others waited.").of(watchdog.stalls),
        counter("postroom_workers_taken_over_total", "Workers taken from a step that ran too long.")
            .of(watchdog.taken_over),
        gauge("postroom_timers", "Pending timers.").of(statistics.timers as u64),
        gauge("postroom_workers", "Workers: the steps that can run at a time.").of(statistics.workers.len() as u64),
        gauge("postroom_workers_awake_limit", "Workers that are awake at most, since more would be slower.")
            .of(watchdog.awake_limit as u64),
        gauge("postroom_threads", "Threads of the runtime.").by("state", states),
        gauge("postroom_queue_length", "Processes that are ready and wait for a worker.").by("queue", queues),
        gauge("postroom_names", "Registered names.").of(directory.names as u64),
        gauge("postroom_slots", "Slots of processes in use, in the whole program.").of(program.slots as u64),
        gauge("postroom_slots_used", "Slots of processes ever used, in the whole program.")
            .of(program.used_slots as u64),
    ]
}

/// Returns the totals of each type: at most [`MOST_TYPES`] types, and one entry for all others.
fn types(host: Host) -> Vec<(&'static str, TypeTotals)> {
    bounded(by_type(&host.processes()))
}

fn bounded(types: BTreeMap<&'static str, TypeTotals>) -> Vec<(&'static str, TypeTotals)> {
    let mut types: Vec<_> = types.into_iter().collect();
    if types.len() > MOST_TYPES {
        let mut other = TypeTotals::default();
        types.drain(MOST_TYPES..).for_each(|(_, totals)| other.merge(&totals));
        types.push(("other", other));
    }
    types
}

fn depths(types: &[(&'static str, TypeTotals)]) -> Family {
    let mut family =
        Family::new(MetricKind::Histogram, "postroom_mailbox_depth", "Messages in each mailbox, at this moment.");
    for (process, totals) in types {
        let labels = || vec![("type", Cow::Borrowed(*process))];
        let bounds = DEPTHS.iter().map(|bound| bound.to_string().into()).chain([Cow::Borrowed("+Inf")]);
        let counts = totals.depths.into_iter().chain([totals.processes]);
        family.histogram(labels, bounds.zip(counts), Value::Count(totals.queued));
    }
    family
}

/// Returns the sampled times, which accumulate while someone uses the console. Scrapes count as use.
fn times(totals: &Totals) -> [Family; 2] {
    let waiting = "Seconds that messages wait in mailboxes that are not empty, as measured while someone looks.";
    let mut waiting = Family::new(MetricKind::Histogram, "postroom_mailbox_wait_seconds", waiting);
    for (process, buckets) in &totals.waiting {
        add_times(&mut waiting, || vec![("type", Cow::Borrowed(*process))], buckets);
    }
    let handling = "Seconds that the handling of a message takes until its first await, of a sample.";
    let mut handling = Family::new(MetricKind::Histogram, "postroom_handling_seconds", handling);
    for ((process, method), buckets) in &totals.handling {
        let labels = || vec![("type", Cow::Borrowed(*process)), ("method", method_of(process, method))];
        add_times(&mut handling, labels, buckets);
    }
    [waiting, handling]
}

fn add_times(family: &mut Family, labels: impl Fn() -> Vec<(&'static str, Cow<'static, str>)>, buckets: &Buckets) {
    let bounds = BOUNDS.iter().map(|bound| bound.to_string().into()).chain([Cow::Borrowed("+Inf")]);
    let counts = buckets.counts.into_iter().chain([buckets.count]);
    family.histogram(labels, bounds.zip(counts), Value::Seconds(buckets.sum));
}

/// Returns all figures of a host in the text format of Prometheus.
pub(crate) fn text(sight: &Sight) -> String {
    let host = sight.host;
    let mut text = String::with_capacity(16 << 10);
    let name = escaped(host.name());
    let times = times(sight.samples.look().totals());
    for family in families(host).into_iter().chain(times) {
        // Writing to a string cannot fail.
        let _ = write_family(&mut text, &name, &family);
    }
    text
}

fn write_family(text: &mut String, host: &str, family: &Family) -> fmt::Result {
    let Family { name, kind, help, samples } = family;
    let kind = match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n")?;
    for Sample { suffix, labels, value } in samples {
        write!(text, "{name}{suffix}{{host=\"{host}\"")?;
        for (label, content) in labels {
            write!(text, ",{label}=\"{}\"", escaped(content))?;
        }
        writeln!(text, "}} {value}")?;
    }
    Ok(())
}

/// Escapes backslashes, quotes and line breaks in a label value. Type names can contain them in their parameters.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '"', '\n']) {
        return text.into();
    }
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n").into()
}

/// Reports the figures of a host to the recorder that the program has installed for the crate `metrics`. Histograms are
/// left out, since that crate accepts only single observations.
///
/// Call this function as often as the figures should be updated, for example before each scrape or every ten seconds.
#[cfg(feature = "metrics")]
pub fn publish_metrics(host: &Host) {
    let name = host.name();
    for Family { name: family, kind, help, samples } in families(*host) {
        for Sample { labels, value, .. } in samples {
            let label = |(label, content): (&'static str, Cow<'static, str>)| metrics::Label::new(label, content);
            let labels: Vec<_> =
                [metrics::Label::new("host", name)].into_iter().chain(labels.into_iter().map(label)).collect();
            let Value::Count(value) = value else { continue };
            match kind {
                MetricKind::Counter => {
                    metrics::describe_counter!(family, help);
                    metrics::counter!(family, labels).absolute(value);
                }
                MetricKind::Gauge => {
                    metrics::describe_gauge!(family, help);
                    metrics::gauge!(family, labels).set(value as f64);
                }
                MetricKind::Histogram => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    #[test]
    fn types_beyond_the_most_are_one_and_none_is_lost() {
        let of = |processes| TypeTotals { processes, longest_mailbox: processes, ..TypeTotals::default() };
        static NAMES: LazyLock<Vec<String>> =
            LazyLock::new(|| (0..MOST_TYPES + 3).map(|number| format!("Type{number:04}")).collect());
        let named = |number: usize| (&*NAMES[number], of(number as u64));
        let few = bounded((0..MOST_TYPES).map(named).collect());
        assert!(few.len() == MOST_TYPES && few.iter().all(|(name, _)| *name != "other"));
        let many = bounded((0..MOST_TYPES + 3).map(named).collect());
        assert_eq!(many.len(), MOST_TYPES + 1);
        let (name, totals) = &many[MOST_TYPES];
        let (most, last) = (MOST_TYPES as u64, MOST_TYPES as u64 + 2);
        assert_eq!((*name, totals.processes, totals.longest_mailbox), ("other", 3 * most + 3, last));
    }

    #[test]
    fn a_label_is_escaped_and_a_series_is_a_line() {
        let mut text = String::new();
        let family = gauge("postroom_processes", "Help.").by("type", [("Cache<\"a\\b\n\">", 1)]);
        write_family(&mut text, "host", &family).expect("a string takes it");
        let sample = r#"postroom_processes{host="host",type="Cache<\"a\\b\n\">"} 1"#;
        assert_eq!(text.lines().last(), Some(sample));
        assert_eq!(text.lines().count(), 3);
    }
}
