//! Regression tests for fixed faults. Each is named after its fault.

use postroom::manual::{Event, Events, Machine, Process, StepOutput};
use postroom::prelude::*;
use postroom::{Command, Mailbox, Overflow, ProcessError};
use postroom_tests::bomb::*;
use postroom_tests::face::{Log, watched};
use postroom_tests::{HOUR, Latch, act, eventually, idle_for_ever};
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

fn counter() -> Arc<AtomicUsize> {
    Arc::default()
}

/// Returns a process that exits with the given error at its first message.
fn fails_with(error: impl FnOnce() -> ProcessError + Send + 'static) -> impl Process + Send {
    let mut error = Some(error);
    act(move |events, _| match (events.next(), error.take()) {
        (Some(_), Some(error)) => Err(error()),
        (_, before) => {
            error = before;
            Ok(())
        }
    })
}

// The process that a thread runs.

/// A value whose drop checks whether its thread counts as running a process.
struct Nosy {
    other: Pid,
    reached: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Nosy {
    fn drop(&mut self) {
        // With the fault, this panics in a debug build, since the runtime notices that this thread does not hold the
        // token. That also counts as reached.
        let reached = catch_unwind(|| self.other.monitor().is_ok());
        self.reached.fetch_add(usize::from(!matches!(reached, Ok(false))), SeqCst);
        self.dropped.fetch_add(1, SeqCst);
    }
}

/// A thread dropped the inherited values of a process after it had given up the process's token. The drop of the last
/// value changed the bindings of the process that was in that slot by then. (The window is about ten nanoseconds wide,
/// and this test hit it several times in 30,000 processes. The model `running` opens it on purpose.)
#[test]
fn the_drop_of_a_value_reached_a_process_that_another_thread_ran() {
    watched(|| {
        let runtime = builder().build().expect("it starts");
        let other = runtime.spawn_process(idle_for_ever()).start().expect("it starts");
        let (reached, dropped) = (counter(), counter());
        for round in 0..30_000 {
            let value = Nosy { other, reached: reached.clone(), dropped: dropped.clone() };
            let pid = runtime.spawn_process(idle_for_ever()).value(value).start().expect("it starts");
            // The process is woken by one thread and killed by another, so that it moves between threads.
            runtime.send(pid, ()).expect("it lives");
            pid.kill();
            if round % 64 == 0 {
                eventually(|| dropped.load(SeqCst) + 32 > round);
            }
        }
        eventually(|| dropped.load(SeqCst) == 30_000);
        assert_eq!(reached.load(SeqCst), 0, "a drop reached a process");
        assert!(!runtime.shutdown_within(HOUR).expect("asked from outside").was_forced());
    });
}

/// A process that calls another one. The other one never answers.
#[process]
struct Caller;

#[process]
impl Caller {
    #[entry]
    async fn run(&mut self, to: Pid, method: &'static str) {
        let call: Call<u8, (), Infallible> = Call::new(to, method, 1_u8);
        let _never = call.timeout(Duration::from_secs(3600)).await;
    }
}

/// A hand-written process gave its context to several machines. They published the wait of the process from several
/// threads, so a method name could be read with the length of another one.
#[test]
fn machines_driven_by_hand_published_the_wait_of_their_process() {
    with_runtime(|runtime| {
        let machines = Arc::new(Mutex::new(Vec::<Machine<Caller>>::new()));
        let silent = runtime.spawn_process(act(|_, _| Ok(()))).start().expect("it starts");
        let made = machines.clone();
        let host = act(|_, _| Ok(())).init(move |ctx| {
            for method in ["short", "a method with a long name"] {
                let mut machine = Machine::new(Caller);
                machine.init(ctx, "run", payloads![silent, method])?;
                made.lock().expect("no panic").push(machine);
            }
            Ok(())
        });
        let host = runtime.spawn_process(host).start().expect("it starts");
        let driven: Vec<_> = std::mem::take(&mut *machines.lock().expect("no panic"))
            .into_iter()
            .map(|mut machine| {
                thread::spawn(move || {
                    for _ in 0..100 {
                        machine.step(&mut Events::of([]), &mut StepOutput::new()).expect("it goes on");
                        let waits_for = host.info().expect("it lives").waits_for;
                        assert_eq!(waits_for, None, "the process itself waits for nothing");
                    }
                })
            })
            .collect();
        driven.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

/// The last reference to an exit reason was dropped without a guard, while the notified process had its bindings
/// borrowed. If the drop changed these bindings, that was undefined behaviour, and if it panicked, the process was
/// lost.
#[test]
fn an_error_was_dropped_while_the_bonds_of_its_hearer_were_in_use() {
    /// An error that re-enters the runtime in its drop, and then panics.
    #[derive(Debug)]
    struct Returns(Pid, Arc<AtomicUsize>);
    impl fmt::Display for Returns {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("it returns")
        }
    }
    impl std::error::Error for Returns {}
    impl Drop for Returns {
        fn drop(&mut self) {
            let own = self.0.link().is_ok() && self.0.unlink().is_ok() && self.0.monitor().is_ok();
            self.1.fetch_add(if own { 1 } else { 1000 }, SeqCst);
            explode(0);
        }
    }
    with_runtime(|runtime| {
        let (dropped, bystander) = (counter(), runtime.spawn_process(idle_for_ever()).start().expect("it starts"));
        let counted = dropped.clone();
        let ender = fails_with(move || Returns(bystander, counted).into());
        let ender = runtime.spawn_process(ender).start().expect("it starts");
        let (go, at_it) = (Latch::new(), Latch::new());
        let (may_go, is_at_it, handled) = (go.clone(), at_it.clone(), counter());
        let handles = handled.clone();
        // The process removes its monitor at a time when only the notice in its mailbox still holds the reason.
        let hearer = act(move |events, _| {
            if events.next().is_some() && handles.fetch_add(1, SeqCst) == 0 {
                let monitor = ender.monitor()?;
                is_at_it.open();
                may_go.wait();
                monitor.demonitor();
            }
            Ok(())
        });
        let hearer = runtime.spawn_process(hearer).start().expect("it starts");
        runtime.send(hearer, ()).expect("it lives");
        at_it.wait();
        let end = ender.join();
        runtime.send(ender, ()).expect("it lives");
        let ExitReason::Error(error) = ended(ender, end) else { panic!("it failed") };
        // The thread that ended the process holds the reason for a moment longer.
        eventually(|| Arc::strong_count(&error) == 2);
        drop(error);
        go.open();
        eventually(|| dropped.load(SeqCst) != 0);
        assert_eq!(dropped.load(SeqCst), 1, "the drop is code of the process that hears");
        runtime.send(hearer, ()).expect("it lives on");
        eventually(|| handled.load(SeqCst) == 2);
        // The monitor that the drop has made exists exactly once.
        assert_eq!(hearer.bindings().wait().expect("it lives").monitors, [bystander]);
        hearer.kill();
    });
}

// Panics that no guard contained.

/// `traps_exits` is called after the start. When it panicked, it left a process that could not be ended.
#[test]
fn a_panic_in_the_question_whether_exits_are_trapped_lost_the_process() {
    struct Panics(Arc<AtomicUsize>);
    impl Process for Panics {
        fn step(&mut self, _: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            Ok(())
        }
        fn close(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
        fn traps_exits(&self) -> bool {
            explode(1)
        }
    }
    with_runtime(|runtime| {
        let closed = counter();
        for pinned in [false, true] {
            let process = Panics(closed.clone());
            let outcome = match pinned {
                false => runtime.spawn_process(process).named("it").start(),
                true => runtime.spawn_process_pinned(move || process).named("it").start(),
            };
            assert!(matches!(outcome, Err(SpawnError::Init(InitError::Panicked(_)))), "{outcome:?}");
            assert_eq!((runtime.whereis("it"), runtime.statistics().processes.live), (None, 0));
        }
        assert_eq!(closed.load(SeqCst), 2);
    });
}

/// The `Display` of a reason panics: the reason of a failed start, and the reason of an exit that is logged.
#[test]
fn an_error_that_could_not_be_shown_lost_the_process() {
    with_runtime(|runtime| {
        let refuses = act(|_, _| Ok(())).init(|_| Err(InitError::failed(Unspeakable)));
        assert!(runtime.spawn_process(refuses).named("it").start().is_err());
        assert_eq!((runtime.whereis("it"), runtime.statistics().processes.live), (None, 0));

        let heard = Log::new();
        let fails = runtime.spawn_process(fails_with(|| Unspeakable.into())).start().expect("it starts");
        let listener = Listener { monitors: vec![fails], heard: heard.clone() };
        let listener = runtime.spawn_process(listener).start().expect("it starts");
        eventually(|| fails.bindings().wait().is_some_and(|bindings| !bindings.monitored_by.is_empty()));
        let end = fails.join();
        tracing::subscriber::with_default(Everything, || runtime.send(fails, ()).expect("it lives"));
        assert!(matches!(ended(fails, end), ExitReason::Error(_)));
        eventually(|| heard.len() == 1);
        listener.kill();
    });
}

/// A subscriber that formats everything.
struct Everything;

impl tracing::Subscriber for Everything {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Shown;
        impl tracing::field::Visit for Shown {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn fmt::Debug) {
                let _text = format!("{value:?}");
            }
        }
        event.record(&mut Shown);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Of two cancellations, the error of the second is dropped before the step. That drop had no guard.
#[test]
fn the_error_of_a_second_cancel_lost_the_process() {
    with_runtime(|runtime| {
        let went_off = counter();
        let (at_it, go) = (Latch::new(), Latch::new());
        let (is_at_it, may_go) = (at_it.clone(), go.clone());
        let stays = act(move |events, _| {
            if events.next().is_some() {
                is_at_it.open();
                may_go.wait();
            }
            Ok(())
        });
        let pid = runtime.spawn_process(stays).start().expect("it starts");
        runtime.send(pid, ()).expect("it lives");
        at_it.wait();
        let end = pid.join();
        assert!(pid.cancel("the first"));
        assert!(pid.cancel(ExitReason::error(BombError(Bomb::new(1, &went_off)))));
        go.open();
        assert_eq!(ended(pid, end), ExitReason::from("the first"));
        assert_eq!(went_off.load(SeqCst), 1);
    });
}

/// A command whose handler panics.
struct Explode;

impl Command for Explode {
    type Output = ();
}

/// The drop of a handler's panic payload had no guard.
#[test]
fn the_payload_of_a_command_handlers_panic_lost_the_process() {
    watched(|| {
        let builder = builder().handler::<Explode>(|_, _| explode(2));
        let runtime = builder.build().expect("it starts");
        let outcomes = Log::new();
        let log = outcomes.clone();
        let performs = act(move |events, out| {
            match events.next() {
                Some(Event::Message(_)) => {
                    out.perform(Explode, 7);
                    out.wait();
                }
                Some(Event::Completed { tag, result }) => {
                    log.add((tag, result.is_err()));
                    out.done();
                }
                _ => {}
            }
            Ok(())
        });
        let pid = runtime.spawn_process(performs).start().expect("it starts");
        let end = pid.join();
        runtime.send(pid, ()).expect("it lives");
        assert_eq!(ended(pid, end), ExitReason::Normal);
        assert_eq!(outcomes.all(), [(7, true)]);
        unharmed(&runtime);
        assert!(!runtime.shutdown_within(HOUR).expect("asked from outside").was_forced());
    });
}

/// A process notified a mailbox of its exit, and the waker of the mailbox's owner panicked. Then the partners after the
/// mailbox were never notified.
#[test]
fn a_waker_of_a_mailbox_kept_others_from_hearing_of_an_end() {
    with_runtime(|runtime| {
        let mut mailbox = Mailbox::new().expect("there are slots");
        let linked = Arc::new(AtomicBool::new(false));
        let (to, is_linked) = (mailbox.pid(), linked.clone());
        let fails = act(move |events, _| {
            if !is_linked.swap(true, SeqCst) {
                to.link()?;
            }
            if events.next().is_some() { Err(ProcessError::new("fails")) } else { Ok(()) }
        });
        let fails = runtime.spawn_process(fails).start().expect("it starts");
        let heard = Log::new();
        let listener = Listener { monitors: vec![fails], heard: heard.clone() };
        let listener = runtime.spawn_process(listener).start().expect("it starts");
        let bound =
            |bindings: postroom::inspect::Bindings| (bindings.links.len(), bindings.monitored_by.len()) == (1, 1);
        eventually(|| fails.bindings().wait().is_some_and(bound));
        while mailbox.try_receive().is_some() {}
        let waker = bomb_waker();
        let mut received = Box::pin(mailbox.received());
        assert!(received.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
        let end = fails.join();
        runtime.send(fails, ()).expect("it lives");
        assert!(matches!(ended(fails, end), ExitReason::Error(_)));
        eventually(|| heard.len() == 1);
        drop(received);
        // The mailbox still works.
        runtime.send(mailbox.pid(), 7_u8).expect("it is there");
        assert_eq!(mailbox.receive_timeout(PATIENCE).and_then(|package| package.take::<u8>().ok()), Some(7));
        listener.kill();
    });
}

/// The drop of an error in a mailbox lost the mailbox's token. So the mailbox received nothing more, and its drop hung.
#[test]
fn the_drop_of_an_error_lost_a_mailbox() {
    with_runtime(|runtime| {
        let went_off = counter();
        let mut mailbox = Mailbox::new().expect("there are slots");
        let (to, bomb) = (mailbox.pid(), went_off.clone());
        let fails = fails_with(move || {
            to.link().expect("it runs");
            BombError(Bomb::new(1, &bomb)).into()
        });
        let fails = runtime.spawn_process(fails).start().expect("it starts");
        runtime.send(fails, ()).expect("it lives");
        eventually(|| !fails.is_alive());
        // No other process holds the error, so it is dropped when the mailbox receives the notice.
        eventually(|| {
            assert!(mailbox.try_receive().is_none());
            went_off.load(SeqCst) == 1
        });
        runtime.send(mailbox.pid(), 7_u8).expect("it is there");
        assert_eq!(mailbox.receive_timeout(PATIENCE).and_then(|package| package.take::<u8>().ok()), Some(7));
        drop(mailbox);
    });
}

/// When a process sent a streamed reply and the waker of the stream panicked, the process ended.
#[test]
fn a_waker_of_a_reply_stream_ended_the_process_that_answers() {
    #[process]
    struct Streams(Option<Replies<u32>>);
    #[process]
    impl Streams {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn open(&mut self, replies: Replies<u32>) {
            self.0 = Some(replies);
        }
        #[message]
        fn next(&mut self, value: u32) -> bool {
            self.0.as_ref().is_some_and(|replies| replies.send(value).is_ok())
        }
    }
    with_runtime(|runtime| {
        let streams = runtime.spawn(Streams(None)).serve().expect("it starts");
        let mut stream = streams.open().open().expect("it lives");
        let waker = bomb_waker();
        {
            let mut next = pin!(stream.next());
            assert!(next.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
        }
        assert_eq!(streams.next(7).wait(), Ok(true));
        let mut next = pin!(stream.next());
        assert_eq!(next.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())), Poll::Ready(Some(7)));
    });
}

/// The drop of a panic payload panics, too. With two levels of this the process hung, with three the program aborted.
#[test]
fn payloads_that_panicked_in_their_drops_lost_processes() {
    with_runtime(|runtime| {
        for depth in 0..5 {
            let heard = Log::new();
            let panics = act(move |events, _| if events.next().is_some() { explode(depth) } else { Ok(()) });
            let pid = runtime.spawn_process(panics).start().expect("it starts");
            let listener = Listener { monitors: vec![pid], heard: heard.clone() };
            let listener = runtime.spawn_process(listener).start().expect("it starts");
            eventually(|| pid.bindings().wait().is_some_and(|bindings| !bindings.monitored_by.is_empty()));
            let end = pid.join();
            runtime.send(pid, ()).expect("it lives");
            assert!(matches!(ended(pid, end), ExitReason::Panic(_)), "depth {depth}");
            eventually(|| heard.len() == 1);
            listener.kill();
        }
    });
}

/// The drop of a message panics, with a payload whose drop panics, too.
#[test]
fn a_message_that_panicked_in_its_drop_escaped_its_payload() {
    with_runtime(|runtime| {
        let went_off = counter();
        for depth in 0..4 {
            let pid = runtime.spawn_process(idle_for_ever()).start().expect("it starts");
            runtime.send(pid, Bomb::new(depth, &went_off)).expect("it lives");
            eventually(|| went_off.load(SeqCst) == 2 * depth + 1);
            let end = pid.join();
            pid.stop();
            assert_eq!(ended(pid, end), ExitReason::Normal, "depth {depth}: whoever drops it unopened is not harmed");
            // This message is left in a mailbox.
            let pid = runtime.spawn_process(idle_for_ever()).start().expect("it starts");
            pid.kill();
            // If the send is refused, the payload of its panic must not be dropped.
            std::mem::forget(catch_unwind(AssertUnwindSafe(|| _ = runtime.send(pid, Bomb::new(depth, &went_off)))));
            eventually(|| went_off.load(SeqCst) == 2 * depth + 2);
        }
    });
}

// Starts and wakers.

/// While a pinned process started on its own thread, the spawning thread also counted as running it. If a waker was
/// woken on the spawning thread, it changed the bindings of the pinned process concurrently.
#[test]
fn the_thread_that_spawned_a_pinned_process_passed_for_it() {
    struct Looks(Log<bool>, Pid);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            self.0.add(self.1.monitor().is_ok());
        }
    }
    with_runtime(|runtime| {
        let log = Log::new();
        let other = runtime.spawn_process(idle_for_ever()).start().expect("it starts");
        let held = other.join();
        let waker = Waker::from(Arc::new(Looks(log.clone(), other)));
        let mut held = Box::pin(held);
        assert!(held.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
        let victim = other;
        let pinned = runtime.spawn_process_pinned(move || {
            // A thread of the runtime reports the exit of the other process.
            victim.kill();
            idle_for_ever()
        });
        let pinned = pinned.start().expect("it starts");
        eventually(|| log.len() == 1);
        assert_eq!(log.all(), [false], "no process wakes it");
        pinned.kill();
    });
}

/// If a waker was never dropped, cycles were not detected any more for all later processes of the same slot.
#[test]
fn a_waker_that_was_forgotten_switched_off_the_search_for_cycles_in_its_slot() {
    #[process]
    struct Forgets;
    #[process]
    impl Forgets {
        #[entry]
        async fn run(&mut self) {
            std::future::poll_fn(|context| {
                std::mem::forget(context.waker().clone());
                Poll::Ready(())
            })
            .await;
        }
    }
    #[process]
    struct Calls;
    #[process]
    impl Calls {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        async fn call_itself(&mut self, ctx: &mut Context<Self>) -> bool {
            let own = ctx.address();
            matches!(own.call_itself().timeout(AGES).await, Err(CallError::Cycle(_)))
        }
    }
    #[process]
    struct Tries;
    #[process]
    impl Tries {
        /// The slot of an exited process is reused by the next process that is spawned on the same thread.
        #[entry]
        async fn run(&mut self, ctx: &mut Context<Self>) -> bool {
            loop {
                let forgetful = ctx.spawn(Forgets).run().expect("it starts");
                let slot = slot_of(forgetful.address().pid());
                forgetful.await.expect("it ends");
                let calls = ctx.spawn(Calls).serve().expect("it starts");
                if slot_of(calls.pid()) == slot {
                    return calls.call_itself().timeout(PATIENCE).await == Ok(true);
                }
                calls.pid().kill();
            }
        }
    }
    with_one_worker(|runtime| {
        assert_eq!(runtime.spawn(Tries).run().expect("it starts").wait(), Ok(true));
    });
}

/// Returns the slot's number in `<node.host.slot.generation>`.
fn slot_of(pid: Pid) -> String {
    pid.to_string().split('.').nth(2).expect("a PID has four parts").to_string()
}

// Exits.

/// A thread waited in `send` for room in a mailbox, and its send returned success although the process had exited.
#[test]
fn a_send_that_waited_for_room_was_accepted_by_a_process_that_had_ended() {
    watched(|| {
        let runtime = builder().build().expect("it starts");
        for _ in 0..50 {
            let (at_it, go) = (Latch::new(), Latch::new());
            let (is_at_it, may_go) = (at_it.clone(), go.clone());
            let busy = act(move |events, _| {
                if events.next().is_some() {
                    is_at_it.open();
                    may_go.wait();
                }
                Ok(())
            });
            let bound = Bound::Hard(1, Overflow::Wait);
            let pid = runtime.spawn_process(busy).mailbox(bound).start().expect("it starts");
            runtime.send(pid, 0).expect("it lives");
            at_it.wait();
            // One message is in the mailbox, so the next one has to wait.
            runtime.send(pid, 1).expect("there is room");
            let host = runtime.host();
            let waits = thread::spawn(move || host.send(pid, 2).map_err(|refused| refused.message));
            // The wait cannot be observed from outside. If the send comes too late, it is refused all the same.
            (0..100).for_each(|_| thread::yield_now());
            let end = pid.join();
            pid.kill();
            go.open();
            assert_eq!(ended(pid, end), ExitReason::Killed);
            assert_eq!(waits.join().expect("no panic"), Err(2), "it was never in the mailbox");
        }
        assert!(!runtime.shutdown_within(HOUR).expect("asked from outside").was_forced());
    });
}

/// An accepted message is handled, or is a dead letter before the exit is reported. (This once failed: a few in 10,000
/// became dead letters after the report. The model `slot_reuse` shows the remaining case of two concurrent senders;
/// here there is one.)
#[test]
fn dead_letters_came_after_the_report_of_the_exit() {
    watched(|| {
        let dead = counter();
        let counts = dead.clone();
        let builder = builder().on_dead_letter(move |_| _ = counts.fetch_add(1, SeqCst));
        let runtime = builder.build().expect("it starts");
        let began = Instant::now();
        for round in 0..20_000 {
            let handled = counter();
            let handles = handled.clone();
            let takes = act(move |events, _| {
                while events.next().is_some() {
                    handles.fetch_add(1, SeqCst);
                }
                Ok(())
            });
            let pid = runtime.spawn_process(takes).start().expect("it starts");
            let before = dead.load(SeqCst);
            let end = pid.join();
            pid.stop();
            let mut accepted = 0;
            // The loop sends messages until the process has exited.
            while runtime.send(pid, ()).is_ok() {
                accepted += 1;
            }
            end.wait();
            let told = handled.load(SeqCst) + dead.load(SeqCst) - before;
            assert!(told >= accepted, "round {round}: {accepted} accepted, {told} handled or dead");
            // Some messages are taken by a step that drops them unopened. They are dead letters, too.
            if began.elapsed() > Duration::from_secs(20) {
                break;
            }
        }
        assert!(!runtime.shutdown_within(HOUR).expect("asked from outside").was_forced());
    });
}

// Re-entrant use of a process's table.

/// The future of a process's timer. Other code will drop it.
type Kept = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Returns a future that has been polled once by the current process.
async fn begun(future: impl Future<Output = ()> + Send + 'static) -> Kept {
    let mut future: Kept = Box::pin(future);
    std::future::poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    future
}

/// A value whose drop drops a timer of the current process. For that, the process's table is needed.
#[derive(Debug)]
struct DropsTimer(Shelf);

/// Holds the timer until the drop of a [`DropsTimer`].
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Option<Kept>>>);

impl Shelf {
    fn put(&self, kept: Kept) {
        *self.0.lock().expect("no panic") = Some(kept);
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shelf")
    }
}

impl Drop for DropsTimer {
    fn drop(&mut self) {
        let kept = self.0.0.lock().expect("no panic").take();
        drop(kept);
    }
}

impl Wake for DropsTimer {
    fn wake(self: Arc<Self>) {}
}

impl fmt::Display for DropsTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it drops a timer")
    }
}

