//! Processes bind themselves to each other and exit at random, all at once. At the end nothing is left of dead
//! processes, and each exit was reported exactly once.
//!
//! Blind spots: the order of events is left to the scheduler, with yields between the acts of a step. All orders among
//! three processes are searched in `tests/exhaustive`.

use postroom::Monitor;
use postroom::inspect::Bindings;
use postroom::prelude::*;
use postroom_tests::face::{builder, until, watched};
use postroom_tests::partner::LONG;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The approximate number of live processes.
const PLACES: usize = 24;
/// The number of processes that are inspected at the end.
const SURVIVORS: usize = 10;
/// The number of threads that make the processes act.
const DRIVERS: u64 = 4;
/// The number of rounds of each thread.
const ROUNDS: u64 = 5_000;
/// The number of acts in each round.
const ACTS: usize = 6;

/// A SplitMix64 generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// The table through which processes find each other. Some of its processes are dead.
pub(crate) type Places = Arc<Mutex<Vec<Pid>>>;

#[process]
pub(crate) struct Wild {
    places: Places,
    /// The monitors that have neither fired nor been removed.
    open: Vec<Monitor>,
    /// Unexpected notices.
    unasked: Vec<String>,
}

impl Wild {
    pub(crate) fn new(places: &Places) -> Self {
        Self { places: places.clone(), open: Vec::new(), unasked: Vec::new() }
    }

    fn someone(&self, random: &mut Random) -> Pid {
        let places = self.places.lock().unwrap();
        places[random.below(places.len())]
    }

    fn spawn(&mut self, random: &mut Random) {
        let spawn = Host::current().expect("a process").spawn(Wild::new(&self.places));
        let child = match random.below(3) {
            0 => spawn.linked().serve(),
            1 => spawn.owned().serve(),
            _ => spawn.linked().owned().serve(),
        };
        let child = child.expect("it starts").pid();
        let before = {
            let mut places = self.places.lock().unwrap();
            let place = random.below(places.len());
            std::mem::replace(&mut places[place], child)
        };
        // Keeps the number of processes constant.
        before.kill();
    }
}

#[process]
impl Wild {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    pub(crate) fn act(&mut self, ctx: &mut Context<Self>, seed: u64, may_end: bool) {
        let mut random = Random(seed);
        for _ in 0..ACTS {
            thread::yield_now();
            let other = self.someone(&mut random);
            if other == ctx.pid() {
                continue;
            }
            match random.below(if may_end { 64 } else { 54 }) {
                0..16 => other.link().expect("a process"),
                16..28 => other.unlink().expect("a process"),
                28..44 => {
                    self.open.push(other.monitor().expect("a process"));
                }
                44..54 => {
                    if !self.open.is_empty() {
                        let monitor = self.open.swap_remove(random.below(self.open.len()));
                        assert!(monitor.demonitor(), "it was neither told nor taken back");
                    }
                }
                54..56 => ctx.trap_exits(random.below(2) == 0),
                56..60 => self.spawn(&mut random),
                60 => _ = other.kill(),
                61 => _ = other.stop(),
                62 => return ctx.stop(),
                // This panic skips the panic hook.
                _ => std::panic::resume_unwind(Box::new("as the dice fell")),
            }
        }
    }

    /// Returns the unexpected notices, and the number of open monitors.
    #[message]
    pub(crate) fn account(&mut self) -> (Vec<String>, usize) {
        (self.unasked.clone(), self.open.len())
    }

    #[signal]
    fn down(&mut self, down: Down) {
        match self.open.iter().position(|monitor| *monitor == down.monitor) {
            Some(place) => _ = self.open.remove(place),
            None => self.unasked.push(format!("{down:?}")),
        }
    }

    /// Traps exits, until one of the acts turns trapping off.
    #[signal]
    fn exit(&mut self, exit: Exit) {
        if exit.reason == ExitReason::Normal {
            self.unasked.push(format!("{exit:?}"));
        }
    }
}

fn bindings(of: &[Address<Wild>]) -> BTreeMap<Pid, Bindings> {
    of.iter().map(|wild| (wild.pid(), wild.pid().bindings().wait().expect("it lives"))).collect()
}

/// Returns the processes that appear in these bindings.
fn others(bound: &Bindings) -> impl Iterator<Item = &Pid> {
    [&bound.links, &bound.monitors, &bound.monitored_by, &bound.owned].into_iter().flatten()
}

