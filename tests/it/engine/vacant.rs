//! Slots of ended processes that a thread keeps for its next ones: what asks for their ends is answered whatever that
//! thread does, and by code of users that keeps nothing from running.
//!
//! Not covered: which slots are kept (tested in `engine/context/vacant.rs`). If a tick of the watchdog comes between
//! the last look of a process here and its block, its thread keeps none, and the test shows nothing.

use postroom::error::ShutdownError;
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::{Host, block_in_place};
use postroom_tests::partner::Trapper;
use postroom_tests::{Act, Latch, act, idle_for_ever, soon};
use std::future::Future;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Wake, Waker};

/// How many processes end on the thread.
const ENDED: usize = 20;

/// Spawns processes that end with their first step.
fn spawn_brief(host: Host) -> Vec<Pid> {
    let brief = || {
        act(|_, out| {
            out.done();
            Ok(())
        })
    };
    (0..ENDED).map(|_| host.spawn_process(brief()).start().expect("it starts")).collect()
}

/// How the thread blocks.
#[derive(Clone, Copy, Debug)]
enum Way {
    Async,
    InPlace,
    Join(Pid),
}

/// Has others end on its thread, which then keeps their slots, and blocks.
#[process]
struct Keeper {
    way: Way,
    ended: Vec<Pid>,
    told: Sender<Vec<Pid>>,
    until: Latch,
}

#[process]
impl Keeper {
    #[entry]
    fn begin(&mut self, ctx: &mut Context<Self>) {
        self.ended = spawn_brief(ctx.host().expect("a host"));
        ctx.address().go_on().send().expect("it lives");
    }

    #[message]
    async fn go_on(&mut self, ctx: &mut Context<Self>) {
        if self.ended.iter().any(|pid| pid.is_alive()) {
            ctx.address().go_on().send().expect("it lives");
            return;
        }
        let (told, ended, until) = (self.told.clone(), self.ended.clone(), self.until.clone());
        let block = move || {
            told.send(ended).expect("the test waits");
            until.wait();
        };
        match self.way {
            Way::Async => ctx.blocking(block).await,
            Way::InPlace => block_in_place(block),
            Way::Join(pid) => {
                self.told.send(self.ended.clone()).expect("the test waits");
                pid.join().wait();
            }
        }
    }
}

/// Catches: a join, a monitor or a link to a process that has ended, which waits until the thread that keeps its slot
/// blocks no longer.
#[test]
fn ends_are_told_while_the_thread_that_keeps_the_slots_blocks() {
    soon(|| {
        for workers in [1, 2] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let other = runtime.spawn_process(idle_for_ever()).start().unwrap();
            for way in [Way::Join(other), Way::Async, Way::InPlace] {
                let ((told, ended), until) = (channel(), Latch::new());
                let keeper = Keeper { way, ended: Vec::new(), told, until: until.clone() };
                let keeper = runtime.spawn(keeper).begin().unwrap();
                let ended = ended.recv().unwrap();
                let (trapper, reports) = Trapper::reporting();
                let trapper = runtime.spawn(trapper).serve().unwrap();
                for pid in &ended {
                    assert_eq!(pid.join().wait(), ExitReason::NoProcess, "{way:?}");
                    trapper.watch(*pid).wait().unwrap();
                    assert_eq!(reports.down().reason, ExitReason::NoProcess, "{way:?}");
                    trapper.link(*pid).wait().unwrap();
                    assert_eq!(reports.exit().reason, ExitReason::NoProcess, "{way:?}");
                }
                until.open();
                other.kill();
                let end = keeper.pid().join();
                keeper.pid().stop();
                assert_eq!(end.wait(), ExitReason::Normal);
            }
        }
    });
}

