//! The summary of the runs of one system for one row.

use crate::cases::Case;
use crate::system::System;
use crate::wire::Measured;

/// Medians over the runs. Each value has its own median.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub ns_per_op: f64,
    pub p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    pub p999_ns: Option<f64>,
    /// The amount of work that the load of a probe does per second.
    pub load_per_second: Option<f64>,
    pub peak_rss_kib: Option<f64>,
    pub bytes_per_process: Option<f64>,
}

impl Figures {
    /// Returns the medians, or `None` if there are no runs.
    pub fn of(runs: &[Measured]) -> Option<Self> {
        let middle = |value: fn(&Measured) -> Option<f64>| median(runs.iter().filter_map(value).collect());
        Some(Self {
            ns_per_op: middle(|run| Some(run.elapsed.as_nanos() as f64 / run.operations as f64))?,
            p50_ns: middle(|run| run.p50_ns.map(|value| value as f64)),
            p99_ns: middle(|run| run.p99_ns.map(|value| value as f64)),
            p999_ns: middle(|run| run.p999_ns.map(|value| value as f64)),
            load_per_second: middle(|run| Some(run.load? as f64 / run.elapsed.as_secs_f64())),
            peak_rss_kib: middle(|run| run.peak_rss_kib.map(|value| value as f64)),
            bytes_per_process: middle(|run| run.bytes_per_process),
        })
    }
}

/// Returns the middle value, or the mean of the two values in the middle.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The result of a system in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Measured(Figures),
    /// The system has no natural way to do the workload, or does not take part.
    Absent,
    /// A run failed, hung or had a wrong result. This is the reason.
    Failed(String),
}

impl Cell {
    pub fn figures(&self) -> Option<&Figures> {
        match self {
            Self::Measured(figures) => Some(figures),
            Self::Absent | Self::Failed(_) => None,
        }
    }
}

/// The results of a case with a given number of workers, for all systems.
#[derive(Clone, Debug)]
pub struct Row {
    pub case: Case,
    pub workers: usize,
    pub cells: Vec<(System, Cell)>,
}

impl Row {
    /// Returns the failed runs, each with a human-readable description.
    pub fn failures(&self) -> impl Iterator<Item = (System, String)> {
        self.cells.iter().filter_map(|(system, cell)| match cell {
            Cell::Failed(reason) => {
                Some((*system, format!("{system}, {}, {}: {reason}", self.case.name, count_workers(self.workers))))
            }
            Cell::Measured(_) | Cell::Absent => None,
        })
    }
}

/// Formats a number of workers: `1 worker`, `2 workers`.
pub fn count_workers(workers: usize) -> String {
    format!("{workers} worker{}", if workers == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Workload;
    use std::time::Duration;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn figures_are_medians_per_operation() {
        let run = |nanoseconds, p50_ns| Measured {
            elapsed: Duration::from_nanos(nanoseconds),
            operations: 10,
            p50_ns,
            peak_rss_kib: Some(nanoseconds),
            ..Measured::default()
        };
        let figures = Figures::of(&[run(500, Some(4)), run(100, Some(8)), run(200, Some(6))]).unwrap();
        assert_eq!((figures.ns_per_op, figures.p50_ns), (20.0, Some(6.0)));
        assert_eq!((figures.peak_rss_kib, figures.bytes_per_process), (Some(200.0), None));
        assert_eq!(Figures::of(&[]), None);
    }

    #[test]
    fn failures_say_who_and_where() {
        let cells = vec![(System::Xtra, Cell::Failed("hung".into())), (System::Tokio, Cell::Absent)];
        let row = Row { case: Case::of(Workload::Big), workers: 2, cells };
        assert_eq!(row.failures().collect::<Vec<_>>(), [(System::Xtra, "xtra, big, 2 workers: hung".to_string())]);
    }
}
