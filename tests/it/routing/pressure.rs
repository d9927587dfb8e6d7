//! Senders to another node whose transport has no room. The clocks of the hosts stand still, so no suspension times
//! out.

use postroom::error::SendFailure;
use postroom::inspect::ProcessState;
use postroom::prelude::*;
use postroom::routing::{Node, Receiver, Router, Transport, TransportQueue, Undeliverable};
use postroom::test::Clock;
use postroom::{NodeId, Package, Runtime};
use postroom_tests::face::{until, watched};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Number of messages that fit. The same number of further messages is accepted beyond the bound.
const FITS: usize = 4;

/// A transport from which the test itself takes the messages.
#[derive(Default)]
struct Pipe {
    waiting: Mutex<Vec<u32>>,
    queue: TransportQueue,
    attempts: Mutex<u32>,
    /// Whether the pipe makes room as soon as it has accepted a message beyond the bound, before the sender waits.
    makes_room: bool,
    /// Whether messages beyond the bound are refused for another reason.
    is_lost: Mutex<bool>,
}

impl Pipe {
    fn waiting(&self) -> MutexGuard<'_, Vec<u32>> {
        self.waiting.lock().unwrap()
    }

    fn accept(&self, package: Package, most: usize) -> Result<(), Undeliverable> {
        *self.attempts.lock().unwrap() += 1;
        let to = package.to();
        if *self.is_lost.lock().unwrap() {
            return Err(Undeliverable { package, reason: SendFailure::UnknownNode(to) });
        }
        let mut waiting = self.waiting();
        if waiting.len() >= most {
            self.queue.set_full();
            return Err(Undeliverable { package, reason: SendFailure::Full(to) });
        }
        let (_, payload, _) = package.take_apart();
        waiting.push(payload.take::<u32>().unwrap());
        Ok(())
    }

    /// Takes all waiting messages, and reports that there is room.
    fn drain(&self) -> Vec<u32> {
        let taken = std::mem::take(&mut *self.waiting());
        self.queue.set_room();
        taken
    }
}

impl Receiver for Pipe {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        self.accept(package, FITS)
    }
}

impl Transport for Pipe {
    fn queue(&self, _to: Pid) -> Option<TransportQueue> {
        Some(self.queue.clone())
    }

    fn deliver_beyond(&self, package: Package) -> Result<(), Undeliverable> {
        let accepted = self.accept(package, 2 * FITS);
        if self.makes_room {
            self.queue.set_room();
        }
        accepted
    }
}

#[process]
struct Source {
    to: Recipient<u32>,
    next: u32,
    refused: Option<SendFailure>,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self) {}

    /// Sends `count` messages in one step.
    #[message]
    fn go(&mut self, count: u32) -> u32 {
        for _ in 0..count {
            match self.to.send(self.next) {
                Ok(()) => self.next += 1,
                Err(refused) => self.refused = Some(refused.reason),
            }
        }
        self.next
    }

    #[message]
    fn attempt(&mut self, number: u32) -> Result<(), SendFailure> {
        self.to.call(number).try_send().map_err(|refused| refused.reason)
    }

    #[message]
    async fn patient(&mut self, number: u32) {
        self.to.call(number).timeout(Duration::MAX).send_async().await.unwrap();
    }

    #[message]
    fn refused(&mut self) -> Option<SendFailure> {
        self.refused
    }
}

struct Setup {
    runtime: Runtime,
    here: Node,
    there: Pid,
    pipe: Arc<Pipe>,
}

fn setup(pipe: Pipe) -> Setup {
    let node = NodeId::random();
    let builder = Runtime::builder().workers(2).clock(Clock::manual()).logical_node(node);
    let (runtime, pipe) = (builder.build().unwrap(), Arc::new(pipe));
    let there: Pid = "<7f.1.5.3>".parse().unwrap();
    Router::of_node(node).connect(there.node(), pipe.clone());
    Setup { here: Node::of(node).unwrap(), runtime, there, pipe }
}

impl Setup {
    fn source(&self) -> Address<Source> {
        let source = Source { to: Recipient::of(self.there), next: 0, refused: None };
        self.runtime.spawn(source).serve().unwrap()
    }

    fn is_suspended(&self, source: Address<Source>) -> bool {
        source.pid().info().unwrap().state == ProcessState::Suspended { at: self.there }
    }

    fn has_rest(&self) {
        let backpressure = self.runtime.statistics().backpressure;
        assert_eq!((backpressure.suspended, backpressure.forced_releases), (0, 0));
    }
}

