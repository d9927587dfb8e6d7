//! A table of the probes. It shows how late a message is handled under each load, for all systems.

use crate::figures::{Cell, Figures, Row};
use crate::plan::Workload;
use crate::sizes::{Scale, width, work};
use crate::system::System;
use crate::table::{DASH, aligned, grouped, marked_down, number};
use crate::targets::target;

/// Extracts a figure, if it was measured.
type Value = fn(&Figures) -> Option<f64>;

/// The percentiles that are shown.
const PERCENTILES: [(&str, Value); 3] =
    [("p50", |figures| figures.p50_ns), ("p99", |figures| figures.p99_ns), ("p99.9", |figures| figures.p999_ns)];

/// The table of all probes, as text or as Markdown.
pub struct ProbeTable<'a> {
    pub rows: &'a [Row],
    pub systems: &'a [System],
    pub scale: Scale,
}

impl ProbeTable<'_> {
    /// Returns the systems that have a probe at all.
    fn columns(&self) -> Vec<System> {
        let takes_part = |system: &System| self.rows.iter().any(|row| row.case.is_for(*system));
        self.systems.iter().copied().filter(takes_part).collect()
    }

    /// Returns the cells of the table. If `goals` is true, they include Postroom's internal goals.
    fn texts(&self, goals: bool, best: impl Fn(String) -> String) -> Vec<Vec<String>> {
        let columns = self.columns();
        let mut header = vec!["load".to_string(), String::new()];
        header.extend(columns.iter().map(System::to_string));
        header.extend(goals.then(|| "goal".to_string()));
        let mut texts = vec![header];
        for row in self.rows {
            for (index, (name, value)) in PERCENTILES.into_iter().enumerate() {
                let values: Vec<_> = columns.iter().map(|&system| figure(row, system, value)).collect();
                let least = values.iter().flatten().copied().min_by(f64::total_cmp);
                let mut line = vec![if index == 0 { load(row, self.scale) } else { String::new() }, name.to_string()];
                line.extend(values.into_iter().map(|value| match value {
                    None => DASH.to_string(),
                    Some(value) if Some(value) == least => best(duration(value)),
                    Some(value) => duration(value),
                }));
                if goals {
                    let goal = target(&format!("{} {name}", row.case.name), row.workers);
                    line.push(goal.map_or_else(String::new, |goal| format!("≤ {}", duration(goal))));
                }
                texts.push(line);
            }
            if let Some(done) = done(row.case.workload) {
                let mut line = vec![String::new(), format!("{done} per second")];
                let values = columns.iter().map(|&system| figure(row, system, |figures| figures.load_per_second));
                line.extend(values.map(|value| value.map_or_else(|| DASH.to_string(), number)));
                line.extend(goals.then(String::new));
                texts.push(line);
            }
        }
        texts
    }

    /// Returns the table as text, with columns of equal width and with the goals.
    pub fn to_text(&self) -> String {
        aligned(&self.texts(true, |text| text))
    }

    /// Returns the table as Markdown for users. The least value of each line is in bold, and there are no goals.
    pub fn to_markdown(&self) -> String {
        marked_down(&self.texts(false, |text| format!("**{text}**")))
    }

    /// Returns a line for each of Postroom's goals, which says whether it was reached. For the terminal only.
    pub fn verdicts(&self) -> Vec<String> {
        let verdict = |row: &Row| {
            let goal = target(&format!("{} p99", row.case.name), row.workers)?;
            let value = figure(row, System::Postroom, |figures| figures.p99_ns)?;
            let said = if value <= goal { "reached" } else { "missed" };
            Some(format!(
                "While {}: p99 of Postroom {}, goal {}, {said}.",
                load(row, self.scale),
                duration(value),
                duration(goal)
            ))
        };
        self.rows.iter().filter_map(verdict).collect()
    }
}

fn figure(row: &Row, system: System, value: Value) -> Option<f64> {
    let (_, cell) = row.cells.iter().find(|(of, _)| *of == system)?;
    match cell {
        Cell::Measured(figures) => value(figures),
        Cell::Absent | Cell::Failed(_) => None,
    }
}

