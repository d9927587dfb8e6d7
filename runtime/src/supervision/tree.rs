//! Handles of supervisors.

use super::child::{Child, Spec};
use super::driver::{Add, ChildRequest, Redefine};
use super::plan::child::AfterExit;
use super::show::{self, ChildInfo, short};
use super::{errors::ChildError, plan::Strategy, registry::ChildRegistry};
use crate::actor::send::{Addressed, Ended};
use crate::api::child_spawn::{AnyRegistry, Spawned};
use crate::{
    Address, ChildSpawn, ExitReason, Host, Pid, actor::definition::Actor, routing::alias, slots::ProcessKind,
    sync::lock,
};
use std::any::{TypeId, type_name};
use std::{error::Error, fmt, sync::Arc};

/// A handle of a supervisor and its children. Cheap to clone; dropping it does not stop anything.
///
/// It prints as a tree, one line per child, with the children of supervisors indented:
///
/// ```
/// use postroom::prelude::*;
/// use postroom::supervision::Supervisor;
///
/// # #[process] struct Disk;
/// # #[process]
/// # impl Disk { #[entry] fn serve(&mut self) {} }
/// let runtime = Runtime::new()?;
/// let tree = Supervisor::one_for_all()
///     .child("disk", |spawn| spawn.of(Disk).serve())
///     .child("caches", |spawn| {
///         let caches = Supervisor::one_for_one().child("pages", |spawn| spawn.of(Disk).serve());
///         caches.spawn(spawn)
///     })
///     .spawn(&runtime)?;
/// let pages: Address<Disk> = tree.tree("caches")?.child("pages")?;
/// # let _ = pages;
/// let text = tree.to_string();
/// let lines: Vec<&str> = text.lines().collect();
/// assert!(lines[0].starts_with("one_for_all <"));
/// assert!(lines[1].starts_with("  disk: Disk <") && lines[1].ends_with("> running"));
/// assert!(lines[2].starts_with("  caches: one_for_one <"));
/// assert!(lines[3].starts_with("    pages: Disk <"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Tree {
    pid: Pid,
    registry: Arc<ChildRegistry>,
}

/// Returns the address of the child called `name`, if it is a `P`.
pub(super) fn address_of<P: Addressed + ?Sized>(
    registry: &ChildRegistry,
    name: &str,
) -> Result<Address<P>, ChildError> {
    let (slot, pid) = registry.find(name)?;
    let (name, expected) = (slot.short_name(), P::LABEL);
    if let Some(registry) = ChildRegistry::of(&slot) {
        let found = format!("{} supervisor", registry.strategy().name());
        return Err(ChildError::Type { name, expected, found });
    }
    // Unless its closure returns an address, the protocols that the child implements are known only from its process.
    let wanted = TypeId::of::<P>();
    let fits = |kind: &&ProcessKind| if P::IS_PROTOCOL { (kind.answers)(wanted) } else { kind.type_id == wanted };
    let kinds = [slot.next_kind(), pid.resolve().and_then(alias::kind)];
    if kinds.iter().flatten().any(fits) {
        return Ok(Address::new(pid));
    }
    match kinds.into_iter().flatten().next() {
        Some(kind) => Err(ChildError::Type { name, expected, found: short((kind.name)()).to_string() }),
        None => Err(ChildError::Untyped { name }),
    }
}

impl Tree {
    pub(super) fn new(pid: Pid, registry: Arc<ChildRegistry>) -> Self {
        Self { pid, registry }
    }

    /// Returns the PID of the supervisor, or its alias if it is itself a child.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the address of a child. It stays valid when the child is restarted, and, if the supervisor is itself a
    /// child, when the supervisor is restarted.
    ///
    /// `child::<Disk>(name)` checks that the child is a `Disk`, `child::<dyn Storage>(name)` that it implements
    /// `Storage`.
    ///
    /// # Errors
    /// Returns a [`ChildError`] if there is no such child, if it has another type, or if it does not implement the
    /// protocol.
    pub fn child<P: Addressed + ?Sized>(&self, name: &str) -> Result<Address<P>, ChildError> {
        address_of(&self.registry, name)
    }

