//! The messages between parent and child: plans and outcomes as words of the form `key=value`.

use crate::plan::{Outcome, Plan};
use crate::system::System;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// The word for a missing number.
const NONE: &str = "none";

/// The measurements of a child.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    pub elapsed: Duration,
    pub operations: u64,
    pub check: u64,
    /// The median of the latencies of single operations, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// The 99th percentile of these latencies.
    pub p99_ns: Option<u64>,
    /// The 99.9th percentile of these latencies.
    pub p999_ns: Option<u64>,
    /// The amount of work that the load of a probe did during the run.
    pub load: Option<u64>,
    /// The child's peak memory.
    pub peak_rss_kib: Option<u64>,
    pub bytes_per_process: Option<f64>,
}

impl Measured {
    /// Summarizes an outcome.
    pub fn of(mut outcome: Outcome, peak_rss_kib: Option<u64>) -> Self {
        outcome.latencies.sort_unstable();
        Self {
            elapsed: outcome.elapsed,
            operations: outcome.operations,
            check: outcome.check,
            p50_ns: percentile(&outcome.latencies, 500),
            p99_ns: percentile(&outcome.latencies, 990),
            p999_ns: percentile(&outcome.latencies, 999),
            load: outcome.load,
            peak_rss_kib,
            bytes_per_process: outcome.bytes_per_process,
        }
    }

    /// Formats the measurements as one line.
    pub fn to_line(&self) -> String {
        [
            format!("elapsed_ns={}", self.elapsed.as_nanos()),
            format!("operations={}", self.operations),
            format!("check={}", self.check),
            format!("p50_ns={}", or_none(self.p50_ns)),
            format!("p99_ns={}", or_none(self.p99_ns)),
            format!("p999_ns={}", or_none(self.p999_ns)),
            format!("load={}", or_none(self.load)),
            format!("peak_rss_kib={}", or_none(self.peak_rss_kib)),
            format!("bytes_per_process={}", or_none(self.bytes_per_process)),
        ]
        .join(" ")
    }

    /// Parses one line.
    ///
    /// # Errors
    /// The word that is missing or wrong.
    pub fn from_line(line: &str) -> Result<Self, String> {
        let mut words = Words::of(line.split_whitespace())?;
        let measured = Self {
            elapsed: Duration::from_nanos(words.take("elapsed_ns")?),
            operations: words.take("operations")?,
            check: words.take("check")?,
            p50_ns: words.take_or_none("p50_ns")?,
            p99_ns: words.take_or_none("p99_ns")?,
            p999_ns: words.take_or_none("p999_ns")?,
            load: words.take_or_none("load")?,
            peak_rss_kib: words.take_or_none("peak_rss_kib")?,
            bytes_per_process: words.take_or_none("bytes_per_process")?,
        };
        words.end(measured)
    }
}

