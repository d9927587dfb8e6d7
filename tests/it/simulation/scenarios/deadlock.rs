//! Calls that close a cycle, or nearly do.

use super::*;
use crate::deadlock::stress::{Dice, House, Town};
use crate::deadlock::{Out, Station, Way};
use postroom::test::sometimes;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// All processes of a ring call the next one at the same time. At most one call fails. Its error names the whole ring,
/// and its message is not handled.
fn around(sim: &Sim, count: usize, way: Way) {
    let ring: Vec<_> = (0..count).map(|_| sim.spawn(Station::default()).serve().unwrap()).collect();
    let callers: Vec<_> = (0..count)
        .map(|place| {
            let (from, path) = (ring[place], vec![(ring[(place + 1) % count], way)]);
            race(sim, async move {
                match way {
                    Way::Await => from.pass(path).timeout(LONG).await,
                    Way::Block => from.block(path).timeout(LONG).await,
                }
            })
        })
        .collect();
    let outs: Vec<_> = all(callers).into_iter().map(|out| out.unwrap()).collect();
    let cycles: Vec<_> =
        outs.iter().filter_map(|out| if let Out::Cycle(cycle) = out { Some(cycle) } else { None }).collect();
    sometimes!(cycles.len() == 1, "all wait for the next");
    sometimes!(cycles.is_empty(), "one is done before the next begins");
    assert!(cycles.len() <= 1, "{outs:?}");
    if let Some(cycle) = cycles.first() {
        let place = |pid: Pid| ring.iter().position(|station| station.pid() == pid).unwrap();
        let places: Vec<usize> = cycle.calls.iter().map(|(pid, _)| place(*pid)).collect();
        assert!(places.len() == count && places.windows(2).all(|pair| pair[1] == (pair[0] + 1) % count), "{places:?}");
    }
    let handled: usize = ring.iter().map(|station| station.handled().timeout(LONG).wait().unwrap()).sum();
    assert_eq!(handled, 2 * count - cycles.len());
    let dead = sim.statistics().dead_letters;
    assert_eq!((dead.withdrawn, dead.total()), (cycles.len() as u64, cycles.len() as u64));
}

#[postroom::test(seeds = 200)]
fn of_two_that_call_each_other_at_once_one_fails(sim: Sim) {
    around(&sim, 2, Way::Await);
}

#[postroom::test(seeds = 200)]
fn of_three_that_call_around_at_once_one_fails(sim: Sim) {
    around(&sim, 3, Way::Await);
}

#[postroom::test(seeds = 200)]
fn of_two_that_block_on_each_other_at_once_one_fails(sim: Sim) {
    around(&sim, 2, Way::Block);
}

/// Makes `paths` random paths of calls through the given number of houses, all at once. Returns the number of calls and
/// the number of cycles.
fn visits(sim: &Sim, houses: usize, paths: u64, hops: usize, forward: bool) -> (u64, u64) {
    let town = Arc::new(Town { forward, ..Town::default() });
    let all: Vec<_> =
        (0..houses).map(|place| sim.spawn(House { place, town: town.clone() }).serve().unwrap()).collect();
    town.houses.lock().unwrap().extend(&all);
    let mut dice = Dice(sim.random() | 1);
    for _ in 0..paths {
        all[dice.roll(houses)].set_out(hops, dice.next()).send().unwrap();
    }
    sim.until_idle().unwrap();
    let (calls, cycles) = (town.calls.load(SeqCst), town.cycles.load(SeqCst));
    assert!(all.iter().all(|house| house.pid().is_alive()), "its panic is in the log");
    assert_eq!((town.over.load(SeqCst), sim.statistics().dead_letters.withdrawn), (paths, cycles));
    assert!(town.failed.lock().unwrap().is_disjoint(&town.handled.lock().unwrap()));
    (calls, cycles)
}

#[postroom::test(seeds = 200)]
fn among_few_who_all_call_each_other_every_call_is_answered_or_a_cycle(sim: Sim) {
    let (_, cycles) = visits(&sim, 3, 3, 3, false);
    sometimes!(cycles > 3, "several calls close cycles");
}

#[postroom::test(seeds = 200)]
fn where_none_calls_back_no_cycle_is_reported(sim: Sim) {
    let (calls, cycles) = visits(&sim, 5, 4, 4, true);
    sometimes!(calls > 12, "calls wait for others that wait");
    assert_eq!(cycles, 0);
}

/// A process that makes one call.
#[process]
struct Caller;

#[process]
impl Caller {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn call(&mut self, other: Address<Caller>) -> Result<(), CallError> {
        other.touch().timeout(LONG).await
    }

    #[message]
    fn touch(&mut self) {}
}

/// One process of the ring is killed at the same time. Every call is answered, or fails with the cycle or with that
/// exit.
#[postroom::test(seeds = 200)]
fn a_cycle_is_found_or_cut_by_the_end_of_one_in_it(sim: Sim) {
    let ring: Vec<_> = (0..3).map(|_| sim.spawn(Caller).serve().unwrap()).collect();
    let callers: Vec<_> = (0..3)
        .map(|place| {
            let (from, to) = (ring[place], ring[(place + 1) % 3]);
            race(&sim, async move { from.call(to).timeout(LONG).await })
        })
        .collect();
    let victim = ring[0].pid();
    let killer = race(&sim, async move {
        pause().await;
        pause().await;
        victim.kill();
    });
    let (answers, ()) = (all(callers), killer.wait().unwrap());
    let (mut cycles, mut cut) = (0, 0);
    for answer in &answers {
        match answer {
            Ok(()) => {}
            Err(CallError::Failed(CallError::Cycle(_))) => cycles += 1,
            Err(CallError::Gone(_) | CallError::Died(_) | CallError::Failed(CallError::Gone(_))) => cut += 1,
            other => panic!("{other:?} of {answers:?}"),
        }
    }
    sim.until_idle().unwrap();
    // The message of the failed call was withdrawn, even if it was in the mailbox of the killed process.
    assert_eq!(sim.statistics().dead_letters.withdrawn, cycles);
    sometimes!(cycles == 1 && cut == 0, "the cycle is there before the kill");
    sometimes!(cycles == 0 && cut > 0, "the kill is there before the cycle");
    assert!(cycles <= 1, "{answers:?}");
}
