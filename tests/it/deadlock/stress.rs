//! Many random calls at once.
//!
//! On paths without cycles no call may fail. If a few processes each call any of them, including themselves, each call
//! gets an answer or a cycle error. Deadlines are so far away that a missed cycle hangs. Each reported cycle is checked
//! while its caller still runs: according to the records that the processes make before each call, each process named
//! in the cycle must be waiting for the next one. The message of a failed call is never handled.
//!
//! Blind spots: only two workers run the processes, and the seed determines the calls but not their order.

use super::*;
use futures_util::future::join;
use postroom_tests::HOUR;
use std::collections::{HashMap, HashSet};
use std::future::IntoFuture;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of paths in total.
const PATHS: u64 = 2_000;

#[derive(Clone, Copy)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    pub(crate) fn next(&mut self) -> Self {
        Self((self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.roll(usize::MAX) as u64) | 1)
    }
}

/// The state that all processes share.
#[derive(Default)]
pub(crate) struct Town {
    pub(crate) houses: Mutex<Vec<Address<House>>>,
    /// For each process that waits for exactly one other, the process that it waits for.
    pub(crate) waits: Mutex<HashMap<Pid, Pid>>,
    pub(crate) calls: AtomicU64,
    pub(crate) cycles: AtomicU64,
    /// The numbers of the calls that failed.
    pub(crate) failed: Mutex<HashSet<u64>>,
    /// The numbers of the messages that were handled.
    pub(crate) handled: Mutex<HashSet<u64>>,
    pub(crate) over: AtomicU64,
    /// Whether each process calls only later ones, so that no cycle is possible.
    pub(crate) forward: bool,
}

#[process]
pub(crate) struct House {
    pub(crate) place: usize,
    pub(crate) town: Arc<Town>,
}

#[process]
impl House {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    /// Calls others, `hops` deep.
    #[message]
    async fn visit(&mut self, ctx: &mut Context<Self>, number: u64, hops: usize, mut dice: Dice) {
        self.town.handle(number);
        let calls = dice.roll(3);
        for _ in 0..=calls {
            let Some(next) = self.next(hops, &mut dice) else { return };
            if self.town.forward && dice.roll(4) == 0 {
                // Two concurrent calls make no edge in the wait graph, so a cycle through them would not be found.
                // They are made only where no cycle is possible.
                let Some(other) = self.next(hops, &mut dice) else { return };
                let numbers = [self.town.number(), self.town.number()];
                let visit = |(house, number): (Address<House>, u64)| house.visit(number, hops - 1, dice.next());
                let [first, second] = [(next, numbers[0]), (other, numbers[1])].map(visit);
                let both = join(first.timeout(LONG).into_future(), second.timeout(LONG).into_future());
                let (first, second) = both.await;
                self.town.settle(ctx.pid(), numbers[0], first);
                self.town.settle(ctx.pid(), numbers[1], second);
                continue;
            }
            self.town.begin(ctx.pid(), next.pid());
            let number = self.town.number();
            let answer = match dice.roll(2) {
                0 => next.visit(number, hops - 1, dice.next()).timeout(LONG).await,
                _ => next.visit_blocking(number, hops - 1, dice.next()).timeout(LONG).await,
            };
            self.town.settle(ctx.pid(), number, answer);
        }
    }

    #[message]
    fn visit_blocking(&mut self, ctx: &mut Context<Self>, number: u64, hops: usize, mut dice: Dice) {
        self.town.handle(number);
        let Some(next) = self.next(hops, &mut dice) else { return };
        self.town.begin(ctx.pid(), next.pid());
        let number = self.town.number();
        let answer = match dice.roll(8) {
            0 => next.visit_blocking(number, hops - 1, dice.next()).timeout(LONG).wait(),
            _ => next.visit(number, hops - 1, dice.next()).timeout(LONG).wait(),
        };
        self.town.settle(ctx.pid(), number, answer);
    }

    /// Starts a path from outside.
    #[message]
    pub(crate) fn set_out(&mut self, ctx: &mut Context<Self>, hops: usize, dice: Dice) {
        let own = ctx.address();
        let number = self.town.number();
        ctx.call(own.visit(number, hops, dice).timeout(LONG)).then(|this, answer, _| {
            answer.expect("nobody who waits for it is waited for");
            this.town.over.fetch_add(1, SeqCst);
        });
    }
}

