//! What a user writes: what a pool is to be like, and what is to be known of one that runs.

use super::keys::{self, KeyRef, Keys};
use super::plan::{Balancing, PoolPlan, PoolRules, Standing};
use super::process::{MemberFactory, PoolProcess};
use super::route::Routes;
use super::router::{LaneKey, PoolRouter, Totals};
use crate::actor::definition::actor::Actor;
use crate::actor::handle::address::Address;
use crate::api::child_spawn::{ChildSpawn, KnownKind, KnownType, Spawned};
use crate::api::runtime::Host;
use crate::errors::SpawnError;
use crate::mailbox::bound::Bound;
use crate::pid::Pid;
use crate::routing::alias::Alias;
use crate::supervision::Backoff;
use crate::supervision::place::SpawnPlace;
use crate::supervision::plan::intensity::{self, Intensity};
use crate::sync::{Arc, Mutex, lock};
use crate::util::panics::{Site, dispose};
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How many messages may wait if nothing else is said.
const QUEUE: usize = 1_024;

/// How long a member that may go is idle before it does, if nothing else is said.
const IDLE: Duration = Duration::from_secs(60);

/// Several processes of one kind behind one address, to be: say how many, and how they share what comes, then
/// [`spawn`](Pool::spawn) it.
///
/// A message goes to a member that has room; if none has, it waits in the pool's line, and if the line is full too the
/// sender gets it back ([`SendFailure::Full`](crate::error::SendFailure::Full)). A member has one message at a time
/// unless [`concurrency`](Pool::concurrency) says more: a call until it is answered, any other message until its method
/// is done. A member that dies is replaced, after a delay that grows while members go on failing
/// ([`backoff`](Pool::backoff)); the callers of what it had in hand are told at once, and what waits in the line waits
/// for another. A pool whose members fail too often gives up ([`intensity`](Pool::intensity)).
///
/// A message through a pool costs an allocation, a look at each member of its lane, and a lock that all who send share:
/// twice the instructions of a call to a process, also for what is only sent.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::Pool;
/// use std::time::Duration;
///
/// #[process]
/// #[derive(Default)]
/// struct Resizer;
///
/// #[process]
/// impl Resizer {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn resize(&mut self, width: u32) -> u32 { width / 2 }
/// }
///
/// let runtime = Runtime::new()?;
/// let workers = Pool::fixed(4)
///     .least_loaded()
///     .queue(1_000)
///     .deadline(Duration::from_secs(1))
///     .spawn(&runtime, |spawn| spawn.of(Resizer).serve())?;
/// assert_eq!(workers.address().resize(640).wait()?, 320); // addressed like one process
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing runs until `.spawn(…)`"]
pub struct Pool {
    rules: PoolRules,
    /// How many lanes with a member of their own, where the message decides.
    lanes: Option<usize>,
    routes: Routes<usize>,
}

impl Pool {
    fn of(least: usize, most: usize, idle: Option<Duration>) -> Self {
        let (choice, concurrency, queue, patience) = (Balancing::LeastLoaded, 1, QUEUE, None);
        let (backoff, intensity) = (Backoff::default(), intensity::DEFAULT);
        let rules = PoolRules { choice, concurrency, queue, patience, idle, least, most, backoff, intensity };
        Self { rules, lanes: None, routes: Routes::new(Some(0)) }
    }

    /// So many members, from the beginning to the end.
    pub fn fixed(members: usize) -> Self {
        Self::of(members, members, None)
    }

    /// As many members as are wanted, within these bounds: one is started when a message comes and none has room, and
    /// goes when it has been idle for a minute, or as [`idle_after`](Pool::idle_after) says. `0..=8` starts none until
    /// the first message.
    pub fn elastic(members: RangeInclusive<usize>) -> Self {
        let (least, most) = members.into_inner();
        Self::of(least, most, Some(IDLE))
    }

    /// One process for each key, made at its first message and ended when it has been idle: see [`KeyedPool`].
    pub fn by_key<M: Send + 'static, K: Eq + Hash + Send + Sync + 'static>(
        key: impl Fn(&M) -> K + Send + Sync + 'static,
    ) -> KeyedPool<K> {
        let rules = PoolRules { least: 0, most: 1, ..Self::of(0, 1, Some(IDLE)).rules };
        KeyedPool { rules, routes: Routes::new(None), keys: Arc::new(Keys::new()) }.key(key)
    }

    /// Of the members that have room, each gets a message in turn.
    pub fn round_robin(mut self) -> Self {
        self.rules.choice = Balancing::RoundRobin;
        self
    }

