//! A game loop with a fixed time step of 1/60 s: players are processes, and slow spectators do not hold up the game.
//!
//! ```text
//! cargo run --example game_loop              # a race of four seconds
//! cargo run --example game_loop -- --virtual # the same race at once, by a virtual clock: always the same
//! ```
//!
//! ```text
//!   ┌──────── inputs ────────┐
//!   ▼                        │
//! game ──snapshots, 20/s──▶ players, spectators
//! ```
//!
//! The game simulates exactly one step per tick, however late the tick is. A delayed loop catches up, and the cars are
//! where they would have been. Things to look for in the output:
//!
//! * A player steers by messages, which take effect at the next step. Bob always tries to stay behind Ada.
//! * Eve's process crashes in the middle of the race. The game is notified, and takes her car off the track.
//! * Sam takes longer to draw a snapshot than the next one takes to arrive. His mailbox has room for one, the newest:
//!   he misses most of them, but draws the last one.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use std::{env, panic};

use postroom::MissedTicks;
use postroom::error::{GroupError, TopologyError};
use postroom::prelude::*;

/// The fixed time step.
const TICK: Duration = Duration::from_nanos(1_000_000_000 / 60);

/// Length of the race in steps.
const TICKS: u32 = 4 * 60;

/// Number of steps between two snapshots.
const TICKS_PER_SNAPSHOT: u32 = 3;

/// The top speed of a car, in millimetres per step.
const TOP_SPEED: i64 = 500;

/// Change of a car's speed per step, in millimetres per step.
const ACCELERATION: i64 = 5;

#[derive(Clone, Copy)]
enum Input {
    Accelerate,
    Coast,
    Brake,
}

#[derive(Clone)]
struct Car {
    input: Input,
    speed: i64,
    /// Distance from the start in millimetres.
    position: i64,
}

impl Car {
    fn step(&mut self) {
        let change = match self.input {
            Input::Accelerate => ACCELERATION,
            Input::Coast => 0,
            Input::Brake => -ACCELERATION,
        };
        self.speed = (self.speed + change).clamp(0, TOP_SPEED);
        self.position += self.speed;
    }
}

/// The state of the game after a step. All subscribers share one copy.
#[derive(Clone)]
struct Snapshot {
    tick: u32,
    cars: Arc<BTreeMap<&'static str, Car>>,
}

#[process]
struct Game {
    subscribers: Group,
    cars: BTreeMap<&'static str, Car>,
    players: BTreeMap<Pid, &'static str>,
    tick: u32,
}

#[process]
impl Game {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) -> Snapshot {
        // `Burst` delivers each missed tick, so the number of steps depends on nothing but the time that has passed.
        let mut ticks = ctx.interval(TICK).missed(MissedTicks::Burst);
        while self.tick < TICKS {
            ctx.serve_until(self, ticks.tick()).await;
            self.tick += 1;
            self.cars.values_mut().for_each(Car::step);
            if self.tick.is_multiple_of(TICKS_PER_SNAPSHOT) {
                // A broadcast does not wait for a slow subscriber: see the bounds of their mailboxes.
                self.subscribers.broadcast(self.snapshot());
            }
        }
        self.snapshot()
    }

    #[message]
    fn join(&mut self, name: &'static str, player: Pid) -> Result<(), TopologyError> {
        player.monitor()?;
        self.players.insert(player, name);
        self.cars.insert(name, Car { input: Input::Coast, speed: 0, position: 0 });
        Ok(())
    }

    /// Sets the input of a car. Only the last input before a step counts.
    #[message]
    fn steer(&mut self, name: &'static str, input: Input) {
        if let Some(car) = self.cars.get_mut(name) {
            car.input = input;
        }
    }

    #[signal]
    fn on_down(&mut self, down: Down) {
        if let Some(name) = self.players.remove(&down.pid) {
            println!("{name} is gone after step {}", self.tick);
            self.cars.remove(name);
        }
    }
}

impl Game {
    fn snapshot(&self) -> Snapshot {
        Snapshot { tick: self.tick, cars: Arc::new(self.cars.clone()) }
    }
}

