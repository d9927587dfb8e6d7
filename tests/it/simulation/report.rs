//! The report of a failing run.

use super::{Adder, Cell};
use postroom::error::{BuildError, ShutdownError};
use postroom::prelude::*;
use postroom::test::{FailedRun, Sim, Simulation, SimulationError};
use postroom_tests::bomb::explode;
use std::collections::HashMap;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

fn failed(error: SimulationError) -> FailedRun {
    match error {
        SimulationError::Failed(failed) => *failed,
        other => panic!("expected a failed run: {other}"),
    }
}

/// In the smallest schedule, both reads come before the writes. It needs only default choices.
#[test]
fn a_lost_update_is_found_and_its_schedule_made_small() {
    let test = Simulation::new("bank::lost_update").check(|sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        let adders: Vec<_> = (0..2).map(|_| sim.spawn(Adder { cell }).add().expect("it starts")).collect();
        for adder in adders {
            adder.wait().expect("it ends");
        }
        assert_eq!(cell.get().wait(), Ok(2));
    });
    let failed = failed(test.expect_err("two of two hundred seeds find it"));
    let text = failed.to_string();
    assert!(failed.place.starts_with("tests/it/simulation/report.rs:"), "{text}");
    for part in ["`bank::lost_update` failed with seed", "left: Ok(1)", "Adder#2", "gets CellGet", "sends to Cell#1"] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    assert!(text.ends_with(&format!("again:  POSTROOM_SEED={} cargo test lost_update", failed.seed)), "{text}");
    assert!(failed.schedule().lines().count() < 20, "{text}");
}

/// Steps that block are not nested: each of them continues as soon as its own answer has arrived.
#[test]
fn steps_that_wait_on_their_stacks_overlap() {
    let test = Simulation::new("overlap").check(|sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        for _ in 0..3 {
            let adder = sim.spawn(Adder { cell }).serve().expect("it starts");
            adder.add_waiting().send().expect("it lives");
        }
        sim.until_idle().expect("outside");
        assert_eq!(cell.get().wait(), Ok(3));
    });
    let failed = failed(test.expect_err("the updates are lost"));
    assert!(failed.message.contains("right: Ok(3)"), "{failed}");
}

/// The run does not wait for events outside of the simulation.
#[test]
fn a_test_that_nothing_can_go_on_with_is_stuck() {
    let test = Simulation::new("stuck").seeds(3).check(|_sim| {
        postroom::Mailbox::new().expect("there are slots").receive();
    });
    let failed = failed(test.expect_err("nothing comes"));
    assert!(failed.message.starts_with("stuck: nothing can go on"), "{failed}");
    assert!(failed.message.contains("the test waits for an answer"), "{failed}");
}

/// Catches: the end of the test's thread, because the panic payload of the body panics again when it is dropped.
#[test]
fn a_payload_that_panics_in_its_drop_is_a_failed_run() {
    let test = Simulation::new("bomb").seeds(2).check(|_sim| -> () { explode(1) });
    let failed = failed(test.expect_err("the body panics"));
    assert_eq!(failed.message, "a value that is not text", "{failed}");
}

#[process]
struct Restless;

#[process]
impl Restless {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn go_on(&mut self, ctx: &mut Context<Self>) {
        ctx.address().go_on().send().expect("it lives");
    }
}

#[test]
fn a_test_without_end_names_the_busiest() {
    let test = Simulation::new("endless").max_turns(500).check(|sim| {
        let restless = sim.spawn(Restless).serve().expect("it starts");
        restless.go_on().send().expect("it lives");
        sim.until_idle().expect("outside");
    });
    let failed = failed(test.expect_err("it never rests"));
    assert!(failed.message.starts_with("endless: 500 turns"), "{failed}");
    assert!(failed.message.contains("Restless#1: "), "{failed}");
}

/// Each run differs from the others, since the body increments a static.
#[test]
fn a_test_that_differs_from_run_to_run_is_refused() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let test = Simulation::new("differs").check(|sim| {
        for _ in 0..RUNS.fetch_add(1, Ordering::SeqCst) {
            let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
            cell.set(1).wait().expect("it lives");
        }
    });
    let error = test.expect_err("the second run has one process more");
    assert!(matches!(error, SimulationError::Differs { seed: 0, .. }), "{error}");
    assert!(error.to_string().contains("`differs` is not deterministic: with seed 0, turn"), "{error}");
}

#[test]
fn what_never_happens_fails_the_test() {
    let test = Simulation::new("never").seeds(5).check(|sim| {
        postroom::test::sometimes!(sim.random() == 0, "a number is zero");
        postroom::test::sometimes!(true, "it rains");
    });
    let error = test.expect_err("it never is");
    assert!(matches!(&error, SimulationError::Never { what, runs: 5, .. } if what == &["a number is zero"]), "{error}");
    assert!(error.to_string().contains("met `sometimes!(…, \"a number is zero\")`, which at least one"), "{error}");
}

