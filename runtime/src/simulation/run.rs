//! One run of a test: which process goes next, on which thread, and at what time.
//!
//! The host is an ordinary one without threads. After each turn, everything that production code has queued for its
//! workers is moved (*swept*) from their queues into one list of ready processes and threads, and a
//! [choice](super::choices) decides what comes next: a process, for a time slice, or a thread that has waited. If
//! nothing is ready, the clock leaps to the next timer. If there is no timer either, the test is stuck.
//!
//! With several workers nothing is swept: the choice is which worker goes next, and the scheduler decides what it runs.
//!
//! Only the thread with the baton runs the code of the test, the code of a process, or [`SimRun::drive`], so no thread
//! waits for a lock of the run.
//!
//! [`state`](super::state) contains what is ready and what waits, and [`next`](super::next) chooses from it. The hosts
//! of a run are in [`hosts`](super::hosts), and the functions that the runtime calls are in
//! [`simulator`](super::simulator).

use super::baton::{Drive, Drivers, Instruction, Seat, SimThread};
use super::choices::Choices;
use super::explore::{Explorer, Touched};
use super::faults::{Faults, Rule};
use super::livelock::FiredTimers;
use super::state::{Abort, NextTurn, PlayedHost, Ready, SimulatedHost, State, Until};
use super::strategy::Schedules;
use super::trace::{ExpectedTurns, Listed, Trace};
use crate::api::builder::Builder;
use crate::api::runtime::Runtime;
use crate::engine::host::Scheduler;
use crate::engine::sched::simulated::as_simulated_thread;
use crate::env::chance::Random;
use crate::env::clock::{Moment, use_clock};
use crate::exit::Panic;
use crate::pid::Pid;
use crate::slots::{SlotOwner, TABLE};
use crate::sync::simulated::{self, Simulator};
use crate::sync::{Arc, Mutex, MutexGuard, Weak, current_thread, lock};
use crate::time::virtual_clock::Clock;
use crate::util::defer::defer;
use crate::util::panics::silence;
use std::any::Any;
use std::collections::BTreeMap;
use std::ptr;
use std::time::Duration;

/// The settings of a test, which all of its runs share.
#[derive(Clone)]
pub(crate) struct TestCase {
    pub(crate) name: String,
    pub(crate) schedules: Schedules,
    /// Maximum number of turns in a run, and also of timers that fire without a turn.
    pub(crate) max_turns: u64,
    /// Maximum simulation time of a run.
    pub(crate) max_time: Duration,
    pub(crate) has_faults: bool,
    /// Applies the test's options to its hosts.
    pub(crate) build: Arc<dyn Fn(Builder) -> Builder + Send + Sync>,
}

impl TestCase {
    /// Returns a host's builder with the test's options, and with those that a run sets.
    pub(super) fn builder(&self, seed: u64, workers: usize, clock: &Clock) -> Builder {
        let builder = (self.build)(Builder::new().name("simulation"));
        builder.workers(workers).seed(seed).clock(clock.clone()).paused()
    }
}

/// The payload with which the stack of a test or a step is unwound when its run is cut short.
pub(crate) struct Aborted;

/// The outcome of a run.
pub(crate) struct Ran {
    pub(crate) failure: Option<Panic>,
    pub(crate) made: Vec<u16>,
    /// The rest of the search, if the run is part of a search that is not yet complete.
    pub(crate) explorer: Option<Explorer>,
    /// Whether the run was cut short because everything that followed had been explored.
    pub(crate) is_redundant: bool,
    pub(crate) hash: u64,
    pub(crate) turns: u64,
    /// Number of timers that have fired.
    pub(crate) timers: u64,
    /// Simulation time until the body of the test ended.
    pub(crate) time: Duration,
    pub(crate) listed: Listed,
    pub(crate) sometimes: BTreeMap<&'static str, u64>,
}