    /// Of the members that have room, the one with the fewest messages gets the next; of several, the one that has been
    /// there longest, so that the others of an elastic pool may go. This is how it is if nothing is said.
    pub fn least_loaded(mut self) -> Self {
        self.rules.choice = Balancing::LeastLoaded;
        self
    }

    /// Messages of type `M` with equal keys go to the same member, in their order; those of other types to the first.
    /// Say it for each type of message that is to be spread so. The member is chosen by a hash of the key, for a fixed
    /// pool among all, for an elastic one among as many as it may have.
    ///
    /// If `key` or the key's `Hash` panics, the message becomes a dead letter. A panic in the drop of a key is logged.
    pub fn by_hash<M: Send + 'static, K: Hash>(mut self, key: impl Fn(&M) -> K + Send + Sync + 'static) -> Self {
        let lanes = self.rules.most.max(1);
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        self.lanes = Some(lanes);
        self.routes.by_key(move |message: &M| {
            let (hash, key) = keys::hashed(&hasher, key(message))?;
            dispose(Site::PoolKey, key);
            Ok((hash % lanes as u64) as usize)
        });
        self
    }
}

/// The options that all pools have.
macro_rules! options {
    ($($of:tt)*) => {
        impl $($of)* {
            /// A message of type `M` goes to each member that is there, at once and past those that wait. A call of it
            /// is answered by the first member; if there is none it fails, and what was sent goes nowhere.
            pub fn broadcast<M: Clone + Send + 'static>(mut self) -> Self {
                self.routes.broadcast::<M>();
                self
            }

            /// So many messages may wait for a member, 1,024 if nothing is said. With 0 only what a member has room
            /// for, or will have when it has started, is taken.
            pub fn queue(mut self, messages: usize) -> Self {
                self.rules.queue = messages;
                self
            }

            /// A message that has waited in line so long fails its caller with
            /// [`CallError::Timeout`](crate::CallError::Timeout) and is a dead letter
            /// ([`Expired`](crate::inspect::DeadLetterReason::Expired)). If nothing is said it waits as long as it
            /// takes.
            pub fn deadline(mut self, deadline: Duration) -> Self {
                self.rules.patience = Some(deadline);
                self
            }

            /// A member that has been idle so long goes, where the pool may do with fewer.
            pub fn idle_after(mut self, idle: Duration) -> Self {
                if self.rules.idle.is_some() {
                    self.rules.idle = Some(idle);
                }
                self
            }

            /// A member has so many messages at a time instead of one: for processes that answer later, or whose
            /// messages are so small that handing them over counts. What a member has in hand when it dies is lost to
            /// its callers. 0 is taken as 1.
            pub fn concurrency(mut self, messages: usize) -> Self {
                self.rules.concurrency = messages.max(1);
                self
            }

            /// Sets how many restarts, of all members together, there may be within a time: 5 within 10 s if nothing is
            /// said, as of a [`Supervisor`](crate::supervision::Supervisor). On one failure more the pool gives up: it
            /// takes nothing new, fails what waits, stops its members, and ends with an error that holds a
            /// [`PoolGaveUp`](crate::error::PoolGaveUp). 0 allows no restart, [`u32::MAX`] any number.
            ///
            /// A member fails that ends for another reason than a normal one, ends before it was done with any message,
            /// or cannot be started.
            pub fn intensity(mut self, restarts: u32, within: Duration) -> Self {
                self.rules.intensity = (restarts, within);
                self
            }

            /// Sets how long the pool waits after a failure before it starts another member: [`Backoff::default`] if
            /// nothing is said. Messages wait meanwhile. Members that share a line of messages share the delay, and
            /// members that fail during the delay do not lengthen it; each key has a line of its own.
            pub fn backoff(mut self, backoff: Backoff) -> Self {
                self.rules.backoff = backoff;
                self
            }
        }
    };
}