impl House {
    fn next(&self, hops: usize, dice: &mut Dice) -> Option<Address<House>> {
        let houses = self.town.houses.lock().unwrap_or_else(PoisonError::into_inner);
        let first = if self.town.forward { self.place + 1 } else { 0 };
        (hops > 0 && first < houses.len()).then(|| houses[first + dice.roll(houses.len() - first)])
    }
}

impl Town {
    fn begin(&self, who: Pid, whom: Pid) {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).insert(who, whom);
    }

    /// Returns the number of the next call.
    fn number(&self) -> u64 {
        self.calls.fetch_add(1, SeqCst)
    }

    fn handle(&self, number: u64) {
        self.handled.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
    }

    fn settle(&self, who: Pid, number: u64, answer: Result<(), CallError>) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(()) => {}
            Err(CallError::Cycle(cycle)) => {
                self.cycles.fetch_add(1, SeqCst);
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
                let ring = cycle.calls;
                assert_eq!(ring[0].0, who, "it is told first that closed it");
                for (place, (pid, _)) in ring.iter().enumerate() {
                    let next = ring[(place + 1) % ring.len()].0;
                    assert_eq!(waits.get(pid), Some(&next), "{pid} does not wait for the next one: {ring:?}");
                }
            }
            Err(other) => panic!("an answer or a cycle was expected, and came: {other}"),
        }
        waits.remove(&who);
    }
}

/// Runs paths among `houses` processes, `at_once` at a time. Returns the number of calls, and the number of calls that
/// closed a cycle.
fn stress(houses: usize, at_once: u64, hops: usize, forward: bool, seed: u64) -> (u64, u64) {
    let town = Arc::new(Town { forward, ..Town::default() });
    let runtime = builder().build().expect("a runtime with two workers can be built");
    let all: Vec<Address<House>> = (0..houses)
        .map(|place| runtime.spawn(House { place, town: town.clone() }).serve().expect("it starts"))
        .collect();
    town.houses.lock().unwrap_or_else(PoisonError::into_inner).extend(&all);
    let mut dice = Dice(seed);
    for path in 0..PATHS {
        // A house that no longer serves has panicked; the panic message is in the log.
        let first = all[dice.roll(houses)];
        first.set_out(hops, dice.next()).send().unwrap_or_else(|_| panic!("seed {seed}: {first:?} has ended"));
        eventually(|| town.over.load(SeqCst) + at_once > path || all.iter().any(|house| !house.pid().is_alive()));
    }
    eventually(|| town.over.load(SeqCst) == PATHS || all.iter().any(|house| !house.pid().is_alive()));
    assert_eq!(town.over.load(SeqCst), PATHS, "seed {seed}: a house has ended; its panic is above");
    // Withdrawn messages are discarded when the called processes reach them.
    eventually(|| runtime.statistics().dead_letters.withdrawn == town.cycles.load(SeqCst));
    assert!(!runtime.shutdown_within(HOUR).expect("asked from outside").was_forced());
    let lock =
        |numbers: &Mutex<HashSet<u64>>| std::mem::take(&mut *numbers.lock().unwrap_or_else(PoisonError::into_inner));
    let (failed, handled) = (lock(&town.failed), lock(&town.handled));
    assert!(failed.is_disjoint(&handled), "seed {seed}: calls that failed were handled");
    let (calls, cycles) = (town.calls.load(SeqCst), town.cycles.load(SeqCst));
    println!("{houses} houses: {calls} calls, {cycles} of them closed a cycle");
    (calls, cycles)
}

#[test]
fn without_calls_back_no_cycle_is_ever_reported() {
    watched(|| {
        let (calls, cycles) = stress(10, 24, 6, true, 0x2545_f491_4f6c_dd1d);
        assert_eq!(cycles, 0);
        assert!(calls > PATHS);
    });
}

#[test]
fn among_few_processes_that_all_call_each_other_every_call_is_answered_or_a_cycle() {
    watched(|| {
        for (houses, at_once, seed) in [(2, 2, 1), (3, 2, 0x9e37_79b9_7f4a_7c15), (6, 3, 77), (6, 24, 78)] {
            let (calls, cycles) = stress(houses, at_once, 5, false, seed);
            assert!(cycles > 0 && cycles < calls);
        }
    });
}
