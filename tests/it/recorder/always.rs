//! Flight recorders: they always run, keep the newest events, and call a hook when something goes wrong.

use super::{Counter, Failing, Stuck, check, handled, record};
use postroom::prelude::*;
use postroom::record::{DumpCause, FlightRecorder};
use postroom_tests::{Latch, eventually};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn a_snapshot_shows_what_has_happened_and_the_recorder_goes_on() {
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let flight =
        runtime.flight_recorder(FlightRecorder::new().keep(Duration::from_secs(600)).sample(1)).expect("it starts");
    for round in 1..=3 {
        counter.add(1).wait().expect("it answers");
        runtime.until_idle().expect("outside");
        let snapshot = flight.snapshot();
        check(&snapshot);
        assert_eq!(handled(&snapshot), round);
    }
    drop(flight);
    counter.add(1).wait().expect("it answers");
    assert_eq!(handled(&record(runtime.host()).stop()), 0);
}

#[test]
fn a_snapshot_has_the_newest_only() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let flight = runtime.flight_recorder(FlightRecorder::new().keep(Duration::from_nanos(1))).expect("it starts");
    counter.add(1).wait().expect("it answers");
    runtime.until_idle().expect("outside");
    let snapshot = flight.snapshot();
    assert!(snapshot.duration() <= Duration::from_nanos(1));
    assert_eq!(handled(&snapshot), 0);
}

#[test]
fn a_stall_calls_the_hook_with_what_led_to_it_and_a_panic_of_it_does_no_harm() {
    let runtime = Runtime::builder().workers(1).stall_limit(Duration::from_millis(5)).build().expect("a worker");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let causes = Arc::new(Mutex::new(Vec::new()));
    let seen = causes.clone();
    let recorder = FlightRecorder::new().sample(1).dump_every(Duration::ZERO).on_dump(move |cause, recording| {
        check(&recording);
        seen.lock().unwrap().push((cause, handled(&recording)));
        panic!("as the test wants");
    });
    let flight = runtime.flight_recorder(recorder).expect("it starts");
    for round in 1..=2 {
        let (stuck, begun, until) =
            (runtime.spawn(Stuck).serve().expect("it starts"), Latch::default(), Latch::default());
        stuck.block(begun.clone(), until.clone()).send().expect("it lives");
        begun.wait();
        // This message waits behind the step, since there is no stall if nothing waits. Another thread answers it.
        counter.add(1).wait().expect("it answers");
        eventually(|| causes.lock().unwrap().len() >= round);
        let (cause, handled) = causes.lock().unwrap()[round - 1];
        assert_eq!(cause, DumpCause::Stalled(stuck.pid()));
        assert!(handled >= 2 * round as u64 - 1, "{handled}");
        until.open();
        runtime.until_idle().expect("outside");
    }
    assert_eq!(flight.skipped(), 0);
}

#[test]
fn a_supervisor_that_gives_up_calls_the_hook_and_others_within_the_minute_are_counted() {
    // There is no stall limit: if a worker were preempted in a step, the dump for that stall would be the only one of
    // the minute.
    let runtime = Runtime::builder().workers(2).stall_limit(Duration::MAX).build().expect("two workers");
    let causes = Arc::new(Mutex::new(Vec::new()));
    let seen = causes.clone();
    let recorder = FlightRecorder::new().on_dump(move |cause, _| seen.lock().unwrap().push(cause));
    let flight = runtime.flight_recorder(recorder).expect("it starts");
    for round in 0..3 {
        let supervisor = Supervisor::one_for_one().intensity(0, Duration::from_secs(1));
        let tree = supervisor.child("child", |spawn| spawn.of(Failing).fail()).spawn(&runtime);
        eventually(|| causes.lock().unwrap().len() as u64 + flight.skipped() > round);
        drop(tree);
    }
    assert!(matches!(causes.lock().unwrap()[..], [DumpCause::GaveUp(_)]));
    assert_eq!(flight.skipped(), 2);
}
