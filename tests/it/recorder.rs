//! Recordings: all events of a host between the start and the end of the recording, with both ends of each message.
//!
//! Not covered: how much a recording costs (see `benches/instructions`), and the clock's rate.

mod always;
mod limits;
mod load;
mod samples;
mod simulated;

use postroom::prelude::*;
use postroom::record::{ActiveRecording, EventKind, Fate, FlowId, Party, RecordedEvent, Recording};
use postroom_tests::Latch;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A process that adds up the numbers that it gets, and answers with the sum.
#[process]
struct Counter {
    sum: u64,
}

#[process]
impl Counter {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn add(&mut self, more: u64) -> u64 {
        self.sum += more;
        self.sum
    }
    #[message]
    async fn add_later(&mut self, ctx: &mut Context<Self>, more: u64) -> u64 {
        ctx.sleep(Duration::from_millis(1)).await;
        self.sum += more;
        self.sum
    }
}

/// A process that adds to a counter as many times as requested.
#[process]
struct Client {
    counter: Address<Counter>,
}

#[process]
impl Client {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn send(&mut self, times: u64) {
        (0..times).for_each(|_| self.counter.add(1).send().expect("it lives"));
    }
    #[message]
    async fn call(&mut self, times: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..times {
            sum = self.counter.add(1).await.expect("it answers");
        }
        sum
    }
}

/// A process that stays in its step until its latch is open.
#[process]
struct Stuck;

#[process]
impl Stuck {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn block(&mut self, begun: Latch, until: Latch) {
        begun.open();
        until.wait();
    }
}

#[process]
struct Failing;

#[process]
impl Failing {
    #[entry]
    async fn fail(&mut self) -> Result<(), String> {
        Err("as the test wants".into())
    }
}

fn record(host: Host) -> ActiveRecording {
    host.record(Duration::from_secs(600)).start().expect("nothing else is recorded")
}

/// Returns the number of events for which `is_such` returns true.
fn count(recording: &Recording, is_such: impl Fn(EventKind) -> bool) -> u64 {
    recording.events().filter(|event| is_such(event.kind)).count() as u64
}

fn handled(recording: &Recording) -> u64 {
    count(recording, |kind| matches!(kind, EventKind::HandlingBegan { .. }))
}

/// Checks the invariants of every recording. Times go forward. A thread has one open slice at a time, and a process one
/// open handling. Each of them is closed once, unless a sample ends first. Flows have at most one end of each kind, and
/// the fate of a flow tells whether it has both.
fn check(recording: &Recording) {
    let mut now = Duration::ZERO;
    let (mut slices, mut handlings) = (BTreeMap::new(), BTreeMap::new());
    let (mut sent, mut ended): (BTreeSet<FlowId>, BTreeSet<FlowId>) = Default::default();
    for RecordedEvent { at, thread, kind, .. } in recording.events() {
        assert!(at >= now, "{kind:?} at {at:?}, after an event at {now:?}");
        assert!(thread.index() < recording.threads().len());
        now = at;
        match kind {
            EventKind::SliceBegan { process, .. } => {
                assert!(!slices.values().any(|other| *other == process), "{process} runs on two threads");
                assert_eq!(slices.insert(thread, process), None);
            }
            EventKind::SliceEnded { process, .. } => assert_eq!(slices.remove(&thread), Some(process)),
            EventKind::HandlingBegan { process, flow, message } => {
                assert_eq!(handlings.insert(process, (flow, message)), None);
                if let Some(flow) = flow {
                    assert!(sent.contains(&flow), "{flow:?} is handled before it is sent");
                    assert!(ended.insert(flow), "{flow:?} is handled twice");
                }
            }
            EventKind::HandlingEnded { process, flow, message } => {
                assert_eq!(handlings.remove(&process), Some((flow, message)));
            }
            EventKind::MessageSent { from, flow, .. } => {
                assert!(sent.insert(flow), "{flow:?} is sent twice");
                if let Party::Process(sender) = from {
                    assert_eq!(slices.get(&thread), Some(&sender));
                }
            }
            EventKind::SampleEnded => {
                slices.clear();
                handlings.clear();
                for flow in sent.iter().filter(|flow| !ended.contains(flow)) {
                    let fate = recording.fate(*flow);
                    assert!(matches!(fate, Some(Fate::SampleEnded | Fate::Overwritten)), "{flow:?} is {fate:?}");
                }
                sent.clear();
            }
            _ => {}
        }
    }
    assert!(now <= recording.duration(), "{now:?} of {:?}", recording.duration());
    for flow in &sent {
        assert_eq!(recording.fate(*flow) == Some(Fate::Handled), ended.contains(flow), "{flow:?}");
    }
}

/// Returns the number of messages that were sent and met the given fate.
fn with_fate(recording: &Recording, fate: Fate) -> u64 {
    count(recording, |kind| match kind {
        EventKind::MessageSent { flow, .. } => recording.fate(flow) == Some(fate),
        _ => false,
    })
}

