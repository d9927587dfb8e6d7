//! Futures of all kinds awaited inside processes, and the futures of the runtime awaited by other executors.

use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, join, join_all, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, SinkExt, StreamExt};
use postroom::error::SendFailure;
use postroom::prelude::*;
use postroom::{Mailbox, Overflow};
use postroom_tests::face::{Gate, Log, OnDrop, builder, poll_once, until, watched, with_runtime};
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread;
use std::time::Duration;

/// The time limit of each wait.
const SOON: Duration = Duration::from_secs(50);

type Job = Pin<Box<dyn Future<Output = usize> + Send>>;

/// A process that can await a given future in every possible way.
#[process]
#[derive(Default)]
struct Awaiting {
    handled: usize,
}

#[process]
impl Awaiting {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    async fn run(&mut self, job: Job) -> usize {
        job.await
    }

    #[entry]
    async fn serve_beside(&mut self, ctx: &mut Context<Self>, job: Job) -> (usize, usize) {
        let output = ctx.serve_until(self, job).await;
        (output, self.handled)
    }

    #[message]
    async fn job(&mut self, job: Job) -> usize {
        job.await
    }

    #[message]
    fn beside(&mut self, ctx: &mut Context<Self>, job: Job, reply: Reply<usize>) {
        ctx.run(job).then(|_, output, _| reply.send(output));
    }

    #[message]
    fn ping(&mut self) -> usize {
        self.handled += 1;
        self.handled
    }
}

/// Awaits a job in each of the ways in which a process can await a future, and returns the results.
fn in_each_way(runtime: &Runtime, mut job: impl FnMut() -> Job) -> Vec<usize> {
    let serving = runtime.spawn(Awaiting::default()).serve().unwrap();
    vec![
        runtime.spawn(Awaiting::default()).run(job()).unwrap().wait().unwrap(),
        runtime.spawn(Awaiting::default()).serve_beside(job()).unwrap().wait().unwrap().0,
        serving.job(job()).timeout(SOON).wait().unwrap(),
        serving.beside(job()).timeout(SOON).wait().unwrap(),
    ]
}

#[test]
fn wakes_come_from_any_thread_and_from_other_runtimes_and_executors() {
    with_runtime(|runtime| {
        let other = builder().build().unwrap();
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let from_thread = in_each_way(runtime, || {
            let (sender, receiver) = oneshot::channel();
            thread::spawn(move || sender.send(7));
            receiver.map(|sent| sent.unwrap()).boxed()
        });
        let from_process = in_each_way(runtime, || {
            let (sender, receiver) = oneshot::channel();
            let job = async move { sender.send(7).map_or(0, |()| 1) };
            let _other = other.spawn(Awaiting::default()).run(job.boxed()).unwrap();
            receiver.map(|sent| sent.unwrap()).boxed()
        });
        let from_tokio = in_each_way(runtime, || {
            let (sender, receiver) = oneshot::channel();
            tokio.spawn(async move { sender.send(7) });
            receiver.map(|sent| sent.unwrap()).boxed()
        });
        for got in [from_thread, from_process, from_tokio] {
            assert_eq!(got, [7; 4]);
        }
    });
}

#[test]
fn join_select_and_sets_of_futures_work_with_calls_and_with_futures_of_others() {
    with_runtime(|runtime| {
        let callee = runtime.spawn(Awaiting::default()).serve().unwrap();
        let silent = runtime.spawn(Awaiting::default()).serve().unwrap();
        let _waits = silent.job(pending().boxed()).send();
        let got = in_each_way(runtime, || {
            async move {
                let (sender, receiver) = oneshot::channel();
                thread::spawn(move || sender.send(1));
                let (called, sent) = join(callee.ping().into_future(), receiver).await;
                assert!(called.unwrap() > 0);
                let mut sum = sent.unwrap();
                // The pending future is dropped, and its call with it.
                sum += match select(silent.ping().into_future(), callee.ping().into_future()).await {
                    Either::Left(_) => 0,
                    Either::Right((pinged, _)) => pinged.map_or(0, |_| 10),
                };
                futures_util::select_biased! {
                    _ = silent.ping().into_future().fuse() => {}
                    pinged = callee.ping().into_future().fuse() => sum += pinged.map_or(0, |_| 100),
                }
                tokio::select! {
                    _ = silent.ping().into_future() => {}
                    pinged = callee.ping().into_future() => sum += pinged.map_or(0, |_| 1_000),
                }
                let all = join_all((0..5).map(|_| callee.ping().into_future())).await;
                sum += 10_000 * all.into_iter().filter(Result::is_ok).count();
                let mut set: FuturesUnordered<_> = (0..5).map(|_| callee.ping().into_future()).collect();
                while let Some(pinged) = set.next().await {
                    sum += pinged.map_or(0, |_| 100_000);
                }
                sum
            }
            .boxed()
        });
        assert_eq!(got, [551_111; 4]);
    });
}

