//! The real runtime: simulated processes that carry out the operations.

use super::ops::{ActorView, Answer, CHILDREN, End, GROUPS, INTENSITY, NAMES, Op, SENDERS, View};
use crate::simulation::racers::race;
use postroom::future::Ended;
use postroom::prelude::*;
use postroom::supervision::{Backoff, Child, ChildState, Supervisor, Tree};
use postroom::test::Sim;
use postroom::{Group, Host, Monitor};
use postroom_tests::face::{Gate, Log};
use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

/// A note. Each pair of a sender and a kind is a type, so that notes can be told apart in the mailbox.
struct Note<const SENDER: usize, const KIND: usize>;

/// A process that performs the actions that it receives.
#[process]
#[derive(Default)]
struct Subject {
    handled: Log<(usize, usize)>,
    heard: Log<(bool, Pid, ExitReason)>,
    open: Vec<Monitor>,
}

#[process]
impl Subject {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>) {
        ctx.trap_exits(false);
    }

    #[message(Note<0, 0>)]
    fn first(&mut self, _note: Note<0, 0>) {
        self.handled.add((0, 0));
    }

    #[message(Note<0, 1>)]
    fn second(&mut self, _note: Note<0, 1>) {
        self.handled.add((0, 1));
    }

    #[message(Note<1, 0>)]
    fn third(&mut self, _note: Note<1, 0>) {
        self.handled.add((1, 0));
    }

    #[message(Note<1, 1>)]
    fn fourth(&mut self, _note: Note<1, 1>) {
        self.handled.add((1, 1));
    }

    #[message]
    async fn hold(&mut self, gate: Gate) {
        gate.passed().await;
    }

    #[message]
    fn fail(&mut self) {
        panic!("failed as it was told");
    }

    #[message]
    fn finish(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }

    #[message]
    fn trap(&mut self, ctx: &mut Context<Self>, traps: bool) {
        ctx.trap_exits(traps);
    }

    #[message]
    fn link(&mut self, other: Pid) {
        other.link().expect("another process");
    }

    #[message]
    fn unlink(&mut self, other: Pid) {
        other.unlink().expect("another process");
    }

    #[message]
    fn monitor(&mut self, other: Pid) {
        self.open.push(other.monitor().expect("another process"));
    }

    #[message]
    fn demonitor(&mut self, which: usize) {
        if !self.open.is_empty() {
            let monitor = self.open.remove(which % self.open.len());
            assert!(monitor.demonitor(), "it was neither told nor taken back");
        }
    }

    #[signal]
    fn down(&mut self, down: Down) {
        // If the monitor is unknown, its notice still shows in `heard`.
        self.open.retain(|monitor| *monitor != down.monitor);
        self.heard.add((false, down.pid, down.reason));
    }

    #[signal]
    fn exit(&mut self, exit: Exit) {
        self.heard.add((true, exit.pid, exit.reason));
    }
}

/// A child of the tree.
#[process]
struct Kid;

#[process]
impl Kid {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn fail(&mut self) {
        panic!("failed as it was told");
    }

    #[message]
    fn finish(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

struct Actor {
    address: Address<Subject>,
    handled: Log<(usize, usize)>,
    heard: Log<(bool, Pid, ExitReason)>,
    /// The gates at which the process is held, or will be.
    gates: VecDeque<Gate>,
    end: Option<ExitReason>,
    ended: Option<Ended>,
}

pub(super) struct Real<'a> {
    sim: &'a Sim,
    actors: Vec<Actor>,
    tree: Tree,
    over: Option<Ended>,
}

type Doing = Box<dyn FnOnce(Host) -> std::pin::Pin<Box<dyn Future<Output = Answer> + Send>> + Send>;

fn name(of: usize) -> String {
    format!("name{of}")
}

fn group(host: Host, of: usize) -> Group {
    host.group(format!("group{of}"))
}

fn kid(of: usize) -> String {
    format!("kid{of}")
}

impl<'a> Real<'a> {
    pub(super) fn new(sim: &'a Sim, actors: usize, strategy: usize) -> Self {
        let supervisor = match strategy {
            0 => Supervisor::one_for_one(),
            1 => Supervisor::one_for_all(),
            _ => Supervisor::rest_for_one(),
        };
        let supervisor = supervisor.intensity(INTENSITY as u32, Duration::MAX).backoff(Backoff::none());
        let child = |of| Child::new(kid(of), move |spawn| spawn.of(Kid).named(kid(of)).serve());
        let tree = supervisor.add(child(0)).add(child(1).transient()).add(child(2).temporary());
        let tree = tree.spawn(sim.host()).expect("it starts");
        let over = Some(tree.join());
        let mut real = Self { sim, actors: Vec::new(), tree, over };
        (0..actors).for_each(|_| real.spawn());
        real
    }

