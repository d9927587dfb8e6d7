//! Links, monitors, names, groups and calls among processes that end in every way.

use postroom::error::NameError;
use postroom::prelude::*;
use postroom::test::{Sim, Simulation, sometimes};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

const PEERS: usize = 4;
const DEEDS: usize = 24;
/// Number of kinds of deeds; the last two end the process.
const KINDS: u64 = 17;
const GROUP: &str = "peers";

/// A record of the events of a run.
#[derive(Default)]
struct Books {
    notes_sent: u64,
    notes_handled: u64,
    calls: u64,
    answers: u64,
    failures: u64,
    /// Number of times that each monitor of each process fired.
    downs: HashMap<(Pid, Monitor), u32>,
    demonitored: HashSet<(Pid, Monitor)>,
    /// The owner and the watched process of each monitor. The monitor must fire if the watched process ends.
    monitors: Vec<(Pid, Pid, Monitor)>,
    /// The process that most recently got each name.
    holders: BTreeMap<&'static str, Pid>,
    contradictions: Vec<String>,
}

type Shared = Arc<Mutex<Books>>;

#[process]
struct Peer {
    books: Shared,
    monitors: Vec<Monitor>,
    waiting: Vec<Reply<u32>>,
}

impl Peer {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("one thread")
    }
}

#[process]
impl Peer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn act(&mut self, ctx: &mut Context<Self>, deed: u64, others: Vec<Address<Peer>>) {
        let other = others[(deed / KINDS) as usize % others.len()];
        match deed % KINDS {
            0 | 1 => _ = other.pid().link(),
            2 => _ = other.pid().unlink(),
            3 => {
                // Links at once, and again while the answer to the first link is under way.
                _ = other.pid().link();
                _ = other.pid().unlink();
                _ = other.pid().link();
            }
            4 | 5 => {
                if let Ok(monitor) = other.pid().monitor() {
                    self.monitors.push(monitor);
                    self.books().monitors.push((ctx.pid(), other.pid(), monitor));
                }
            }
            6 => {
                if let Some(monitor) = self.monitors.pop()
                    && monitor.demonitor()
                {
                    self.books().demonitored.insert((ctx.pid(), monitor));
                }
            }
            7 => self.take_name(ctx, ["a", "b"][(deed / KINDS) as usize % 2]),
            8 => _ = ctx.group(GROUP).join(ctx.pid()),
            9 => _ = ctx.group(GROUP).leave(ctx.pid()),
            10 | 11 => self.call(ctx, other),
            12 => self.waiting.drain(..).for_each(|reply| reply.send(1)),
            13 => drop(std::mem::take(&mut self.waiting)),
            14 => {
                _ = other.pid().unlink();
                _ = other.pid().link();
                _ = other.pid().unlink();
            }
            15 => ctx.stop(),
            _ => panic!("it had to"),
        }
        if other.note().send().is_ok() {
            self.books().notes_sent += 1;
        }
    }

    #[message]
    fn note(&mut self) {
        self.books().notes_handled += 1;
    }

    /// Answers on request, or never.
    #[message]
    fn ask(&mut self, reply: Reply<u32>) {
        self.waiting.push(reply);
    }

    #[signal]
    fn on_down(&mut self, ctx: &mut Context<Self>, down: Down) {
        *self.books().downs.entry((ctx.pid(), down.monitor)).or_insert(0) += 1;
        for name in ["a", "b"] {
            self.take_name(ctx, name);
        }
        if ctx.group(GROUP).members().contains(&down.pid) {
            self.books().contradictions.push("one that has ended is in the group".to_string());
        }
    }
}

impl Peer {
    fn take_name(&mut self, ctx: &mut Context<Self>, name: &'static str) {
        let taken = ctx.register_name(name);
        let mut books = self.books();
        match taken {
            Ok(()) => {
                let before = books.holders.insert(name, ctx.pid());
                if before.is_some_and(|before| before != ctx.pid() && before.is_alive()) {
                    books.contradictions.push(format!("{name} is taken from one that lives"));
                }
            }
            Err(NameError::Taken { holder, .. }) if !holder.is_alive() => {
                books.contradictions.push(format!("{name} is held by one that has ended"));
            }
            Err(_) => {}
        }
    }

    fn call(&mut self, ctx: &mut Context<Self>, other: Address<Self>) {
        self.books().calls += 1;
        let books = self.books.clone();
        ctx.call(other.ask()).then(move |_, answer, _| {
            let mut books = books.lock().expect("one thread");
            books.answers += u64::from(answer.is_ok());
            books.failures += u64::from(answer.is_err());
        });
    }
}

/// A process that tracks the members of the group.
#[process]
struct Doorman {
    inside: BTreeSet<Pid>,
}

