//! Schedules by the production scheduler. It decides what each of several workers runs.

use super::{Adder, Cell};
use postroom::prelude::*;
use postroom::test::{Schedules, Sim, Simulation, SimulationError, sometimes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A process that sends a message to each of its cells, so that its worker has a queue of them.
#[process]
struct Spreader {
    cells: Vec<Address<Cell>>,
}

#[process]
impl Spreader {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn spread(&mut self, value: u32) {
        for cell in &self.cells {
            cell.set(value).send().expect("it lives");
        }
    }
}

#[postroom::test(strategy = "production")]
fn workers_steal_and_nothing_is_lost(sim: Sim) {
    let cells: Vec<_> = (0..30).map(|_| sim.spawn(Cell { value: 0 }).serve().expect("it starts")).collect();
    let spreader = sim.spawn(Spreader { cells: cells.clone() }).serve().expect("it starts");
    for value in 1..=3 {
        spreader.spread(value).send().expect("it lives");
    }
    sim.until_idle().expect("outside");
    for cell in cells {
        assert_eq!(cell.get().wait(), Ok(3));
    }
    let statistics = sim.statistics();
    let busy = statistics.threads.iter().filter(|thread| thread.steps > 0).count();
    sometimes!(
        statistics.threads.iter().any(|thread| thread.stolen > thread.steals),
        "a worker steals several at once"
    );
    sometimes!(sim.workers() == 2 && busy == 2, "two workers share the work");
    sometimes!(sim.workers() == 4 && busy == 4, "four workers share the work");
}

/// Catches: processes that never run because they are in the queues of a worker whose current step waits.
#[postroom::test(strategy = "production")]
fn steps_that_wait_on_their_stacks_leave_their_queues_to_others(sim: Sim) {
    let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
    let adders: Vec<_> = (0..6).map(|_| sim.spawn(Adder { cell }).serve().expect("it starts")).collect();
    for adder in &adders {
        adder.add_waiting().send().expect("it lives");
    }
    sim.until_idle().expect("outside");
    let value = cell.get().wait().expect("it lives");
    assert!((1..=6).contains(&value));
    sometimes!(value < 6, "two of them overlap");
}

#[test]
fn a_fault_is_found_and_its_schedule_replayed() {
    let body = |sim: Sim| {
        sim.crash::<Spreader>(0.1);
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        let adders: Vec<_> = (0..2).map(|_| sim.spawn(Adder { cell }).add().expect("it starts")).collect();
        for adder in adders {
            adder.wait().expect("it ends");
        }
        assert_eq!(cell.get().wait(), Ok(2));
    };
    let failed = |test: Simulation| match test.check(body).expect_err("two workers interleave the adders") {
        SimulationError::Failed(failed) => *failed,
        other => panic!("{other}"),
    };
    let first = failed(Simulation::new("of_production").schedules(Schedules::Production));
    // The file overrides the default strategy.
    let again = failed(Simulation::new("of_production").replay(first.trace.clone().expect("it was written")));
    assert_eq!((again.schedule(), again.departure), (first.schedule(), None));
}

/// A crash is injected, no matter which worker would have run the process.
#[test]
fn faults_are_injected() {
    let crashed = Arc::new(AtomicU64::new(0));
    let counted = crashed.clone();
    let test = Simulation::new("crash").schedules(Schedules::Production).check(move |sim| {
        sim.crash::<Cell>(0.5);
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        let crashed = (0..5).any(|value| cell.set(value).wait().is_err());
        counted.fetch_add(u64::from(crashed), SeqCst);
        assert_eq!(cell.pid().is_alive(), !crashed);
    });
    test.expect("a crash is heard of");
    let crashed = crashed.load(SeqCst);
    assert!((10..60).contains(&crashed), "a fault is active in a quarter of 100 runs, and here in {crashed}");
}
