//! The spans of messages: roots, links, fields, and their ends.

use postroom::manual::{Event, Events, Process, StepOutput};
use postroom::prelude::*;
use postroom::{Package, ProcessError};
use postroom_spans::{Recorded, faults, install, span, span_of_event, spans_with};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tracing::{info, info_span};

/// Builds a runtime with one worker, so that processes run one at a time.
fn runtime() -> Runtime {
    install();
    Runtime::builder().workers(1).build().unwrap()
}

/// Returns the only span of a message to the process with the given label.
fn only(label: &str) -> Recorded {
    let spans = spans_with("label", label);
    let [span] = spans.as_slice() else { panic!("one span of {label}, not {spans:#?}") };
    span.clone()
}

/// Checks the properties that the spans of all messages have.
fn is_root(span: &Recorded) {
    assert_eq!((span.target, span.name), ("postroom::message", "postroom.message"));
    assert_eq!(span.parent, None, "a root: {span:#?}");
    assert!(span.entered > 0, "{span:#?}");
    assert_eq!(faults(), Vec::<String>::new());
}

/// Waits until a span is closed, since its process may still be leaving it. Returns the span.
fn closed(number: usize) -> Recorded {
    while !span(number).is_closed {
        std::thread::yield_now();
    }
    let span = span(number);
    assert_eq!(span.inside, 0);
    span
}

/// A process that forwards or calls, as requested.
#[process]
struct Clerk {
    next: Option<Address<Clerk>>,
    done: Sender<&'static str>,
    held: Vec<Reply<u32>>,
}

/// A value that logs its drop.
struct Farewell(&'static str);

impl Drop for Farewell {
    fn drop(&mut self) {
        info!("{}", self.0);
    }
}

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn pass(&mut self, text: &'static str) {
        info!("{text}");
        match &self.next {
            Some(next) => next.pass_last(text).send().unwrap(),
            None => self.done.send(text).unwrap(),
        }
    }

    #[message]
    fn pass_last(&mut self, text: &'static str) {
        self.done.send(text).unwrap();
    }

    /// Sends a message from inside a span of the program's own.
    #[message]
    fn pass_from(&mut self, name: &'static str) {
        let next = self.next.unwrap();
        info_span!("inner", name).in_scope(|| next.pass_last(name).send().unwrap());
    }

    #[message]
    fn number(&mut self) -> u32 {
        42
    }

    #[message]
    fn hold(&mut self, reply: Reply<u32>) {
        self.held.push(reply);
    }

    #[message]
    fn release(&mut self) {
        self.held.drain(..).for_each(|reply| reply.send(43));
    }

    #[message]
    async fn ask(&mut self, before: &'static str, after: &'static str) {
        info!("{before}");
        let next = self.next.unwrap();
        let number = next.hold().await.unwrap();
        info!("{after}");
        assert_eq!(number, 43);
        self.done.send(after).unwrap();
    }

    #[message]
    async fn ask_and_drop(&mut self, at_drop: &'static str) {
        let _farewell = Farewell(at_drop);
        let next = self.next.unwrap();
        let _number = next.hold().await;
    }

    #[message]
    fn ask_then(&mut self, ctx: &mut Context<Self>, after: &'static str) {
        let next = self.next.unwrap();
        ctx.call(next.number()).then(move |this, _, _| {
            info!("{after}");
            this.done.send(after).unwrap();
        });
    }

    #[message]
    fn later(&mut self, text: &'static str) {
        self.next.unwrap().pass_last(text).send_after(Duration::from_millis(1)).unwrap();
    }

    #[message]
    fn panic(&mut self) {
        panic!("as told");
    }
}

fn clerk(runtime: &Runtime, label: &str, next: Option<&Address<Clerk>>) -> (Address<Clerk>, Receiver<&'static str>) {
    let (done, receiver) = channel();
    let clerk = Clerk { next: next.cloned(), done, held: Vec::new() };
    (runtime.spawn(clerk).label(label).serve().unwrap(), receiver)
}

