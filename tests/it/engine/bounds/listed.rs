//! When a sender joins the list of a congested mailbox, the receiver checks that list in its next step. If the receiver
//! waits only for control, the sender itself checks the list.

use postroom::inspect::ProcessState;
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::test::Clock;
use postroom::{Bound, Host};
use postroom_tests::{Ask, Latch, Requests, act, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const BOUND: u64 = 1_000;

/// A sender and a receiver. The sender has found the mailbox above its bound. Since then the receiver has taken
/// messages: there is room for the sender, although the mailbox is still more than half full.
struct Pair {
    runtime: Runtime,
    receiver: Pid,
    sender: Pid,
    requests: Requests,
    /// A latch that is opened when the receiver has taken those messages.
    caught_up: Latch,
    /// A latch that lets the receiver end its step.
    end: Latch,
    /// A latch that lets the sender end its step.
    leave: Latch,
    taken: Arc<AtomicU64>,
}

/// Makes a pair. If `waits`, the receiver then waits for a yield; otherwise it stays in its step.
fn pair(waits: bool) -> Pair {
    // With this clock no suspension times out, and without stall detection no worker is taken over.
    let builder = Runtime::builder().workers(2).clock(Clock::manual()).stall_limit(std::time::Duration::MAX);
    let (builder, requests) = Requests::at(builder);
    let runtime = builder.build().unwrap();
    let (begin, caught_up, end, leave) = (Latch::new(), Latch::new(), Latch::new(), Latch::new());
    let (taken, sent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (may_begin, is_caught_up, may_end) = (begin.clone(), caught_up.clone(), end.clone());
    let (takes, has_sent) = (taken.clone(), sent.clone());
    let mut has_waited = false;
    let receiver = act(move |events, out| {
        may_begin.wait();
        let most = if has_waited { u64::MAX } else { has_sent.load(SeqCst) - BOUND * 3 / 4 };
        while takes.load(SeqCst) < most
            && let Some(event) = events.next()
        {
            takes.fetch_add(u64::from(matches!(event, Event::Message(_))), SeqCst);
        }
        if takes.load(SeqCst) < most && !has_waited {
            // The time slice ends before the process has taken all messages.
            out.go_on();
        } else if std::mem::replace(&mut has_waited, true) {
            out.idle();
        } else if waits {
            out.perform(Ask(1), 1);
            out.wait();
        } else {
            is_caught_up.open();
            may_end.wait();
            out.go_on();
        }
        Ok(())
    });
    let receiver = runtime.spawn_process(receiver).mailbox(Bound::Soft(BOUND as usize)).start().unwrap();
    // Fills the mailbox, until a send is refused.
    while runtime.send(receiver, ()).is_ok() {
        sent.fetch_add(1, SeqCst);
    }
    let (ready, may_leave) = (Latch::new(), leave.clone());
    let is_ready = ready.clone();
    let sender = act(move |events, out| {
        if let Some(Event::Message(_)) = events.next() {
            Host::current().unwrap().send(receiver, ()).unwrap();
            is_ready.open();
            may_leave.wait();
        }
        out.idle();
        Ok(())
    });
    let sender = runtime.spawn_process(sender).start().unwrap();
    runtime.send(sender, ()).unwrap();
    ready.wait();
    begin.open();
    Pair { runtime, receiver, sender, requests, caught_up, end, leave, taken }
}

impl Pair {
    fn is_suspended(&self) -> bool {
        self.sender.info().unwrap().state == ProcessState::Suspended { at: self.receiver }
    }
}

/// Catches: a sender that resumes the senders on the list although the receiver will check it.
#[test]
fn a_receiver_in_a_step_checks_its_list_itself() {
    soon(|| {
        let pair = pair(false);
        pair.caught_up.wait();
        pair.leave.open();
        // The receiver occupies one of the two workers. So when the other worker has run this process, the sender's
        // step is over.
        let ran = Latch::new();
        let runs = ran.clone();
        let other = act(move |_, out| {
            runs.open();
            out.done();
            Ok(())
        });
        pair.runtime.spawn_process(other).start().unwrap();
        ran.wait();
        assert!(pair.is_suspended());
        pair.end.open();
        eventually(|| pair.sender.info().unwrap().state == ProcessState::Idle);
    });
}

/// Catches: a sender that leaves the list to a receiver that does not check it until its yield is answered.
#[test]
fn a_sender_checks_the_list_of_a_receiver_that_waits_for_control() {
    soon(|| {
        let pair = pair(true);
        let (_, completion) = pair.requests.next();
        eventually(|| pair.receiver.info().unwrap().state == ProcessState::Waiting { outstanding: 1 });
        let taken = pair.taken.load(SeqCst);
        pair.leave.open();
        eventually(|| pair.sender.info().unwrap().state == ProcessState::Idle);
        assert_eq!(pair.runtime.statistics().backpressure.suspensions, 1);
        assert_eq!(pair.taken.load(SeqCst), taken, "the receiver has had no step meanwhile");
        completion.complete(1);
    });
}
