//! The API for the body of a simulated test.

use super::faults::Rule;
use super::run::{SimRun, with_current};
use crate::Pid;
use crate::api::probe::Probe;
use crate::api::runtime::Host;
use crate::sync::Arc;
use crate::sync::simulated::Mishap;
use crate::time::virtual_clock::ClockError;
use std::any::TypeId;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// The simulated host of a test. It dereferences to the host, so you can spawn, send and wait as on any other host. It
/// is passed to the body of a [`postroom::test`](macro@crate::test) and of
/// [`Simulation::run`](super::campaign::Simulation::run).
///
/// No process runs while the body runs. When the body waits (`.wait()`, `.await`, `until_idle`, `advance`, a probe),
/// processes take their turns, in an order that the seed chooses. If none can continue, time leaps to the next timer.
///
/// Clones are handles of the same simulation.
#[derive(Clone)]
pub struct Sim {
    run: Arc<SimRun>,
    host: Host,
}

impl Sim {
    pub(crate) fn new(run: Arc<SimRun>, host: Host) -> Self {
        Self { run, host }
    }

    /// Returns the simulation that the calling thread is part of, if any. Meant for libraries that replace their
    /// threads and clocks in a simulated test.
    pub fn current() -> Option<Self> {
        with_current(|run| {
            let run = run?;
            Some(Self { host: run.main_host()?, run: run.this() })
        })
    }

    /// Returns the host, which is `Copy`.
    pub fn host(&self) -> Host {
        self.host
    }

    /// Adds a node to the simulation. A node is a separate host, built like that of the test. Its processes reach other
    /// nodes only through the transports that are connected to its router: see `Builder::logical_node`. The test itself
    /// observes all nodes.
    ///
    /// `postroom_cluster::testing` creates whole nodes of a cluster, with a broker between them: see the guide's page
    /// "Test a cluster".
    ///
    /// All hosts of a simulation take turns on its threads, in an order that the seed chooses, and share its clock.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use postroom::test::{Sim, Simulation};
    ///
    /// # #[process] struct Account { balance: i64 }
    /// # #[process]
    /// # impl Account {
    /// #     #[entry] fn serve(&mut self) {}
    /// #     #[message] fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
    /// # }
    /// Simulation::new("two nodes").seeds(10).run(|sim: Sim| {
    ///     let [one, other] = [(); 2].map(|()| sim.node());
    ///     let account = one.spawn(Account { balance: 0 }).serve().unwrap();
    ///     assert_eq!(account.pid().node(), one.node());
    ///     assert_eq!(account.deposit(5).wait(), Ok(5)); // the test observes
    ///     assert_ne!(one.node(), other.node());
    /// });
    /// ```
    ///
    /// # Panics
    /// Panics if the test's builder fails to build the host.
    #[track_caller]
    pub fn node(&self) -> Host {
        match self.run.add_node() {
            Ok(host) => host,
            Err(error) => panic!("no node could be added to the simulation: {error}"),
        }
    }

    /// Pauses a node of the simulation for `time`, like a paused virtual machine. During that time none of its
    /// processes takes a turn, and everything that becomes due is late.
    pub fn pause(&self, node: Host, time: Duration) {
        self.run.pause(node, time);
    }

    /// Ends all processes of a node of the simulation and prevents further spawns there, as if its program had been
    /// killed.
    pub fn kill(&self, node: Host) {
        node.scheduler().kill_all(&self.run.used_slots());
    }

    /// Returns whether a fault with this probability happens. Meant for a library's own faults, such as a network that
    /// loses messages. Always false in a test without faults. Shrinking a failing schedule removes these faults where
    /// it can.
    pub fn chance(&self, probability: f64) -> bool {
        self.run.chance(probability)
    }

    /// Returns a random delay of at most `most`, with which a library can make its own events late. The delay is zero
    /// in a test without faults.
    pub fn delay(&self, most: Duration) -> Duration {
        self.run.delay(most)
    }

    /// Returns the simulation time that has passed.
    pub fn elapsed(&self) -> Duration {
        self.run.elapsed()
    }