#[test]
fn a_future_that_loses_a_race_is_dropped_in_its_process_and_its_request_withdrawn() {
    #[process]
    struct Choosing {
        log: Log<&'static str>,
    }
    #[process]
    impl Choosing {
        #[entry]
        async fn choose(&mut self, ctx: &mut Context<Self>, slow: Address<Awaiting>, gate: Gate) -> bool {
            let dropped = OnDrop(self.log.clone(), "dropped");
            let loses = async move {
                let _dropped = dropped;
                slow.job(pending().boxed()).await
            };
            let lost = ctx.timeout(Duration::from_secs(1), loses).await.is_err();
            self.log.add("chosen");
            gate.passed().await;
            lost
        }
    }
    watched(|| {
        let clock = postroom::test::Clock::manual();
        let runtime = builder().clock(clock.clone()).build().unwrap();
        let slow = runtime.spawn(Awaiting::default()).serve().unwrap();
        let (log, gate) = (Log::new(), Gate::new());
        let choosing = runtime.spawn(Choosing { log: log.clone() }).choose(slow, gate.clone()).unwrap();
        runtime.until_idle().unwrap();
        assert!(log.is_empty());
        clock.advance(Duration::from_secs(1)).unwrap();
        gate.wait_for_arrival();
        assert_eq!(log.all(), ["dropped", "chosen"]);
        gate.open();
        assert!(choosing.wait().unwrap());
    });
}

