//! Spawning a process. Everything that can refuse the process comes first, and a refusal undoes everything before it.

use super::exit::{close, release_mailbox, tell_bound};
use crate::call::dead_letter::DeadLetterReason;
use crate::engine::context::own::{STARTING, Starting, starting};
use crate::engine::context::thread::{current_pid, with_current};
use crate::engine::context::vacant::take_slot;
use crate::engine::context::values::{HAS_VALUES, replace_values, set_values, with_inherited};
use crate::engine::host::Scheduler;
use crate::engine::host::hooks::Started;
use crate::engine::host::reuse::HostRef;
use crate::env::clock::{ClockOverride, use_clock};
use crate::env::program::Acting;
use crate::errors::{InitError, SpawnError};
use crate::exit::{ExitReason, Panic};
use crate::links::registrations::REGISTRATIONS;
use crate::mailbox::bound::Bound;
use crate::mailbox::node_pool;
use crate::names::name::Name;
use crate::pid::Pid;
use crate::process::body::Body;
use crate::process::control::EndWaiter;
use crate::process::guardian::Guardian;
use crate::process::{InitContext, Process};
use crate::recorder::{event::EndKind, kind::RecordKind, recording::end_word};
use crate::slots::slot::cold_state::Values;
use crate::slots::{ProcessKind, Slot, SlotOwner, TABLE, Token};
use crate::sync::{Arc, OnceLock, Ordering, lock};
use crate::util::defer::defer;
use crate::util::panics::{Site, contain};
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::panic::Location;
use std::ptr;

/// Maximum depth of processes that spawn each other in their `init`: each `init` is nested on the stack of the first.
const DEPTH: usize = 64;

/// The cost of a spawn in the spawner's budget, in sent messages: roughly the time that it takes. Without it, a process
/// that spawns in a loop would stay ahead of its children forever, and their memory would always be cold.
const COST: u32 = 8;

/// The place where a spawn stores the PID, for a parent whose closure spawns the process and may fail afterwards.
pub(crate) type Noted = Arc<OnceLock<Pid>>;

#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) name: Option<Arc<str>>,
    /// Whether to return an existing holder of the name.
    pub(crate) or_existing: bool,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) values: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
    pub(crate) bound: SpawnerTie,
    /// The mailbox's own bound; `None` for the host's.
    pub(crate) mailbox: Option<Bound>,
    pub(crate) guardian: Option<Arc<dyn Guardian>>,
    pub(crate) noted: Option<Noted>,
    /// Whether a request to stop is delivered as a cancel with reason `Normal`.
    pub(crate) told_to_stop: bool,
}

impl Options {
    fn bound(&self) -> Result<SpawnerTie, SpawnError> {
        match self.bound.asked() {
            Some(option) if crate::engine::context::own::with_own(|_, _, _| ()).is_none() => {
                Err(SpawnError::NoProcess { option })
            }
            _ => Ok(self.bound),
        }
    }
}

/// How a process is tied to its spawner before it runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct SpawnerTie {
    pub(crate) linked: bool,
    pub(crate) monitored: bool,
    pub(crate) owned: bool,
}

impl SpawnerTie {
    /// Returns the name of an option that is set and requires a spawner.
    fn asked(self) -> Option<&'static str> {
        match self {
            Self { linked: true, .. } => Some("linked"),
            Self { monitored: true, .. } => Some("monitored"),
            Self { owned: true, .. } => Some("owned"),
            _ => None,
        }
    }
}

pub(crate) struct PendingSpawn {
    /// The generation of the host's record when the spawn was requested.
    pub(crate) generation: u32,
    pub(crate) kind: &'static ProcessKind,
    pub(crate) entry: &'static &'static str,
    pub(crate) place: &'static Location<'static>,
    pub(crate) options: Option<Box<Options>>,
    pub(crate) result: Option<Arc<dyn EndWaiter>>,
}

/// The first action of a process after its start. It occupies a whole word, like the value returned beside it: copying
/// a result as two words right after a single byte of it was written stalls on the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum First {
    Step,
    /// The process waits for input.
    Rest,
}

