//! The figures of a runtime in the text format of Prometheus.
//!
//! Names are stable. The labels are the runtime's name, type names, and words of this file: what the program's text
//! bounds, and never a PID, a name or a label of a process.

use crate::api::{DEPTHS, by_type, thread_state};
use postroom::Host;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// The content type.
pub(crate) const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The most types that are told apart; the rest is `other`.
const MOST_TYPES: usize = 500;

/// A text that grows by metrics.
struct Exposition {
    text: String,
    host: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{name}{{host=\"{}\"", self.host);
        for (label, content) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escaped(content));
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    /// A family with one label.
    fn by<V: Display>(&mut self, name: &str, kind: &str, help: &str, label: &str, samples: &[(&str, V)]) {
        self.family(name, kind, help);
        samples.iter().for_each(|(content, value)| self.sample(name, &[(label, content)], value));
    }
}

/// Quotes and line breaks in a label: a type's name may have them, as a parameter.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '"', '\n']) {
        return text.into();
    }
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n").into()
}

/// Returns all metrics of a host.
pub(crate) fn text(host: Host) -> String {
    let statistics = host.statistics();
    let mut out = Exposition { text: String::with_capacity(8 << 10), host: escaped(host.name()).into_owned() };
    types(&mut out, host);
    out.counter("postroom_spawned_total", "Processes spawned.", statistics.processes.spawned);
    out.counter("postroom_ended_total", "Processes that have ended.", statistics.processes.ended);
    out.counter("postroom_steps_total", "Steps run.", statistics.steps());
    out.counter("postroom_messages_total", "Messages delivered to processes.", statistics.messages());
    let dead = &statistics.dead_letters;
    let reasons = [
        ("ended", dead.ended),
        ("unhandled", dead.unhandled),
        ("overflow", dead.overflow),
        ("expired", dead.expired),
        ("withdrawn", dead.withdrawn),
    ];
    let help = "Messages that no process handled.";
    out.by("postroom_dead_letters_total", "counter", help, "reason", &reasons);
    out.gauge(
        "postroom_suspended",
        "Processes suspended at full mailboxes of others.",
        statistics.backpressure.suspended,
    );
    let suspensions = statistics.backpressure.suspensions;
    out.counter("postroom_suspensions_total", "Suspensions at full mailboxes.", suspensions);
    out.counter("postroom_stalls_total", "Steps that ran too long while others waited.", statistics.watchdog.stalls);
    let taken_over = statistics.watchdog.taken_over;
    out.counter("postroom_workers_taken_over_total", "Workers taken from a step that ran too long.", taken_over);
    out.gauge("postroom_timers", "Pending timers.", statistics.timers);
    out.gauge("postroom_workers", "Workers: the steps that can run at a time.", statistics.workers.len());
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    statistics.threads.iter().for_each(|thread| *states.entry(thread_state(thread.state)).or_default() += 1);
    states.remove("ended");
    let states: Vec<_> = states.into_iter().collect();
    out.by("postroom_threads", "gauge", "Threads of the runtime.", "state", &states);
    let queued = |of: fn(&postroom::inspect::WorkerStatistics) -> usize| statistics.workers.iter().map(of).sum();
    let queues = [
        ("global", statistics.global_queue),
        ("local", queued(|worker| worker.queue)),
        ("inject", queued(|worker| worker.inject_queue)),
    ];
    out.by("postroom_queue_length", "gauge", "Processes that are ready and wait for a worker.", "queue", &queues);
    out.gauge("postroom_names", "Registered names.", statistics.directory.names);
    out.gauge("postroom_slots", "Slots of processes in use, in the whole program.", statistics.program.slots);
    out.gauge(
        "postroom_slots_used",
        "Slots of processes ever used, in the whole program.",
        statistics.program.used_slots,
    );
    out.text
}

/// The families by type of process.
fn types(out: &mut Exposition, host: Host) {
    let mut types: Vec<_> = by_type(&host.processes()).into_iter().collect();
    if types.len() > MOST_TYPES {
        let mut other = ("other", crate::api::TypeTotals::default());
        types.drain(MOST_TYPES..).for_each(|(_, totals)| other.1.merge(&totals));
        types.push(other);
    }
    out.family("postroom_processes", "gauge", "Processes that are alive.");
    for (process, totals) in &types {
        out.sample("postroom_processes", &[("type", process)], totals.processes);
    }
    out.family("postroom_mailbox_depth", "histogram", "Messages in each mailbox, at this moment.");
    for (process, totals) in &types {
        for (bound, count) in DEPTHS.iter().zip(totals.depths) {
            let labels = [("type", *process), ("le", &bound.to_string())];
            out.sample("postroom_mailbox_depth_bucket", &labels, count);
        }
        let labels = [("type", *process), ("le", "+Inf")];
        out.sample("postroom_mailbox_depth_bucket", &labels, totals.processes);
        out.sample("postroom_mailbox_depth_sum", &[("type", process)], totals.queued);
        out.sample("postroom_mailbox_depth_count", &[("type", process)], totals.processes);
    }
}
