//! Pinned processes: the thread that runs their code, state that is not `Send`, and all other features of processes.

mod ends;
mod known;
mod traffic;

use postroom::manual::{Event, Events, InitContext, Machine, Process, StepOutput};
use postroom::prelude::*;
use postroom::{Package, this_node};
use postroom_tests::{Latch, eventually, soon};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::{ThreadId, current};
use std::time::Duration;

fn with_workers(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// The threads on which the parts of a process ran.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<Part>>>);

/// The part that ran, its thread, and the thread's name.
type Part = (&'static str, ThreadId, String);

impl Trace {
    fn note(&self, what: &'static str) {
        let thread = current();
        self.0.lock().unwrap().push((what, thread.id(), thread.name().unwrap_or("").to_string()));
    }

    fn threads(&self) -> Vec<ThreadId> {
        let mut threads: Vec<ThreadId> = self.0.lock().unwrap().iter().map(|(_, thread, _)| *thread).collect();
        threads.dedup();
        threads
    }

    fn parts(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().map(|(what, ..)| *what).collect()
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(_, _, name)| name.clone()).collect()
    }
}

/// A value that records the thread of its drop, and is not `Send`.
struct Held {
    trace: Trace,
    log: Rc<RefCell<Vec<String>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.trace.note("drop");
    }
}

#[process(pinned)]
struct Window {
    held: Held,
}

impl Window {
    fn new(trace: Trace) -> Self {
        trace.note("make");
        Self { held: Held { trace, log: Rc::default() } }
    }
}

#[process]
impl Window {
    #[entry]
    fn open(&mut self, ctx: &mut Context<Self>, title: String) -> Result<(), std::io::Error> {
        self.held.trace.note("open");
        if title.is_empty() {
            return Err(std::io::Error::other("no title"));
        }
        assert_ne!(title, "panic", "no such title");
        if title == "stop" {
            ctx.stop();
        }
        self.held.log.borrow_mut().push(title);
        Ok(())
    }

    /// Holds a value that is not `Send` across its awaits.
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>, rounds: u32) -> usize {
        self.held.trace.note("run");
        let log = self.held.log.clone();
        for round in 0..rounds {
            ctx.sleep(Duration::from_micros(50)).await;
            self.held.trace.note("run");
            log.borrow_mut().push(round.to_string());
        }
        log.borrow().len()
    }

    #[message]
    fn show(&mut self, line: String) -> usize {
        self.held.trace.note("show");
        self.held.log.borrow_mut().push(line);
        self.held.log.borrow().len()
    }

    #[message]
    async fn fade(&mut self, ctx: &mut Context<Self>) -> usize {
        let log = self.held.log.clone();
        self.held.trace.note("fade");
        ctx.sleep(Duration::from_micros(50)).await;
        self.held.trace.note("fade");
        log.borrow().len()
    }

    #[message]
    fn after(&mut self, ctx: &mut Context<Self>, other: Address<Window>) {
        ctx.call(other.show("from another".into())).then(|this, lines, _| {
            this.held.trace.note("then");
            this.held.log.borrow_mut().push(format!("{}", lines.unwrap_or(0)));
        });
    }

    #[message]
    fn watch(&mut self, other: Address<Window>) -> bool {
        other.pid().monitor().is_ok()
    }

    #[message]
    fn lines(&self) -> Vec<String> {
        self.held.log.borrow().clone()
    }

    #[signal]
    async fn on_down(&mut self, ctx: &mut Context<Self>, _down: Down) {
        self.held.trace.note("signal");
        ctx.sleep(Duration::from_micros(10)).await;
        self.held.trace.note("signal");
    }
}

#[test]
fn a_machine_whose_state_is_not_send_is_driven_by_hand() {
    let trace = Trace::default();
    let mut machine = Machine::new(Window::new(trace.clone()));
    machine.init(&mut InitContext::detached(), "open", payloads!["Log"]).unwrap();
    let pid: Pid = format!("<{}.0.0.1>", this_node()).parse().unwrap();
    let events = [
        Event::Message(Package::new(pid, WindowShow { line: "one".into() })),
        Event::Message(Package::new(pid, WindowFade {})),
    ];
    let mut out = StepOutput::new();
    machine.step(&mut Events::of(events), &mut out).unwrap();
    assert!(machine.get().is_none(), "the async method has the state");
    drop(machine);
    assert_eq!(trace.parts(), ["make", "open", "show", "fade", "drop"]);
}