/// A process to be spawned, independent of where it runs. Either `close` or `into_body` is called last.
pub(crate) trait Spawnable {
    /// Returns the owner of the process's slot. Called after all checks that are possible beforehand have passed.
    fn slot_owner(&mut self) -> &'static SlotOwner;
    /// Runs the process's start, and asks whether the process traps exits. (The error is boxed, so that it is one word:
    /// returning a wider result stalls on the cache at each call.)
    fn start(&mut self, env: &Environment) -> Result<First, Box<SpawnError>>;
    fn traps_exits(&self) -> bool;
    /// Closes and drops a process that was refused. Returns the panic if either panicked.
    fn close(self, reason: &ExitReason) -> Option<ExitReason>;
    fn into_body(self) -> Body;
    /// Queues the process for its first step.
    fn queue(host: &'static Scheduler, token: Token);
}

#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) host: &'static Scheduler,
    pub(crate) pid: Pid,
    pub(crate) parent: Option<Pid>,
    /// The values that the process passes on to the processes that it spawns.
    pub(crate) values: Option<Values>,
    pub(crate) depth: usize,
}

/// A process that runs on the workers, and starts on the spawner's thread.
struct OnAnyWorker<P, F> {
    host: &'static Scheduler,
    process: P,
    start: Option<F>,
    traps: bool,
}

impl<P, F> Spawnable for OnAnyWorker<P, F>
where
    P: Process + Send,
    F: FnOnce(&mut P, &mut InitContext<'_>) -> Result<First, InitError>,
{
    #[inline]
    fn slot_owner(&mut self) -> &'static SlotOwner {
        self.host.slot_owner()
    }

    #[inline]
    fn start(&mut self, env: &Environment) -> Result<First, Box<SpawnError>> {
        let Some(start) = self.start.take() else { return Err(Box::new(SpawnError::Used)) };
        let Self { process, traps, .. } = self;
        self.host.within_reactor(|| {
            let started = start(process, &mut InitContext::of(env.pid, env.parent));
            let first = started.map_err(|error| Box::new(SpawnError::from(error)))?;
            *traps = process.traps_exits();
            Ok(first)
        })
    }

    #[inline]
    fn traps_exits(&self) -> bool {
        self.traps
    }

    fn close(self, reason: &ExitReason) -> Option<ExitReason> {
        close(Body::new(self.process), reason)
    }

    #[inline]
    fn into_body(self) -> Body {
        Body::new(self.process)
    }

    #[inline]
    fn queue(host: &'static Scheduler, token: Token) {
        with_current(|context| match context {
            Some(context) if ptr::eq(context.host, host) => context.push_next(token),
            _ => host.push_global(token),
        });
    }
}

/// Fails if a simulated test wants the start of a process of this kind to fail.
fn simulated_start(kind: &ProcessKind) -> Result<(), Box<SpawnError>> {
    use crate::sync::simulated::{Mishap, mishap};
    match mishap(Mishap::Start, kind.type_id) {
        None => Ok(()),
        Some(_) => {
            let panic = Panic { message: "a failed start that the test has asked for".into(), place: String::new() };
            Err(Box::new(SpawnError::Init(InitError::Panicked(panic))))
        }
    }
}

