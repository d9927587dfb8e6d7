//! Building and spawning a supervisor.

use super::child::{Child, Spec};
use super::child_slot::{ChildSlot, Subtree};
use super::plan::intensity::{self, Intensity};
use super::plan::{Strategy, SupervisorPlan};
use super::{
    driver::SupervisorProcess, errors::SupervisorError, place::SpawnPlace, plan::backoff::Backoff,
    registry::ChildRegistry, tree::Tree,
};
use crate::{Bound, ChildSpawn, ExitReason, actor::spawn::SpawnProcess, api::child_spawn::Spawned};
use std::sync::{Arc, Weak};
use std::{collections::BTreeSet, error::Error, fmt, panic::Location, time::Duration};

/// A supervisor that is about to be spawned. It starts its children in order, restarts those that fail, and stops them
/// in reverse order.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::supervision::{Backoff, Supervisor};
/// use std::time::Duration;
///
/// #[process]
/// #[derive(Default)]
/// struct Parser { lines: u64 }
///
/// #[process]
/// impl Parser {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn parse(&mut self, line: String) -> usize { self.lines += 1; line.parse().unwrap() }
///     #[message]
///     fn lines(&self) -> u64 { self.lines }
/// }
///
/// let runtime = Runtime::new()?;
/// let tree = Supervisor::one_for_one()
///     .intensity(5, Duration::from_secs(10))
///     .backoff(Backoff::exponential(Duration::from_millis(1), Duration::from_secs(30)))
///     .child("parser", |spawn| spawn.of(Parser::default()).serve())
///     .spawn(&runtime)?;
/// let parser: Address<Parser> = tree.child("parser")?; // stays valid across restarts
///
/// let running = parser.pid().join();
/// assert!(parser.parse("not a number".to_string()).wait().is_err());
/// assert!(matches!(running.wait(), ExitReason::Panic(_)));
/// while parser.lines().wait().is_err() {} // until it has been started again
/// assert_eq!(tree.children()[0].restarts, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// By default, a supervisor allows five restarts within ten seconds, with the delays of [`Backoff::default`].
#[must_use = "nothing is started until `.spawn(…)`"]
pub struct Supervisor {
    strategy: Strategy,
    most: u32,
    within: Duration,
    backoff: Backoff,
    name: Option<Arc<str>>,
    children: Vec<Spec>,
}

impl Supervisor {
    fn of(strategy: Strategy) -> Self {
        let (most, within) = intensity::DEFAULT;
        Self { strategy, most, within, backoff: Backoff::default(), name: None, children: Vec::new() }
    }

    /// Describes a supervisor that restarts only the child that failed.
    pub fn one_for_one() -> Self {
        Self::of(Strategy::OneForOne)
    }

    /// Describes a supervisor that, when one child fails, stops all children in reverse order and starts them again.
    pub fn one_for_all() -> Self {
        Self::of(Strategy::OneForAll)
    }

    /// Describes a supervisor that, when one child fails, stops the children after it in reverse order, and then starts
    /// the failed child and those children again.
    pub fn rest_for_one() -> Self {
        Self::of(Strategy::RestForOne)
    }

    /// Describes a supervisor that restarts only the child that failed, and whose children are added and removed while
    /// it runs: see [`Tree::start`]. The children start without waiting for each other, and are stopped all at once. A
    /// child that will not be restarted is removed.
    pub fn dynamic() -> Self {
        Self::of(Strategy::Dynamic)
    }

    /// Limits the restarts of all children together within a window of time. One more failure, and the supervisor gives
    /// up: it stops the other children and ends, with a [`GaveUp`](super::GaveUp) as its reason.
    ///
    /// The default is 5 within ten seconds. With 0 restarts the first failure is one too many; with [`u32::MAX`] there
    /// is no limit. A window of [`Duration::MAX`] counts all restarts ever. [`spawn`](Self::spawn) refuses a window of
    /// zero.
    pub fn intensity(mut self, restarts: u32, within: Duration) -> Self {
        (self.most, self.within) = (restarts, within);
        self
    }

