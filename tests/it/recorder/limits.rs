//! Limits of recordings, and the loss of records beyond them.

use super::{Counter, check, count, record};
use postroom::prelude::*;
use postroom::record::{EventKind, Fate, FlightRecorder, Party, RecordError, Recording};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);

/// Minimum memory per thread.
const LEAST: usize = 4096;
/// Number of records that fit into the minimum: one less than the number of cells in the ring.
const KEPT: u64 = 127;

#[test]
fn two_recordings_at_a_time() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let first = record(runtime.host());
    counter.add(1).wait().expect("it answers");
    let second = record(runtime.host());
    counter.add(2).wait().expect("it answers");
    let error = runtime.record(LONG).start().expect_err("two run");
    assert!(matches!(error, RecordError::TooMany { most: 2 }), "{error}");
    assert!(error.to_string().contains("end one of them first"), "{error}");
    runtime.until_idle().expect("outside");
    let handled = |recording: &Recording| {
        check(recording);
        super::handled(recording)
    };
    assert_eq!(handled(&first.stop()), 2);
    counter.add(3).wait().expect("it answers");
    runtime.until_idle().expect("outside");
    assert_eq!(handled(&second.stop()), 2, "each has what happened while it ran");
    assert_eq!(handled(&record(runtime.host()).stop()), 0);
}

#[test]
fn what_is_beyond_the_limits_is_refused_with_what_to_do() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    for duration in [Duration::ZERO, Duration::from_secs(3_601)] {
        let error = runtime.record(duration).start().expect_err("it is beyond the limits");
        assert!(matches!(error, RecordError::Duration { came, .. } if came == duration), "{error}");
        assert!(error.to_string().contains("up to 3600s"), "{error}");
    }
    for memory in [0, LEAST - 1, (256 << 20) + 1] {
        let error = runtime.record(LONG).memory(memory).start().expect_err("it is beyond the limits");
        assert!(matches!(error, RecordError::Memory { came, .. } if came == memory), "{error}");
        let error = runtime.flight_recorder(FlightRecorder::new().memory(memory)).expect_err("as above");
        assert!(matches!(error, RecordError::Memory { came, .. } if came == memory), "{error}");
    }
    for memory in [0, LEAST - 1, 10_001] {
        let error = runtime.record(LONG).memory(10_000).thread_memory(memory).start().expect_err("it is beyond it");
        assert!(matches!(error, RecordError::ThreadMemory { came, most: 10_000, .. } if came == memory), "{error}");
    }
    let host = runtime.host();
    assert_eq!(record(host).stop().lost(), 0, "what was refused does not count");
    runtime.shutdown().expect("it ends");
    assert!(matches!(host.record(LONG).start(), Err(RecordError::Ended)));
}

#[test]
fn what_a_ring_has_no_room_for_is_counted_exactly() {
    let runtime = Runtime::builder().workers(1).paused().mailbox(Bound::Unbounded).build().expect("a paused runtime");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    for sent in [KEPT, KEPT + 1, 1_000] {
        let active = runtime.record(LONG).thread_memory(LEAST).start().expect("nothing else is recorded");
        // This thread has nothing else to record.
        std::thread::scope(|scope| {
            let send = || (0..sent).for_each(|_| counter.add(1).send().expect("it lives"));
            std::thread::Builder::new().name("sender".into()).spawn_scoped(scope, send).expect("it starts");
        });
        let recording = active.stop();
        check(&recording);
        let sender = recording.threads().iter().find(|thread| thread.name() == "sender").expect("it has sent");
        assert_eq!(sender.lost(), sent - KEPT);
        assert_eq!(recording.lost(), sent - KEPT);
        let kept = count(&recording, |kind| matches!(kind, EventKind::MessageSent { from: Party::Thread(_), .. }));
        assert_eq!(kept, KEPT);
    }
}

#[test]
fn a_flow_of_which_an_end_may_be_overwritten_is_not_tied_to_another() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let active = runtime.record(LONG).thread_memory(LEAST).start().expect("nothing else is recorded");
    // Each message is the first in an empty mailbox, so all have the same number. The records of the first sends
    // outlast the records of their handling.
    (0..20).for_each(|_| _ = counter.add(1).wait().expect("it answers"));
    std::thread::scope(|scope| {
        scope.spawn(|| (0..200).for_each(|_| _ = counter.add(1).wait().expect("it answers")));
    });
    runtime.until_idle().expect("outside");
    let recording = active.stop();
    check(&recording);
    assert!(recording.lost() > 0);
    assert!(super::with_fate(&recording, Fate::Overwritten) >= 20);
    assert_eq!(super::with_fate(&recording, Fate::Queued), 0);
}

#[test]
fn a_thread_without_memory_loses_its_records_and_they_are_counted() {
    let runtime = Runtime::builder().workers(1).paused().mailbox(Bound::Unbounded).build().expect("a paused runtime");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let active = runtime.record(LONG).memory(LEAST).start().expect("nothing else is recorded");
    counter.add(1).send().expect("it lives");
    std::thread::scope(|scope| {
        scope.spawn(|| (0..5).for_each(|_| counter.add(1).send().expect("it lives")));
    });
    let recording = active.stop();
    check(&recording);
    assert_eq!(recording.threads().len(), 1);
    assert_eq!(recording.lost(), 5);
}