/// Has others end on its thread, which then keeps their slots, once it has been told its PID. Joins them with that
/// waker, says so, and does not end its step before the latch is open.
fn stuck(waker: Waker, joined: Sender<()>, until: Latch) -> Act {
    let (mut own, mut ended) = (None, Vec::new());
    act(move |events, out| {
        while let Some(event) = events.next() {
            if let Event::Message(message) = event {
                own = own.or(message.take::<Pid>().ok());
            }
        }
        let (Some(own), host) = (own, Host::current().expect("a host")) else { return Ok(()) };
        if ended.is_empty() {
            ended = spawn_brief(host);
        }
        if ended.iter().any(|pid| pid.is_alive()) {
            host.send(own, ()).expect("it lives");
            return Ok(());
        }
        let mut joins: Vec<_> = ended.iter().map(|pid| Box::pin(pid.join())).collect();
        for join in &mut joins {
            let _answer = join.as_mut().poll(&mut TaskContext::from_waker(&waker));
        }
        joined.send(()).expect("the test waits");
        until.wait();
        out.done();
        Ok(())
    })
}

/// Asks a process, and waits for its answer.
struct Asks {
    host: Host,
    other: Pid,
    told: Mutex<Sender<Option<String>>>,
}

impl Wake for Asks {
    fn wake(self: Arc<Self>) {
        let (answer, answered) = channel::<()>();
        self.host.send(self.other, answer).expect("it lives");
        answered.recv().expect("it answers");
        let name = std::thread::current().name().map(str::to_string);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.send(name).expect("the test waits");
    }
}

/// Answers all messages.
fn answers() -> Act {
    act(|events, out| {
        while let Some(event) = events.next() {
            if let Event::Message(message) = event
                && let Ok(answer) = message.take::<Sender<()>>()
            {
                answer.send(()).expect("it waits");
            }
        }
        out.idle();
        Ok(())
    })
}

/// Catches: wakers that the watchdog calls, which waits for them, and takes over no permit meanwhile: a message behind
/// a step that does not end is not handled, and the wakers wait for that.
#[test]
fn a_waker_that_blocks_keeps_nothing_from_running_behind_a_step_that_does_not_end() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let other = runtime.spawn_process(answers()).start().unwrap();
        let ((told, threads), (joined, has_joined), until) = (channel(), channel(), Latch::new());
        let asks = Asks { host: runtime.host(), other, told: Mutex::new(told) };
        let stuck = runtime.spawn_process(stuck(Waker::from(Arc::new(asks)), joined, until.clone())).start().unwrap();
        runtime.send(stuck, stuck).unwrap();
        has_joined.recv().unwrap();
        let (answer, answered) = channel::<()>();
        runtime.send(other, answer).unwrap();
        answered.recv().unwrap();
        // All of them, while the step goes on.
        let threads: Vec<_> = threads.iter().take(ENDED).collect();
        assert!(threads.iter().flatten().all(|name| !name.ends_with("-watchdog")), "{threads:?}");
        until.open();
        assert_eq!(stuck.join().wait(), ExitReason::Normal);
    });
}

/// Shuts a runtime down.
struct ShutsDown(Mutex<Option<Runtime>>, Mutex<Sender<Result<(), ShutdownError>>>);

impl Wake for ShutsDown {
    fn wake(self: Arc<Self>) {
        let runtime = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            let result = runtime.shutdown().map(drop);
            self.1.lock().unwrap_or_else(PoisonError::into_inner).send(result).expect("the test waits");
        }
    }
}

/// Catches: the watchdog, which calls the waker of a join, and so waits in a shutdown for its own end: a panic.
#[test]
fn a_waker_that_shuts_the_runtime_down_from_one_of_its_threads_gets_an_error() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (host, (down, is_down)) = (runtime.host(), channel());
        let waker = Waker::from(Arc::new(ShutsDown(Mutex::new(Some(runtime)), Mutex::new(down))));
        let ((joined, has_joined), until) = (channel(), Latch::new());
        let stuck = host.spawn_process(stuck(waker, joined, until.clone())).start().unwrap();
        host.send(stuck, stuck).unwrap();
        has_joined.recv().unwrap();
        assert!(matches!(is_down.recv().unwrap(), Err(ShutdownError::FromInside)));
        until.open();
        stuck.join().wait();
    });
}
