//! The lines of figures for the rows. A row has a line for the time of an operation, and one for each further value
//! that was measured. The lines have the ratios that matter.

use crate::figures::{Figures, Row};
use crate::system::System;
use crate::targets::target;

/// Figures of one kind for all systems. Less is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    pub workers: usize,
    pub values: Vec<(System, Option<f64>)>,
    /// The value that Postroom must not exceed.
    pub target: Option<f64>,
    /// Whether the figures are the time of an operation. Only such lines count in the means.
    pub is_time: bool,
}

/// Extracts a figure, if it was measured.
type Value = fn(&Figures) -> Option<f64>;

/// The cost of another system as a multiple of Postroom's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub other: System,
    pub times: f64,
}

impl Line {
    fn of(row: &Row, suffix: &str, value: impl Fn(&Figures) -> Option<f64>) -> Self {
        let name = format!("{}{suffix}", row.case.name);
        Self {
            target: target(&name, row.workers),
            name,
            workers: row.workers,
            values: row.cells.iter().map(|(system, cell)| (*system, cell.figures().and_then(&value))).collect(),
            is_time: suffix.is_empty(),
        }
    }

    pub fn value(&self, system: System) -> Option<f64> {
        self.values.iter().find(|(of, _)| *of == system)?.1
    }

    /// Returns the least value among all systems.
    pub fn best(&self) -> Option<f64> {
        self.values.iter().filter_map(|(_, value)| *value).min_by(f64::total_cmp)
    }

    /// Compares Postroom with the best of those other systems for which `counts` returns true.
    fn against(&self, counts: impl Fn(System) -> bool) -> Option<Ratio> {
        let own = self.value(System::Postroom)?;
        let others = self.values.iter().filter(|(system, _)| *system != System::Postroom && counts(*system));
        let values = others.filter_map(|(system, value)| Some((*system, (*value)?)));
        let (other, best) = values.min_by(|one, other| one.1.total_cmp(&other.1))?;
        Some(Ratio { other, times: best / own })
    }

    /// Compares Postroom with the best other actor framework.
    pub fn against_actors(&self) -> Option<Ratio> {
        self.against(System::is_other_actor_framework)
    }

    /// Compares Postroom with the best of all other systems except the anchors.
    pub fn against_all(&self) -> Option<Ratio> {
        self.against(|system| !system.is_anchor())
    }
}

/// Returns the lines of all rows.
pub fn lines(rows: &[Row]) -> Vec<Line> {
    let further: [(&str, Value); 3] = [
        (" p50", |figures| figures.p50_ns),
        (" p99", |figures| figures.p99_ns),
        (" bytes", |figures| figures.bytes_per_process),
    ];
    let mut lines = Vec::new();
    for row in rows {
        lines.push(Line::of(row, "", |figures| Some(figures.ns_per_op)));
        let more = further.iter().map(|(suffix, value)| Line::of(row, suffix, value));
        lines.extend(more.filter(|line| line.best().is_some()));
    }
    lines
}

/// The geometric means of the ratios at one number of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Means {
    pub workers: usize,
    /// Number of lines in the means.
    pub lines: usize,
    pub against_actors: Option<f64>,
    pub against_all: Option<f64>,
}

/// Returns the means for each number of workers, in the order in which these numbers first occur.
pub fn means(lines: &[Line]) -> Vec<Means> {
    let mut workers: Vec<usize> = Vec::new();
    for line in lines {
        if !workers.contains(&line.workers) {
            workers.push(line.workers);
        }
    }
    let means = workers.into_iter().map(|workers| {
        let times: Vec<&Line> = lines.iter().filter(|line| line.is_time && line.workers == workers).collect();
        let ratios = |ratio: fn(&Line) -> Option<Ratio>| -> Vec<f64> {
            times.iter().filter_map(|line| ratio(line)).map(|ratio| ratio.times).collect()
        };
        let (actors, all) = (ratios(Line::against_actors), ratios(Line::against_all));
        Means { workers, lines: all.len(), against_actors: geometric_mean(&actors), against_all: geometric_mean(&all) }
    });
    means.collect()
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::cases::Case;
    use crate::figures::Cell;
    use crate::plan::Workload;

    /// Returns a row with results of Postroom, Tokio and actix. `None` stands for a run that failed.
    pub fn row(workload: Workload, workers: usize, nanoseconds: [Option<f64>; 3]) -> Row {
        let systems = [System::Postroom, System::Tokio, System::Actix];
        let cell = |value: Option<f64>| match value {
            Some(ns_per_op) => Cell::Measured(Figures { ns_per_op, peak_rss_kib: Some(1_024.0), ..Figures::default() }),
            None => Cell::Failed("hung".to_string()),
        };
        let cells = systems.into_iter().zip(nanoseconds.map(cell)).collect();
        Row { case: Case::of(workload), workers, cells }
    }

    #[test]
    fn ratios_are_to_the_best_of_the_others() {
        let line = &lines(&[row(Workload::PingPong, 1, [Some(20.0), Some(60.0), Some(80.0)])])[0];
        assert_eq!(line.against_actors(), Some(Ratio { other: System::Actix, times: 4.0 }));
        assert_eq!(line.against_all(), Some(Ratio { other: System::Tokio, times: 3.0 }));
        assert_eq!((line.target, line.best()), (Some(20.0), Some(20.0)));
        let failed = &lines(&[row(Workload::PingPong, 1, [None, Some(60.0), Some(80.0)])])[0];
        assert_eq!((failed.against_actors(), failed.value(System::Postroom)), (None, None));
    }

    #[test]
    fn what_was_measured_besides_the_time_has_lines_of_its_own() {
        let mut row = row(Workload::Ask, 2, [Some(50.0), None, None]);
        row.cells[0].1 = Cell::Measured(Figures { ns_per_op: 50.0, p99_ns: Some(200.0), ..Figures::default() });
        let lines = lines(&[row]);
        assert_eq!(lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["ask", "ask p99"]);
        assert_eq!((lines[1].target, lines[1].is_time), (Some(300.0), false));
    }

    #[test]
    fn means_are_geometric_and_of_one_number_of_workers() {
        let rows = [
            row(Workload::PingPong, 1, [Some(1.0), Some(2.0), None]),
            row(Workload::Big, 1, [Some(1.0), Some(8.0), Some(16.0)]),
            row(Workload::Big, 2, [None, Some(8.0), Some(16.0)]),
        ];
        let means = means(&lines(&rows));
        assert_eq!((means[0].workers, means[0].lines), (1, 2));
        assert!((means[0].against_all.unwrap() - 4.0).abs() < 1e-9);
        assert!((means[0].against_actors.unwrap() - 16.0).abs() < 1e-9);
        assert_eq!(means[1], Means { workers: 2, lines: 0, against_actors: None, against_all: None });
    }
}
