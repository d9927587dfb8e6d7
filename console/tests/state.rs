//! The state of a process, where its type says that it may be shown.

use postroom::inspect::DescribeError;
use postroom::prelude::*;
use postroom_console::Console;
use postroom_tests::{eventually, soon};
use serde_json::Value;
use std::cell::Cell;
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Two numbers that only its methods make differ.
#[process(inspect)]
struct Pair {
    left: u64,
    right: u64,
    #[inspect(skip)]
    secret: String,
    hostile: Hostile,
}

/// What its `Debug` does.
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
            // Without an end, unless it is told that there is no room.
            Deed::Flood => loop {
                f.write_str("more and more ")?;
            },
        }
    }
}

#[process]
impl Pair {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn count(&mut self) -> u64 {
        self.left += 1;
        std::thread::yield_now();
        self.right += 1;
        self.left
    }

    #[message]
    fn turn(&mut self, deed: Deed) -> usize {
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

/// A future that is ready when the other half is dropped.
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

/// On a thread of its own, with a state that is not `Send`.
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
                last = pair.count().wait().unwrap();
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
            assert_eq!(pair.turn(deed).wait(), Ok(5));
            let state = pid.describe().wait();
            let shown = ask(&console, pid)["state"].clone();
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
            // It lives, and has not noticed.
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
        let shown = ask(&console, away.pid());
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
        assert_eq!(pair.turn(Deed::Nothing).wait(), Ok(5));
        pair.wait_for(until).send().unwrap();
        drop(go);
        (3..300).for_each(|_| pair.count().send().unwrap());
        assert_eq!(pair.count().wait(), Ok(300));
        let names: Vec<_> = tap.messages().iter().map(|tapped| tapped.message.rsplit("::").next().unwrap()).collect();
        assert_eq!(names, ["PairCount", "PairTurn", "PairWaitFor", "PairCount"]);
        eventually(|| tap.is_over());
        // One that is not over when its process ends.
        let tap = pair.pid().tap(100, Duration::from_secs(10));
        assert_eq!(pair.count().wait(), Ok(301));
        pair.pid().kill();
        pair.pid().join().wait();
        eventually(|| tap.is_over());
        assert_eq!(tap.messages().len(), 1);
        assert!(pair.pid().tap(1, Duration::from_secs(10)).is_over());
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
            let tap = ask(&console, pair.pid())["tap"].clone();
            if may_act {
                assert_eq!(tap["messages"][0]["method"], "count", "{tap}");
            } else {
                assert_eq!(tap, Value::Null);
            }
        }
    });
}

/// A process in a step that does not end answers after it; the console does not wait for that.
#[test]
fn the_console_does_not_wait_for_a_long_step() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let console = Console::of(&runtime).start().unwrap();
        let (go, until) = channel::<()>();
        let stuck = runtime.spawn(Stuck { until }).serve().unwrap();
        stuck.wait_there().send().unwrap();
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
    fn wait_there(&mut self) {
        let _ = self.until.recv();
    }
}
