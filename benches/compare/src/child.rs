//! One measurement in a process of its own: the child's side, and the parent's requests.
//!
//! Each run has a process of its own, so that it finds nothing that another run has left: memory, threads, a warm
//! allocator.

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

/// The first argument of a child that measures. The other arguments are the plan.
const MEASURE: &str = "measure-one-run";

/// The only argument of a child that runs the checks of [`features`].
const CHECK: &str = "check-features";

/// The reply of a child whose system has no natural way to carry out the plan.
const UNSUPPORTED: &str = "unsupported";

/// Time limit for the checks of features. They normally take some milliseconds.
const CHECK_LIMIT: Duration = Duration::from_secs(30);

/// Answers the parent's request, if that is what the arguments are. Returns the exit status.
pub fn serve(arguments: &[String]) -> Option<ExitCode> {
    let answer = match arguments.split_first()? {
        (first, plan) if first == MEASURE => measure(plan),
        (first, []) if first == CHECK => {
            // The panics that follow are intended.
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
    // The kernel calibrates itself when it is first used. This must not be part of the run.
    kernel::spin(Duration::ZERO);
    let outcome = system.run(&plan);
    Ok(outcome
        .map_or_else(|| UNSUPPORTED.to_string(), |outcome| Measured::of(outcome, own_status_kib("VmHWM")).to_line()))
}

/// Runs `plan` on `system` in a child. Returns `None` if the system has no natural way to do it.
///
/// # Errors
/// The reason why there is no result: the child failed, or took longer than `limit`.
pub fn measure_in_child(system: System, plan: &Plan, limit: Duration) -> Result<Option<Measured>, String> {
    let mut arguments = vec![MEASURE.to_string()];
    arguments.extend(to_arguments(system, plan));
    let line = ask(&arguments, limit)?;
    if line == UNSUPPORTED {
        return Ok(None);
    }
    Measured::from_line(&line).map(Some).map_err(|error| format!("no result: {error}"))
}

/// Has a child check that the costly features of Postroom are enabled. Returns those that are.
///
/// # Errors
/// The feature that is not enabled.
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
    // When the child's output ends, the child ends, too, or so soon afterwards that a blocking wait is short. Unlike
    // polling, waiting takes no processor time from the child.
    let said = said.recv_timeout(limit);
    let status = if said.is_ok() { child.wait() } else { end(&mut child) };
    let status = status.map_err(|error| format!("the child's exit status is not known: {error}"))?;
    match said {
        Err(_) => Err(format!("no result within {} s", limit.as_secs())),
        Ok(_) if !status.success() => Err(describe(status, &complained.recv().unwrap_or_default())),
        Ok(said) => last_line(&said).map(str::to_string).ok_or_else(|| "the child printed nothing".to_string()),
    }
}

/// Reads a pipe to its end on another thread, so that the child never has to wait for its reader.
fn listen(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
        let text = read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&bytes).into_owned());
        // The receiver has been dropped if the child was too late.
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
        // The first line of a panic has the place, and the next one has the message.
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