/// Returns the results of a run as text.
fn story(seed: u64) -> String {
    use std::sync::{Arc, Mutex};
    let story = Arc::new(Mutex::new(String::new()));
    let told = story.clone();
    let test = Simulation::new("story").seed(seed).check(move |sim| {
        sim.crash::<Adder>(0.2);
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        let adders: Vec<_> = (0..4).map(|_| sim.spawn(Adder { cell }).add().expect("it starts")).collect();
        let ends: Vec<_> = adders.into_iter().map(|adder| adder.wait().is_ok()).collect();
        *told.lock().expect("one thread") = format!("{:?} {ends:?} {}", cell.get().wait(), sim.random());
    });
    test.expect("nothing is asserted");
    story.lock().expect("one thread").clone()
}

/// Runs in this program, at the same time as other tests. `../../book` tests the same from a user's point of view.
#[test]
fn a_seed_is_the_same_run_each_time_and_seeds_differ() {
    let mut stories = HashMap::new();
    for seed in 0..30 {
        let first = story(seed);
        let again = std::thread::scope(|scope| {
            let others: Vec<_> = (0..3).map(|_| scope.spawn(move || story(seed))).collect();
            others.into_iter().map(|other| other.join().expect("it is told")).collect::<Vec<_>>()
        });
        assert!(again.iter().all(|story| *story == first), "seed {seed}: {first} and {again:?}");
        stories.insert(first, seed);
    }
    assert!(stories.len() > 20, "only {} of 30 seeds differ", stories.len());
}

#[postroom::test(seeds = 10)]
fn the_macro_takes_a_sync_body(sim: Sim) -> Result<(), Box<dyn std::error::Error>> {
    let cell = sim.spawn(Cell { value: 7 }).serve()?;
    assert_eq!(cell.get().wait()?, 7);
    Ok(())
}

#[postroom::test(seeds = 10, strategy = "pct", max_time = "2h", max_turns = 10_000, faults = "none")]
async fn the_macro_takes_an_async_body(sim: Sim) {
    sim.crash::<Cell>(1.0);
    let cell = sim.spawn(Cell { value: 7 }).serve().expect("it starts");
    assert_eq!(cell.get().await, Ok(7), "there are no faults");
}

#[postroom::test(seeds = 3)]
#[should_panic(expected = "the test returned the error \"of the body\"")]
fn an_error_of_the_body_fails_the_test(_sim: Sim) -> Result<(), &'static str> {
    Err("of the body")
}

#[test]
fn threads_and_sockets_are_refused_with_what_to_do() {
    let test = Simulation::new("tokio").builder(|builder| builder.tokio()).check(|_sim| {});
    let error = test.expect_err("sockets are the system's").to_string();
    assert!(error.contains("`tokio` cannot be simulated") && error.contains("test the part behind them"), "{error}");
    let test = Simulation::new("pinned").seeds(1).check(|sim| {
        let error = sim.spawn_pinned(|| Cell { value: 0 }).serve().expect_err("a thread of its own").to_string();
        assert!(error.contains("a simulation has no threads"), "{error}");
        for builder in [Runtime::builder(), Runtime::builder().paused()] {
            let error = builder.build().expect_err("a second runtime");
            assert!(matches!(error, BuildError::Simulated), "{error}");
        }
    });
    test.expect("typed errors");
}

#[process]
struct Worker {
    done: mpsc::Sender<()>,
}

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn work(&mut self) {
        self.done.send(()).expect("the test waits for it");
    }
}

/// Catches: a shutdown that waits in the simulation's time, and so reports all processes as stuck, since that time
/// passes at once; and a drain that does not handle queued messages.
#[test]
fn a_simulated_test_cannot_wait_for_the_end_of_a_runtime() {
    for drains in [false, true] {
        let runtime = Runtime::builder().workers(1).paused().build().expect("it starts");
        let (done, work) = mpsc::channel();
        let worker = runtime.spawn(Worker { done }).serve().expect("it starts");
        worker.work().send().expect("it lives");
        let end = worker.pid().join();
        let runtime = Mutex::new(Some(runtime));
        let test = Simulation::new("ends").seed(0).check(move |_sim| {
            let Some(runtime) = runtime.lock().expect("one thread").take() else { return };
            let hour = Duration::from_secs(3600);
            let ended = if drains { runtime.drain(hour) } else { runtime.shutdown_within(hour) };
            assert_eq!(ended.map(|report| report.to_string()), Err(ShutdownError::Simulated));
        });
        test.expect("a typed error");
        assert_eq!(end.wait(), ExitReason::Shutdown);
        assert_eq!(work.try_iter().count(), usize::from(drains));
    }
}
