//! Tests of the abnormal ends, stalls, dead letters and sampled figures that a console shows.

use postroom::inspect::{DeadLetter, Hook, Stall, Started, Waited};
use postroom::prelude::*;
use postroom_console::Console;
use postroom_tests::{eventually, soon, within};
use serde_json::Value;
use std::cell::Cell;
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A clerk that can fail, block and count.
#[process]
struct Clerk;

/// An error with a long text. Its `Display` can panic.
#[derive(Debug)]
struct Hostile {
    panics: bool,
}

impl fmt::Display for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(!self.panics, "no text");
        (0..10_000).try_for_each(|_| f.write_str("hostile "))
    }
}

impl std::error::Error for Hostile {}

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn fail(&mut self) {
        panic!("no more paper");
    }

    #[message]
    fn wait_for(&mut self, until: Receiver<()>) {
        let _ = until.recv();
    }

    #[message]
    fn count(&mut self, number: u64) -> u64 {
        number + 1
    }
}

fn ask(console: &Console, path: &str) -> Value {
    let (address, token) = (console.address(), console.url().split_once("?token=").expect("a token").1);
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it answers in HTTP");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}: {body}");
    if path == "/metrics" { Value::String(body.to_owned()) } else { serde_json::from_str(body).expect("it is JSON") }
}

/// Returns the nice value of each thread of this program that has this name, as truncated by the system.
#[cfg(target_os = "linux")]
fn niceness(name: &str) -> Vec<i64> {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux lists the threads of a program");
    // A thread that ends in the meantime no longer has a file.
    let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let named = stats.filter_map(|stat| {
        let (before, after) = stat.rsplit_once(')')?;
        let (_, its_name) = before.split_once('(')?;
        // The nice value is the 19th field, and the name is the second.
        (its_name == name).then(|| after.split_whitespace().nth(16)?.parse().ok()).flatten()
    });
    named.collect()
}

/// The server thread and the thread that inspects all processes do much work, so they lower their priority. The
/// consoles of other tests have threads with the same names; these have the same priority once they run.
#[cfg(target_os = "linux")]
#[test]
fn threads_with_much_to_do_give_way_to_those_of_the_program() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let own = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux tells of the calling thread");
        let own = own.rsplit_once(')').and_then(|(_, after)| after.split_whitespace().nth(16)).expect("it is nice");
        let own: i64 = own.parse().expect("a number");
        let console = Console::of(&runtime).start().unwrap();
        for name in ["postroom-consol", "postroom-rounds"] {
            eventually(|| {
                let niceness = niceness(name);
                !niceness.is_empty() && niceness.iter().all(|nice| *nice == (own + 10).min(19))
            });
        }
        drop(console);
    });
}

#[derive(Default)]
struct Counts {
    ends: AtomicUsize,
    dead_letters: AtomicUsize,
    stalls: Mutex<Vec<Pid>>,
}

struct CountsEnds(Arc<Counts>);

