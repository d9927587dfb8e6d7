//! The context of a method: its information, its operations, and background tasks.

use postroom::prelude::*;
use postroom::{Host, InitError, MissedTicks};
use postroom_tests::face::{Gate, Log, OnDrop, builder, poll_once, until, watched, with_runtime};
use std::future::IntoFuture;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

mod beside;
mod values;

const LONG: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug, PartialEq)]
struct RequestId(u32);

#[derive(Clone, Debug, PartialEq)]
struct Tenant(&'static str);

/// The information that a process gets from its context.
#[derive(Clone, Debug, PartialEq)]
struct Facts {
    pid: Pid,
    address: Address<Node>,
    parent: Option<Pid>,
    entry: &'static str,
    host: Option<Host>,
    place: Option<&'static Location<'static>>,
    request: Option<RequestId>,
    tenant: Option<Tenant>,
}

/// A process in a tree of such processes.
#[process]
#[derive(Default)]
struct Node {
    born: Option<Facts>,
    children: Vec<Address<Node>>,
}

fn look(ctx: &Context<Node>) -> Facts {
    Facts {
        pid: ctx.pid(),
        address: ctx.address(),
        parent: ctx.parent(),
        entry: ctx.entry(),
        host: ctx.host(),
        place: ctx.spawn_place(),
        request: ctx.value::<RequestId>().map(|id| *id),
        tenant: ctx.value::<Tenant>().map(Arc::unwrap_or_clone),
    }
}

#[process]
impl Node {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>) {
        self.born = Some(look(ctx));
    }

    #[entry]
    async fn live(&mut self, ctx: &mut Context<Self>) {
        self.born = Some(look(ctx));
        ctx.serve(self).await;
    }

    /// Spawns a chain of `depth` more processes, each from the entry of the previous one.
    #[entry]
    fn nest(&mut self, ctx: &mut Context<Self>, depth: usize) -> Result<(), SpawnError> {
        self.born = Some(look(ctx));
        if depth > 0 {
            self.children.push(ctx.spawn(Node::default()).nest(depth - 1)?);
        }
        Ok(())
    }

    #[message]
    fn born(&self) -> Option<Facts> {
        self.born.clone()
    }

    #[message]
    fn now(&self, ctx: &mut Context<Self>) -> Facts {
        look(ctx)
    }

    #[message]
    async fn later(&mut self, ctx: &mut Context<Self>) -> Facts {
        ctx.sleep(Duration::from_millis(1)).await;
        look(ctx)
    }

    #[message]
    fn children(&self) -> Vec<Address<Node>> {
        self.children.clone()
    }

    #[message]
    fn spawn(&mut self, ctx: &mut Context<Self>, tenant: Option<&'static str>) -> Address<Node> {
        let spawn = ctx.spawn(Node::default());
        let spawn = match tenant {
            Some(tenant) => spawn.value(Tenant(tenant)),
            None => spawn,
        };
        spawn.serve().unwrap()
    }

    #[message]
    async fn spawn_later(&mut self, ctx: &mut Context<Self>) -> Address<Node> {
        ctx.sleep(Duration::from_millis(1)).await;
        ctx.spawn(Node::default()).live().unwrap().address()
    }
}

#[test]
fn a_process_knows_itself_in_its_entry_and_in_its_methods() {
    with_runtime(|runtime| {
        let line = line!() + 1;
        let node = runtime.spawn(Node::default()).value(RequestId(7)).serve().unwrap();
        let born = node.born().wait().unwrap().unwrap();
        assert_eq!((born.pid, born.address, born.parent, born.entry), (node.pid(), node, None, "serve"));
        assert_eq!((born.request, born.tenant.clone()), (Some(RequestId(7)), None));
        assert_eq!((born.place.map(Location::line), born.place.map(Location::file)), (Some(line), Some(file!())));
        assert_eq!(born.host, Some(runtime.host()));
        assert_eq!(node.now().wait(), Ok(born.clone()));
        assert_eq!(node.later().wait(), Ok(born));

        let live = runtime.spawn(Node::default()).value(Tenant("a")).live().unwrap().address();
        let born = live.born().wait().unwrap().unwrap();
        assert_eq!((born.pid, born.entry, born.tenant.clone()), (live.pid(), "live", Some(Tenant("a"))));
        assert_eq!(live.later().wait(), Ok(born));
    });
}

#[test]
fn values_are_inherited_and_may_be_overridden() {
    with_runtime(|runtime| {
        let root = runtime.spawn(Node::default()).value(RequestId(7)).value(Tenant("root")).serve().unwrap();
        let child = root.spawn(None).wait().unwrap();
        let other = root.spawn(Some("other")).wait().unwrap();
        let grandchild = other.spawn_later().wait().unwrap();
        for (node, parent, tenant) in [(child, root, "root"), (other, root, "other"), (grandchild, other, "other")] {
            let born = node.born().wait().unwrap().unwrap();
            assert_eq!(born.parent, Some(parent.pid()));
            assert_eq!((born.request, born.tenant.clone()), (Some(RequestId(7)), Some(Tenant(tenant))));
            assert_eq!(node.now().wait(), Ok(born));
        }
        assert_eq!(root.now().wait().unwrap().tenant, Some(Tenant("root")));
        let stranger = runtime.spawn(Node::default()).serve().unwrap();
        assert_eq!(stranger.now().wait().unwrap().tenant, None);
    });
}

