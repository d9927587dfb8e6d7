//! Philosophers who share forks, which one arbiter hands out.

use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef};

use super::super::finish::finish;
use super::super::tally::{Report, Tally, TallyState};
use super::super::{Peers, nobody, send, share, start};
use crate::plan::{Outcome, Plan};

/// An actor that hands out the forks. Each philosopher needs the fork with its own number and the next one.
struct Table;

enum Demand {
    Know(Peers<Course>),
    Hungry(usize),
    Sated(usize),
}

struct TableState {
    taken: Vec<bool>,
    philosophers: Peers<Course>,
}

impl TableState {
    fn forks(&self, philosopher: usize) -> [usize; 2] {
        [philosopher, (philosopher + 1) % self.taken.len()]
    }
}

impl Actor for Table {
    type Msg = Demand;
    type State = TableState;
    type Arguments = TableState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Demand>,
        demand: Demand,
        state: &mut TableState,
    ) -> Result<(), ActorProcessingErr> {
        match demand {
            Demand::Know(philosophers) => state.philosophers = philosophers,
            Demand::Hungry(philosopher) => {
                let forks = state.forks(philosopher);
                if forks.iter().any(|&fork| state.taken[fork]) {
                    send(&state.philosophers[philosopher], Course::Refused);
                } else {
                    for fork in forks {
                        state.taken[fork] = true;
                    }
                    send(&state.philosophers[philosopher], Course::Eat);
                }
            }
            Demand::Sated(philosopher) => {
                for fork in state.forks(philosopher) {
                    state.taken[fork] = false;
                }
            }
        }
        Ok(())
    }
}

struct Philosopher;

enum Course {
    Begin,
    Eat,
    Refused,
}

struct PhilosopherState {
    index: usize,
    /// Number of meals that are still to be eaten.
    left: u64,
    meals: u64,
    table: ActorRef<Demand>,
    tally: ActorRef<Report>,
}

impl PhilosopherState {
    fn ask(&self) {
        if self.left == 0 {
            send(&self.tally, Report(self.meals));
        } else {
            send(&self.table, Demand::Hungry(self.index));
        }
    }
}

impl Actor for Philosopher {
    type Msg = Course;
    type State = PhilosopherState;
    type Arguments = PhilosopherState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Course>,
        course: Course,
        state: &mut PhilosopherState,
    ) -> Result<(), ActorProcessingErr> {
        if let Course::Eat = course {
            state.left -= 1;
            state.meals += 1;
            send(&state.table, Demand::Sated(state.index));
        }
        state.ask();
        Ok(())
    }
}

pub async fn philosophers(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let tally = start(Tally, TallyState::of(plan.width, finish)).await;
    let table = TableState { taken: vec![false; plan.width as usize], philosophers: nobody() };
    let table = start(Table, table).await;
    let mut philosophers = Vec::new();
    for index in 0..plan.width {
        let left = share(plan.size, plan.width, index);
        let (table, tally) = (table.clone(), tally.clone());
        let philosopher = PhilosopherState { index: index as usize, left, meals: 0, table, tally };
        philosophers.push(start(Philosopher, philosopher).await);
    }
    let philosophers = Peers::from(philosophers);
    send(&table, Demand::Know(philosophers.clone()));
    let start = Instant::now();
    for philosopher in philosophers.iter() {
        send(philosopher, Course::Begin);
    }
    finished.outcome(start, plan.size).await
}
