//! Async message methods and async entries: their order, how they take messages, and how their processes end.

use futures_util::future::{Either, join, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use postroom::inspect::{DeadLetterReason, ProcessState};
use postroom::prelude::*;
use postroom_tests::face::{
    End, Gate, Log, OnDrop, builder, poll_once, until, watched, with_dead_letters, with_runtime,
};
use std::future::IntoFuture;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

mod cancels;
mod entries;
mod methods;

const LONG: Duration = Duration::from_secs(3600);

/// A process with a sync entry and async methods.
#[process]
struct Desk {
    log: Log<&'static str>,
    _held: OnDrop,
}

#[process]
impl Desk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn wait_at(&mut self, name: &'static str, gate: Gate) {
        let _local = OnDrop(self.log.clone(), "local");
        gate.passed().await;
        self.log.add(name);
    }

    #[message]
    fn note(&mut self, line: &'static str) -> usize {
        self.log.add(line);
        self.log.len()
    }

    #[message]
    async fn panic_at(&mut self, gate: Gate) -> u32 {
        let _local = OnDrop(self.log.clone(), "local");
        gate.passed().await;
        panic!("after the gate")
    }

    #[message]
    async fn stop_at(&mut self, ctx: &mut Context<Self>, gate: Gate) -> u32 {
        ctx.stop();
        gate.passed().await;
        1
    }

    #[message]
    async fn answer_at(&mut self, gate: Gate, reply: Reply<&'static str>) {
        gate.passed().await;
        reply.send("answered");
    }

    #[message]
    async fn count_at(&mut self, gates: Vec<Gate>, replies: Replies<usize>) {
        for (number, gate) in gates.into_iter().enumerate() {
            gate.passed().await;
            let _wanted = replies.send(number);
        }
    }

    #[message]
    async fn ready(&mut self, value: u32) -> u32 {
        std::future::ready(value).await
    }

    #[message]
    async fn yield_often(&mut self, times: u32) -> u32 {
        for _ in 0..times {
            yield_now().await;
        }
        times
    }

    #[message]
    async fn shielded(&mut self, ctx: &mut Context<Self>, gate: Gate) {
        ctx.shield(gate.passed()).await;
        self.log.add("after the shield");
    }
}

/// Returns a future that is pending once.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn desk(runtime: &Runtime) -> (Address<Desk>, Log<&'static str>) {
    let log = Log::new();
    let desk = Desk { log: log.clone(), _held: OnDrop(log.clone(), "state") };
    (runtime.spawn(desk).serve().unwrap(), log)
}

/// A process whose entries serve in different ways.
#[process]
struct Loop {
    log: Log<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Wanted(u32);

impl Loop {
    fn add(&self, line: impl ToString) {
        self.log.add(line.to_string());
    }
}

#[process]
impl Loop {
    #[entry]
    async fn serve_all(&mut self, ctx: &mut Context<Self>) {
        self.add("begun");
        ctx.serve(self).await;
    }

    #[entry]
    async fn serve_until(&mut self, ctx: &mut Context<Self>, gate: Gate) -> usize {
        ctx.serve_until(self, gate.passed()).await;
        self.log.len()
    }

    #[entry]
    async fn serve_ready(&mut self, ctx: &mut Context<Self>, times: usize) -> Vec<usize> {
        let mut handled = Vec::new();
        while handled.len() < times {
            handled.push(ctx.serve_ready(self).await);
        }
        handled
    }

    #[entry]
    async fn serve_some(&mut self, ctx: &mut Context<Self>, count: u32) -> Vec<String> {
        for _ in 0..count {
            ctx.serve_next(self).await;
        }
        self.log.all()
    }

    #[entry]
    async fn receive(&mut self, ctx: &mut Context<Self>, count: usize) -> usize {
        for _ in 0..count {
            let wanted = ctx.receive::<Wanted>().await;
            self.add(format!("wanted {}", wanted.0));
        }
        ctx.serve_ready(self).await
    }

    #[entry]
    async fn receive_for_ever(&mut self, ctx: &mut Context<Self>, ready: Gate) {
        let first = ctx.receive::<Wanted>().await;
        ready.open();
        self.add(first.0);
        ctx.receive::<Wanted>().await;
    }

    /// Stops waiting for a message, waits at the gate, and then serves the messages that have arrived in the meantime.
    #[entry]
    async fn give_up(&mut self, ctx: &mut Context<Self>, given_up: Gate, gate: Gate) -> usize {
        let limit = ctx.sleep(Duration::from_millis(1));
        match select(pin!(ctx.receive::<Wanted>()), pin!(limit)).await {
            Either::Left(_) => self.add("received"),
            Either::Right(_) => self.add("given up"),
        }
        given_up.open();
        gate.passed().await;
        ctx.serve_ready(self).await
    }

    /// Takes a message inside a combinator that polls only woken futures.
    #[entry]
    async fn gather(&mut self, ctx: &mut Context<Self>, gate: Gate, serve: bool) -> Vec<u32> {
        type Part<'a> = Pin<Box<dyn Future<Output = u32> + Send + 'a>>;
        let slow = gate.clone();
        let this = &mut *self;
        let messages: Part<'_> = if serve {
            Box::pin(async move {
                ctx.serve_next(this).await;
                7
            })
        } else {
            Box::pin(async move { ctx.receive::<Wanted>().await.0 })
        };
        let mut parts: FuturesUnordered<Part<'_>> = FuturesUnordered::new();
        parts.push(messages);
        parts.push(Box::pin(async move {
            slow.passed().await;
            100
        }));
        let mut all = Vec::new();
        while let Some(part) = parts.next().await {
            all.push(part);
            gate.open_elsewhere();
        }
        all
    }