#[test]
fn every_message_is_sent_once_and_handled_once() {
    let runtime = Runtime::builder().workers(2).mailbox(Bound::Unbounded).build().expect("two workers");
    let counters: Vec<_> = (0..4).map(|_| runtime.spawn(Counter { sum: 0 }).serve().expect("it starts")).collect();
    let clients: Vec<_> =
        counters.iter().map(|&counter| runtime.spawn(Client { counter }).serve().expect("it starts")).collect();
    let active = record(runtime.host());
    let before = runtime.statistics().messages();
    std::thread::scope(|scope| {
        for (client, counter) in clients.iter().zip(&counters) {
            scope.spawn(|| {
                client.send(500).send().expect("it lives");
                (0..100).for_each(|_| counter.add(1).send().expect("it lives"));
                client.call(50).wait().expect("it answers");
                counter.add_later(1).wait().expect("it answers");
                assert_eq!(counter.add(0).wait(), Ok(651));
            });
        }
    });
    runtime.until_idle().expect("outside");
    let messages = runtime.statistics().messages() - before;
    let recording = active.stop();
    check(&recording);
    assert_eq!(recording.lost(), 0);
    assert_eq!(handled(&recording), messages);
    assert_eq!(with_fate(&recording, Fate::Handled), messages);
    assert_eq!(count(&recording, |kind| matches!(kind, EventKind::MessageSent { .. })), messages);
    assert_eq!(count(&recording, |kind| matches!(kind, EventKind::HandlingEnded { .. })), messages);
    assert_eq!(
        count(&recording, |kind| matches!(kind, EventKind::MessageSent { from: Party::Thread(_), .. })),
        4 * 104
    );
    let names = recording.types().join(" ");
    assert!(names.contains("Counter") && names.contains("Client"), "{names}");
}

#[test]
fn the_answer_of_a_call_flows_back_to_the_process_that_called() {
    let runtime = Runtime::builder().workers(2).mailbox(Bound::Unbounded).build().expect("two workers");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let client = runtime.spawn(Client { counter }).serve().expect("it starts");
    let active = record(runtime.host());
    assert_eq!(client.call(20).wait(), Ok(20));
    runtime.until_idle().expect("outside");
    let recording = active.stop();
    check(&recording);
    let (mut asked, mut given, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for event in recording.events() {
        match event.kind {
            EventKind::MessageSent { answer: Some(answer), from, .. } => {
                assert_eq!(from, Party::Process(client.pid()));
                asked.push(answer);
            }
            EventKind::Answered { to, flow } => {
                assert_eq!(to, client.pid());
                given.extend(flow);
            }
            EventKind::AnswerTaken { process, flow } => {
                assert_eq!(process, client.pid());
                taken.push(flow);
            }
            _ => {}
        }
    }
    assert_eq!(asked.len(), 20);
    assert_eq!((&given, &taken), (&asked, &asked));
}

#[test]
fn an_async_method_is_handled_until_it_returns() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let active = record(runtime.host());
    assert_eq!(counter.add_later(3).wait(), Ok(3));
    // Without this wait, the next message might be handled in the slice that sent the answer.
    runtime.until_idle().expect("outside");
    assert_eq!(counter.add(4).wait(), Ok(7));
    runtime.until_idle().expect("outside");
    let recording = active.stop();
    check(&recording);
    let of_counter: Vec<_> = recording
        .events()
        .filter_map(|event| match event.kind {
            EventKind::SliceBegan { .. } => Some("slice"),
            EventKind::HandlingBegan { .. } => Some("began"),
            EventKind::HandlingEnded { .. } => Some("ended"),
            _ => None,
        })
        .collect();
    assert_eq!(of_counter, ["slice", "began", "slice", "ended", "slice", "began", "ended"]);
}

#[test]
fn what_is_sent_and_not_handled_is_queued_or_its_process_has_ended() {
    let runtime = Runtime::builder().workers(1).paused().build().expect("a paused runtime");
    let [stays, ends] = [(); 2].map(|()| runtime.spawn(Counter { sum: 0 }).serve().expect("it starts"));
    let active = record(runtime.host());
    (0..3).for_each(|_| stays.add(1).send().expect("it lives"));
    (0..2).for_each(|_| ends.add(1).send().expect("it lives"));
    let recording = active.stop();
    check(&recording);
    assert_eq!((with_fate(&recording, Fate::Queued), handled(&recording)), (5, 0));

    let active = record(runtime.host());
    ends.add(1).send().expect("it lives");
    ends.pid().kill();
    runtime.resume().expect("a worker starts");
    runtime.until_idle().expect("outside");
    let recording = active.stop();
    check(&recording);
    assert_eq!(with_fate(&recording, Fate::ProcessEnded), 1);
    assert_eq!(handled(&recording), 3, "those that were sent before");
}
