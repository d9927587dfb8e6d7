//! User code that blocks when a thread of the cluster answers its request.

use super::*;
use postroom::__private::ThreadKind;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Wake, Waker};

/// A waker that blocks until it is released, or until the test has failed.
struct Blocks {
    inside: Sender<ThreadKind>,
    until: Mutex<Receiver<()>>,
}

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        let _waited = self.inside.send(ThreadKind::current());
        let _over = self.until.lock().unwrap().recv();
    }
}

/// A request whose answer calls a waker that blocks until this value is dropped.
struct BlocksWhenAnswered<F> {
    /// Number of requests, including those that were answered before they were polled.
    requests: i64,
    /// Reports the kind of the thread on which the waker blocks.
    inside: Receiver<ThreadKind>,
    _end: Sender<()>,
    _last: Pin<Box<F>>,
}

/// Makes requests until one is not yet answered when it is polled.
fn blocks_when_answered<F: Future>(mut request: impl FnMut() -> F) -> BlocksWhenAnswered<F> {
    let ((inside, is_inside), (end, until)) = (channel(), channel());
    let waker = Waker::from(Arc::new(Blocks { inside, until: Mutex::new(until) }));
    let (mut requests, mut last) = (1, Box::pin(request()));
    while last.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        (requests, last) = (requests + 1, Box::pin(request()));
    }
    BlocksWhenAnswered { requests, inside: is_inside, _end: end, _last: last }
}

/// Mutation: in `Completer::put`, wake on this thread. The driver then waits for the waker, and the node is fenced.
#[test]
fn a_waker_that_blocks_delays_neither_the_driver_nor_what_arrives() {
    let (_nodes, [one, _two, _three]) = three();
    let account = start(&one, "eu-2", 100);
    let [first, second] = [1, 2].map(|opening| one.runtime.spawn(Account::default()).serve(opening).unwrap());
    // Each is answered by a thread of the cluster: the first by the driver, the second by the delivery.
    let by_driver = blocks_when_answered(|| one.cluster.register("first", first));
    assert_eq!(by_driver.inside.recv(), Ok(ThreadKind::Notifier));
    let by_delivery = on(&one, || blocks_when_answered(|| account.deposit(1).into_future()));
    assert_eq!(by_delivery.inside.recv(), Ok(ThreadKind::Notifier));
    // While both block, other requests are answered.
    let (name, done) = (one.cluster.register("second", second), Arc::new(AtomicBool::new(false)));
    let (id, is_done) = (one.cluster.id(), Arc::clone(&done));
    let others = std::thread::spawn(move || {
        let answer = postroom::routing::Node::of(id).unwrap().enter(|| account.deposit(1).wait());
        let outcome = (name.wait().is_ok(), answer);
        is_done.store(true, Ordering::Relaxed);
        outcome
    });
    until("others are answered", || done.load(Ordering::Relaxed));
    assert_eq!(others.join().unwrap(), (true, Ok(101 + by_delivery.requests)));
    drop((by_driver, by_delivery));
}
