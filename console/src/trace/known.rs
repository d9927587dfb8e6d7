//! Tests on recordings that are written event by event: how threads and lost records affect an explanation.

use super::explain::{Analysis, Explanation};
use super::moment::{Legend, Moment, Then, TracedThread, What};
use super::part::{Cause, Part};
use postroom::Pid;
use std::time::Duration;

/// Names of types: first those of the processes, and from index 4 those of their messages.
const TYPES: [&str; 7] = ["Stuck", "Clerk", "Till", "Bank", "StuckSpin", "ClerkStamp", "TillPay"];

fn pid(number: u32) -> Pid {
    format!("<7f3a.0.{number}.1>").parse().expect("a PID")
}

fn legend(lost: [u64; 3]) -> Legend {
    let threads = lost.iter().map(|&lost| TracedThread { name: "worker".into(), lost }).collect();
    Legend { types: TYPES.to_vec(), threads, lost: lost.iter().sum(), length: 0 }
}

/// Explains a flow in a recording of these events, each with its time and thread.
fn explain(events: &[(u64, u32, What)], legend: Legend, flow: u32) -> Explanation {
    let moments = events.iter().map(|&(at, thread, what)| Moment { at, thread, what });
    Analysis::new(moments, legend).explain(flow).expect("it was sent")
}

/// Returns the leaves of an explanation, with their lengths in nanoseconds.
fn leaves(explanation: &Explanation) -> Vec<(String, u64)> {
    fn add(part: &Part, all: &mut Vec<(String, u64)>) {
        if part.parts.is_empty() {
            all.push((part.cause.to_string(), part.took.as_nanos() as u64));
        }
        part.parts.iter().for_each(|part| add(part, all));
    }
    let mut all = Vec::new();
    add(&explanation.whole, &mut all);
    all
}

fn slice(process: u32) -> What {
    What::SliceBegan { process: pid(process), of: process }
}

fn over(process: u32, then: Then) -> What {
    What::SliceEnded { process: pid(process), then }
}

fn send(from: Option<u32>, to: u32, flow: u32, answer: Option<u32>) -> What {
    What::Sent { from: from.map(pid), to: pid(to), message: 4 + to, flow, answer }
}

fn begin(process: u32, flow: u32) -> What {
    What::HandlingBegan { process: pid(process), message: 4 + process, flow: Some(flow) }
}

fn end(process: u32) -> What {
    What::HandlingEnded { process: pid(process) }
}

#[test]
fn a_worker_that_is_taken_from_a_stuck_step_ran_that_step_until_then() {
    let events = [
        (0, 2, send(None, 0, 2, None)),
        (1, 0, slice(0)),
        (2, 0, begin(0, 2)),
        (10, 2, send(None, 1, 4, None)),
        (60, 2, What::Stalled { process: pid(0), message: None }),
        (100, 2, What::TakenOver { process: pid(0) }),
        (103, 1, slice(1)),
        (105, 1, begin(1, 4)),
        (109, 1, end(1)),
        (110, 1, over(1, Then::Idle)),
        // The stuck step continues without a worker.
        (500, 0, end(0)),
        (501, 0, over(0, Then::Idle)),
    ];
    let explanation = explain(&events, legend([0; 3]), 4);
    let [stuck, clerk] = [0, 1].map(|number| format!("{} {}", TYPES[number as usize], pid(number)));
    let expected = [
        (format!("the worker ran Stuck::spin of {stuck}, and was stuck"), 90),
        ("until a worker began".to_owned(), 3),
        (format!("ran {clerk}"), 2),
        (format!("ran Clerk::stamp of {clerk}"), 4),
    ];
    assert_eq!(leaves(&explanation), expected, "{explanation}");
    let remedy = explanation.remedy.expect("there is one");
    assert!(matches!(remedy.without, Cause::Worker { process } if process.pid == pid(1)), "{explanation}");
    assert_eq!(remedy.then, Duration::from_nanos(6));
    assert!(explanation.to_string().contains(&format!("a free worker for {clerk}")), "{explanation}");
}

