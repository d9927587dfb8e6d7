//! Streams attached to a process: their items arrive as messages, each after the previous one was handled, until the
//! stream or the process ends, or the handle detaches the stream.

use futures_util::stream::{self, Stream, StreamExt};
use postroom::future::{Attached, Finished};
use postroom::prelude::*;
use postroom_tests::face::{Gate, Log, OnDrop, builder, until, watched, with_runtime};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

struct Item(usize);

/// A stream of the numbers from 1. It counts the items taken, and logs its drop.
struct Numbers {
    given: Arc<AtomicUsize>,
    end: usize,
    _dropped: Option<OnDrop>,
}

impl Stream for Numbers {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<Item>> {
        if self.end == 0 {
            return Poll::Ready(None);
        }
        self.end -= 1;
        Poll::Ready(Some(Item(self.given.fetch_add(1, Ordering::SeqCst) + 1)))
    }
}

fn numbers(end: usize) -> (Numbers, Arc<AtomicUsize>) {
    let given = Arc::new(AtomicUsize::new(0));
    (Numbers { given: given.clone(), end, _dropped: None }, given)
}

type BoxedStream = Pin<Box<dyn Stream<Item = Item> + Send>>;

/// A process that logs its items.
#[process]
#[derive(Default)]
struct Sync {
    log: Log<usize>,
    over: Gate,
    feed: Option<Attached<Self>>,
}

#[process]
impl Sync {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>, stream: BoxedStream) {
        self.feed = Some(ctx.attach(stream).then(|this, _| this.over.open()));
    }

    #[message(Item)]
    fn item(&mut self, item: Item) {
        self.log.add(item.0);
    }

    #[message]
    fn note(&mut self, number: usize) {
        self.log.add(number);
    }

    #[message]
    fn more(&mut self, ctx: &mut Context<Self>, stream: BoxedStream) {
        ctx.attach(stream);
    }

    #[message]
    fn detach(&mut self) {
        if let Some(feed) = self.feed.take() {
            feed.detach();
        }
    }

    #[message]
    fn stay(&mut self, inside: Gate, gate: Gate) {
        inside.open();
        gate.pass();
    }

    #[message]
    fn boom(&mut self) {
        panic!("this panic is meant to be");
    }
}

/// A process like [`Sync`], with a slow async method.
#[process]
struct Slow {
    log: Log<usize>,
    given: Arc<AtomicUsize>,
    gates: Vec<Gate>,
    over: bool,
}

#[process]
impl Slow {
    #[entry]
    async fn until_over(&mut self, ctx: &mut Context<Self>, stream: BoxedStream) -> Vec<usize> {
        ctx.attach(stream).then(|this, _| this.over = true);
        while !self.over {
            ctx.serve_next(self).await;
        }
        self.log.all()
    }

    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>, stream: BoxedStream) {
        ctx.attach(stream).then(|_, ctx| ctx.stop());
    }

    #[message(Item)]
    async fn item(&mut self, item: Item) {
        let number = item.0;
        self.gates[number - 1].passed().await;
        // Other processes may have run in the meantime, but no item after this one has been taken from the stream.
        assert_eq!(self.given.load(Ordering::SeqCst), number);
        self.log.add(number);
    }
}

#[test]
fn items_arrive_in_order_and_the_end_once_after_the_last() {
    with_runtime(|runtime| {
        let (stream, given) = numbers(1_000);
        let process = Sync::default();
        let (log, over) = (process.log.clone(), process.over.clone());
        let _process = runtime.spawn(process).serve(stream.boxed()).unwrap();
        over.pass();
        assert_eq!(log.all(), (1..=1_000).collect::<Vec<_>>());
        assert_eq!(given.load(Ordering::SeqCst), 1_000);
    });
}

