//! Measures the cost of the console: how long an update takes with many processes, and the latency of messages with a
//! page open and without a console.
//!
//! `cargo run --release --package postroom-console --example figures -- 100000`
//!
//! Messages are sent like those of the probe in `benches/compare`: a thread sends one every millisecond without waiting
//! for the earlier ones, so a pause of the runtime delays all messages sent during the pause.

use postroom::prelude::*;
use postroom_console::Console;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Number of rounds of each kind. The kinds alternate.
const ROUNDS: usize = 9;
/// Number of messages in a round.
const MESSAGES: usize = 3_000;
/// The pause between two messages.
const PAUSE: Duration = Duration::from_millis(1);
/// How long the console is open before the first message. By then its profile and its page are active.
const CALM: Duration = Duration::from_millis(1_500);
/// Number of processes that call other processes throughout the measurement.
const BUSY: usize = 64;
/// Number of processes that keep the workers busy with messages to each other.
const FLOODERS: usize = 1_000;
/// Number of messages in flight for each of these processes.
const IN_FLIGHT: usize = 10;
/// Number of times that each view is requested.
const UPDATES: usize = 20;

#[process]
struct Echo;

#[process]
impl Echo {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn echo(&mut self, number: u64) -> u64 {
        number
    }
}

/// A process that calls another one repeatedly, with a pause.
#[process]
struct Caller {
    other: Address<Echo>,
}

#[process]
impl Caller {
    #[entry]
    async fn call(&mut self, ctx: &mut Context<Self>) {
        for number in 0.. {
            if self.other.echo(number).await.is_err() {
                return;
            }
            ctx.sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A process that records the age of each message on arrival.
#[process]
struct Prober {
    ages: Vec<Duration>,
    all: Sender<Vec<Duration>>,
}

#[process]
impl Prober {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn note(&mut self, sent: Instant) {
        self.ages.push(sent.elapsed());
        if self.ages.len() == MESSAGES {
            let _gone = self.all.send(std::mem::take(&mut self.ages));
        }
    }
}

/// A process that forwards each message to another flooder.
#[process]
struct Flooder {
    everybody: Arc<OnceLock<Vec<Address<Flooder>>>>,
    next: usize,
    over: Arc<AtomicBool>,
}

#[process]
impl Flooder {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn hit(&mut self) {
        let Some(everybody) = self.everybody.get().filter(|_| !self.over.load(Ordering::Relaxed)) else { return };
        // The stride has no common factor with the number of flooders.
        self.next = (self.next + 389) % everybody.len();
        let _gone = everybody[self.next].hit().send();
    }
}

/// Starts the flood. It ends when the returned flag is set.
fn flood(runtime: &Runtime) -> Result<Arc<AtomicBool>, Box<dyn std::error::Error>> {
    let (everybody, over) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
    let flooder = |next| Flooder { everybody: everybody.clone(), next, over: over.clone() };
    let flooders = (0..FLOODERS).map(|next| runtime.spawn(flooder(next)).serve()).collect::<Result<Vec<_>, _>>()?;
    let flooders = everybody.get_or_init(|| flooders);
    for flooder in flooders.iter().cycle().take(FLOODERS * IN_FLIGHT) {
        flooder.hit().send()?;
    }
    Ok(over)
}

/// Returns the ages of a round's messages in ascending order.
fn round(runtime: &Runtime) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let (all, ages) = channel();
    let prober = runtime.spawn(Prober { ages: Vec::with_capacity(MESSAGES), all }).serve()?;
    for _ in 0..MESSAGES {
        thread::sleep(PAUSE);
        prober.note(Instant::now()).send()?;
    }
    let mut ages = ages.recv()?;
    prober.pid().stop();
    ages.sort_unstable();
    Ok(ages)
}

/// Prints percentiles of the ages. For each percentile, it prints the median, the smallest and the largest value over
/// all rounds.
fn measure(runtime: &Runtime, load: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut rounds = [Vec::new(), Vec::new()];
    for number in 0..ROUNDS {
        // Each kind goes first in half of the rounds.
        for is_watched in [number.is_multiple_of(2), !number.is_multiple_of(2)] {
            let console = if is_watched { Some(Console::of(runtime).start()?) } else { None };
            let page = console.as_ref().map(|console| {
                let mut stream = request(console, "/api/watch?view=processes");
                thread::spawn(move || {
                    let (mut part, mut events) = ([0; 64 << 10], 0);
                    while let Ok(read @ 1..) = stream.read(&mut part) {
                        events += part[..read].windows(6).filter(|bytes| bytes == b"data: ").count();
                    }
                    events
                })
            });
            thread::sleep(CALM);
            let ages = round(runtime)?;
            drop(console);
            if let Some(page) = page {
                let events = page.join().map_err(|_| "the page has panicked")?;
                assert!(events as u64 >= CALM.as_secs() + 2, "the page got {events} updates only");
            }
            rounds[usize::from(is_watched)].push([500, 990, 999].map(|share| ages[ages.len() * share / 1000]));
        }
    }
    for (name, rounds) in ["without a console", "with a page open"].into_iter().zip(rounds) {
        let of = |figure: usize| {
            let mut of: Vec<_> = rounds.iter().map(|round| round[figure]).collect();
            of.sort_unstable();
            format!("{:.1?} ({:.1?} to {:.1?})", of[of.len() / 2], of[0], of[of.len() - 1])
        };
        println!("messages {load}, {name}: p50 {}, p99 {}, p99.9 {}", of(0), of(1), of(2));
    }
    Ok(())
}

fn request(console: &Console, path: &str) -> TcpStream {
    let (address, token) = (console.address(), console.url().split_once("?token=").expect("a token").1);
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    stream
}

/// Returns the median and the maximum of some times, in milliseconds.
fn spread(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let milliseconds = |time: &Duration| time.as_secs_f64() * 1e3;
    (milliseconds(&times[times.len() / 2]), times.last().map_or(0.0, milliseconds))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let processes: usize = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let runtime = Runtime::new()?;
    let echoes: Vec<_> = (0..processes).map(|_| runtime.spawn(Echo).serve()).collect::<Result<_, _>>()?;
    for number in 0..BUSY {
        drop(runtime.spawn(Caller { other: echoes[number % echoes.len()] }).call()?);
    }
    let console = Console::of(&runtime).start()?;
    println!("{processes} processes, {} workers; times in ms", runtime.workers());
    for view in ["overview", "processes?sort=cpu", "types", "ends", "tree", "waits"] {
        let times = (0..UPDATES).map(|_| {
            let begun = Instant::now();
            let (mut stream, mut answer) = (request(&console, &format!("/api/{view}")), String::new());
            stream.read_to_string(&mut answer).expect("it answers");
            begun.elapsed()
        });
        let (median, longest) = spread(times.collect());
        println!("update of {view}: median {median:.1}, longest {longest:.1}");
    }
    drop(console);

    // Measure with a page open and without a console, in alternating rounds; first with little other load, then with
    // much.
    measure(&runtime, "among callers")?;
    let over = flood(&runtime)?;
    measure(&runtime, "in a flood")?;
    over.store(true, Ordering::Relaxed);
    Ok(())
}
