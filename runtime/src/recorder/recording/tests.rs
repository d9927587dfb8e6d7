//! Tests of recordings, which are created from handwritten records.

use super::*;
use crate::pid::incarnation;

static NAME: TypeName = || "a type";

fn record(at: u64, kind: RecordKind, slot: u32, extra: u64) -> Record {
    let first = at << KIND_BITS | kind as u64;
    Record { words: [first, incarnation(slot, 1), extra], name: Some(&NAME) }
}

/// Creates a recording from the records of each thread, from time 0 to 100, with the given samples.
fn recording<const THREADS: usize>(records: [Vec<Record>; THREADS], samples: Vec<(u64, u64)>) -> Recording {
    let raw = records.into_iter().map(|records| RawTrack { thread: "a thread".into(), records, lost: 0 });
    Recording::timed(raw.collect(), 0, NonZeroU64::MIN, |stamp| stamp, (0, 100), samples, Instant::now())
}

/// Returns the time, the thread and a short name of each event.
fn events(recording: &Recording) -> Vec<(u64, usize, &'static str)> {
    let short = |kind| match kind {
        EventKind::SliceBegan { .. } => "slice",
        EventKind::SliceEnded { then: SliceEnd::Idle, .. } => "idle",
        EventKind::SliceEnded { .. } => "slice ended",
        EventKind::HandlingBegan { .. } => "message",
        EventKind::HandlingEnded { .. } => "message ended",
        EventKind::MessageSent { .. } => "sent",
        EventKind::Ended { .. } => "ended",
        EventKind::SampleBegan => "sample",
        EventKind::SampleEnded => "sample ended",
        _ => "another",
    };
    recording.events().map(|event| (event.at.as_nanos() as u64, event.thread.index(), short(event.kind))).collect()
}

#[test]
fn a_slice_ends_with_the_next_one_of_its_thread_or_earlier_with_that_of_its_process() {
    // The first thread releases process 1 at some time before 20, but does not read the clock until 25.
    let first = vec![
        record(10, RecordKind::Slice, 1, 0),
        record(10, RecordKind::Handle, 1, 0),
        record(25, RecordKind::Slice, 2, IDLE | SLICE_OVER),
        record(25, RecordKind::Handle, 2, 0),
        record(60, RecordKind::Slice, 3, READY | SLICE_OVER),
        record(70, RecordKind::SliceEnd, 0, IDLE),
    ];
    let second = vec![
        record(20, RecordKind::Slice, 1, 0),
        record(20, RecordKind::Handle, 1, 0),
        record(40, RecordKind::SliceEnd, 0, IDLE),
    ];
    let expected = [
        (10, 0, "slice"),
        (10, 0, "message"),
        (20, 0, "message ended"),
        (20, 0, "idle"),
        (20, 1, "slice"),
        (20, 1, "message"),
        (25, 0, "slice"),
        (25, 0, "message"),
        (40, 1, "message ended"),
        (40, 1, "idle"),
        (60, 0, "message ended"),
        (60, 0, "slice ended"),
        (60, 0, "slice"),
        (70, 0, "idle"),
    ];
    assert_eq!(events(&recording([first, second], vec![(0, u64::MAX)])), expected);
}

#[test]
fn a_slice_whose_end_comes_after_its_sample_ends_with_the_next_one_of_its_process() {
    let first = vec![
        record(10, RecordKind::Slice, 1, 0),
        record(10, RecordKind::Handle, 1, 0),
        record(25, RecordKind::SliceEnd, 0, IDLE),
    ];
    let second = vec![record(20, RecordKind::Slice, 1, 0), record(20, RecordKind::Handle, 1, 0)];
    let expected = [
        (10, 0, "slice"),
        (10, 0, "message"),
        (20, 0, "idle"),
        (20, 1, "slice"),
        (20, 1, "message ended"),
        (20, 1, "message"),
        (22, 2, "sample ended"),
    ];
    assert_eq!(events(&recording([first, second], vec![(0, 22)])), expected);
}

#[test]
fn what_is_frequent_is_left_out_between_samples_and_what_is_rare_is_not() {
    let records = vec![
        record(5, RecordKind::Slice, 1, 0),
        record(20, RecordKind::Slice, 1, 0),
        record(20, RecordKind::Handle, 1, 7),
        // The thread notices the end of the sample only after its slice.
        record(31, RecordKind::Send, 2, 7),
        record(32, RecordKind::SliceEnd, 0, IDLE),
        record(40, RecordKind::End, 3, 0),
        record(60, RecordKind::Send, 1, 7),
    ];
    let expected = [
        (10, 1, "sample"),
        (20, 0, "slice"),
        (20, 0, "message"),
        (30, 1, "sample ended"),
        (40, 0, "ended"),
        (50, 1, "sample"),
        (60, 0, "sent"),
    ];
    let recording = recording([records], vec![(10, 30), (50, u64::MAX)]);
    assert_eq!(events(&recording), expected);
    assert_eq!(recording.threads().last().map(RecordedThread::name), Some("samples"));
}

#[test]
fn a_message_whose_sample_ends_is_not_tied_to_a_handling_in_the_next_one() {
    let records = vec![
        record(10, RecordKind::Send, 1, 0),
        record(60, RecordKind::Send, 1, 0),
        record(70, RecordKind::Slice, 1, 0),
        record(70, RecordKind::Handle, 1, 0),
        record(80, RecordKind::Slice, 1, SLICE_OVER),
        record(80, RecordKind::Handle, 1, 0),
    ];
    let recording = recording([records], vec![(0, 30), (50, u64::MAX)]);
    let flows = recording.events().filter_map(|event| match event.kind {
        EventKind::MessageSent { flow, .. } => Some(flow),
        _ => None,
    });
    let fates: Vec<Option<Fate>> = flows.map(|flow| recording.fate(flow)).collect();
    assert_eq!(fates, [Some(Fate::SampleEnded), Some(Fate::Handled)]);
    let handled: Vec<bool> = recording
        .events()
        .filter_map(|event| match event.kind {
            EventKind::HandlingBegan { flow, .. } => Some(flow.is_some()),
            _ => None,
        })
        .collect();
    assert_eq!(handled, [true, false]);
}