#[test]
fn an_empty_stream_ends_at_once_and_several_streams_interleave() {
    with_runtime(|runtime| {
        let process = Sync::default();
        let (log, over) = (process.log.clone(), process.over.clone());
        let process = runtime.spawn(process).serve(stream::empty().boxed()).unwrap();
        over.pass();
        for start in [0, 100, 200] {
            process.more(stream::iter((start..start + 50).map(Item)).boxed()).wait().unwrap();
        }
        until(|| log.len() == 150);
        for start in [0, 100, 200] {
            let own: Vec<_> = log.all().into_iter().filter(|number| (start..start + 50).contains(number)).collect();
            assert_eq!(own, (start..start + 50).collect::<Vec<_>>());
        }
    });
}

#[test]
fn the_stream_is_polled_only_when_its_last_item_has_been_handled() {
    for as_entry in [false, true] {
        watched(move || {
            let runtime = builder().build().unwrap();
            let (stream, given) = numbers(3);
            let gates: Vec<_> = (0..3).map(|_| Gate::new()).collect();
            let log = Log::new();
            let process = Slow { log: log.clone(), given: given.clone(), gates: gates.clone(), over: false };
            let spawn = runtime.spawn(process);
            let pid = match as_entry {
                true => spawn.until_over(stream.boxed()).unwrap().pid(),
                false => spawn.serve(stream.boxed()).unwrap().pid(),
            };
            let end = pid.join();
            for (number, gate) in gates.iter().enumerate() {
                gate.wait_for_arrival();
                assert_eq!(given.load(Ordering::SeqCst), number + 1);
                gate.open();
            }
            assert_eq!(end.wait(), ExitReason::Normal);
            assert_eq!(log.all(), [1, 2, 3]);
        });
    }
}

#[test]
fn a_stream_without_end_takes_turns_with_the_mailbox_and_leaves_the_worker_to_others() {
    watched(|| {
        let runtime = builder().workers(1).build().unwrap();
        let (stream, _) = numbers(usize::MAX);
        let process = Sync::default();
        let log = process.log.clone();
        let busy = runtime.spawn(process).serve(stream.boxed()).unwrap();
        until(|| log.len() > 100);
        let other = runtime.spawn(Sync::default()).serve(stream::empty().boxed()).unwrap();
        other.note(1).wait().unwrap();
        // The stream also takes turns with the process's own mailbox, which contains a hundred messages.
        let (inside, gate) = (Gate::new(), Gate::new());
        busy.stay(inside.clone(), gate.clone()).send().unwrap();
        inside.pass();
        let before = log.len();
        for number in 0..100 {
            busy.note(usize::MAX - number).send().unwrap();
        }
        // The detach is queued before the process continues. So the result does not depend on when this thread runs.
        busy.detach().send().unwrap();
        gate.open();
        busy.note(usize::MAX - 100).wait().unwrap();
        let lines = &log.all()[before..];
        let notes: Vec<_> = lines.iter().copied().filter(|line| *line > usize::MAX / 2).collect();
        assert_eq!(notes, (0..=100).map(|number| usize::MAX - number).collect::<Vec<_>>());
        // Slightly more than one item was taken per message: one for each check of the mailbox.
        assert!((100..300).contains(&lines.len()), "{}", lines.len());
    });
}

#[test]
fn after_a_detach_no_item_arrives_and_the_process_drops_the_stream() {
    with_runtime(|runtime| {
        let (mut stream, given) = numbers(usize::MAX);
        let dropped = Log::new();
        stream._dropped = Some(OnDrop(dropped.clone(), "dropped"));
        let process = Sync::default();
        let (log, over) = (process.log.clone(), process.over.clone());
        let process = runtime.spawn(process).serve(stream.boxed()).unwrap();
        until(|| log.len() > 10);
        process.detach().wait().unwrap();
        let (items, given_then) = (log.len(), given.load(Ordering::SeqCst));
        until(|| !dropped.is_empty());
        process.note(0).wait().unwrap();
        assert_eq!((log.len(), given.load(Ordering::SeqCst)), (items + 1, given_then));
        assert!(poll(&over).is_pending(), "what was to follow the end is not done");
    });
}