options!(Pool);
options!(<K: Eq + Hash + Send + Sync + 'static> KeyedPool<K>);

impl Pool {
    /// Starts the pool and the members that it has from the beginning, each by `member`, which runs in the process that
    /// keeps the pool. Inside a process the pool is its child; a supervisor's child can be a pool, by
    /// `|spawn| Pool::fixed(4).spawn(spawn, …)`.
    ///
    /// # Errors
    /// [`SpawnError::NoMembers`] for a pool that may have none; [`SpawnError::Window`] for an intensity that counts
    /// nothing; what the start of a member failed with. Later a member that cannot be started fails the calls that wait
    /// for it, and the pool tries again: see [`backoff`](Pool::backoff) and [`intensity`](Pool::intensity).
    pub fn spawn<S: Spawned>(
        self,
        place: impl SpawnPlace,
        mut member: impl FnMut(ChildSpawn) -> Result<S, SpawnError> + Send + 'static,
    ) -> Result<RunningPool<S::Process>, SpawnError> {
        let Self { mut rules, lanes, routes } = self;
        let (least, most) = (rules.least, rules.most);
        if most == 0 || least > most {
            return Err(SpawnError::NoMembers { least, most });
        }
        if lanes.is_some() {
            (rules.least, rules.most) = (usize::from(least > 0), 1);
        }
        let host = place.child_spawn().host();
        let plan = plan(host, rules, 0..lanes.unwrap_or(1))?;
        let factory = Box::new(move |spawn: ChildSpawn, _: &usize| member(spawn).map(|member| member.pid()));
        start::<S, _>(host, plan, routes, factory)
    }
}

/// A pool with a process for each key, to be: made by [`Pool::by_key`].
///
/// ```
/// use postroom::prelude::*;
/// use postroom::Pool;
///
/// #[process]
/// struct Cart { owner: String, items: u32 }
///
/// #[process]
/// impl Cart {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn add(&mut self, owner: String) -> String { self.items += 1; format!("{} has {}", self.owner, self.items) }
/// }
///
/// let runtime = Runtime::new()?;
/// let carts = Pool::by_key(|add: &CartAdd| add.owner.clone())
///     .spawn(&runtime, |spawn, owner| spawn.of(Cart { owner: owner.clone(), items: 0 }).serve())?;
/// let carts = carts.address();
/// assert_eq!(carts.add("ada".to_string()).wait()?, "ada has 1");
/// assert_eq!(carts.add("ada".to_string()).wait()?, "ada has 2");
/// assert_eq!(carts.add("bob".to_string()).wait()?, "bob has 1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing runs until `.spawn(…)`"]
pub struct KeyedPool<K> {
    rules: PoolRules,
    routes: Routes<KeyRef<K>>,
    keys: Arc<Keys<K>>,
}

impl<K: Eq + Hash + Send + Sync + 'static> KeyedPool<K> {
    /// Where the key of messages of type `M` is. A message of a type that has none is not understood.
    ///
    /// `key`, and the key's `Hash` and `Eq`, run without a lock on the thread that sends: they may block, and may use
    /// the pool. If one of them panics, the message has no key and becomes a dead letter. A key that is no longer in
    /// use is dropped later, by a thread that sends a message with another key, or with the pool; a panic in that drop
    /// is logged.
    pub fn key<M: Send + 'static>(mut self, key: impl Fn(&M) -> K + Send + Sync + 'static) -> Self {
        let keys = self.keys.clone();
        self.routes.by_key(move |message: &M| keys.know(key(message)));
        self
    }

    /// Starts the pool, without a member; `member` makes one for a key, in the process that keeps the pool. Messages of
    /// one key are handled in their order, and there are never two members for it. How many keys there may be at a time
    /// is for the host's [process limit](crate::Builder::process_limit).
    ///
    /// # Errors
    /// [`SpawnError::Window`] for an intensity that counts nothing; what the start of the pool's own process failed
    /// with.
    pub fn spawn<S: Spawned>(
        self,
        place: impl SpawnPlace,
        mut member: impl FnMut(ChildSpawn, &K) -> Result<S, SpawnError> + Send + 'static,
    ) -> Result<RunningPool<S::Process>, SpawnError> {
        let host = place.child_spawn().host();
        let plan = plan(host, self.rules, [])?;
        let factory =
            Box::new(move |spawn: ChildSpawn, known: &KeyRef<K>| member(spawn, known.key()).map(|member| member.pid()));
        start::<S, _>(host, plan, self.routes, factory)
    }
}

/// The plan of a pool with these rules, if they make sense.
fn plan<K: LaneKey>(
    host: Host,
    rules: PoolRules,
    lasting: impl IntoIterator<Item = K>,
) -> Result<PoolPlan<K, crate::Package>, SpawnError> {
    let (restarts, within) = rules.intensity;
    if !Intensity::counts(restarts, within) {
        return Err(SpawnError::Window { restarts });
    }
    Ok(PoolPlan::new(rules, lasting, host.scheduler().random()))
}