/// Returns a future that wakes itself `times` times before it is ready.
fn wakes_itself(mut times: usize) -> impl Future<Output = usize> {
    let all = times;
    poll_fn(move |context| {
        if times == 0 {
            return Poll::Ready(all);
        }
        times -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

#[test]
fn futures_that_wake_themselves_again_and_again_are_polled_as_often_and_leave_the_worker_to_others() {
    watched(|| {
        let runtime = builder().workers(1).build().unwrap();
        let started = Arc::new(AtomicBool::new(false));
        let other = runtime.spawn(Awaiting::default()).serve().unwrap();
        // A million would take too long in an unoptimized build, and would check nothing more.
        const TIMES: usize = 100_000;
        let ends = in_each_way(&runtime, || {
            let started = started.clone();
            started.store(false, Ordering::SeqCst);
            // While the job loops, `other` must answer 20 calls. Then the job counts to `TIMES` and ends.
            let (seen, asked) = (started.clone(), Arc::new(AtomicBool::new(false)));
            let told = asked.clone();
            thread::spawn(move || {
                until(|| seen.load(Ordering::SeqCst));
                (0..20).for_each(|_| assert!(other.ping().timeout(SOON).wait().is_ok()));
                told.store(true, Ordering::SeqCst);
            });
            async move {
                started.store(true, Ordering::SeqCst);
                while !asked.load(Ordering::SeqCst) {
                    wakes_itself(100).await;
                }
                wakes_itself(TIMES).await
            }
            .boxed()
        });
        assert_eq!(ends, [TIMES; 4]);
    });
}

#[test]
fn a_process_whose_future_wakes_itself_still_handles_messages() {
    watched(|| {
        let runtime = builder().workers(1).build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let end = over.clone();
        let job = async move {
            while !end.load(Ordering::SeqCst) {
                wakes_itself(10).await;
            }
            0
        };
        let busy = runtime.spawn(Awaiting::default()).serve_beside(job.boxed()).unwrap();
        for number in 1..=1_000 {
            assert_eq!(busy.address().ping().wait(), Ok(number));
        }
        over.store(true, Ordering::SeqCst);
        assert_eq!(busy.wait().unwrap().1, 1_000);
    });
}

/// A future that stores its wakers in a list and never completes.
struct Gives(Arc<Mutex<Vec<Waker>>>);

impl Future for Gives {
    type Output = usize;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<usize> {
        self.0.lock().unwrap().push(context.waker().clone());
        Poll::Pending
    }
}

#[test]
fn wakes_after_an_exit_reach_no_process_even_if_the_slot_was_reused() {
    with_runtime(|runtime| {
        let wakers = Arc::new(Mutex::new(Vec::new()));
        for round in 0..50 {
            let gives = |_| runtime.spawn(Awaiting::default()).run(Gives(wakers.clone()).boxed()).unwrap();
            let running: Vec<_> = (0..10).map(gives).collect();
            until(|| wakers.lock().unwrap().len() >= (round + 1) * 10);
            for running in running {
                running.pid().kill();
                assert!(running.wait().is_err());
            }
        }
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let job = poll_fn(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Poll::<usize>::Pending
        });
        let last = runtime.spawn(Awaiting::default()).run(job.boxed()).unwrap();
        until(|| polls.load(Ordering::SeqCst) == 1);
        for waker in wakers.lock().unwrap().drain(..) {
            waker.wake_by_ref();
            thread::scope(|scope| drop(scope.spawn(|| waker.wake())));
        }
        runtime.until_idle().unwrap();
        assert_eq!(polls.load(Ordering::SeqCst), 1, "a wake of another life polls nobody");
        last.pid().kill();
    });
}

#[test]
fn wakers_outlive_their_runtime() {
    watched(|| {
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let runtime = builder().build().unwrap();
        let _running = runtime.spawn(Awaiting::default()).run(Gives(wakers.clone()).boxed()).unwrap();
        until(|| !wakers.lock().unwrap().is_empty());
        drop(runtime);
        let wakers = std::mem::take(&mut *wakers.lock().unwrap());
        wakers.into_iter().for_each(|waker| {
            waker.wake_by_ref();
            let copy = waker.clone();
            waker.wake();
            copy.wake();
        });
    });
}

/// Each wake is followed by a poll that sees everything that happened before the wake: every token that a thread adds
/// is taken.
#[test]
fn no_wake_of_many_threads_at_once_is_lost() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 20_000;
    with_runtime(|runtime| {
        let shared = Arc::new((AtomicUsize::new(0), Mutex::new(None::<Waker>)));
        let theirs = shared.clone();
        let job = async move {
            let mut taken = 0;
            poll_fn(|context| {
                // The waker is stored before the check, so that a token added after the check finds the waker.
                *theirs.1.lock().unwrap() = Some(context.waker().clone());
                taken += theirs.0.swap(0, Ordering::SeqCst);
                if taken == THREADS * ROUNDS { Poll::Ready(taken) } else { Poll::Pending }
            })
            .await
        };
        let running = runtime.spawn(Awaiting::default()).run(job.boxed()).unwrap();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        shared.0.fetch_add(1, Ordering::SeqCst);
                        let waker = shared.1.lock().unwrap().take();
                        if let Some(waker) = waker {
                            waker.wake();
                        }
                    }
                });
            }
        });
        assert_eq!(running.wait().unwrap(), THREADS * ROUNDS);
    });
}

/// A process that hands out futures of its context.
#[process]
struct Lender;

#[process]
impl Lender {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn sleep(&mut self, ctx: &mut Context<Self>, how_long: Duration) -> Job {
        ctx.sleep(how_long).map(|()| 1).boxed()
    }

    #[message]
    fn timeout(&mut self, ctx: &mut Context<Self>, how_long: Duration) -> Job {
        ctx.timeout(how_long, pending::<()>()).map(|elapsed| usize::from(elapsed.is_err())).boxed()
    }

    #[message]
    fn sleep_here(&mut self, ctx: &mut Context<Self>, how_long: Duration) -> usize {
        futures_executor::block_on(ctx.sleep(how_long).map(|()| 1))
    }

    #[message]
    async fn sleep_there(&mut self, ctx: &mut Context<Self>, how_long: Duration) -> usize {
        tokio::spawn(ctx.sleep(how_long)).await.map_or(0, |()| 1)
    }
}

#[test]
fn sleeps_of_a_context_work_in_tasks_and_other_executors() {
    watched(|| {
        let runtime = builder().tokio().build().unwrap();
        let lender = runtime.spawn(Lender).serve().unwrap();
        let moment = Duration::from_millis(2);
        for job in [lender.sleep(moment).wait().unwrap(), lender.timeout(moment).wait().unwrap()] {
            assert_eq!(futures_executor::block_on(job), 1);
        }
        let job = lender.sleep(moment).wait().unwrap();
        // Awaits a future of one process in another.
        assert_eq!(runtime.spawn(Awaiting::default()).run(job).unwrap().wait().unwrap(), 1);
        assert_eq!(lender.sleep_here(moment).wait().unwrap(), 1);
        assert_eq!(lender.sleep_there(moment).wait().unwrap(), 1);
    });
}