/// Describes the load of a row.
fn load(row: &Row, scale: Scale) -> String {
    let workload = row.case.workload;
    let width = grouped(width(workload, scale));
    let work = duration(work(workload, scale).as_nanos() as f64);
    match workload {
        Workload::ProbeIdle => "nothing else runs".to_string(),
        Workload::ProbeFlood => format!("{width} processes flood each other"),
        Workload::ProbeBlocking => format!("one process per worker blocks for {work}, repeatedly"),
        Workload::ProbeTold => format!("the same, declared as blocking ({work})"),
        Workload::ProbeLooping => format!("one process per worker loops for {work}, repeatedly"),
        Workload::ProbeTimers => format!("{width} timers fire at the same moment, every {work}"),
        _ => row.case.name.clone(),
    }
}

/// Returns the unit of the load's work, if the table shows the amount of that work.
fn done(workload: Workload) -> Option<&'static str> {
    match workload {
        Workload::ProbeFlood => Some("messages"),
        Workload::ProbeBlocking | Workload::ProbeTold | Workload::ProbeLooping => Some("steps begun"),
        Workload::ProbeTimers => Some("timers handled"),
        _ => None,
    }
}

/// Formats nanoseconds for people.
pub fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 999.5 => format!("{ns:.0} ns"),
        ns if ns < 999.5e3 => format!("{} µs", number(ns / 1e3)),
        ns if ns < 999.5e6 => format!("{} ms", number(ns / 1e6)),
        ns => format!("{} s", number(ns / 1e9)),
    }
}

/// Returns the explanation of the columns.
pub fn legend(runs: usize, scale: &str) -> String {
    let of = if runs == 1 { "one run".to_string() } else { format!("medians of {runs} runs") };
    format!(
        "Latency of a message from a thread outside to a waiting process, from the send to its method: {of} with \
         {scale}, about one message per millisecond. Each run is a fresh process, and the systems take turns. Lower is \
         better. The last row of each load says how much of the load was done meanwhile."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Case;

    fn row() -> Row {
        let cell = |p99_ns, load| {
            Cell::Measured(Figures {
                p50_ns: Some(950.0),
                p99_ns: Some(p99_ns),
                p999_ns: Some(p99_ns * 2.0),
                load_per_second: Some(load),
                ..Figures::default()
            })
        };
        let cells = vec![
            (System::Postroom, cell(650_000.0, 1e6)),
            (System::Tokio, cell(2.5e6, 2e6)),
            (System::Actix, Cell::Failed("hung".to_string())),
        ];
        Row { case: Case::of(Workload::ProbeFlood), workers: 2, cells }
    }

    #[test]
    fn a_load_has_a_line_for_each_percentile_and_one_for_what_it_did() {
        let systems = [System::Postroom, System::Tokio, System::Actix];
        let table = ProbeTable { rows: &[row()], systems: &systems, scale: Scale::Full };
        let expected = "\
| load |  | postroom | tokio | actix |
|---|---|--:|--:|--:|
| 10,000 processes flood each other | p50 | **950 ns** | **950 ns** | – |
|  | p99 | **650 µs** | 2.50 ms | – |
|  | p99.9 | **1.30 ms** | 5.00 ms | – |
|  | messages per second | 1,000,000 | 2,000,000 | – |
";
        assert_eq!(table.to_markdown(), expected);
        assert!(table.to_text().contains("  650 µs    2.50 ms      –  ≤ 1.00 ms"), "{}", table.to_text());
    }

    #[test]
    fn a_goal_is_reached_or_missed() {
        let mut rows = [row(), row()];
        rows[1].cells[0].1 = Cell::Measured(Figures { p99_ns: Some(1.5e6), ..Figures::default() });
        let verdicts = ProbeTable { rows: &rows, systems: &[System::Postroom], scale: Scale::Full }.verdicts();
        assert!(verdicts[0].ends_with("650 µs, goal 1.00 ms, reached."), "{verdicts:?}");
        assert!(verdicts[1].ends_with("1.50 ms, goal 1.00 ms, missed."), "{verdicts:?}");
    }

    #[test]
    fn times_are_in_the_unit_that_fits() {
        let times = [12.0, 1_234.0, 45_678.0, 999_999.0, 12.5e6, 2.5e9];
        assert_eq!(times.map(duration), ["12 ns", "1.23 µs", "45.7 µs", "1.00 ms", "12.5 ms", "2.50 s"]);
    }
}