impl std::error::Error for DropsTimer {}

fn timers() -> usize {
    postroom::Host::current().map_or(0, |host| host.statistics().timers)
}

const AGES: Duration = Duration::from_secs(3600);

/// A process whose table holds values of the test.
#[process]
struct Holds;

#[process]
impl Holds {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    fn down(&mut self, _down: Down) {}

    /// Replaces a waker in the table. Returns how many of two timers are left.
    #[message]
    async fn replace_waker(&mut self, ctx: &mut Context<Self>) -> usize {
        let shelf = Shelf::default();
        let mut own = begun(ctx.sleep(AGES)).await;
        shelf.put(begun(ctx.sleep(AGES)).await);
        std::future::poll_fn(|context| {
            let waker = Waker::from(Arc::new(DropsTimer(shelf.clone())));
            assert!(own.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
            drop(waker);
            assert!(own.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        timers()
    }

    /// Drops the future whose waker is in the table.
    #[message]
    async fn drop_future(&mut self, ctx: &mut Context<Self>) -> usize {
        let shelf = Shelf::default();
        let mut own: Kept = Box::pin(ctx.sleep(AGES));
        shelf.put(begun(ctx.sleep(AGES)).await);
        std::future::poll_fn(|_| {
            let waker = Waker::from(Arc::new(DropsTimer(shelf.clone())));
            assert!(own.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(own);
        timers()
    }

    /// Removes a monitor whose notice is in the table and holds the last reference to the reason.
    #[message]
    async fn demonitor(&mut self, ctx: &mut Context<Self>, fails: Pid, shelf: Shelf) -> (bool, usize) {
        let monitor = fails.monitor().expect("it runs");
        let end = fails.join();
        ctx.send(fails, ()).expect("it lives");
        drop(end.await);
        // Takes the messages in the mailbox. The notice is among them, and waits for the end of the method.
        assert!(ctx.receive_within::<String>(Duration::ZERO).await.is_none());
        shelf.put(begun(ctx.sleep(AGES)).await);
        (monitor.demonitor(), timers())
    }
}

/// Wakers and reasons in a process's table were dropped while the table was in use. What their drops changed was lost.
#[test]
fn changes_by_a_drop_to_the_table_that_held_the_value_were_lost() {
    // With one worker, a process's exit is complete, and its reason dropped, before another process continues.
    with_one_worker(|runtime| {
        let holds = runtime.spawn(Holds).serve().expect("it starts");
        assert_eq!(holds.replace_waker().timeout(PATIENCE).wait(), Ok(1), "the other one is taken back");
        assert_eq!(holds.drop_future().timeout(PATIENCE).wait(), Ok(0));
        let shelf = Shelf::default();
        let reason = DropsTimer(shelf.clone());
        let fails = runtime.spawn_process(fails_with(|| reason.into())).start().expect("it starts");
        assert_eq!(holds.demonitor(fails, shelf).timeout(PATIENCE).wait(), Ok((true, 0)));
    });
}
