//! A simulation leaves nothing behind. After thousands of seeds it uses as much memory as after a few hundred, except
//! for the hash that it keeps of each different schedule.
//!
//! Runs 2,000 seeds, or `POSTROOM_MEMORY_SEEDS`, of a program that does most of what a program can do. Then it runs a
//! quarter as many simulations of one seed each, as a property-based test would. The figures are printed, together with
//! the speed of this build.
//!
//! The counts cover the whole program, so this binary has only this test.
//!
//! Each of these faults alone makes the test fail: each run forgets 64 bytes; a simulation does not reuse the slots of
//! the previous one.
//!
//! Blind spots: a leak of less than [`EACH`] for each seed; a leak on a path that these programs do not take.

#[path = "leaks/heap.rs"]
mod heap;

use postroom::prelude::*;
use postroom::test::{Coverage, Schedules, Sim, Simulation};
use postroom_tests::{collect_garbage, within};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The number of runs before the first count. They bring all global state into being.
const FIRST: u64 = 400;
/// The number of additional bytes in small blocks for each seed: the hash of its schedule, in a tree.
const EACH: i64 = 24;
/// The number of additional bytes in small blocks, whatever the number of seeds: lists that have grown for an unusually
/// long run.
const MORE_SMALL: i64 = 48 << 10;
/// The number of additional bytes in blocks that the runtime recycles: 160 KiB of each of four sizes for the thread of
/// the simulations, and as much again for threads that have ended. Memory grows up to this limit only slowly, since few
/// runs need many blocks at the same time.
const MORE_RECYCLED: i64 = (2 * 4 * 160) << 10;
/// The number of additional bytes in large blocks: two regions, in case a run has more processes than any before it.
const MORE_LARGE: i64 = 4 << 20;

#[process]
struct Account {
    sum: u64,
}

#[process]
impl Account {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn deposit(&mut self, amount: u64) -> u64 {
        self.sum += amount;
        self.sum
    }
    #[message]
    fn withdraw(&mut self, amount: u64) -> Result<u64, String> {
        self.sum = self.sum.checked_sub(amount).ok_or_else(|| format!("there are only {}", self.sum))?;
        Ok(self.sum)
    }
}

#[process]
struct Clerk {
    accounts: [Address<Account>; 2],
}

#[process]
impl Clerk {
    #[entry]
    async fn work(&mut self, ctx: &mut Context<Self>, amount: u64) -> bool {
        let [from, to] = self.accounts;
        ctx.sleep(Duration::from_secs(amount)).await;
        if from.withdraw(amount).await.is_err() {
            return false;
        }
        to.deposit(amount).await.is_ok()
    }
    #[entry]
    fn serve(&mut self) {}
    /// Waits for the answers on the stack of the step.
    #[message]
    fn move_waiting(&mut self, amount: u64) -> bool {
        let [from, to] = self.accounts;
        from.withdraw(amount).wait().is_ok() && to.deposit(amount).wait().is_ok()
    }
}

/// Uses supervision, names, links, timers, calls of all kinds, and faults.
fn bank(sim: &Sim) {
    sim.crash::<Account>(0.05);
    sim.crash::<Clerk>(0.02);
    sim.slow::<Clerk>(0.1, Duration::from_secs(5));
    sim.late_timers(Duration::from_secs(1));
    let child = |name| Child::new(name, |spawn| spawn.of(Account { sum: 100 }).serve());
    let tree = Supervisor::one_for_one().intensity(1_000, Duration::from_secs(3_600));
    let tree = tree.add(child("first")).add(child("second")).spawn(sim.host()).expect("it starts");
    let accounts = ["first", "second"].map(|name| tree.child::<Account>(name).expect("it is there"));
    let clerks: Vec<_> = (1..4).map(|n| sim.spawn(Clerk { accounts }).work(n).expect("it starts")).collect();
    let waiting = sim.spawn(Clerk { accounts }).named("waiting").serve().expect("it starts");
    let _may_crash = waiting.move_waiting(7).wait();
    for clerk in clerks {
        let _may_crash = clerk.wait();
    }
    sim.until_idle().expect("outside");
}

/// Runs about a hundred turns.
fn hundred_turns(sim: &Sim) {
    let account = sim.spawn(Account { sum: 0 }).serve().expect("it starts");
    for amount in 0..33 {
        account.deposit(amount).wait().expect("it lives");
    }
}