    /// Returns the alias of a child, whatever its type.
    ///
    /// # Errors
    /// Returns [`ChildError::Unknown`] if there is no such child.
    pub fn child_pid(&self, name: &str) -> Result<Pid, ChildError> {
        self.registry.find(name).map(|(_, pid)| pid)
    }

    /// Returns the tree of a child that is a supervisor. Like an address, the tree stays valid across restarts.
    ///
    /// # Errors
    /// Returns a [`ChildError`] if there is no such child, or if it is not a supervisor.
    pub fn tree(&self, name: &str) -> Result<Self, ChildError> {
        let (slot, pid) = self.registry.find(name)?;
        match ChildRegistry::of(&slot) {
            Some(registry) => Ok(Self { pid, registry }),
            None => {
                let kind = slot.next_kind().or_else(|| alias::kind(pid));
                let found = kind.map_or_else(|| "process".to_string(), |kind| short((kind.name)()).to_string());
                Err(ChildError::NoTree { name: slot.short_name(), found })
            }
        }
    }

    /// Adds a child to a [`dynamic`](super::Supervisor::dynamic) supervisor, and returns its address at once: the child
    /// is started on a worker, and messages that are sent before it has started wait for it. A start that fails is
    /// retried like any other failure.
    ///
    /// # Errors
    /// Returns a [`ChildError`] if the supervisor is not dynamic or has ended, or if another child has the name.
    pub fn start<S>(&self, child: Child<S>) -> Result<Address<S::Process>, ChildError>
    where
        S: Spawned<Process: Actor>,
    {
        self.begin(child.spec).map(Address::new)
    }

    /// Like [`start`](Self::start), for a child of any type, such as a [`Tree`] or a hand-written process. Returns its
    /// alias.
    ///
    /// # Errors
    /// Returns the same errors as [`Tree::start`].
    pub fn start_any<S>(&self, child: Child<S>) -> Result<Pid, ChildError> {
        self.begin(child.spec)
    }

    fn begin(&self, spec: Spec) -> Result<Pid, ChildError> {
        let strategy = self.registry.strategy();
        if strategy != Strategy::Dynamic {
            return Err(ChildError::Fixed { strategy: strategy.name() });
        }
        let host = Host::of(self.pid).ok_or(ChildError::Gone(self.pid))?;
        let slot = spec.slot(host.scheduler());
        let Some(pid) = self.registry.add(slot.clone()) else {
            return Err(ChildError::Duplicate { name: slot.short_name() });
        };
        let add = Add { slot: slot.clone(), rules: spec.rules, start: spec.start };
        self.ask(add).inspect_err(|_| {
            let waits = slot.shut(&ExitReason::NoProcess);
            self.registry.remove(&slot);
            waits.tell(&ExitReason::NoProcess);
        })?;
        Ok(pid)
    }

    /// Stops a child. The child stays down, and a dynamic child is removed. Returns without waiting. To wait for the
    /// child's end, `join` its PID first; after that end, the name of a dynamic child is free.
    ///
    /// # Errors
    /// Returns a [`ChildError`] if there is no such child, or if the supervisor has ended.
    pub fn stop_child(&self, name: &str) -> Result<(), ChildError> {
        let (slot, _) = self.registry.find(name)?;
        // The child may end by itself before the supervisor handles the request; then it must stay down, too.
        *lock(&slot.after) = AfterExit::Stay;
        self.ask(ChildRequest::Stop(slot))
    }

    /// Stops a child and starts it again without delay. A child that is down is only started. The restart does not
    /// count as a failure, and affects no other child. Returns without waiting.
    ///
    /// # Errors
    /// Returns the same errors as [`Tree::stop_child`].
    pub fn restart_child(&self, name: &str) -> Result<(), ChildError> {
        let (slot, _) = self.registry.find(name)?;
        self.ask(ChildRequest::Restart(slot))
    }

