//! A drain finishes what is queued, and no more; and a shutdown says what it throws away.

use super::*;
use futures_util::stream;
use postroom::supervision::{Backoff, Child, Supervisor};
use postroom::{Mailbox, Pool, Reply, Running};
use postroom_tests::face::{Gate, Log};
use std::fmt::{Debug, Write};
use std::thread;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

/// Far beyond what any of these needs: whoever comes to it hangs.
const AGES: Duration = Duration::from_secs(3_600);

/// How long work takes here: long enough that a drain that does not wait for it cuts it short.
const WORK: Duration = Duration::from_millis(50);

/// Works in every way that there is, and writes down what it has finished.
#[process]
#[derive(Default)]
struct Worker {
    done: Log<u32>,
    kept: Vec<Reply<()>>,
}

struct Item;

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    async fn loop_for_ever(&mut self, ctx: &mut Context<Self>) {
        ctx.serve(self).await;
    }

    /// Waits, and takes no messages.
    #[entry]
    async fn wait_for_ever(&mut self, ctx: &mut Context<Self>) {
        ctx.sleep(AGES).await;
    }

    /// Sets aside what comes before the one that it wants.
    #[entry]
    async fn pick(&mut self, ctx: &mut Context<Self>) {
        ctx.receive::<Item>().await;
        ctx.serve(self).await;
    }

    #[message]
    #[derive(Clone)]
    fn note(&mut self, number: u32) {
        self.done.add(number);
    }

    #[message]
    async fn sleep(&mut self, ctx: &mut Context<Self>, number: u32) {
        ctx.sleep(WORK).await;
        self.done.add(number);
    }

    #[message]
    fn run_beside(&mut self, ctx: &mut Context<Self>, number: u32) {
        let sleeps = ctx.sleep(WORK);
        ctx.run(sleeps).then(move |this, (), _| this.done.add(number));
    }

    /// Blocks its thread until somebody else has answered.
    #[message]
    fn ask(&mut self, whom: Recipient<Item>, number: u32) {
        whom.call(Item).timeout(AGES).wait().unwrap();
        self.done.add(number);
    }

    #[message]
    async fn hang(&mut self) {
        std::future::pending().await
    }

    #[message]
    fn keep(&mut self, reply: Reply<()>) {
        self.kept.push(reply);
        self.done.add(0);
    }

    #[message]
    fn crash(&mut self) {
        panic!("it had to")
    }

    /// Hears from a stream that never says anything.
    #[message]
    fn attach(&mut self, ctx: &mut Context<Self>) {
        ctx.attach(stream::pending::<Item>());
        self.done.add(0);
    }

    #[message(Item)]
    fn item(&mut self, _item: Item) {}

    /// Sends the number on from one to the next, with some work in between, and spawns the next.
    #[message]
    fn hand_on(&mut self, left: u32) {
        match left {
            0 => self.done.add(0),
            left => {
                let next = Host::current().unwrap().spawn(Worker { done: self.done.clone(), kept: Vec::new() });
                next.serve().unwrap().hand_on(left - 1).send().unwrap();
            }
        }
    }
}

fn worker(done: &Log<u32>) -> Worker {
    Worker { done: done.clone(), kept: Vec::new() }
}

fn build() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

/// The report of a drain that must come to its end.
fn drained(runtime: Runtime) -> ShutdownReport {
    let report = runtime.drain(AGES).unwrap();
    assert!(report.is_clean() && report.drained == Some(true) && report.unfinished.is_empty(), "{report}");
    report
}

#[test]
fn a_drain_finishes_what_is_queued_and_a_shutdown_says_what_it_throws_away() {
    soon(|| {
        const SENT: u32 = 500;
        let sent = |paused: bool| {
            let builder = Runtime::builder().workers(2);
            let runtime = if paused { builder.paused() } else { builder }.build().unwrap();
            let done = Log::new();
            let worker = runtime.spawn(worker(&done)).serve().unwrap();
            (0..SENT).for_each(|number| worker.note(number).send().unwrap());
            (runtime, done)
        };
        for paused in [false, true] {
            let (runtime, done) = sent(paused);
            let report = drained(runtime);
            assert_eq!((report.alive, report.ended, report.thrown_away), (1, 1, 0));
            assert_eq!(done.all(), (0..SENT).collect::<Vec<_>>());

            let (runtime, done) = sent(paused);
            let report = runtime.shutdown().unwrap();
            assert_eq!(done.len() as u64 + report.thrown_away, u64::from(SENT), "{report}");
            assert_eq!(report.is_clean(), report.thrown_away == 0);
            if paused {
                assert!(done.is_empty() && report.to_string().contains("500 messages were thrown away"), "{report}");
            }
        }
    });
}

