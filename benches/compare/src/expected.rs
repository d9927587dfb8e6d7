//! The expected results of runs. A run that is fast but wrong fails.

use crate::kernel;
use crate::plan::{Plan, Workload};
use crate::wire::Measured;
use compare_frame::probe::IN_FLIGHT;
use std::collections::HashMap;
use std::time::Duration;

/// Solutions of the queens' puzzle by width (<https://oeis.org/A000170>).
const QUEENS: [u64; 15] = [1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2_680, 14_200, 73_712, 365_596];

/// Number of sorters in the radix sort, one for each bit.
const SORTERS: u64 = 16;

/// The expected results of runs. Each of them is computed only once.
#[derive(Default)]
pub struct Expected(HashMap<(Workload, u64, u64), u64>);

impl Expected {
    /// Compares the measured result with the result that the plan should have.
    ///
    /// # Errors
    /// If a result differs: the expected and the actual one.
    pub fn verify(&mut self, plan: &Plan, measured: &Measured) -> Result<(), String> {
        let check = *self.0.entry((plan.workload, plan.size, plan.width)).or_insert_with(|| check(plan));
        let operations = operations(plan);
        if measured.check != check {
            return Err(format!("wrong result: its check is {}, expected {check}", measured.check));
        }
        if measured.operations != operations {
            return Err(format!("wrong result: {} operations, expected {operations}", measured.operations));
        }
        let least = least_load(plan, measured.elapsed);
        if measured.load.unwrap_or(0) < least {
            return Err(format!("wrong result: the load did {:?}, expected {least} at least", measured.load));
        }
        if measured.elapsed.is_zero() {
            return Err("wrong result: it took no time".to_string());
        }
        Ok(())
    }
}

/// Returns the number of operations in a run.
pub fn operations(plan: &Plan) -> u64 {
    match plan.workload {
        Workload::NQueens => queens(plan.width),
        Workload::Matrix => plan.width.div_ceil(kernel::BLOCK as u64),
        Workload::Pipeline => plan.size * plan.width,
        Workload::RadixSort => plan.size * SORTERS,
        _ => plan.size,
    }
}

/// If the plan is a probe, returns the least work that its load must have done in the given time.
fn least_load(plan: &Plan, elapsed: Duration) -> u64 {
    let steps = elapsed.as_nanos() / plan.work.as_nanos().max(1);
    match plan.workload {
        Workload::ProbeFlood => plan.width * IN_FLIGHT,
        // At least half of the steps that each worker could have started. (A step is counted when it starts.)
        Workload::ProbeBlocking | Workload::ProbeTold | Workload::ProbeLooping => {
            plan.workers as u64 * steps as u64 / 2
        }
        Workload::ProbeTimers => plan.width,
        _ => 0,
    }
}

/// Returns the number that proves that the run was done, as the documentation of each workload defines it.
fn check(plan: &Plan) -> u64 {
    let (size, width) = (plan.size, plan.width);
    match plan.workload {
        Workload::Counting | Workload::ForkJoinCreate | Workload::Skynet => sum_below(size),
        // The first `size % width` producers have one more message.
        Workload::FanIn => {
            (0..width).map(|producer| sum_below(size / width + u64::from(producer < size % width))).sum()
        }
        Workload::Ask | Workload::AskFromThread => sum_below(size + 1),
        Workload::AskFromTasks => width * sum_below(size / width + 1),
        Workload::TellFromTasks | Workload::Axum | Workload::AxumMutex => width * sum_below(size / width),
        Workload::NQueens => queens(width),
        Workload::Matrix => matrix(width as usize),
        Workload::Pipeline => size * width,
        Workload::Chameneos => 2 * size,
        Workload::RadixSort => {
            let mut numbers: Vec<u16> = kernel::numbers(size).collect();
            numbers.sort_unstable();
            kernel::sorted_check(numbers.into_iter())
        }
        _ => size,
    }
}

/// Returns 0 + 1 + … + (`count` - 1).
fn sum_below(count: u64) -> u64 {
    count * count.saturating_sub(1) / 2
}

fn queens(width: u64) -> u64 {
    QUEENS.get(width as usize).copied().unwrap_or_else(|| kernel::queens_solve(&mut Vec::new(), width as u8))
}

fn matrix(width: usize) -> u64 {
    let [left, right] = kernel::matrices(width);
    (0..width).step_by(kernel::BLOCK).fold(0_u64, |sum, first| {
        sum.wrapping_add(kernel::matrix_check(&kernel::multiply(&left, &right, width, first)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Bounding, Style, Via};

    fn plan(workload: Workload, size: u64, width: u64) -> Plan {
        let (via, style, work) = (Via::Address, Style::Natural, Duration::ZERO);
        let bounding = Bounding::Unasked;
        Plan { workload, workers: 1, size, width, payload: 0, bound: None, bounding, via, style, work }
    }

    #[test]
    fn sums_are_of_the_numbers_from_zero() {
        assert_eq!(check(&plan(Workload::Counting, 5, 0)), 10);
        assert_eq!(check(&plan(Workload::Counting, 0, 0)), 0);
        assert_eq!(check(&plan(Workload::Ask, 3, 0)), 1 + 2 + 3);
        assert_eq!(check(&plan(Workload::FanIn, 7, 2)), (1 + 2 + 3) + (1 + 2));
    }

    #[test]
    fn the_known_numbers_of_solutions_are_what_the_kernel_finds() {
        for (width, &solutions) in QUEENS.iter().enumerate().take(9) {
            assert_eq!(kernel::queens_solve(&mut Vec::new(), width as u8), solutions, "{width} queens");
        }
    }

    #[test]
    fn operations_are_what_the_workload_counts() {
        assert_eq!(operations(&plan(Workload::Matrix, 1, 65)), 3);
        assert_eq!(operations(&plan(Workload::Pipeline, 10, 4)), 40);
        assert_eq!(operations(&plan(Workload::RadixSort, 10, 0)), 160);
        assert_eq!(operations(&plan(Workload::NQueens, 1, 8)), 92);
        assert_eq!(operations(&plan(Workload::Chameneos, 10, 4)), 10);
    }

    #[test]
    fn a_load_that_stands_still_is_none() {
        let plan = Plan { workers: 2, work: Duration::from_secs(1), ..plan(Workload::ProbeBlocking, 10, 0) };
        let measured = |load| Measured {
            elapsed: Duration::from_secs(10),
            operations: 10,
            check: 10,
            load: Some(load),
            ..Measured::default()
        };
        let mut expected = Expected::default();
        assert_eq!(expected.verify(&plan, &measured(10)), Ok(()));
        assert!(expected.verify(&plan, &measured(9)).unwrap_err().contains("expected 10 at least"));
    }

    #[test]
    fn a_wrong_outcome_is_refused_with_both_numbers() {
        let plan = plan(Workload::Chameneos, 10, 3);
        let good = Measured { elapsed: Duration::from_nanos(1), operations: 10, check: 20, ..Measured::default() };
        let mut expected = Expected::default();
        assert_eq!(expected.verify(&plan, &good), Ok(()));
        let error = expected.verify(&plan, &Measured { check: 19, ..good.clone() }).unwrap_err();
        assert!(error.contains("19") && error.contains("20"), "{error}");
        assert!(expected.verify(&plan, &Measured { operations: 9, ..good.clone() }).is_err());
        assert!(expected.verify(&plan, &Measured { elapsed: Duration::ZERO, ..good }).is_err());
    }
}
