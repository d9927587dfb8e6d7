//! The cost of a million timers: `cargo bench -p postroom --bench timers [-- TIMERS]`.
//!
//! Each figure is in nanoseconds per timer, and is the minimum of several runs. The workloads of these runs are
//! interleaved. The minimum counts because the machine is never quite idle, and other load can only add to the time.
//! The first part measures the wheel alone, which is the production module. The second part measures what a process
//! sees.

use postroom::prelude::*;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::time::{Duration, Instant};

#[allow(dead_code, unreachable_pub)]
#[path = "../src/env/chance.rs"]
mod chance;
/// The path at which the wheel imports the module `chance`.
mod env {
    pub(crate) use crate::chance;
}
// The unit tests of the wheel are not run here.
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/time/wheel.rs"]
mod wheel;

use env::chance::Random;
use wheel::Wheel;

const RUNS: usize = 5;

/// A value of the same size as that of an entry in production.
type Value = [u64; 3];

const HOUR: u64 = 3_600_000_000_000;
const SECOND: u64 = 1_000_000_000;
/// The time between two checks for due timers, as for a worker that takes short steps.
const LOOK: u64 = 10_000;

/// The minimum time of each row.
#[derive(Default)]
struct Table(BTreeMap<&'static str, f64>);

impl Table {
    fn row(&mut self, name: &'static str, count: u64, work: impl FnOnce()) {
        let began = Instant::now();
        work();
        self.note(name, count, began.elapsed());
    }

    fn note(&mut self, name: &'static str, count: u64, took: Duration) {
        let each = took.as_nanos() as f64 / count as f64;
        let least = self.0.entry(name).or_insert(f64::INFINITY);
        *least = least.min(each);
    }
}

/// Returns a wheel with `count` entries, and the keys of the entries. Each entry is due at a random time within `range`
/// after `now`.
fn filled(count: u64, now: u64, range: u64, random: &mut Random) -> (Wheel<Value>, Vec<wheel::WheelKey>) {
    let mut wheel = Wheel::new();
    wheel.pop(now, now);
    let keys = (0..count)
        .filter_map(|number| wheel.insert(now + random.below(range as usize) as u64, [number; 3]).ok())
        .collect();
    (wheel, keys)
}

fn wheel_alone(table: &mut Table, count: u64, random: &mut Random) {
    let now = HOUR;
    let (mut wheel, mut keys) = filled(count, now, HOUR, random);
    // `count` more timers will be inserted, so that at least this many are pending throughout, and places are reused.
    let dues: Vec<u64> = (0..count).map(|_| now + random.below(HOUR as usize) as u64).collect();
    for place in (1..keys.len()).rev() {
        keys.swap(place, random.below(place + 1));
    }
    let mut more = Vec::with_capacity(keys.len());
    table.row("wheel: insert", count, || more.extend(dues.iter().filter_map(|&due| wheel.insert(due, [due; 3]).ok())));
    table.row("wheel: reset, in any order", count, || {
        for (&key, &due) in keys.iter().zip(&dues) {
            black_box(wheel.reset(key, due + SECOND));
        }
    });
    table.row("wheel: cancel, in any order", count, || {
        for &key in &keys {
            black_box(wheel.cancel(key));
        }
    });
    table.row("wheel: insert and cancel at once", count, || {
        for &due in &dues {
            if let Ok(key) = wheel.insert(due, [due; 3]) {
                black_box(wheel.cancel(key));
            }
        }
    });
    // These timers are due within a second. Those of the other wheels are due within an hour.
    let (mut wheel, _keys) = filled(count, now, SECOND, random);
    table.row("wheel: fire what is due, every 10 us", count, || {
        let mut fired = 0;
        let mut time = now;
        while fired < count {
            time += LOOK;
            while wheel.next() <= time {
                if let Some(value) = wheel.pop(time, time) {
                    black_box(value);
                    fired += 1;
                }
            }
        }
    });
    let (mut wheel, _keys) = filled(count, now, HOUR, random);
    table.row("wheel: fire all at once, an hour late", count, || {
        while wheel.len() > 0 {
            black_box(wheel.pop(now + 2 * HOUR, now + 2 * HOUR));
        }
    });
}

/// A process that sleeps many times at once.
#[process]
struct Sleeper {
    done: Sender<[Duration; 3]>,
}

#[process]
impl Sleeper {
    #[entry]
    async fn sleep(&mut self, ctx: &mut Context<Self>, count: u64) {
        let mut random = Random::new(1, 0);
        let mut began = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            now - std::mem::replace(&mut began, now)
        };
        let futures = |bound: u64, random: &mut Random| -> Vec<Pin<Box<dyn Future<Output = ()> + Send>>> {
            let sleep =
                |_| Box::pin(ctx.sleep(Duration::from_nanos(SECOND + random.below(bound as usize) as u64))) as _;
            (0..count).map(sleep).collect()
        };
        let mut sleeps = futures(HOUR, &mut random);
        lap();
        poll_all(&mut sleeps).await;
        let set = lap();
        drop(sleeps);
        let cancel = lap();
        // These timers are due once all of them have been set. The thread that runs this process fires them, and then
        // returns to the process with the answers.
        let mut sleeps: Vec<_> = (0..count).map(|_| Box::pin(ctx.sleep(Duration::from_millis(1))) as _).collect();
        poll_all(&mut sleeps).await;
        let due = Instant::now() + Duration::from_millis(2);
        while Instant::now() < due {}
        lap();
        for sleep in &mut sleeps {
            sleep.await;
        }
        let fire = lap();
        self.done.send([set, cancel, fire]).expect("somebody waits");
    }
}

/// Polls each future once, and keeps the futures that are pending.
async fn poll_all(futures: &mut Vec<Pin<Box<dyn Future<Output = ()> + Send>>>) {
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

fn face(table: &mut Table, count: u64) {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let (done, laps) = channel();
    let _sleeper = runtime.spawn(Sleeper { done }).sleep(count).expect("a sleeper");
    let [set, cancel, fire] = laps.recv().expect("the sleeper tells");
    table.note("process: begin to sleep", count, set);
    table.note("process: give a sleep up", count, cancel);
    table.note("process: wake of a sleep that was due", count, fire);
}

fn main() {
    let count = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    let mut table = Table::default();
    let mut random = Random::new(2, 0);
    for _ in 0..RUNS {
        wheel_alone(&mut table, count, &mut random);
        face(&mut table, count);
    }
    println!("{count} timers, nanoseconds for each");
    for (name, each) in &table.0 {
        println!("{name:<44}{each:>8.1}");
    }
}