    /// Sets the delays before restarts. The default is [`Backoff::default`]: from 10 ms to 10 s.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Registers the process of the supervisor under a name on its host.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a permanent child after the others: short for [`add`](Self::add) with [`Child::new`].
    pub fn child<S, E>(
        self,
        name: impl Into<Arc<str>>,
        start: impl FnMut(ChildSpawn) -> Result<S, E> + Send + 'static,
    ) -> Self
    where
        S: Spawned,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.add(Child::new(name, start))
    }

    /// Adds a child after the others.
    #[expect(clippy::should_implement_trait, reason = "a child is not added with `+`")]
    pub fn add<S>(mut self, child: Child<S>) -> Self {
        self.children.push(child.spec);
        self
    }

    /// Spawns the supervisor. It starts its children in order, on the calling thread, before this method returns. A
    /// start that fails is retried like any other failure, so the child and those after it may still be down by then.
    ///
    /// The supervisor runs until it is stopped, its host is shut down, or it gives up; dropping the [`Tree`] does not
    /// stop it.
    ///
    /// # Errors
    /// Returns [`SupervisorError::Duplicate`] if two children have the same name, [`SupervisorError::Childless`] and
    /// [`SupervisorError::Window`] for a supervisor that could do nothing, and [`SupervisorError::Spawn`] if its
    /// process cannot be spawned, for example because its name is taken.
    #[track_caller]
    pub fn spawn(self, place: impl SpawnPlace) -> Result<Tree, SupervisorError> {
        let at = Location::caller();
        self.check()?;
        let Self { strategy, most, within, backoff, name, children } = self;
        let spawn = place.child_spawn();
        let noted = spawn.noted();
        let (host, guardian, subtree) = spawn.into_parts();
        let registry = subtree
            .and_then(|subtree| subtree.downcast::<ChildRegistry>().ok())
            .unwrap_or_else(|| ChildRegistry::new(strategy));
        let plan = SupervisorPlan::new(strategy, Intensity::new(most, within), backoff);
        let slots = children.iter().map(|spec| spec.slot(host.scheduler())).collect();
        let slots = registry.begin(strategy, slots);
        let children = slots.into_iter().zip(children).collect();
        let is_child = guardian.is_some();
        let driver = SupervisorProcess::new(registry.clone(), plan, host, children, is_child);
        let process = SpawnProcess::new(host.reference(), at, driver).for_parent(guardian, false).noted(noted);
        // Unbounded, since requests must not be refused, and a requester that is not a process cannot be suspended.
        let process = process.told_to_stop().mailbox(Bound::Unbounded);
        let process = match name {
            Some(name) => process.named(name),
            None => process,
        };
        match process.start() {
            Ok(pid) => Ok(Tree::new(pid, registry)),
            Err(error) => {
                let reason = ExitReason::error(error.to_string());
                registry.end(&reason, is_child, false);
                Err(error.into())
            }
        }
    }

    fn check(&self) -> Result<(), SupervisorError> {
        if !Intensity::counts(self.most, self.within) {
            return Err(SupervisorError::Window { most: self.most });
        }
        if self.children.is_empty() && self.strategy != Strategy::Dynamic {
            return Err(SupervisorError::Childless { strategy: self.strategy.name() });
        }
        let mut names = BTreeSet::new();
        match self.children.iter().find(|spec| !names.insert(spec.name.clone())) {
            Some(spec) => Err(SupervisorError::Duplicate { name: spec.name.chars().take(80).collect() }),
            None => Ok(()),
        }
    }
}

impl Spec {
    pub(super) fn slot(&self, host: &'static crate::engine::host::Scheduler) -> Arc<ChildSlot> {
        let subtree = self.is_tree.then(|| ChildRegistry::new(Strategy::OneForOne) as Arc<dyn Subtree>);
        let slot = Arc::new(ChildSlot::new(self.name.clone(), self.kind, self.keeps, host, subtree));
        let backlog: Weak<ChildSlot> = Arc::downgrade(&slot);
        host.backlogs.add(backlog);
        slot
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children: Vec<_> = self.children.iter().map(|spec| &spec.name).collect();
        f.debug_struct("Supervisor")
            .field("strategy", &self.strategy)
            .field("intensity", &(self.most, self.within))
            .field("backoff", &self.backoff)
            .field("children", &children)
            .finish_non_exhaustive()
    }
}
