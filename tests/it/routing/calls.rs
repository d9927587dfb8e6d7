//! Messages and calls between two nodes.

use super::wire::{Mode, Pair, Parcel, with_pair};
use postroom::error::SendFailure;
use postroom::prelude::*;
use postroom::routing::{Node, Receiver, Router, Transport, Undeliverable};
use postroom::{NodeId, Package, this_node};
use postroom_tests::face::{Gate, until};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A process that calls another process of its type, on another node.
#[process]
#[derive(Default)]
struct Asker {
    seen: Vec<u64>,
}

#[process]
impl Asker {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn note(&mut self, number: u64) {
        self.seen.push(number);
    }
    #[message]
    fn seen(&mut self) -> Vec<u64> {
        self.seen.clone()
    }
    #[message]
    fn half(&mut self, number: u64) -> Result<u64, String> {
        if number.is_multiple_of(2) { Ok(number / 2) } else { Err(format!("{number} is odd")) }
    }
    #[message]
    fn fail(&mut self) -> u64 {
        panic!("asked to fail");
    }
    #[message]
    fn hold(&mut self, gate: Gate) {
        gate.pass();
    }
    #[message]
    fn node(&mut self) -> NodeId {
        this_node()
    }
    /// Sends all `numbers` to `other`.
    #[message]
    fn tell(&mut self, other: Address<Asker>, numbers: Vec<u64>) {
        numbers.into_iter().for_each(|number| other.note(number).send().unwrap());
    }
    #[message]
    async fn ask_half(&mut self, other: Address<Asker>, number: u64) -> Result<u64, CallError<String>> {
        other.half(number).await
    }
    #[message]
    fn ask_half_waiting(&mut self, other: Address<Asker>, number: u64) -> Result<u64, CallError<String>> {
        other.half(number).wait()
    }
    #[message]
    async fn ask_fail(&mut self, other: Address<Asker>) -> Result<u64, CallError> {
        other.fail().await
    }
    #[message]
    async fn ask_soon(&mut self, other: Address<Asker>, timeout: Duration) -> Result<NodeId, CallError> {
        other.node().timeout(timeout).await
    }
    #[message]
    fn ask_unhandled(&mut self, other: Address<Asker>) -> Result<(), CallError> {
        Recipient::<&'static str>::of(other.pid()).call("what?").wait()
    }
    #[message]
    fn try_note(&mut self, other: Address<Asker>) -> Result<(), SendFailure> {
        other.note(7).try_send().map_err(|refused| refused.reason)
    }
    #[message]
    fn note_plainly(&mut self, other: Address<Asker>) -> Result<(), SendFailure> {
        other.note(8).send().map_err(|refused| refused.reason)
    }
    #[message]
    fn note_patiently(&mut self, other: Address<Asker>) -> Result<(), SendFailure> {
        other.note(9).send_wait().map_err(|refused| refused.reason)
    }
    #[message]
    fn note_later(&mut self, other: Address<Asker>) {
        // Dropping the timer does not cancel the message.
        let _timer = other.note(10).send_after(Duration::from_millis(1)).unwrap();
    }
}

fn askers(pair: &Pair) -> (Address<Asker>, Address<Asker>) {
    let spawn = |runtime: &Runtime| runtime.spawn(Asker::default()).serve().unwrap();
    (spawn(&pair.here), spawn(&pair.there))
}

/// Delivers parcels until the call is answered.
fn pumped<T: Send + 'static>(pair: &Pair, ask: impl FnOnce() -> T + Send + 'static) -> T {
    let (answers, answered) = channel();
    std::thread::spawn(move || answers.send(ask()).unwrap());
    let mut answer = None;
    pair.net.pump_until(|| {
        answer = answered.try_recv().ok();
        answer.is_some()
    });
    assert_eq!((pair.net.waiting(), pair.net.under_way()), (0, 0), "every call was answered, once");
    answer.unwrap()
}

