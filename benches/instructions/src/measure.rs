//! Runs this program under Callgrind, and reads its cost: the number of instructions, and how many of them are atomic
//! and take a cache line for themselves.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io;
use std::process::{Command, Stdio};

use crate::operation::Operation;
use crate::profile::{Profile, is_exclusive};

/// Numbers of operations in the two runs. The first number is large enough for freed memory to be reused. With the
/// second, a thousand instructions more or less at the start make only a hundredth of an instruction per operation.
const FEW: u64 = 10_000;
const MANY: u64 = 110_000;

const TUNABLES: &str = "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000";

/// The reason why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error("{program} is needed to count instructions, and there is none in the path: install {package}")]
    Absent { program: &'static str, package: &'static str },
    #[error("`{program}` could not be run: {error}")]
    Run { program: &'static str, error: io::Error },
    #[error("{operation} failed under Valgrind ({status}), which said:\n{output}")]
    Failed { operation: &'static str, status: std::process::ExitStatus, output: String },
    #[error("Callgrind's profile of {operation} could not be read: {error}")]
    Profile { operation: &'static str, error: io::Error },
    #[error("expected a profile with addresses from Callgrind for {operation}; line {line} of it is {text:?}")]
    Unreadable { operation: &'static str, line: usize, text: String },
    #[error(
        "{MANY} times {operation} took no more instructions than {FEW} times: what is counted of it, \
         see src/operation.rs, is not there"
    )]
    Nothing { operation: &'static str },
}

/// The cost of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    pub instructions: f64,
    /// Atomic read-modify-writes and full fences. Each of them takes as long as 100 instructions or more, even if no
    /// other thread has the cache line.
    pub atomics: f64,
}

/// Returns the cost of one operation.
pub fn cost(operation: Operation) -> Result<Cost, MeasureError> {
    let (few, many) = (run(operation, FEW)?, run(operation, MANY)?);
    let total = |profile: &Profile| profile.objects.values().flat_map(HashMap::values).sum();
    let instructions = each(total(&few), total(&many));
    if instructions <= 0.0 {
        return Err(MeasureError::Nothing { operation: operation.name() });
    }
    let total = |profile| Ok::<u64, MeasureError>(atomics(profile)?.values().sum());
    // Runs differ by a few atomic instructions, so the difference may be below zero.
    Ok(Cost { instructions, atomics: each(total(&few)?, total(&many)?).max(0.0) })
}

/// Returns the source lines with atomic instructions, each with the number of atomic instructions that one operation
/// executes on that line.
pub fn places(operation: Operation) -> Result<Vec<(String, f64)>, MeasureError> {
    let (few, many) = (atomics(&run(operation, FEW)?)?, atomics(&run(operation, MANY)?)?);
    let mut places = HashMap::<String, f64>::new();
    for (at, many) in many {
        let each = each(few.get(&at).copied().unwrap_or(0), many);
        if each >= 0.005 {
            *places.entry(source(&at.0, at.1)?).or_default() += each;
        }
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by(|one, other| other.1.total_cmp(&one.1));
    Ok(places)
}

fn each(few: u64, many: u64) -> f64 {
    (many as f64 - few as f64) / (MANY - FEW) as f64
}

fn run(operation: Operation, count: u64) -> Result<Profile, MeasureError> {
    let program = env::current_exe().map_err(|error| MeasureError::Run { program: "postroom-instructions", error })?;
    let file = env::temp_dir().join(format!("postroom-instructions-{}-{count}.profile", std::process::id()));
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--compress-strings=no", "--compress-pos=no"])
        // Some processors copy and fill long values with one repeated instruction, which Callgrind would count once per
        // byte. The setting prevents the use of that instruction.
        .env("GLIBC_TUNABLES", TUNABLES)
        .arg(format!("--callgrind-out-file={}", file.display()))
        .args(operation.collecting())
        .arg(program)
        .args([operation.name(), &count.to_string()])
        .stdin(Stdio::null())
        .output();
    let run = run.map_err(|error| absent_or("valgrind", "Valgrind", error))?;
    let operation = operation.name();
    if !run.status.success() {
        let output = String::from_utf8_lossy(&run.stderr).into_owned();
        return Err(MeasureError::Failed { operation, status: run.status, output });
    }
    let text = fs::read_to_string(&file).map_err(|error| MeasureError::Profile { operation, error });
    // A profile that is left in the temporary folder does no harm.
    let _ = fs::remove_file(&file);
    Profile::parse(&text?).map_err(|(line, text)| MeasureError::Unreadable { operation, line, text })
}

/// Returns the execution count of each atomic instruction, by object file and address.
fn atomics(profile: &Profile) -> Result<HashMap<(String, u64), u64>, MeasureError> {
    let mut atomics = HashMap::new();
    for (object, counts) in &profile.objects {
        // Code that Valgrind generates belongs to no file, and has no atomic instructions.
        if !fs::exists(object).unwrap_or(false) {
            continue;
        }
        for line in tool("objdump", &["--disassemble", "--no-show-raw-insn", object])?.lines() {
            if let Some(address) = atomic(line)
                && let Some(count) = counts.get(&address)
            {
                atomics.insert((object.clone(), address), *count);
            }
        }
    }
    Ok(atomics)
}

/// Parses a line of `objdump`. Returns the address if the instruction on that line is atomic.
fn atomic(line: &str) -> Option<u64> {
    let (address, instruction) = line.trim_start().split_once(":\t")?;
    if is_exclusive(instruction) { u64::from_str_radix(address, 16).ok() } else { None }
}

/// Returns the source line of an instruction. If functions are inlined there, it is the line in the innermost function
/// that is not part of the standard library.
fn source(object: &str, address: u64) -> Result<String, MeasureError> {
    let chain = tool("addr2line", &["--inlines", "--exe", object, &format!("{address:#x}")])?;
    let line = chain.lines().find(|line| !line.starts_with("/rustc/")).or(chain.lines().last());
    let line = line.unwrap_or("(unknown)").split(" (discriminator").next().unwrap_or_default();
    // Files of the runtime are shown by their path within it. Files of other crates are shown by a path that begins
    // with the name of the crate.
    let registry =
        |line: &str| line.split_once("/registry/src/").and_then(|(_, path)| Some(path.split_once('/')?.1.into()));
    let own = |line: &str| line.split_once("/runtime/src/").map(|(_, path)| path.into());
    Ok(own(line).or_else(|| registry(line)).unwrap_or_else(|| line.to_owned()))
}

/// Runs a program of the binutils, and returns its output.
fn tool(program: &'static str, arguments: &[&str]) -> Result<String, MeasureError> {
    let run = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let run = run.map_err(|error| absent_or(program, "binutils", error))?;
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

fn absent_or(program: &'static str, package: &'static str, error: io::Error) -> MeasureError {
    match error.kind() {
        io::ErrorKind::NotFound => MeasureError::Absent { program, package },
        _ => MeasureError::Run { program, error },
    }
}
