//! Tests of showing the states and messages of processes whose types allow it.

use postroom::inspect::{DescribeError, Tap, TappedValue};
use postroom::manual::{Events, InitContext, Process, StepOutput};
use postroom::prelude::*;
use postroom::{InitError, ProcessError};
use postroom_console::Console;
use postroom_tests::{eventually, soon};
use serde_json::Value;
use std::cell::Cell;
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A process with two numbers that differ only while a method runs.
#[process(inspect)]
struct Pair {
    left: u64,
    right: u64,
    #[inspect(skip)]
    secret: String,
    hostile: Hostile,
}

/// The behaviour of the `Debug` of [`Hostile`].
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Nothing,
    Panic,
    Fail,
    Flood,
}

struct Hostile(Cell<Deed>);

impl fmt::Debug for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get() {
            Deed::Nothing => f.write_str("Hostile"),
            Deed::Panic => panic!("not shown"),
            Deed::Fail => Err(fmt::Error),
            // Endless, unless the formatter reports that there is no more room.
            Deed::Flood => loop {
                f.write_str("more and more ")?;
            },
        }
    }
}

#[derive(Debug)]
struct Order(u8);

#[process]
impl Pair {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn count(&mut self) -> u64 {
        self.left += 1;
        self.right += 1;
        self.left
    }

    /// Lets other threads run while the numbers differ.
    #[message]
    fn count_slowly(&mut self) -> u64 {
        self.left += 1;
        std::thread::yield_now();
        self.right += 1;
        self.left
    }

    #[message(inspect)]
    fn note(&mut self, hostile: Hostile, #[inspect(skip)] secret: String, number: u64) -> usize {
        let _ = hostile;
        secret.len() + number as usize
    }

    #[message(Order, inspect)]
    async fn take(&mut self, order: Order) -> u8 {
        order.0
    }

    #[message]
    fn slice(&mut self, deed: Deed) -> usize {
        self.hostile.0.set(deed);
        self.secret.len()
    }

    #[message]
    async fn wait_for(&mut self, until: Receiver<()>) {
        let (done, wait) = futures_channel();
        std::thread::spawn(move || {
            let _ = until.recv();
            drop(done);
        });
        wait.await;
        self.left += 0;
    }
}

/// Returns a sender, and a future that is ready when the sender is dropped.
fn futures_channel() -> (tokio::sync::oneshot::Sender<()>, impl Future<Output = ()>) {
    let (done, wait) = tokio::sync::oneshot::channel();
    (done, async { _ = wait.await })
}

#[process]
struct Closed {
    _secret: u64,
}

#[process]
impl Closed {
    #[entry]
    fn serve(&mut self) {}
}

/// A pinned process, whose state is not `Send`.
#[process(inspect, pinned)]
enum Shape {
    Empty,
    Tuple(Rc<u8>, #[inspect(skip)] String, u8),
}

#[process]
impl Shape {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn change(&mut self) {
        *self = match self {
            Self::Empty => Self::Tuple(Rc::new(1), "secret".to_owned(), 2),
            Self::Tuple(_, secret, _) if secret.is_empty() => return,
            Self::Tuple(..) => Self::Empty,
        }
    }
}

fn pair(deed: Deed) -> Pair {
    Pair { left: 0, right: 0, secret: "a key".to_owned(), hostile: Hostile(Cell::new(deed)) }
}

/// Repeats `ask` until the process has described itself within the console's time limit.
fn ask_in_time(console: &Console, pid: Pid) -> Value {
    loop {
        let shown = ask(console, pid);
        if !shown["state"]["why"].as_str().is_some_and(|why| why.contains("within 100 ms")) {
            return shown;
        }
    }
}

fn ask(console: &Console, pid: Pid) -> Value {
    let (address, token) = (console.address(), console.url().split_once("?token=").expect("a token").1);
    let mut stream = TcpStream::connect(address).expect("it listens");
    let pid = pid.to_string().replace('<', "%3C").replace('>', "%3E");
    let head =
        format!("GET /api/process?pid={pid} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    serde_json::from_str(answer.split_once("\r\n\r\n").expect("it answers in HTTP").1).expect("it is JSON")
}

#[test]
fn a_state_is_shown_between_two_messages_and_without_what_is_skipped() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let pair = runtime.spawn(pair(Deed::Nothing)).serve().unwrap();
        let (over, counts) = channel::<()>();
        let counting = std::thread::spawn(move || {
            let mut last = 0;
            while counts.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                last = pair.count_slowly().wait().unwrap();
            }
            last
        });
        let number = |text: &str, field: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{field}: "))).expect(field);
            line.trim_end_matches(',').parse::<u64>().expect("a number")
        };
        let mut last = 0;
        for _ in 0..200 {
            let state = pair.pid().describe().wait().unwrap();
            assert!(!state.text.contains("secret") && !state.text.contains("a key"), "{}", state.text);
            assert!(state.text.ends_with("..\n}") && !state.is_cut, "{}", state.text);
            last = number(&state.text, "left");
            assert_eq!(last, number(&state.text, "right"), "torn");
        }
        drop(over);
        assert!(counting.join().unwrap() >= last);
    });
}

