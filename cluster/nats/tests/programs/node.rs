//! The program that the tests run as nodes: the test program itself, which becomes a node if its environment says so.
//!
//! It reads commands from its input, one per line, and writes a line that begins with `= ` for each answer, and one
//! that begins with `! ` for each event. It ends when its input ends, and therefore with the test.

use super::GUARD;
use postroom::error::SendFailure;
use postroom::prelude::*;
use postroom::{Address, Runtime};
use postroom_cluster::Cluster;
use postroom_nats::Nats;
use std::io::{BufRead, Write};
use std::thread;
use std::time::{Duration, Instant};

/// The variable for the server's address. A program in whose environment this and [`NAME`] are set is a node.
pub(crate) const URL: &str = "POSTROOM_TEST_NODE_URL";
/// The variable for the node's name.
pub(crate) const NAME: &str = "POSTROOM_TEST_NODE_NAME";
/// The test that acts as the node in such a program.
pub(crate) const TEST: &str = "node::a_program_joins_and_leaves";

/// The time for which a program must have been stopped to count as paused beyond its lease.
const PAUSE: Duration = Duration::from_secs(10);
/// Number of messages that a source sends at a time.
const BATCH: u64 = 20;
/// The pause of a source after these messages.
const REST: Duration = Duration::from_millis(1);

/// A run of numbers without gaps: the first and the last.
type Run = (u64, u64);

fn add(runs: &mut Vec<Run>, number: u64) {
    match runs.last_mut() {
        Some((_, last)) if *last + 1 == number => *last = number,
        _ => runs.push((number, number)),
    }
}

/// A process that other nodes start here, send to and call.
#[process]
#[derive(Default)]
pub(crate) struct Account {
    taken: Vec<Run>,
    notes: Vec<String>,
    unanswered: Vec<Reply<u64>>,
}

#[process(remote)]
impl Account {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, number: u64) {
        add(&mut self.taken, number);
    }

    #[message]
    fn taken(&mut self) -> Vec<Run> {
        self.taken.clone()
    }

    #[message]
    fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    #[message]
    fn notes(&mut self) -> Vec<String> {
        self.notes.clone()
    }

    #[message]
    fn echo(&mut self, number: u64) -> u64 {
        number
    }

    /// Never answers.
    #[message]
    fn keep(&mut self, reply: Reply<u64>) {
        self.unanswered.push(reply);
    }
}

/// A process that prints each end of another process of which it is notified.
#[process]
struct Observer;

#[process]
impl Observer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn watch(&mut self, pid: Pid) {
        pid.monitor().unwrap();
    }

    #[message]
    fn tie(&mut self, pid: Pid) {
        pid.link().unwrap();
    }

    #[signal]
    fn down(&mut self, down: Down) {
        say(&format!("! down {} {}", down.pid, down.reason));
    }

    #[signal]
    fn exit(&mut self, exit: Exit) {
        say(&format!("! exit {} {}", exit.pid, exit.reason));
    }
}

/// A process that endlessly sends numbers to an account, each once, and records the accepted ones.
#[process]
struct Source {
    to: Address<Account>,
    next: u64,
    accepted: Vec<Run>,
    is_halted: bool,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>) {
        ctx.address().flood().send().unwrap();
    }

    #[message]
    fn flood(&mut self, ctx: &mut Context<Self>) {
        for _ in 0..BATCH {
            if self.is_halted {
                return;
            }
            match self.to.take(self.next).send() {
                Ok(()) => add(&mut self.accepted, self.next),
                // The number is tried again later.
                Err(refused) if matches!(refused.reason, SendFailure::Full(_)) => break,
                // The number is not used again, so it must not arrive.
                Err(_) => {}
            }
            self.next += 1;
        }
        ctx.address().flood().send_after(REST).unwrap();
    }

    #[message]
    fn halt(&mut self) -> Vec<Run> {
        self.is_halted = true;
        self.accepted.clone()
    }
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    // The test harness may have begun a line.
    writeln!(output, "\n{line}").and_then(|()| output.flush()).expect("the test reads it");
}

fn text<T: std::fmt::Debug, E: std::fmt::Display>(result: Result<T, E>) -> String {
    result.map_or_else(|error| format!("error: {error}"), |value| format!("{value:?}"))
}

