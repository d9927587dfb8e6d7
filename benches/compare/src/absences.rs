//! The reasons for the dashes in a column: workloads that the system has no natural way to do.

use crate::cases::Case;
use crate::figures::{Cell, Row};
use crate::plan::{Style, Via, Workload};
use crate::system::System;

/// Returns a line for each system and reason. Each line lists the rows that are left out for that reason.
pub fn absences(rows: &[Row]) -> Vec<String> {
    let mut found: Vec<(System, &str, Vec<&str>)> = Vec::new();
    for row in rows {
        let absent = row.cells.iter().filter(|(system, cell)| *cell == Cell::Absent && row.case.is_for(*system));
        for &(system, _) in absent {
            let (name, reason) = (row.case.name.as_str(), reason(system, &row.case, row.workers));
            match found.iter_mut().find(|(of, why, _)| (*of, *why) == (system, reason)) {
                // This row is already listed, with another number of workers.
                Some((.., names)) if names.contains(&name) => {}
                Some((.., names)) => names.push(name),
                None => found.push((system, reason, vec![name])),
            }
        }
    }
    found.sort_by_key(|(system, ..)| *system);
    found.into_iter().map(|(system, reason, names)| format!("{system}, {}: {reason}", names.join(", "))).collect()
}

/// Returns the reason why `system` has no result for `case` with this number of workers.
fn reason(system: System, case: &Case, workers: usize) -> &'static str {
    let needs_order = matches!(case.workload, Workload::Counting | Workload::FanIn | Workload::RadixSort);
    match system {
        System::Postroom => "only some workloads are written in more than one way",
        _ if case.via != Via::Address || case.style != Style::Natural => "only Postroom is swept over this",
        _ if system.has_one_thread() && workers > 1 => "it runs everything on one thread",
        _ if system.is_anchor() => "an anchor does the workloads that pass plain messages, and no others",
        System::Xtra if needs_order => "its mailbox keeps no order among the messages of one sender",
        System::Actix | System::Ractor if case.bound.is_some() => "it has no mailbox in which a sender waits for room",
        _ if case.bound.is_some() => "its messages go in circles, so that senders could wait for room for ever",
        _ => "it has no natural way to do this",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    #[test]
    fn who_leaves_out_what_is_said_once_with_the_reason() {
        let row = |workload, workers| {
            let measured = (System::Postroom, Cell::Measured(Figures::default()));
            Row { case: Case::of(workload), workers, cells: vec![measured, (System::Xtra, Cell::Absent)] }
        };
        let rows = [row(Workload::Counting, 1), row(Workload::Counting, 2), row(Workload::RadixSort, 1)];
        let absences = absences(&rows);
        assert_eq!(absences.len(), 1);
        assert!(absences[0].starts_with("xtra, counting, radix_sort: its mailbox keeps no order"), "{absences:?}");
    }

    #[test]
    fn an_anchor_leaves_out_what_it_does_on_no_thread_and_what_only_others_do() {
        let row =
            |workload, workers, system| Row { case: Case::of(workload), workers, cells: vec![(system, Cell::Absent)] };
        let absences = absences(&[
            row(Workload::PingPong, 2, System::Stakker),
            row(Workload::NQueens, 1, System::Stakker),
            row(Workload::NQueens, 2, System::Nexosim),
        ]);
        assert_eq!(absences.len(), 3);
        assert_eq!(absences[0], "stakker, ping_pong: it runs everything on one thread");
        assert!(absences[1].starts_with("stakker, nqueens: an anchor does"), "{absences:?}");
        assert!(absences[2].starts_with("nexosim, nqueens: an anchor does"), "{absences:?}");
    }

    #[test]
    fn who_was_not_asked_leaves_out_nothing() {
        let case = Case { systems: Some(&[System::Postroom]), ..Case::of(Workload::IdleMemory) };
        let row = Row { case, workers: 1, cells: vec![(System::Tokio, Cell::Absent)] };
        assert_eq!(absences(&[row]), Vec::<String>::new());
    }
}
