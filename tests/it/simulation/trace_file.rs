//! The file of a failing run, and its replay.

use super::{Adder, Cell};
use postroom::test::{Coverage, FailedRun, Schedules, Sim, Simulation, SimulationError};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command as Program;

/// Runs `more` unrelated processes, and then two adders. One adder's update may get lost.
fn lose_update(sim: &Sim, more: usize) {
    let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
    for _ in 0..more {
        sim.spawn(Cell { value: 0 }).serve().expect("it starts").set(1).send().expect("it lives");
    }
    let adders: Vec<_> = (0..2).map(|_| sim.spawn(Adder { cell }).add().expect("it starts")).collect();
    for adder in adders {
        adder.wait().expect("it ends");
    }
    assert_eq!(cell.get().wait(), Ok(2));
}

fn failed(test: Result<Coverage, SimulationError>) -> FailedRun {
    match test.expect_err("the update is lost") {
        SimulationError::Failed(failed) => *failed,
        other => panic!("expected a failed run: {other}"),
    }
}

/// Returns a failing run with the given schedules, and its trace file.
fn write(name: &str, schedules: Schedules) -> (FailedRun, PathBuf) {
    let failed = failed(Simulation::new(name).schedules(schedules).check(|sim| lose_update(&sim, 0)));
    let path = failed.trace.clone().expect("it can be written");
    (failed, path)
}

fn replay(name: &str, path: &PathBuf, body: impl Fn(Sim) + Send + Sync + 'static) -> Result<Coverage, SimulationError> {
    Simulation::new(name).replay(path).check(body)
}

#[test]
fn the_file_has_a_track_for_each_process_and_a_slice_for_each_turn() {
    let (failed, path) = write("trace_file::content", Schedules::Portfolio);
    assert!(path.ends_with(format!("postroom/trace_file.content-{}.json", failed.seed)), "{}", path.display());
    assert!(failed.to_string().contains(&format!("trace:  {}", path.display())), "{failed}");
    let text = std::fs::read(&path).expect("it was written");
    let file: Value = serde_json::from_slice(&text).expect("it is JSON");
    let events = file["traceEvents"].as_array().expect("a list");
    let those = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let named = those("M").into_iter().filter(|event| event["name"] == "thread_name");
    let names: BTreeSet<_> = named.filter_map(|event| event["args"]["name"].as_str()).collect();
    let names: Vec<_> = names.into_iter().collect();
    assert_eq!(names, ["Adder#1", "Adder#2", "Cell#1", "the test"]);
    let slices = those("X");
    assert_eq!(slices.len(), failed.schedule().lines().count());
    for (number, (slice, line)) in slices.iter().zip(failed.schedule().lines()).enumerate() {
        assert_eq!((&slice["ts"], &slice["dur"]), (&number.into(), &1.into()), "{slice}");
        let (process, what) = (slice["args"]["process"].as_str(), slice["name"].as_str());
        assert!(line.contains(process.expect("a name")) && line.ends_with(what.expect("a name")), "{slice}: {line}");
    }
    // Each arrow starts in an earlier turn than it ends in, on whatever track.
    let (begun, arrived) = (those("s"), those("f"));
    assert!(arrived.len() > 4, "{arrived:?}");
    for end in arrived {
        let start = begun.iter().find(|start| start["id"] == end["id"]).expect("it has begun");
        assert!(start["ts"].as_u64() < end["ts"].as_u64(), "{start} {end}");
    }
    assert_eq!(file["otherData"]["seed"], failed.seed);
    assert_eq!(file["otherData"]["test"], "trace_file::content");
}

#[test]
fn a_replay_is_the_smallest_schedule_again() {
    for (name, schedules) in [("again", Schedules::Random), ("again_exhaustive", Schedules::Exhaustive)] {
        let (first, path) = write(name, schedules);
        let again = failed(replay(name, &path, |sim| lose_update(&sim, 0)));
        assert_eq!((again.seed, &again.departure), (first.seed, &None));
        assert_eq!(again.schedule(), first.schedule());
        assert_eq!((&again.message, &again.place), (&first.message, &first.place));
        assert!(again.replay_command().contains(&format!("POSTROOM_REPLAY={}", path.display())));
    }
}

/// The assertion after the last turn of the schedule has been removed, so the whole schedule fits, and nothing fails.
#[test]
fn a_replay_passes_if_the_whole_schedule_fits_and_does_not_fail() {
    let (_, path) = write("mended", Schedules::Random);
    let test = replay("mended", &path, |sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        let adders: Vec<_> = (0..2).map(|_| sim.spawn(Adder { cell }).add().expect("it starts")).collect();
        for adder in adders {
            adder.wait().expect("it ends");
        }
        cell.get().wait().expect("it lives");
        cell.get().wait().expect("it lives");
    });
    assert_eq!(test.expect("it fits").runs, 1);
}

