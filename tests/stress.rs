//! A stress test of everything at once, after which the books must balance.
//!
//! Processes of two runtimes send to each other by PID (also to dead ones), call, set timers, spawn, kill, stop,
//! cancel, fail, panic and exit at random, while threads do the same from outside. Then both are shut down, and:
//!
//! * messages: accepted = received + dead letters (refused messages do not count);
//! * processes: spawned = exited, and none is alive;
//! * calls: each has exactly one outcome;
//! * the state of each process and the contents of each message have been dropped;
//! * slots were reused: there are about as many as simultaneous processes, and not as many as spawns.
//!
//! It runs for five seconds, or for `POSTROOM_STRESS_SECONDS`. The seed is printed, and `POSTROOM_STRESS_SEED` sets it.
//!
//! Blind spots: two cores produce few interleavings of three threads; the seed determines the acts but not their
//! order; and the counters cannot check themselves.

use postroom::manual::{Event, Events, Process, StepOutput};
use postroom::prelude::*;
use postroom::{Host, ProcessError};
use postroom_tests::{HOUR, variable, within};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The message of intended panics.
const ON_PURPOSE: &str = "on purpose";

/// The approximate limit of live processes.
const CROWD: u64 = 2_000;

#[derive(Default)]
struct Books {
    sent: AtomicU64,
    refused: AtomicU64,
    received: AtomicU64,
    dead: AtomicU64,
    spawned: AtomicU64,
    closed: AtomicU64,
    calls: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    /// Yields whose process exited before the answer arrived. No process counts the answers to these.
    widowed: AtomicU64,
    highest_slot: AtomicU64,
    panics: AtomicU64,
    over: AtomicBool,
}

/// The state that all processes and threads share.
struct World {
    hosts: [Host; 2],
    books: Arc<Books>,
    /// PIDs of live, exiting and dead processes.
    known: [Mutex<Pid>; 256],
    /// A reference that each process and each message clones, so that they can be counted.
    held: Arc<()>,
}

#[derive(Clone, Copy)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn next(&mut self) -> Self {
        Self(self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.roll(u64::MAX) | 1)
    }
}

/// A message that causes `left` more generations of messages.
struct Work {
    left: u32,
    dice: Dice,
    _held: Arc<()>,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, SeqCst);
}

impl World {
    fn known(&self, dice: &mut Dice) -> Pid {
        *self.place(dice.roll(256))
    }

    fn place(&self, number: u64) -> MutexGuard<'_, Pid> {
        self.known[number as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, left: u32, dice: &mut Dice) -> Work {
        Work { left, dice: dice.next(), _held: self.held.clone() }
    }

    fn send(self: &Arc<Self>, dice: &mut Dice, left: u32) {
        let number = dice.roll(256);
        let (to, work) = (*self.place(number), self.work(left, dice));
        // Either host can be used, since a PID is valid on every host.
        if self.hosts[dice.roll(2) as usize].send(to, work).is_ok() {
            add(&self.books.sent);
        } else {
            add(&self.books.refused);
            // Most dead processes are replaced.
            if dice.roll(4) > 0 {
                self.spawn(number, dice);
            }
        }
    }

