//! Short-lived children that exit in every way. Their parents link to, monitor, join, name, message and kill them. The
//! parents are killed too, and the runtime shuts down. Every child that was started exits, every join returns, and
//! nothing is left of the children.
//!
//! Blind spots: the order of events is left to the scheduler.

use postroom::ProcessError;
use postroom::future::Ended;
use postroom::manual::{Events, InitContext, Process, StepOutput};
use postroom::prelude::*;
use postroom::{Host, InitError, Payloads};
use postroom_tests::{Random, eventually, within};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of runtimes that are started and shut down.
const ROUNDS: u64 = 60;
/// Number of parents that each runtime has at a time.
const PARENTS: usize = 8;
/// Minimum number of children in a round before its runtime is shut down.
const CHILDREN: u64 = 400;

#[derive(Default)]
struct Books {
    started: AtomicU64,
    refused: AtomicU64,
    /// Number of child states that were dropped.
    dropped: AtomicU64,
    joins: Mutex<Vec<Ended>>,
    /// Whether some children stay until they get a message or the runtime is shut down.
    some_stay: bool,
}

/// A child that exits in the way that `way` selects.
struct Brief {
    way: u64,
    books: Arc<Books>,
}

impl Drop for Brief {
    fn drop(&mut self) {
        self.books.dropped.fetch_add(1, SeqCst);
    }
}

impl Process for Brief {
    fn init(&mut self, _: &mut InitContext<'_>, _: &str, _: Payloads) -> Result<(), InitError> {
        match self.way {
            0 => panic!("on purpose"),
            1 => Err(InitError::failed("on purpose")),
            _ => Ok(()),
        }
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        match self.way {
            2 => panic!("on purpose"),
            3 => return Err(ProcessError::new("on purpose")),
            // The child stays until its first message, or until the runtime shuts down.
            4 if self.books.some_stay && events.next().is_none() => out.idle(),
            _ => out.done(),
        }
        Ok(())
    }

    fn close(&mut self) {
        if self.way == 5 {
            panic!("on purpose")
        }
    }
}

/// A process that spawns children in each of its steps, and links to, joins, names, messages or kills some of them.
struct Parent {
    books: Arc<Books>,
    random: Random,
    known: Vec<Pid>,
    own: Option<Pid>,
}

impl Parent {
    fn spawn(&mut self, host: Host) {
        let child = Brief { way: self.random.below(12), books: self.books.clone() };
        let mut spawn = host.spawn_process(child);
        for (option, name) in (0..).zip(["linked", "monitored", "owned", "named", "labelled"]) {
            if self.random.below(6) == 0 {
                spawn = match option {
                    0 => spawn.linked(),
                    1 => spawn.monitored(),
                    2 => spawn.owned(),
                    3 => spawn.named(format!("{name} {}", self.random.below(4))),
                    _ => spawn.label(name),
                };
            }
        }
        match spawn.start() {
            Ok(pid) => {
                self.books.started.fetch_add(1, SeqCst);
                self.known.push(pid);
            }
            Err(_) => _ = self.books.refused.fetch_add(1, SeqCst),
        }
    }

    fn deal_with(&mut self, host: Host) {
        let place = self.random.below(self.known.len().max(1) as u64) as usize;
        let Some(&pid) = self.known.get(place) else { return };
        match self.random.below(10) {
            0 => _ = pid.link(),
            1 => _ = pid.monitor(),
            2 => _ = pid.unlink(),
            3 => self.books.joins.lock().unwrap().push(pid.join()),
            4 => _ = host.register_name(format!("named {}", self.random.below(4)), pid),
            5 => _ = host.send(pid, 1_u8),
            6 => _ = pid.kill(),
            7 => _ = pid.stop(),
            8 => _ = pid.info(),
            _ => _ = self.known.swap_remove(place),
        }
    }
}

impl Process for Parent {
    fn init(&mut self, ctx: &mut InitContext<'_>, _: &str, _: Payloads) -> Result<(), InitError> {
        self.own = ctx.pid();
        Ok(())
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while events.next().is_some() {}
        let host = Host::current().expect("a host");
        for _ in 0..self.random.below(8) {
            self.spawn(host);
            self.deal_with(host);
            self.deal_with(host);
        }
        if self.random.below(64) == 0 {
            out.done();
        } else {
            _ = host.send(self.own.expect("it has started"), ());
            out.idle();
        }
        Ok(())
    }

    fn traps_exits(&self) -> bool {
        true
    }
}

fn round(workers: usize, seed: u64) {
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    let some_stay = seed % 4 < 2;
    let (host, mut random) = (runtime.host(), Random(seed));
    let books = Arc::new(Books { some_stay, ..Books::default() });
    let parents = AtomicU64::new(0);
    let parent = |random: &mut Random| {
        let (books, random) = (books.clone(), Random(random.below(u64::MAX)));
        parents.fetch_add(1, SeqCst);
        host.spawn_process(Parent { books, random, known: Vec::new(), own: None }).start().unwrap()
    };
    let mut all: Vec<_> = (0..PARENTS).map(|_| parent(&mut random)).collect();
    while books.started.load(SeqCst) < CHILDREN {
        let place = random.below(PARENTS as u64) as usize;
        if random.below(8) == 0 {
            all[place].kill();
        }
        if !all[place].is_alive() {
            all[place] = parent(&mut random);
        }
        books.joins.lock().unwrap().push(all[place].join());
        std::thread::yield_now();
    }
    if !some_stay {
        all.iter().for_each(|parent| _ = parent.kill());
        eventually(|| host.statistics().processes.live == 0);
        let (counted, parents) = (host.statistics().processes.ended, parents.load(SeqCst));
        // The count may include children whose start was refused.
        let (least, most) = (books.started.load(SeqCst) + parents, books.dropped.load(SeqCst) + parents);
        assert!((least..=most).contains(&counted), "{counted} have ended, and not {least} to {most}");
    }
    runtime.shutdown().unwrap();
    let (started, refused) = (books.started.load(SeqCst), books.refused.load(SeqCst));
    assert_eq!(started + refused, books.dropped.load(SeqCst), "the state of each child has been dropped");
    let joins = std::mem::take(&mut *books.joins.lock().unwrap());
    joins.into_iter().for_each(|join| drop(join.wait()));
    (0..4).for_each(|name| assert_eq!(host.whereis(format!("named {name}").as_str()), None));
    assert_eq!(Arc::strong_count(&books), 1, "no process is left");
}

/// Catches: a join that is not answered, a state that is not dropped, a name that stays taken, and a process that is
/// not counted.
#[test]
fn nothing_is_left_of_children_that_end_at_once() {
    within(Duration::from_secs(240), || {
        for seed in 0..ROUNDS {
            round(1 + seed as usize % 2, seed);
        }
    });
}