    fn spawn(&mut self) {
        let (handled, heard) = (Log::new(), Log::new());
        let subject = Subject { handled: handled.clone(), heard: heard.clone(), open: Vec::new() };
        let address = self.sim.spawn(subject).serve().expect("it starts");
        let ended = Some(address.pid().join());
        self.actors.push(Actor { address, handled, heard, gates: VecDeque::new(), end: None, ended });
    }

    /// Carries out all of `ops` concurrently. When all is idle, returns the answer to each operation.
    pub(super) fn act(&mut self, ops: &[&Op]) -> Vec<Answer> {
        if let [Op::Spawn] = ops {
            self.spawn();
            self.sim.until_idle().expect("outside");
            return vec![Answer::Yes];
        }
        let doings: Vec<Doing> = ops.iter().map(|op| self.doing(op)).collect();
        let racers: Vec<_> = doings.into_iter().map(|doing| race(self.sim, doing(self.sim.host()))).collect();
        self.sim.until_idle().expect("outside");
        racers.into_iter().map(|racer| racer.wait().expect("it waits for nothing")).collect()
    }

    fn doing(&mut self, op: &Op) -> Doing {
        fn boxed(
            acts: impl Future<Output = Answer> + Send + 'static,
        ) -> std::pin::Pin<Box<dyn Future<Output = Answer> + Send>> {
            Box::pin(acts)
        }
        /// Returns an operation that has no answer of its own.
        fn done(act: impl FnOnce(Host) + Send + 'static) -> Doing {
            Box::new(|host| {
                boxed(async move {
                    act(host);
                    Answer::Yes
                })
            })
        }
        fn asked(act: impl FnOnce(Host) -> Answer + Send + 'static) -> Doing {
            Box::new(|host| boxed(async move { act(host) }))
        }
        let address = |of: usize| self.actors[of].address;
        let pid = |of: usize| address(of).pid();
        let yes_or_no = |yes| if yes { Answer::Yes } else { Answer::No };
        match *op {
            Op::Hold(of) => {
                let (gate, of_gate, held) = (Gate::new(), of, address(of));
                self.actors[of_gate].gates.push_back(gate.clone());
                done(move |_| drop(held.hold(gate).send()))
            }
            Op::Release(of) => {
                let gate = self.actors[of].gates.pop_front();
                done(move |_| gate.iter().for_each(Gate::open))
            }
            Op::Send { to, sender, kind } => {
                let to = pid(to);
                asked(move |host| {
                    let sent = match (sender, kind) {
                        (0, 0) => host.send(to, Note::<0, 0>).is_ok(),
                        (0, _) => host.send(to, Note::<0, 1>).is_ok(),
                        (_, 0) => host.send(to, Note::<1, 0>).is_ok(),
                        (_, _) => host.send(to, Note::<1, 1>).is_ok(),
                    };
                    if sent { Answer::Yes } else { Answer::Refused }
                })
            }
            Op::Fail(of) => {
                let of = address(of);
                done(move |_| drop(of.fail().send()))
            }
            Op::Finish(of) => {
                let of = address(of);
                done(move |_| drop(of.finish().send()))
            }
            Op::Kill(of) => {
                let of = pid(of);
                done(move |_| _ = of.kill())
            }
            Op::Cancel(of) => {
                let of = pid(of);
                done(move |_| _ = of.cancel("as it was told"))
            }
            Op::Stop(of) => {
                let of = pid(of);
                done(move |_| _ = of.stop())
            }
            Op::Trap(of, traps) => {
                let of = address(of);
                done(move |_| drop(of.trap(traps).send()))
            }
            Op::Link(from, to) => {
                let (from, to) = (address(from), pid(to));
                done(move |_| drop(from.link(to).send()))
            }
            Op::Unlink(from, to) => {
                let (from, to) = (address(from), pid(to));
                done(move |_| drop(from.unlink(to).send()))
            }
            Op::Monitor(from, to) => {
                let (from, to) = (address(from), pid(to));
                done(move |_| drop(from.monitor(to).send()))
            }
            Op::Demonitor(of, which) => {
                let of = address(of);
                done(move |_| drop(of.demonitor(which).send()))
            }
            Op::Name(of, whom) => {
                let whom = pid(whom);
                asked(move |host| match host.register_name(name(of), whom) {
                    Ok(()) => Answer::Yes,
                    Err(_) => Answer::Refused,
                })
            }
            Op::Unname(of) => asked(move |host| yes_or_no(host.unregister_name(&name(of)).is_some())),
            Op::Join(of, whom) => {
                let whom = pid(whom);
                asked(move |host| group(host, of).join(whom).map_or(Answer::Refused, yes_or_no))
            }
            Op::Leave(of, whom) => {
                let whom = pid(whom);
                asked(move |host| yes_or_no(group(host, of).leave(whom)))
            }
            Op::FailChild(of) => {
                let child = self.tree.child::<Kid>(&kid(of));
                done(move |_| child.into_iter().for_each(|child| drop(child.fail().send())))
            }
            Op::FinishChild(of) => {
                let child = self.tree.child::<Kid>(&kid(of));
                done(move |_| child.into_iter().for_each(|child| drop(child.finish().send())))
            }
            Op::KillChild(of) => {
                let child = self.tree.child_pid(&kid(of));
                done(move |_| child.into_iter().for_each(|child| _ = child.kill()))
            }
            Op::StopChild(of) => {
                let tree = self.tree.clone();
                done(move |_| drop(tree.stop_child(&kid(of))))
            }
            Op::RestartChild(of) => {
                let tree = self.tree.clone();
                done(move |_| drop(tree.restart_child(&kid(of))))
            }
            Op::Spawn | Op::Both(..) => unreachable!("done elsewhere"),
        }
    }

