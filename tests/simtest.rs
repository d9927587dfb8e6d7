use postroom::prelude::*;
use postroom::test::{Simulation, SimulationError, Schedules};
use std::time::Duration;

#[process]
struct Cell { value: u32 }
#[process]
impl Cell {
    #[entry] fn serve(&mut self) {}
    #[message] fn get(&mut self) -> u32 { self.value }
    #[message] fn set(&mut self, value: u32) { self.value = value; }
}
#[process]
struct Adder { cell: Address<Cell> }
#[process]
impl Adder {
    #[entry] async fn add(&mut self) {
        let value = self.cell.get().await.unwrap();
        self.cell.set(value + 1).await.unwrap();
    }
    #[message] fn by_wait(&mut self) {
        let value = self.cell.get().wait().unwrap();
        self.cell.set(value + 1).wait().unwrap();
    }
    #[entry] fn serve(&mut self) {}
}

#[test]
fn lost_update() {
    let error = Simulation::new("lost_update").check(|sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().unwrap();
        let adders: Vec<_> = (0..2).map(|_| sim.spawn(Adder { cell }).add().unwrap()).collect();
        for adder in adders { adder.wait().unwrap(); }
        assert_eq!(cell.get().wait(), Ok(2));
    }).unwrap_err();
    eprintln!("{error}");
    assert!(matches!(error, SimulationError::Failed(_)));
}

#[test]
fn waits_in_steps() {
    let error = Simulation::new("waits").check(|sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().unwrap();
        let adders: Vec<_> = (0..3).map(|_| sim.spawn(Adder { cell }).serve().unwrap()).collect();
        let calls: Vec<_> = adders.iter().map(|adder| adder.by_wait().send()).collect();
        drop(calls);
        sim.until_idle().unwrap();
        assert_eq!(cell.get().wait(), Ok(3));
    }).unwrap_err();
    eprintln!("{error}");
}

#[test]
fn all_schedules() {
    let covered = Simulation::new("all").schedules(Schedules::Exhaustive).check(|sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().unwrap();
        let adders: Vec<_> = (0..1).map(|_| sim.spawn(Adder { cell }).add().unwrap()).collect();
        for adder in adders { adder.wait().unwrap(); }
        assert_eq!(cell.get().wait(), Ok(1));
    }).unwrap();
    eprintln!("{covered:?}");
    assert!(covered.is_exhaustive);
}

#[process]
struct Sleeper;
#[process]
impl Sleeper {
    #[entry] async fn nap(&mut self, ctx: &mut Context<Self>, secs: u64) -> u64 { ctx.sleep(Duration::from_secs(secs)).await; secs }
}

#[test]
fn time_leaps() {
    let covered = Simulation::new("leaps").seeds(1000).check(|sim| {
        let naps: Vec<_> = (0..10).map(|n| sim.spawn(Sleeper).nap(n * 3600 / 10).unwrap()).collect();
        for nap in naps { nap.wait().unwrap(); }
        assert!(sim.elapsed() >= Duration::from_secs(3600 * 9 / 10));
    }).unwrap();
    eprintln!("{covered:?}");
}

#[test]
fn speed() {
    let start = std::time::Instant::now();
    let covered = Simulation::new("speed").seeds(200).check(|sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().unwrap();
        let adders: Vec<_> = (0..100).map(|_| sim.spawn(Adder { cell }).add().unwrap()).collect();
        for adder in adders { adder.wait().unwrap(); }
    }).unwrap();
    eprintln!("{covered:?} {:?} {} turns/s", start.elapsed(), covered.turns as f64 / start.elapsed().as_secs_f64());
    let start = std::time::Instant::now();
    let covered = Simulation::new("setup").seeds(2000).check(|sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().unwrap();
        cell.set(1).wait().unwrap();
    }).unwrap();
    eprintln!("{covered:?} {:?} per run", start.elapsed() / 2000);
}

#[test]
fn stuck() {
    let error = Simulation::new("stuck").check(|_sim| {
        let mut mailbox = postroom::Mailbox::new().unwrap();
        mailbox.receive();
    }).unwrap_err();
    eprintln!("{error}");
}

mod macros {
    use super::*;
    use postroom::test::{self, Sim};

    #[postroom::test(seeds = 20)]
    async fn an_async_body(sim: Sim) {
        let cell = sim.spawn(Cell { value: 1 }).serve().unwrap();
        assert_eq!(cell.get().await, Ok(1));
        sim.advance(Duration::from_secs(3));
        test::sometimes!(test::buggify!(), "it misbehaves");
        test::sometimes!(sim.random() % 2 == 0, "an even number");
    }

    #[postroom::test(seeds = 300, max_time = "1h", strategy = "random")]
    fn a_sync_body(sim: Sim) -> Result<(), Box<dyn std::error::Error>> {
        sim.crash::<Cell>(0.5);
        sim.slow::<Adder>(0.5, Duration::from_secs(2));
        sim.late_timers(Duration::from_secs(1));
        let cell = sim.spawn(Cell { value: 1 }).serve()?;
        let adder = sim.spawn(Adder { cell }).serve()?;
        let done = adder.by_wait().wait();
        test::sometimes!(done.is_err(), "a crash");
        test::sometimes!(done.is_ok(), "no crash");
        test::sometimes!(sim.elapsed() > Duration::from_secs(1), "time passes");
        Ok(())
    }

    #[postroom::test(seeds = 20)]
    #[should_panic(expected = "it never happened that \"the moon\"")]
    fn never(_sim: Sim) {
        test::sometimes!(false, "the moon");
    }
}

fn count(clients: u32, cells: usize, schedules: Schedules) -> postroom::test::Coverage {
    Simulation::new("count").schedules(schedules).check(move |sim| {
        let all: Vec<_> = (0..cells).map(|_| sim.spawn(Cell { value: 0 }).serve().unwrap()).collect();
        for cell in &all {
            for n in 0..clients {
                sim.spawn(Setter { cell: *cell, n }).go().unwrap();
            }
        }
        sim.until_idle().unwrap();
    }).unwrap()
}
#[process]
struct Setter { cell: Address<Cell>, n: u32 }
#[process]
impl Setter {
    #[entry] async fn go(&mut self) { self.cell.set(self.n).send().unwrap(); std::future::pending::<()>().await }
}

#[test]
fn counts() {
    for (clients, cells) in [(1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (1, 3), (2, 2), (1, 4), (2, 3)] {
        let covered = count(clients, cells, Schedules::Exhaustive);
        eprintln!("{clients} clients, {cells} cells: {} schedules in {} runs", covered.schedules, covered.runs);
    }
}