/// Catches: a span that is nested in its sender's, a missing link, a missing field, and a method outside of its span.
#[test]
fn a_message_is_handled_in_a_root_span_that_follows_from_its_senders() {
    let runtime = runtime();
    let (last, done) = clerk(&runtime, "chain: last", None);
    let (first, _) = clerk(&runtime, "chain: first", Some(&last));
    info_span!("request", name = "chain").in_scope(|| first.pass("chain: in the method").send().unwrap());
    assert_eq!(done.recv(), Ok("chain: in the method"));

    let request = spans_with("name", "chain").remove(0);
    let (first_span, last_span) = (only("chain: first"), only("chain: last"));
    [&first_span, &last_span].into_iter().for_each(is_root);
    assert_eq!(
        (first_span.follows.as_slice(), last_span.follows.as_slice()),
        (&[request.number][..], &[first_span.number][..])
    );
    assert_eq!(span_of_event("chain: in the method").map(|span| span.number), Some(first_span.number));

    let (first_pid, last_pid) = (first.pid().to_string(), last.pid().to_string());
    assert_eq!((first_span.field("pid"), last_span.field("pid")), (Some(&*first_pid), Some(&*last_pid)));
    assert_eq!((first_span.field("process"), last_span.field("process")), (Some("Clerk"), Some("Clerk")));
    assert_eq!(first_span.field("message_type"), Some("spans::ClerkPass"));
    assert_eq!(last_span.field("message_type"), Some("spans::ClerkPassLast"));
    // A thread does not count as a caller.
    assert_eq!((first_span.field("caller"), last_span.field("caller")), (None, Some(&*first_pid)));
    [request, first_span, last_span].into_iter().for_each(|span| _ = closed(span.number));
}

/// Catches: a link to the span of the sender's message, although the program has entered an inner span of its own.
#[test]
fn a_message_follows_from_the_innermost_span_of_its_sender() {
    let runtime = runtime();
    let (last, done) = clerk(&runtime, "inner: last", None);
    let (first, _) = clerk(&runtime, "inner: first", Some(&last));
    first.pass_from("inner: own").send().unwrap();
    assert_eq!(done.recv(), Ok("inner: own"));
    let own = spans_with("name", "inner: own").remove(0);
    assert_eq!(own.parent, Some(only("inner: first").number));
    assert_eq!(only("inner: last").follows, [own.number]);
    // This message was sent outside of any span, so it has no link.
    assert_eq!(only("inner: first").follows, Vec::<usize>::new());
}

/// Catches: a span that stays entered while its method waits, one that is not entered again, and an answer that counts
/// as a message.
#[test]
fn an_async_method_is_in_its_span_whenever_it_runs_and_only_then() {
    let runtime = runtime();
    let (last, _) = clerk(&runtime, "async: last", None);
    let (first, done) = clerk(&runtime, "async: first", Some(&last));
    first.ask("async: before", "async: after").send().unwrap();
    runtime.until_idle().unwrap();
    let first_span = only("async: first");
    is_root(&first_span);
    assert_eq!((first_span.inside, first_span.is_closed), (0, false), "it waits");
    // In the meantime the same worker runs other processes.
    let (other, done_other) = clerk(&runtime, "async: other", None);
    other.pass("async: meanwhile").send().unwrap();
    assert_eq!(done_other.recv(), Ok("async: meanwhile"));
    assert_eq!(span_of_event("async: meanwhile").map(|span| span.number), Some(only("async: other").number));

    let held = spans_with("label", "async: last").remove(0);
    assert_eq!(
        (held.follows.as_slice(), held.field("caller")),
        (&[first_span.number][..], Some(&*first.pid().to_string()))
    );
    last.release().send().unwrap();
    assert_eq!(done.recv(), Ok("async: after"));
    for event in ["async: before", "async: after"] {
        assert_eq!(span_of_event(event).map(|span| span.number), Some(first_span.number), "{event}");
    }
    assert!(closed(first_span.number).entered >= 2);
}

/// Catches: a method that is cut short, and whose locals are then dropped outside of its span.
#[test]
fn a_method_that_is_dropped_is_dropped_in_its_span() {
    let runtime = runtime();
    let (last, _) = clerk(&runtime, "dropped: last", None);
    let (first, _) = clerk(&runtime, "dropped: first", Some(&last));
    first.ask_and_drop("dropped: farewell").send().unwrap();
    runtime.until_idle().unwrap();
    let end = first.pid().join();
    first.pid().kill();
    end.wait();
    let number = only("dropped: first").number;
    assert_eq!(span_of_event("dropped: farewell").map(|span| span.number), Some(number));
    closed(number);
}

/// Catches: a continuation in no span, or in one that follows from the called process.
#[test]
fn a_continuation_runs_in_the_span_of_the_message_that_it_continues() {
    let runtime = runtime();
    let (last, _) = clerk(&runtime, "then: last", None);
    let (first, done) = clerk(&runtime, "then: first", Some(&last));
    first.ask_then("then: after").send().unwrap();
    assert_eq!(done.recv(), Ok("then: after"));
    let first_span = only("then: first");
    assert_eq!(span_of_event("then: after").map(|span| span.number), Some(first_span.number));
    assert!(closed(first_span.number).entered >= 2);
}

