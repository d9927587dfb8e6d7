//! Mixed load for any length of time: crashes, stalls, floods and shutdowns, on the real scheduler. After each shutdown
//! the books balance, and the numbers of bytes, threads and descriptors stay flat.
//!
//! One host runs under load from beginning to end. Beside it other hosts come and go, each with the same load. They end
//! in one of four ways: by `shutdown`, by a shutdown with a minimal deadline, by `drain`, or by being dropped. After
//! each host has ended, these invariants must hold:
//!
//! * jobs: accepted = handled + dead letters (a refused job never counts), and each job has been dropped. The exception
//!   is a job that an outside thread has just taken out of a full mailbox when the host ends. No hook is told of this
//!   job;
//! * calls: each has exactly one outcome, and each answer is correct;
//! * processes: spawned = ended, and none is alive.
//!
//! It runs for three seconds, or for `POSTROOM_SOAK_SECONDS`. The seed is printed, and `POSTROOM_SOAK_SEED` sets it.
//! The counts cover the whole program, so this binary has only this test.
//!
//! Each of these faults alone makes the test fail: the method that handles a job forgets the job, so its value is never
//! dropped; each round forgets 100 KB; the end of a call is not counted.
//!
//! Blind spots: the seed determines the acts but not their order; pools, upgrades, timers and Tokio are not included;
//! a leak below [`EACH_ROUND`] is not detected.

#[path = "leaks/heap.rs"]
mod heap;

use heap::heap;
use postroom::prelude::*;
use postroom::{Bound, Overflow};
use postroom_tests::{collect_garbage, eventually, variable, within};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The message of intended panics.
const ON_PURPOSE: &str = "on purpose";
/// The number of supervised workers of a host.
const WORKERS: usize = 16;
/// The number of outside threads that put load on a host.
const DRIVERS: usize = 2;
/// The number of bytes in small blocks that each round may leave.
const EACH_ROUND: i64 = 64;
/// The number of additional bytes in small blocks after all hosts have ended, whatever the number of rounds: lists of
/// the runtime that have grown for the largest number of simultaneous processes, and records of hosts whose threads
/// ended late.
const MORE_SMALL: i64 = 256 << 10;
/// The same limit while the long-lived host is busy.
const MORE_BUSY: i64 = 512 << 10;
/// The number of additional bytes in large blocks: regions, in case a backlog is longer than any before it.
const MORE_LARGE: i64 = 16 << 20;
/// The number of rounds before the first count. They bring all global state into being.
const FIRST: u64 = 5;
/// The duration after which the watchdog reports a step as stalled.
const STALL_LIMIT: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Books {
    accepted: AtomicU64,
    handled: AtomicU64,
    dead: AtomicU64,
    refused: AtomicU64,
    asked: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    crashed: AtomicU64,
    stalled: AtomicU64,
    over: AtomicBool,
}

/// The state that all processes and threads of a host share.
struct Yard {
    books: Books,
    workers: OnceLock<Vec<Address<Worker>>>,
    /// A process whose mailbox drops its oldest message if it is full.
    store: OnceLock<Address<Store>>,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, SeqCst);
}

#[derive(Clone, Copy)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % sides
    }

    fn next(&mut self) -> Self {
        Self(self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.roll(1 << 40) | 1)
    }
}

/// The number of jobs that were dropped without being recorded.
static LOST: AtomicU64 = AtomicU64::new(0);
/// The number of dead letters that were reported to a host other than that of the job.
static FOREIGN: AtomicU64 = AtomicU64::new(0);

/// A message that causes `left` more generations of messages.
struct Job {
    left: u32,
    dice: Dice,
    /// Whether the job has been recorded in the books.
    entered: bool,
    held: Arc<()>,
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.entered {
            add(&LOST);
        }
    }
}

impl Yard {
    /// Sends a job to a worker or to the store.
    fn send(&self, dice: &mut Dice, left: u32, held: &Arc<()>) {
        let job = Job { left, dice: dice.next(), entered: false, held: held.clone() };
        let (Some(workers), Some(store)) = (self.workers.get(), self.store.get()) else { return };
        // The job is counted before the send, since it may be handled before this thread continues.
        add(&self.books.accepted);
        let sent = match dice.roll(4) {
            0 => store.job(job).send(),
            1 => store.job(job).try_send(),
            _ => workers[dice.roll(WORKERS as u64) as usize].job(job).send(),
        };
        if let Err(mut refused) = sent {
            refused.message.entered = true;
            self.books.accepted.fetch_sub(1, SeqCst);
            add(&self.books.refused);
        }
    }