#[test]
fn what_lost_records_would_show_is_unknown() {
    // The records of worker 0 before time 50 were overwritten, so the clerk may have done anything until then.
    let events = [
        (10, 2, send(None, 1, 4, None)),
        (50, 0, over(0, Then::Idle)),
        (70, 0, slice(1)),
        (70, 0, begin(1, 4)),
        (90, 0, end(1)),
        (90, 0, over(1, Then::Idle)),
    ];
    let explanation = explain(&events, legend([5, 0, 0]), 4);
    let clerk = format!("Clerk {}", pid(1));
    let expected = [
        ("unknown: records are missing".to_owned(), 40),
        ("until a worker began".to_owned(), 20),
        (format!("ran Clerk::stamp of {clerk}"), 20),
    ];
    assert_eq!(leaves(&explanation), expected, "{explanation}");
    assert_eq!(explanation.lost, 5);
    assert!(explanation.to_string().contains("5 records were lost"), "{explanation}");
    // Without the record of its handling, it is not known whether the message was handled.
    let explanation = explain(&events[..2], legend([5, 0, 0]), 4);
    assert_eq!(leaves(&explanation), [("unknown: records are missing".to_owned(), 40)], "{explanation}");
    assert!(!explanation.is_finished && explanation.remedy.is_none());
    // Without lost records, the message is known to have been queued.
    let explanation = explain(&events[..2], legend([0; 3]), 4);
    assert_eq!(leaves(&explanation)[0].0, "until a worker began", "{explanation}");
}

#[test]
fn a_cycle_of_calls_is_said_to_be_one() {
    let events = [
        (0, 2, send(None, 2, 2, None)),
        (10, 0, slice(2)),
        (10, 0, begin(2, 2)),
        (20, 0, send(Some(2), 1, 4, Some(5))),
        (20, 0, over(2, Then::Waits)),
        (20, 1, slice(1)),
        (20, 1, begin(1, 4)),
        (30, 1, send(Some(1), 2, 6, Some(7))),
        (30, 1, over(1, Then::Waits)),
        // The deadline of the clerk's call has passed.
        (130, 1, What::Answered { to: pid(1), answer: Some(7) }),
        (130, 1, slice(1)),
        (130, 1, What::Answered { to: pid(2), answer: Some(5) }),
        (130, 1, end(1)),
        (130, 1, over(1, Then::Idle)),
        (130, 0, slice(2)),
        (140, 0, end(2)),
        (140, 0, over(2, Then::Idle)),
    ];
    let explanation = explain(&events, legend([0; 3]), 4);
    let cycle = explanation.path.iter().find(|step| matches!(step.cause, Cause::Cycle));
    assert_eq!(cycle.map(|step| step.took), Some(Duration::from_nanos(100)), "{explanation}");
    assert_eq!(explanation.remedy.expect("there is one").then, Duration::from_nanos(10), "{explanation}");
    // The cycle is also found while it still lasts.
    let explanation = explain(&events[..9], Legend { length: 80, ..legend([0; 3]) }, 4);
    let cycle = explanation.path.iter().find(|step| matches!(step.cause, Cause::Cycle));
    assert_eq!(cycle.map(|step| step.took), Some(Duration::from_nanos(50)), "{explanation}");
    assert!(!explanation.is_finished);
}

#[test]
fn steps_that_block_their_thread_are_told_from_those_that_run() {
    let events = [
        (0, 2, send(None, 1, 4, None)),
        (0, 0, slice(1)),
        (0, 0, begin(1, 4)),
        (10, 0, What::BlockingBegan { process: Some(pid(1)) }),
        (70, 0, What::BlockingEnded { process: Some(pid(1)) }),
        (75, 0, end(1)),
        (75, 0, over(1, Then::Idle)),
    ];
    let explanation = explain(&events, legend([0; 3]), 4);
    let clerk = format!("Clerk::stamp of Clerk {}", pid(1));
    assert_eq!(leaves(&explanation), [(format!("ran {clerk}"), 15), (format!("{clerk} blocked its thread"), 60)]);
    assert_eq!(explanation.remedy.expect("there is one").then, Duration::from_nanos(15));
}

#[test]
fn what_follows_the_end_of_a_sample_is_not_taken_for_the_rest_of_it() {
    let events = [
        (0, 2, send(None, 0, 2, None)),
        (10, 0, slice(0)),
        (20, 0, begin(0, 2)),
        (50, 1, What::SampleEnded),
        // The handling has ended between the two samples.
        (500, 1, What::SampleBegan),
        (510, 2, send(None, 0, 4, None)),
        (520, 0, slice(0)),
        (521, 0, begin(0, 4)),
        (530, 0, end(0)),
        (531, 0, over(0, Then::Idle)),
    ];
    let explanation = explain(&events, legend([0; 3]), 2);
    assert_eq!((explanation.is_finished, explanation.whole.took), (false, Duration::from_nanos(50)));
    let explanation = explain(&events, legend([0; 3]), 4);
    assert_eq!((explanation.is_finished, explanation.whole.took), (true, Duration::from_nanos(20)));
    assert_eq!(leaves(&explanation).iter().map(|(_, took)| took).sum::<u64>(), 20);
    let moments = events.iter().map(|&(at, thread, what)| Moment { at, thread, what });
    let slowest = Analysis::new(moments, legend([0; 3])).slowest();
    assert_eq!(slowest.iter().map(|times| times.count).sum::<u64>(), 1, "{slowest:?}");
}