/// Returns the percentile at `thousandths` of 1,000, by nearest rank. `sorted` must be in ascending order.
fn percentile(sorted: &[u64], thousandths: usize) -> Option<u64> {
    let rank = (sorted.len() * thousandths).div_ceil(1_000);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Formats a run as arguments for a child.
pub fn to_arguments(system: System, plan: &Plan) -> Vec<String> {
    vec![
        format!("system={system}"),
        format!("workload={}", plan.workload),
        format!("workers={}", plan.workers),
        format!("size={}", plan.size),
        format!("width={}", plan.width),
        format!("payload={}", plan.payload),
        format!("bound={}", or_none(plan.bound)),
        format!("bounding={}", plan.bounding),
        format!("via={}", plan.via),
        format!("style={}", plan.style),
        format!("work_ns={}", plan.work.as_nanos()),
    ]
}

/// Parses a run from a child's arguments.
///
/// # Errors
/// The argument that is missing or wrong.
pub fn from_arguments(arguments: &[String]) -> Result<(System, Plan), String> {
    let mut words = Words::of(arguments.iter().map(String::as_str))?;
    let system = words.take("system")?;
    let plan = Plan {
        workload: words.take("workload")?,
        workers: words.take("workers")?,
        size: words.take("size")?,
        width: words.take("width")?,
        payload: words.take("payload")?,
        bound: words.take_or_none("bound")?,
        bounding: words.take("bounding")?,
        via: words.take("via")?,
        style: words.take("style")?,
        work: Duration::from_nanos(words.take("work_ns")?),
    };
    words.end((system, plan))
}

fn or_none(value: Option<impl Display>) -> String {
    value.map_or_else(|| NONE.to_string(), |value| value.to_string())
}

/// Words of the form `key=value`. Each of them is taken once.
struct Words<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Words<'a> {
    fn of(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let pairs =
            words.map(|word| word.split_once('=').ok_or_else(|| format!("`{word}` is not of the form key=value")));
        Ok(Self(pairs.collect::<Result<_, _>>()?))
    }

    fn text(&mut self, key: &str) -> Result<&'a str, String> {
        self.0.remove(key).ok_or_else(|| format!("`{key}=…` is missing"))
    }

    fn take<T: FromStr<Err: Display>>(&mut self, key: &str) -> Result<T, String> {
        let text = self.text(key)?;
        text.parse().map_err(|error| format!("`{key}={text}`: {error}"))
    }

    fn take_or_none<T: FromStr<Err: Display>>(&mut self, key: &str) -> Result<Option<T>, String> {
        let text = self.text(key)?;
        if text == NONE {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|error| format!("`{key}={text}`: {error}"))
    }

    fn end<T>(self, taken: T) -> Result<T, String> {
        match self.0.keys().next() {
            None => Ok(taken),
            Some(key) => Err(format!("`{key}=…` is not known")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Bounding, Style, Via, Workload};

    fn plan() -> Plan {
        let (via, style, work) = (Via::Name, Style::ByHand, Duration::from_micros(10));
        Plan {
            workload: Workload::NQueens,
            workers: 2,
            size: 7,
            width: 9,
            payload: 32,
            bound: Some(64),
            bounding: Bounding::Hard,
            via,
            style,
            work,
        }
    }

    #[test]
    fn a_plan_survives_the_way_to_the_child() {
        let unbounded = Plan { bound: None, ..plan() };
        for plan in [plan(), unbounded] {
            assert_eq!(from_arguments(&to_arguments(System::Xtra, &plan)), Ok((System::Xtra, plan)));
        }
    }

    #[test]
    fn a_measurement_survives_the_way_to_the_parent() {
        let outcome = Outcome {
            elapsed: Duration::from_nanos(1_234_567_890_123),
            operations: 3,
            check: u64::MAX,
            latencies: vec![30, 10, 20],
            load: Some(7),
            bytes_per_process: Some(123.5),
        };
        let measured = Measured::of(outcome, Some(4_096));
        assert_eq!((measured.p50_ns, measured.p99_ns), (Some(20), Some(30)));
        assert_eq!(Measured::from_line(&measured.to_line()), Ok(measured));
        let bare = Measured::of(Outcome::default(), None);
        assert_eq!(Measured::from_line(&bare.to_line()), Ok(bare));
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!((percentile(&hundred, 500), percentile(&hundred, 990)), (Some(50), Some(99)));
        assert_eq!(percentile(&hundred, 999), Some(100));
        assert_eq!((percentile(&[7], 500), percentile(&[], 500)), (Some(7), None));
    }

    #[test]
    fn what_is_missing_wrong_or_too_much_is_named() {
        let mut arguments = to_arguments(System::Tokio, &plan());
        arguments.push("more=1".to_string());
        assert_eq!(from_arguments(&arguments), Err("`more=…` is not known".to_string()));
        arguments.truncate(3);
        assert_eq!(from_arguments(&arguments), Err("`size=…` is missing".to_string()));
        assert!(Measured::from_line("elapsed_ns=many").unwrap_err().starts_with("`elapsed_ns=many`"));
        assert!(Measured::from_line("oops").unwrap_err().contains("key=value"));
    }
}
