//! Recordings of a host under load: recordings that begin and end, processes that exit, and a step whose permit is
//! taken over.

use super::{Client, Counter, check, count, handled, record, with_fate};
use postroom::prelude::*;
use postroom::record::{EndKind, EventKind, Fate};
use postroom_tests::Latch;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn recordings_begin_and_end_a_thousand_times_under_load() {
    let runtime = Runtime::builder().workers(2).mailbox(Bound::Unbounded).build().expect("two workers");
    let counters: Vec<_> = (0..4).map(|_| runtime.spawn(Counter { sum: 0 }).serve().expect("it starts")).collect();
    let over = AtomicBool::new(false);
    let (mut events, mut both) = (0, 0);
    std::thread::scope(|scope| {
        for &counter in &counters {
            let client = runtime.spawn(Client { counter }).serve().expect("it starts");
            let over = &over;
            scope.spawn(move || {
                while !over.load(SeqCst) {
                    client.send(50).send().expect("it lives");
                    counter.add(1).wait().expect("it answers");
                }
            });
        }
        for round in 0..1_000 {
            let active = runtime
                .record(Duration::from_secs(600))
                .thread_memory(if round % 2 == 0 { 1 << 20 } else { 8 << 10 })
                .start()
                .expect("nothing else is recorded");
            if round % 10 == 0 {
                counters[0].add(0).wait().expect("it answers");
            }
            let recording = active.stop();
            check(&recording);
            events += recording.events().count();
            both += with_fate(&recording, Fate::Handled);
        }
        over.store(true, SeqCst);
    });
    assert!(events > 1_000 && both > 100, "{events} events and {both} flows with both ends");
    // After all of this, a recording is still complete.
    runtime.until_idle().expect("outside");
    let active = record(runtime.host());
    counters[0].add(1).wait().expect("it answers");
    runtime.until_idle().expect("outside");
    assert_eq!(handled(&active.stop()), 1);
}

/// A process that exits in the requested way.
#[process]
struct Mortal;

#[process]
impl Mortal {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn stop(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }
    #[message]
    fn panic(&mut self) {
        panic!("as the test wants");
    }
}

#[process]
struct Parent;

#[process]
impl Parent {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn raise(&mut self, ctx: &mut Context<Self>, panics: bool) -> Pid {
        let mortal = ctx.spawn(Mortal).serve().expect("it starts");
        if panics {
            mortal.panic().send().expect("it lives");
        } else {
            mortal.stop().send().expect("it lives");
        }
        mortal.pid()
    }
}

/// The processes are spawned on the only worker. It reuses a slot as soon as the slot is free, whatever slots other
/// tests have freed.
#[test]
fn processes_that_end_and_whose_slots_are_used_again_are_told_apart() {
    let runtime = Runtime::builder().workers(1).mailbox(Bound::Unbounded).build().expect("a worker");
    let parent = runtime.spawn(Parent).serve().expect("it starts");
    let active = record(runtime.host());
    let mut pids = BTreeSet::new();
    for round in 0..300 {
        assert!(pids.insert(parent.raise(round % 3 == 0).wait().expect("it answers")));
        runtime.until_idle().expect("outside");
    }
    let recording = active.stop();
    check(&recording);
    let slots: BTreeSet<u32> = pids.iter().map(|pid| pid.slot()).collect();
    assert!(slots.len() < pids.len(), "no slot was used again");
    let (mut spawned, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for event in recording.events() {
        match event.kind {
            EventKind::Spawned { process, parent: by, .. } => {
                assert_eq!(by, Some(parent.pid()));
                assert!(spawned.insert(process));
            }
            EventKind::Ended { process, .. } => {
                assert!(spawned.contains(&process) && ended.insert(process));
            }
            _ => {}
        }
    }
    assert_eq!((&spawned, &ended), (&pids, &pids));
    let died_of = |kind| count(&recording, |event| matches!(event, EventKind::Ended { why, .. } if why == kind));
    assert_eq!((died_of(EndKind::Panic), died_of(EndKind::Normal)), (100, 200));
    // Each process has handled one message, and its parent one call that made it spawn the process.
    assert_eq!((handled(&recording), with_fate(&recording, Fate::Handled)), (600, 600));
}

/// A process that stays in its step until the latch is open, and then sends.
#[process]
struct Stuck {
    counter: Address<Counter>,
}

#[process]
impl Stuck {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn spin(&mut self, begun: Latch, until: Latch, times: u64) {
        begun.open();
        while !until.is_open() {
            std::hint::spin_loop();
        }
        (0..times).for_each(|_| self.counter.add(1).send().expect("it lives"));
    }
}

/// The only worker is in a step that does not end, so another thread takes over its permit and runs the counter. Both
/// threads record, each into its own ring.
#[test]
fn a_step_that_was_taken_over_records_on_its_own_thread() {
    let runtime = Runtime::builder()
        .workers(1)
        .stall_limit(Duration::from_millis(5))
        .mailbox(Bound::Unbounded)
        .build()
        .expect("a worker");
    let counter = runtime.spawn(Counter { sum: 0 }).serve().expect("it starts");
    let stuck = runtime.spawn(Stuck { counter }).serve().expect("it starts");
    let (begun, until) = (Latch::default(), Latch::default());
    let active = record(runtime.host());
    stuck.spin(begun.clone(), until.clone(), 500).send().expect("it lives");
    begun.wait();
    // Another thread answers these calls.
    (1..=300).for_each(|sum| assert_eq!(counter.add(1).wait(), Ok(sum)));
    until.open();
    // In the meantime the other thread continues.
    (0..300).for_each(|_| _ = counter.add(1).wait().expect("it answers"));
    runtime.until_idle().expect("outside");
    let recording = active.stop();
    check(&recording);
    assert_eq!(recording.lost(), 0);
    assert_eq!((handled(&recording), with_fate(&recording, Fate::Handled)), (1_101, 1_101));
    assert!(count(&recording, |kind| matches!(kind, EventKind::TakenOver { process } if process == stuck.pid())) > 0);
    assert!(count(&recording, |kind| matches!(kind, EventKind::Stalled { process, .. } if process == stuck.pid())) > 0);
    let on = |pid: Pid| {
        let slices = recording
            .events()
            .filter(move |event| matches!(event.kind, EventKind::SliceBegan { process, .. } if process == pid));
        slices.map(|event| event.thread).collect::<BTreeSet<_>>()
    };
    let elsewhere: Vec<_> = on(counter.pid()).difference(&on(stuck.pid())).copied().collect();
    assert!(!elsewhere.is_empty(), "the counter ran on the thread of the stuck step");
}