#[process]
impl Doorman {
    #[entry]
    fn watch(&mut self, ctx: &mut Context<Self>) {
        self.inside.extend(&*ctx.group(GROUP).subscribe(ctx.address()).expect("it lives"));
    }
    #[message(GroupEvent)]
    fn changed(&mut self, event: GroupEvent) {
        let is_news = match event {
            GroupEvent::Joined { pid, .. } => self.inside.insert(pid),
            GroupEvent::Left { pid, .. } => self.inside.remove(&pid),
            _ => true,
        };
        assert!(is_news, "a change is told once");
    }
    #[message]
    fn inside(&mut self) -> Vec<Pid> {
        self.inside.iter().copied().collect()
    }
}

fn society(sim: &Sim) {
    let books = Shared::default();
    let peer = || Peer { books: books.clone(), monitors: Vec::new(), waiting: Vec::new() };
    let peers: Vec<_> = (0..PEERS).map(|_| sim.spawn(peer()).serve().expect("it starts")).collect();
    let doorman = sim.spawn(Doorman { inside: BTreeSet::new() }).watch().expect("it starts");
    let brief = sim.spawn(Doorman { inside: BTreeSet::new() }).watch().expect("it starts");
    for number in 0..DEEDS {
        if number == DEEDS / 2 {
            brief.pid().kill();
        }
        let (who, deed) = (sim.random() as usize % PEERS, sim.random());
        let _it_has_ended = peers[who].act(deed, peers.clone()).send();
        if sim.random().is_multiple_of(3) {
            sim.until_idle().expect("the test is no process");
        }
    }
    sim.until_idle().expect("the test is no process");
    let mut inside = sim.group(GROUP).members().to_vec();
    inside.sort_unstable();
    assert_eq!(doorman.inside().wait().expect("it lives"), inside, "the group, and what is known of it");
    for name in ["a", "b"] {
        assert!(sim.whereis(name).is_none_or(|holder| holder.is_alive()), "{name}");
    }
    // Let the deadlines of calls pass.
    sim.advance(std::time::Duration::from_secs(60));
    let dead = sim.statistics().dead_letters;
    let books = std::mem::take(&mut *books.lock().expect("one thread"));
    assert!(books.contradictions.is_empty(), "{:?}", books.contradictions);
    assert!(books.notes_handled <= books.notes_sent, "a message is handled twice");
    let missing = books.notes_sent - books.notes_handled;
    assert!(missing <= dead.total(), "{missing} messages are neither handled nor dead letters: {dead:?}");
    for (by, of, monitor) in books.monitors.iter().filter(|(by, ..)| by.is_alive()) {
        let told = books.downs.get(&(*by, *monitor)).copied().unwrap_or(0);
        let is_wanted = !of.is_alive() && !books.demonitored.contains(&(*by, *monitor));
        assert!(told == u32::from(is_wanted), "{by} monitors {of}, and was told {told} times");
    }
    let all_live = peers.iter().all(|peer| peer.pid().is_alive());
    assert!(!all_live || books.calls == books.answers + books.failures, "a call has no end, or two");
    sometimes!(!all_live, "some end");
    sometimes!(books.answers > 0, "a call is answered");
    sometimes!(books.failures > 0, "a call fails");
    sometimes!(!books.downs.is_empty(), "a monitor is told");
    sometimes!(!inside.is_empty(), "one is in the group in the end");
}

#[test]
fn peers_that_link_monitor_name_join_and_call() {
    let test = Simulation::new("simulation::protocols::society::peers_that_link_monitor_name_join_and_call");
    test.seeds(200).run(|sim| society(&sim));
}

/// Like the test above, but some peers crash between two messages.
#[test]
fn peers_that_crash() {
    Simulation::new("simulation::protocols::society::peers_that_crash").seeds(100).run(|sim| {
        sim.crash::<Peer>(0.02);
        society(&sim);
    });
}

/// All joins of a process return the same reason, however it ends.
#[test]
fn ends_are_told() {
    Simulation::new("simulation::protocols::society::ends_are_told").seeds(60).run(|sim| {
        let peer = || Peer { books: Shared::default(), monitors: Vec::new(), waiting: Vec::new() };
        let peers = [(); 3].map(|()| sim.spawn(peer()).serve().expect("it starts"));
        let ends = peers.map(|peer| {
            let joins = [peer.pid().join(), peer.pid().join()];
            match sim.random() % 4 {
                0 => _ = peer.pid().kill(),
                1 => _ = peer.pid().stop(),
                kind => peer.act(13 + kind, vec![peer]).send().expect("it lives"),
            }
            joins
        });
        for [one, other] in ends {
            assert_eq!(one.wait(), other.wait());
        }
    });
}