    /// Handles a job, which may crash or stall the process.
    fn handle(&self, job: &mut Job) {
        let mut dice = job.dice;
        job.entered = true;
        add(&self.books.handled);
        if self.books.over.load(SeqCst) {
            return;
        }
        for _ in 0..2 * u32::from(job.left > 0) {
            self.send(&mut dice, job.left - 1, &job.held);
        }
        match dice.roll(400) {
            0 => {
                add(&self.books.crashed);
                panic!("{}", ON_PURPOSE);
            }
            1 => {
                add(&self.books.stalled);
                std::thread::sleep(STALL_LIMIT * 2);
            }
            _ => {}
        }
    }
}

#[process]
struct Worker {
    yard: Arc<Yard>,
}

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {}

    #[message(Job)]
    fn job(&mut self, mut job: Job) {
        self.yard.handle(&mut job);
    }

    #[message]
    async fn ask(&mut self, ctx: &mut Context<Self>, number: u64) -> u64 {
        if number.is_multiple_of(16) { ctx.blocking(move || number + 1).await } else { number + 1 }
    }
}

/// A process whose mailbox drops its oldest message if it is full.
#[process]
struct Store {
    yard: Arc<Yard>,
}

#[process]
impl Store {
    #[entry]
    fn serve(&mut self) {}

    #[message(Job)]
    fn job(&mut self, mut job: Job) {
        add(&self.yard.books.handled);
        job.entered = true;
        drop(job);
    }
}

/// A host under load, and the threads that put load on it.
struct Site {
    runtime: Runtime,
    yard: Arc<Yard>,
    held: Arc<()>,
    threads: Vec<JoinHandle<()>>,
}

impl Site {
    fn open(dice: &mut Dice) -> Self {
        let books = Books::default();
        let yard = Arc::new(Yard { books, workers: OnceLock::new(), store: OnceLock::new() });
        let held = Arc::new(());
        let (counted, own) = (yard.clone(), held.clone());
        let builder = Runtime::builder().workers(2).seed(dice.next().0).mailbox(Bound::Soft(500));
        let builder = builder.stall_limit(STALL_LIMIT).shutdown_deadline(Duration::from_secs(40));
        let builder = builder.on_dead_letter(move |letter| {
            if let Ok(mut job) = letter.message.take::<Job>() {
                job.entered = true;
                // The job is counted before it is dropped, since the audit waits for the drop.
                add(if Arc::ptr_eq(&job.held, &own) { &counted.books.dead } else { &FOREIGN });
            }
        });
        let runtime = builder.build().expect("two workers");
        let child = |number: usize| {
            let yard = yard.clone();
            Child::new(format!("worker {number}"), move |spawn| spawn.of(Worker { yard: yard.clone() }).serve())
        };
        let tree = Supervisor::one_for_one().intensity(u32::MAX, Duration::from_secs(1));
        let tree = (0..WORKERS).fold(tree, |tree, number| tree.add(child(number)));
        let tree = tree.spawn(runtime.host()).expect("it starts");
        let address = |number| tree.child::<Worker>(&format!("worker {number}")).expect("a child");
        let _new = yard.workers.set((0..WORKERS).map(address).collect());
        let store = runtime.spawn(Store { yard: yard.clone() }).mailbox(Bound::Hard(64, Overflow::DropOldest)).serve();
        let _new = yard.store.set(store.expect("it starts"));
        let threads = (0..DRIVERS).map(|_| {
            let (yard, held, dice) = (yard.clone(), held.clone(), dice.next());
            std::thread::spawn(move || drive(&yard, &held, dice))
        });
        let threads = threads.collect();
        Self { runtime, yard, held, threads }
    }

    /// Ends the host in the given way, and audits its books.
    fn close(self, way: u64) -> Arc<Yard> {
        let Self { runtime, yard, held, threads } = self;
        let host = runtime.host();
        // With half of the ways, the host ends while the load continues.
        yard.books.over.store(way.is_multiple_of(2), SeqCst);
        match way / 2 {
            0 => drop(runtime.shutdown().expect("asked from outside")),
            1 => drop(runtime.shutdown_within(Duration::from_millis(1)).expect("asked from outside")),
            2 => drop(runtime.drain(Duration::from_secs(20)).expect("asked from outside")),
            _ => drop(runtime),
        }
        yard.books.over.store(true, SeqCst);
        for thread in threads {
            thread.join().expect("a driver that has failed has said why");
        }
        // A shutdown with a minimal deadline leaves some steps running, which end a moment later.
        eventually(|| Arc::strong_count(&held) == 1);
        let count = |count: &AtomicU64| count.load(SeqCst);
        let books = &yard.books;
        let (accepted, handled, dead) = (count(&books.accepted), count(&books.handled), count(&books.dead));
        // An outside thread that drops the oldest message of a full mailbox may be preempted before it calls the hook.
        // The hook is gone once the host has ended, so such a job is in no books. All other jobs are.
        let lost = LOST.swap(0, SeqCst);
        assert_eq!(accepted, handled + dead + lost, "jobs, handled {handled} and dead {dead}; ended in way {way}");
        assert!(lost <= DRIVERS as u64, "{lost} jobs are in no books; ended in way {way}");
        let (asked, answered, failed) = (count(&books.asked), count(&books.answered), count(&books.failed));
        assert_eq!(asked, answered + failed, "calls, answered {answered} and failed {failed}");
        assert!(host.processes().is_empty());
        yard
    }
}