/// Mutation: in `abroad.rs`, leave `note_congestion_abroad` out; in `transport_queue.rs`, `set_room`, forget the list.
#[test]
fn a_process_is_suspended_after_its_step_until_the_transport_has_room() {
    watched(|| {
        let setup = setup(Pipe::default());
        let source = setup.source();
        assert_eq!(source.go(FITS as u32).wait(), Ok(4));
        assert!(!setup.is_suspended(source), "all fits");
        source.go(1).send().unwrap();
        source.go(1).send().unwrap();
        until(|| setup.is_suspended(source) && setup.pipe.queue.waiting() == 1);
        assert_eq!(setup.pipe.waiting().len(), FITS + 1);
        assert_eq!(setup.runtime.statistics().backpressure.suspended, 1);
        assert_eq!(setup.pipe.drain(), [0, 1, 2, 3, 4]);
        until(|| setup.pipe.waiting().len() == 1);
        assert_eq!((source.refused().wait(), setup.pipe.drain()), (Ok(None), vec![5]));
        setup.has_rest();
    });
}

/// Mutation: in `transport_queue.rs`, `wait`, add to the list although the queue is not full.
#[test]
fn room_between_the_refusal_and_the_suspension_is_not_missed() {
    watched(|| {
        let setup = setup(Pipe { makes_room: true, ..Pipe::default() });
        let source = setup.source();
        assert_eq!(source.go(FITS as u32 + 1).wait(), Ok(5));
        assert_eq!(source.refused().wait(), Ok(None), "it goes on");
        setup.has_rest();
    });
}

#[test]
fn a_step_that_sends_more_than_is_accepted_waits_inside_and_goes_on_or_is_told_to_end() {
    watched(|| {
        let setup = setup(Pipe::default());
        let source = setup.source();
        source.go(3 * FITS as u32).send().unwrap();
        until(|| setup.is_suspended(source) && setup.pipe.queue.waiting() == 1);
        assert_eq!(setup.pipe.waiting().len(), 2 * FITS, "no more than that");
        assert_eq!(setup.pipe.drain(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(source.refused().wait(), Ok(None));
        assert_eq!(setup.pipe.drain(), [8, 9, 10, 11]);

        let source = setup.source();
        source.go(3 * FITS as u32).send().unwrap();
        until(|| setup.is_suspended(source) && setup.pipe.queue.waiting() == 1);
        assert!(source.pid().kill());
        source.pid().join().wait();
        assert_eq!(setup.pipe.queue.waiting(), 0, "it has left the list");
        setup.has_rest();
    });
}

#[test]
fn a_signal_ends_the_suspension() {
    watched(|| {
        let setup = setup(Pipe::default());
        for end in [|pid: Pid| pid.kill(), |pid: Pid| pid.cancel("enough")] {
            let source = setup.source();
            setup.pipe.drain();
            source.go(FITS as u32 + 1).send().unwrap();
            until(|| setup.is_suspended(source));
            assert!(end(source.pid()));
            source.pid().join().wait();
            assert_eq!(setup.pipe.queue.waiting(), 0);
        }
        setup.has_rest();
    });
}

/// Each sender makes two attempts: the first is refused, and the second is made when there is room. Without the signal
/// each sender would make a thousand attempts per second.
#[test]
fn threads_and_tasks_wait_for_the_signal_and_those_that_try_do_not() {
    watched(|| {
        let setup = setup(Pipe::default());
        let (here, to, source) = (setup.here, setup.there, setup.source());
        let thread = || {
            std::thread::spawn(move || {
                here.enter(|| Recipient::<u32>::of(to).call(9).timeout(Duration::MAX).send_wait().is_ok())
            })
        };
        let task = || std::thread::spawn(move || source.patient(9).timeout(Duration::MAX).wait() == Ok(()));
        let waits: [&dyn Fn() -> std::thread::JoinHandle<bool>; 2] = [&thread, &task];
        for wait in waits {
            let refused = here.enter(|| {
                (0..FITS as u32).for_each(|number| Recipient::<u32>::of(to).send(number).unwrap());
                [Recipient::<u32>::of(to).send(8), Recipient::<u32>::of(to).call(8).try_send()]
            });
            assert_eq!(refused.map(|refused| refused.unwrap_err().reason), [SendFailure::Full(to); 2]);
            assert_eq!(source.attempt(8).wait(), Err(CallError::Failed(SendFailure::Full(to))));
            *setup.pipe.attempts.lock().unwrap() = 0;
            let waiting = wait();
            until(|| setup.pipe.queue.waiting() == 1);
            assert_eq!(setup.pipe.drain(), [0, 1, 2, 3]);
            assert!(waiting.join().unwrap());
            assert_eq!((*setup.pipe.attempts.lock().unwrap(), setup.pipe.drain()), (2, vec![9]));
        }
    });
}

#[test]
fn the_loss_of_the_node_is_heard_by_the_next_attempt() {
    watched(|| {
        let setup = setup(Pipe::default());
        let source = setup.source();
        (0..2 * FITS).for_each(|_| source.go(1).send().unwrap());
        until(|| setup.is_suspended(source));
        *setup.pipe.is_lost.lock().unwrap() = true;
        setup.pipe.queue.set_room();
        until(|| source.refused().wait() == Ok(Some(SendFailure::UnknownNode(setup.there))));
        assert_eq!(setup.pipe.waiting().len(), FITS + 1);
        setup.has_rest();
    });
}
