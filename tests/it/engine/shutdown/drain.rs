//! A drain finishes the queued messages, and only those.
//!
//! The tests that a drain waits need no clock. The work never finishes, so a drain with a short deadline must report
//! that. A drain that did not wait would report that everything was finished, however slow the machine is.

use super::*;
use futures_util::stream;
use postroom::supervision::{Backoff, Child, Supervisor};
use postroom::test::Clock;
use postroom::{Mailbox, Pool, Reply, Running};
use postroom_tests::HOUR;
use postroom_tests::face::{Gate, Log};
use std::thread;

/// A deadline that no drain should reach. If a drain waits for it, the test hangs.
pub(super) const AGES: Duration = Duration::from_secs(3_600);

/// The deadline of a drain that must not complete.
pub(super) const SHORT: Duration = Duration::from_millis(10);

/// A process that works in every possible way once its gate is open, and logs the finished work.
#[process]
#[derive(Clone, Default)]
pub(super) struct Worker {
    pub(super) done: Log<u32>,
    pub(super) gate: Gate,
}

pub(super) struct Item;

/// A process that keeps its callers waiting.
#[process]
#[derive(Default)]
struct Keeper(Vec<Reply<()>>);

#[process]
impl Keeper {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn keep(&mut self, reply: Reply<()>) {
        self.0.push(reply);
    }
}

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
    async fn wait_for_ever(&mut self) {
        self.gate.passed().await;
    }

    /// Waits for a reply, and takes no messages. (If the callee exits first, the process waits at the gate.)
    #[entry]
    async fn call_for_ever(&mut self, keeper: Address<Keeper>) {
        let _never = keeper.keep().timeout(AGES).await;
        self.gate.passed().await;
    }

    /// Stashes the messages that arrive before the one that it waits for.
    #[entry]
    async fn pick(&mut self, ctx: &mut Context<Self>) {
        ctx.receive::<Item>().await;
        ctx.serve(self).await;
    }

    #[message]
    #[derive(Clone)]
    pub(super) fn note(&mut self, number: u32) {
        self.done.add(number);
    }

    #[message]
    pub(super) async fn pass(&mut self, number: u32) {
        self.gate.passed().await;
        self.done.add(number);
    }

    #[message]
    fn run_beside(&mut self, ctx: &mut Context<Self>, number: u32) {
        ctx.run(self.gate.passed()).then(move |this, (), _| this.done.add(number));
    }

    /// Blocks its thread until another process has answered.
    #[message]
    pub(super) fn ask(&mut self, whom: Recipient<Item>, number: u32) {
        if whom.call(Item).timeout(AGES).wait().is_ok() {
            self.done.add(number);
        }
    }

    #[message]
    fn call(&mut self, ctx: &mut Context<Self>, keeper: Address<Keeper>) {
        ctx.call(keeper.keep().timeout(AGES)).then(|_, _, _| ());
        self.done.add(0);
    }

    #[message]
    pub(super) fn crash(&mut self) {
        panic!("it had to")
    }

    /// Attaches a stream that never yields an item.
    #[message]
    fn attach(&mut self, ctx: &mut Context<Self>) {
        ctx.attach(stream::pending::<Item>());
        self.done.add(0);
    }

    #[message(Item)]
    fn item(&mut self, _item: Item) {}

    /// Spawns the next process, and hands the rest of the chain on to it.
    #[message]
    fn hand_on(&mut self, left: u32) {
        match left {
            0 => self.done.add(0),
            left => {
                let next = Host::current().unwrap().spawn(self.clone());
                next.serve().unwrap().hand_on(left - 1).send().unwrap();
            }
        }
    }
}

pub(super) fn build() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

pub(super) fn spawn(runtime: &Runtime, worker: &Worker) -> Address<Worker> {
    runtime.spawn(worker.clone()).serve().unwrap()
}

/// Returns the report of a drain that must complete.
fn drained(runtime: Runtime) -> ShutdownReport {
    let report = runtime.drain(AGES).unwrap();
    assert!(report.is_clean() && report.drained == Some(true) && report.unfinished.is_empty(), "{report}");
    report
}

/// Returns the report of a drain that waits for `pid` until its deadline.
pub(super) fn waits_for(runtime: Runtime, pid: Pid) -> ShutdownReport {
    let report = runtime.drain(SHORT).unwrap();
    let unfinished: Vec<Pid> = report.unfinished.iter().map(|unfinished| unfinished.pid).collect();
    assert_eq!((report.drained, unfinished, report.is_clean()), (Some(false), vec![pid], false), "{report}");
    assert!(report.to_string().contains("the drain was not completed in time"), "{report}");
    report
}