    /// Replaces the closure that starts a child, from its next start on. The running process continues; its address,
    /// name, restart rules and kept messages stay. Returns without waiting.
    ///
    /// Use it for a child that is [upgraded](Pid::upgrade): otherwise a restart uses the old definition, from the
    /// closure that the supervisor was built with. Call it before the upgrade, so that a failure in between restarts
    /// the new definition. When this supervisor is itself restarted, it is built anew from its original closures.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use postroom::supervision::Supervisor;
    ///
    /// #[process] struct Counter { count: u64 }
    /// #[process]
    /// impl Counter { #[entry] fn serve(&mut self) {} #[message] fn add(&mut self) { self.count += 1; } }
    /// #[process] struct Tally { sum: u64 }
    /// #[process]
    /// impl Tally { #[entry] fn serve(&mut self) {} #[message] fn sum(&self) -> u64 { self.sum } }
    ///
    /// let runtime = Runtime::new()?;
    /// let tree = Supervisor::one_for_one()
    ///     .child("count", |spawn| spawn.of(Counter { count: 0 }).serve())
    ///     .spawn(&runtime)?;
    /// let counter: Address<Counter> = tree.child("count")?;
    /// counter.add().wait()?;
    ///
    /// tree.redefine("count", |spawn| spawn.of(Tally { sum: 0 }).serve())?;
    /// let tally = counter.pid().upgrade(|old: Counter| Tally { sum: old.count }).wait()?;
    /// assert_eq!(tally.sum().wait()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Tree::stop_child`], and [`ChildError::NoTree`] or [`ChildError::Type`] if a
    /// supervisor would replace a process, or vice versa.
    pub fn redefine<S, E>(
        &self,
        name: &str,
        start: impl FnMut(ChildSpawn) -> Result<S, E> + Send + 'static,
    ) -> Result<(), ChildError>
    where
        S: Spawned,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let (slot, _) = self.registry.find(name)?;
        let Spec { start, kind, is_tree, .. } = Child::new(name, start).spec;
        match ChildRegistry::of(&slot) {
            Some(registry) if !is_tree => {
                let (expected, found) =
                    (type_name::<S::Process>(), format!("{} supervisor", registry.strategy().name()));
                Err(ChildError::Type { name: slot.short_name(), expected: short(expected), found })
            }
            None if is_tree => {
                let found = slot.next_kind().map_or("process", |kind| short((kind.name)())).to_string();
                Err(ChildError::NoTree { name: slot.short_name(), found })
            }
            _ => self.ask(Redefine { slot, kind, start }),
        }
    }

    fn ask<M: Send + 'static>(&self, what: M) -> Result<(), ChildError> {
        crate::routing::router::send(self.pid, what).map_err(|_| ChildError::Gone(self.pid))
    }

    /// Returns a snapshot of the children, in order of addition. After the supervisor's end, it shows their last
    /// states.
    pub fn children(&self) -> Vec<ChildInfo> {
        show::children(&self.registry)
    }

    /// Asks the supervisor to stop its children in reverse order and then to end. Returns whether it was alive.
    pub fn stop(&self) -> bool {
        self.pid.stop()
    }

    /// Waits for the end of the supervisor. The supervisor ends after its children. Await the result, or call `wait` on
    /// a plain thread. A supervisor that gave up ends with an error that contains a [`GaveUp`](super::GaveUp).
    pub fn join(&self) -> Ended {
        // If the supervisor had already ended, the registry has the reason.
        self.pid.join().or_known(self.registry.supervisor().1)
    }
}

/// Lets the closure of a child return a supervisor.
impl Spawned for Tree {
    type Process = ();

    const IS_TREE: bool = true;

    fn pid(&self) -> Pid {
        self.pid
    }

    fn subtree(&self) -> Option<AnyRegistry> {
        Some(self.registry.clone())
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show::write(&self.registry, f)
    }
}

crate::util::debug::impl_debug!([] Tree, self => "Tree{}", self.pid);