/// Mutation: in `machine.rs`, do not note that a method waits; in `serve.rs`, `finish_method`, the same; in `waits.rs`,
/// `note_work`, leave out what runs beside; in `drain.rs`, `settled`, leave out the threads without a worker; in `counts.rs`,
/// `has_work_left`, leave out those that wait for their yields.
#[test]
fn a_drain_waits_for_whatever_is_in_the_middle_of_a_message() {
    soon(|| {
        type Spawned = fn(&Runtime, Worker) -> Address<Worker>;
        let spawns: [Spawned; 3] = [
            |runtime, worker| runtime.spawn(worker).serve().unwrap(),
            |runtime, worker| runtime.spawn(worker).loop_for_ever().unwrap().address(),
            |runtime, worker| {
                let done = worker.done;
                runtime.spawn_pinned(move || Worker { done, kept: Vec::new() }).serve().unwrap()
            },
        ];
        for spawn in spawns {
            for works in [
                |worker: Address<Worker>| worker.sleep(1).send(),
                |worker: Address<Worker>| worker.run_beside(1).send().map_err(|_| unreachable!("it lives")),
            ] {
                let (runtime, done) = (build(), Log::new());
                let worker = spawn(&runtime, worker(&done));
                works(worker).unwrap();
                drained(runtime);
                assert_eq!(done.all(), [1]);
            }
            // What it asks is answered by a thread, in its own time.
            let (runtime, done, mut other) = (build(), Log::new(), Mailbox::new().unwrap());
            spawn(&runtime, worker(&done)).ask(Recipient::of(other.pid()), 1).send().unwrap();
            let answers = thread::spawn(move || {
                let asked = other.receive();
                thread::sleep(WORK);
                asked.answer(|Item| ()).unwrap();
            });
            drained(runtime);
            assert_eq!(done.all(), [1]);
            answers.join().unwrap();
        }
        // Written by hand, and in the middle of a yield.
        let (runtime, done) = (build(), Arc::new(AtomicU64::new(0)));
        let counts = done.clone();
        let by_hand = act(move |events, out| {
            while let Some(event) = events.next() {
                match event {
                    Event::Message(_) => {
                        out.after(WORK, 1);
                        out.wait();
                    }
                    Event::Completed { .. } => _ = counts.fetch_add(1, SeqCst),
                    Event::Signal(_) => {}
                }
            }
            Ok(())
        });
        let by_hand = runtime.spawn_process(by_hand).start().unwrap();
        runtime.send(by_hand, ()).unwrap();
        drained(runtime);
        assert_eq!(done.load(SeqCst), 1);
    });
}

/// Mutation: in `waits.rs`, `note_work`, count all that runs beside; in `machine.rs`, take an entry for a method.
#[test]
fn a_drain_does_not_wait_for_what_merely_waits() {
    soon(|| {
        let (runtime, done) = (build(), Log::new());
        let waits: Running<Worker, ()> = runtime.spawn(worker(&done)).wait_for_ever().unwrap();
        let other = runtime.spawn(worker(&done)).loop_for_ever().unwrap();
        other.address().attach().send().unwrap();
        let keeps = runtime.spawn(worker(&done)).serve().unwrap();
        keeps.keep().send().unwrap();
        let _timer = keeps.note(9).send_after(AGES).unwrap();
        let _timer = keeps.note(9).send_every(AGES).unwrap();
        drained(runtime);
        assert_eq!((done.all(), waits.wait()), (vec![0, 0], Err(RunError::Ended(ExitReason::Shutdown))));
    });
}

