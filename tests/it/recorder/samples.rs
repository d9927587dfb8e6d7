//! Flight recorders that take samples: what they record during a sample, and what they record between two samples.

use super::{Client, Counter, Failing, Stuck, check, count, handled, record, with_fate};
use postroom::prelude::*;
use postroom::record::{EndKind, EventKind, Fate, FlightRecorder, FlightRecording, Recording};
use postroom_tests::{Latch, eventually};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Returns how many samples of a recording have ended.
fn samples(recording: &Recording) -> u64 {
    count(recording, |kind| kind == EventKind::SampleEnded)
}

/// Returns the events of a recording, except for stalls and takeovers, since these may only show that the machine is
/// busy.
fn events(recording: &Recording) -> impl Iterator<Item = EventKind> {
    let kinds = recording.events().map(|event| event.kind);
    kinds.filter(|kind| !matches!(kind, EventKind::Stalled { .. } | EventKind::TakenOver { .. }))
}

/// Starts a flight recorder whose next sample is years away, and waits for the end of the first one.
fn between_samples(host: Host, recorder: FlightRecorder) -> FlightRecording {
    let flight = host.flight_recorder(recorder.keep(Duration::from_secs(600)).sample(u32::MAX)).expect("it starts");
    eventually(|| samples(&flight.snapshot()) == 1);
    flight
}

#[test]
fn between_two_samples_only_what_is_rare_is_recorded() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let flight = between_samples(runtime.host(), FlightRecorder::new());
    let before = events(&flight.snapshot()).count();
    (0..100).for_each(|_| _ = counter.add(1).wait().expect("it answers"));
    let normal = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    normal.pid().stop();
    runtime.until_idle().expect("outside");
    let snapshot = flight.snapshot();
    check(&snapshot);
    assert_eq!(events(&snapshot).count(), before);
    let failing = runtime.spawn(Failing).fail().expect("it starts");
    runtime.until_idle().expect("outside");
    let snapshot = flight.snapshot();
    check(&snapshot);
    let news: Vec<_> = events(&snapshot).skip(before).collect();
    assert!(
        matches!(news[..], [EventKind::Ended { process, why: EndKind::Failed, .. }] if process == failing.pid()),
        "{news:?}"
    );
}

#[test]
fn a_recording_is_whole_between_two_samples_and_is_one_for_the_flight_recorder() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let flight = between_samples(runtime.host(), FlightRecorder::new());
    for round in 1..=3 {
        let active = record(runtime.host());
        (0..10).for_each(|_| _ = counter.add(1).wait().expect("it answers"));
        runtime.until_idle().expect("outside");
        let recording = active.stop();
        check(&recording);
        assert_eq!((handled(&recording), samples(&recording)), (10, 0));
        counter.add(1).wait().expect("it answers");
        runtime.until_idle().expect("outside");
        let snapshot = flight.snapshot();
        check(&snapshot);
        assert_eq!((handled(&snapshot), samples(&snapshot)), (round * 10, 1 + round));
    }
}

#[test]
fn a_message_that_outlasts_its_sample_is_not_tied_to_the_handling_of_another() {
    let runtime = Runtime::builder().workers(1).paused().build().expect("a paused runtime");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let flight = between_samples(runtime.host(), FlightRecorder::new());
    let active = record(runtime.host());
    counter.add(1).send().expect("it lives");
    assert_eq!(with_fate(&active.stop(), Fate::Queued), 1);
    runtime.resume().expect("a worker starts");
    runtime.until_idle().expect("outside");
    // Like the earlier message, this one is the first in an empty mailbox, so both have the same number.
    let active = record(runtime.host());
    counter.add(1).send().expect("it lives");
    runtime.until_idle().expect("outside");
    drop(active);
    let snapshot = flight.snapshot();
    check(&snapshot);
    assert_eq!((with_fate(&snapshot, Fate::SampleEnded), with_fate(&snapshot, Fate::Handled)), (1, 1));
}

#[test]
fn samples_and_recordings_begin_and_end_under_load() {
    let runtime = Runtime::builder().workers(2).mailbox(Bound::Unbounded).build().expect("two workers");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let client = runtime.spawn(Client { counter }).serve().expect("it starts");
    let recorder = FlightRecorder::new().keep(Duration::from_secs(600)).thread_memory(64 << 10);
    let flight = runtime.flight_recorder(recorder.sample(2)).expect("it starts");
    let mut seen = 0;
    while seen < 200 {
        client.send(50).send().expect("it lives");
        counter.add(1).wait().expect("it answers");
        if seen % 10 == 0 {
            drop(record(runtime.host()));
        }
        if seen % 20 == 0 {
            check(&flight.snapshot());
        }
        seen += 1;
    }
    eventually(|| {
        counter.add(1).wait().expect("it answers");
        samples(&flight.snapshot()) > 2
    });
    check(&flight.snapshot());
    drop(flight);
    // After all of this, a recording is still complete.
    runtime.until_idle().expect("outside");
    let active = record(runtime.host());
    counter.add(1).wait().expect("it answers");
    runtime.until_idle().expect("outside");
    assert_eq!(handled(&active.stop()), 1);
}

#[test]
fn a_stall_is_recorded_with_its_message_and_another_sample_shows_what_is_done_then() {
    let runtime = Runtime::builder().workers(1).stall_limit(Duration::from_millis(5)).build().expect("a worker");
    let (dumped, dumps) = channel();
    let recorder = FlightRecorder::new().dump_every(Duration::ZERO).on_dump(move |_, recording| {
        dumped.send(recording).expect("the test waits");
    });
    let flight = between_samples(runtime.host(), recorder);
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let stuck = runtime.spawn(Stuck).serve().expect("it starts");
    let (begun, until) = (Latch::default(), Latch::default());
    stuck.block(begun.clone(), until.clone()).send().expect("it lives");
    begun.wait();
    // This message waits behind the step, since there is no stall if nothing waits. Another thread answers it.
    counter.add(1).wait().expect("it answers");
    // On a busy machine another step may seem to stall first.
    let is_of_message = |recording: &Recording| {
        check(recording);
        assert!(samples(recording) >= 2);
        let types = recording.types();
        count(recording, |kind| match kind {
            EventKind::Stalled { process, message: Some(message), .. } => {
                process == stuck.pid() && types[message.index()].to_lowercase().contains("block")
            }
            _ => false,
        }) > 0
    };
    assert!(dumps.iter().any(|recording| is_of_message(&recording)));
    until.open();
    drop(flight);
}