/// One run.
pub(crate) struct SimRun {
    pub(crate) clock: Clock,
    pub(super) began: Moment,
    pub(super) case: Arc<TestCase>,
    pub(super) drivers: Arc<Drivers>,
    /// Number of workers that each thread simulates for each host. If there are several, the scheduler decides what
    /// each of them runs.
    pub(super) workers: usize,
    pub(super) seed: u64,
    /// The runtimes of additional nodes.
    pub(super) nodes: Mutex<Vec<Runtime>>,
    /// The free slots of the simulation.
    pub(super) slots: Mutex<Vec<u32>>,
    state: Mutex<State>,
    main: Arc<Seat>,
    this: Weak<SimRun>,
}

/// Calls `body` with the run that the calling thread belongs to.
pub(crate) fn with_current<R>(body: impl FnOnce(Option<&SimRun>) -> R) -> R {
    let here = simulated::here();
    let run = here.as_deref().and_then(|here| (here as &dyn Any).downcast_ref());
    body(run)
}

/// The random stream of a seed from which tests draw.
const TESTS: u64 = (1 << 40) + 2;

impl SimRun {
    /// Prepares a run on a host without threads. The calling thread is that of the test.
    pub(crate) fn new(
        (scheduler, clock): (&'static Scheduler, Clock),
        case: Arc<TestCase>,
        drivers: Arc<Drivers>,
        slots: Vec<u32>,
        (seed, choices, listed): (u64, Choices, Option<ExpectedTurns>),
    ) -> Arc<Self> {
        let (main, workers) = (Seat::new(), case.schedules.workers(seed));
        let state = State {
            ready: Vec::new(),
            slowed: Vec::new(),
            waiting: Vec::new(),
            members: vec![SimThread::of_this_thread(main.clone())],
            idle: Vec::new(),
            hosts: vec![SimulatedHost { scheduler, drivers: 0 }],
            paused: BTreeMap::new(),
            choices,
            trace: Trace::new(listed),
            faults: Faults::new(case.has_faults),
            turns: 0,
            turns_of_body: 0,
            fired: FiredTimers::default(),
            random: Random::new(seed, TESTS),
            buggified: BTreeMap::new(),
            sometimes: BTreeMap::new(),
            touched: Touched::default(),
            touched_by_body: Touched::default(),
            is_ending: false,
            gives_up: false,
            abort: None,
        };
        let (began, slots, state) = (clock.moment(), Mutex::new(slots), Mutex::new(state));
        Arc::new_cyclic(|this| {
            let this = this.clone();
            let nodes = Mutex::default();
            Self { clock, began, case, drivers, workers, seed, nodes, slots, state, main, this }
        })
    }

    pub(crate) fn this(&self) -> Arc<Self> {
        self.this.upgrade().unwrap_or_else(|| unreachable!("runs are behind an `Arc`"))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns how much time has passed in the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.moment().since(self.began)
    }

    /// Makes the calling thread part of the run while `body` runs.
    pub(crate) fn within<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let (simulator, clock) = (simulated::enter(Some(self.clone())), use_clock(self.clock.clock_override()));
        let _left = defer(|| {
            use_clock(clock);
            simulated::enter(simulator.clone());
        });
        body()
    }

    /// Ends all processes, and makes all drivers leave. Called by the test's thread. Returns whether nothing is left.
    pub(crate) fn end(self: &Arc<Self>) -> bool {
        self.end_body();
        let schedulers = self.schedulers();
        let slots = self.used_slots();
        schedulers.iter().for_each(|scheduler| scheduler.kill_all(&slots));
        let is_left = || self.state().are_processes_left() || !self.state().waiting.is_empty();
        if is_left() {
            self.wait(Until::Ended);
        }
        let is_clean = !is_left();
        self.dismiss();
        is_clean
    }

    /// Makes all drivers leave, even if there is something left to do. Called when the runtime can no longer be relied
    /// on.
    pub(crate) fn abandon(&self) {
        self.end_body();
        self.dismiss();
    }

