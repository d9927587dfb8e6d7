//! Runs all measurements. For each row there are rounds of runs, and each round runs every system, so that a slow
//! minute of the machine affects all of them. Each round begins with another system, so that none is always first.

use crate::cases::Case;
use crate::child::measure_in_child;
use crate::expected::Expected;
use crate::figures::{Cell, Figures, Row, count_workers};
use crate::machine::available_kib;
use crate::options::Options;
use crate::plan::Plan;
use crate::probe_table::duration;
use crate::system::System;
use crate::wire::Measured;

/// The result of a run, or `None` if the system has no natural way to do it. The error is the reason for a missing
/// result.
type Run = Result<Option<Measured>, String>;

/// Measures all rows, and reports its progress on standard error.
pub fn compare(options: &Options) -> Vec<Row> {
    let mut expected = Expected::default();
    let total = options.cases.len() * options.workers.len();
    let mut rows = Vec::with_capacity(total);
    for case in &options.cases {
        if available_kib().is_some_and(|free| free < case.room_kib) {
            eprintln!("{} is left out: it needs {} MiB of free memory", case.name, case.room_kib / 1_024);
            continue;
        }
        for &workers in &options.workers {
            let row = measure_row(case, workers, options, |system, plan| {
                let measured = measure_in_child(system, plan, options.scale.limit())?;
                measured.map(|measured| expected.verify(plan, &measured).map(|()| measured)).transpose()
            });
            rows.push(row);
            let done = rows.len();
            if let Some(row) = rows.last() {
                eprintln!("{done}/{total} {}, {}: {}", case.name, count_workers(workers), progress(row));
            }
        }
    }
    rows
}

/// Measures a row. Calls `run` for each run in turn.
fn measure_row(case: &Case, workers: usize, options: &Options, mut run: impl FnMut(System, &Plan) -> Run) -> Row {
    let systems = &options.systems;
    let mut lines: Vec<Runs> = systems.iter().map(|&system| Runs::new(case, system)).collect();
    for round in 0..options.runs {
        for turn in 0..systems.len() {
            let index = (round + turn) % systems.len();
            if lines[index].is_over() {
                continue;
            }
            let plan = case.plan(systems[index], workers, options.scale);
            lines[index].add(run(systems[index], &plan));
        }
    }
    let cells = systems.iter().zip(lines).map(|(&system, runs)| (system, runs.into_cell(case, system))).collect();
    Row { case: case.clone(), workers, cells }
}

/// The runs of one system for one row. A system is not run again if it has no way to do the workload, or if a run has
/// failed.
enum Runs {
    Good(Vec<Measured>),
    Absent,
    Failed(String),
}

impl Runs {
    fn new(case: &Case, system: System) -> Self {
        if case.is_for(system) { Self::Good(Vec::new()) } else { Self::Absent }
    }

    fn is_over(&self) -> bool {
        !matches!(self, Self::Good(_))
    }

    fn add(&mut self, run: Run) {
        match (run, &mut *self) {
            (Ok(Some(measured)), Self::Good(runs)) => runs.push(measured),
            (Ok(None), _) => *self = Self::Absent,
            (Err(reason), _) => *self = Self::Failed(reason),
            (Ok(Some(_)), _) => {}
        }
    }

    fn into_cell(self, case: &Case, system: System) -> Cell {
        match self {
            Self::Good(runs) => Figures::of(&runs).map_or(Cell::Absent, Cell::Measured),
            Self::Absent if case.is_required && system == System::Postroom => {
                Cell::Failed("it has no way to do it, but must".to_string())
            }
            Self::Absent => Cell::Absent,
            Self::Failed(reason) => Cell::Failed(reason),
        }
    }
}

fn progress(row: &Row) -> String {
    let asked = row.cells.iter().filter(|(system, _)| row.case.is_for(*system));
    let cells = asked.map(|(system, cell)| match cell {
        Cell::Measured(figures) if row.case.workload.is_probe() => {
            format!("{system} p99 {}", figures.p99_ns.map_or_else(|| "?".to_string(), duration))
        }
        Cell::Measured(figures) => format!("{system} {:.1}", figures.ns_per_op),
        Cell::Absent => format!("{system} –"),
        Cell::Failed(_) => format!("{system} FAILED"),
    });
    cells.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Order, parse};
    use crate::plan::Workload;
    use std::time::Duration;

    fn options(runs: &str) -> Options {
        let arguments = ["--systems", "postroom,tokio,xtra", "--runs", runs];
        match parse(arguments.map(str::to_string)) {
            Ok(Order::Compare(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    fn took(nanoseconds: u64) -> Run {
        Ok(Some(Measured { elapsed: Duration::from_nanos(nanoseconds), operations: 1, ..Measured::default() }))
    }

    #[test]
    fn each_round_begins_with_another_system() {
        let mut order = Vec::new();
        measure_row(&Case::of(Workload::Big), 1, &options("2"), |system, _| {
            order.push(system);
            took(1)
        });
        let (postroom, tokio, xtra) = (System::Postroom, System::Tokio, System::Xtra);
        assert_eq!(order, [postroom, tokio, xtra, tokio, xtra, postroom]);
    }

    #[test]
    fn who_failed_or_cannot_is_not_asked_again_and_the_others_go_on() {
        let mut asked = 0;
        let row = measure_row(&Case::of(Workload::Big), 1, &options("3"), |system, _| {
            asked += 1;
            match system {
                System::Postroom => took(10 * asked),
                System::Tokio => Err("hung".to_string()),
                _ => Ok(None),
            }
        });
        assert_eq!(asked, 5);
        assert_eq!(row.cells[0].1.figures().unwrap().ns_per_op, 40.0);
        assert_eq!(row.cells[1].1, Cell::Failed("hung".to_string()));
        assert_eq!(row.cells[2].1, Cell::Absent);
    }

    #[test]
    fn postroom_must_do_what_is_required_of_it() {
        let workload = Case::of(Workload::Big);
        let varied = Case { is_required: false, ..workload.clone() };
        let cell = |case| measure_row(case, 1, &options("1"), |_, _| Ok(None)).cells.remove(0).1;
        assert!(matches!(cell(&workload), Cell::Failed(_)));
        assert_eq!(cell(&varied), Cell::Absent);
    }
}