    fn place(&self, pid: Pid) -> usize {
        self.actors.iter().position(|actor| actor.address.pid() == pid).unwrap_or(usize::MAX)
    }

    fn end(&self, reason: &ExitReason) -> End {
        match reason {
            ExitReason::Normal => End::Normal,
            ExitReason::Killed => End::Killed,
            ExitReason::Cancelled(_) => End::Cancelled,
            ExitReason::Panic(_) => End::Failed,
            ExitReason::NoProcess => End::Gone,
            ExitReason::Linked { pid, reason } => End::Fell(self.place(*pid), Box::new(self.end(reason))),
            other => panic!("{other}"),
        }
    }

    /// Returns the state that can be observed, now that all is idle. `is_held` returns whether a process is held in the
    /// model.
    pub(super) fn view(&mut self, is_held: impl Fn(usize) -> bool) -> View {
        for actor in &mut self.actors {
            if !actor.address.pid().is_alive()
                && let Some(ended) = actor.ended.take()
            {
                actor.end = Some(ended.wait());
            }
        }
        let gave_up = !self.tree.pid().is_alive();
        if gave_up && let Some(over) = self.over.take() {
            let reason = over.wait();
            assert!(matches!(reason, ExitReason::Error(_)), "{reason}");
        }
        let children = self.tree.children();
        let child = |of: usize| {
            let runs = children[of].state == ChildState::Running;
            assert_eq!(self.sim.whereis(&kid(of)).is_some(), runs, "the name of {}", kid(of));
            (runs, children[of].restarts)
        };
        let members = |of| {
            let mut members: Vec<_> = group(self.sim.host(), of).members().iter().map(|pid| self.place(*pid)).collect();
            members.sort_unstable();
            members
        };
        let holder = |of| self.sim.whereis(&name(of)).map(|pid| (of, self.place(pid)));
        let statistics = self.sim.statistics();
        let directory = statistics.directory;
        View {
            dead_letters: statistics.dead_letters.total(),
            actors: (0..self.actors.len()).map(|of| self.actor(of, is_held(of))).collect(),
            names: (0..NAMES).filter_map(holder).collect(),
            groups: (0..GROUPS).map(members).collect(),
            registrations: (directory.names, directory.members),
            children: (0..CHILDREN).map(child).collect(),
            gave_up,
        }
    }

    fn actor(&self, of: usize, is_held: bool) -> ActorView {
        let actor = &self.actors[of];
        let lives = actor.end.is_none();
        let mut heard: Vec<_> = match lives {
            true => actor.heard.all().iter().map(|(by, pid, end)| (*by, self.place(*pid), self.end(end))).collect(),
            false => Vec::new(),
        };
        heard.sort();
        let by_sender = |notes: Vec<(usize, usize)>| {
            let mut by_sender = vec![Vec::new(); SENDERS];
            notes.into_iter().for_each(|(sender, kind)| by_sender[sender].push(kind));
            by_sender
        };
        // "…::Note<1, 0>"
        let note = |name: &'static str| {
            let (sender, kind) = name.split_once("::Note<")?.1.trim_end_matches('>').split_once(", ")?;
            Some((sender.parse().ok()?, kind.parse().ok()?))
        };
        let queued = self.sim.mailbox(actor.address.pid()).into_iter().filter_map(note).collect();
        let places = |pids: Vec<Pid>| {
            let mut places: Vec<_> = pids.into_iter().map(|pid| self.place(pid)).collect();
            places.sort_unstable();
            places
        };
        let bound = if lives && !is_held { actor.address.pid().bindings().wait() } else { None };
        let bound = bound.unwrap_or_default();
        ActorView {
            end: actor.end.as_ref().map(|end| self.end(end)),
            queued: by_sender(queued),
            handled: by_sender(actor.handled.all()),
            heard,
            links: places(bound.links),
            monitors: places(bound.monitors),
            monitored_by: places(bound.monitored_by),
        }
    }
}
