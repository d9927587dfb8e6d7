//! The file of a failing run: its turns in Chrome's [trace event format], which Perfetto displays, and its choices,
//! from which the run is replayed.
//!
//! The number of the turn serves as the time, since many turns happen at one moment of virtual time; that moment is
//! among the arguments of each turn. A process is shown as a thread. An arrow leads from a turn to the next turn of
//! each process to which it has sent something.
//!
//! [trace event format]: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

use super::report::FailedRun;
use super::strategy::Schedules;
use super::trace::ExpectedTurns;
use crate::env::program::this_node;
use crate::sync::current_thread;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of turns in a file, counted from the first turn. The list of choices is always complete.
const SHOWN: usize = 100_000;

/// Maximum length of a test's name within a file name, in bytes: file systems allow 255 for the whole file name.
const LONGEST: usize = 200;

/// The file with which Cargo and other tools mark a folder of build products.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// Writes the file of a failed run to the folder `postroom` among the build products, and returns its path. `choices`
/// are those of the smallest schedule.
pub(crate) fn write(run: &FailedRun, schedules: Schedules, choices: &[u16]) -> io::Result<PathBuf> {
    let folder = build_folder().join("postroom");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}-{}.json", file_name(&run.test), run.seed));
    // The file is renamed once it is complete, because another program or thread may write or read the same file.
    let unfinished = folder.join(format!("{}-{:?}", this_node(), current_thread().id()));
    let written = std::fs::write(&unfinished, to_json(run, schedules, choices).to_string());
    let written = written.and_then(|()| std::fs::rename(&unfinished, &path));
    if written.is_err() {
        let _may_not_exist = std::fs::remove_file(&unfinished);
    }
    written.map(|()| path)
}

fn to_json(run: &FailedRun, schedules: Schedules, choices: &[u16]) -> Value {
    let listed = &run.smallest;
    let turns = &listed.turns()[..listed.turns().len().min(SHOWN)];
    let track = |actor: u32| json!({"pid": 1, "tid": actor});
    let mut events = vec![event("M", "process_name", track(0), json!({"args": {"name": run.test}}))];
    for (actor, label) in listed.labels().iter().enumerate() {
        events.push(event("M", "thread_name", track(actor as u32), json!({"args": {"name": label}})));
        let order = json!({"args": {"sort_index": actor}});
        events.push(event("M", "thread_sort_index", track(actor as u32), order));
    }
    // The arrows that lead to the next turn of each process.
    let (mut arriving, mut arrows): (BTreeMap<u32, Vec<usize>>, _) = (BTreeMap::new(), 0);
    for (number, turn) in turns.iter().enumerate() {
        let what = listed.what(turn);
        let arguments = json!({
            "turn": number + 1,
            "process": listed.label(turn.actor),
            "kind": turn.kind.name(),
            "virtual time": format!("{:?}", turn.at),
        });
        let slice = json!({"ts": number, "dur": 1, "args": arguments});
        events.push(event("X", what.trim(), track(turn.actor), slice));
        for arrow in arriving.remove(&turn.actor).unwrap_or_default() {
            events.push(event("f", "sent", track(turn.actor), json!({"ts": number, "id": arrow, "bp": "e"})));
        }
        for &to in &turn.sent {
            arriving.entry(to).or_default().push(arrows);
            events.push(event("s", "sent", track(turn.actor), json!({"ts": number, "id": arrows})));
            arrows += 1;
        }
    }
    json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "test": run.test,
            "seed": run.seed,
            "strategy": schedules.name(),
            "failure": run.message,
            "choices": choices,
            "turns left out": listed.turns().len() - turns.len(),
        },
        "traceEvents": events,
    })
}

/// Creates an event of the given phase, with the members of both objects.
fn event(phase: &str, name: &str, mut track: Value, rest: Value) -> Value {
    if let (Value::Object(event), Value::Object(rest)) = (&mut track, rest) {
        event.extend([("ph".into(), phase.into()), ("name".into(), name.into()), ("cat".into(), "postroom".into())]);
        event.extend(rest);
    }
    track
}

/// Replaces characters that some file system does not allow in the name of a file.
fn file_name(test: &str) -> String {
    let name = test.replace("::", ".");
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    name.chars().map(plain).take(LONGEST).collect()
}

/// Returns the folder of Cargo's build products. This is `CARGO_TARGET_DIR` if it is an absolute path (tests run in the
/// folder of their package, so a relative path is useless), otherwise the folder that is marked as such and contains
/// the test program, or otherwise the folder for temporary files.
fn build_folder() -> PathBuf {
    let said = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let found = || {
        let program = std::env::current_exe().ok()?;
        program.ancestors().find(|folder| folder.join(CACHE_TAG).is_file()).map(Path::to_path_buf)
    };
    said.or_else(found).unwrap_or_else(std::env::temp_dir)
}

/// A run from a trace file, to be replayed.
pub(crate) struct Recorded {
    pub(crate) test: String,
    pub(crate) seed: u64,
    pub(crate) schedules: Schedules,
    pub(crate) choices: Vec<u16>,
    pub(crate) turns: ExpectedTurns,
}

impl Recorded {
    /// Reads a trace file.
    ///
    /// # Errors
    /// Returns the reason why the run cannot be replayed.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|error| error.to_string())?;
        let file: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        Self::of(&file).ok_or_else(|| "it is no trace of a simulated test".to_string())
    }

    fn of(file: &Value) -> Option<Self> {
        let data = &file["otherData"];
        let choice = |value: &Value| u16::try_from(value.as_u64()?).ok();
        let turn = |event: &Value| {
            let text = |key: &str| Some(event["args"][key].as_str()?.to_string());
            Some((text("process")?, text("kind")?))
        };
        let slices = file["traceEvents"].as_array()?.iter().filter(|event| event["ph"] == "X");
        Some(Self {
            test: data["test"].as_str()?.to_string(),
            seed: data["seed"].as_u64()?,
            schedules: Schedules::of_name(data["strategy"].as_str()?)?,
            choices: data["choices"].as_array()?.iter().map(choice).collect::<Option<_>>()?,
            turns: ExpectedTurns(slices.map(turn).collect::<Option<_>>()?),
        })
    }
}