/// Mutation: in `engine/pinned/mod.rs`, have `PinnedSpawn::close` close the body itself.
#[test]
fn it_is_made_started_run_closed_and_dropped_on_one_thread_of_its_own() {
    soon(|| {
        let (trace, runtime) = (Trace::default(), with_workers(2));
        let theirs = trace.clone();
        let window = runtime.spawn_pinned(move || Window::new(theirs)).open("Log".into()).unwrap();
        for round in 0..100 {
            assert_eq!(window.show(format!("{round}")).wait().unwrap(), round + 2);
        }
        assert_eq!(window.fade().wait().unwrap(), 101);
        // A builder that is dropped without a spawn does not make the state.
        let unused = trace.clone();
        drop(runtime.spawn_pinned(move || Window::new(unused)));
        let end = window.pid().join();
        window.pid().stop();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(trace.threads().len(), 1, "{:?}", trace.threads());
        assert_ne!(trace.threads()[0], current().id());
        let parts = trace.parts();
        assert_eq!((parts[0], parts[1], parts[parts.len() - 1]), ("make", "open", "drop"));
        assert_eq!(parts.len(), 105);
        assert!(trace.names().iter().all(|name| name == "Window"), "{:?}", trace.names());
    });
}

#[test]
fn async_entries_hold_values_that_are_not_send_across_awaits_and_return_a_result() {
    soon(|| {
        let (trace, runtime) = (Trace::default(), with_workers(1));
        let theirs = trace.clone();
        let running = runtime.spawn_pinned(move || Window::new(theirs)).run(50).unwrap();
        assert_eq!(running.wait().unwrap(), 50);
        assert_eq!(trace.threads().len(), 1);
        assert_eq!(trace.parts().len(), 53);
    });
}

/// A process whose state is `Send`.
#[process(pinned)]
struct Sum(u32);

#[process]
impl Sum {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn add(&mut self, ctx: &mut Context<Self>, amount: u32) -> u32 {
        let held = Rc::new(amount);
        ctx.sleep(Duration::from_nanos(1)).await;
        self.0 += *held;
        self.0
    }
}

#[test]
fn async_methods_hold_values_that_are_not_send_although_the_state_is() {
    soon(|| {
        let runtime = with_workers(1);
        let sum = runtime.spawn_pinned(|| Sum(1)).serve().unwrap();
        assert_eq!(sum.add(2).wait().unwrap(), 3);
    });
}

#[test]
fn continuations_and_signals_run_on_its_thread() {
    soon(|| {
        let (trace, runtime) = (Trace::default(), with_workers(1));
        let theirs = trace.clone();
        let window = runtime.spawn_pinned(move || Window::new(theirs)).open("one".into()).unwrap();
        let other = runtime.spawn_pinned(|| Window::new(Trace::default())).open("two".into()).unwrap();
        window.after(other).wait().unwrap();
        eventually(|| window.lines().wait().unwrap() == ["one", "2"]);
        assert!(window.watch(other).wait().unwrap());
        other.pid().kill();
        eventually(|| trace.parts().iter().filter(|part| **part == "signal").count() == 2);
        assert_eq!(trace.threads().len(), 1);
    });
}

#[test]
fn a_start_that_fails_is_the_spawners_error_and_its_state_is_dropped_on_its_thread() {
    soon(|| {
        let runtime = with_workers(1);
        for (title, expected) in [("", "no title"), ("panic", "no such title")] {
            let trace = Trace::default();
            let theirs = trace.clone();
            let error = runtime.spawn_pinned(move || Window::new(theirs)).named("w").open(title.into()).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(trace.parts(), ["make", "open", "drop"]);
            assert_eq!(trace.threads().len(), 1);
            assert_eq!(runtime.whereis("w"), None);
        }
        let error = runtime.spawn_pinned(|| -> Window { panic!("no window") }).open("Log".into()).unwrap_err();
        assert!(error.to_string().contains("no window"), "{error}");
        eventually(|| runtime.statistics().processes.pinned == 0);
        assert_eq!(runtime.statistics().processes.live, 0);
    });
}

#[test]
fn a_refused_spawn_starts_no_thread() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).process_limit(1).build().unwrap();
        let make = || -> Window { unreachable!("it is refused") };
        let linked = runtime.spawn_pinned(make).linked().open("Log".into());
        assert!(matches!(linked, Err(SpawnError::NoProcess { .. })), "{linked:?}");
        let _one = runtime.spawn_process(postroom_tests::idle_for_ever()).start().unwrap();
        let limited = runtime.spawn_pinned(make).open("Log".into());
        assert!(matches!(limited, Err(SpawnError::Limit { limit: 1 })), "{limited:?}");
        let host = runtime.host();
        runtime.shutdown().unwrap();
        let late = host.spawn_pinned(make).open("Log".into());
        assert!(matches!(late, Err(SpawnError::Shutdown)), "{late:?}");
        assert_eq!(host.statistics().processes.pinned, 0);
    });
}