#[process]
struct Player {
    name: &'static str,
    game: Address<Game>,
    /// The player's reaction to a snapshot.
    drive: fn(&Snapshot) -> Input,
}

#[process]
impl Player {
    #[entry]
    fn join(&mut self, ctx: &mut Context<Self>, subscribers: Group) -> Result<(), ProcessError> {
        subscribers.join(ctx.pid())?;
        self.game.join(self.name, ctx.pid()).send()?;
        Ok(())
    }

    #[message(Snapshot)]
    fn see(&mut self, ctx: &mut Context<Self>, snapshot: Snapshot) {
        if self.game.steer(self.name, (self.drive)(&snapshot)).send().is_err() {
            ctx.stop(); // the game is over
        }
    }
}

fn ada(snapshot: &Snapshot) -> Input {
    // She brakes just in time to stop at 75 m.
    let Car { speed, position, .. } = snapshot.cars["Ada"];
    let stopping_distance = speed * speed / (2 * ACCELERATION);
    if position + stopping_distance < 75_000 { Input::Accelerate } else { Input::Brake }
}

fn bob(snapshot: &Snapshot) -> Input {
    let (ada, bob) = (&snapshot.cars["Ada"], &snapshot.cars["Bob"]);
    match ada.position - bob.position {
        10_000.. => Input::Accelerate,
        5_000.. => Input::Coast,
        _ => Input::Brake,
    }
}

fn eve(snapshot: &Snapshot) -> Input {
    assert!(snapshot.tick < 90, "this player has a bug");
    Input::Accelerate
}

/// A spectator that draws each snapshot, slowly.
#[process]
#[derive(Default)]
struct Spectator {
    drawn: usize,
    last: u32,
}

#[process]
impl Spectator {
    #[entry]
    fn watch(&mut self, ctx: &mut Context<Self>, subscribers: Group) -> Result<(), GroupError> {
        subscribers.join(ctx.pid()).map(drop)
    }

    #[message(Snapshot)]
    async fn draw(&mut self, ctx: &mut Context<Self>, snapshot: Snapshot) {
        self.drawn += 1;
        self.last = snapshot.tick;
        ctx.sleep(Duration::from_millis(170)).await;
    }

    #[signal]
    fn on_cancel(&mut self, ctx: &mut Context<Self>, _cancel: Cancel) {
        let all = TICKS / TICKS_PER_SNAPSHOT;
        println!("Sam has drawn {} of {all} snapshots, the last one of step {}", self.drawn, self.last);
        ctx.stop();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The game prints that a player is gone. Without this hook, the panic would also be reported on standard error.
    panic::set_hook(Box::new(|_| {}));

    let is_virtual = env::args().any(|argument| argument == "--virtual");
    let clock = if is_virtual { Clock::manual() } else { Clock::system() };
    let runtime = Runtime::builder().clock(clock.clone()).build()?;
    let subscribers = runtime.group("subscribers");
    let (cars, players) = Default::default();
    let running = runtime.spawn(Game { subscribers: subscribers.clone(), cars, players, tick: 0 }).run()?;
    let game = running.address();
    for (name, drive) in [("Ada", ada as fn(&Snapshot) -> Input), ("Bob", bob), ("Eve", eve)] {
        runtime.spawn(Player { name, game, drive }).join(subscribers.clone())?;
    }
    let newest = Bound::Hard(1, Overflow::DropOldest);
    runtime.spawn(Spectator::default()).mailbox(newest).watch(subscribers)?;

    if is_virtual {
        clock.advance(TICK * TICKS + Duration::from_secs(1))?; // the second lets Sam finish
    }
    let last = running.wait()?;
    println!("after step {}:", last.tick);
    for (name, car) in &*last.cars {
        println!("  {name} at {:.2} m, {:.1} m/s", car.position as f64 / 1e3, car.speed as f64 * 60.0 / 1e3);
    }
    println!("clean shutdown: {}", runtime.drain(Duration::from_secs(10))?.is_clean());
    Ok(())
}
