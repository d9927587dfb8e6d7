//! Messages and calls between two programs on this machine. Postroom's cluster, ractor_cluster, and kameo with its
//! feature `remote` are compared with each other, and with the bare client of NATS, on which Postroom's cluster is
//! built.
//!
//! ```console
//! cluster/nats/tools/fetch-nats-server
//! cargo run --release --manifest-path benches/cluster/Cargo.toml -- [ROUNDS] [SYSTEM ...]
//! ```
//!
//! Each measurement starts two more instances of this program: `there` has the receiver, and `here` sends to it. A
//! round measures each system once. The order rotates from round to round, so that other load on the machine affects
//! all systems alike. The table has the medians, and the range over the rounds. On a busy machine, compare the systems
//! only with each other.
//!
//! | row | work |
//! |---|---|
//! | single | messages of 64 bytes, each sent by itself, until the receiver has counted all |
//! | batched | the same, fifty in each message |
//! | call | 64 bytes there and back, one call after the other |

mod kameo;
mod nats;
mod postroom;
mod ractor;
mod server;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Number of 64-byte messages in a batch.
const BATCH: u64 = 50;
/// Number of calls that count. They are made one after the other.
const CALLS: usize = 5_000;
/// Number of calls before those that count.
const WARM_UP: usize = 500;

const SYSTEMS: [&str; 4] = ["nats", "postroom", "ractor", "kameo"];

/// The measurements of one run of a system.
#[derive(Default)]
pub(crate) struct Figures {
    single: f64,
    batched: f64,
    calls: Vec<Duration>,
}

impl Figures {
    /// Prints the figures in the form that the comparing program reads.
    pub(crate) fn print(mut self) {
        self.calls.sort();
        let [median, late] = [50, 99].map(|percent| self.calls[self.calls.len() * percent / 100].as_nanos());
        println!("{} {} {median} {late}", self.single, self.batched);
    }
}

/// Returns the rate in messages per second.
pub(crate) fn rate(messages: u64, begun: Instant) -> f64 {
    messages as f64 / begun.elapsed().as_secs_f64()
}

/// Prints the address of a system's receiver.
pub(crate) fn ready(address: &str) {
    println!("ready {address}");
}

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["there", "postroom", url] => postroom::there(url),
        ["here", "postroom", url] => postroom::here(url),
        ["there", system, url] => block_on(async move {
            match system {
                "nats" => nats::there(url).await,
                "ractor" => ractor::there().await,
                _ => kameo::there().await,
            }
        }),
        ["here", system, address] => block_on(async move {
            match system {
                "nats" => nats::here(address).await,
                "ractor" => ractor::here(address).await,
                _ => kameo::here(address).await,
            }
        }),
        [] => compare(5, &SYSTEMS),
        [rounds] => compare(rounds.parse()?, &SYSTEMS),
        [rounds, ref systems @ ..] => match systems.iter().find(|system| !SYSTEMS.contains(system)) {
            Some(unknown) => Err(format!("there is no system `{unknown}`; there are {SYSTEMS:?}").into()),
            None => compare(rounds.parse()?, systems),
        },
    }
}

/// Runs `work` on as many threads as the machine has cores. This is the default of each of these systems.
fn block_on(work: impl Future<Output = Outcome<()>>) -> Outcome<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn compare(rounds: usize, systems: &[&str]) -> Outcome<()> {
    let server = server::Server::start()?;
    let mut measured = BTreeMap::<&str, [Vec<f64>; 4]>::new();
    for round in 0..rounds {
        for at in 0..systems.len() {
            let system = systems[(at + round) % systems.len()];
            let figures = measure(system, &server.url()).map_err(|error| format!("{system}: {error}"))?;
            eprintln!("round {}: {system:9} {figures:?}", round + 1);
            let rows = measured.entry(system).or_default();
            rows.iter_mut().zip(figures).for_each(|(row, figure)| row.push(figure));
        }
    }
    println!("| system | single, 1,000/s | batched, 1,000/s | call, median, µs | call, 99 %, µs |");
    println!("|---|--:|--:|--:|--:|");
    for system in systems {
        let [single, batched, median, late] = measured.remove(system).unwrap_or_default();
        let rate = |row| spread(row, |figure| format!("{:.0}", figure / 1e3));
        let time = |row| spread(row, |figure| format!("{:.0}", figure / 1e3));
        println!("| {system} | {} | {} | {} | {} |", rate(single), rate(batched), time(median), time(late));
    }
    Ok(())
}

/// Formats a row as its median, followed by its smallest and its largest value.
fn spread(mut row: Vec<f64>, text: impl Fn(f64) -> String) -> String {
    row.sort_by(f64::total_cmp);
    match row[..] {
        [] => "-".into(),
        [first, .., last] => format!("{} ({} to {})", text(row[row.len() / 2]), text(first), text(last)),
        [only] => text(only),
    }
}

fn measure(system: &str, url: &str) -> Outcome<[f64; 4]> {
    let start = |role: &str, address: &str| {
        let mut program = Command::new(std::env::current_exe()?);
        program.args([role, system, address]).stdout(Stdio::piped()).spawn().map(Ends)
    };
    let mut there = start("there", url)?;
    let output = there.0.stdout.take().ok_or("no output")?;
    let address = line(output, "ready ")?;
    let mut here = start("here", &address)?;
    let output = here.0.stdout.take().ok_or("no output")?;
    let figures = line(output, "")?;
    let figures: Vec<f64> = figures.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    figures.try_into().map_err(|figures| format!("not four figures: {figures:?}").into())
}

fn line(output: impl std::io::Read, begins: &str) -> Outcome<String> {
    for line in BufReader::new(output).lines() {
        if let Some(rest) = line?.strip_prefix(begins) {
            return Ok(rest.to_owned());
        }
    }
    Err("it ended before it had said what it should".into())
}
