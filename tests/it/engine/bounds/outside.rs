//! Code outside of processes gets its message back, or waits if it chooses to.

use super::Sink;
use postroom::Bound;
use postroom::error::{BuildError, SendFailure};
use postroom::prelude::*;
use postroom_tests::{Latch, eventually, soon};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Sends the first message, and waits until the process handles it. The process takes no other message before its gate
/// is opened. Returns the number of the next message.
pub(super) fn at_its_gate(sink: Address<Sink>) -> u64 {
    sink.take(0, 0).send().unwrap();
    eventually(|| sink.pid().info().is_some_and(|info| info.mailbox == 0));
    1
}

#[test]
fn a_thread_gets_the_message_back_when_the_mailbox_is_full() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (done, all) = channel();
        let gate = Latch::new();
        let sink = Sink { next: vec![0], left: 1_000, gate: Some(gate.clone()), done };
        let sink = runtime.spawn(sink).mailbox(Bound::Soft(100)).serve().unwrap();
        let (mut sent, mut refused) = (at_its_gate(sink), None);
        while refused.is_none() {
            match sink.take(0, sent).send() {
                Ok(()) => sent += 1,
                Err(error) => refused = Some(error),
            }
        }
        let refused = refused.unwrap();
        assert_eq!((refused.message.number, refused.reason), (sent, SendFailure::Full(sink.pid())));
        assert!((100..=100 + 2 * 128).contains(&sent), "{sent}");
        assert_eq!(sink.take(0, sent).try_send().unwrap_err().reason, SendFailure::Full(sink.pid()));
        assert!(matches!(sink.taken().wait(), Err(CallError::Full)));
        let began = Instant::now();
        let late = sink.take(0, sent).timeout(Duration::from_millis(20)).send_wait().unwrap_err();
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert_eq!((late.message.number, late.reason), (sent, SendFailure::Full(sink.pid())));
        gate.open();
        (sent..1_000).for_each(|number| sink.take(0, number).send_wait().unwrap());
        all.recv().unwrap();
    });
}

#[test]
fn a_task_waits_for_room_and_a_dropped_one_passes_its_room_on() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (done, all) = channel();
        let gate = Latch::new();
        let sink = Sink { next: vec![0], left: 20_000, gate: Some(gate.clone()), done };
        let sink = runtime.spawn(sink).serve().unwrap();
        let mut sent = at_its_gate(sink);
        while sink.take(0, sent).send().is_ok() {
            sent += 1;
        }
        for _ in 0..10 {
            let waits = std::pin::pin!(sink.take(0, sent).send_async());
            let polled = waits.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert!(polled.is_pending());
        }
        gate.open();
        runtime.block_on(async {
            for number in sent..20_000 {
                sink.take(0, number).send_async().await.unwrap();
            }
        });
        all.recv().unwrap();
    });
}

#[test]
fn a_task_that_waits_for_room_fails_when_the_process_exits() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (done, _all) = channel();
        let gate = Latch::new();
        let sink = Sink { next: vec![0], left: u64::MAX, gate: Some(gate.clone()), done };
        let sink = runtime.spawn(sink).serve().unwrap();
        let mut sent = at_its_gate(sink);
        while sink.take(0, sent).send().is_ok() {
            sent += 1;
        }
        let waits = std::thread::spawn(move || sink.take(0, sent).timeout(Duration::MAX).send_wait());
        sink.pid().kill();
        gate.open();
        // The waiter may have found room before the exit.
        let outcome = waits.join().unwrap();
        assert!(outcome.is_ok() || outcome.unwrap_err().reason == SendFailure::Gone(sink.pid()));
    });
}

#[test]
fn a_bound_of_zero_is_refused() {
    let runtime = Runtime::new().unwrap();
    let (done, _all) = channel();
    let sink = || Sink { next: vec![], left: 0, gate: None, done: done.clone() };
    for bound in [Bound::Soft(0), Bound::Hard(0, postroom::Overflow::Wait)] {
        assert!(matches!(runtime.spawn(sink()).mailbox(bound).serve(), Err(SpawnError::Mailbox)));
        assert!(matches!(Runtime::builder().mailbox(bound).build(), Err(BuildError::Mailbox)));
    }
}

/// Catches: a soft bound so large that no mailbox can be longer, so that no process is ever suspended.
#[test]
fn a_soft_bound_that_is_too_large_is_refused_with_the_maximum() {
    let runtime = Runtime::new().unwrap();
    let (done, _all) = channel();
    let sink = || Sink { next: vec![], left: 0, gate: None, done: done.clone() };
    for asked in [Bound::MOST_SOFT + 1, usize::MAX] {
        let error = runtime.spawn(sink()).mailbox(Bound::Soft(asked)).serve().unwrap_err();
        let SpawnError::SoftBound { came, most } = error else { panic!("{error:?}") };
        assert_eq!((came, most), (asked, Bound::MOST_SOFT));
        let error = Runtime::builder().mailbox(Bound::Soft(asked)).build().unwrap_err();
        let BuildError::SoftBound { came, most } = error else { panic!("{error:?}") };
        assert_eq!((came, most), (asked, Bound::MOST_SOFT));
        assert!(error.to_string().contains("at most 4194303"), "{error}");
    }
    // A hard bound is counted exactly, so any size works.
    let hard = Bound::Hard(usize::MAX, postroom::Overflow::Refuse);
    for bound in [Bound::Soft(Bound::MOST_SOFT), hard] {
        assert!(runtime.spawn(sink()).mailbox(bound).serve().is_ok());
        assert!(Runtime::builder().mailbox(bound).build().is_ok());
    }
}