#[test]
fn a_process_may_spawn_from_its_sync_entry_whatever_thread_that_runs_on() {
    watched(|| {
        let (one, two) = (builder().build().unwrap(), builder().build().unwrap());
        let outside = one.spawn(Node::default()).value(RequestId(3)).nest(2).unwrap();
        let mut node = outside;
        let mut parent = None;
        for _ in 0..3 {
            let born = node.born().wait().unwrap().unwrap();
            assert_eq!((born.parent, born.host, born.request), (parent, Some(one.host()), Some(RequestId(3))));
            assert_eq!(born.pid, node.pid());
            parent = Some(node.pid());
            match node.children().wait().unwrap()[..] {
                [child] => node = child,
                _ => break,
            }
        }
        assert_eq!(one.statistics().processes.live, 3);
        assert_eq!(two.statistics().processes.live, 0);
        // A process of one runtime spawns onto the other: the children of the new process are on its own runtime.
        let across = one.spawn(Bridge).serve().unwrap();
        let there = across.nest_on(two.host()).wait().unwrap();
        let born = there.born().wait().unwrap().unwrap();
        assert_eq!((born.host, born.parent), (Some(two.host()), Some(across.pid())));
        let child = there.children().wait().unwrap()[0];
        let born = child.born().wait().unwrap().unwrap();
        assert_eq!((born.host, born.parent), (Some(two.host()), Some(there.pid())));
        assert_eq!(two.statistics().processes.live, 2);
    });
}

#[process]
struct Bridge;

#[process]
impl Bridge {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn nest_on(&mut self, host: Host) -> Address<Node> {
        host.spawn(Node::default()).nest(1).unwrap()
    }
}

#[test]
fn processes_may_start_inside_one_another_sixty_four_deep_and_no_deeper() {
    with_runtime(|runtime| {
        assert!(runtime.spawn(Node::default()).nest(63).is_ok());
        assert_eq!(runtime.statistics().processes.live, 64);
        // Each refused spawn fails the spawn around it, and none of the processes remains.
        let mut error = runtime.spawn(Node::default()).nest(64).unwrap_err();
        let mut depth = 0;
        let innermost = loop {
            match error {
                SpawnError::Init(InitError::Failed(inner)) => error = *inner.downcast::<SpawnError>().unwrap(),
                SpawnError::Depth { depth } => break depth,
                other => panic!("{other:?}"),
            }
            depth += 1;
        };
        assert_eq!((innermost, depth), (64, 64));
        assert_eq!(runtime.statistics().processes.live, 64);
    });
}

