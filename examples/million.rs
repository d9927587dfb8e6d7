//! Keeps a million processes alive, and prints the cost of each.
//!
//! ```text
//! cargo run --release --example million                # a million
//! cargo run --release --example million -- 10000000    # ten million
//! ```
//!
//! Each process knows the next one. When all of them are running, one message passes through them all, and each process
//! increments its count. At the end all are stopped.

use std::env;
use std::error::Error;
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use postroom::Mailbox;
use postroom::prelude::*;

const USAGE: &str = "usage: million [PROCESSES]

Spawns so many processes (1000000 unless said otherwise), sends a message through all of them, and prints
what each of them took.";

/// The default number of processes.
const PROCESSES: u64 = 1_000_000;

/// Time limit of the shutdown, for any number of processes.
const PATIENCE: Duration = Duration::from_secs(3_600);

#[process]
struct Link {
    next: Pid,
}

#[process]
impl Link {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn pass(&mut self, ctx: &mut Context<Self>, count: u64) -> Result<(), SendError<LinkPass>> {
        ctx.send(self.next, LinkPass { count: count + 1 })
    }
}

fn main() -> ExitCode {
    let processes = match processes(env::args().skip(1)) {
        Ok(processes) => processes,
        Err(error) => {
            eprintln!("million: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match measure(processes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("million: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the number of processes from the command line.
fn processes(mut arguments: impl Iterator<Item = String>) -> Result<u64, String> {
    let Some(argument) = arguments.next() else { return Ok(PROCESSES) };
    if let Some(more) = arguments.next() {
        return Err(format!("one number is enough, and `{more}` is one too many"));
    }
    match argument.parse() {
        Ok(0) | Err(_) => {
            Err(format!("`{argument}` is not a number of processes; write one from 1 on, such as 10000000"))
        }
        Ok(processes) => Ok(processes),
    }
}

fn measure(processes: u64) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let mut mailbox = Mailbox::new()?;
    let before = resident_bytes();
    println!("processes  {processes:>10}");

    let start = Instant::now();
    let mut first = mailbox.pid();
    for _ in 0..processes {
        first = runtime.spawn(Link { next: first }).serve()?.pid();
    }
    println!("spawning   {:>10} ns each", each(start, processes));

    let start = Instant::now();
    runtime.send(first, LinkPass { count: 0 })?;
    let LinkPass { count } = mailbox.receive().take().map_err(|_| "what came is not what was sent")?;
    println!("messages   {:>10} ns each", each(start, processes));
    if count != processes {
        return Err(format!("the message went through {count} processes instead of {processes}").into());
    }

    match resident_bytes().zip(before) {
        Some((bytes, before)) => {
            println!("memory     {:>10} MiB", bytes >> 20);
            println!("           {:>10} bytes each", bytes.saturating_sub(before) / processes);
        }
        None => println!("memory              ? (this system does not say)"),
    }

    let start = Instant::now();
    let report = runtime.shutdown_within(PATIENCE)?;
    println!("closing    {:>10} ns each", each(start, processes));
    if !report.is_clean() {
        return Err(format!("not all ended by themselves: {report}").into());
    }
    Ok(())
}

fn each(start: Instant, processes: u64) -> u128 {
    start.elapsed().as_nanos() / u128::from(processes)
}

/// Returns the memory that this program uses, if the system reports it.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