#[test]
fn a_replay_of_a_changed_program_says_where_it_departs() {
    let (first, path) = write("changed", Schedules::Random);
    // The changed program also fails.
    let other = failed(replay("changed", &path, |sim| lose_update(&sim, 1)));
    let departure = other.departure.clone().expect("there is one more process");
    let line = |run: &FailedRun| run.schedule().lines().nth(departure.turn - 1).expect("a turn").to_string();
    assert_ne!(line(&first), line(&other));
    assert!(departure.is.contains("Cell#2"), "{departure}");
    let text = other.to_string();
    assert!(text.contains(&format!("departed in turn {} of {}", departure.turn, path.display())), "{text}");

    // If a replay departs from the schedule and passes, it says nothing about the failure.
    let test = replay("changed", &path, |sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        for _ in 0..2 {
            sim.spawn(Adder { cell }).add().expect("it starts").wait().expect("it ends");
        }
        assert_eq!(cell.get().wait(), Ok(2));
    });
    let error = test.expect_err("another schedule");
    assert!(matches!(&error, SimulationError::Departed { departure, .. } if departure.trace == path), "{error}");
    assert!(error.to_string().contains("its replay proves nothing"), "{error}");

    // The run ends before the schedule does.
    let error = replay("changed", &path, |_sim| {}).expect_err("nothing runs");
    assert!(matches!(&error, SimulationError::Departed { departure, .. } if departure.is == "the end"), "{error}");
}

#[test]
fn a_file_that_is_no_trace_is_an_error_that_says_so() {
    let folder = std::env::temp_dir().join(format!("postroom-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (number, text) in ["", "{}", "[1, 2", r#"{"traceEvents": [], "otherData": {"test": 1}}"#].iter().enumerate() {
        let path = folder.join(number.to_string());
        std::fs::write(&path, text).expect("a file");
        let error = replay("unreadable", &path, |_sim| {}).expect_err("no trace");
        assert!(matches!(&error, SimulationError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
    let error = replay("unreadable", &folder.join("none"), |_sim| {}).expect_err("no file");
    assert!(error.to_string().contains("cannot be replayed"), "{error}");
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// The environment variable that is set only in the child program.
const CHILD: &str = "POSTROOM_TEST_CHILD";

/// The tests below run this in a child program. Otherwise it does nothing.
#[test]
fn victim() {
    if std::env::var_os(CHILD).is_some() {
        Simulation::new("victim").run(|sim| lose_update(&sim, 0));
    }
}

/// Runs `victim` in a child program with these environment variables, and returns its error output.
fn victim_with(variables: &[(&str, &str)]) -> String {
    let program = std::env::current_exe().expect("Linux knows");
    let mut victim = Program::new(program);
    victim.args(["--exact", "simulation::trace_file::victim", "--nocapture"]).env(CHILD, "1");
    let output = victim.envs(variables.iter().copied()).output().expect("it starts");
    assert!(!output.status.success(), "the victim fails");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_environment_says_where_to_and_what_to_replay() {
    let folder = std::env::temp_dir().join(format!("postroom-target-{}", std::process::id()));
    let text = victim_with(&[("CARGO_TARGET_DIR", &folder.to_string_lossy())]);
    let path = text.lines().find_map(|line| line.trim().strip_prefix("trace:  ")).expect("its path").to_string();
    assert!(PathBuf::from(&path).starts_with(&folder) && PathBuf::from(&path).is_file(), "{text}");

    let again = victim_with(&[("POSTROOM_REPLAY", &path)]);
    assert!(again.contains("(run 1 of 1)") && again.contains(&format!("POSTROOM_REPLAY={path}")), "{again}");

    // The victim ignores another test's file, and runs as usual.
    let (_, other) = write("not_the_victim", Schedules::Random);
    let text = victim_with(&[("POSTROOM_REPLAY", &other.to_string_lossy())]);
    assert!(text.contains("of 100)"), "{text}");
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// Catches: an error of writing the file that is reported in place of the test's own failure.
#[test]
fn a_file_that_cannot_be_written_hides_nothing() {
    let file = std::env::current_exe().expect("Linux knows");
    let text = victim_with(&[("CARGO_TARGET_DIR", &file.to_string_lossy())]);
    assert!(text.contains("left: Ok(1)") && text.contains("trace:  not written, "), "{text}");
}