    /// Spawns a process, puts it into place `number` of the table, and stops the process that was there.
    fn spawn(self: &Arc<Self>, number: u64, dice: &mut Dice) {
        let books = &self.books;
        // The two counters are not read at the same moment, so more processes may seem to have closed than were
        // spawned.
        let alive = books.spawned.load(SeqCst).saturating_sub(books.closed.load(SeqCst));
        if books.over.load(SeqCst) || alive > CROWD {
            return;
        }
        let citizen =
            Citizen { world: self.clone(), dice: dice.next(), asked: 0, answers: 0, _held: self.held.clone() };
        // The process is counted before `start`, since it may exit before `start` returns.
        add(&books.spawned);
        match self.hosts[dice.roll(2) as usize].spawn_process(citizen).start() {
            Ok(pid) => {
                std::mem::replace(&mut *self.place(number), pid).stop();
                books.highest_slot.fetch_max(pid.slot().into(), SeqCst);
            }
            // The process was not admitted, so it will not be closed. (A process that was admitted but fails to start
            // is closed.)
            Err(SpawnError::Shutdown) => {
                books.spawned.fetch_sub(1, SeqCst);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

struct Citizen {
    world: Arc<World>,
    dice: Dice,
    asked: u64,
    answers: u64,
    _held: Arc<()>,
}

impl Citizen {
    fn act(&mut self, work: &Work, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        let (world, mut dice) = (self.world.clone(), work.dice);
        if world.books.over.load(SeqCst) {
            return Ok(());
        }
        for _ in 0..2 * u32::from(work.left > 0) {
            world.send(&mut dice, work.left - 1);
        }
        let other = world.known(&mut dice);
        match dice.roll(64) {
            0..6 => {
                let number = dice.roll(256);
                world.spawn(number, &mut dice);
            }
            6 => {
                other.kill();
            }
            7 => {
                other.stop();
            }
            8 => {
                other.cancel("stress");
            }
            9 => out.done(),
            10 => return Err(ProcessError::new("stress")),
            11 => {
                add(&world.books.panics);
                panic!("{}", ON_PURPOSE)
            }
            12..20 => {
                add(&world.books.calls);
                self.asked += 1;
                out.call(other, Question(dice.roll(1_000)), self.asked);
            }
            20 => {
                add(&world.books.calls);
                self.asked += 1;
                out.after(Duration::from_micros(dice.roll(3_000)), self.asked);
            }
            21 => out.go_on(),
            _ => {}
        }
        Ok(())
    }
}

struct Question(u64);

impl Process for Citizen {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            match event {
                Event::Message(package) => match package.take::<Work>() {
                    Ok(work) => {
                        add(&self.world.books.received);
                        self.act(&work, out)?;
                    }
                    Err(package) => {
                        package.answer(|Question(number)| number + 1).map_err(|_| ProcessError::new("what?"))?
                    }
                },
                Event::Completed { tag, result } => {
                    assert!(tag >= 1 && tag <= self.asked, "an answer to nothing");
                    self.answers += 1;
                    add(if result.is_ok() { &self.world.books.answered } else { &self.world.books.failed });
                }
                Event::Signal(_) => {}
            }
            if out.is_done() {
                break;
            }
        }
        if !out.is_done() && self.asked > self.answers && self.dice.roll(4) == 0 {
            out.wait();
        }
        Ok(())
    }

    fn close(&mut self) {
        assert!(self.answers <= self.asked, "an answer came twice");
        self.world.books.widowed.fetch_add(self.asked - self.answers, SeqCst);
        add(&self.world.books.closed);
    }
}

#[process]
struct Teller;

#[process]
impl Teller {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn next(&mut self, number: u64) -> u64 {
        if number.is_multiple_of(97) {
            panic!("{}", ON_PURPOSE)
        }
        number + 1
    }
}

/// Until the test is over, does from outside what the processes do inside. Sometimes it also calls a process that
/// panics.
fn drive(world: &Arc<World>, mut dice: Dice) -> u64 {
    let host = world.hosts[dice.roll(2) as usize];
    let (mut teller, mut called) = (host.spawn(Teller).serve().unwrap(), 0);
    while !world.books.over.load(SeqCst) {
        world.send(&mut dice, 3);
        if dice.roll(256) == 0 {
            world.known(&mut dice).kill();
        }
        if dice.roll(8) == 0 {
            let number = dice.roll(1_000);
            called += 1;
            match teller.next(number).timeout(Duration::MAX).wait() {
                Ok(next) => assert_eq!((next, !number.is_multiple_of(97)), (number + 1, true)),
                Err(CallError::Died(_)) => {
                    assert_eq!(number % 97, 0);
                    teller = host.spawn(Teller).serve().unwrap();
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    called
}

/// The number of unintended panics. A failed assertion in a process ends only that process, but must fail the test.
static UNMEANT: AtomicU64 = AtomicU64::new(0);

/// Suppresses the output of intended panics, and counts the others.
fn hush() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let said = info.payload().downcast_ref::<String>().map(String::as_str);
        if said != Some(ON_PURPOSE) {
            add(&UNMEANT);
            before(info);
        }
    }));
}

#[test]
fn after_everything_at_once_the_books_balance() {
    let seconds = variable("POSTROOM_STRESS_SECONDS").unwrap_or(5);
    let seed = variable("POSTROOM_STRESS_SEED")
        .unwrap_or_else(|| Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id()) << 20 | 1);
    println!("seed {seed}, {seconds} s");
    hush();
    within(Duration::from_secs(60 + 2 * seconds), move || stress(seconds, seed));
}

fn stress(seconds: u64, seed: u64) {
    let books = Arc::new(Books::default());
    let runtime = || {
        let books = books.clone();
        let builder = Runtime::builder().workers(2).seed(seed).shutdown_deadline(Duration::from_secs(40));
        let builder = builder.on_dead_letter(move |letter| {
            if letter.message.take::<Work>().is_ok() {
                add(&books.dead);
            }
        });
        builder.build().unwrap()
    };
    let runtimes = [runtime(), runtime()];
    let hosts = [runtimes[0].host(), runtimes[1].host()];
    let mut dice = Dice(seed | 1);
    let nobody: Pid = format!("<{}.0.0.0>", postroom::this_node()).parse().unwrap();
    let (held, known) = (Arc::new(()), std::array::from_fn(|_| Mutex::new(nobody)));
    let world = Arc::new(World { hosts, books: books.clone(), known, held: held.clone() });
    let drivers: Vec<_> = (0..3)
        .map(|_| {
            let (world, dice) = (world.clone(), dice.next());
            std::thread::spawn(move || drive(&world, dice))
        })
        .collect();
    std::thread::sleep(Duration::from_secs(seconds));
    books.over.store(true, SeqCst);
    let called: u64 = drivers.into_iter().map(|driver| driver.join().unwrap()).sum();
    for runtime in runtimes {
        let report = runtime.shutdown_within(HOUR).unwrap();
        assert!(!report.was_forced(), "{report}");
    }
    let count = |count: &AtomicU64| count.load(SeqCst);
    let (sent, received, dead) = (count(&books.sent), count(&books.received), count(&books.dead));
    println!("sent {sent} = received {received} + dead {dead}; refused {}", count(&books.refused));
    let (spawned, closed) = (count(&books.spawned), count(&books.closed));
    println!(
        "spawned {spawned}, closed {closed}, panicked {}; slots {}",
        count(&books.panics),
        count(&books.highest_slot) + 1
    );
    let (calls, answered, failed, widowed) =
        (count(&books.calls), count(&books.answered), count(&books.failed), count(&books.widowed));
    println!("yields {calls} = answered {answered} + failed {failed} + widowed {widowed}; calls from outside {called}");
    for host in hosts {
        let statistics = host.statistics();
        println!("{}: {} steps, {} late", host.number(), statistics.steps(), statistics.late);
        assert_eq!((statistics.processes.live, statistics.processes.spawned), (0, statistics.processes.ended));
        assert!(host.processes().is_empty());
    }
    assert_eq!(count(&UNMEANT), 0, "see the panics above");
    assert_eq!(sent, received + dead);
    assert_eq!(spawned, closed);
    assert_eq!(calls, answered + failed + widowed);
    assert!(
        sent > 1_000 && spawned > 1_000 && answered > 0 && failed > 0 && dead > 0 && called > 0,
        "too little was done"
    );
    // Seven threads cache a few hundred free slots each.
    assert!(count(&books.highest_slot) < 3 * CROWD + 7 * 512, "slots are not used again");
    drop(world);
    assert_eq!(Arc::strong_count(&held), 1, "a process or a message was not dropped");
}
