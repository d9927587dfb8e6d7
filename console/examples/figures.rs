//! What the console costs, as figures: the time of an update with many processes, and the latency of calls with a page
//! open and without.
//!
//! `cargo run --release --package postroom-console --example figures -- 100000`

use postroom::prelude::*;
use postroom_console::Console;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Rounds of each kind, one after the other.
const ROUNDS: usize = 10;
/// The calls of a round.
const CALLS: usize = 20_000;
/// Processes that call each other all the while.
const BUSY: usize = 64;
/// How often each view is asked for.
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

/// Calls another one again and again, with a pause.
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

fn request(console: &Console, path: &str) -> TcpStream {
    let (address, token) = (console.address(), console.url().split_once("?token=").expect("a token").1);
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    stream
}

/// Returns the median and the longest of some times in milliseconds.
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

    // The same calls with a view watched and without a console, in turn.
    let probe = runtime.spawn(Echo).serve()?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (is_watched, times) in [(true, &mut with), (false, &mut without)] {
            let console = if is_watched { Some(Console::of(&runtime).start()?) } else { None };
            let over = Arc::new(AtomicBool::new(false));
            let page = console.as_ref().map(|console| {
                let (mut stream, over) = (request(console, "/api/watch?view=processes"), over.clone());
                thread::spawn(move || {
                    let mut part = [0; 64 << 10];
                    while !over.load(Ordering::Relaxed) && stream.read(&mut part).is_ok_and(|read| read > 0) {}
                })
            });
            for number in 0..CALLS as u64 {
                let begun = Instant::now();
                probe.echo(number).wait()?;
                times.push(begun.elapsed());
            }
            over.store(true, Ordering::Relaxed);
            drop(console);
            let _read = page.map(thread::JoinHandle::join);
        }
    }
    for (name, mut times) in [("with a page open", with), ("without a console", without)] {
        times.sort_unstable();
        let [p50, p99, p999] = [500, 990, 999].map(|share| times[times.len() * share / 1000]);
        println!("calls {name}: p50 {p50:?}, p99 {p99:?}, p99.9 {p999:?}");
    }
    Ok(())
}