    fn end_body(&self) {
        let mut state = self.state();
        state.is_ending = true;
        state.turns_of_body = std::mem::take(&mut state.turns);
        state.touched_by_body = std::mem::take(&mut state.touched);
        state.trace.close();
        state.fired.end();
        state.paused.clear();
        let slowed = std::mem::take(&mut state.slowed);
        state.ready.extend(slowed.into_iter().map(|(_, token)| Ready::Process(token)));
    }

    fn dismiss(&self) {
        loop {
            let Some(seat) = self.state().idle.pop() else { break };
            seat.give(Instruction::Leave);
            self.main.wait();
        }
    }

    /// Takes the outcome of the run after the run has ended, with its `failure` and the `time` that its body took.
    pub(crate) fn outcome(&self, failure: Option<Panic>, time: Duration) -> Ran {
        let state = &mut *self.state();
        let choices = std::mem::replace(&mut state.choices, Choices::replayed(Vec::new()));
        let touched = std::mem::take(&mut state.touched_by_body);
        let made = choices.made().to_vec();
        Ran {
            failure,
            made,
            explorer: choices.into_explorer().and_then(|mut rest| rest.advance(touched).then_some(rest)),
            is_redundant: state.abort == Some(Abort::Explored),
            hash: state.trace.hash(),
            turns: state.turns_of_body,
            timers: state.fired.total(),
            time,
            listed: state.trace.listed(),
            sometimes: std::mem::take(&mut state.sometimes),
        }
    }

    /// Returns why the run was cut short.
    pub(crate) fn abort(&self) -> Option<Abort> {
        self.state().abort.clone()
    }

    /// Takes the free slots of the simulation, in order, so that the lowest is used first.
    pub(crate) fn take_slots(&self) -> Vec<u32> {
        let mut slots = std::mem::take(&mut *lock(&self.slots));
        slots.sort_unstable_by(|one, other| other.cmp(one));
        slots
    }

    /// Returns the slots of the processes whose tokens the simulation holds, because they are ready or slowed. Returns
    /// `None` if a step waits on its stack: the step holds the token of its process, and the token of each process that
    /// it is about to spawn.
    pub(crate) fn ready_slots(&self) -> Option<Vec<u32>> {
        let state = &mut *self.state();
        self.sweep(state);
        let ready = state.ready.iter().filter_map(|ready| match ready {
            Ready::Process(token) | Ready::Slowed(token) => Some(token.slot().index()),
            Ready::Thread(_) => None,
        });
        let slowed = state.slowed.iter().map(|(_, token)| token.slot().index());
        let main = state.members.first().map(|member| member.id);
        let waits = state.waiting.iter().any(|waiting| Some(waiting.id) != main);
        (!waits).then(|| ready.chain(slowed).collect())
    }

    /// Returns the slots of all processes so far.
    pub(crate) fn used_slots(&self) -> Vec<u32> {
        let mut used = self.state().trace.used_slots().to_vec();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Adds a fault that a test requests.
    pub(crate) fn add_fault(&self, rule: Rule) {
        let state = &mut *self.state();
        state.faults.add(&mut state.choices, rule);
    }

    /// Delays timers by up to `late`.
    pub(crate) fn set_late(&self, late: Duration) {
        let state = &mut *self.state();
        state.faults.set_late(&mut state.choices, late);
    }

    /// Returns whether a fault with this probability happens now. The test or a library defines the fault.
    pub(crate) fn chance(&self, probability: f64) -> bool {
        let state = &mut *self.state();
        !state.is_ending && state.faults.are_wanted() && probability > 0.0 && state.choices.fault(probability)
    }

    /// Returns the delay of such a fault, at most `most`.
    pub(crate) fn delay(&self, most: Duration) -> Duration {
        let state = &mut *self.state();
        if state.is_ending || !state.faults.are_wanted() { Duration::ZERO } else { state.choices.part_of(most) }
    }

    /// Returns the types of the messages in the mailbox of a process, in order.
    pub(crate) fn mailbox(&self, pid: Pid) -> Vec<&'static str> {
        let slot = pid.resolve().and_then(|pid| TABLE.living(pid)).filter(|_| self.is_test());
        let is_ours =
            |owner: &SlotOwner| self.state().hosts.iter().any(|host| ptr::eq(owner, host.scheduler.slot_owner()));
        match slot.filter(|slot| slot.owner().is_some_and(is_ours)) {
            // SAFETY: this is a process of the simulation, whose steps do not run while the test does. Other threads
            // may send to it, which adds nodes but removes none.
            Some(slot) => unsafe { slot.lanes.queued_types(slot.last()) },
            None => Vec::new(),
        }
    }