/// An ordinary process, which can also be pinned.
#[process]
struct Counter {
    sum: u64,
    child: Option<Address<Counter>>,
}

#[process]
impl Counter {
    #[entry]
    fn serve(&mut self) {}

    /// Spawns another pinned counter, with a value and a label.
    #[entry]
    fn with_child(&mut self, ctx: &mut Context<Self>) -> Result<(), SpawnError> {
        let child = ctx.spawn_pinned(|| Counter { sum: 0, child: None });
        self.child = Some(child.value(5_u8).label("child").serve()?);
        Ok(())
    }

    /// Calls another process while it starts.
    #[entry]
    fn after(&mut self, other: Address<Counter>) -> Result<(), CallError> {
        self.sum = other.add(1).wait()?;
        Ok(())
    }

    #[message]
    fn bring_forth_after(&mut self, ctx: &mut Context<Self>, other: Address<Counter>) -> Result<u64, SpawnError> {
        let child = ctx.spawn_pinned(|| Counter { sum: 0, child: None }).owned().after(other)?;
        Ok(child.add(0).wait().unwrap_or(0))
    }

    #[message]
    fn add(&mut self, amount: u64) -> u64 {
        self.sum += amount;
        self.sum
    }

    #[message]
    fn child(&self) -> Option<Address<Counter>> {
        self.child
    }

    #[message]
    fn bring_forth(&mut self, ctx: &mut Context<Self>) -> Result<Address<Counter>, SpawnError> {
        ctx.spawn_pinned(|| Counter { sum: 0, child: None }).linked().serve()
    }

    #[message]
    fn told(&self, ctx: &mut Context<Self>) -> (Option<Pid>, Option<u8>, Option<u16>) {
        (ctx.parent(), ctx.value::<u8>().map(|value| *value), ctx.value::<u16>().map(|value| *value))
    }

    #[message]
    fn place(&self) -> (ThreadId, String) {
        (current().id(), current().name().unwrap_or("").to_string())
    }
}

#[test]
fn an_ordinary_process_may_have_a_thread_too_and_children_know_their_parents() {
    soon(|| {
        let runtime = with_workers(1);
        let top = runtime.spawn_pinned(|| Counter { sum: 0, child: None }).value(7_u16).with_child().unwrap();
        let child = top.child().wait().unwrap().unwrap();
        assert_eq!(child.told().wait().unwrap(), (Some(top.pid()), Some(5), Some(7)));
        assert_eq!(child.pid().info().unwrap().label.as_deref(), Some("child"));
        let grandchild = child.bring_forth().wait().unwrap();
        assert_eq!(grandchild.told().wait().unwrap(), (Some(child.pid()), Some(5), Some(7)));
        let threads = [top, child, grandchild].map(|process| process.place().wait().unwrap());
        assert!(threads[0].0 != threads[1].0 && threads[1].0 != threads[2].0 && threads[0].0 != threads[2].0);
        assert!(threads.iter().all(|(_, name)| name == "Counter"));
        assert_eq!(runtime.statistics().processes.pinned, 3);
        let end = child.pid().join();
        grandchild.pid().kill();
        assert!(matches!(end.wait(), ExitReason::Linked { .. }));
        eventually(|| runtime.statistics().processes.pinned == 1);
    });
}

/// The step spawns a pinned process whose start waits for another process. During that spawn the only worker runs
/// others.
#[test]
fn a_step_that_spawns_a_pinned_process_leaves_its_worker_to_others() {
    soon(|| {
        let runtime = with_workers(1);
        let spawner = runtime.spawn(Counter { sum: 0, child: None }).serve().unwrap();
        let other = runtime.spawn(Counter { sum: 0, child: None }).serve().unwrap();
        for round in 1..=20 {
            assert_eq!(spawner.bring_forth_after(other).wait().unwrap(), round);
        }
        assert_eq!(runtime.statistics().processes.pinned, 20);
        spawner.pid().kill();
        eventually(|| runtime.statistics().processes.pinned == 0);
    });
}

/// A process that waits for a latch in its step.
#[process]
struct Waits(Latch, Latch);

#[process]
impl Waits {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn wait(&mut self) {
        self.0.open();
        self.1.wait();
    }

    #[message]
    async fn sleep(&mut self, ctx: &mut Context<Self>, to: Address<Counter>) {
        ctx.sleep(Duration::from_secs(3_600)).await;
        to.add(1).send().unwrap();
    }
}