/// Drains on another thread. `go_on` lets the processes finish, at any time during the drain.
fn drained_while(runtime: Runtime, go_on: impl FnOnce()) -> ShutdownReport {
    let drain = thread::spawn(move || drained(runtime));
    go_on();
    drain.join().unwrap()
}

#[test]
fn a_drain_finishes_queued_messages_and_a_shutdown_reports_discarded_ones() {
    soon(|| {
        const SENT: u32 = 500;
        let sent = |paused: bool| {
            let builder = Runtime::builder().workers(2);
            let runtime = if paused { builder.paused() } else { builder }.build().unwrap();
            let state = Worker::default();
            let worker = spawn(&runtime, &state);
            (0..SENT).for_each(|number| worker.note(number).send().unwrap());
            (runtime, state.done)
        };
        for paused in [false, true] {
            let (runtime, done) = sent(paused);
            let report = drained(runtime);
            assert_eq!((report.alive, report.ended, report.thrown_away), (1, 1, 0));
            assert_eq!(done.all(), (0..SENT).collect::<Vec<_>>());

            let (runtime, done) = sent(paused);
            let report = runtime.shutdown_within(HOUR).unwrap();
            assert_eq!(done.len() as u64 + report.thrown_away, u64::from(SENT), "{report}");
            assert_eq!((report.is_clean(), report.was_forced()), (report.thrown_away == 0, false));
            assert!(report.drained.is_none());
            if paused {
                assert!(done.is_empty() && report.to_string().contains("500 messages were thrown away"), "{report}");
            }
        }
    });
}

/// A way to spawn a worker.
type Spawned = fn(&Runtime, &Worker) -> Address<Worker>;
/// A way to occupy a worker with a message that it cannot finish before its gate opens.
type Works = fn(Address<Worker>);

const SPAWNS: [Spawned; 3] = [
    spawn,
    |runtime, worker| runtime.spawn(worker.clone()).loop_for_ever().unwrap().address(),
    |runtime, worker| {
        let worker = worker.clone();
        runtime.spawn_pinned(move || worker).serve().unwrap()
    },
];

const WORKS: [Works; 2] = [|worker| worker.pass(1).send().unwrap(), |worker| worker.run_beside(1).send().unwrap()];

/// Mutation: in `state_machine.rs`, `step_with_table`, do not record that a method waits; in `serve.rs`,
/// `finish_method`, the same; in `pending.rs`, `note_work`, leave out background tasks, or do not report their end.
#[test]
fn a_drain_waits_for_a_method_that_awaits_and_for_background_tasks() {
    soon(|| {
        for spawn in SPAWNS {
            for works in WORKS {
                let (runtime, state) = (build(), Worker::default());
                let worker = spawn(&runtime, &state);
                works(worker);
                state.gate.wait_for_arrival();
                waits_for(runtime, worker.pid());
                assert!(state.done.is_empty());

                let (runtime, state) = (build(), Worker::default());
                works(spawn(&runtime, &state));
                state.gate.wait_for_arrival();
                drained_while(runtime, || state.gate.open());
                assert_eq!(state.done.all(), [1]);
            }
        }
    });
}

/// Mutation: in `slot/state.rs`, `is_working`, leave out processes that are running.
#[test]
fn a_drain_waits_for_a_step_that_blocks_its_thread() {
    soon(|| {
        for spawn in SPAWNS {
            let asks = |runtime: &Runtime| {
                let (state, mut other) = (Worker::default(), Mailbox::new().unwrap());
                let worker = spawn(runtime, &state);
                worker.ask(Recipient::of(other.pid()), 1).send().unwrap();
                let asked = other.receive();
                (worker, state.done, asked)
            };
            let runtime = build();
            let (worker, done, asked) = asks(&runtime);
            let report = waits_for(runtime, worker.pid());
            assert_eq!((report.stuck.len(), report.thrown_away), (1, 0), "{report}");
            let end = worker.pid().join();
            drop(asked);
            drop(end.wait());
            assert!(done.is_empty());

            let runtime = build();
            let (_, done, asked) = asks(&runtime);
            drained_while(runtime, || asked.answer(|Item| ()).unwrap());
            assert_eq!(done.all(), [1]);
        }
    });
}