/// In a program of its own, this is the node that the tests command. Otherwise it checks the basics that they rely
/// on.
#[test]
fn a_program_joins_and_leaves() {
    if let (Ok(url), Ok(name)) = (std::env::var(URL), std::env::var(NAME)) {
        return run(&url, &name);
    }
    let Some(scene) = super::Scene::start() else { return };
    let node = scene.program("eu-1");
    assert_eq!(node.ask("is_member"), "true");
    assert_eq!(node.ask("leave"), "left");
    assert!(node.ends(), "its program ends with success");
}

fn run(url: &str, name: &str) {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let builder = Cluster::builder("bank").node(name).export::<Account>().join_within(GUARD);
    let cluster = builder.join(&runtime, Nats::at(url)).unwrap();
    let observer = runtime.spawn(Observer).serve().unwrap();
    let mut sources = Vec::new();
    say(&format!("= {}", cluster.id()));
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let answer = match words[..] {
            ["members", count] => cluster.wait_for_members(count.parse().unwrap(), GUARD).to_string(),
            ["is_member"] => cluster.is_member().to_string(),
            ["knows", node] => cluster.members().iter().any(|member| member.id.to_string() == node).to_string(),
            ["start", node] => {
                let started = cluster.node(node).map(|node| node.start::<Account>("serve", payloads![]).wait());
                started.unwrap().unwrap().pid().to_string()
            }
            ["spawn"] => runtime.spawn(Account::default()).serve().unwrap().pid().to_string(),
            ["watch", pid] => text(observer.watch(pid.parse().unwrap()).wait()),
            ["tie", pid] => text(observer.tie(pid.parse().unwrap()).wait()),
            ["keep", pid] => {
                let account = Address::<Account>::assume(pid.parse().unwrap());
                let pid = pid.to_owned();
                thread::spawn(move || {
                    let answer = account.keep().timeout(Duration::MAX).wait();
                    say(&format!("! kept {pid} {}", answer.expect_err("there is no answer")));
                });
                String::new()
            }
            ["echo", pid] => text(Address::<Account>::assume(pid.parse().unwrap()).echo(7).wait()),
            ["take", pid, first, last] => {
                let account = Address::<Account>::assume(pid.parse().unwrap());
                let numbers: std::ops::RangeInclusive<u64> = first.parse().unwrap()..=last.parse().unwrap();
                numbers.take_while(|number| account.take(*number).send().is_ok()).count().to_string()
            }
            ["taken", pid] => text(Address::<Account>::assume(pid.parse().unwrap()).taken().wait()),
            ["notes", pid] => text(Address::<Account>::assume(pid.parse().unwrap()).notes().wait()),
            ["flood", pid] => {
                let to = Address::assume(pid.parse().unwrap());
                let source = Source { to, next: 0, accepted: Vec::new(), is_halted: false };
                sources.push(runtime.spawn(source).serve().unwrap());
                (sources.len() - 1).to_string()
            }
            ["halt", source] => text(sources[source.parse::<usize>().unwrap()].halt().wait()),
            // Sends as soon as the program continues after a pause, before any other part of it can notice the pause.
            ["ambush", pid, mark] => {
                let account = Address::<Account>::assume(pid.parse().unwrap());
                let mark = mark.to_owned();
                // Read here, since the program may be paused before the thread has started.
                let mut last = Instant::now();
                thread::spawn(move || {
                    loop {
                        // Read once for both uses: a pause between two readings would be missed.
                        let now = Instant::now();
                        if now - last >= PAUSE {
                            break;
                        }
                        last = now;
                        // Does not sleep, so that it is the first thread to run.
                        thread::yield_now();
                    }
                    let sent = account.note(mark.clone()).send();
                    say(&format!("! ambush {mark} {}", sent.is_ok()));
                });
                String::new()
            }
            ["register", name, pid] => {
                let registered = cluster.register(name, pid.parse::<Pid>().unwrap()).wait();
                registered.map_or_else(|error| format!("error: {error}"), |token| token.to_string())
            }
            ["release", name, pid] => cluster.release(name, pid.parse::<Pid>().unwrap()).wait().to_string(),
            ["holder", name] => cluster.holder(name).map_or("none".into(), |(pid, token)| format!("{pid} {token}")),
            ["lives", pid] => pid.parse::<Pid>().unwrap().is_alive().to_string(),
            ["statistics"] => format!("{:?}", cluster.statistics()),
            ["leave"] => {
                cluster.leave().wait();
                say("= left");
                return;
            }
            _ => panic!("no such command: {line}"),
        };
        say(&format!("= {answer}"));
    }
}
