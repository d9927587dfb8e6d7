//! Runs this program under Callgrind and reads how many instructions it took.

use std::env;
use std::io;
use std::process::{Command, Stdio};

use crate::operation::Operation;

/// How many operations the two runs do. The first is enough for memory to be taken from what was given back, the second
/// for a thousand instructions more or less at the start to be a hundredth of one for each operation.
const FEW: u64 = 10_000;
const MANY: u64 = 110_000;

/// Why there is no number.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error("Valgrind is needed to count instructions, and there is no `valgrind` in the path: install it")]
    Absent,
    #[error("`valgrind` could not be run: {0}")]
    Run(#[source] io::Error),
    #[error("{operation} failed under Valgrind ({status}), which said:\n{output}")]
    Failed { operation: &'static str, status: std::process::ExitStatus, output: String },
    #[error("expected a line `Collected : NUMBER` from Callgrind for {operation}, which said:\n{output}")]
    Unreadable { operation: &'static str, output: String },
    #[error(
        "{MANY} times {operation} took no more instructions than {FEW} times: what is counted of it, \
         see src/operation.rs, is not there"
    )]
    Nothing { operation: &'static str },
}

/// How many instructions one operation takes.
pub fn instructions(operation: Operation) -> Result<f64, MeasureError> {
    let few = collected(operation, FEW)?;
    let many = collected(operation, MANY)?;
    if many <= few {
        return Err(MeasureError::Nothing { operation: operation.name() });
    }
    Ok((many - few) as f64 / (MANY - FEW) as f64)
}

fn collected(operation: Operation, count: u64) -> Result<u64, MeasureError> {
    let program = env::current_exe().map_err(MeasureError::Run)?;
    let run = Command::new("valgrind")
        // Only the total is wanted, which Callgrind says at its end.
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(operation.collecting())
        .arg(program)
        .args([operation.name(), &count.to_string()])
        .stdin(Stdio::null())
        .output();
    let run = run.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MeasureError::Absent,
        _ => MeasureError::Run(error),
    })?;
    let output = String::from_utf8_lossy(&run.stderr).into_owned();
    let operation = operation.name();
    if !run.status.success() {
        return Err(MeasureError::Failed { operation, status: run.status, output });
    }
    match parse(&output) {
        Some(instructions) => Ok(instructions),
        None => Err(MeasureError::Unreadable { operation, output }),
    }
}

/// Finds the total: `==1234== Collected : 5678`.
fn parse(output: &str) -> Option<u64> {
    let total = output.lines().find_map(|line| line.split_once("Collected :"))?.1;
    total.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_total_is_found_among_other_lines() {
        let output = "==7== Callgrind\n==7== Events    : Ir\n==7== Collected : 1234567\n==7== \n";
        assert_eq!(parse(output), Some(1_234_567));
    }

    #[test]
    fn without_a_total_there_is_no_number() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("==7== Collected :"), None);
        assert_eq!(parse("==7== Collected : many"), None);
    }
}
