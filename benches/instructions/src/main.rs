//! Counts the instructions that an operation of the runtime costs: a number that a busy machine does not change, so
//! that a check can compare it with a recorded one.
//!
//! * `check` measures every operation and compares it with `recorded.txt`.
//! * `record` writes what it measures to `recorded.txt`, and keeps the reasons there.
//! * `OPERATION COUNT` is the program that is measured: it does that operation so many times. The other two run it
//!   under Callgrind, with a few and with many, and divide the difference, so that the start and the end of it cancel
//!   out.

mod compare;
mod measure;
mod operation;
mod passing;
mod recorded;
mod services;

use std::path::PathBuf;
use std::process::ExitCode;

use compare::{Verdict, compare};
use measure::{MeasureError, instructions};
use operation::{OPERATIONS, Operation};
use recorded::{Recorded, RecordedError};

/// Set to 1, lets `check` pass where Valgrind is not installed.
const SKIP: &str = "POSTROOM_SKIP_INSTRUCTIONS";

/// Why nothing was compared or recorded.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("expected `check`, `record` or `OPERATION COUNT`, where an operation is one of: {}", names())]
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
        [name, count] => work(name, count).map(|()| true),
        _ => Err(Failure::Usage),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure::Measure(MeasureError::Absent)) if std::env::var(SKIP).is_ok_and(|value| value == "1") => {
            println!("skipped: Valgrind is not installed, and {SKIP} is 1");
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
    let operation = Operation::named(name).ok_or(Failure::Usage)?;
    let count = count.parse().map_err(|_| Failure::Usage)?;
    operation.perform(count);
    Ok(())
}

/// Returns whether all values are as recorded.
fn check() -> Result<bool, Failure> {
    let recorded = Recorded::read(&path())?;
    let mut passed = true;
    for operation in OPERATIONS {
        let now = instructions(operation)?;
        let verdict = compare(now, recorded.value(operation.name()));
        println!("{:10}{now:>10.1}  {verdict}", operation.name());
        passed &= matches!(verdict, Verdict::Same { .. });
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
        let now = instructions(operation)?;
        println!("{:10}{now:>10.1}  {}", operation.name(), compare(now, recorded.value(operation.name())));
        recorded.set(operation.name(), now);
    }
    recorded.write(&path())?;
    println!("written to {}: see whether the reasons there still hold", path().display());
    Ok(())
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recorded.txt")
}
