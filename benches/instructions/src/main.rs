//! Counts the instructions that an operation of the runtime costs, and how many of them are atomic. A busy machine does
//! not change these numbers, so a check can compare them with recorded ones.
//!
//! * `check` measures every operation and compares it with `recorded.txt`.
//! * `record` writes the measured values to `recorded.txt`, and keeps the reasons in that file.
//! * `atomics OPERATION` lists the source lines with atomic instructions of the operation.
//! * `timed` measures how long ping-pong takes while the runtime is recorded in samples, as a whole, or not at all.
//! * `OPERATION COUNT` is the measured program, which performs the operation that many times. The other commands run it
//!   under Callgrind, with a small and with a large count. They divide the difference, so that the start and the end of
//!   the program cancel out.

mod compare;
mod large;
mod measure;
mod operation;
mod passing;
mod profile;
mod recorded;
mod services;

use std::path::PathBuf;
use std::process::ExitCode;

use compare::{Verdict, compare_atomics, compare_instructions};
use measure::{Cost, MeasureError, cost, places};
use operation::{OPERATIONS, Operation};
use passing::RecordedPart;
use recorded::{Recorded, RecordedError};

/// If this variable is 1, `check` passes even though Valgrind or `objdump` is not installed.
const SKIP: &str = "POSTROOM_SKIP_INSTRUCTIONS";

/// If this variable is 1, a subscriber receives the spans of messages and does nothing with them (feature `spans`).
#[cfg(feature = "spans")]
const SPANS: &str = "POSTROOM_SPANS";

/// The reason why nothing could be compared or recorded.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(
        "expected `check`, `record`, `timed`, `atomics OPERATION` or `OPERATION COUNT`, where an operation is one of: \
         {}",
        names()
    )]
    Usage,
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(transparent)]
    Recorded(#[from] RecordedError),
}

fn names() -> String {
    OPERATIONS.map(Operation::name).join(", ")
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match arguments[..] {
        ["check"] => check(),
        ["record"] => record().map(|()| true),
        ["atomics", name] => atomics(name).map(|()| true),
        ["timed"] => {
            recorded_against_not();
            Ok(true)
        }
        [name, count] => work(name, count).map(|()| true),
        _ => Err(Failure::Usage),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure::Measure(MeasureError::Absent { program, .. }))
            if std::env::var(SKIP).is_ok_and(|value| value == "1") =>
        {
            println!("skipped: there is no {program}, and {SKIP} is 1");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Runs the measured operation.
fn work(name: &str, count: &str) -> Result<(), Failure> {
    #[cfg(feature = "spans")]
    if std::env::var(SPANS).is_ok_and(|value| value == "1") {
        use tracing_subscriber::util::SubscriberInitExt;
        tracing_subscriber::registry().init();
    }
    let operation = Operation::named(name).ok_or(Failure::Usage)?;
    let count = count.parse().map_err(|_| Failure::Usage)?;
    operation.perform(count);
    Ok(())
}

/// Prints the source lines with atomic instructions of an operation.
fn atomics(name: &str) -> Result<(), Failure> {
    let operation = Operation::named(name).ok_or(Failure::Usage)?;
    for (source, each) in places(operation)? {
        println!("{each:>7.2}  {source}");
    }
    Ok(())
}

/// Returns true if all values are as recorded.
fn check() -> Result<bool, Failure> {
    let recorded = Recorded::read(&path())?;
    let mut passed = true;
    for operation in OPERATIONS {
        let verdicts = show(operation, &recorded)?.1;
        passed &= verdicts.iter().all(|verdict| matches!(verdict, Verdict::Same { .. }));
    }
    for name in recorded.names().filter(|name| Operation::named(name).is_none()) {
        println!("{name:10} is recorded and not measured; take its line out of {}", path().display());
        passed = false;
    }
    Ok(passed)
}

fn record() -> Result<(), Failure> {
    let mut recorded = Recorded::read(&path())?;
    for operation in OPERATIONS {
        let now = show(operation, &recorded)?.0;
        recorded.set(operation.name(), now);
    }
    recorded.write(&path())?;
    println!("written to {}: see whether the reasons there still hold", path().display());
    Ok(())
}

/// Measures an operation, and prints the comparison with the recorded values.
fn show(operation: Operation, recorded: &Recorded) -> Result<(Cost, [Verdict; 2]), Failure> {
    let (now, before) = (cost(operation)?, recorded.value(operation.name()));
    let verdicts = [
        compare_instructions(now.instructions, before.map(|cost| cost.instructions)),
        compare_atomics(now.atomics, before.map(|cost| cost.atomics), operation.atomics_slack()),
    ];
    println!("{:10}{:>10.1} instructions  {}", operation.name(), now.instructions, verdicts[0]);
    println!("{:10}{:>10.2} atomic        {}", "", now.atomics, verdicts[1]);
    Ok((now, verdicts))
}

/// Prints minima and medians of interleaved rounds. Each measurement takes a second or two, unless the runtime is
/// recorded as a whole. During such a measurement, a flight recorder takes a sample or two.
fn recorded_against_not() {
    const ROUNDS: usize = 9;
    const CASES: [(&str, RecordedPart, u64); 3] = [
        ("not recorded", RecordedPart::Nothing, 60_000_000),
        ("in samples", RecordedPart::Samples, 60_000_000),
        ("as a whole", RecordedPart::Whole, 3_000_000),
    ];
    let mut times = [const { Vec::new() }; CASES.len()];
    for _ in 0..ROUNDS {
        for ((_, part, count), times) in CASES.into_iter().zip(&mut times) {
            times.push(passing::timed_ping_pong(count, part).as_nanos() as f64 / count as f64);
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let (least, median) = (times[0][0], times[0][ROUNDS / 2]);
    for ((name, ..), times) in CASES.into_iter().zip(&times) {
        println!(
            "ping_pong, {name:12}: {:6.1} ns a message at least ({:+.1} %), median {:6.1} ({:+.1} %)",
            times[0],
            (times[0] / least - 1.0) * 100.0,
            times[ROUNDS / 2],
            (times[ROUNDS / 2] / median - 1.0) * 100.0,
        );
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recorded.txt")
}
