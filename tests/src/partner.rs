//! A process that links with others, monitors them and exits on request; it reports their exits.

use crate::face::Gate;
use postroom::Monitor;
use postroom::error::TopologyError;
use postroom::prelude::*;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The time after which a test counts as hanging.
pub const LONG: Duration = Duration::from_secs(30);

/// A report of a [`Partner`].
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A process that it monitors has ended.
    Down(Down),
    /// A process that it is linked to has failed.
    Exit(Exit),
    /// A word that it was asked to report.
    Word(&'static str),
}

/// A process that links, monitors and exits on request. It does not trap exits.
#[process]
#[derive(Default)]
pub struct Partner {
    reports: Option<Sender<Report>>,
    /// The number of calls of [`count`](Partner::count).
    counted: u64,
}

impl Partner {
    /// Makes a partner that reports.
    pub fn reporting() -> (Self, Reports) {
        let (reports, received) = channel();
        (Self { reports: Some(reports), counted: 0 }, Reports(received))
    }

    fn report(&self, report: Report) {
        if let Some(reports) = &self.reports {
            // The test may have dropped the receiver.
            let _over = reports.send(report);
        }
    }
}

/// The reports of a partner.
pub struct Reports(Receiver<Report>);

impl Reports {
    /// Waits for the next report.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn next(&self) -> Report {
        self.0.recv_timeout(LONG).expect("the process reports")
    }

    /// Waits for the next report, which must be a [`Down`].
    ///
    /// # Panics
    /// If it is something else.
    pub fn down(&self) -> Down {
        match self.next() {
            Report::Down(down) => down,
            other => panic!("{other:?} where a Down was expected"),
        }
    }

    /// Waits for the next report, which must be an [`Exit`].
    ///
    /// # Panics
    /// If it is something else.
    pub fn exit(&self) -> Exit {
        match self.next() {
            Report::Exit(exit) => exit,
            other => panic!("{other:?} where an Exit was expected"),
        }
    }

    /// Returns all reports up to the next word, which the caller has asked it to report.
    pub fn until_word(&self) -> Vec<Report> {
        std::iter::from_fn(|| Some(self.next())).take_while(|report| !matches!(report, Report::Word(_))).collect()
    }

    /// Returns all reports that have been made so far.
    pub fn so_far(&self) -> Vec<Report> {
        self.0.try_iter().collect()
    }

    /// Waits until the process has ended, and returns all its reports.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn rest(self) -> Vec<Report> {
        let mut all = Vec::new();
        loop {
            match self.0.recv_timeout(LONG) {
                Ok(report) => all.push(report),
                Err(RecvTimeoutError::Disconnected) => return all,
                Err(RecvTimeoutError::Timeout) => panic!("the process lives on"),
            }
        }
    }
}

#[process]
impl Partner {
    /// Serves until it is stopped.
    #[entry]
    pub fn serve(&mut self) {}

    /// Ends before its first message.
    #[entry]
    pub fn end_at_once(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }

    /// Does not start.
    #[entry]
    pub fn refuse(&mut self) -> Result<(), String> {
        Err("it does not start".to_string())
    }

    /// Links and monitors, and does not start.
    #[entry]
    pub fn bind_and_refuse(&mut self, linked: Pid, monitored: Pid) -> Result<(), String> {
        linked.link().and_then(|()| monitored.monitor()).map_err(|error| error.to_string())?;
        Err("it does not start".to_string())
    }

    /// Exits normally at once.
    #[entry]
    pub async fn run(&mut self) {}

    /// Fails at once.
    #[entry]
    pub async fn run_and_fail(&mut self) -> Result<(), String> {
        Err("failed at once".to_string())
    }

    /// Links with `other`.
    #[message]
    pub fn link(&mut self, other: Pid) -> Result<(), TopologyError> {
        other.link()
    }

    /// Removes the link with `other`.
    #[message]
    pub fn unlink(&mut self, other: Pid) -> Result<(), TopologyError> {
        other.unlink()
    }

    /// Links with all of them.
    #[message]
    pub fn link_all(&mut self, others: Vec<Pid>) -> Result<(), TopologyError> {
        others.into_iter().try_for_each(Pid::link)
    }

    /// Links (`true`) and unlinks (`false`), and yields to other threads in between.
    #[message]
    pub fn waver(&mut self, other: Pid, links: Vec<bool>) -> Result<(), TopologyError> {
        links.into_iter().try_for_each(|link| {
            std::thread::yield_now();
            if link { other.link() } else { other.unlink() }
        })
    }

    /// Monitors `other`.
    #[message]
    pub fn watch(&mut self, other: Pid) -> Result<Monitor, TopologyError> {
        other.monitor()
    }

    /// Removes the monitor.
    #[message]
    pub fn unwatch(&mut self, monitor: Monitor) -> bool {
        monitor.demonitor()
    }

    /// Traps exits from now on, or stops doing so.
    #[message]
    pub fn trap(&mut self, ctx: &mut Context<Self>, traps: bool) {
        ctx.trap_exits(traps);
    }

    /// Answers when all earlier messages have been handled.
    #[message]
    pub fn ping(&mut self) {}

    /// Counts, and returns the count.
    #[message]
    pub fn count(&mut self) -> u64 {
        self.counted += 1;
        self.counted
    }

    /// Reports `word`.
    #[message]
    pub fn say(&mut self, word: &'static str) {
        self.report(Report::Word(word));
    }