    /// Serves until a future that keeps waking itself completes.
    #[entry]
    async fn serve_while_yielding(&mut self, ctx: &mut Context<Self>, times: u32) -> usize {
        let yields = async {
            for _ in 0..times {
                yield_now().await;
            }
        };
        ctx.serve_until(self, yields).await;
        self.log.len()
    }

    /// Serves until a future completes. Other threads may wake this future at any moment.
    #[entry]
    async fn serve_while_woken(&mut self, ctx: &mut Context<Self>, gates: Vec<Gate>) -> usize {
        let passed = async {
            for gate in gates {
                let opener = thread::spawn({
                    let gate = gate.clone();
                    move || gate.open()
                });
                gate.passed().await;
                opener.join().unwrap();
            }
        };
        ctx.serve_until(self, passed).await;
        self.log.len()
    }

    /// Serves one message until the limit, at which its method is cancelled if it is still pending. Returns the
    /// deadlines that apply afterwards.
    #[entry]
    async fn serve_within(&mut self, ctx: &mut Context<Self>, limit: Gate, to: Address<Loop>) -> [Option<Instant>; 2] {
        select(pin!(ctx.serve_next(self)), limit.passed()).await;
        let own = ctx.deadline();
        [own, to.deadline().timeout(LONG).await.ok().flatten()]
    }

    #[entry]
    async fn ask_between(&mut self, ctx: &mut Context<Self>, to: Address<Loop>) -> [Option<Instant>; 2] {
        ctx.serve_next(self).await;
        let own = ctx.deadline();
        [own, to.deadline().timeout(LONG).await.ok().flatten()]
    }

    /// Awaits the cancellation, cleans up, and returns a result.
    #[entry]
    async fn until_cancelled(&mut self, ctx: &mut Context<Self>, begun: Gate, cleaned: Gate) -> String {
        let before = ctx.is_cancelled();
        // When the test sees that the second future waits, the first one is already awaited.
        let (reason, ()) = join(ctx.cancelled(), begun.passed()).await;
        // The cancellation does not end the process at this await.
        cleaned.passed().await;
        format!("{before} {} {reason}", ctx.is_cancelled())
    }

    #[entry]
    async fn work_until_cancelled(&mut self, ctx: &mut Context<Self>, gate: Gate) -> &'static str {
        let cancelled = matches!(select(pin!(ctx.cancelled()), gate.passed()).await, Either::Left(_));
        if cancelled {
            return "cancelled";
        }
        // Nothing awaits the cancellation any more, so it ends the process at this await.
        ctx.sleep(Duration::MAX).await;
        "slept"
    }

    #[entry]
    async fn drop_a_shield(&mut self, ctx: &mut Context<Self>, gate: Gate, told: Gate) {
        select(pin!(ctx.shield(gate.passed())), pin!(async move { told.passed().await })).await;
        ctx.sleep(Duration::MAX).await;
    }

    #[message]
    fn note(&mut self, line: u32) -> usize {
        self.add(line);
        self.log.len()
    }

    #[message]
    fn spawn_work(&mut self, ctx: &mut Context<Self>, gate: Gate) {
        ctx.run(async move { gate.passed().await }).then(|this, (), _| this.add("worked"));
    }

    #[message]
    async fn linger(&mut self, gate: Gate) {
        let line = gate.passed();
        self.add("lingering");
        line.await;
        self.add("lingered");
    }

    #[message]
    fn deadline(&mut self, ctx: &mut Context<Self>) -> Option<Instant> {
        ctx.deadline()
    }

    #[message(Wanted)]
    fn wanted(&mut self, wanted: Wanted) {
        self.add(format!("served {}", wanted.0));
    }

    #[message]
    fn leave(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

fn lines(log: &Log<String>) -> Vec<String> {
    log.all()
}

fn looping() -> (Loop, Log<String>) {
    let log = Log::new();
    (Loop { log: log.clone() }, log)
}

/// A process that counts its messages until a gate opens.
#[process]
struct Counter(u32);

#[process]
impl Counter {
    #[entry]
    async fn count_until(&mut self, ctx: &mut Context<Self>, end: Gate) -> u32 {
        let mut passed = pin!(end.passed());
        while ctx.serve_next_or(self, passed.as_mut()).await.is_none() {}
        self.0
    }

    #[message]
    async fn count(&mut self, go_on: Gate) {
        go_on.passed().await;
        self.0 += 1;
    }
}

/// Catches: a message whose handling has begun and is cancelled by the other future; a message that arrives and is not
/// handled; and the loss of the other future's output.
#[test]
fn a_message_that_has_been_begun_is_finished_before_the_other_future_is_looked_at() {
    postroom_tests::soon(|| {
        let runtime = Runtime::new().unwrap();
        let (end, go_on) = (Gate::new(), Gate::new());
        let counting = runtime.spawn(Counter(0)).count_until(end.clone()).unwrap();
        let counter = counting.address();
        let call = thread::spawn({
            let go_on = go_on.clone();
            move || counter.count(go_on).timeout(LONG).wait()
        });
        go_on.wait_for_arrival();
        end.open();
        go_on.open();
        assert_eq!(call.join().unwrap(), Ok(()));
        assert_eq!(counting.wait().unwrap(), 1);
    });
}