/// Mutation: in `slot/state.rs`, `is_working`, leave out processes that wait for their yields.
#[test]
fn a_drain_waits_for_the_yields_of_a_process_written_by_hand() {
    soon(|| {
        let by_hand = |runtime: &Runtime| {
            let (gate, done) = (Gate::new(), Arc::new(AtomicU64::new(0)));
            let (asked, counts) = (gate.clone(), done.clone());
            let process = act(move |events, out| {
                while let Some(event) = events.next() {
                    match event {
                        Event::Message(_) => {
                            out.after(AGES, 1);
                            out.wait();
                            asked.open();
                        }
                        Event::Completed { .. } => _ = counts.fetch_add(1, SeqCst),
                        Event::Signal(_) => {}
                    }
                }
                Ok(())
            });
            let pid = runtime.spawn_process(process).start().unwrap();
            runtime.send(pid, ()).unwrap();
            gate.pass();
            (pid, done)
        };
        let runtime = build();
        let (pid, _) = by_hand(&runtime);
        waits_for(runtime, pid);

        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        let (_, done) = by_hand(&runtime);
        runtime.until_idle().unwrap();
        drained_while(runtime, || clock.advance(AGES).unwrap());
        assert_eq!(done.load(SeqCst), 1);
    });
}

/// If a drain waited for any of these processes, this test would hang.
///
/// Mutation: in `pending.rs`, `note_work`, count all background tasks; in `state_machine.rs`, count an entry as a
/// method.
#[test]
fn a_drain_does_not_wait_for_idle_waits() {
    soon(|| {
        let (runtime, state) = (build(), Worker::default());
        let waits: Running<Worker, ()> = runtime.spawn(state.clone()).wait_for_ever().unwrap();
        runtime.spawn(state.clone()).loop_for_ever().unwrap().address().attach().send().unwrap();
        let keeper = runtime.spawn(Keeper::default()).serve().unwrap();
        let calls = runtime.spawn(state.clone()).call_for_ever(keeper).unwrap();
        let worker = spawn(&runtime, &state);
        worker.call(keeper).send().unwrap();
        let _timers = (worker.note(9).send_after(AGES).unwrap(), worker.note(9).send_every(AGES).unwrap());
        drained(runtime);
        assert_eq!(state.done.all(), [0, 0]);
        for end in [waits.wait(), calls.wait()] {
            assert_eq!(end, Err(RunError::Ended(ExitReason::Shutdown)));
        }
    });
}

/// A message is always either in a mailbox, or in a step that is about to pass it on, or in a process that is about to
/// start.
#[test]
fn a_drain_overlooks_no_message_on_its_way() {
    soon(|| {
        for round in 0..60 {
            let (runtime, state) = (Runtime::builder().workers(1 + round % 3).build().unwrap(), Worker::default());
            for _ in 0..4 {
                spawn(&runtime, &state).hand_on(50).send().unwrap();
            }
            drained(runtime);
            assert_eq!(state.done.len(), 4);
        }
    });
}

/// Mutation: in `supervisor.rs`, `slot`, do not add the child's slot to the backlogs.
#[test]
fn children_that_fail_while_a_runtime_drains_are_started_again_and_finish() {
    soon(|| {
        let fails = || {
            let (clock, state) = (Clock::manual(), Worker::default());
            let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
            let again = state.clone();
            let child = Child::new("worker", move |spawn| spawn.of(again.clone()).serve()).keep_messages();
            let tree =
                Supervisor::one_for_one().intensity(9, Duration::MAX).backoff(Backoff::constant(AGES)).add(child);
            let child: Address<Worker> = tree.spawn(&runtime).unwrap().child("worker").unwrap();
            for number in 0..6 {
                if number % 2 == 0 {
                    child.crash().send().unwrap();
                }
                child.note(number).send().unwrap();
            }
            // The child is down, and its messages wait for its replacement.
            runtime.until_idle().unwrap();
            assert!(state.done.is_empty());
            (runtime, clock, state.done)
        };
        let (runtime, _, done) = fails();
        let report = runtime.drain(SHORT).unwrap();
        // There are six numbers, and two crashes that are still queued.
        assert_eq!((report.drained, report.thrown_away, done.len()), (Some(false), 8, 0), "{report}");

        let (runtime, clock, done) = fails();
        drained_while(runtime, || (0..3).for_each(|_| clock.advance(AGES).unwrap()));
        assert_eq!(done.all(), [0, 1, 2, 3, 4, 5]);
    });
}

