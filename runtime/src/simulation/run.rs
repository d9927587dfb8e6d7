//! One run of a test: which process goes next, on which thread, and at what time.
//!
//! The host is an ordinary one without threads. After each turn, everything that production code has queued for its
//! workers is moved (*swept*) from their queues into one list of what is ready, and a [choice](super::choices) decides
//! what comes next: a process, for a time slice, or a thread that has waited. If nothing is ready, the clock leaps to
//! the next timer. If there is no timer either, the test is stuck.
//!
//! With several workers nothing is swept: the choice is which worker goes next, and the scheduler decides what it runs.
//!
//! Only the thread with the baton runs the code of the test, of a process, or [`SimRun::drive`], so no thread waits for
//! a lock here.

use super::baton::{Drivers, Instruction, Seat, SimThread, is_this};
use super::choices::Choices;
use super::explore::Touched;
use super::faults::{Faults, Rule};
use super::livelock::FiredTimers;
use super::trace::{ExpectedTurns, TEST, Trace, TurnKind};
use crate::api::builder::Builder;
use crate::api::runtime::{Host, Runtime};
use crate::engine::context::thread::ThreadContext;
use crate::engine::host::Scheduler;
use crate::engine::sched::simulated::{SimulatedThread, as_simulated_thread};
use crate::engine::slice::step::StepScratch;
use crate::env::chance::Random;
use crate::env::clock::{Moment, use_clock};
use crate::env::world::World;
use crate::exit::Panic;
use crate::pid::{NodeId, Pid};
use crate::slots::{Slot, SlotOwner, TABLE, Token};
use crate::sync::simulated::{self, Mishap, Simulator};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, Steal, ThreadHandle, Weak, current_thread, lock};
use crate::time::virtual_clock::Clock;
use crate::util::defer::defer;
use crate::util::panics::silence;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::ptr;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// The bounds of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) turns: u64,
    pub(crate) time: Duration,
}

/// The settings of a run.
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) bounds: Bounds,
    pub(crate) has_faults: bool,
    /// Whether its turns are listed.
    pub(crate) recorded: bool,
    /// The turns that it replays.
    pub(crate) expected: ExpectedTurns,
    /// Number of workers that each thread simulates for each host. If there are several, the scheduler decides what
    /// each of them runs.
    pub(crate) workers: usize,
    /// Applies the test's options to its hosts.
    pub(crate) build: BuildHost,
}

/// A function that sets the options of a host that a test requests.
pub(crate) type BuildHost = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// A host of a run.
struct SimulatedHost {
    scheduler: &'static Scheduler,
    /// Number of drivers that simulate its threads.
    drivers: usize,
}

/// One driver's simulation of a host.
struct PlayedHost {
    thread: SimulatedThread,
    scratches: Vec<StepScratch>,
}

/// Why a run was cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// Nothing can continue.
    Stuck(Vec<String>),
    /// Everything that could follow has been explored.
    Explored,
    /// It took more turns or time than allowed.
    Endless { turns: u64, time: Duration, busiest: Vec<(String, u64)> },
    /// `timers` timers fired without a turn of any process, the last of them at `time`.
    Livelock { timers: u64, time: Duration, busiest: Vec<(String, u64)> },
}

/// The payload with which the stack of a test or a step is unwound when its run is cut short.
pub(crate) struct Aborted;

/// The condition for which a thread waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The thread is unparked, or this moment is reached.
    Unparked(Moment),
    /// Nothing can continue without time passing.
    Idle,
    /// No process is left.
    Ended,
}

struct Waiting {
    id: ThreadId,
    until: Until,
}

/// Something that is ready to continue.
enum Ready {
    Process(Token),
    /// A process that was not run for a while and may run now.
    Slowed(Token),
    Thread(ThreadId),
}

/// The next action of a driver.
enum NextTurn {
    /// A time slice with this budget, or a crash.
    Slice(Token, u32, Option<Panic>),
    /// A time slice as in production, on this worker.
    UsualSlice(usize, Token),
    Thread(Arc<Seat>),
    Leap(Moment, Duration),
}