    /// Has another process report `word`, then fails.
    #[message]
    pub fn say_to_and_fail(&mut self, word: &'static str, to: Address<Partner>) {
        to.say(word).send().expect("it lives");
        panic!("failed as it was reports");
    }

    /// Fails.
    #[message]
    pub fn fail(&mut self) {
        panic!("failed as it was reports");
    }

    /// Ends normally.
    #[message]
    pub fn finish(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }

    /// Stays in this step until the gate is open.
    #[message]
    pub fn hold(&mut self, gate: Gate) {
        self.report(Report::Word("holds"));
        gate.pass();
    }

    /// Stays in this step until the gate is open, then removes the monitor in it.
    #[message]
    pub fn hold_and_unwatch(&mut self, gate: Gate, monitor: Monitor) -> bool {
        self.hold(gate);
        monitor.demonitor()
    }

    /// Stays in this step until the gate is open, then removes the link in it.
    #[message]
    pub fn hold_and_unlink(&mut self, gate: Gate, other: Pid) -> Result<(), TopologyError> {
        self.hold(gate);
        other.unlink()
    }

    /// Waits until the gate is open.
    #[message]
    pub async fn pass(&mut self, gate: Gate) {
        gate.passed().await;
    }

    /// Spawns a child with that binding to this process.
    #[message]
    pub fn spawn(&mut self, bound: Bound, begin: Begin) -> Result<Pid, SpawnError> {
        spawn(bound, begin)
    }

    /// Spawns `count` children with that binding to this process.
    #[message]
    pub fn spawn_many(&mut self, count: usize, bound: Bound, begin: Begin) -> Result<Vec<Pid>, SpawnError> {
        (0..count).map(|_| spawn(bound, begin)).collect()
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.report(Report::Down(down));
    }
}

/// How a child is bound to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// They are linked.
    Linked,
    /// The parent monitors it.
    Monitored,
    /// The parent owns it.
    Owned,
    /// All of these.
    All,
}

/// The entry of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The entry of this name.
    Serve,
    /// The entry of this name.
    EndAtOnce,
    /// The entry of this name.
    Refuse,
    /// The entry of this name.
    Run,
    /// The entry of this name.
    RunAndFail,
}

/// Spawns a partner on the host of the calling process, bound to that process.
///
/// # Errors
/// As any spawn.
pub fn spawn(bound: Bound, begin: Begin) -> Result<Pid, SpawnError> {
    let spawn = Host::current().expect("called by a process").spawn(Partner::default());
    let spawn = match bound {
        Bound::Linked => spawn.linked(),
        Bound::Monitored => spawn.monitored(),
        Bound::Owned => spawn.owned(),
        Bound::All => spawn.linked().monitored().owned(),
    };
    match begin {
        Begin::Serve => spawn.serve().map(Address::pid),
        Begin::EndAtOnce => spawn.end_at_once().map(Address::pid),
        Begin::Refuse => spawn.refuse().map(Address::pid),
        Begin::Run => spawn.run().map(|running| running.pid()),
        Begin::RunAndFail => spawn.run_and_fail().map(|running| running.pid()),
    }
}

/// A [`Partner`] that has a method for exits, and so traps them.
#[process]
pub struct Trapper {
    partner: Partner,
}

impl Trapper {
    /// Makes a trapper that reports.
    pub fn reporting() -> (Self, Reports) {
        let (partner, reports) = Partner::reporting();
        (Self { partner }, reports)
    }
}

#[process]
impl Trapper {
    /// Serves until it is stopped.
    #[entry]
    pub fn serve(&mut self) {}

    /// Links with `other`.
    #[message]
    pub fn link(&mut self, other: Pid) -> Result<(), TopologyError> {
        other.link()
    }

    /// Traps exits from now on, or stops doing so.
    #[message]
    pub fn trap(&mut self, ctx: &mut Context<Self>, traps: bool) {
        ctx.trap_exits(traps);
    }

    /// Removes the link with `other`.
    #[message]
    pub fn unlink(&mut self, other: Pid) -> Result<(), TopologyError> {
        other.unlink()
    }

    /// Monitors `other`.
    #[message]
    pub fn watch(&mut self, other: Pid) -> Result<Monitor, TopologyError> {
        other.monitor()
    }

    /// Removes the monitor.
    #[message]
    pub fn unwatch(&mut self, monitor: Monitor) -> bool {
        monitor.demonitor()
    }

    /// As [`Partner::hold_and_unlink`].
    #[message]
    pub fn hold_and_unlink(&mut self, gate: Gate, other: Pid) -> Result<(), TopologyError> {
        self.partner.hold(gate);
        other.unlink()
    }

    /// Reports `word`.
    #[message]
    pub fn say(&mut self, word: &'static str) {
        self.partner.say(word);
    }

    /// Spawns a child with that binding to this process.
    #[message]
    pub fn spawn(&mut self, bound: Bound, begin: Begin) -> Result<Pid, SpawnError> {
        spawn(bound, begin)
    }

    #[signal]
    fn exit(&mut self, exit: Exit) {
        self.partner.report(Report::Exit(exit));
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.partner.report(Report::Down(down));
    }
}

/// Returns whether a process exited because `pid`, to which it was linked, failed.
pub fn fell_with(reason: &ExitReason, pid: Pid) -> bool {
    matches!(reason, ExitReason::Linked { pid: failed, .. } if *failed == pid)
}