/// Mutation: in `pool/router.rs`, `new`, do not add the router to the backlogs.
#[test]
fn messages_in_the_queue_of_a_pool_are_finished() {
    soon(|| {
        let fails = || {
            let (clock, state) = (Clock::manual(), Worker::default());
            let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
            let again = state.clone();
            let pool = Pool::fixed(1).queue(20).backoff(Backoff::constant(AGES));
            let pool = pool.spawn(&runtime, move |spawn| spawn.of(again.clone()).serve()).unwrap();
            assert!(pool.address().crash().wait().is_err());
            // Until the pool is notified, it may pass a message to the exiting member.
            eventually(|| pool.statistics().failed == 1);
            (0..10).for_each(|number| pool.address().note(number).send().unwrap());
            runtime.until_idle().unwrap();
            assert!(state.done.is_empty());
            (runtime, clock, state.done, pool)
        };
        let (runtime, _, done, _pool) = fails();
        let report = runtime.drain(SHORT).unwrap();
        assert_eq!((report.drained, report.thrown_away, done.len()), (Some(false), 10, 0), "{report}");

        let (runtime, clock, done, _pool) = fails();
        drained_while(runtime, || clock.advance(AGES).unwrap());
        assert_eq!(done.all(), (0..10).collect::<Vec<_>>());
    });
}

/// Mutation: in `pending.rs`, `note_work`, leave out the stash.
#[test]
fn a_drain_waits_for_stashed_messages() {
    soon(|| {
        let picks = || {
            let (runtime, state) = (build(), Worker::default());
            let picky = runtime.spawn(state.clone()).pick().unwrap().address();
            (0..3).for_each(|number| picky.note(number).send().unwrap());
            eventually(|| picky.pid().info().is_some_and(|info| info.messages == 3));
            (runtime, picky, state.done)
        };
        let (runtime, picky, done) = picks();
        let report = waits_for(runtime, picky.pid());
        assert_eq!((report.thrown_away, done.len()), (3, 0), "{report}");

        let (runtime, picky, done) = picks();
        let recipient: Recipient<Item> = picky.narrow();
        drained_while(runtime, || recipient.send(Item).unwrap());
        assert_eq!(done.all(), [0, 1, 2]);
    });
}

/// Messages are accepted while any work is left.
#[test]
fn messages_from_outside_are_accepted_while_a_runtime_drains() {
    soon(|| {
        let (runtime, state) = (build(), Worker::default());
        let (worker, other) = (spawn(&runtime, &state), spawn(&runtime, &state));
        other.pass(1).send().unwrap();
        state.gate.wait_for_arrival();
        drained_while(runtime, || {
            (0..100).for_each(|number| worker.note(number).send().unwrap());
            state.gate.open();
        });
        assert_eq!(state.done.len(), 101);
    });
}

#[test]
fn a_drain_from_inside_is_refused_and_has_begun() {
    soon(|| {
        let (runtime, state) = (build(), Worker::default());
        let other = spawn(&runtime, &state);
        other.pass(1).send().unwrap();
        state.gate.wait_for_arrival();
        let (host, own, says) = (runtime.host(), Mutex::new(Some(runtime)), Log::new());
        let said = says.clone();
        let drains = host.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                if matches!(event, Event::Message(_)) {
                    let runtime = own.lock().unwrap().take().unwrap();
                    said.add(runtime.drain(AGES).map(drop));
                }
            }
            Ok(())
        }));
        let drains = drains.start().unwrap();
        let ends = [drains.join(), other.pid().join()];
        host.send(drains, ()).unwrap();
        eventually(|| !says.is_empty());
        state.gate.open();
        ends.into_iter().for_each(|end| assert_eq!(end.wait(), ExitReason::Shutdown));
        assert_eq!((state.done.all(), says.all()), (vec![1], vec![Err(ShutdownError::FromInside)]));
    });
}

#[test]
fn async_code_can_wait_for_a_drain() {
    soon(|| {
        for is_dropped in [false, true] {
            let (runtime, state) = (build(), Worker::default());
            let worker = spawn(&runtime, &state);
            let end = worker.pid().join();
            worker.pass(1).send().unwrap();
            state.gate.wait_for_arrival();
            let drain = runtime.drain_async(AGES);
            state.gate.open();
            if is_dropped {
                // The drain continues without its future.
                drop(drain);
            } else {
                let report = pollster::block_on(drain).unwrap();
                assert!(report.is_clean() && report.drained == Some(true), "{report}");
            }
            assert_eq!((end.wait(), state.done.all()), (ExitReason::Shutdown, vec![1]));
        }
    });
}