/// The results of a run that has ended.
pub(crate) struct Remembered {
    pub(crate) choices: Choices,
    pub(crate) touched: Touched,
    pub(crate) trace: Trace,
    pub(crate) sometimes: BTreeMap<&'static str, u64>,
    pub(crate) turns: u64,
    /// Number of timers that have fired.
    pub(crate) timers: u64,
}

pub(crate) struct State {
    ready: Vec<Ready>,
    /// Processes that are not run before the given moment.
    slowed: Vec<(Moment, Token)>,
    waiting: Vec<Waiting>,
    members: Vec<SimThread>,
    /// Drivers that wait for the baton.
    idle: Vec<Arc<Seat>>,
    /// The hosts; the first is that of the test.
    hosts: Vec<SimulatedHost>,
    /// The indices of paused hosts, and the moments at which they continue.
    paused: BTreeMap<usize, Moment>,
    pub(crate) choices: Choices,
    pub(crate) trace: Trace,
    pub(crate) faults: Faults,
    turns: u64,
    turns_of_body: u64,
    fired: FiredTimers,
    /// The source of the random numbers that the test draws.
    pub(crate) random: Random,
    /// Which places of `buggify` are active.
    pub(crate) buggified: BTreeMap<(&'static str, u32), bool>,
    /// How often each condition of `sometimes` has held.
    pub(crate) sometimes: BTreeMap<&'static str, u64>,
    /// What the current turn has touched.
    touched: Touched,
    /// What the last turn of the body has touched.
    touched_by_body: Touched,
    /// Whether the body of the test is over, in which case the processes are being ended.
    is_ending: bool,
    /// Whether steps that wait on their stacks are unwound, since nothing else would end them.
    gives_up: bool,
    abort: Option<Abort>,
}

/// One run.
pub(crate) struct SimRun {
    pub(crate) clock: Clock,
    began: Moment,
    bounds: Bounds,
    drivers: Arc<Drivers>,
    workers: usize,
    seed: u64,
    build: BuildHost,
    /// The runtimes of additional nodes.
    nodes: Mutex<Vec<Runtime>>,
    /// The free slots of the simulation.
    slots: Mutex<Vec<u32>>,
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

/// Simulation time that the processes of a run have to end, long enough for their calls and sleeps to time out.
const ENDING: Duration = Duration::from_secs(24 * 3600);

/// Number of turns that the processes of a run have to end.
const ENDING_TURNS: u64 = 100_000;

/// The node ID of the first additional node. The IDs of a run are in the order in which the nodes were added. A guess:
/// no program draws an ID that low.
const FIRST_NODE: u64 = 1 << 20;

/// Number of slots that a simulation leases at a time.
const LEASE: u32 = 64;

impl SimRun {
    /// Prepares a run on a host without threads. The calling thread is that of the test.
    pub(crate) fn new(
        (scheduler, clock): (&'static Scheduler, Clock),
        drivers: Arc<Drivers>,
        slots: Vec<u32>,
        choices: Choices,
        Settings { seed, bounds, has_faults, recorded, expected, workers, build }: Settings,
    ) -> Arc<Self> {
        let main = Seat::new();
        let mut trace = Trace::new(recorded);
        trace.expect(expected);
        let state = State {
            ready: Vec::new(),
            slowed: Vec::new(),
            waiting: Vec::new(),
            members: vec![SimThread::of_this_thread(main.clone())],
            idle: Vec::new(),
            hosts: vec![SimulatedHost { scheduler, drivers: 0 }],
            paused: BTreeMap::new(),
            choices,
            trace,
            faults: Faults::new(has_faults),
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
            Self { clock, began, bounds, drivers, workers, seed, build, nodes, slots, state, main, this }
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

    /// Makes the calling thread one of the run while `body` runs.
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

    /// Makes all drivers leave, whatever is left to do, when the runtime can no longer be relied on.
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

    /// Takes the results of the run after it has ended.
    pub(crate) fn remembered(&self) -> Remembered {
        let state = &mut *self.state();
        let choices = std::mem::replace(&mut state.choices, Choices::replayed(Vec::new()));
        let trace = std::mem::replace(&mut state.trace, Trace::new(false));
        let sometimes = std::mem::take(&mut state.sometimes);
        let touched = std::mem::take(&mut state.touched_by_body);
        let (turns, timers) = (state.turns_of_body, state.fired.total());
        Remembered { choices, touched, trace, sometimes, turns, timers }
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

    /// Returns the slots of the processes whose tokens the simulation holds, because they are ready or not run for a
    /// while. Returns `None` if a step waits on its stack: the step holds the token of its process, and the token of
    /// each process that it is about to spawn.
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

    /// Makes timers up to `late` late.
    pub(crate) fn set_late(&self, late: Duration) {
        let state = &mut *self.state();
        state.faults.set_late(&mut state.choices, late);
    }

    /// Returns whether a fault with this probability, which the test or a library defines, happens.
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
            // SAFETY: this is a process of the simulation, whose steps do not run while the test does. Others may send
            // to it, which adds nodes but removes none.
            Some(slot) => unsafe { slot.lanes.queued_types(slot.last()) },
            None => Vec::new(),
        }
    }

    /// Drives the run on the calling thread, which has received the baton, until it is told to leave.
    pub(crate) fn drive(self: &Arc<Self>, seat: &Arc<Seat>) {
        self.state().members.push(SimThread::of_this_thread(seat.clone()));
        // The report of a failed run contains the panic.
        silence(true);
        self.within(|| as_simulated_thread(|| self.take_turns(seat)));
        let id = current_thread().id();
        self.state().members.retain(|member| member.id != id);
        self.drivers.give_back(seat.clone());
        self.main.give(Instruction::Go);
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

    /// Makes the calling driver simulate the hosts that have been added since the last call.
    fn play_all(&self, played: &mut Vec<PlayedHost>) {
        let state = &mut *self.state();
        for host in state.hosts.iter_mut().skip(played.len()) {
            let threads = host.drivers * self.workers..(host.drivers + 1) * self.workers;
            host.drivers += 1;
            let thread = SimulatedThread::begin(host.scheduler, threads);
            let scratches = thread.workers().iter().map(|worker| StepScratch::new(worker.thread)).collect();
            played.push(PlayedHost { thread, scratches });
        }
    }

    /// Returns the schedulers of all hosts.
    pub(crate) fn schedulers(&self) -> Vec<&'static Scheduler> {
        self.state().hosts.iter().map(|host| host.scheduler).collect()
    }

    /// Returns the host of the test.
    pub(crate) fn main_host(&self) -> Option<Host> {
        Host::of_scheduler(self.state().hosts.first()?.scheduler)
    }

    /// Pauses a host for `time`. A host that is already paused stays so until the later of the two moments.
    pub(crate) fn pause(&self, host: Host, time: Duration) {
        let until = self.clock.moment().after(time);
        let state = &mut *self.state();
        let its = |hosted: &SimulatedHost| ptr::eq(hosted.scheduler, host.scheduler());
        if let Some(place) = state.hosts.iter().position(its).filter(|_| !state.is_ending) {
            let paused = state.paused.entry(place).or_insert(until);
            *paused = until.max(*paused);
        }
    }

    /// Adds a host that is a node of its own.
    ///
    /// # Errors
    /// Returns the reason why the host cannot be built.
    pub(crate) fn add_node(&self) -> Result<Host, String> {
        static NEXT: World<AtomicU64> = World::new(AtomicU64::new(FIRST_NODE));
        let node = NodeId::new(NEXT.fetch_add(1, Ordering::Relaxed)).ok_or("there are no more node IDs")?;
        let seed = Random::new(self.seed, NODES + lock(&self.nodes).len() as u64).next();
        let builder = (self.build)(Builder::new().name("simulation")).logical_node(node);
        let builder = builder.workers(self.workers).seed(seed).clock(self.clock.clone()).paused();
        let runtime = builder.build_anywhere().map_err(|error| error.to_string())?;
        let host = runtime.host();
        self.state().hosts.push(SimulatedHost { scheduler: host.scheduler(), drivers: 0 });
        lock(&self.nodes).push(runtime);
        Ok(host)
    }

    /// Takes the runtimes of the additional nodes after the run has ended.
    pub(crate) fn take_nodes(&self) -> Vec<Runtime> {
        std::mem::take(&mut *lock(&self.nodes))
    }

    /// Returns the hosts of the additional nodes.
    pub(crate) fn nodes(&self) -> Vec<Host> {
        lock(&self.nodes).iter().map(|runtime| runtime.host()).collect()
    }

    /// Decides what comes next.
    fn next(&self, played: &[PlayedHost]) -> NextTurn {
        let state = &mut *self.state();
        loop {
            self.sweep(state);
            let now = self.clock.moment();
            state.wake(now);
            if self.has_workers(state) {
                if let Some((worker, ready)) = self.choose_worker(state, played) {
                    match self.take_turn(state, ready, Some(worker), now) {
                        Some(next) => return next,
                        None => continue,
                    }
                }
            } else if !state.ready.is_empty() {
                match self.choose(state, now) {
                    Some(next) => return next,
                    None => continue,
                }
            }
            if state.is_ending && !state.are_processes_left() && state.waiting.len() == 1 {
                return state.resume_waiting(|until| until == Until::Ended, now, self.began);
            }
            if state.waiting.iter().any(|waiting| waiting.until == Until::Idle) {
                return state.resume_waiting(|until| until == Until::Idle, now, self.began);
            }
            let deadlines = state.waiting.iter().filter_map(|waiting| match waiting.until {
                Until::Unparked(deadline) => Some(deadline),
                Until::Idle | Until::Ended => None,
            });
            let limit = deadlines.chain(state.slowed.iter().map(|slowed| slowed.0)).min().unwrap_or(Moment::NEVER);
            let timers = state.hosts.iter().map(|host| host.scheduler.timers.next());
            let next = timers.min().unwrap_or(Moment::NEVER).min(limit);
            if next < Moment::NEVER && !self.is_over(state, next) {
                let late = state.faults.lateness(&mut state.choices);
                state.fired.begin();
                return NextTurn::Leap(limit, late);
            }
            if !state.is_ending && next == Moment::NEVER && state.abort.is_none() {
                let stuck = self.describe_stuck(state);
                state.abort = Some(Abort::Stuck(stuck));
            }
            // The test's thread is unwound first. When its processes have been killed, the steps that still wait are
            // unwound, too.
            state.gives_up = state.is_ending;
            let is_ending = state.is_ending;
            return state.resume_waiting(|until| !is_ending || until != Until::Ended, now, self.began);
        }
    }

    /// Returns whether the run has taken too long, which it records, or whether its timers fire endlessly.
    fn is_over(&self, state: &mut State, now: Moment) -> bool {
        if state.fired.are_endless() {
            return true;
        }
        let time = if state.is_ending { self.bounds.time.saturating_add(ENDING) } else { self.bounds.time };
        let took = now.since(self.began);
        if state.turns < self.most_turns(state) && took <= time {
            return false;
        }
        if state.abort.is_none() {
            let busiest = state.trace.busiest(10);
            state.abort = Some(Abort::Endless { turns: state.turns, time: took, busiest });
        }
        true
    }

    /// Returns how many turns the run may take, and how many timers may fire without a turn.
    fn most_turns(&self, state: &State) -> u64 {
        if state.is_ending { ENDING_TURNS } else { self.bounds.turns }
    }

    /// Moves everything from the queues of the hosts' workers to the list of what is ready.
    fn sweep(&self, state: &mut State) {
        if self.has_workers(state) {
            return;
        }
        let ready = &mut state.ready;
        for SimulatedHost { scheduler, drivers } in &state.hosts {
            for index in 0..drivers * self.workers {
                let Some(thread) = scheduler.threads.get(index) else { continue };
                while let Steal::Success(token) = thread.stealer.steal() {
                    ready.push(Ready::Process(token));
                }
                ready.extend(thread.local.take_next().map(Ready::Process));
            }
            for permit in &scheduler.permits {
                ready.extend(std::iter::from_fn(|| permit.inject.pop()).map(Ready::Process));
            }
            ready.extend(std::iter::from_fn(|| scheduler.global.pop()).map(Ready::Process));
        }
    }

    /// Returns whether the scheduler decides what each worker runs. It does not while processes are ended, since the
    /// order of their ends is not a choice.
    fn has_workers(&self, state: &State) -> bool {
        self.workers > 1 && !state.is_ending
    }

    /// Chooses a worker, and takes the process that it runs next; or chooses something else that is ready. Returns
    /// `None` if no worker finds anything.
    fn choose_worker(&self, state: &mut State, played: &[PlayedHost]) -> Option<(usize, Ready)> {
        state.follow();
        let workers: smallvec::SmallVec<[&ThreadContext; 4]> =
            played.iter().flat_map(|played| played.thread.workers()).collect();
        let mut left: smallvec::SmallVec<[usize; 4]> = (0..workers.len()).collect();
        while left.len() + state.ready.len() > 0 {
            let at = state.choices.worker(left.len() + state.ready.len());
            if at >= left.len() {
                let ready = state.ready.remove(at - left.len());
                let place = match &ready {
                    Ready::Process(token) | Ready::Slowed(token) => state.place_of(token),
                    Ready::Thread(_) => 0,
                };
                return Some((place * self.workers, ready));
            }
            let worker = left.remove(at);
            if let Some(token) = workers[worker].enter(ThreadContext::find_next) {
                return Some((worker, Ready::Process(token)));
            }
        }
        // The run-next slot of a worker whose step waits is taken only now, as in production.
        state.hosts.iter().enumerate().find_map(|(place, SimulatedHost { scheduler, drivers })| {
            let mut all = (0..drivers * self.workers).filter_map(|index| scheduler.threads.get(index));
            let token = all.find_map(|thread| thread.local.take_next())?;
            Some((place * self.workers, Ready::Process(token)))
        })
    }

    /// Chooses something that is ready. Returns `None` if it is paused or slowed instead of run.
    fn choose(&self, state: &mut State, now: Moment) -> Option<NextTurn> {
        if self.is_over(state, now) {
            // Everything that is ready stays ready.
            return Some(state.resume_waiting(|_| true, now, self.began));
        }
        state.trace.name_spawned(|index| TABLE.slot(index));
        let actors: smallvec::SmallVec<[u32; 16]> = state.ready.iter().map(|ready| state.actor_of(ready)).collect();
        let touched = std::mem::take(&mut state.touched);
        state.follow();
        if state.is_ending {
            return Some(state.go_first(actors[0]));
        }
        let Some(at) = state.choices.actor(&actors, state.turns, touched) else {
            state.abort = Some(Abort::Explored);
            return Some(state.resume_waiting(|_| true, now, self.began));
        };
        let ready = state.ready.remove(at);
        self.take_turn(state, ready, None, now)
    }

    /// Makes `ready` take its turn, on `worker` if there are several. Returns `None` if it is paused or slowed instead.
    fn take_turn(&self, state: &mut State, ready: Ready, worker: Option<usize>, now: Moment) -> Option<NextTurn> {
        if self.is_over(state, now) {
            state.ready.push(ready);
            return Some(state.resume_waiting(|_| true, now, self.began));
        }
        state.trace.name_spawned(|index| TABLE.slot(index));
        let ready = state.stop_if_paused(ready, now)?;
        let actor = state.actor_of(&ready);
        let at_time = now.since(self.began);
        state.begin_turn();
        let was_slowed = matches!(ready, Ready::Slowed(_));
        match ready {
            Ready::Thread(id) => {
                state.trace.add(at_time, actor, TurnKind::Resumed);
                Some(NextTurn::Thread(state.seat(id)))
            }
            Ready::Process(token) | Ready::Slowed(token) => {
                let kind = token.slot().metadata.kind().map(|kind| kind.type_id);
                let happens = |state: &mut State, mishap| kind.and_then(|of| state.happens(mishap, of));
                let crash = happens(state, Mishap::Crash);
                if crash.is_none()
                    && !was_slowed
                    && let Some(time) = happens(state, Mishap::Slow)
                {
                    state.trace.add(at_time, actor, TurnKind::Slowed(time));
                    state.slowed.push((now.after(time), token));
                    return None;
                }
                state.trace.add(at_time, actor, if crash.is_some() { TurnKind::Crashed } else { TurnKind::Slice });
                let crash = crash
                    .map(|_| Panic { message: "a crash that the test has asked for".into(), place: String::new() });
                state.follow();
                state.note_running(actor);
                Some(match worker {
                    Some(worker) if crash.is_none() => NextTurn::UsualSlice(worker, token),
                    _ => NextTurn::Slice(token, state.choices.budget(), crash),
                })
            }
        }
    }

    /// Describes which processes wait, and for what.
    fn describe_stuck(&self, state: &State) -> Vec<String> {
        let mut lines = Vec::new();
        for waiting in &state.waiting {
            let member = state.members.iter().find(|member| member.id == waiting.id);
            if let Some(member) = member {
                lines.push(format!("{} waits for an answer or an end", state.trace.label(member.actor)));
            }
        }
        for slot in state.hosts.iter().flat_map(|host| host.scheduler.slots()) {
            let names = slot.metadata.names().map_or("?", |(process, _)| process);
            let pid = slot.living().and_then(|generation| Some(slot.owner()?.pid(slot.index(), generation)));
            let (messages, waits) = (slot.lanes.depth(), pid.and_then(crate::deadlock::edges::waits_for));
            if let Some((on, method)) = waits {
                let whom =
                    TABLE.living(on).and_then(|slot| Some(slot.metadata.names()?.0)).unwrap_or("another process");
                lines.push(match method {
                    Some(method) => format!("{names} waits for {whom}, which it has called in {method}"),
                    None => format!("{names} waits for room in the mailbox of {whom}"),
                });
            } else if messages > 0 {
                lines.push(format!("{names} has {messages} messages that it does not take"));
            }
        }
        lines
    }

    /// Lets others run until the calling thread may continue.
    fn wait(&self, until: Until) {
        let id = current_thread().id();
        let (seat, next) = {
            let mut state = self.state();
            let Some(member) = state.members.iter_mut().find(|member| member.id == id) else { return };
            if std::mem::take(&mut member.unparked) && matches!(until, Until::Unparked(_)) {
                return;
            }
            let seat = member.seat.clone();
            state.waiting.push(Waiting { id, until });
            (seat, state.idle.pop())
        };
        match next {
            Some(next) => next.give(Instruction::Go),
            None => match self.drivers.take() {
                Ok(next) => next.give(Instruction::Drive(self.this())),
                Err(error) => panic!("no thread could be started for the simulation: {error}"),
            },
        }
        seat.wait();
        let mut state = self.state();
        state.waiting.retain(|waiting| waiting.id != id);
        if let Some(member) = state.members.iter_mut().find(|member| member.id == id) {
            member.unparked = false;
        }
        let is_cut_short = (state.abort.is_some() || state.gives_up) && until != Until::Ended;
        drop(state);
        if is_cut_short {
            std::panic::resume_unwind(Box::new(Aborted));
        }
    }
}

impl State {
    /// Returns the index of the host of a process.
    fn place_of(&self, token: &Token) -> usize {
        let place = self.place_of_slot(token.slot());
        place.unwrap_or_else(|| unreachable!("a token is that of a process of a host of the simulation"))
    }

    fn place_of_slot(&self, slot: &Slot) -> Option<usize> {
        let is_its =
            |owner: &SlotOwner| self.hosts.iter().position(|host| owner.is_beside(host.scheduler.slot_owner()));
        slot.owner().and_then(is_its)
    }

    /// Sets `ready` aside if its host is paused; returns it otherwise.
    fn stop_if_paused(&mut self, ready: Ready, now: Moment) -> Option<Ready> {
        if self.paused.is_empty() {
            return Some(ready);
        }
        self.paused.retain(|_, until| *until > now);
        let place = match &ready {
            Ready::Process(token) | Ready::Slowed(token) => Some(self.place_of(token)),
            Ready::Thread(id) => {
                let member = self.members.iter().find(|member| member.id == *id);
                let slot = member.and_then(|member| TABLE.slot(self.trace.slot_of(member.actor)?));
                slot.and_then(|slot| self.place_of_slot(slot))
            }
        };
        let Some(until) = place.and_then(|place| self.paused.get(&place).copied()) else { return Some(ready) };
        match ready {
            Ready::Process(token) | Ready::Slowed(token) => self.slowed.push((until, token)),
            Ready::Thread(id) => {
                if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
                    waiting.until = Until::Unparked(until);
                }
            }
        }
        None
    }

    /// Returns whether any process has not ended.
    fn are_processes_left(&self) -> bool {
        self.hosts.iter().any(|host| host.scheduler.gate.inside() > 0)
    }

    /// Returns how long the fault lasts, if it happens now.
    fn happens(&mut self, mishap: Mishap, of: TypeId) -> Option<Duration> {
        if self.is_ending { None } else { self.faults.happens(&mut self.choices, mishap, of) }
    }

    /// Stops the replay if this run has departed from the run that it replays.
    fn follow(&mut self) {
        if self.trace.has_diverged() {
            self.choices.stop_replaying();
        }
    }

    /// Runs the first ready process or thread, whose actor number is `actor`: the order in which processes end is not a
    /// choice.
    fn go_first(&mut self, actor: u32) -> NextTurn {
        self.begin_turn();
        match self.ready.remove(0) {
            Ready::Thread(id) => NextTurn::Thread(self.seat(id)),
            Ready::Process(token) | Ready::Slowed(token) => {
                self.note_running(actor);
                NextTurn::Slice(token, crate::process::slice::BUDGET, None)
            }
        }
    }

    fn begin_turn(&mut self) {
        self.turns += 1;
        self.fired.end();
    }

    /// Records the process that the calling thread runs.
    fn note_running(&mut self, actor: u32) {
        let id = current_thread().id();
        if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
            member.actor = actor;
        }
    }

