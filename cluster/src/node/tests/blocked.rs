//! User code that blocks when a thread of the cluster answers it.

use super::*;
use postroom::__private::ThreadKind;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

/// A waker that blocks until it is released, or the test has failed.
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

/// Polls `future`, which must be pending, with a waker that blocks. Returns a channel that reports the kind of the
/// thread on which it blocks, and a sender that releases it when dropped.
fn blocks_when_answered<F: Future + Unpin>(future: &mut F) -> (Receiver<ThreadKind>, Sender<()>) {
    let ((inside, is_inside), (end, until)) = (channel(), channel());
    let waker = Waker::from(Arc::new(Blocks { inside, until: Mutex::new(until) }));
    assert!(matches!(Pin::new(future).poll(&mut Context::from_waker(&waker)), Poll::Pending));
    (is_inside, end)
}

/// Mutation: in `Completer::put`, wake on this thread. The driver then waits for the waker, and the node is fenced.
#[test]
fn a_waker_that_blocks_delays_neither_the_driver_nor_what_arrives() {
    let (_nodes, [one, _two, _three]) = three();
    let account = start(&one, "eu-2", 100);
    let [first, second] = [1, 2].map(|opening| one.runtime.spawn(Account::default()).serve(opening).unwrap());
    // Both are answered by a thread of the cluster: one by the driver, one by the delivery.
    let mut registered = one.cluster.register("first", first);
    let by_driver = blocks_when_answered(&mut registered);
    assert_eq!(by_driver.0.recv(), Ok(ThreadKind::Notifier));
    let mut called = Box::pin(account.deposit(1).into_future());
    let by_delivery = on(&one, || blocks_when_answered(&mut called));
    assert_eq!(by_delivery.0.recv(), Ok(ThreadKind::Notifier));
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
    assert_eq!(others.join().unwrap(), (true, Ok(102)));
    drop((by_driver, by_delivery));
}