impl Hook for CountsEnds {
    fn complete(&self, _: &Started, _: &ExitReason) {
        self.0.ends.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn ends_are_listed_in_each_console_and_hooks_are_called_all_the_same() {
    soon(|| {
        let counts = Arc::new(Counts::default());
        let (lost, stalled) = (counts.clone(), counts.clone());
        let runtime = Runtime::builder()
            .workers(1)
            .stall_limit(Duration::from_millis(1))
            .hook(CountsEnds(counts.clone()))
            .on_dead_letter(move |_: DeadLetter| _ = lost.dead_letters.fetch_add(1, Ordering::SeqCst))
            .on_stall(move |stall: &Stall| stalled.stalls.lock().unwrap().push(stall.pid))
            .build()
            .unwrap();
        let early = runtime.spawn(Clerk).serve().unwrap();
        let _ = early.fail().wait();
        early.pid().join().wait();
        // The consoles do not know what happened before they started.
        let consoles = [(); 2].map(|()| Console::of(&runtime).start().unwrap());
        let clerk = runtime.spawn(Clerk).label("night shift").serve().unwrap();
        let other = runtime.spawn(Clerk).serve().unwrap();
        // Send a message that the process has no method for, behind a stall that keeps the other clerk from running.
        let (go, until): (Sender<()>, Receiver<()>) = channel();
        clerk.wait_for(until).send().unwrap();
        other.count(1).send().unwrap();
        runtime.send(clerk.pid(), "not handled".to_string()).unwrap();
        // On a busy machine, other processes may stall too.
        let told = || counts.stalls.lock().unwrap().iter().filter(|&&pid| pid == clerk.pid()).count();
        eventually(|| told() >= 1);
        drop(go);
        let _ = clerk.fail().wait();
        clerk.pid().join().wait();
        eventually(|| told() >= 2);
        for console in &consoles {
            let ends = ask(console, "/api/ends");
            assert_eq!(ends["ends"]["total"], 1, "{ends}");
            let end = &ends["ends"]["rows"][0];
            assert_eq!((&end["label"], &end["type"]), (&"night shift".into(), &"Clerk".into()));
            assert!(end["reason"].as_str().unwrap().contains("no more paper"), "{end}");
            assert!(end["place"].as_str().unwrap().contains("samples.rs"), "{end}");
            assert_eq!(end["method"], "fail");
            let letter = &ends["dead_letters"]["rows"][0];
            assert_eq!((&letter["message"], &letter["to"]), (&"alloc::string::String".into(), &end["pid"]));
            let stalls = ends["stalls"]["rows"].as_array().unwrap();
            let is_it = |stall: &&Value| stall["pid"] == end["pid"] && stall["is_over"] == true;
            let stall = stalls.iter().find(is_it).unwrap_or_else(|| panic!("{ends}"));
            assert!(stall["lasted"].as_f64().unwrap() > 0.001, "{stall}");
        }
        assert_eq!((counts.ends.load(Ordering::SeqCst), counts.dead_letters.load(Ordering::SeqCst)), (2, 1));
        let [one, other] = consoles;
        drop(one);
        let last = runtime.spawn(Clerk).serve().unwrap();
        last.pid().kill();
        last.pid().join().wait();
        let ends = ask(&other, "/api/ends?count=1")["ends"].clone();
        assert_eq!((&ends["total"], ends["rows"].as_array().unwrap().len()), (&2.into(), 1));
        assert_eq!(ends["rows"][0]["pid"], last.pid().to_string(), "the newest is first");
    });
}

#[process]
struct Asker {
    clerk: Address<Clerk>,
}

#[process]
impl Asker {
    #[entry]
    async fn ask(&mut self) {
        let _ = self.clerk.count(1).await;
    }
}

#[test]
fn a_call_that_is_lost_names_both_ends() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let (incidents, clerk) = (runtime.incidents(10), runtime.spawn(Clerk).serve().unwrap());
        let (go, until) = channel();
        clerk.wait_for(until).send().unwrap();
        let asker = runtime.spawn(Asker { clerk }).ask().unwrap();
        let caller = asker.pid();
        eventually(|| caller.info().is_some_and(|info| info.waits_for.is_some_and(|wait| wait.pid == clerk.pid())));
        clerk.pid().kill();
        drop(go);
        clerk.pid().join().wait();
        let lost = incidents.dead_letters();
        assert_eq!(lost.total, 1);
        let letter = &lost.kept[0];
        assert_eq!((letter.from, letter.to, letter.process), (Some(caller), clerk.pid(), Some("Clerk")));
    });
}

#[test]
fn a_hostile_reason_is_cut_or_named() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let incidents = runtime.incidents(2);
        for panics in [false, true, false] {
            let clerk = runtime.spawn(Clerk).serve().unwrap();
            clerk.pid().cancel(ExitReason::error(Hostile { panics }));
            clerk.pid().join().wait();
        }
        let ends = incidents.ends();
        assert_eq!((ends.total, ends.kept.len()), (3, 2));
        assert!(ends.kept.iter().all(|end| end.reason.len() < 1_100));
        assert!(ends.kept[1].reason.starts_with("error: hostile hostile"), "{}", ends.kept[1].reason);
    });
}

#[test]
fn a_wait_is_measured_where_messages_wait_and_nowhere_else() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let clerk = runtime.spawn(Clerk).serve().unwrap();
        assert_eq!(clerk.count(1).wait(), Ok(2));
        assert!(clerk.pid().measure_wait().is_none(), "its mailbox is empty");
        let (go, until) = channel();
        clerk.wait_for(until).send().unwrap();
        clerk.count(2).send().unwrap();
        let measurement = clerk.pid().measure_wait().expect("a message waits");
        let mut before = Duration::ZERO;
        for _ in 0..3 {
            let Waited::SoFar(waited) = measurement.look() else { panic!("nothing can have come") };
            assert!(waited >= before);
            before = waited;
        }
        drop(go);
        eventually(|| matches!(measurement.look(), Waited::For(waited) if waited >= before));
        // The measurement is not a message, so the process has not counted it.
        assert_eq!(clerk.count(3).wait(), Ok(4));
        runtime.until_idle().unwrap();
        assert_eq!(clerk.pid().info().unwrap().messages, 4);

        let (go, until) = channel();
        clerk.wait_for(until).send().unwrap();
        clerk.count(2).send().unwrap();
        let measurement = clerk.pid().measure_wait().expect("a message waits");
        clerk.pid().kill();
        drop(go);
        clerk.pid().join().wait();
        assert_eq!(measurement.look(), Waited::Gone);
        assert!(clerk.pid().measure_wait().is_none());
    });
}

