//! All schedules of small tests.

use super::{Adder, Cell};
use postroom::prelude::*;
use postroom::test::{Coverage, Schedules, Simulation, SimulationError};

/// A process that sends one message.
#[process]
struct Setter {
    cell: Address<Cell>,
    value: u32,
}

#[process]
impl Setter {
    #[entry]
    async fn set(&mut self, ctx: &mut Context<Self>) {
        self.cell.set(self.value).send().expect("it lives");
        ctx.serve(self).await;
    }
}

fn explore(setters: u32, cells: usize, bound: Bound) -> Coverage {
    let test = Simulation::new("explore").schedules(Schedules::Exhaustive).check(move |sim| {
        let cell = || sim.spawn(Cell { value: 0 }).mailbox(bound).serve().expect("it starts");
        for cell in (0..cells).map(|_| cell()).collect::<Vec<_>>() {
            for value in 0..setters {
                sim.spawn(Setter { cell, value }).set().expect("it starts");
            }
        }
        sim.until_idle().expect("outside");
    });
    test.expect("nothing fails")
}

/// The numbers were checked by hand. With one cell, a schedule is an order of the `n` messages, together with the
/// number of messages that have arrived when each one is handled. The number of such schedules is n! times the n-th
/// Catalan number (1, 4, 30, 336). The cells are independent: a single order of the turns of different cells represents
/// all their orders. So the numbers of the cells are multiplied.
#[test]
fn schedules_are_as_many_as_orders_of_turns_that_do_not_commute() {
    for (setters, cells, schedules) in
        [(1, 1, 1), (2, 1, 4), (3, 1, 30), (4, 1, 336), (1, 3, 1), (2, 2, 16), (2, 3, 64)]
    {
        // If the search is short, it is repeated with a hard bound.
        let bounds = [Bound::Unbounded, Bound::Hard(9, Overflow::Refuse)];
        for bound in bounds.into_iter().take(if schedules > 30 { 1 } else { 2 }) {
            let covered = explore(setters, cells, bound);
            assert!(covered.is_exhaustive);
            assert_eq!(covered.schedules, schedules, "{setters} setters for each of {cells} cells, {bound:?}");
        }
    }
}

/// All possible outcomes occur: for two adders, 1 and 2.
#[test]
fn each_outcome_is_met() {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};
    let outcomes = Arc::new(Mutex::new(BTreeSet::new()));
    let met = outcomes.clone();
    let test = Simulation::new("outcomes").schedules(Schedules::Exhaustive).check(move |sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        let adders: Vec<_> = (0..2).map(|_| sim.spawn(Adder { cell }).add().expect("it starts")).collect();
        for adder in adders {
            adder.wait().expect("it ends");
        }
        met.lock().expect("one thread").insert(cell.get().wait().expect("it lives"));
    });
    assert!(test.expect("nothing is asserted").is_exhaustive);
    assert_eq!(*outcomes.lock().expect("one thread"), BTreeSet::from([1, 2]));
}

#[test]
fn a_failing_schedule_is_reported_with_how_to_see_it_again() {
    let test = Simulation::new("bank::all").schedules(Schedules::Exhaustive).check(|sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        let adders: Vec<_> = (0..2).map(|_| sim.spawn(Adder { cell }).add().expect("it starts")).collect();
        for adder in adders {
            adder.wait().expect("it ends");
        }
        assert_eq!(cell.get().wait(), Ok(2));
    });
    match test.expect_err("an update is lost") {
        SimulationError::Failed(failed) => {
            let text = failed.to_string();
            assert!(text.ends_with("POSTROOM_STRATEGY=exhaustive POSTROOM_SEED=0 cargo test all"), "{text}");
        }
        other => panic!("{other}"),
    }
}