/// Uses processes in every way that works on any executor.
async fn use_processes(runtime: &Runtime) {
    let process = runtime.spawn(Awaiting::default()).serve().unwrap();
    assert_eq!(process.ping().await, Ok(1));
    assert_eq!(join(process.ping().into_future(), process.ping().into_future()).await, (Ok(2), Ok(3)));
    assert_eq!(process.ping().timeout(Duration::from_secs(30)).await, Ok(4));
    let waits = process.job(pending().boxed()).timeout(Duration::from_millis(1));
    assert!(matches!(waits.await, Err(CallError::Timeout)));
    let running = runtime.spawn(Awaiting::default()).run(async { 5 }.boxed()).unwrap();
    assert_eq!(running.await.unwrap(), 5);
    let join = process.pid().join();
    process.pid().kill();
    join.await;
    assert!(matches!(process.ping().await, Err(CallError::Gone(_))));
    let mut mailbox = Mailbox::new().unwrap();
    let to = Recipient::<String>::of(mailbox.pid());
    to.sink().send("text".to_string()).await.unwrap();
    let package = mailbox.next().await.unwrap();
    assert_eq!(package.take::<String>().ok().as_deref(), Some("text"));
}

#[test]
fn any_executor_can_await_futures_of_processes() {
    with_runtime(|runtime| {
        runtime.block_on(use_processes(runtime));
        futures_executor::block_on(use_processes(runtime));
        pollster::block_on(use_processes(runtime));
        for tokio in [
            tokio::runtime::Builder::new_current_thread().build().unwrap(),
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap(),
        ] {
            tokio.block_on(use_processes(runtime));
        }
        // Executors also work inside a process. They block its step.
        #[process]
        struct Nested;
        #[process]
        impl Nested {
            #[entry]
            fn serve(&mut self) {}
            #[message]
            fn nest(&mut self, other: Address<Awaiting>) -> [usize; 3] {
                [
                    futures_executor::block_on(other.ping().into_future()).unwrap_or(0),
                    pollster::block_on(other.ping().into_future()).unwrap_or(0),
                    postroom::Host::current().map_or(0, |_| other.ping().wait().unwrap_or(0)),
                ]
            }
        }
        let other = runtime.spawn(Awaiting::default()).serve().unwrap();
        let nested = runtime.spawn(Nested).serve().unwrap();
        assert_eq!(nested.nest(other).wait().unwrap(), [1, 2, 3]);
    });
}

/// A process whose `add` blocks until the gate is open.
#[process]
struct Slow {
    gate: Gate,
    inside: Gate,
    sum: usize,
}

#[process]
impl Slow {
    #[entry]
    fn serve(&mut self) {}

    #[message(usize)]
    fn add(&mut self, number: usize) {
        self.inside.open();
        self.gate.pass();
        self.sum += number;
    }

    #[message]
    fn sum(&mut self) -> usize {
        self.sum
    }
}

#[test]
fn a_sink_takes_one_more_than_the_mailbox_and_waits_then() {
    with_runtime(|runtime| {
        let (gate, inside) = (Gate::new(), Gate::new());
        let slow = Slow { gate: gate.clone(), inside: inside.clone(), sum: 0 };
        let slow = runtime.spawn(slow).mailbox(Bound::Hard(2, Overflow::Refuse)).serve().unwrap();
        let mut sink = Recipient::<usize>::from(slow).sink();
        // This message occupies the process, so that later messages stay in the mailbox.
        assert!(poll_once(pin!(sink.send(1))).is_ready());
        inside.pass();
        let mut fed = 0;
        while poll_once(pin!(sink.feed(1))).is_ready() {
            fed += 1;
            assert!(fed < 10, "the sink never waits");
        }
        assert_eq!(fed, 3);
        assert!(poll_once(pin!(sink.flush())).is_pending());
        gate.open();
        runtime.block_on(sink.flush()).unwrap();
        // Calls fail while the mailbox is still full.
        until(|| slow.sum().wait() != Err(CallError::Full));
        assert_eq!(slow.sum().wait().unwrap(), 1 + fed);
    });
}