/// A process with background tasks.
#[process]
#[derive(Default)]
struct Worker {
    log: Log<String>,
    token: Option<OnDrop>,
}

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {}

    /// Starts a call and a future before it serves.
    #[entry]
    fn begin(&mut self, ctx: &mut Context<Self>, from: Address<Worker>, gate: Gate) {
        ctx.call(from.slow(gate.clone()).timeout(Duration::from_millis(5)))
            .then(|this, answer, _| this.log.add(format!("call {answer:?}")));
        ctx.run(async move { gate.passed().await }).then(|this, (), _| this.log.add("run".to_string()));
    }

    #[entry]
    fn begin_and_stop(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }

    #[entry]
    async fn live(&mut self, ctx: &mut Context<Self>) {
        ctx.serve(self).await;
    }

    #[message]
    fn add(&mut self, line: &'static str) -> usize {
        self.log.add(line.to_string());
        self.log.len()
    }

    #[message]
    async fn slow(&mut self, gate: Gate) -> u32 {
        gate.passed().await;
        5
    }

    #[message]
    fn fail(&mut self, how: u8) -> Result<(), String> {
        if how == 0 { Err("failed".to_string()) } else { panic!("panicked") }
    }

    #[message]
    fn call_then(&mut self, ctx: &mut Context<Self>, from: Address<Worker>, gate: Gate) {
        ctx.call(from.slow(gate)).then(|this, answer, ctx| this.log.add(format!("{answer:?} in {}", ctx.entry())));
    }

    #[message]
    fn call_failing(&mut self, ctx: &mut Context<Self>, from: Address<Worker>, how: u8) {
        ctx.call(from.fail(how)).then(|this, answer, _| match answer {
            Err(CallError::Failed(error)) => this.log.add(error),
            Err(CallError::Died(ExitReason::Panic(panic))) => this.log.add(panic.message.clone()),
            Err(CallError::Gone(ExitReason::NoProcess)) => this.log.add("gone".to_string()),
            other => this.log.add(format!("{other:?}")),
        });
    }

    #[message]
    fn run_then(&mut self, ctx: &mut Context<Self>, name: &'static str, gate: Gate) {
        let token = OnDrop(Log::new(), name);
        ctx.run(async move {
            gate.passed().await;
            token.1
        })
        .then(|this, name, _| this.log.add(format!("ran {name}")));
    }

    #[message]
    fn chain(&mut self, ctx: &mut Context<Self>, gate: Gate, reply: Reply<usize>) {
        let first = ctx.sleep(Duration::from_millis(1));
        ctx.run(first).then(move |this, (), ctx| {
            this.log.add("first".to_string());
            ctx.run(async move { gate.passed().await }).then(move |this, (), _| reply.send(this.log.len()));
        });
    }

    #[message]
    fn run_holding(&mut self, ctx: &mut Context<Self>, token: OnDrop, other: OnDrop) {
        let sleep = ctx.sleep(Duration::MAX);
        ctx.run(async move {
            sleep.await;
            drop(token)
        })
        .then(move |_, (), _| drop(other));
    }

    #[message]
    fn call_holding(&mut self, ctx: &mut Context<Self>, from: Address<Worker>, gate: Gate, token: OnDrop) {
        ctx.call(from.slow(gate).timeout(LONG)).then(move |_, _, _| drop(token));
    }

    #[message]
    fn run_panicking(&mut self, ctx: &mut Context<Self>, gate: Gate, inside: bool) {
        let run = async move {
            gate.passed().await;
            assert!(!inside, "beside")
        };
        ctx.run(run).then(|_, (), _| panic!("in the closure"));
    }

    #[message]
    fn run_until_cancelled(&mut self, ctx: &mut Context<Self>) {
        let cancelled = ctx.cancelled();
        ctx.run(cancelled).then(|this, reason, ctx| {
            this.log.add(format!("told: {reason}"));
            ctx.stop();
        });
    }

    #[message]
    fn stop_now(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
        assert!(self.token.is_none(), "the method that runs now is finished first");
        self.log.add("still here".to_string());
    }

    #[message]
    async fn sleep(&mut self, ctx: &mut Context<Self>, duration: Duration) {
        ctx.sleep(duration).await;
    }

    #[message]
    async fn tick(&mut self, ctx: &mut Context<Self>, period: Duration, missed: MissedTicks, count: usize) -> usize {
        let mut interval = ctx.interval(period).missed(missed);
        for _ in 0..count {
            interval.tick().await;
            self.log.add("tick".to_string());
        }
        count
    }
}

fn worker(runtime: &Runtime) -> (Address<Worker>, Log<String>) {
    let log = Log::new();
    (runtime.spawn(Worker { log: log.clone(), token: None }).serve().unwrap(), log)
}

#[test]
fn a_sync_entry_may_end_its_process_at_once() {
    with_runtime(|runtime| {
        let address = runtime.spawn(Worker::default()).begin_and_stop().unwrap();
        assert!([ExitReason::Normal, ExitReason::NoProcess].contains(&address.pid().join().wait()));
    });
}

#[test]
fn stopping_oneself_finishes_the_method_and_nothing_more() {
    watched(|| {
        let runtime = builder().paused().build().unwrap();
        let (address, log) = worker(&runtime);
        let ended = address.pid().join();
        address.stop_now().send().unwrap();
        address.add("too late").send().unwrap();
        runtime.resume().unwrap();
        assert_eq!(ended.wait(), ExitReason::Normal);
        assert_eq!(log.all(), ["still here"]);
    });
}

#[test]
fn a_sleep_of_nothing_is_over_at_once_and_one_for_ever_never() {
    with_runtime(|runtime| {
        let (address, _) = worker(runtime);
        for duration in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1)] {
            assert_eq!(address.sleep(duration).timeout(LONG).wait(), Ok(()));
        }
        let mut for_ever = pin!(address.sleep(Duration::MAX).timeout(Duration::MAX).into_future());
        assert!(poll_once(for_ever.as_mut()).is_pending());
        let (other, _) = worker(runtime);
        assert_eq!(other.sleep(Duration::from_millis(2)).wait(), Ok(()));
        assert!(poll_once(for_ever.as_mut()).is_pending());
        address.pid().kill();
        assert_eq!(runtime.block_on(for_ever), Err(CallError::Died(ExitReason::Killed)));
    });
}

#[test]
fn an_interval_ticks_as_often_as_asked_whatever_it_missed() {
    with_runtime(|runtime| {
        let (address, log) = worker(runtime);
        for missed in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
            for period in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(200)] {
                assert_eq!(address.tick(period, missed, 20).wait(), Ok(20));
            }
        }
        assert_eq!(log.len(), 180);
        let mut never = pin!(address.tick(Duration::MAX, MissedTicks::Skip, 1).timeout(Duration::MAX).into_future());
        assert!(poll_once(never.as_mut()).is_pending());
    });
}