#[test]
fn a_hostile_debug_costs_its_answer_alone() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let console = Console::of(&runtime).start().unwrap();
        let pair = runtime.spawn(pair(Deed::Nothing)).serve().unwrap();
        let pid = pair.pid();
        for deed in [Deed::Panic, Deed::Fail, Deed::Flood, Deed::Nothing] {
            assert_eq!(pair.slice(deed).wait(), Ok(5));
            let state = pid.describe().wait();
            let shown = ask_in_time(&console, pid)["state"].clone();
            match deed {
                Deed::Panic => {
                    assert!(matches!(state, Err(DescribeError::Panicked(_, text)) if text.contains("not shown")));
                    assert!(shown["why"].as_str().unwrap().contains("has panicked"), "{shown}");
                }
                Deed::Fail => assert_eq!(state, Err(DescribeError::Failed(pid))),
                Deed::Flood => {
                    let state = state.unwrap();
                    assert!(state.is_cut && state.text.len() <= 64 << 10);
                    assert_eq!(shown["is_cut"], true);
                }
                Deed::Nothing => {
                    assert!(state.unwrap().text.contains("hostile: Hostile"));
                    assert!(shown["text"].as_str().unwrap().starts_with("Pair {"), "{shown}");
                }
            }
            // The process is alive, and its `Debug` has not affected it.
            assert!(pair.count().wait().is_ok());
        }
    });
}

#[test]
fn one_that_is_away_hidden_or_gone_says_so() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let console = Console::of(&runtime).start().unwrap();
        let away = runtime.spawn(pair(Deed::Nothing)).serve().unwrap();
        let (go, until) = channel();
        away.wait_for(until).send().unwrap();
        eventually(|| away.pid().describe().wait() == Err(DescribeError::Away(away.pid())));
        let shown = ask_in_time(&console, away.pid());
        assert!(shown["state"]["why"].as_str().unwrap().contains("async method"), "{shown}");
        drop(go);
        eventually(|| away.pid().describe().wait().is_ok());

        let closed = runtime.spawn(Closed { _secret: 7 }).serve().unwrap();
        assert_eq!(closed.pid().describe().wait(), Err(DescribeError::Hidden(closed.pid())));
        assert_eq!(ask(&console, closed.pid())["state"], Value::Null);
        let steps = closed.pid().info().unwrap().steps;
        assert_eq!(closed.pid().describe().wait(), Err(DescribeError::Hidden(closed.pid())));
        assert_eq!(closed.pid().info().unwrap().steps, steps, "it was woken for nothing");
        closed.pid().kill();
        closed.pid().join().wait();
        assert_eq!(closed.pid().describe().wait(), Err(DescribeError::Gone(closed.pid())));
    });
}

#[test]
fn variants_tuples_and_pinned_processes_are_shown() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let shape = runtime.spawn_pinned(|| Shape::Empty).serve().unwrap();
        assert_eq!(shape.pid().describe().wait().unwrap().text, "Empty");
        shape.change().wait().unwrap();
        assert_eq!(shape.pid().describe().wait().unwrap().text, "Tuple(\n    1,\n    ..,\n    2,\n)");
    });
}

#[test]
fn a_tap_notes_the_next_messages_and_each_is_handled_once() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let pair = runtime.spawn(pair(Deed::Nothing)).serve().unwrap();
        assert_eq!(pair.count().wait(), Ok(1));
        let tap = pair.pid().tap(4, Duration::from_secs(10));
        let (go, until) = channel();
        assert_eq!(pair.count().wait(), Ok(2));
        assert_eq!(pair.slice(Deed::Nothing).wait(), Ok(5));
        pair.wait_for(until).send().unwrap();
        drop(go);
        (3..300).for_each(|_| pair.count().send().unwrap());
        assert_eq!(pair.count().wait(), Ok(300));
        let names: Vec<_> = tap.messages().iter().map(|tapped| tapped.message.rsplit("::").next().unwrap()).collect();
        assert_eq!(names, ["PairCount", "PairSlice", "PairWaitFor", "PairCount"]);
        eventually(|| tap.is_over());
        // A tap that is still open when its process ends.
        let tap = pair.pid().tap(100, Duration::from_secs(10));
        assert_eq!(pair.count().wait(), Ok(301));
        pair.pid().kill();
        pair.pid().join().wait();
        eventually(|| tap.is_over());
        assert_eq!(tap.messages().len(), 1);
        assert!(pair.pid().tap(1, Duration::from_secs(10)).is_over());
    });
}

