//! Regression tests for faults that a review found. Each is named after its fault.
//!
//! No result depends on time. If a fault caused a delay, the test lets the step that caused it wait for the delayed
//! event. So the fault becomes a deadlock, and the time limit ends it. Timeouts that would hide a hang are [`AGES`].

use postroom::manual::{Events, Process, StepOutput};
use postroom::prelude::*;
use postroom::{Builder, Mailbox};
use postroom_tests::{Ask, Latch, eventually, soon};
use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// A time that is longer than the time limit of the tests.
const AGES: Duration = Duration::from_secs(3600);

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn with_workers(workers: usize) -> Builder {
    Runtime::builder().workers(workers).shutdown_deadline(Duration::from_secs(5))
}

/// Waits until no step runs. The threads fall asleep soon after that. This cannot be observed from outside, so tests
/// that need sleeping threads run in rounds.
fn until_quiet(runtime: &Runtime) {
    eventually(|| runtime.statistics().workers.iter().all(|worker| !worker.running));
    thread::sleep(milliseconds(10));
}

/// Returns a future that is pending a few times. Each time its own poll wakes it.
async fn wakes_itself() -> u32 {
    let mut polls = 0;
    poll_fn(move |context| {
        polls += 1;
        if polls > 3 {
            return Poll::Ready(polls);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

type Lent = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls `future` once in the process that lends it, and returns it.
async fn begun(future: impl Future<Output = ()> + Send + 'static) -> Lent {
    let mut future: Lent = Box::pin(future);
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    future
}

/// A process with the messages that the tests need.
#[process]
struct Probe;

#[process]
impl Probe {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    fn refuse(&mut self) -> Result<(), std::fmt::Error> {
        Err(std::fmt::Error)
    }

    #[entry]
    async fn over(&mut self) {}

    #[entry]
    async fn block_when_due(&mut self, ctx: &mut Context<Self>, after: Duration, until: Latch) {
        ctx.sleep(after).await;
        until.wait();
    }

    #[entry]
    async fn open_when_due(&mut self, ctx: &mut Context<Self>, after: Duration, what: Latch) {
        ctx.sleep(after).await;
        what.open();
    }

    #[entry]
    async fn serve_until_woken_by_itself(&mut self, ctx: &mut Context<Self>) -> u32 {
        ctx.serve_until(self, wakes_itself()).await
    }

    #[message]
    fn run_woken_by_itself(&mut self, ctx: &mut Context<Self>, done: Latch) {
        ctx.run(wakes_itself()).then(move |_, _, _| done.open());
    }

    #[message]
    fn ping(&mut self) -> u32 {
        1
    }

    #[message]
    fn open(&mut self, what: Latch) {
        what.open();
    }

    #[message]
    fn have_opened_then_block(&mut self, by: Address<Probe>, what: Latch) {
        by.open(what.clone()).send().unwrap();
        what.wait();
    }

    /// Returns the caller's deadline. If the thread is delayed during a reading, the result is too early, so the latest
    /// of ten readings counts.
    #[message]
    fn deadline(&mut self, ctx: &mut Context<Self>) -> Option<Instant> {
        (0..10).filter_map(|_| ctx.deadline()).max()
    }

    /// Requests the deadline of another process. Returns the time of that request, and the deadline.
    #[message]
    async fn ask_deadline(&mut self, of: Address<Probe>) -> (Instant, Result<Option<Instant>, CallError>) {
        let asked = Instant::now();
        (asked, of.deadline().await)
    }

    #[message]
    fn drop_in_a_caught_panic(&mut self, reply: Reply<u32>) {
        let caught = catch_unwind(AssertUnwindSafe(move || {
            let _reply = reply;
            panic!("caught by the handler that panicked");
        }));
        assert!(caught.is_err());
    }

    #[message]
    fn fall(&mut self) -> u32 {
        panic!("a method that panics")
    }

    #[message]
    async fn ask_desk(&mut self, ctx: &mut Context<Self>) -> Result<u64, CommandError> {
        ctx.perform(Ask(1)).await
    }

    #[message]
    async fn lend_shield(&mut self, ctx: &mut Context<Self>, to: Address<Probe>) -> bool {
        let lent = begun(ctx.shield(pending())).await;
        to.take_back(lent).await.is_ok()
    }

    #[message]
    async fn lend_cancelled(&mut self, ctx: &mut Context<Self>, to: Address<Probe>) -> bool {
        let cancelled = ctx.cancelled();
        let lent = begun(async move {
            cancelled.await;
        })
        .await;
        to.take_back(lent).await.is_ok()
    }

    #[message]
    fn take_back(&mut self, lent: Lent) {
        drop(lent);
    }
}

#[test]
fn a_poller_that_got_up_for_a_timer_left_later_timers_without_a_keeper() {
    soon(|| {
        let runtime = with_workers(2).build().unwrap();
        for _ in 0..5 {
            until_quiet(&runtime);
            let second = Latch::new();
            let blocked = runtime.spawn(Probe).block_when_due(milliseconds(30), second.clone()).unwrap();
            let opens = runtime.spawn(Probe).open_when_due(milliseconds(60), second).unwrap();
            blocked.wait().unwrap();
            opens.wait().unwrap();
        }
    });
}

#[test]
fn a_poller_that_slept_for_a_far_timer_did_not_watch_run_next_slots() {
    soon(|| {
        let runtime = with_workers(2).build().unwrap();
        let (blocks, opens) = (runtime.spawn(Probe).serve().unwrap(), runtime.spawn(Probe).serve().unwrap());
        opens.ping().send_after(AGES).unwrap();
        for _ in 0..20 {
            until_quiet(&runtime);
            assert_eq!(blocks.have_opened_then_block(opens, Latch::new()).timeout(AGES).wait(), Ok(()));
        }
        assert_eq!(runtime.statistics().timers, 1, "the far timer was pending all the while");
    });
}

/// If the deadline were counted from the time of an earlier step, it would be too early by the runtime's idle time.
#[test]
fn the_default_deadline_of_a_call_was_counted_from_a_stale_clock() {
    soon(|| {
        const IDLE: Duration = Duration::from_millis(300);
        let runtime = with_workers(1).call_timeout(AGES).build().unwrap();
        let (asks, tells) = (runtime.spawn(Probe).serve().unwrap(), runtime.spawn(Probe).serve().unwrap());
        asks.ping().wait().unwrap();
        thread::sleep(IDLE);
        let (asked, deadline) = asks.ask_deadline(tells).timeout(2 * AGES).wait().unwrap();
        let deadline = deadline.unwrap().expect("a call has a deadline");
        assert!(deadline + IDLE / 2 >= asked + AGES, "{:?} after the call", deadline - asked);
    });
}

struct PanicsWhenDropped(Latch);

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        self.0.open();
        panic!("a value that does not want to go");
    }
}

struct SpawnsWhenDropped(Host, Latch);

impl Drop for SpawnsWhenDropped {
    fn drop(&mut self) {
        self.0.spawn(Probe).serve().unwrap();
        self.1.open();
    }
}

/// Passes a value to an exiting process on the only worker, and checks that the worker still works afterwards.
fn a_worker_survives_the_drop_of<T: Send + Sync + 'static>(value: impl FnOnce(Host, Latch) -> T + Send + 'static) {
    soon(move || {
        let runtime = with_workers(1).build().unwrap();
        let (dropped, other) = (Latch::new(), runtime.spawn(Probe).serve().unwrap());
        let value = value(runtime.host(), dropped.clone());
        runtime.spawn(Probe).value(value).over().unwrap().wait().unwrap();
        dropped.wait();
        assert_eq!(other.ping().timeout(AGES).wait(), Ok(1));
        assert_eq!(runtime.spawn(Probe).serve().unwrap().ping().timeout(AGES).wait(), Ok(1));
    });
}

#[test]
fn a_value_that_panicked_in_its_drop_took_the_worker_with_it() {
    a_worker_survives_the_drop_of(|_, dropped| PanicsWhenDropped(dropped));
}

#[test]
fn a_value_that_spawned_in_its_drop_took_the_worker_with_it() {
    a_worker_survives_the_drop_of(SpawnsWhenDropped);
}

#[test]
fn a_reply_dropped_by_a_caught_panic_was_never_reported() {
    soon(|| {
        let runtime = with_workers(1).build().unwrap();
        let probe = runtime.spawn(Probe).serve().unwrap();
        assert_eq!(probe.drop_in_a_caught_panic().timeout(AGES).wait(), Err(CallError::Dropped));
        assert_eq!(probe.ping().timeout(AGES).wait(), Ok(1), "it lives");
    });
}

#[test]
fn an_awaited_call_to_a_mailbox_never_timed_out() {
    soon(|| {
        let runtime = with_workers(1).build().unwrap();
        let mailbox = Mailbox::new().unwrap();
        let call = Recipient::<u32, u32>::of(mailbox.pid()).call(1).timeout(milliseconds(100));
        assert_eq!(runtime.block_on(async move { call.await }), Err(CallError::Timeout));
    });
}

#[test]
fn answered_calls_from_outside_left_their_timers_behind() {
    soon(|| {
        let runtime = with_workers(2).build().unwrap();
        let probe = runtime.spawn(Probe).serve().unwrap();
        runtime.block_on(async {
            for _ in 0..10_000 {
                assert_eq!(probe.ping().timeout(AGES).await, Ok(1));
            }
        });
        assert_eq!(runtime.statistics().timers, 0);
    });
}

/// The runtime holds the only sender. Checks that a shutdown drops it, after `use_it` has made the runtime send.
fn is_dropped_at_shutdown(
    build: impl FnOnce(Sender<&'static str>) -> Runtime + Send + 'static,
    use_it: impl FnOnce(&Runtime) + Send + 'static,
) {
    soon(|| {
        let (says, heard): (_, Receiver<&'static str>) = channel();
        let runtime = build(says);
        use_it(&runtime);
        runtime.shutdown().unwrap();
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["used"], "and then the only sender is dropped");
    });
}

#[test]
fn the_dead_letter_hook_outlived_its_runtime() {
    let build = |says: Sender<_>| with_workers(2).on_dead_letter(move |_| says.send("used").unwrap()).build().unwrap();
    is_dropped_at_shutdown(build, |runtime| {
        let probe = runtime.spawn(Probe).serve().unwrap();
        // An unhandled message becomes a dead letter when it is delivered. That is before the answer.
        runtime.send(probe.pid(), 1_u8).unwrap();
        probe.ping().timeout(AGES).wait().unwrap();
    });
}

#[test]
fn the_handlers_of_commands_outlived_their_runtime() {
    let build = |says: Sender<_>| {
        let handle = move |Ask(what), completion: Completion<u64>| {
            says.send("used").unwrap();
            completion.complete(what);
        };
        with_workers(2).handler(handle).build().unwrap()
    };
    is_dropped_at_shutdown(build, |runtime| {
        let probe = runtime.spawn(Probe).serve().unwrap();
        assert_eq!(probe.ask_desk().timeout(AGES).wait().unwrap(), 1);
    });
}

#[test]
fn the_factories_of_processes_outlived_their_runtime() {
    let build = |says: Sender<_>| {
        let runtime = with_workers(2).build().unwrap();
        runtime.register_type_with("Made", move || {
            says.send("used").unwrap();
            Probe
        });
        runtime
    };
    is_dropped_at_shutdown(build, |runtime| {
        runtime.start("Made", "serve", payloads![]).unwrap();
    });
}

/// One process lends another one a future of its own. Checks that both of them exit when cancelled.
fn leaves_both_cancellable(lend: impl Fn(Address<Probe>, Address<Probe>) -> bool + Send + 'static) {
    soon(move || {
        let runtime = with_workers(2).build().unwrap();
        let (lender, borrower) = (runtime.spawn(Probe).serve().unwrap(), runtime.spawn(Probe).serve().unwrap());
        assert!(lend(lender, borrower));
        for probe in [borrower, lender] {
            let end = probe.pid().join();
            assert!(probe.pid().cancel(ExitReason::Shutdown));
            assert!(matches!(end.wait(), ExitReason::Shutdown));
        }
    });
}

#[test]
fn a_shield_dropped_in_another_process_was_taken_off_that_one() {
    leaves_both_cancellable(|lender, borrower| lender.lend_shield(borrower).timeout(AGES).wait().unwrap());
}

#[test]
fn a_wait_for_cancel_dropped_in_another_process_was_taken_off_that_one() {
    leaves_both_cancellable(|lender, borrower| lender.lend_cancelled(borrower).timeout(AGES).wait().unwrap());
}

#[test]
fn a_future_that_woke_itself_in_serve_until_was_not_polled_again() {
    soon(|| {
        let runtime = with_workers(1).build().unwrap();
        assert_eq!(runtime.spawn(Probe).serve_until_woken_by_itself().unwrap().wait().unwrap(), 4);
    });
}

#[test]
fn a_background_future_that_woke_itself_was_not_polled_again() {
    soon(|| {
        let runtime = with_workers(1).build().unwrap();
        let done = Latch::new();
        runtime.spawn(Probe).serve().unwrap().run_woken_by_itself(done.clone()).send().unwrap();
        done.wait();
    });
}

struct LastWords(Host, Address<Probe>, Latch);

impl Drop for LastWords {
    fn drop(&mut self) {
        // The thread-locals of the runtime may be gone. The calls must return, but need not succeed.
        let _spawned = self.0.spawn(Probe).serve();
        let _refused = self.0.spawn(Probe).refuse();
        let _sent = self.1.ping().send();
        self.2.open();
    }
}

thread_local! {
    static LAST: RefCell<Option<LastWords>> = const { RefCell::new(None) };
}

#[test]
fn a_spawn_in_the_last_moments_of_a_thread_aborted_the_program() {
    soon(|| {
        let runtime = with_workers(1).build().unwrap();
        let probe = runtime.spawn(Probe).serve().unwrap();
        // Thread-locals are dropped in the order of their first use, or in reverse.
        for spawn_first in [true, false] {
            let (host, dropped) = (runtime.host(), Latch::new());
            let last = LastWords(host, probe, dropped.clone());
            let thread = thread::spawn(move || {
                if spawn_first {
                    host.spawn(Probe).serve().unwrap();
                }
                LAST.set(Some(last));
                host.spawn(Probe).serve().unwrap();
            });
            thread.join().unwrap();
            assert!(dropped.is_open());
            assert_eq!(probe.ping().timeout(AGES).wait(), Ok(1));
        }
    });
}

#[test]
fn a_caller_was_notified_of_a_panic_while_the_process_was_still_routable() {
    soon(|| {
        let runtime = with_workers(2).build().unwrap();
        for _ in 0..200 {
            let probe = runtime.spawn(Probe).serve().unwrap();
            let answer = probe.fall().timeout(AGES).wait();
            let alive = probe.pid().is_alive();
            assert!(matches!(answer, Err(CallError::Died(ExitReason::Panic(_)))), "{answer:?}");
            assert!(!alive);
        }
    });
}

#[test]
fn a_process_that_was_spawned_by_the_drop_of_a_value_had_its_sibling_for_a_parent() {
    #[process]
    struct Child {
        out: Sender<Option<Pid>>,
    }
    #[process]
    impl Child {
        #[entry]
        fn serve(&mut self, ctx: &mut Context<Self>) {
            self.out.send(ctx.parent()).unwrap();
        }
    }
    struct Spawns(postroom::Host, std::sync::Mutex<Sender<Option<Pid>>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let out = self.1.get_mut().unwrap();
            for _ in 0..3 {
                self.0.spawn(Child { out: out.clone() }).serve().unwrap();
            }
        }
    }
    soon(|| {
        let runtime = with_workers(1).build().unwrap();
        let (out, parents) = channel();
        let value = Spawns(runtime.host(), out.into());
        let dead = runtime.spawn(Probe).value(value).serve().unwrap().pid();
        assert!(dead.stop());
        assert_eq!(parents.iter().take(3).collect::<Vec<_>>(), [Some(dead); 3]);
    });
}

#[test]
fn a_process_started_by_the_drop_of_a_late_answer_lost_its_continuation() {
    #[process]
    struct Child {
        out: Sender<()>,
        probe: Address<Probe>,
    }
    #[process]
    impl Child {
        #[entry]
        fn serve(&mut self, ctx: &mut Context<Self>) {
            ctx.call(self.probe.ping()).then(|this, _, _| this.out.send(()).unwrap());
        }
    }
    struct Spawns(postroom::Host, Sender<()>, Address<Probe>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            self.0.spawn(Child { out: self.1.clone(), probe: self.2 }).serve().unwrap();
        }
    }
    #[process]
    struct Slow {
        host: postroom::Host,
        out: Sender<()>,
        probe: Address<Probe>,
        gate: Option<Reply<Spawns>>,
    }
    #[process]
    impl Slow {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn late(&mut self, reply: Reply<Spawns>) {
            self.gate = Some(reply);
        }
        #[message]
        fn now(&mut self) {
            if let Some(reply) = self.gate.take() {
                reply.send(Spawns(self.host, self.out.clone(), self.probe));
            }
        }
    }
    #[process]
    struct Asker {
        slow: Address<Slow>,
    }
    #[process]
    impl Asker {
        #[entry]
        async fn run(&mut self) {
            {
                let mut call = std::pin::pin!(std::future::IntoFuture::into_future(self.slow.late()));
                poll_fn(|context| {
                    assert!(call.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            // The answer to the abandoned call comes before this one's.
            self.slow.now().await.unwrap();
        }
    }
    soon(|| {
        let runtime = with_workers(1).build().unwrap();
        let (out, continued) = channel();
        let probe = runtime.spawn(Probe).serve().unwrap();
        let slow = runtime.spawn(Slow { host: runtime.host(), out, probe, gate: None }).serve().unwrap();
        runtime.spawn(Asker { slow }).run().unwrap().wait().unwrap();
        continued.recv().unwrap();
    });
}

#[test]
fn a_step_that_replaced_its_output_lost_what_it_wrote_there() {
    struct Resets;
    impl Process for Resets {
        fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            *out = StepOutput::new();
            out.done();
            Ok(())
        }
    }
    /// A process whose drop panics.
    struct Bomb;
    impl Process for Bomb {
        fn step(&mut self, _: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            Ok(())
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a bomb");
        }
    }
    struct Loses;
    impl Process for Loses {
        fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            *out = StepOutput::new();
            out.upgrade(Bomb);
            Ok(())
        }
    }
    soon(|| {
        let runtime = with_workers(1).build().unwrap();
        let resets = runtime.spawn_process(Resets).run::<()>().unwrap();
        assert!(matches!(resets.wait(), Err(RunError::Ended(ExitReason::Normal)) | Ok(())));
        let loses = runtime.spawn_process(Loses).start().unwrap();
        let end = loses.join();
        loses.kill();
        assert!(matches!(end.wait(), ExitReason::Killed | ExitReason::Panic(_)));
    });
}
