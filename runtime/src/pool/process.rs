//! The process of a pool: it starts the members and handles their exits, and operations on the pool's PID apply to it.

use super::plan::{PoolAction, Unstarted};
use super::router::{LaneKey, PoolRouter};
use crate::api::child_spawn::returned_another;
use crate::call::dead_letter::{DeadLetterReason, Internal};
use crate::engine::lifecycle::spawn::Noted;
use crate::process::{Event, Events, InitContext, Process, StepOutput};
use crate::sync::{Arc, Mutex, lock};
use crate::util::panics::{Shown, Site, contain};
use crate::{
    CallError, ChildSpawn, ExitReason, Host, InitError, Package, Pid, ProcessError, Signal, SpawnError,
    actor::send::links::monitor_child, process::output::StepStatus, routing::alias::Alias,
};
use std::collections::BTreeMap;

pub(crate) type MemberFactory<K> = Box<dyn FnMut(ChildSpawn, &K) -> Result<Pid, SpawnError> + Send>;

pub(crate) struct PoolProcess<K: LaneKey> {
    router: Arc<PoolRouter<K>>,
    /// The PID of the pool. Dropped when the pool is over, so that the PID no longer leads anywhere.
    alias: Option<Alias>,
    host: Host,
    factory: MemberFactory<K>,
    /// Error from starting the first members, for the thread that spawns the pool.
    error: Arc<Mutex<Option<SpawnError>>>,
    /// Members whose PIDs are aliases, keyed by the PIDs of their current processes.
    aliases: BTreeMap<Pid, Pid>,
    /// The exit reason, unless the pool was drained.
    reason: ExitReason,
}

impl<K: LaneKey> PoolProcess<K> {
    pub(crate) fn new(
        router: Arc<PoolRouter<K>>,
        alias: Alias,
        host: Host,
        factory: MemberFactory<K>,
        error: Arc<Mutex<Option<SpawnError>>>,
    ) -> Self {
        Self { router, alias: Some(alias), host, factory, error, aliases: BTreeMap::new(), reason: ExitReason::Normal }
    }

    fn start(&mut self, key: &K) -> Result<(), SpawnError> {
        let Self { factory, host, .. } = self;
        let noted = Noted::default();
        let started = contain(Site::MemberStart, || factory(ChildSpawn::owned(*host, noted.clone()), key));
        let started = started.unwrap_or_else(|panic| Err(SpawnError::Init(InitError::Panicked(panic))));
        let started = started.and_then(|pid| check(&noted, pid));
        match started {
            Ok(pid) => {
                // Monitors the member even if the closure spawned it in another way.
                if let Ok(named) = monitor_child(pid)
                    && named != pid
                {
                    self.aliases.insert(named, pid);
                }
                self.router.count(|counted| counted.started += 1);
                if self.router.kind.get().is_none()
                    && let Some(kind) = crate::routing::alias::kind(pid)
                {
                    let _first = self.router.kind.set(kind);
                }
                self.router.tell(|plan, now| plan.started(now, key, pid));
                Ok(())
            }
            Err(error) => {
                // The closure failed after it had spawned the member, or returned another process.
                if let Some(pid) = noted.get() {
                    pid.kill();
                }
                let why = match &error {
                    SpawnError::Shutdown => Unstarted::NoRoom(ExitReason::Shutdown),
                    SpawnError::Limit { .. } | SpawnError::Slots => {
                        Unstarted::NoRoom(ExitReason::error(error.to_string()))
                    }
                    _ => Unstarted::Failed(ExitReason::error(error.to_string())),
                };
                self.router.tell(|plan, now| plan.unstarted(now, key, &why));
                Err(error)
            }
        }
    }

    /// Ends the pool without handling its queue.
    fn cancel(&mut self, reason: ExitReason) {
        for package in self.router.tell(|plan, _| plan.end_with(reason.clone())) {
            self.router.fail(package, DeadLetterReason::Ended, CallError::Gone(reason.clone()));
        }
        for member in self.router.look(|plan, _| plan.all()) {
            // The pool ends after its members; otherwise a successor would find their names and files taken.
            match reason {
                ExitReason::Killed => member.kill(),
                _ => member.cancel(reason.clone()),
            };
        }
        // The plan may stop idle members only now: the first request that a member gets determines its exit reason.
        self.router.tell(|plan, now| plan.drain(now));
        self.reason = reason;
    }