#[test]
fn messages_go_through_the_transport_in_their_order() {
    with_pair(|pair| {
        let (here, there) = askers(pair);
        here.tell(there, (0..100).collect()).wait().unwrap();
        assert_eq!(pair.net.under_way(), 100);
        assert_eq!(there.seen().wait().unwrap(), [0_u64; 0], "nothing came another way");
        pair.net.pump();
        assert_eq!(there.seen().wait().unwrap(), (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn a_call_gets_what_the_method_returned() {
    with_pair(|pair| {
        let (here, there) = askers(pair);
        for number in 0..4_u64 {
            let half = if number.is_multiple_of(2) {
                Ok(number / 2)
            } else {
                Err(CallError::Failed(format!("{number} is odd")))
            };
            let expected = || half.clone().map_err(CallError::Failed);
            assert_eq!(pumped(pair, move || here.ask_half(there, number).wait()), expected());
            assert_eq!(pumped(pair, move || here.ask_half_waiting(there, number).wait()), expected());
        }
        let node = pumped(pair, move || here.ask_soon(there, Duration::MAX).wait());
        assert_eq!(node, Ok(pair.there.node()));
    });
}

#[test]
fn a_call_that_is_not_answered_fails_as_it_would_here() {
    with_pair(|pair| {
        let (here, there) = askers(pair);
        assert_eq!(
            pumped(pair, move || here.ask_unhandled(there).wait()),
            Err(CallError::Failed(CallError::Unhandled))
        );
        let died = pumped(pair, move || here.ask_fail(there).wait());
        assert!(matches!(died, Err(CallError::Failed(CallError::Died(ExitReason::Panic(_))))), "{died:?}");
        let gone = pumped(pair, move || here.ask_fail(there).wait());
        assert_eq!(gone, Err(CallError::Failed(CallError::Gone(ExitReason::NoProcess))));
    });
}

#[test]
fn a_caller_that_gives_up_is_seen_by_the_transport() {
    with_pair(|pair| {
        let (here, there) = askers(pair);
        let asked = here.ask_soon(there, Duration::from_millis(1)).wait();
        assert_eq!(asked, Err(CallError::Failed(CallError::Timeout)));
        assert!(pair.net.any_waiting(|answerer| answerer.is_abandoned()));
        // The call carries its remaining time, which is over when the call is delivered. So the late answer is dropped.
        let (one, other) = pair.nodes();
        let parcel = pair.net.take(one, other).unwrap();
        let Parcel::Message(_, _, Some((_, Some(left)))) = &parcel else { panic!("a call with a time limit") };
        assert!(*left <= Duration::from_millis(1), "{left:?}");
        pair.net.deliver(one, other, parcel);
        pair.net.pump_until(|| pair.net.waiting() == 0);
        assert_eq!(here.seen().wait().unwrap(), [0_u64; 0]);
    });
}

#[test]
fn calls_under_way_fail_when_the_connection_is_lost() {
    with_pair(|pair| {
        let (here, there) = askers(pair);
        let gate = Gate::new();
        there.hold(gate.clone()).send().unwrap();
        let (answers, answered) = channel();
        for asker in [here, askers(pair).0] {
            let answers = answers.clone();
            std::thread::spawn(move || answers.send(asker.ask_half(there, 2).timeout(Duration::MAX).wait()).unwrap());
        }
        until(|| pair.net.waiting() == 2);
        let (one, other) = pair.nodes();
        assert!(pair.net.step(one, other));
        pair.cut();
        for _ in 0..2 {
            let lost = answered.recv().unwrap();
            assert_eq!(lost, Err(CallError::Failed(CallError::Died(ExitReason::NodeLost))));
        }
        gate.open();
        // The answer to the call that had arrived has no receiver any more.
        assert_eq!(there.seen().wait().unwrap(), [0_u64; 0]);
        let refused = here.ask_half(there, 2).wait();
        assert_eq!(refused, Err(CallError::Failed(CallError::Gone(ExitReason::NodeLost))), "it lives on there");
    });
}

#[test]
fn a_full_transport_refuses_each_kind_of_send_as_it_says() {
    with_pair(|pair| {
        let (here, there) = askers(pair);
        pair.net.set_mode(Mode::Full);
        let full = Err(CallError::Failed(SendFailure::Full(there.pid())));
        assert_eq!(here.try_note(there).wait(), full);
        assert_eq!(here.note_plainly(there).wait(), full);
        let (answers, answered) = channel();
        std::thread::spawn(move || answers.send(here.note_patiently(there).timeout(Duration::MAX).wait()).unwrap());
        // The sender retries until there is room.
        until(|| pair.net.refused() >= 5);
        pair.net.set_mode(Mode::Takes);
        assert_eq!(answered.recv().unwrap(), Ok(()));
        pair.net.pump();
        assert_eq!(there.seen().wait().unwrap(), [9]);
    });
}

/// A transport that passes its messages to a process.
struct Posted(Address<Post>);

impl Receiver for Posted {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        let sent = self.0.post(package).send();
        sent.map_err(|refused| Undeliverable { package: refused.message.package, reason: refused.reason })
    }
}

impl Transport for Posted {}

#[process]
struct Post {
    node: Node,
}

#[process]
impl Post {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn hold(&mut self, gate: Gate) {
        gate.pass();
    }
    #[message]
    fn post(&mut self, package: Package) {
        self.node.deliver(package).unwrap();
    }
}

/// Catches: a send to another node that does not count as the sending process's own. Then the mailbox bound of the
/// process that acts as the transport does not suspend the sender.
#[test]
fn a_transport_that_is_a_process_holds_its_senders_back() {
    with_pair(|pair| {
        let (here, there) = askers(pair);
        let post = Post { node: Node::of(pair.there.node()).unwrap() };
        let post = pair.here.spawn(post).mailbox(Bound::Soft(64)).serve().unwrap();
        Router::of_node(pair.here.node()).connect(pair.there.node(), Arc::new(Posted(post)));
        let gate = Gate::new();
        post.hold(gate.clone()).send().unwrap();
        here.tell(there, (0..1_000).collect()).send().unwrap();
        until(|| pair.here.statistics().backpressure.suspended == 1);
        let other = askers(pair).0;
        assert_eq!(other.try_note(there).wait(), Err(CallError::Failed(SendFailure::Full(there.pid()))));
        gate.open();
        until(|| there.seen().wait().unwrap().len() == 1_000);
        assert!(there.seen().wait().unwrap().into_iter().eq(0..1_000), "in order");
        assert_eq!(other.ask_half(there, 2).wait(), Ok(1));
    });
}

#[test]
fn a_message_for_later_is_kept_here_and_goes_through_the_transport() {
    with_pair(|pair| {
        let (here, there) = askers(pair);
        here.note_later(there).wait().unwrap();
        until(|| pair.net.under_way() == 1);
        assert_eq!(there.seen().wait().unwrap(), [0_u64; 0]);
        pair.net.pump();
        assert_eq!(there.seen().wait().unwrap(), [10]);
    });
}

/// A call whose package is dropped, refused, taken apart or handled.
#[test]
fn a_caller_elsewhere_is_told_once_whatever_becomes_of_its_package() {
    with_pair(|pair| {
        let (_, there) = askers(pair);
        let told = Arc::new(Mutex::new(Vec::new()));
        let package = |to: Pid, message: Payload| {
            let tells = told.clone();
            Package::with_answer(to, message, None, move |result| {
                tells.lock().unwrap().push(result.err());
                panic!("what is done with an answer may panic");
            })
        };
        let node = Node::of(pair.there.node()).unwrap();
        drop(package(there.pid(), Payload::new(1)));
        assert_eq!(told.lock().unwrap().drain(..).collect::<Vec<_>>(), [Some(CallError::Unhandled)]);
        // This package is refused, and then dropped.
        let nowhere = Pid::from_bytes(there.pid().to_bytes().map(|byte| byte ^ 1)).unwrap();
        let refused = node.deliver(package(nowhere, Payload::new(1))).unwrap_err();
        assert_eq!(refused.reason, SendFailure::UnknownNode(nowhere));
        drop(refused);
        assert_eq!(told.lock().unwrap().drain(..).collect::<Vec<_>>(), [Some(CallError::Unhandled)]);
        // The package is taken apart. If its message was not sent, it was not delivered. If it was sent, it may have
        // been delivered.
        for is_sent in [false, true] {
            let (to, payload, mut answerer) = package(there.pid(), Payload::new(1)).take_apart();
            assert!(to == there.pid() && payload.value_type() == std::any::TypeId::of::<i32>());
            assert!(answerer.expects_answer() && !answerer.is_abandoned() && answerer.time_left().is_none());
            if is_sent {
                answerer.note_sent();
            }
            drop(answerer);
            let expected = if is_sent { CallError::Dropped } else { CallError::Unhandled };
            assert_eq!(told.lock().unwrap().drain(..).collect::<Vec<_>>(), [Some(expected)]);
        }
        // The package is handled: the answering process survives the panic.
        node.deliver(package(there.pid(), Payload::new(AskerHalf { number: 4 }))).unwrap();
        until(|| !told.lock().unwrap().is_empty());
        assert_eq!(*told.lock().unwrap(), [None]);
        assert_eq!(there.half(8).wait(), Ok(4));
    });
}

#[test]
fn a_message_that_was_sent_expects_no_answer_and_a_call_out_of_time_is_abandoned() {
    with_pair(|pair| {
        let (_, there) = askers(pair);
        let (_, _, answerer) = Package::new(there.pid(), 1_u64).take_apart();
        assert!(!answerer.expects_answer() && !answerer.is_abandoned() && answerer.time_left().is_none());
        drop(answerer);
        let package = |left| Package::with_answer(there.pid(), Payload::new(1_u64), Some(left), |_| {});
        let (_, _, answerer) = package(Duration::ZERO).take_apart();
        assert!(answerer.is_abandoned() && answerer.time_left() == Some(Duration::ZERO));
        let (_, _, answerer) = package(Duration::from_secs(3_600)).take_apart();
        assert!(!answerer.is_abandoned() && answerer.time_left().unwrap() > Duration::from_secs(3_000));
    });
}
