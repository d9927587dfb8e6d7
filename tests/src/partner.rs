//! A process that links with others, monitors them and exits, all on request. It reports the exits of those processes.

use crate::face::Gate;
use postroom::Monitor;
use postroom::error::TopologyError;
use postroom::prelude::*;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The time after which a test counts as hanging.
pub const LONG: Duration = Duration::from_secs(300);

/// A report of a [`Partner`].
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A process that the partner monitors has ended.
    Down(Down),
    /// A process that the partner is linked to has failed.
    Exit(Exit),
    /// A word that the partner was asked to report.
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
    /// Makes a partner that reports, and returns it with the receiver of its reports.
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
    /// If no report arrives within [`LONG`].
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

    /// Waits for the next [`Report::Word`], which the caller must have requested, and returns the reports before it.
    pub fn until_word(&self) -> Vec<Report> {
        std::iter::from_fn(|| Some(self.next())).take_while(|report| !matches!(report, Report::Word(_))).collect()
    }

    /// Returns the reports that have arrived but have not been read, without waiting.
    pub fn so_far(&self) -> Vec<Report> {
        self.0.try_iter().collect()
    }

    /// Waits until the process has ended, and returns its remaining reports.
    ///
    /// # Panics
    /// If neither a report nor the end comes within [`LONG`].
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

    /// Fails to start.
    #[entry]
    pub fn refuse(&mut self) -> Result<(), String> {
        Err("it does not start".to_string())
    }

    /// Links and monitors, then fails to start.
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

    /// Links with all of `others`.
    #[message]
    pub fn link_all(&mut self, others: Vec<Pid>) -> Result<(), TopologyError> {
        others.into_iter().try_for_each(Pid::link)
    }

    /// Goes through `links`. For each item it first yields to other threads, and then links with `other` (`true`) or
    /// unlinks from it (`false`).
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

    /// Traps exits from now on, or stops trapping them.
    #[message]
    pub fn trap(&mut self, ctx: &mut Context<Self>, traps: bool) {
        ctx.trap_exits(traps);
    }

    /// Answers once all earlier messages have been handled.
    #[message]
    pub fn ping(&mut self) {}

    /// Increments the count and returns it.
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

    /// Tells another process to report `word`, then panics.
    #[message]
    pub fn say_to_and_fail(&mut self, word: &'static str, to: Address<Partner>) {
        to.say(word).send().expect("it lives");
        panic!("failed as it was reports");
    }

    /// Panics.
    #[message]
    pub fn fail(&mut self) {
        panic!("failed as it was reports");
    }

    /// Ends normally.
    #[message]
    pub fn finish(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }

    /// Blocks in this step until the gate is open.
    #[message]
    pub fn hold(&mut self, gate: Gate) {
        self.report(Report::Word("holds"));
        gate.pass();
    }

    /// Blocks in this step until the gate is open, then removes the monitor in the same step.
    #[message]
    pub fn hold_and_unwatch(&mut self, gate: Gate, monitor: Monitor) -> bool {
        self.hold(gate);
        monitor.demonitor()
    }

    /// Blocks in this step until the gate is open, then removes the link in the same step.
    #[message]
    pub fn hold_and_unlink(&mut self, gate: Gate, other: Pid) -> Result<(), TopologyError> {
        self.hold(gate);
        other.unlink()
    }

    /// Waits for the gate without blocking the thread.
    #[message]
    pub async fn pass(&mut self, gate: Gate) {
        gate.passed().await;
    }

    /// Spawns a child that is bound to this process by `bound`.
    #[message]
    pub fn spawn(&mut self, bound: Bound, begin: Begin) -> Result<Pid, SpawnError> {
        spawn(bound, begin)
    }

    /// Spawns `count` children that are bound to this process by `bound`.
    #[message]
    pub fn spawn_many(&mut self, count: usize, bound: Bound, begin: Begin) -> Result<Vec<Pid>, SpawnError> {
        (0..count).map(|_| spawn(bound, begin)).collect()
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.report(Report::Down(down));
    }
}

/// The way in which a child is bound to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Child and parent are linked.
    Linked,
    /// The parent monitors the child.
    Monitored,
    /// The parent owns the child.
    Owned,
    /// All of the above.
    All,
}

/// The entry of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// [`Partner::serve`].
    Serve,
    /// [`Partner::end_at_once`].
    EndAtOnce,
    /// [`Partner::refuse`].
    Refuse,
    /// [`Partner::run`].
    Run,
    /// [`Partner::run_and_fail`].
    RunAndFail,
}

/// Spawns a partner on the host of the calling process, bound to that process.
///
/// # Errors
/// If the spawn fails.
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

/// A [`Partner`] that traps exits, since it has a signal method for them.
#[process]
pub struct Trapper {
    partner: Partner,
}

impl Trapper {
    /// Makes a trapper that reports, and returns it with the receiver of its reports.
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

    /// Traps exits from now on, or stops trapping them.
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

    /// Blocks until the gate is open and then removes the link, like [`Partner::hold_and_unlink`].
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

    /// Spawns a child that is bound to this process by `bound`.
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

/// Returns whether `reason` is the failure of the linked process `pid`.
pub fn fell_with(reason: &ExitReason, pid: Pid) -> bool {
    matches!(reason, ExitReason::Linked { pid: failed, .. } if *failed == pid)
}