impl Scheduler {
    #[inline]
    pub(crate) fn spawn<P: Process + Send>(
        &'static self,
        pending: &mut PendingSpawn,
        process: P,
        start: impl FnOnce(&mut P, &mut InitContext<'_>) -> Result<First, InitError>,
    ) -> Result<Pid, SpawnError> {
        self.start_process(pending, OnAnyWorker { host: self, process, start: Some(start), traps: false })
    }

    /// Spawns a process, consuming parts of `pending`: reserves a slot, opens it, begins the process, and equips and
    /// queues it. A stage that fails undoes the earlier ones.
    #[inline]
    pub(crate) fn start_process<N: Spawnable>(
        &'static self,
        pending: &mut PendingSpawn,
        mut spawned: N,
    ) -> Result<Pid, SpawnError> {
        let Starting { depth, process: starting } = STARTING.get();
        if depth >= DEPTH {
            return Err(SpawnError::Depth { depth });
        }
        let (tie, mailbox) = match &pending.options {
            None => (SpawnerTie::default(), None),
            Some(options) => (options.bound()?, options.mailbox.map(Bound::check).transpose()?),
        };
        let token = self.reserve()?;
        let parent = starting.map(|(_, pid)| pid).or_else(current_pid);
        let (mut token, pid) = self.open(token, spawned.slot_owner(), pending, parent, mailbox)?;
        let values = with_inherited(pending.options.as_ref().map(|options| &options.values));
        let env = Environment { host: self, pid, parent, values, depth: depth + 1 };
        let inside = Inside::enter(&env);
        let first = match self.begin(&token, pending, &mut spawned, &env) {
            Ok(first) => first,
            Err(error) => {
                let mut spawned = Some(spawned);
                self.undo_start(token, pid, &mut |reason| spawned.take()?.close(reason), &error);
                return Err(*error);
            }
        };
        drop(inside);
        self.equip(&mut token, pid, pending, env.values, spawned.traps_exits());
        if tie.asked().is_some() {
            bind(tie, &mut token, pid);
        }
        *token.body() = Some(spawned.into_body());
        // The token is parked, or the process queued for its first step.
        let token = if first == First::Rest { token.park_idle() } else { Some(token) };
        if let Some(token) = token {
            N::queue(self, token.release());
        }
        Ok(pid)
    }

    /// Takes a vacant slot, and counts its process against the limit of the host.
    #[inline(always)]
    fn reserve(&'static self) -> Result<Token, SpawnError> {
        if !self.take_place() {
            return Err(SpawnError::Limit { limit: self.config.limit.unwrap_or(usize::MAX) });
        }
        take_slot().ok_or_else(|| {
            self.give_place_back();
            SpawnError::Slots
        })
    }

    /// Opens the slot for a process, and thereby gives the process its PID. Then takes the process through the gate of
    /// the host.
    #[inline(always)]
    fn open(
        &'static self,
        mut token: Token,
        owner: &'static SlotOwner,
        pending: &PendingSpawn,
        parent: Option<Pid>,
        mailbox: Option<Bound>,
    ) -> Result<(Token, Pid), SpawnError> {
        node_pool::spend(COST);
        self.write_metadata(&mut token, pending, parent);
        let pid = token.open(owner);
        // A hard bound of the host becomes each mailbox's own.
        if let Some(bound) = mailbox.or(Some(self.config.mailbox).filter(|bound| matches!(bound, Bound::Hard(..)))) {
            crate::engine::backpressure::state::set_bound(token.slot(), pid.generation(), bound);
        }
        if let Some(Options { guardian, told_to_stop, .. }) = pending.options.as_deref() {
            // This precedes the gate, since the thread that closes the gate sends no cancel to supervised processes.
            token.describe(guardian.is_some(), *told_to_stop);
        }
        // The process is in the table before it passes the gate: a thread that closes the gate, and then visits all
        // processes to signal them, finds each one that was admitted. (The barriers of the gate order the two.)
        if self.enter(pending.generation) {
            return Ok((token, pid));
        }
        token.close();
        TABLE.take_back(token);
        self.give_place_back();
        Err(SpawnError::Shutdown)
    }

    /// Admits the process, and runs its start: the call to its entry, up to the first step. The caller is
    /// [inside](Inside) the process.
    #[inline(always)]
    fn begin<N: Spawnable>(
        &'static self,
        token: &Token,
        pending: &PendingSpawn,
        spawned: &mut N,
        env: &Environment,
    ) -> Result<First, Box<SpawnError>> {
        let name = pending.options.as_ref().and_then(|options| options.name.as_ref());
        if name.is_some() || self.is_observed() {
            self.admit(token, env.pid, name).map_err(Box::new)?;
        }
        simulated_start(pending.kind)?;
        let outcome = contain(Site::Start, || spawned.start(env));
        let outcome = outcome.unwrap_or_else(|panic| Err(Box::new(SpawnError::Init(InitError::Panicked(panic)))));
        outcome.inspect_err(|_| {
            if self.is_observed() {
                self.note_end(token.slot(), env.pid, EndKind::NotStarted);
                self.with_user(|user| user.hooks.undo(&self.describe(token.slot(), env.pid)));
            }
        })
    }

    /// Stores the data that only few processes need.
    #[inline(always)]
    fn equip(
        &self,
        token: &mut Token,
        pid: Pid,
        pending: &mut PendingSpawn,
        values: Option<Values>,
        traps_exits: bool,
    ) {
        if pending.options.is_some() || pending.result.is_some() || values.is_some() {
            self.keep_cold_state(token, pid, pending, values);
        }
        if traps_exits {
            let cold_state = token.make_cold_state();
            // The process's own choice in its entry takes precedence.
            if !cold_state.chose_to_trap {
                cold_state.links().trap(true);
            }
        }
    }

    fn write_metadata(&self, token: &mut Token, pending: &PendingSpawn, parent: Option<Pid>) {
        let slot = token.slot();
        let metadata = &slot.metadata;
        metadata.kind.store(ptr::from_ref(pending.kind).cast_mut(), Ordering::Release);
        metadata.entry.store(ptr::from_ref(pending.entry).cast_mut(), Ordering::Release);
        metadata.place.store(ptr::from_ref(pending.place).cast_mut(), Ordering::Release);
        metadata.set_parent(parent);
        metadata.outstanding.store(0, Ordering::Relaxed);
        // No permit has run it: the first wake from outside goes to the global queue.
        slot.permit.clear();
    }

    /// Performs the checks that may refuse a process before its own code runs: the registration of its name, and the
    /// hooks.
    fn admit(&'static self, token: &Token, pid: Pid, name: Option<&Arc<str>>) -> Result<(), SpawnError> {
        if let Some(name) = name {
            self.names.register(&Name::new(name.clone())?, pid)?;
        }
        if self.is_observed() {
            self.note_spawn(token.slot(), pid);
            let started = self.describe(token.slot(), pid);
            let verdict = self.with_user(|user| user.hooks.start(&started)).ok_or(SpawnError::Shutdown);
            if let Err(error) = verdict.and_then(|verdict| verdict.map_err(SpawnError::Refused)) {
                self.note_end(token.slot(), pid, EndKind::NotStarted);
                return Err(error);
            }
        }
        Ok(())
    }

    fn keep_cold_state(&self, token: &mut Token, pid: Pid, pending: &mut PendingSpawn, values: Option<Values>) {
        let (options, result) = (pending.options.take(), pending.result.take());
        if let Some(noted) = options.as_ref().and_then(|options| options.noted.as_ref()) {
            let _first = noted.set(pid);
        }
        let (label, guardian) = options.map_or((None, None), |options| (options.label, options.guardian));
        if label.is_none() && values.is_none() && result.is_none() && guardian.is_none() {
            return;
        }
        if let Some(guardian) = &guardian {
            guardian.started(pid);
        }
        let labelled = label.is_some();
        if let Some(label) = label {
            lock(&self.labels).insert(pid, label);
        }
        token.set_checks_cold_state(values.is_some());
        // The start may have created it already.
        let cold_state = token.make_cold_state();
        (cold_state.result, cold_state.values, cold_state.labelled) = (result, values, labelled);
        cold_state.guardian = guardian;
    }

    #[cold]
    fn undo_start(
        &'static self,
        mut token: Token,
        pid: Pid,
        close: &mut dyn FnMut(&ExitReason) -> Option<ExitReason>,
        error: &SpawnError,
    ) {
        let reason = ExitReason::error(crate::util::panics::text(error));
        token.close();
        if let Some(panic) = close(&reason) {
            crate::util::log::error!(%panic, "the close of a process that did not start panicked");
        }
        REGISTRATIONS.end(pid, &reason);
        while let Some(envelope) = token.lanes().pop_data() {
            token.dead_letter(envelope, DeadLetterReason::Ended, &reason);
        }
        release_mailbox(&token, &reason);
        if let Some(links) = token.take_cold_state().and_then(|cold_state| cold_state.links) {
            tell_bound(token.slot(), pid, *links, &reason);
        }
        TABLE.take_back(token);
        self.leave();
        self.give_place_back();
    }

    #[cold]
    fn note_spawn(&'static self, slot: &Slot, pid: Pid) {
        if self.recorder.is_sampling() {
            let parent = slot.metadata.parent(self.node()).filter(|parent| parent.place() == pid.place());
            let name = slot.metadata.kind().map(|kind| &kind.name);
            self.recorder.note(RecordKind::Spawn, pid.incarnation(), parent.map_or(0, Pid::incarnation), name);
        }
    }

    /// Records the end of a process.
    #[cold]
    pub(crate) fn note_end(&'static self, slot: &Slot, pid: Pid, why: EndKind) {
        // Abnormal ends are recorded even when no samples are taken: they show why a supervisor gives up.
        if self.recorder.is_sampling() || self.recorder.is_on() && why != EndKind::Normal {
            let name = slot.metadata.kind().map(|kind| &kind.name);
            self.recorder.note(RecordKind::End, pid.incarnation(), end_word(why), name);
        }
    }

    #[cold]
    pub(crate) fn label(&self, pid: Pid) -> Option<Arc<str>> {
        lock(&self.labels).get(&pid).cloned()
    }

    pub(crate) fn describe(&self, slot: &Slot, pid: Pid) -> Started {
        let metadata = &slot.metadata;
        let (process, entry) = metadata.names().unwrap_or(("?", "?"));
        Started { pid, process, entry, parent: metadata.parent(self.node()) }
    }
}

/// Ties a process to its spawner before the process runs. The spawner runs or starts on this thread.
fn bind(bound: SpawnerTie, token: &mut Token, child: Pid) {
    crate::engine::context::own::with_own(|_, me, cold_state| {
        let (links, spawned) = (cold_state.links(), token.make_cold_state().links());
        if bound.linked {
            links.link_child(me, spawned, child);
        }
        if bound.monitored {
            links.watch_child(me, spawned, child);
        }
        if bound.owned {
            links.own_child(me, spawned, child);
        }
    });
}

/// While this guard is alive, the thread starts a process: what is spawned in the meantime is a child of that process,
/// on its host.
pub(crate) struct Inside {
    outer: Starting,
    /// The thread's previous values, if those or the new values exist.
    values: Option<Option<Values>>,
    clock_override: ClockOverride,
    _acting: Acting,
}

impl Inside {
    #[inline]
    pub(crate) fn enter(env: &Environment) -> Self {
        let outer = STARTING.replace(Starting { depth: env.depth, process: Some((env.host, env.pid)) });
        let values = (env.values.is_some() || HAS_VALUES.get()).then(|| replace_values(env.values.clone()));
        Self {
            outer,
            values,
            clock_override: use_clock(env.host.clock_override()),
            _acting: Acting::begin(env.host.node()),
        }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        STARTING.set(self.outer);
        use_clock(self.clock_override);
        if let Some(values) = self.values.take() {
            set_values(values);
        }
    }
}

/// Runs `body` while another thread starts the process. The actions of `body` are not part of the start.
pub(crate) fn while_started_elsewhere<R>(env: &Environment, body: impl FnOnce() -> R) -> R {
    let outer = STARTING.replace(Starting { depth: env.depth, process: None });
    let _restore = defer(|| STARTING.set(outer));
    body()
}

/// Returns the host whose process the calling thread runs or starts.
pub(crate) fn current_host() -> Option<&'static Scheduler> {
    starting().map(|(host, _)| host).or_else(|| with_current(|context| context.map(|context| context.host)))
}

/// Returns [`current_host`] with its current generation.
#[inline]
pub(crate) fn current_host_ref() -> Option<HostRef> {
    current_host().map(|scheduler| HostRef { scheduler, generation: scheduler.generation() })
}