/// A message is always either in a mailbox, or in a step that is about to send it on, or in the hands of a process that is
/// about to start.
///
/// Mutation: in `drain.rs`, `wait_until_drained`, do not look whether the host is settled.
#[test]
fn a_drain_overlooks_no_message_on_its_way() {
    soon(|| {
        for round in 0..60 {
            let (runtime, done) = (Runtime::builder().workers(1 + round % 3).build().unwrap(), Log::new());
            for _ in 0..4 {
                runtime.spawn(worker(&done)).serve().unwrap().hand_on(50).send().unwrap();
            }
            drained(runtime);
            assert_eq!(done.len(), 4);
        }
    });
}

#[test]
fn a_drain_that_does_not_come_to_its_end_says_who_had_not_finished() {
    soon(|| {
        let (runtime, done) = (build(), Log::new());
        let hangs = runtime.spawn(worker(&done)).serve().unwrap();
        let call = thread::spawn(move || hangs.hang().timeout(AGES).wait());
        eventually(|| hangs.pid().info().is_some_and(|info| info.messages == 1));
        hangs.note(1).send().unwrap();
        let report = runtime.drain(Duration::from_millis(20)).unwrap();
        assert_eq!((report.drained, report.unfinished.len()), (Some(false), 1), "{report}");
        assert_eq!(report.unfinished[0].0, hangs.pid());
        assert!(report.to_string().contains("Worker"), "{report}");
        assert_eq!((report.thrown_away, report.unanswered, report.is_clean()), (1, 1, false), "{report}");
        assert_eq!(call.join().unwrap(), Err(CallError::Died(ExitReason::Shutdown)));
        assert!(done.is_empty());
    });
}

