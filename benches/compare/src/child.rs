//! One measurement in a process of its own: what the child does, and how the parent has it done.
//!
//! A fresh process for each run, so that no run finds what another has left: memory, threads, a warm allocator.

use crate::features;
use crate::kernel;
use crate::machine::own_status_kib;
use crate::plan::Plan;
use crate::system::System;
use crate::wire::{Measured, from_arguments, to_arguments};
use std::io::{self, Read};
use std::panic;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The first argument of a child that measures; its further ones are the plan.
const MEASURE: &str = "measure-one-run";

/// The only argument of a child that checks what [`features`] is about.
const CHECK: &str = "check-features";

/// What a child says of a plan that its system has no natural way to do.
const UNSUPPORTED: &str = "unsupported";

/// How long the checks of features may take; they take some milliseconds.
const CHECK_LIMIT: Duration = Duration::from_secs(30);

/// What the parent asks of a child, if the arguments are such: its exit status.
pub fn serve(arguments: &[String]) -> Option<ExitCode> {
    let answer = match arguments.split_first()? {
        (first, plan) if first == MEASURE => measure(plan),
        (first, []) if first == CHECK => {
            // The panics that are about to happen are meant to.
            panic::set_hook(Box::new(|_| {}));
            features::check()
        }
        _ => return None,
    };
    Some(match answer {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    })
}

fn measure(arguments: &[String]) -> Result<String, String> {
    let (system, plan) = from_arguments(arguments)?;
    // Calibrates itself at its first use, which must not be in the run.
    kernel::spin(Duration::ZERO);
    let outcome = system.run(&plan);
    Ok(outcome
        .map_or_else(|| UNSUPPORTED.to_string(), |outcome| Measured::of(outcome, own_status_kib("VmHWM")).to_line()))
}

/// Has a child run `plan` on `system`. `None` if the system has no natural way to do it.
///
/// # Errors
/// Why there is no result: the child failed, or took longer than `limit`.
pub fn measure_in_child(system: System, plan: &Plan, limit: Duration) -> Result<Option<Measured>, String> {
    let mut arguments = vec![MEASURE.to_string()];
    arguments.extend(to_arguments(system, plan));
    let line = ask(&arguments, limit)?;
    if line == UNSUPPORTED {
        return Ok(None);
    }
    Measured::from_line(&line).map(Some).map_err(|error| format!("no result: {error}"))
}

/// Makes a child check that the costly features of Postroom are on. Returns those that are.
///
/// # Errors
/// What is not.
pub fn check_features_in_child() -> Result<String, String> {
    ask(&[CHECK.to_string()], CHECK_LIMIT)
}

/// Starts this program again with `arguments`, and returns the last line that it prints.
fn ask(arguments: &[String], limit: Duration) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| format!("the program's own path is not known: {error}"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("no child process: {error}"))?;
    let said = listen(child.stdout.take());
    let complained = listen(child.stderr.take());
    // The end of its output is the end of the child, or so near that a blocking wait for it is short; and unlike asking
    // again and again, waiting takes no time from it.
    let said = said.recv_timeout(limit);
    let status = if said.is_ok() { child.wait() } else { end(&mut child) };
    let status = status.map_err(|error| format!("the child's exit status is not known: {error}"))?;
    match said {
        Err(_) => Err(format!("no result within {} s", limit.as_secs())),
        Ok(_) if !status.success() => Err(describe(status, &complained.recv().unwrap_or_default())),
        Ok(said) => last_line(&said).map(str::to_string).ok_or_else(|| "the child printed nothing".to_string()),
    }
}

/// Reads to the end on a thread of its own, so that a child never waits for its reader.
fn listen(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
        let text = read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&bytes).into_owned());
        // The receiver is gone if the child was too late.
        let _ = sender.send(text);
    });
    receiver
}

fn end(child: &mut Child) -> io::Result<ExitStatus> {
    child.kill()?;
    child.wait()
}

fn describe(status: ExitStatus, complained: &str) -> String {
    match complained.lines().map(str::trim).find(|line| !line.is_empty()) {
        // A panic's first line says where, the next one what.
        Some(first) => {
            let rest: Vec<_> = complained.lines().map(str::trim).skip_while(|line| *line != first).take(2).collect();
            format!("{status}: {}", rest.join(" "))
        }
        None => status.to_string(),
    }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_people_are_no_orders_of_the_parent() {
        assert!(serve(&[]).is_none());
        assert!(serve(&["--quick".to_string()]).is_none());
        assert!(serve(&[CHECK.to_string(), "more".to_string()]).is_none());
    }

    #[test]
    fn a_plan_that_is_none_is_an_error() {
        assert!(measure(&["system=tokio".to_string()]).unwrap_err().contains("workload"));
    }

    #[test]
    fn the_answer_is_the_last_line() {
        assert_eq!(last_line("noise\nanswer \n\n"), Some("answer"));
        assert_eq!(last_line(" \n"), None);
    }
}
