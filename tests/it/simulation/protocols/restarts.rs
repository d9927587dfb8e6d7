//! Supervisors whose children crash, and upgrades of processes that owe an answer.

use postroom::prelude::*;
use postroom::supervision::{Backoff, Supervisor};
use postroom::test::{Sim, Simulation, sometimes};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Log = Arc<Mutex<Vec<String>>>;

#[process]
struct Worker {
    name: &'static str,
    log: Log,
    done: u32,
}

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {
        self.log.lock().expect("one thread").push(format!("{} starts", self.name));
    }
    #[message]
    fn work(&mut self) -> u32 {
        self.done += 1;
        self.done
    }
    #[message]
    fn fail(&mut self) {
        panic!("it had to");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.log.lock().expect("one thread").push(format!("{} ends", self.name));
    }
}

const NAMES: [&str; 3] = ["one", "two", "three"];

fn tree(sim: &Sim, supervisor: Supervisor, log: &Log) -> postroom::supervision::Tree {
    let mut supervisor = supervisor.intensity(u32::MAX, Duration::MAX).backoff(Backoff::none());
    for name in NAMES {
        let log = log.clone();
        supervisor = supervisor.child(name, move |spawn| spawn.of(Worker { name, log: log.clone(), done: 0 }).serve());
    }
    supervisor.spawn(sim.host()).expect("the children start")
}

/// Catches: children that are not restarted, or are restarted twice or in the wrong order.
fn restarts(supervisor: fn() -> Supervisor, expected: [&'static [&'static str]; 3]) -> impl Fn(Sim) {
    move |sim: Sim| {
        let log = Log::default();
        let tree = tree(&sim, supervisor(), &log);
        log.lock().expect("one thread").clear();
        let failed = sim.random() as usize % NAMES.len();
        let child = |name| tree.child::<Worker>(name).expect("it is a child");
        child(NAMES[failed]).fail().send().expect("it has an address");
        let answers = NAMES.map(|name| child(name).work().wait_for_restart().wait());
        sometimes!(answers.iter().any(Result::is_err), "a call is lost with its process");
        sim.until_idle().expect("the test is no process");
        let told = log.lock().expect("one thread").clone();
        let starts: Vec<_> = told.iter().filter_map(|line| line.strip_suffix(" starts")).collect();
        assert_eq!(starts, expected[failed], "{} fails: {told:?}", NAMES[failed]);
        // The other children to be replaced end in reverse order, each once.
        let ends: Vec<_> = told.iter().filter_map(|line| line.strip_suffix(" ends")).collect();
        let mut others: Vec<_> = ends.iter().filter(|name| **name != NAMES[failed]).copied().collect();
        others.reverse();
        let replaced: Vec<_> = expected[failed].iter().filter(|name| **name != NAMES[failed]).copied().collect();
        assert_eq!(others, replaced, "{} fails: {told:?}", NAMES[failed]);
        for name in NAMES {
            child(name).work().wait().expect("it runs again");
        }
        log.lock().expect("one thread").clear();
        tree.stop();
        sim.until_idle().expect("the test is no process");
        assert_eq!(*log.lock().expect("one thread"), ["three ends", "two ends", "one ends"]);
    }
}

fn test(name: &str, supervisor: fn() -> Supervisor, expected: [&'static [&'static str]; 3]) {
    Simulation::new(format!("simulation::protocols::restarts::{name}")).seeds(60).run(restarts(supervisor, expected));
}

#[test]
fn one_for_one() {
    test("one_for_one", Supervisor::one_for_one, [&["one"], &["two"], &["three"]]);
}

#[test]
fn one_for_all() {
    test("one_for_all", Supervisor::one_for_all, [&NAMES, &NAMES, &NAMES]);
}

#[test]
fn rest_for_one() {
    test("rest_for_one", Supervisor::rest_for_one, [&NAMES, &["two", "three"], &["three"]]);
}

/// A process that owes an answer while it is upgraded.
#[process]
struct Old {
    waiting: Vec<Reply<u32>>,
}

#[process]
impl Old {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn ask(&mut self, reply: Reply<u32>) {
        self.waiting.push(reply);
    }
    #[message]
    fn publish(&mut self) {
        self.waiting.drain(..).for_each(|reply| reply.send(1));
    }
}

#[process]
struct New {
    waiting: Vec<Reply<u32>>,
}

#[process]
impl New {
    #[entry]
    fn serve(&mut self) {}
    #[message(OldAsk)]
    fn ask(&mut self, _ask: OldAsk, reply: Reply<u32>) {
        self.waiting.push(reply);
    }
    #[message(OldPublish)]
    fn publish(&mut self, _publish: OldPublish) {
        self.waiting.drain(..).for_each(|reply| reply.send(2));
    }
}

#[process]
struct Asker {
    old: Address<Old>,
}

#[process]
impl Asker {
    #[entry]
    async fn ask(&mut self) -> Result<u32, CallError> {
        self.old.ask().await
    }
    #[entry]
    async fn publish(&mut self) -> Result<(), CallError> {
        self.old.publish().await
    }
}

#[process]
struct Upgrader {
    old: Address<Old>,
}

#[process]
impl Upgrader {
    #[entry]
    async fn upgrade(&mut self) -> bool {
        self.old.pid().upgrade(|old: Old| New { waiting: old.waiting }).await.is_ok()
    }
}

#[test]
fn an_upgrade_keeps_what_is_owed() {
    let test = Simulation::new("simulation::protocols::restarts::an_upgrade_keeps_what_is_owed");
    test.seeds(60).run(|sim| {
        let old = sim.spawn(Old { waiting: Vec::new() }).serve().expect("it starts");
        let asks = [(); 2].map(|()| sim.spawn(Asker { old }).ask().expect("it starts"));
        let upgrades = sim.spawn(Upgrader { old }).upgrade().expect("it starts");
        let publishes = sim.spawn(Asker { old }).publish().expect("it starts");
        publishes.wait().expect("it lives");
        assert!(upgrades.wait().expect("it ends"), "it is upgraded once");
        sim.until_idle().expect("the test is no process");
        old.publish().wait().expect("it lives");
        let answers = asks.map(|ask| ask.wait().expect("it is answered"));
        sometimes!(answers.contains(&1), "by the old definition");
        sometimes!(answers.contains(&2), "by the new one");
    });
}