/// Sends and calls until the host's load is over.
fn drive(yard: &Yard, held: &Arc<()>, mut dice: Dice) {
    let Some(workers) = yard.workers.get() else { return };
    while !yard.books.over.load(SeqCst) {
        match dice.roll(64) {
            // A flood.
            0 => (0..2_000).for_each(|_| yard.send(&mut dice, 0, held)),
            1..8 => {
                let number = dice.roll(1_000);
                add(&yard.books.asked);
                let timeout = [Duration::from_millis(1), Duration::from_secs(60)][dice.roll(2) as usize];
                match workers[dice.roll(WORKERS as u64) as usize].ask(number).timeout(timeout).wait() {
                    Ok(answer) => {
                        assert_eq!(answer, number + 1);
                        add(&yard.books.answered);
                    }
                    Err(_) => add(&yard.books.failed),
                }
            }
            _ => yard.send(&mut dice, 3, held),
        }
    }
}

/// Returns the number of threads and file descriptors of the program.
fn held_by_the_program() -> Option<[usize; 2]> {
    let listed = |folder: &str| std::fs::read_dir(format!("/proc/self/{folder}")).map(Iterator::count).ok();
    Some([listed("task")?, listed("fd")?])
}

/// Suppresses the output of intended panics.
fn hush() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<String>().map(String::as_str) != Some(ON_PURPOSE) {
            before(info);
        }
    }));
}

#[test]
fn mixed_load_for_long_leaves_nothing_and_loses_nothing() {
    let seconds = variable("POSTROOM_SOAK_SECONDS").unwrap_or(3);
    let by_chance = || Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id()) << 20;
    let seed = variable("POSTROOM_SOAK_SEED").unwrap_or_else(by_chance);
    println!("seed {seed}, {seconds} s");
    hush();
    within(Duration::from_secs(120 + 2 * seconds), move || soak(Duration::from_secs(seconds), seed));
}

fn tally(totals: &mut [u64; 7], books: &Books) {
    let Books { handled, dead, refused, answered, failed, crashed, stalled, .. } = books;
    let counts = [handled, dead, refused, answered, failed, crashed, stalled];
    totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count.load(SeqCst));
}

fn soak(time: Duration, seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    dice.roll(2);
    let mut totals = [0; 7];
    let mut round = |number: u64, dice: &mut Dice| {
        let site = Site::open(dice);
        std::thread::sleep(Duration::from_millis(20 + dice.roll(200)));
        tally(&mut totals, &site.close(number % 8).books);
    };
    let another = Site::open(&mut dice);
    (0..FIRST).for_each(|number| round(number, &mut dice));
    another.close(0);
    collect_garbage();
    let (quiet, held) = (heap(), held_by_the_program());
    let long = Site::open(&mut dice);
    (0..FIRST).for_each(|number| round(number, &mut dice));
    collect_garbage();
    let (busy, began, mut rounds) = (heap(), Instant::now(), 0);
    while began.elapsed() < time || rounds < FIRST {
        round(rounds, &mut dice);
        rounds += 1;
        if rounds.is_multiple_of(100) {
            println!("round {rounds}, {:?}: heap {:?}", began.elapsed(), heap());
        }
    }
    collect_garbage();
    let more = |before: [i64; 2]| [0, 1].map(|size| heap()[size] - before[size]);
    let [more_busy, more_large] = more(busy);
    let statistics = long.runtime.statistics();
    println!("the host that lived all the time: {} steps, {:?}", statistics.steps(), statistics.watchdog);
    tally(&mut totals, &long.close(0).books);
    // Threads of hosts that had a minimal deadline end a moment later.
    eventually(|| held_by_the_program() <= held);
    collect_garbage();
    let [small, _] = more(quiet);
    let [handled, dead, refused, answered, failed, crashed, stalled] = totals;
    println!(
        "{rounds} rounds: {handled} jobs handled, {dead} dead, {refused} refused; {answered} calls answered, {failed} \
         failed; {crashed} crashes, {stalled} stalls; {more_busy} bytes more in small pieces, {more_large} in large \
         ones, {small} in the end"
    );
    let each = EACH_ROUND * rounds as i64;
    assert!(small <= MORE_SMALL + each, "{small} bytes more in small pieces");
    assert!(more_busy <= MORE_BUSY + each, "{more_busy} bytes more in small pieces while one host is busy");
    assert!(more_large <= MORE_LARGE, "{more_large} bytes more in large pieces");
    assert_eq!(FOREIGN.load(SeqCst), 0, "dead letters of one host were told to another");
    assert!(crashed > 10 && stalled > 10 && dead > 100 && failed > 0 && answered > 100, "too little was done");
}