    /// Executes an action of the plan.
    fn act(&mut self, action: PoolAction<K, Package>, out: &mut StepOutput<'_>) {
        match action {
            PoolAction::Start(key) if !self.router.look(|plan, _| plan.wants(&key)) => {
                self.router.tell(|plan, now| plan.unstarted(now, &key, &Unstarted::Unwanted));
            }
            PoolAction::Start(key) => {
                // Messages that only this member could have handled have already failed with the error.
                if let Err(error) = self.start(&key) {
                    let (pool, error) = (self.pool(), Shown(&error));
                    crate::util::log::warn!(pool, %error, "a member of a pool could not be started");
                }
            }
            PoolAction::GiveUp(reason) => {
                let (pool, shown) = (self.pool(), Shown(&reason));
                crate::util::log::error!(pool, reason = %shown, "the members of a pool fail too often: it gives up");
                self.reason = reason;
            }
            PoolAction::Over => out.set(StepStatus::Ended(self.reason.clone(), None)),
            // The router executes all other actions.
            _ => {}
        }
    }

    fn pool(&self) -> Option<impl tracing::Value + use<K>> {
        self.alias.as_ref().map(|alias| tracing::field::display(alias.pid()))
    }
}

/// Checks what the closure returned. If it spawned a process through its `ChildSpawn`, it must return that process or
/// an alias of it.
fn check(noted: &Noted, pid: Pid) -> Result<Pid, SpawnError> {
    match noted.get() {
        Some(spawned) if *spawned != pid && pid.resolve() != Some(*spawned) => {
            Err(SpawnError::Init(InitError::failed(returned_another(spawned, pid))))
        }
        _ => Ok(pid),
    }
}

impl<K: LaneKey> Process for PoolProcess<K> {
    fn init(&mut self, ctx: &mut InitContext<'_>, _: &str, _: crate::Payloads) -> Result<(), InitError> {
        if let Some(pid) = ctx.pid() {
            let _first = self.router.process.set(pid);
        }
        let first = self.router.look(|plan, _| {
            plan.open();
            std::iter::from_fn(|| plan.action()).collect::<Vec<_>>()
        });
        for action in first {
            if let PoolAction::Start(key) = action
                && let Err(error) = self.start(&key)
            {
                let text = error.to_string();
                *lock(&self.error) = Some(error);
                return Err(InitError::failed(text));
            }
        }
        Ok(())
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        events.hold_stop();
        while let Some(event) = events.next() {
            match event {
                Event::Message(package) => {
                    // Any other message is dropped: it was sent to the PID of this process itself, which has no
                    // methods.
                    let action = package.take::<Internal>().map(|Internal(action)| action.take());
                    if let Ok(Ok(action)) = action {
                        self.act(action, out);
                    }
                }
                Event::Signal(Signal::Down(down)) => {
                    let member = self.aliases.remove(&down.pid).unwrap_or(down.pid);
                    if self.router.tell(|plan, now| plan.down(now, member, &down.reason)) {
                        let (pool, reason) = (self.pool(), Shown(&down.reason));
                        crate::util::log::warn!(pool, %member, %reason, "a member of a pool failed");
                    }
                }
                Event::Signal(Signal::Cancel(cancel)) => match cancel.reason {
                    ExitReason::Normal => self.router.tell(|plan, now| plan.drain(now)),
                    reason => self.cancel(reason),
                },
                Event::Signal(_) | Event::Completed { .. } => {}
            }
        }
        Ok(())
    }

    fn handles_cancel(&self) -> bool {
        true
    }

    fn close(&mut self) {
        drop(self.alias.take());
        // The process was killed at the deadline of a shutdown, or has ended. This thread knows the exit reason, and
        // the dropped callers get it.
        let (left, members) = self.router.close();
        // Members that the pool owns are told to end through their link. Members that were spawned in another way must
        // be told here.
        for member in members {
            member.cancel(ExitReason::Shutdown);
        }
        drop(left);
    }
}