/// Mutation: in `supervisor.rs`, `post`, do not enter it among the backlogs.
#[test]
fn children_that_fail_while_a_runtime_drains_are_started_again_and_finish() {
    soon(|| {
        let (runtime, done) = (build(), Log::new());
        let log = done.clone();
        let child = Child::new("worker", move |spawn| spawn.of(worker(&log)).serve()).keep_messages();
        let tree = Supervisor::one_for_one().intensity(9, Duration::MAX).backoff(Backoff::constant(WORK)).add(child);
        let child: Address<Worker> = tree.spawn(&runtime).unwrap().child("worker").unwrap();
        for number in 0..6 {
            child.note(number).send().unwrap();
            if number % 2 == 0 {
                child.crash().send().unwrap();
            }
        }
        drained(runtime);
        assert_eq!(done.all(), [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn what_waits_in_the_line_of_a_pool_is_finished() {
    soon(|| {
        let (runtime, done) = (build(), Log::new());
        let log = done.clone();
        let pool = Pool::fixed(2).queue(20).spawn(&runtime, move |spawn| spawn.of(worker(&log)).serve());
        let pool = pool.unwrap().address();
        for number in 0..10 {
            pool.sleep(number).send().unwrap();
            if number % 4 == 0 {
                pool.crash().send().unwrap();
            }
        }
        drained(runtime);
        let mut done = done.all();
        done.sort_unstable();
        assert_eq!(done, (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn what_was_set_aside_is_waited_for() {
    soon(|| {
        let (runtime, done) = (build(), Log::new());
        let picky = runtime.spawn(worker(&done)).pick().unwrap().address();
        (0..3).for_each(|number| picky.note(number).send().unwrap());
        eventually(|| picky.pid().info().is_some_and(|info| info.messages == 3));
        let recipient: Recipient<Item> = picky.narrow();
        let _timer = recipient.call(Item).send_after(WORK).unwrap();
        drained(runtime);
        assert_eq!(done.all(), [0, 1, 2]);
    });
}

/// Until the last moment, as long as something is left to do.
#[test]
fn messages_from_outside_are_accepted_while_a_runtime_drains() {
    soon(|| {
        let (runtime, done, gate) = (build(), Log::new(), Gate::new());
        let (first, released) = (runtime.spawn(worker(&done)).serve().unwrap(), gate.clone());
        let blocks = act(move |events, _| {
            while events.next().is_some() {
                released.pass();
            }
            Ok(())
        });
        let blocks = runtime.spawn_process(blocks).start().unwrap();
        runtime.send(blocks, ()).unwrap();
        let drain = thread::spawn(move || drained(runtime));
        (0..100).for_each(|number| first.note(number).send().unwrap());
        gate.open();
        drain.join().unwrap();
        assert_eq!(done.len(), 100);
    });
}

#[test]
fn a_drain_from_inside_is_refused_and_has_begun() {
    soon(|| {
        let runtime = build();
        let (host, done) = (runtime.host(), Log::new());
        let other = host.spawn(worker(&done)).serve().unwrap();
        let (own, says) = (Mutex::new(Some(runtime)), Arc::new(Mutex::new(None)));
        let said = says.clone();
        let drains = host.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                if matches!(event, Event::Message(_)) {
                    other.sleep(1).send()?;
                    let runtime = own.lock().unwrap().take().unwrap();
                    *said.lock().unwrap() = Some(runtime.drain(AGES).map(drop));
                }
            }
            Ok(())
        }));
        let drains = drains.start().unwrap();
        let ends = [drains.join(), other.pid().join()];
        host.send(drains, ()).unwrap();
        ends.into_iter().for_each(|end| assert_eq!(end.wait(), ExitReason::Shutdown));
        assert_eq!((done.all(), says.lock().unwrap().take()), (vec![1], Some(Err(ShutdownError::FromInside))));
    });
}

#[test]
fn async_code_can_wait_for_a_drain() {
    soon(|| {
        let (runtime, done) = (build(), Log::new());
        runtime.spawn(worker(&done)).serve().unwrap().sleep(1).send().unwrap();
        let report = pollster::block_on(runtime.drain_async(AGES)).unwrap();
        assert!(report.is_clean() && report.drained == Some(true), "{report}");
        assert_eq!(done.all(), [1]);
        // Dropped, it goes on.
        let runtime = build();
        let worker = runtime.spawn(worker(&done)).serve().unwrap();
        let end = worker.pid().join();
        worker.sleep(2).send().unwrap();
        drop(runtime.drain_async(AGES));
        assert_eq!((end.wait(), done.all()), (ExitReason::Shutdown, vec![1, 2]));
    });
}

/// Those in the mailbox and those in hand, called and sent.
#[test]
fn a_shutdown_counts_the_calls_that_it_leaves_unanswered() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let done = Log::new();
        let worker = runtime.spawn(worker(&done)).serve().unwrap();
        let calls: Vec<_> = (0..3).map(|_| thread::spawn(move || worker.note(1).timeout(AGES).wait())).collect();
        eventually(|| worker.pid().info().is_some_and(|info| info.mailbox == 3));
        worker.note(2).send().unwrap();
        let report = runtime.shutdown().unwrap();
        assert_eq!((report.thrown_away, report.unanswered), (4, 3), "{report}");
        assert!(!report.is_clean() && !report.was_forced() && report.drained.is_none());
        for call in calls {
            assert_eq!(call.join().unwrap(), Err(CallError::Gone(ExitReason::Shutdown)));
        }
    });
}

/// Keeps what is said on one thread.
#[derive(Clone, Default)]
struct Lines(Log<String>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _fits = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= &Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.add(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_runtime_that_is_dropped_with_messages_warns_with_their_number_and_says_what_to_do() {
    soon(|| {
        let said = |ends: fn(Runtime)| {
            let runtime = Runtime::builder().workers(1).paused().build().unwrap();
            let worker = runtime.spawn(Worker::default()).serve().unwrap();
            (0..5).for_each(|number| worker.note(number).send().unwrap());
            let lines = Lines::default();
            tracing::subscriber::with_default(lines.clone(), || ends(runtime));
            lines.0.all()
        };
        let dropped = said(drop);
        assert_eq!(dropped.len(), 1, "{dropped:?}");
        assert!(["WARN", "thrown_away=5", "drain"].iter().all(|what| dropped[0].contains(what)), "{dropped:?}");
        let shut_down = said(|runtime| _ = runtime.shutdown());
        assert_eq!(shut_down.len(), 1, "{shut_down:?}");
        assert!(["WARN", "thrown_away=5"].iter().all(|what| shut_down[0].contains(what)), "{shut_down:?}");
        assert_eq!(said(|runtime| _ = runtime.drain(AGES)), Vec::<String>::new());
    });
}