    fn take_turns(&self, seat: &Arc<Seat>) {
        let mut played = Vec::new();
        loop {
            self.play_all(&mut played);
            match self.next(&played) {
                NextTurn::Slice(token, budget, crash) => {
                    let place = self.state().place_of(&token);
                    let PlayedHost { thread, scratches } = &mut played[place];
                    let scratch = &mut scratches[0];
                    thread.run(|workers| {
                        workers[0].enter(|worker| worker.run_simulated_slice(scratch, token, budget, crash));
                    });
                }
                NextTurn::UsualSlice(at, token) => {
                    let PlayedHost { thread, scratches } = &mut played[at / self.workers];
                    let at = at % self.workers;
                    let scratch = &mut scratches[at];
                    thread.run(|workers| workers[at].enter(|worker| worker.run_usual_slice(scratch, token)));
                }
                NextTurn::Leap(limit, late) => _ = self.clock.leap(limit, late),
                NextTurn::Thread(other) => {
                    self.state().idle.push(seat.clone());
                    other.give(Instruction::Go);
                    if let Instruction::Leave = seat.wait() {
                        return;
                    }
                }
            }
        }
    }
}

impl Drive for SimRun {
    fn drive(self: Arc<Self>, seat: &Arc<Seat>) {
        self.state().members.push(SimThread::of_this_thread(seat.clone()));
        // Panics are not printed here, because the report of a failed run contains them.
        silence(true);
        self.within(|| as_simulated_thread(|| self.take_turns(seat)));
        let id = current_thread().id();
        self.state().members.retain(|member| member.id != id);
        self.drivers.give_back(seat.clone());
        self.main.give(Instruction::Go);
    }
}

#[cfg(test)]
mod tests {
    use super::super::campaign::Simulation;
    use crate::process::fixtures::OnMessage;
    use crate::slots::SlotOwner;
    use crate::sync::{Mutex, lock};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Counts requesters of `owner` on another thread for a while, as another simulation does.
    fn ask(owner: &'static SlotOwner) {
        let (counted, are_counted) = channel();
        std::thread::spawn(move || {
            let _requesters = owner.count_requesters();
            counted.send(()).expect("the test waits");
            std::thread::sleep(Duration::from_millis(50));
        });
        are_counted.recv().expect("it counts");
    }

    /// Catches: a run whose slots differ from those of the previous run, because the record of the host of that run now
    /// belongs to the host of another simulation. (If the requesters are gone before the run spawns, this catches
    /// nothing.)
    #[test]
    fn the_slots_of_a_run_do_not_depend_on_requests_elsewhere() {
        let last: Mutex<Option<&SlotOwner>> = Mutex::new(None);
        let test = Simulation::new("slots").seeds(1).check(move |sim| {
            let this = sim.host().scheduler().slot_owner();
            if let Some(last) = lock(&last).replace(this) {
                ask(last);
            }
            sim.spawn_process(OnMessage(drop)).start().expect("it starts");
            sim.until_idle().expect("the test's thread");
        });
        if let Err(error) = test {
            panic!("{error}");
        }
    }
}