/// Catches: a timer whose message has no link, or is linked to the span of the thread that fires the timer.
#[test]
fn a_message_of_a_timer_follows_from_the_span_that_set_it() {
    let runtime = runtime();
    let (last, done) = clerk(&runtime, "timer: last", None);
    let (first, _) = clerk(&runtime, "timer: first", Some(&last));
    first.later("timer: fired").send().unwrap();
    assert_eq!(done.recv(), Ok("timer: fired"));
    let (first_span, last_span) = (only("timer: first"), only("timer: last"));
    is_root(&last_span);
    assert_eq!(last_span.follows, [first_span.number]);
    assert_eq!(last_span.field("caller"), Some(&*first.pid().to_string()));
    closed(first_span.number);
}

/// Catches: a repeated timer that keeps the span open in which it was set.
#[test]
fn of_a_repeated_message_the_first_follows_from_the_span_that_set_the_timer() {
    let clock = Clock::manual();
    install();
    let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    let (sender, done) = channel();
    let last = runtime.spawn(Worker { done: sender }).label("every: last").serve().unwrap();
    let request = info_span!("request", name = "every");
    let timer = request.in_scope(|| last.flush(Flush("every: fired")).send_every(Duration::from_secs(1)).unwrap());
    drop(request);
    // This thread fires the timer, in a span of its own.
    let fires = info_span!("fires");
    for _ in 0..3 {
        fires.in_scope(|| clock.advance(Duration::from_secs(1)).unwrap());
        assert_eq!(done.recv(), Ok("every: fired"));
    }
    let request = spans_with("name", "every").remove(0).number;
    let follows: Vec<_> = spans_with("label", "every: last").into_iter().map(|span| span.follows).collect();
    assert_eq!(follows, [vec![request], vec![], vec![]]);
    closed(request);
    timer.cancel();
}

/// An event that is published to all readers.
#[derive(Clone)]
struct Opened(&'static str);

#[process]
struct Reader {
    done: Sender<&'static str>,
}

#[process]
impl Reader {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>) {
        ctx.subscribe::<Opened>();
    }

    #[message(Opened)]
    fn opened(&mut self, opened: Opened) {
        self.done.send(opened.0).unwrap();
    }
}

/// Catches: a copy of a published event without its link.
#[test]
fn each_copy_of_an_event_follows_from_the_span_that_published_it() {
    let runtime = runtime();
    let (done, received) = channel();
    for label in ["published: 1", "published: 2"] {
        runtime.spawn(Reader { done: done.clone() }).label(label).serve().unwrap();
    }
    info_span!("publisher", name = "published").in_scope(|| assert_eq!(runtime.publish(Opened("news")), 2));
    assert_eq!([received.recv(), received.recv()], [Ok("news"), Ok("news")]);
    let publisher = spans_with("name", "published").remove(0).number;
    for label in ["published: 1", "published: 2"] {
        is_root(&only(label));
        assert_eq!(only(label).follows, [publisher]);
    }
    closed(publisher);
}

#[process]
struct Worker {
    done: Sender<&'static str>,
}

#[derive(Clone)]
struct Flush(&'static str);

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn work(&mut self, text: &'static str) {
        self.done.send(text).unwrap();
    }

    #[message(Flush)]
    fn flush(&mut self, flush: Flush) {
        self.done.send(flush.0).unwrap();
    }
}

/// Catches: a pool that sends in its own name, and copies of a broadcast without a link.
#[test]
fn a_message_through_a_pool_follows_from_the_span_of_its_sender() {
    let runtime = runtime();
    let (done, received) = channel();
    let pool = Pool::fixed(2)
        .broadcast::<Flush>()
        .spawn(&runtime, move |spawn| spawn.of(Worker { done: done.clone() }).label("pool").serve());
    let pool = pool.unwrap();
    info_span!("request", name = "pool: work").in_scope(|| pool.address().work("work").send().unwrap());
    assert_eq!(received.recv(), Ok("work"));
    let request = spans_with("name", "pool: work").remove(0).number;
    let worked = spans_with("label", "pool");
    assert_eq!(worked.iter().map(|span| span.follows.clone()).collect::<Vec<_>>(), [[request]]);
    info_span!("request", name = "pool: flush").in_scope(|| runtime.send(pool.pid(), Flush("flush")).unwrap());
    assert_eq!([received.recv(), received.recv()], [Ok("flush"), Ok("flush")]);
    let request = spans_with("name", "pool: flush").remove(0).number;
    let mut flushed = spans_with("label", "pool");
    flushed.retain(|span| span.field("message_type") == Some("spans::Flush"));
    assert_eq!(flushed.iter().map(|span| span.follows.clone()).collect::<Vec<_>>(), [[request], [request]]);
    closed(request);
}