    /// Advances the time by `duration`, timer by timer. All processes become idle before each step of the clock and at
    /// the end.
    ///
    /// # Panics
    /// Panics if it is called inside a process.
    #[track_caller]
    pub fn advance(&self, duration: Duration) {
        if let Err(error) = self.run.clock.advance(duration) {
            match error {
                ClockError::System => unreachable!("a simulation's clock is a virtual one"),
                ClockError::Idle(error) => panic!("{error}"),
            }
        }
    }

    /// Creates a probe: see [`Probe`].
    ///
    /// # Panics
    /// Panics if all slots for processes are in use.
    #[track_caller]
    pub fn probe<M: Send + 'static>(&self) -> Probe<M> {
        match Probe::new(self.host) {
            Ok(probe) => probe,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns a random number that depends only on the seed and on how many have been drawn before.
    pub fn random(&self) -> u64 {
        self.run.state().random.next()
    }

    fn ask<T: 'static>(&self, mishap: Mishap, probability: f64, most: Duration) {
        self.run.add_fault(Rule { of: TypeId::of::<T>(), mishap, probability, most });
    }

    /// Returns the types of the messages in the mailbox of a process of this simulation, in order. Empty for any other
    /// process, and on any thread other than the test's.
    pub fn mailbox(&self, pid: impl Into<Pid>) -> Vec<&'static str> {
        self.run.mailbox(pid.into())
    }

    /// Makes processes of type `P` panic now and then, between two messages. In a quarter of the runs, this happens
    /// before each of their turns with this probability. Links, supervisors and callers react as to any other panic.
    pub fn crash<P: 'static>(&self, probability: f64) {
        self.ask::<P>(Mishap::Crash, probability, Duration::ZERO);
    }

    /// Makes processes of type `P` slow now and then. In a quarter of the runs, with this probability, a ready process
    /// is not run for up to `most`.
    pub fn slow<P: 'static>(&self, probability: f64, most: Duration) {
        self.ask::<P>(Mishap::Slow, probability, most);
    }

    /// Makes the start of a process of type `P` fail now and then, as if its entry had panicked. In a quarter of the
    /// runs, a start fails with this probability.
    pub fn fail_start<P: 'static>(&self, probability: f64) {
        self.ask::<P>(Mishap::Start, probability, Duration::ZERO);
    }

    /// Makes mailboxes of processes of type `P` appear full now and then, to senders that a full mailbox refuses
    /// (`try_send`, and senders outside of processes). In a quarter of the runs, this happens to each message with this
    /// probability.
    pub fn fill<P: 'static>(&self, probability: f64) {
        self.ask::<P>(Mishap::Full, probability, Duration::ZERO);
    }

    /// Makes commands of type `C` fail now and then, as if their handler had dropped them. In a quarter of the runs, a
    /// command fails with this probability.
    pub fn fail_command<C: 'static>(&self, probability: f64) {
        self.ask::<C>(Mishap::FailedCommand, probability, Duration::ZERO);
    }

    /// Makes commands of type `C` late now and then. In a quarter of the runs, with this probability, a command is
    /// handled up to `most` later.
    pub fn delay_command<C: 'static>(&self, probability: f64, most: Duration) {
        self.ask::<C>(Mishap::LateCommand, probability, most);
    }

    /// Delays timers by up to `most`, in a quarter of the runs. Timers are never early.
    pub fn late_timers(&self, most: Duration) {
        self.run.set_late(most);
    }
}

impl Deref for Sim {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}

/// The probability that a place of `buggify` is active in a run, and also the probability that an active place
/// misbehaves when it is reached.
const BUGGIFIED: f64 = 0.25;

/// Returns whether this place misbehaves now. Called by [`buggify!`](crate::test::buggify).
#[doc(hidden)]
pub fn is_buggified(file: &'static str, line: u32) -> bool {
    with_current(|run| {
        let Some(run) = run else { return false };
        let state = &mut *run.state();
        let choices = &mut state.choices;
        let is_active = *state.buggified.entry((file, line)).or_insert_with(|| choices.fault(BUGGIFIED));
        is_active && choices.fault(BUGGIFIED)
    })
}

/// Records whether the condition held. Called by [`sometimes!`](crate::test::sometimes).
#[doc(hidden)]
pub fn note_sometimes(happened: bool, what: &'static str) {
    with_current(|run| {
        if let Some(run) = run {
            *run.state().sometimes.entry(what).or_insert(0) += u64::from(happened);
        }
    });
}