    fn seat(&self, id: ThreadId) -> Arc<Seat> {
        let member = self.members.iter().find(|member| member.id == id);
        member.map(|member| member.seat.clone()).unwrap_or_else(|| unreachable!("it waits in this run"))
    }

    fn actor_of(&self, ready: &Ready) -> u32 {
        match ready {
            Ready::Process(token) | Ready::Slowed(token) => self.trace.actor(token.slot()),
            Ready::Thread(id) => {
                self.members.iter().find(|member| member.id == *id).map_or(TEST, |member| member.actor)
            }
        }
    }

    /// Makes everything ready that waits for a moment that has come.
    fn wake(&mut self, now: Moment) {
        for waiting in &mut self.waiting {
            if matches!(waiting.until, Until::Unparked(deadline) if deadline <= now) {
                self.ready.push(Ready::Thread(waiting.id));
                waiting.until = Until::Unparked(Moment::NEVER);
            }
        }
        let mut at = 0;
        while at < self.slowed.len() {
            if self.slowed[at].0 <= now {
                self.ready.push(Ready::Slowed(self.slowed.remove(at).1));
            } else {
                at += 1;
            }
        }
    }

    /// Passes the baton to a waiting thread that `which` accepts: the test's thread if possible, otherwise the first
    /// one.
    fn resume_waiting(&mut self, which: impl Fn(Until) -> bool, now: Moment, began: Moment) -> NextTurn {
        self.fired.begin();
        let mut those = self.waiting.iter().filter(|waiting| which(waiting.until));
        let main = self.members.first().map(|member| member.id);
        let first = those.clone().find(|waiting| Some(waiting.id) == main).or_else(|| those.next());
        let id = first.map(|waiting| waiting.id).or(main).unwrap_or_else(|| unreachable!("the test is a member"));
        let at = self.ready.iter().position(|ready| matches!(ready, Ready::Thread(other) if *other == id));
        if let Some(at) = at {
            self.ready.remove(at);
        }
        let actor = self.members.iter().find(|member| member.id == id).map_or(TEST, |member| member.actor);
        self.trace.add(now.since(began), actor, TurnKind::Resumed);
        NextTurn::Thread(self.seat(id))
    }
}

impl Simulator for SimRun {
    fn park(&self, timeout: Option<Duration>) {
        let deadline = timeout.map_or(Moment::NEVER, |timeout| self.clock.moment().after(timeout));
        self.wait(Until::Unparked(deadline));
    }