#[process]
struct Mourned {
    _farewell: Farewell,
}

#[process]
impl Mourned {
    #[entry]
    fn serve(&mut self) {}
}

/// Catches: a stop request without a span, which would not show who requested the stop.
#[test]
fn a_process_that_is_stopped_is_dropped_in_a_span_that_follows_from_the_requests() {
    let runtime = runtime();
    let mourned = runtime.spawn(Mourned { _farewell: Farewell("stop: farewell") }).label("stop").serve().unwrap();
    let end = mourned.pid().join();
    info_span!("request", name = "stop").in_scope(|| assert!(mourned.pid().stop()));
    end.wait();
    let request = spans_with("name", "stop").remove(0).number;
    let stop = only("stop");
    is_root(&stop);
    assert_eq!((stop.field("message_type"), stop.field("process")), (Some("stop"), Some("Mourned")));
    assert_eq!(stop.follows, [request]);
    assert_eq!(span_of_event("stop: farewell").map(|span| span.number), Some(stop.number));
    closed(stop.number);
    closed(request);
}

/// Catches: a span that a panic leaves entered.
#[test]
fn a_method_that_panics_leaves_its_span() {
    let runtime = runtime();
    let (clerk, _) = clerk(&runtime, "panic", None);
    let end = clerk.pid().join();
    info_span!("request", name = "panic").in_scope(|| clerk.panic().send().unwrap());
    end.wait();
    is_root(&only("panic"));
    closed(only("panic").number);
    closed(spans_with("name", "panic")[0].number);
}

/// A process with an async entry that handles its messages itself.
#[process]
struct Loop {
    done: Sender<&'static str>,
}

#[process]
impl Loop {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) {
        loop {
            ctx.serve_next(self).await;
            info!("loop: between");
        }
    }

    #[message]
    async fn work(&mut self, ctx: &mut Context<Self>, text: &'static str) {
        ctx.sleep(Duration::from_millis(1)).await;
        info!("{text}");
        self.done.send(text).unwrap();
    }
}

/// Catches: a message of an async entry without a span, and an entry that stays in that span.
#[test]
fn a_message_that_an_async_entry_serves_is_in_a_span_and_the_entry_is_not() {
    let runtime = runtime();
    let (done, received) = channel();
    let process = runtime.spawn(Loop { done }).label("loop").run().unwrap();
    process.address().work("loop: work").send().unwrap();
    assert_eq!(received.recv(), Ok("loop: work"));
    runtime.until_idle().unwrap();
    let work = only("loop");
    is_root(&work);
    assert_eq!(span_of_event("loop: work").map(|span| span.number), Some(work.number));
    assert!(span_of_event("loop: between").is_none());
    closed(work.number);
}

/// A hand-written process.
struct ByHand(Sender<&'static str>);

impl Process for ByHand {
    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            if let Event::Message(package) = event {
                let _other: Result<(), Package> = package.answer(|text: &'static str| {
                    info!("{text}");
                    self.0.send(text).unwrap();
                });
            }
        }
        Ok(())
    }
}

/// Catches: a hand-written process that answers outside of a span.
#[test]
fn a_process_by_hand_answers_in_a_span() {
    let runtime = runtime();
    let (done, received) = channel();
    let pid = runtime.spawn_process(ByHand(done)).label("by hand").start().unwrap();
    info_span!("request", name = "by hand").in_scope(|| runtime.send(pid, "by hand: text").unwrap());
    assert_eq!(received.recv(), Ok("by hand: text"));
    let span = only("by hand");
    is_root(&span);
    assert_eq!(span.follows, [spans_with("name", "by hand")[0].number]);
    assert_eq!(span_of_event("by hand: text").map(|span| span.number), Some(span.number));
    closed(span.number);
}

/// Catches: a dead letter that does not name its sender, although the message carries it.
#[test]
fn a_dead_letter_names_its_sender() {
    install();
    let (letters, received) = channel();
    let runtime = Runtime::builder().on_dead_letter(move |letter| letters.send(letter.from).unwrap()).build().unwrap();
    let (last, _) = clerk(&runtime, "letter: last", None);
    let sender = runtime.spawn(Missender { to: last.pid() }).serve().unwrap();
    sender.missend().send().unwrap();
    assert_eq!(received.recv(), Ok(Some(sender.pid())));
}

#[process]
struct Missender {
    to: Pid,
}

#[process]
impl Missender {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn missend(&mut self, ctx: &mut Context<Self>) {
        ctx.send(self.to, "no method for this").unwrap();
    }
}