fn start<S: Spawned, K: LaneKey>(
    host: Host,
    plan: PoolPlan<K, crate::Package>,
    routes: Routes<K>,
    factory: MemberFactory<K>,
) -> Result<RunningPool<S::Process>, SpawnError> {
    let router = PoolRouter::new(plan, routes, host.scheduler());
    if let Some(kind) = S::kind() {
        let _first = router.kind.set(kind.0);
    }
    let error = Arc::new(Mutex::new(None));
    let alias = Alias::new(router.clone());
    let pid = alias.pid();
    let keeper = PoolProcess::new(router.clone(), alias, host, factory, error.clone());
    let label = format!("pool of {}", std::any::type_name::<S::Process>());
    // What its keeper is told must not be refused; it is a note for each start, and those wait in line or are members.
    match host.spawn_process(keeper).label(label).mailbox(Bound::Unbounded).told_to_stop().start() {
        Ok(_) => Ok(RunningPool { pid, router, process: PhantomData }),
        Err(outer) => Err(lock(&error).take().unwrap_or(outer)),
    }
}

/// A pool that runs. It is addressed by its [`address`](RunningPool::address), which is `Copy` and all that most need;
/// dropping this leaves the pool alone.
///
/// The life of the pool is on its PID: [`kill`](Pid::kill), [`join`](Pid::join), [`monitor`](Pid::monitor) and
/// [`info`](Pid::info) mean the process that keeps it, which ends when the last member has.
pub struct RunningPool<P> {
    pid: Pid,
    router: Arc<dyn PoolView>,
    process: PhantomData<fn() -> P>,
}

impl<P: Actor> RunningPool<P> {
    /// The address of the pool, as of one process.
    pub fn address(&self) -> Address<P> {
        Address::new(self.pid)
    }
}

impl<P> RunningPool<P> {
    /// The PID of the pool; it [points on](Pid::is_alias) to the members.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Stops the pool: what it has taken is handled first, and what comes from here on comes back. Await its
    /// [`join`](Pid::join), asked for before, to know when that is done; [`kill`](Pid::kill) it if that takes too long.
    ///
    /// [`Pid::stop`] does the same when the pool's process comes to it.
    pub fn stop(&self) {
        self.router.drain();
    }

    /// The members that get messages, those that have been there longest first.
    pub fn members(&self) -> Vec<Pid> {
        self.router.members()
    }

    /// How the pool stands, and what it has done.
    pub fn statistics(&self) -> PoolStatistics {
        let (Standing { members, starting, waiting, in_hand, failed }, totals) = self.router.standing();
        let Totals { accepted, refused, expired, started } = totals;
        PoolStatistics { members, starting, waiting, in_hand, accepted, refused, expired, started, failed }
    }
}

/// How a pool stands, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Members that get messages.
    pub members: usize,
    /// Members that are being started.
    pub starting: usize,
    /// Messages that wait for a member.
    pub waiting: usize,
    /// Messages that members have and have not handled.
    pub in_hand: usize,
    /// Messages that were taken.
    pub accepted: u64,
    /// Messages that came back: the line was full, or the pool was stopped.
    pub refused: u64,
    /// Messages that waited for as long as they may.
    pub expired: u64,
    /// Members that were started.
    pub started: u64,
    /// Members that failed (see [`intensity`](Pool::intensity)), and starts of members that did.
    pub failed: u64,
}

/// What is to be known of a pool, whatever tells its lanes apart.
trait PoolView: Send + Sync {
    fn drain(&self);
    fn members(&self) -> Vec<Pid>;
    fn standing(&self) -> (Standing, Totals);
}

impl<K: LaneKey> PoolView for PoolRouter<K> {
    fn drain(&self) {
        self.tell(|plan, now| plan.drain(now));
    }

    fn members(&self) -> Vec<Pid> {
        self.look(|plan, _| plan.members())
    }

    fn standing(&self) -> (Standing, Totals) {
        self.look(|plan, totals| (plan.standing(), totals))
    }
}

impl<P> Clone for RunningPool<P> {
    fn clone(&self) -> Self {
        Self { pid: self.pid, router: self.router.clone(), process: PhantomData }
    }
}

impl<P: KnownType> Spawned for RunningPool<P> {
    type Process = P;

    fn pid(&self) -> Pid {
        self.pid
    }

    fn kind() -> Option<KnownKind> {
        P::kind()
    }
}

impl<P> fmt::Debug for RunningPool<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunningPool<{}>{}", std::any::type_name::<P>(), self.pid)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for KeyedPool<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedPool").field("rules", &self.rules).finish_non_exhaustive()
    }
}