fn poll(gate: &Gate) -> Poll<()> {
    postroom_tests::face::poll_once(std::pin::pin!(gate.passed()))
}

/// A process that attaches a stream and returns the handle to its caller.
#[process]
struct Giving {
    log: Log<usize>,
    entered: Gate,
    gate: Gate,
}

#[process]
impl Giving {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn attach(&mut self, ctx: &mut Context<Self>, stream: BoxedStream) -> Attached<Self> {
        ctx.attach(stream)
    }

    #[message]
    fn stay(&mut self) {
        self.entered.open();
        self.gate.pass();
    }

    #[message(Item)]
    fn item(&mut self, item: Item) {
        self.log.add(item.0);
    }
}

#[test]
fn a_detach_from_another_thread_discards_the_item_in_flight() {
    with_runtime(|runtime| {
        let (sender, receiver) = mpsc::channel(10);
        let (log, entered, gate) = (Log::new(), Gate::new(), Gate::new());
        let giving = runtime.spawn(Giving { log: log.clone(), entered: entered.clone(), gate: gate.clone() });
        let giving = giving.serve().unwrap();
        let channel = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Item>| {
            receiver.recv().await.map(|item| (item, receiver))
        });
        let attached = giving.attach(channel.boxed()).wait().unwrap();
        sender.blocking_send(Item(1)).ok().unwrap();
        until(|| log.len() == 1);
        giving.stay().send().unwrap();
        entered.pass();
        sender.blocking_send(Item(2)).ok().unwrap();
        attached.detach();
        gate.open();
        // The process drops the receiving end.
        until(|| sender.is_closed());
        assert_eq!(log.all(), [1]);
    });
}

/// A process that attaches two streams, and detaches the second at the first item.
#[process]
struct Pair {
    log: Log<usize>,
    second: Option<Attached<Self>>,
}

#[process]
impl Pair {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>, first: BoxedStream, second: BoxedStream) {
        ctx.attach(first);
        self.second = Some(ctx.attach(second));
    }

    #[message(Item)]
    fn item(&mut self, item: Item) {
        self.log.add(item.0);
        if let Some(second) = self.second.take() {
            second.detach();
        }
    }

    #[message]
    fn numbers(&mut self) -> Vec<usize> {
        self.log.all()
    }
}

/// Catches: an item that was taken before the detach and is delivered after it. Both streams have yielded an item by
/// the time of the detach.
#[test]
fn a_detach_by_the_process_discards_the_item_behind_the_current_one() {
    with_runtime(|runtime| {
        let dropped = Log::new();
        let (mut second, _) = numbers(usize::MAX);
        second._dropped = Some(OnDrop(dropped.clone(), "dropped"));
        let pair = runtime.spawn(Pair { log: Log::new(), second: None });
        let pair = pair.serve(stream::iter([Item(100)]).boxed(), second.boxed()).unwrap();
        until(|| !dropped.is_empty());
        assert_eq!(pair.numbers().wait(), Ok(vec![100]));
    });
}

#[test]
fn items_that_other_threads_make_wake_the_process() {
    with_runtime(|runtime| {
        let (sender, receiver) = mpsc::channel(1);
        let channel = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Item>| {
            receiver.recv().await.map(|item| (item, receiver))
        });
        let process = Sync::default();
        let (log, over) = (process.log.clone(), process.over.clone());
        let _process = runtime.spawn(process).serve(channel.boxed()).unwrap();
        let thread = std::thread::spawn(move || {
            (1..=1_000).for_each(|number| sender.blocking_send(Item(number)).ok().unwrap());
        });
        over.pass();
        thread.join().unwrap();
        assert_eq!(log.all(), (1..=1_000).collect::<Vec<_>>());
    });
}