fn count(pids: &[Pid], pid: Pid) -> usize {
    pids.iter().filter(|other| **other == pid).count()
}

#[test]
fn nothing_is_left_of_dead_processes_and_each_exit_is_reported_once() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let places: Places = Arc::default();
        let spawn = || runtime.spawn(Wild::new(&places)).serve().unwrap();
        let fill = |count: usize| {
            let all: Vec<_> = (0..count).map(|_| spawn().pid()).collect();
            places.lock().unwrap().extend(all);
        };
        fill(PLACES);
        thread::scope(|scope| {
            for driver in 0..DRIVERS {
                let (places, runtime) = (&places, &runtime);
                scope.spawn(move || {
                    let mut random = Random(driver);
                    for _ in postroom_tests::rounds(ROUNDS) {
                        let place = random.below(PLACES);
                        let pid = places.lock().unwrap()[place];
                        let acted = match runtime.host().address::<Wild>(pid) {
                            Ok(wild) => wild.act(random.next(), true).wait().is_ok(),
                            Err(_gone) => false,
                        };
                        if !acted {
                            let new = runtime.spawn(Wild::new(places)).serve().unwrap().pid();
                            let before = std::mem::replace(&mut places.lock().unwrap()[place], new);
                            before.kill();
                        }
                    }
                });
            }
        });

        // Makes survivors that are bound to processes that are about to exit, and to each other.
        let survivors: Vec<_> = (0..SURVIVORS).map(|_| spawn()).collect();
        {
            let mut places = places.lock().unwrap();
            places.iter_mut().zip(&survivors).for_each(|(place, survivor)| {
                std::mem::replace(place, survivor.pid()).kill();
            });
        }
        for round in 0..200 {
            for survivor in &survivors {
                let _refused =
                    survivor.act(u64::from(round as u32) << 32 | u64::from(survivor.pid().slot()), false).send();
            }
        }
        let lives: BTreeSet<_> = survivors.iter().map(|survivor| survivor.pid()).collect();
        let ends: Vec<_> =
            places.lock().unwrap().iter().filter(|pid| !lives.contains(pid)).map(|pid| pid.join()).collect();
        places.lock().unwrap().iter().filter(|pid| !lives.contains(pid)).for_each(|pid| {
            pid.kill();
        });
        ends.into_iter().for_each(|end| assert!(end.wait_timeout(LONG).is_some()));

        // When no other process is alive and all survivors have reported twice, no notice is in flight. The last
        // processes that end leave the count of live processes before the processes bound to them are notified.
        until(|| runtime.statistics().processes.live == SURVIVORS as u64);
        let are_told = || bindings(&survivors).values().flat_map(others).all(|other| lives.contains(other));
        for _ in (0..10_000).take_while(|_| !are_told()) {
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..3 {
            bindings(&survivors);
            survivors.iter().for_each(|survivor| drop(survivor.account().timeout(LONG).wait().unwrap()));
        }
        let all = bindings(&survivors);
        let statistics = runtime.statistics();
        let (links, monitors) = all
            .values()
            .fold((0, 0), |(links, monitors), bound| (links + bound.links.len(), monitors + bound.monitors.len()));
        println!(
            "{} processes came, {} went; {links} halves of links and {monitors} monitors are left",
            statistics.processes.spawned, statistics.processes.ended
        );
        // A tenth of the rounds spawns about 1,100 processes.
        assert!(statistics.processes.spawned > 500, "few came: {}", statistics.processes.spawned);

        for (pid, bound) in &all {
            for other in others(bound) {
                assert!(all.contains_key(other), "{pid} is bound to {other}, which is dead: {bound:?}");
            }
            for (other, theirs) in &all {
                assert_eq!(bound.links.contains(other), theirs.links.contains(pid), "a link of {pid} and {other}");
                assert_eq!(count(&bound.monitors, *other), count(&theirs.monitored_by, *pid), "{pid} monitors {other}");
            }
        }
        for survivor in survivors {
            let (unasked, open) = survivor.account().timeout(LONG).wait().unwrap();
            assert_eq!(unasked, [] as [String; 0]);
            assert_eq!(open, all[&survivor.pid()].monitors.len(), "each monitor was told, or taken back, or is there");
        }
        runtime.shutdown().unwrap();
    });
}