/// Returns the resident memory of the program in KiB.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|pages| pages.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4
}

/// Samples at the start of some runs. Each has the number of the run, the bytes on the heap, and the resident memory.
type Samples = Vec<(u64, [i64; 3], u64)>;

/// Returns the bytes that are in use in small blocks, in large ones, and in blocks that the runtime recycles.
fn heap() -> [i64; 3] {
    let ([small, large], recycled) = (heap::heap(), heap::BYTES[2].load(SeqCst));
    [small - recycled, large, recycled]
}

fn check(schedules: Schedules, seeds: u64) -> (Coverage, Samples) {
    let began = Instant::now();
    let (runs, samples) = (AtomicU64::new(0), Arc::new(Mutex::new(Samples::new())));
    let taken = samples.clone();
    let test = Simulation::new("bank").seeds(seeds).schedules(schedules).check(move |sim| {
        let run = runs.fetch_add(1, SeqCst);
        if run == FIRST || [1_000, 10_000, seeds - 1].contains(&run) {
            taken.lock().expect("no panic").push((run, heap(), resident()));
        }
        bank(&sim);
    });
    let samples = std::mem::take(&mut *samples.lock().expect("no panic"));
    println!("{schedules:?}: {seeds} seeds in {:?}", began.elapsed());
    (test.expect("nothing is asserted"), samples)
}

fn speed(name: &str, seeds: u64, body: impl Fn(Sim) + Send + Sync + 'static) {
    let began = Instant::now();
    let covered = Simulation::new(name).seeds(seeds).check(body).expect("nothing fails");
    let took = began.elapsed();
    println!(
        "{name}: {seeds} seeds with {} turns in {took:?}: {:?} for each seed, {:.0} turns per second",
        covered.turns,
        took / seeds as u32,
        covered.turns as f64 / took.as_secs_f64()
    );
}

fn seeds() -> u64 {
    postroom_tests::variable("POSTROOM_MEMORY_SEEDS").unwrap_or(2_000).max(2 * FIRST)
}

#[test]
fn memory_is_flat_over_all_seeds() {
    within(Duration::from_secs(3_600), || {
        let seeds = seeds();
        for schedules in [Schedules::Portfolio, Schedules::Production] {
            let (covered, samples) = check(schedules, seeds);
            for (run, [small, large, recycled], resident) in &samples {
                println!(
                    "run {run}: {small} bytes in small pieces, {large} in large ones, {recycled} in recycled ones, \
                     {resident} KiB resident"
                );
            }
            println!("{schedules:?}: {} turns, {} schedules", covered.turns, covered.schedules);
            let ((_, first, _), (_, last, _)) = (samples[0], samples[samples.len() - 1]);
            let [small, large, recycled] = [0, 1, 2].map(|kind| last[kind] - first[kind]);
            let most = MORE_SMALL + EACH * covered.schedules as i64;
            assert!(small <= most, "{schedules:?}: {seeds} seeds left {small} bytes, more than {most}");
            assert!(large <= MORE_LARGE, "{schedules:?}: {seeds} seeds left {large} bytes in large pieces");
            assert!(recycled <= MORE_RECYCLED, "{schedules:?}: {seeds} seeds left {recycled} bytes in recycled blocks");
        }
        let began = Instant::now();
        let one = |seed| Simulation::new("bank").seed(seed).check(|sim| bank(&sim)).expect("nothing is asserted");
        (0..FIRST).for_each(|seed| _ = one(seed));
        collect_garbage();
        let first = heap();
        // Each simulation starts its own threads, and runs its seed twice.
        let single = seeds / 4;
        (0..single).for_each(|seed| _ = one(seed));
        collect_garbage();
        let [small, large, recycled] = [0, 1, 2].map(|kind| heap()[kind] - first[kind]);
        println!(
            "{single} simulations of one seed, in {:?}, left {small} bytes in small pieces, {large} in large ones, and \
             {recycled} in recycled ones",
            began.elapsed()
        );
        assert!(small <= MORE_SMALL, "{small} bytes more in small pieces");
        assert!(large <= MORE_LARGE, "{large} bytes more in large pieces");
        assert!(recycled <= MORE_RECYCLED, "{recycled} bytes more in recycled blocks");

        speed("nothing", seeds, |_sim| {});
        speed("a hundred turns", seeds, |sim| hundred_turns(&sim));
    });
}
