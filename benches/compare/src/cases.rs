//! The cases that are compared. Each of them is a row of the table.

use crate::plan::{Bounding, Plan, Style, Via, Workload};
use crate::sizes::{Scale, shared_evenly, size, width, work};
use crate::system::System;
use std::time::Duration;

/// A workload with all its parameters, except the system and the number of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The name in the table.
    pub name: String,
    pub workload: Workload,
    /// The size, if it differs from that of [`crate::sizes`].
    pub size: Option<u64>,
    /// The width, if it differs from that of [`crate::sizes`].
    pub width: Option<u64>,
    pub payload: usize,
    pub bound: Option<usize>,
    pub bounding: Bounding,
    pub via: Via,
    pub style: Style,
    /// The work, if it differs from that of [`crate::sizes`].
    pub work: Option<Duration>,
    /// Whether Postroom must be able to run the workload. Other systems may always lack a natural way to do it.
    pub is_required: bool,
    /// The systems that take part, or `None` if all do.
    pub systems: Option<&'static [System]>,
    /// The memory that must be free before a run, in KiB.
    pub room_kib: u64,
}

impl Case {
    /// Returns a workload with default parameters, for all systems.
    pub fn of(workload: Workload) -> Self {
        Self {
            name: workload.to_string(),
            workload,
            size: None,
            width: None,
            payload: 0,
            bound: None,
            bounding: Bounding::Unasked,
            via: Via::Address,
            style: Style::Natural,
            work: None,
            is_required: true,
            systems: None,
            room_kib: 0,
        }
    }

    /// Returns the pipeline with `microseconds` of work at each stage.
    fn pipeline(microseconds: u64) -> Self {
        Self {
            name: format!("pipeline_{microseconds}us"),
            work: Some(Duration::from_micros(microseconds)),
            ..Self::of(Workload::Pipeline)
        }
    }

    /// Returns the calls of `tasks` tasks.
    fn ask_from_tasks(tasks: u64) -> Self {
        Self {
            name: format!("{}_{tasks}", Workload::AskFromTasks),
            width: Some(tasks),
            ..Self::of(Workload::AskFromTasks)
        }
    }

    /// Returns the service without processes, which is no workload of an actor library.
    fn axum_mutex() -> Self {
        Self { is_required: false, systems: Some(&[System::Tokio]), ..Self::of(Workload::AxumMutex) }
    }

    /// Returns the plan of the run on `system`.
    pub fn plan(&self, system: System, workers: usize, scale: Scale) -> Plan {
        let width = self.width.unwrap_or_else(|| width(self.workload, scale));
        let work = self.work.unwrap_or_else(|| work(self.workload, scale));
        let size = self.size.unwrap_or_else(|| size(self.workload, work, system, scale));
        Plan {
            workload: self.workload,
            workers,
            size: shared_evenly(self.workload, size, width),
            width,
            payload: self.payload,
            bound: self.bound,
            bounding: self.bounding,
            via: self.via,
            style: self.style,
            work,
        }
    }

    /// Returns whether `system` takes part.
    pub fn is_for(&self, system: System) -> bool {
        self.systems.is_none_or(|systems| systems.contains(&system))
    }
}

/// Returns the workloads, in the order of the table.
pub fn workloads() -> Vec<Case> {
    let cases = Workload::ALL.iter().filter(|workload| !workload.is_probe()).flat_map(|&workload| match workload {
        Workload::Pipeline => [1, 10, 100].map(Case::pipeline).to_vec(),
        Workload::AskFromTasks => [1, 64, 1_024].map(Case::ask_from_tasks).to_vec(),
        Workload::AxumMutex => vec![Case::axum_mutex()],
        workload => vec![Case::of(workload)],
    });
    cases.collect()
}

/// Returns the probes, in the order of their table. They measure how late a message is handled under each load.
pub fn probes() -> Vec<Case> {
    const SYSTEMS: &[System] = &[System::Postroom, System::Tokio, System::Actix, System::Kameo, System::Ractor];
    let probes = Workload::ALL.iter().filter(|workload| workload.is_probe());
    probes.map(|&workload| Case { systems: Some(SYSTEMS), ..Case::of(workload) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workload_has_a_row_and_two_have_three() {
        let names: Vec<_> = workloads().into_iter().map(|case| case.name).collect();
        assert_eq!(names.len() + probes().len(), Workload::ALL.len() + 4);
        assert_eq!(names[..3], ["ping_pong", "ping_pong_pairs", "thread_ring"]);
        assert!(names.contains(&"pipeline_10us".to_string()));
    }

    #[test]
    fn a_plan_takes_the_cases_own_numbers_first() {
        let case = Case { size: Some(1_000), width: Some(3), ..Case::of(Workload::PingPongPairs) };
        let plan = case.plan(System::Tokio, 2, Scale::Full);
        assert_eq!((plan.size, plan.width, plan.workers), (1_002, 3, 2));
        assert_eq!(Case::of(Workload::PingPongPairs).plan(System::Tokio, 2, Scale::Full).width, 64);
    }
}