#[test]
fn a_sink_returns_the_message_when_its_process_is_gone_also_a_waiting_one() {
    with_runtime(|runtime| {
        let (gate, inside) = (Gate::new(), Gate::new());
        let slow = Slow { gate: gate.clone(), inside: inside.clone(), sum: 0 };
        let slow = runtime.spawn(slow).mailbox(Bound::Hard(1, Overflow::Refuse)).serve().unwrap();
        let mut sink = Recipient::<usize>::from(slow).sink();
        // This message occupies the process. Otherwise the process would take it from the mailbox before the kill, and
        // so make room for the waiting message.
        assert!(poll_once(pin!(sink.send(0))).is_ready());
        inside.pass();
        let mut fed = 1;
        while poll_once(pin!(sink.feed(fed))).is_ready() {
            fed += 1;
            assert!(fed < 10, "the sink never waits");
        }
        slow.pid().kill();
        gate.open();
        let error = runtime.block_on(sink.flush()).unwrap_err();
        assert_eq!((error.message, error.reason), (fed - 1, SendFailure::Gone(slow.pid())));
        let error = runtime.block_on(sink.send(100)).unwrap_err();
        assert_eq!((error.message, error.reason), (100, SendFailure::Gone(slow.pid())));
    });
}

/// Catches: a sink that loses the first waiting message, or the error of that message, when it accepts another one; and
/// a sink that closes while a message waits. (Mutations: in `sink.rs`, `start_send` continues after an error;
/// `poll_close` does nothing.)
#[test]
fn a_sink_that_takes_a_message_behind_one_that_waits_keeps_their_order_and_the_first_error() {
    with_runtime(|runtime| {
        for dies in [false, true] {
            let (gate, inside) = (Gate::new(), Gate::new());
            let slow = Slow { gate: gate.clone(), inside: inside.clone(), sum: 0 };
            let slow = runtime.spawn(slow).mailbox(Bound::Hard(1, Overflow::Refuse)).serve().unwrap();
            let mut sink = Recipient::<usize>::from(slow).sink();
            assert!(poll_once(pin!(sink.send(1))).is_ready());
            inside.pass();
            // The first message fits into the mailbox, the second waits for room, and the third waits behind it.
            for number in [10, 100, 1_000] {
                sink.start_send_unpin(number).unwrap();
            }
            assert!(poll_once(pin!(sink.close())).is_pending());
            if dies {
                slow.pid().kill();
                gate.open();
                let error = runtime.block_on(sink.close()).unwrap_err();
                assert_eq!((error.message, error.reason), (100, SendFailure::Gone(slow.pid())));
            } else {
                gate.open();
                runtime.block_on(sink.close()).unwrap();
                until(|| slow.sum().wait() == Ok(1_111));
            }
        }
    });
}

#[test]
fn multiple_answers_are_a_stream_and_a_process_can_attach_it() {
    struct Number(u32);
    #[process]
    struct Source;
    #[process]
    impl Source {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn count(&mut self, to: u32, replies: Replies<u32>) {
            (0..to).for_each(|number| _ = replies.send(number));
        }
    }
    #[process]
    struct Drain {
        sum: u32,
        over: mpsc::UnboundedSender<u32>,
    }
    #[process]
    impl Drain {
        #[entry]
        fn serve(&mut self, ctx: &mut Context<Self>, source: Address<Source>) -> Result<(), SendError<SourceCount>> {
            let numbers = source.count(100).open()?;
            ctx.attach_with(numbers, Number).then(|this, _| _ = this.over.unbounded_send(this.sum));
            Ok(())
        }
        #[message(Number)]
        fn number(&mut self, number: Number) {
            self.sum += number.0;
        }
    }
    with_runtime(|runtime| {
        let source = runtime.spawn(Source).serve().unwrap();
        let doubled = source.count(10).open().unwrap().map(|number| 2 * number);
        assert_eq!(runtime.block_on(doubled.collect::<Vec<_>>()), (0..10).map(|n| 2 * n).collect::<Vec<_>>());
        let (over, mut sums) = mpsc::unbounded();
        let _drain = runtime.spawn(Drain { sum: 0, over }).serve(source).unwrap();
        assert_eq!(runtime.block_on(sums.next()), Some(4_950));
    });
}