#[test]
fn a_message_is_timed_when_someone_asks() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let clerk = runtime.spawn(Clerk).serve().unwrap();
        for number in 0..100 {
            assert_eq!(clerk.count(number).wait(), Ok(number + 1));
        }
        assert!(runtime.time_steps().is_empty(), "no one has asked");
        let timed = Mutex::new(Vec::new());
        eventually(|| {
            // More messages than fit in one time slice; each is handled once, in order.
            for number in 0..300 {
                clerk.count(number).send().unwrap();
            }
            assert_eq!(clerk.count(7).wait(), Ok(8));
            let mut timed = timed.lock().unwrap();
            timed.extend(runtime.time_steps());
            timed.len() >= 3
        });
        let timed = timed.into_inner().unwrap();
        assert!(timed.iter().all(|step| step.process == "Clerk" && step.message.to_lowercase().contains("count")));
        assert!(timed.iter().all(|step| step.took > Duration::ZERO));
    });
}

/// The thread of a pinned process is asked for times as well. The request stays pending while the process has no
/// message.
#[test]
fn a_message_of_a_pinned_process_is_timed() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let clerk = runtime.spawn_pinned(|| Clerk).serve().unwrap();
        assert_eq!(clerk.count(0).wait(), Ok(1));
        assert!(runtime.time_steps().is_empty(), "no one has asked");
        let sent = Cell::new(1);
        // More messages than fit in one time slice; each is handled once, in order.
        let send_many = || {
            (0..300).for_each(|number| clerk.count(number).send().unwrap());
            assert_eq!(clerk.count(7).wait(), Ok(8));
            sent.set(sent.get() + 301);
        };
        eventually(|| {
            send_many();
            let timed = runtime.time_steps();
            timed.iter().any(|step| step.process == "Clerk" && step.took > Duration::ZERO)
        });
        send_many();
        // A step counts its messages when it ends, which is after the answer.
        eventually(|| clerk.pid().info().unwrap().messages == sent.get());
    });
}

#[test]
fn shares_waits_and_times_are_those_of_the_program() {
    within(Duration::from_secs(60), || {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let console = Console::of(&runtime).start().unwrap();
        let (go, until) = channel();
        let busy = runtime.spawn(Clerk).label("busy").serve().unwrap();
        busy.wait_for(until).send().unwrap();
        for number in 0..5 {
            busy.count(number).send().unwrap();
        }
        let row = |sort: &str| ask(&console, &format!("/api/processes?filter=busy&sort={sort}"))["rows"][0].clone();
        eventually(|| row("wait")["wait"].as_f64().is_some_and(|wait| wait > 0.02));
        // The process has the worker, or the watchdog has taken it away. In both cases the process counts as using a
        // processor.
        eventually(|| row("cpu")["cpu"].as_f64().is_some_and(|cpu| cpu > 0.5));
        eventually(|| {
            let overview = ask(&console, "/api/overview");
            let mut threads = overview["threads"].as_array().unwrap().iter();
            let thread = threads.find(|thread| thread["runs"]["type"] == "Clerk").unwrap();
            thread["runs"]["for_seconds"].as_f64() > Some(0.02)
        });
        drop(go);
        eventually(|| {
            assert_eq!(busy.count(1).wait(), Ok(2));
            let types = ask(&console, "/api/types");
            let methods = types["rows"][0]["methods"].as_array().unwrap().clone();
            let counted = methods.iter().find(|row| row["method"] == "count");
            counted.is_some_and(|row| row["timed"].as_u64() > Some(0) && row["handling"]["p50"].as_f64() > Some(0.0))
                && types["rows"][0]["wait"]["p99"].as_f64() > Some(0.02)
        });
        let metrics = ask(&console, "/metrics");
        let metrics = metrics.as_str().unwrap();
        for family in ["postroom_mailbox_wait_seconds", "postroom_handling_seconds"] {
            assert!(metrics.contains(&format!("# TYPE {family} histogram")), "{metrics}");
            let count = metrics.lines().find(|line| line.starts_with(&format!("{family}_count{{"))).expect(family);
            assert!(count.contains("type=\"Clerk\""), "{count}");
        }
    });
}
