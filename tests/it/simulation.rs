//! Simulated tests: seeded schedules, virtual time, faults.

mod all;
mod faults;
mod model;
mod planted;
mod production;
mod protocols;
mod racers;
mod report;
mod scenarios;
mod time;
mod trace_file;

use postroom::prelude::*;

/// A number that two processes can change at the same time.
#[process]
struct Cell {
    value: u32,
}

#[process]
impl Cell {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn get(&mut self) -> u32 {
        self.value
    }
    #[message]
    fn set(&mut self, value: u32) {
        self.value = value;
    }
}

/// A process that adds one to a cell in two calls: the classic lost update.
#[process]
struct Adder {
    cell: Address<Cell>,
}

#[process]
impl Adder {
    /// Adds with awaited calls.
    #[entry]
    async fn add(&mut self) {
        let value = self.cell.get().await.expect("it lives");
        self.cell.set(value + 1).await.expect("it lives");
    }
    #[entry]
    fn serve(&mut self) {}
    /// Adds with blocking calls.
    #[message]
    fn add_waiting(&mut self) -> Result<(), CallError> {
        let value = self.cell.get().wait()?;
        self.cell.set(value + 1).wait()
    }
}
