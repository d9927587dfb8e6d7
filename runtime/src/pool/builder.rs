//! Building a pool, and the handle of a running one.

use super::keys::{self, KeyRef, Keys};
use super::plan::{Balancing, PoolPlan, PoolRules, PoolStatistics};
use super::process::{MemberFactory, PoolProcess};
use super::route::Routes;
use super::router::{LaneKey, PoolRouter};
use crate::api::child_spawn::{KnownType, Spawned};
use crate::supervision::plan::intensity::{self, Intensity};
use crate::supervision::{Backoff, SpawnPlace};
use crate::sync::{Arc, Mutex, lock};
use crate::util::dispose::dispose_here;
use crate::util::panics::Site;
use crate::{
    Address, Bound, ChildSpawn, Pid, SpawnError, actor::definition::Actor, routing::alias::Alias,
    util::debug::impl_debug,
};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};
use std::{marker::PhantomData, ops::RangeInclusive, time::Duration};

/// Default limit of queued messages.
const QUEUE: usize = 1_024;

/// Default time after which an idle member that is not needed is retired.
const IDLE: Duration = Duration::from_secs(60);

/// Builds a pool: several processes of one type behind one address. Choose their number and how they share messages,
/// then [`spawn`](Pool::spawn) it.
///
/// A message goes to a member that has room. If none has, it waits in the pool's queue; if the queue is full, the
/// message is returned to the sender ([`SendFailure::Full`](crate::error::SendFailure::Full)). A member has one message
/// at a time unless [`concurrency`](Pool::concurrency) allows more: it has a call until it has answered, and any other
/// message until its method returns. A member that dies is replaced, after a delay that grows while members keep
/// failing ([`backoff`](Pool::backoff)); the callers of its messages are notified at once, and queued messages wait for
/// another member. A pool whose members fail too often gives up ([`intensity`](Pool::intensity)).
///
/// A message through a pool costs an allocation, a check of each member of its lane, and a lock that all senders share:
/// twice the instructions of a call to a process, even for a message that is only sent.
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
    /// Number of lanes if the message determines the lane. Each lane then has a member of its own.
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

    /// Describes a pool with a constant number of members. [`spawn`](Pool::spawn) refuses a pool of zero members.
    pub fn fixed(members: usize) -> Self {
        Self::of(members, members, None)
    }

    /// Describes a pool whose number of members varies within these bounds: a member is started when a message finds
    /// none with room, and retired when it has been idle for a minute, or as set by [`idle_after`](Pool::idle_after).
    /// `0..=8` starts no member before the first message.
    pub fn elastic(members: RangeInclusive<usize>) -> Self {
        let (least, most) = members.into_inner();
        Self::of(least, most, Some(IDLE))
    }

    /// Describes a pool with one process per key. The process is started by the key's first message and retired when
    /// idle: see [`KeyedPool`].
    pub fn by_key<M: Send + 'static, K: Eq + Hash + Send + Sync + 'static>(
        key: impl Fn(&M) -> K + Send + Sync + 'static,
    ) -> KeyedPool<K> {
        let rules = PoolRules { least: 0, most: 1, ..Self::of(0, 1, Some(IDLE)).rules };
        KeyedPool { rules, routes: Routes::new(None), keys: Arc::new(Keys::new()) }.key(key)
    }

    /// Distributes messages in turn among the members that have room.
    pub fn round_robin(mut self) -> Self {
        self.rules.choice = Balancing::RoundRobin;
        self
    }

    /// Gives each message to the member with the fewest messages among those with room. Ties go to the oldest member,
    /// so that the other members of an elastic pool can be retired. This is the default.
    pub fn least_loaded(mut self) -> Self {
        self.rules.choice = Balancing::LeastLoaded;
        self
    }

    /// Sends messages of type `M` with equal keys to the same member, in order; messages of other types go to the first
    /// member. Call it once for each type of message to distribute by hash. A hash of the key selects the member, among
    /// all members of a fixed pool, or among the maximum number of members of an elastic one.
    ///
    /// If `key` or the key's `Hash` panics, the message becomes a dead letter. A panic while a key is dropped is
    /// logged.
    pub fn by_hash<M: Send + 'static, K: Hash>(mut self, key: impl Fn(&M) -> K + Send + Sync + 'static) -> Self {
        let lanes = self.rules.most.max(1);
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        self.lanes = Some(lanes);
        self.routes.by_key(move |message: &M| {
            let (hash, key) = keys::hashed(&hasher, key(message))?;
            dispose_here(Site::PoolKey, key);
            Ok((hash % lanes as u64) as usize)
        });
        self
    }
}