    fn unpark(&self, thread: &ThreadHandle) {
        let mut state = self.state();
        let id = thread.id();
        let Some(at) = state.members.iter().position(|member| member.id == id) else {
            drop(state);
            return thread.unpark();
        };
        let actor = state.members[at].actor;
        state.touched.actors.push(actor);
        let member = &mut state.members[at];
        if is_this(thread) {
            member.unparked = true;
            return;
        }
        let is_ready = state.ready.iter().any(|ready| matches!(ready, Ready::Thread(other) if *other == id));
        match state.waiting.iter().find(|waiting| waiting.id == id) {
            Some(Waiting { until: Until::Unparked(_), .. }) if !is_ready => state.ready.push(Ready::Thread(id)),
            Some(_) => {}
            None => {
                if let Some(member) = state.members.iter_mut().find(|member| member.id == id) {
                    member.unparked = true;
                }
            }
        }
    }

    fn wait_until_idle(&self) {
        self.wait(Until::Idle);
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn is_test(&self) -> bool {
        self.state().members.first().is_some_and(|main| main.id == current_thread().id())
    }

    fn begins_to_wait(&self) {
        self.state().fired.end();
    }

    fn fired(&self) -> bool {
        let state = &mut *self.state();
        let most = self.most_turns(state);
        let hosts = &state.hosts;
        let timers = || hosts.iter().map(|host| host.scheduler.timers.len()).sum();
        if !state.fired.fired(timers, most) {
            return true;
        }
        if state.abort.is_none() {
            state.trace.name_spawned(|index| TABLE.slot(index));
            let label = |actor: Option<u32>| actor.map_or("no process".to_string(), |actor| state.trace.label(actor));
            let busiest = state.fired.busiest(10).into_iter().map(|(actor, count)| (label(actor), count)).collect();
            state.abort = Some(Abort::Livelock { timers: state.fired.count(), time: self.elapsed(), busiest });
        }
        false
    }

    fn mishap(&self, mishap: Mishap, of: TypeId) -> Option<Duration> {
        let state = &mut *self.state();
        state.happens(mishap, of)
    }

    fn touch_everything(&self) {
        self.state().touched.everything = true;
    }

    fn take_slot(&self) -> Option<u32> {
        self.touch_everything();
        let mut slots = lock(&self.slots);
        if slots.is_empty() {
            slots.extend(TABLE.lease(LEASE).into_iter().rev());
        }
        let slot = slots.pop()?;
        self.state().trace.spawned(slot);
        Some(slot)
    }

    fn return_slot(&self, index: u32) {
        self.touch_everything();
        lock(&self.slots).push(index);
    }

    fn delivered(&self, message: &'static str) {
        self.state().trace.delivered(message);
    }

    fn sent(&self, slot: u32) {
        let Some(slot) = TABLE.slot(slot) else { return };
        let state = &mut *self.state();
        if slot.living().is_some() {
            let actor = state.trace.actor(slot);
            state.touched.actors.push(actor);
            state.trace.sent(actor);
            state.fired.sent(actor);
        }
    }
}

/// The random stream of a seed from which tests draw.
const TESTS: u64 = (1 << 40) + 2;

/// The first of the random streams from which the seeds of additional nodes are drawn.
const NODES: u64 = 1 << 41;

#[cfg(test)]
mod tests {
    use super::super::campaign::Simulation;
    use crate::ProcessError;
    use crate::manual::{Events, Process, StepOutput};
    use crate::slots::SlotOwner;
    use crate::sync::{Mutex, lock};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    struct Idle;

    impl Process for Idle {
        fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            out.idle();
            Ok(())
        }
    }

    /// Counts requesters on another thread for a while, as another simulation does.
    fn ask(owner: &'static SlotOwner) {
        let (counted, are_counted) = channel();
        std::thread::spawn(move || {
            let _requesters = owner.count_requesters();
            counted.send(()).expect("the test waits");
            std::thread::sleep(Duration::from_millis(50));
        });
        are_counted.recv().expect("it counts");
    }

    /// Catches a run that uses other slots than the run before, because the host of another simulation has the record
    /// of its last host. (If the requesters are gone before the run spawns, this catches nothing.)
    #[test]
    fn the_slots_of_a_run_do_not_depend_on_requests_elsewhere() {
        let last: Mutex<Option<&SlotOwner>> = Mutex::new(None);
        let test = Simulation::new("slots").seeds(1).check(move |sim| {
            let this = sim.host().scheduler().slot_owner();
            if let Some(last) = lock(&last).replace(this) {
                ask(last);
            }
            sim.spawn_process(Idle).start().expect("it starts");
            sim.until_idle().expect("the test's thread");
        });
        if let Err(error) = test {
            panic!("{error}");
        }
    }
}