/// Returns the values that a tap has recorded, as text.
fn values(tap: &Tap) -> Vec<String> {
    let text = |value| match value {
        TappedValue::Hidden => "hidden".to_owned(),
        TappedValue::Shown { text, is_cut } => text[..text.len().min(100)].to_owned() + if is_cut { "…" } else { "" },
        TappedValue::Failed => "failed".to_owned(),
        TappedValue::Panicked(text) => format!("panicked: {text}"),
        other => format!("{other:?}"),
    };
    tap.messages().into_iter().map(|tapped| text(tapped.value)).collect()
}

#[test]
fn a_tap_shows_what_methods_let_it_and_a_hostile_debug_costs_its_value_alone() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let pair = runtime.spawn(pair(Deed::Nothing)).serve().unwrap();
        let tap = pair.pid().tap(100, Duration::from_secs(10));
        for deed in [Deed::Nothing, Deed::Panic, Deed::Fail, Deed::Flood] {
            let hostile = Hostile(Cell::new(deed));
            assert_eq!(pair.note(hostile, "a key".to_owned(), 7).wait(), Ok(12));
        }
        assert_eq!(pair.take(Order(3)).wait(), Ok(3));
        assert_eq!(pair.count().wait(), Ok(1));
        let seen = values(&tap);
        assert_eq!(seen[0], "note { hostile: Hostile, number: 7, .. }");
        assert!(seen[1].starts_with("panicked: ") && seen[1].contains("not shown"), "{}", seen[1]);
        assert_eq!(seen[2], "failed");
        assert!(seen[3].starts_with("note { hostile: more and more more") && seen[3].ends_with('…'), "{}", seen[3]);
        assert_eq!(seen[4..], ["Order(3)", "hidden"]);
        assert!(tap.messages().iter().all(|tapped| match &tapped.value {
            TappedValue::Shown { text, .. } => text.len() <= 4 << 10,
            _ => true,
        }));
        assert!(!format!("{tap:?}").contains("a key"));
    });
}

/// A mailbox with a hard bound stores its messages separately.
#[test]
fn a_tap_sees_messages_behind_a_hard_bound() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let bound = Bound::Hard(8, Overflow::DropOldest);
        let pair = runtime.spawn(pair(Deed::Nothing)).mailbox(bound).serve().unwrap();
        let tap = pair.pid().tap(100, Duration::from_secs(10));
        assert_eq!(pair.note(Hostile(Cell::new(Deed::Nothing)), "a key".to_owned(), 7).wait(), Ok(12));
        assert_eq!(pair.count().wait(), Ok(1));
        assert_eq!(values(&tap), ["note { hostile: Hostile, number: 7, .. }", "hidden"]);
    });
}

/// A message whose `Debug` uses the process that shows it.
struct Reentrant(Address<Desk>);

impl fmt::Debug for Reentrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(desk) = self;
        // Use the process's own mailbox and tap, and an answer that can only come from another thread.
        desk.file(7).send().unwrap();
        let tap = desk.pid().tap(1, Duration::from_secs(10));
        write!(f, "{} {:?}", tap.is_over(), desk.pid().describe())
    }
}

/// A protocol with a message that taps show. The implementing types need not know about that.
#[protocol]
trait Filed {
    #[message(inspect)]
    fn file(&mut self, number: u8);
    fn lose(&mut self, number: u8);
}

#[process(inspect)]
struct Desk(Vec<u8>);

#[process(protocols(Filed))]
impl Desk {
    #[entry]
    fn serve(&mut self) {}

    #[message(inspect)]
    fn read(&mut self, reentrant: Reentrant) -> Vec<u8> {
        let Reentrant(_) = reentrant;
        self.0.clone()
    }
}

#[process]
impl Filed for Desk {
    fn file(&mut self, number: u8) {
        self.0.push(number);
    }

    fn lose(&mut self, number: u8) {
        self.0.retain(|other| *other != number);
    }
}