/// The options of all pools.
macro_rules! options {
    ($($of:tt)*) => {
        impl $($of)* {
            /// Sends each message of type `M` to all current members, ahead of queued messages. A call is answered by
            /// the first member. Without members a call fails, and a message that was only sent is dropped.
            pub fn broadcast<M: Clone + Send + 'static>(mut self) -> Self {
                self.routes.broadcast::<M>();
                self
            }

            /// Limits the queue of messages that wait for a member; the default is 1,024. With 0, a message is accepted
            /// only if a member has room, or if a member that is starting will have room.
            pub fn queue(mut self, messages: usize) -> Self {
                self.rules.queue = messages;
                self
            }

            /// Limits how long a message waits in the queue. A message that waits longer becomes a dead letter
            /// ([`Expired`](crate::inspect::DeadLetterReason::Expired)), and its caller fails with
            /// [`CallError::Timeout`](crate::CallError::Timeout). Unlimited by default.
            pub fn deadline(mut self, deadline: Duration) -> Self {
                self.rules.patience = Some(deadline);
                self
            }

            /// Sets how long a member must be idle before it is retired, if the pool has more members than it needs;
            /// the default is a minute. [`Duration::MAX`] never retires one. Has no effect on a fixed pool.
            pub fn idle_after(mut self, idle: Duration) -> Self {
                if self.rules.idle.is_some() {
                    self.rules.idle = Some(idle);
                }
                self
            }

            /// Gives each member up to `messages` messages at a time instead of one: for processes that answer later,
            /// or for messages so small that the hand-over dominates their cost. A member that dies loses them all. 0
            /// counts as 1.
            pub fn concurrency(mut self, messages: usize) -> Self {
                self.rules.concurrency = messages.max(1);
                self
            }

            /// Limits the restarts of all members together within a window of time; the default is 5 within 10 s, as
            /// for a [`Supervisor`](crate::supervision::Supervisor). One more failure, and the pool gives up: it
            /// accepts nothing new, fails queued messages, stops its members, and ends with an error that holds a
            /// [`PoolGaveUp`](crate::error::PoolGaveUp). 0 allows no restart, [`u32::MAX`] any number.
            ///
            /// A member fails if it does not end normally, ends before it has finished a message, or cannot be started.
            pub fn intensity(mut self, restarts: u32, within: Duration) -> Self {
                self.rules.intensity = (restarts, within);
                self
            }

            /// Sets the delay between a failure and the start of another member; the default is [`Backoff::default`].
            /// Messages wait in the meantime. Members that share a queue share the delay, and failures during the delay
            /// do not lengthen it; each key has its own queue.
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
    /// Starts the pool and its initial members, calling `member` in the pool's process for each. A pool that is spawned
    /// inside a process is a child of that process. A supervisor's child can be a pool, too:
    /// `|spawn| Pool::fixed(4).spawn(spawn, …)`.
    ///
    /// # Errors
    /// [`SpawnError::NoMembers`] if the pool can never have a member; [`SpawnError::Window`] if the window of its
    /// intensity is zero, so that no restart would ever be counted; or the error of an initial member's start. If a
    /// later start fails, the calls that wait for it fail, and the pool retries: see [`backoff`](Pool::backoff) and
    /// [`intensity`](Pool::intensity).
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
        let factory = Box::new(move |spawn: ChildSpawn, _: &usize| member(spawn).map(|member| member.pid()));
        start::<S, _>(&place.child_spawn(), rules, 0..lanes.unwrap_or(1), routes, factory)
    }
}

/// Builds a pool with one process per key. Created by [`Pool::by_key`].
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
    /// Sets the key of messages of type `M`. Messages of types without a key are unhandled.
    ///
    /// `key`, and the key's `Hash` and `Eq`, run on the sending thread and without a lock: they may block, and may use
    /// the pool. If one of them panics, the message has no key and becomes a dead letter. An unused key is dropped
    /// later, by a thread that sends a message with another key, or together with the pool; a panic in that drop is
    /// logged.
    pub fn key<M: Send + 'static>(mut self, key: impl Fn(&M) -> K + Send + Sync + 'static) -> Self {
        let keys = self.keys.clone();
        self.routes.by_key(move |message: &M| keys.know(key(message)));
        self
    }

    /// Starts the pool without members; `member` makes the member for a key, in the pool's process. Messages with the
    /// same key are handled in order, and a key never has two members at once. The number of keys is limited by the
    /// host's [process limit](crate::Builder::process_limit).
    ///
    /// # Errors
    /// [`SpawnError::Window`] if the window of the intensity is zero, so that no restart would ever be counted; or the
    /// error of spawning the pool's process.
    pub fn spawn<S: Spawned>(
        self,
        place: impl SpawnPlace,
        mut member: impl FnMut(ChildSpawn, &K) -> Result<S, SpawnError> + Send + 'static,
    ) -> Result<RunningPool<S::Process>, SpawnError> {
        let factory =
            Box::new(move |spawn: ChildSpawn, known: &KeyRef<K>| member(spawn, known.key()).map(|member| member.pid()));
        start::<S, _>(&place.child_spawn(), self.rules, [], self.routes, factory)
    }
}

