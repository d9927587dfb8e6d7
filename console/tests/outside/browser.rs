//! One browser for all tests, driven by the script `driver.py`.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

/// The senders for the reports of pending jobs, by job number; none after the script has ended.
type Waiting = Arc<Mutex<Option<HashMap<u64, Sender<Value>>>>>;

/// The script that drives the browser. It ends when its input is closed, at the latest when this program ends.
struct Driver {
    jobs: Mutex<(ChildStdin, u64)>,
    waiting: Waiting,
}

impl Driver {
    fn start(tools: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/driver.py");
        let mut python = Command::new(tools.join("browser/bin/python"));
        let python = python.arg(script).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python runs");
        let (jobs, answers) = (python.stdin.take().expect("its input"), python.stdout.take().expect("its output"));
        let waiting = Waiting::new(Mutex::new(Some(HashMap::new())));
        let own = waiting.clone();
        thread::spawn(move || {
            for line in BufReader::new(answers).lines() {
                let answer: Value = serde_json::from_str(&line.expect("text")).expect("the script prints JSON");
                let id = answer["id"].as_u64().expect("the number of a job");
                let waits = lock(&own).as_mut().and_then(|waiting| waiting.remove(&id));
                // If the test has failed, no one waits for the report.
                let _gone = waits.map(|waits| waits.send(answer));
            }
            *lock(&own) = None;
            let _ended = python.wait();
        });
        Self { jobs: Mutex::new((jobs, 0)), waiting }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job of `driver.py` in the browser and returns its report.
pub(crate) fn run(tools: &Path, job: &str, arguments: &[&str]) -> Value {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| Driver::start(tools));
    let (done, report) = channel();
    {
        let (input, last) = &mut *lock(&driver.jobs);
        *last += 1;
        lock(&driver.waiting).as_mut().expect("the script runs").insert(*last, done);
        let job = json!({ "id": *last, "job": job, "arguments": arguments });
        writeln!(input, "{job}").expect("the script reads");
    }
    let mut report = report.recv().expect("the script runs until this program ends");
    assert!(report["error"].is_null(), "{}", report["error"].as_str().unwrap_or_default());
    report["report"].take()
}