#[test]
fn a_debug_may_use_the_process_that_is_tapped_and_protocols_show_their_messages() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let desk = runtime.spawn(Desk(Vec::new())).serve().unwrap();
        let tap = desk.pid().tap(100, Duration::from_secs(10));
        desk.file(5).wait().unwrap();
        desk.lose(6).wait().unwrap();
        assert_eq!(desk.read(Reentrant(desk)).wait(), Ok(vec![5]));
        let seen = values(&tap);
        assert_eq!(seen[..2], ["file { number: 5 }", "hidden"]);
        assert!(seen[2].starts_with("read { reentrant: false Describing"), "{}", seen[2]);
        // The tap that the `Debug` has requested replaces this one.
        eventually(|| tap.is_over());
        // Wait until the message that the `Debug` sent has been handled: a state is shown before waiting messages are
        // handled.
        desk.lose(8).wait().unwrap();
        assert!(desk.pid().describe().wait().unwrap().text.contains('7'));
    });
}

/// A process that receives its messages in its entry.
#[process]
struct Reader;

#[process]
impl Reader {
    #[entry]
    async fn read(&mut self, ctx: &mut Context<Self>, tell: Sender<u64>) {
        while tell.send(ctx.receive::<u64>().await).is_ok() {}
    }
}

/// A hand-written process.
struct Counter;

impl Process for Counter {
    fn entries(&self) -> &'static [&'static str] {
        &["start"]
    }

    fn init(&mut self, _: &mut InitContext<'_>, _: &str, _: Payloads) -> Result<(), InitError> {
        Ok(())
    }

    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while events.next().is_some() {}
        Ok(())
    }
}

#[test]
fn an_entry_that_takes_its_messages_and_a_process_by_hand_have_taps() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let (tell, told) = channel();
        let reader = runtime.spawn(Reader).read(tell).unwrap().pid();
        let by_hand = runtime.spawn_process(Counter).start().unwrap();
        let pinned = runtime.spawn_process_pinned(|| Counter).start().unwrap();
        for pid in [reader, by_hand, pinned] {
            let tap = pid.tap(3, Duration::from_secs(10));
            for number in 0..300_u64 {
                runtime.send(pid, number).unwrap();
            }
            eventually(|| tap.is_over());
            assert_eq!(tap.messages().iter().map(|tapped| tapped.message).collect::<Vec<_>>(), ["u64"; 3]);
            eventually(|| pid.info().is_some_and(|info| info.messages == 300));
        }
        assert_eq!(told.iter().take(300).collect::<Vec<_>>(), (0..300).collect::<Vec<_>>());
    });
}

#[test]
fn a_tap_needs_controls_and_is_shown_with_the_process() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let pair = runtime.spawn(pair(Deed::Nothing)).serve().unwrap();
        for may_act in [false, true] {
            let console = Console::of(&runtime).controls(may_act).start().unwrap();
            let (address, token) = (console.address(), console.url().split_once("?token=").unwrap().1);
            let pid = pair.pid().to_string().replace('<', "%3C").replace('>', "%3E");
            let head = format!("POST /api/tap?pid={pid} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n");
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "{head}Authorization: Bearer {token}\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let status = if may_act { "202" } else { "403" };
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
            assert!(pair.count().wait().is_ok());
            assert!(pair.note(Hostile(Cell::new(Deed::Nothing)), "a key".to_owned(), 7).wait().is_ok());
            let tap = ask(&console, pair.pid())["tap"].clone();
            if may_act {
                let [counted, noted] = [0, 1].map(|number| &tap["messages"][number]);
                assert_eq!((&counted["method"], &counted["value"]), (&"count".into(), &Value::Null), "{tap}");
                assert!(counted["why"].as_str().unwrap().contains("#[message(inspect)]"), "{tap}");
                assert_eq!(noted["value"], "note { hostile: Hostile, number: 7, .. }", "{tap}");
            } else {
                assert_eq!(tap, Value::Null);
            }
        }
    });
}

/// A process in a long step describes itself only after that step. The console does not wait that long.
#[test]
fn the_console_does_not_wait_for_a_long_step() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let console = Console::of(&runtime).start().unwrap();
        let ((go, until), (begun, begins)) = (channel::<()>(), channel());
        let stuck = runtime.spawn(Stuck { until }).serve().unwrap();
        stuck.wait_there(begun).send().unwrap();
        begins.recv().unwrap();
        let shown = ask(&console, stuck.pid());
        assert!(shown["state"]["why"].as_str().unwrap().contains("within 100 ms"), "{shown}");
        let state = stuck.pid().describe();
        drop(go);
        assert!(state.wait().unwrap().text.starts_with("Stuck"));
    });
}

#[process(inspect)]
struct Stuck {
    until: Receiver<()>,
}

#[process]
impl Stuck {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn wait_there(&mut self, begun: Sender<()>) {
        let _ = begun.send(());
        let _ = self.until.recv();
    }
}