/// Starts a pool with these permanent lanes.
fn start<S: Spawned, K: LaneKey>(
    spawn: &ChildSpawn,
    rules: PoolRules,
    lasting: impl IntoIterator<Item = K>,
    routes: Routes<K>,
    factory: MemberFactory<K>,
) -> Result<RunningPool<S::Process>, SpawnError> {
    let (restarts, within) = rules.intensity;
    if !Intensity::counts(restarts, within) {
        return Err(SpawnError::Window { restarts });
    }
    let host = spawn.host();
    let plan = PoolPlan::new(rules, lasting, host.scheduler().random());
    let router = PoolRouter::new(plan, routes, host.scheduler());
    if let Some(kind) = S::Process::KIND {
        let _first = router.kind.set(kind.0);
    }
    let error = Arc::new(Mutex::new(None));
    let alias = Alias::new(router.clone());
    let pid = alias.pid();
    let process = PoolProcess::new(router.clone(), alias, host, factory, error.clone());
    let label = format!("pool of {}", std::any::type_name::<S::Process>());
    // Unbounded, so that the router's requests are never refused. There is one request per start of a member; messages
    // are in the router's queue or with members.
    match host.spawn_process(process).label(label).mailbox(Bound::Unbounded).told_to_stop().start() {
        Ok(_) => {
            spawn.note(pid);
            Ok(RunningPool { pid, router, process: PhantomData })
        }
        Err(outer) => Err(lock(&error).take().unwrap_or(outer)),
    }
}

/// Handle of a running pool. Its [`address`](RunningPool::address) is `Copy` and usually all that is needed. Dropping
/// the handle does not stop the pool.
///
/// Operations on the pool's PID, such as [`kill`](Pid::kill), [`join`](Pid::join), [`monitor`](Pid::monitor) and
/// [`info`](Pid::info), apply to the pool's process, which ends after its last member.
pub struct RunningPool<P> {
    pid: Pid,
    router: Arc<dyn PoolView>,
    process: PhantomData<fn() -> P>,
}

impl<P: Actor> RunningPool<P> {
    /// Returns the address of the pool. It is used like the address of a single process.
    pub fn address(&self) -> Address<P> {
        Address::new(self.pid)
    }
}

impl<P> RunningPool<P> {
    /// Returns the PID of the pool, an [alias](Pid::is_alias) of its members.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Stops the pool: accepted messages are still handled, and later ones are refused. To wait for the end,
    /// [`join`](Pid::join) the pool beforehand; [`kill`](Pid::kill) it if that takes too long.
    ///
    /// [`Pid::stop`] does the same once the pool's process handles the request.
    pub fn stop(&self) {
        self.router.drain();
    }

    /// Returns the members that take messages, oldest first.
    pub fn members(&self) -> Vec<Pid> {
        self.router.members()
    }

    /// Returns a snapshot of the pool's state and counters.
    pub fn statistics(&self) -> PoolStatistics {
        self.router.statistics()
    }
}

/// The part of a pool's router that does not depend on its keys.
trait PoolView: Send + Sync {
    fn drain(&self);
    fn members(&self) -> Vec<Pid>;
    fn statistics(&self) -> PoolStatistics;
}

impl<K: LaneKey> PoolView for PoolRouter<K> {
    fn drain(&self) {
        self.tell(|plan, now| plan.drain(now));
    }

    fn members(&self) -> Vec<Pid> {
        self.look(|plan, _| plan.members())
    }

    fn statistics(&self) -> PoolStatistics {
        self.look(|plan, counted| plan.statistics(counted))
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
}

impl_debug!([P] RunningPool<P>, self => "RunningPool<{}>{}", std::any::type_name::<P>(), self.pid);
impl_debug!([] Pool, self => "Pool" { rules: self.rules, .. });
impl_debug!([K] KeyedPool<K>, self => "KeyedPool" { rules: self.rules, .. });