#[test]
fn the_stream_goes_with_its_process_however_that_ends() {
    with_runtime(|runtime| {
        for end in ["kill", "stop", "panic"] {
            let dropped = Log::new();
            let (mut stream, _) = numbers(usize::MAX);
            stream._dropped = Some(OnDrop(dropped.clone(), "dropped"));
            let process = runtime.spawn(Sync::default()).serve(stream.boxed()).unwrap();
            let ended = process.pid().join();
            let told = match end {
                "kill" => process.pid().kill(),
                "stop" => process.pid().stop(),
                _ => process.boom().send().is_ok(),
            };
            assert!(told);
            ended.wait();
            assert_eq!(dropped.all(), ["dropped"], "{end}");
        }
    });
}

#[test]
fn a_stream_that_panics_ends_its_process_alone() {
    with_runtime(|runtime| {
        let other = runtime.spawn(Sync::default()).serve(stream::empty().boxed()).unwrap();
        let panics = stream::poll_fn(|_| -> Poll<Option<Item>> { panic!("this panic is meant to be") });
        let process = runtime.spawn(Sync::default()).serve(panics.boxed()).unwrap();
        assert!(matches!(process.pid().join().wait(), ExitReason::Panic(_) | ExitReason::NoProcess));
        other.note(1).wait().unwrap();
    });
}

/// A process whose entry receives the items of one stream by type, and serves those of another as messages.
#[process]
struct Body {
    ticks: usize,
}

struct Tick;

#[process]
impl Body {
    #[entry]
    async fn two_kinds(&mut self, ctx: &mut Context<Self>) -> (Vec<usize>, usize) {
        let interval = ctx.interval(Duration::from_secs(1));
        ctx.attach_with(interval.take(3), |()| Tick);
        ctx.attach(stream::iter((1..=3).map(Item)));
        let mut items = Vec::new();
        for _ in 0..3 {
            // Ticks that arrive in the meantime are stashed.
            items.push(ctx.receive::<Item>().await.0);
        }
        while self.ticks < 3 {
            ctx.serve_next(self).await;
        }
        (items, self.ticks)
    }

    #[message(Item)]
    fn item(&mut self, _item: Item) {}

    #[message(Tick)]
    fn tick(&mut self, _tick: Tick) {
        self.ticks += 1;
    }
}

#[test]
fn a_body_receives_items_by_their_type_and_ticks_come_as_messages() {
    watched(|| {
        let clock = postroom::test::Clock::manual();
        let runtime = builder().clock(clock.clone()).build().unwrap();
        let body = runtime.spawn(Body { ticks: 0 }).two_kinds().unwrap();
        runtime.until_idle().unwrap();
        clock.advance(Duration::from_secs(10)).unwrap();
        assert_eq!(body.wait().unwrap(), (vec![1, 2, 3], 3));
    });
}

/// The definition to which a [`Sync`] is upgraded.
#[process]
struct Later {
    log: Log<usize>,
}

#[process]
impl Later {
    #[entry]
    fn serve(&mut self) {}

    #[message(Item)]
    fn item(&mut self, item: Item) {
        self.log.add(item.0 + 1_000);
    }

    #[message(Finished<()>)]
    fn finished(&mut self, _end: Finished<()>) {
        self.log.add(0);
    }
}

#[test]
fn after_an_upgrade_the_new_definition_gets_the_items_and_the_end() {
    with_runtime(|runtime| {
        let (sender, receiver) = mpsc::channel(10);
        let channel = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Item>| {
            receiver.recv().await.map(|item| (item, receiver))
        });
        let process = Sync::default();
        let log = process.log.clone();
        let process = runtime.spawn(process).serve(channel.boxed()).unwrap();
        sender.blocking_send(Item(1)).ok().unwrap();
        until(|| log.len() == 1);
        process.pid().upgrade(|old: Sync| Later { log: old.log }).wait().unwrap();
        sender.blocking_send(Item(2)).ok().unwrap();
        drop(sender);
        until(|| log.len() == 3);
        assert_eq!(log.all(), [1, 1_002, 0]);
    });
}
