//! Runtimes and hosts.

use crate::actor::definition::{Actor, Migratable};
use crate::actor::machine::upgrade::{IntoUpgrade, Upgrading};
use crate::actor::send::{Addressed, SendTo};
use crate::actor::{send::call::send, spawn::SpawnProcess, tasks::current::outside};
use crate::engine::backpressure::abroad;
use crate::engine::host::{Config, Identity, Scheduler, UserCode};
use crate::engine::{blocking::block_in_place::while_blocked, host::reuse::HostRef, lifecycle::spawn::current_host};
use crate::errors::{AddressError, BuildError, SendFailure};
use crate::registry::upgrades::{UpgradeFailure, Upgrades};
use crate::registry::{group_table::GroupTable, group_table::TableOfHost, types::Registry};
use crate::routing::hosts::{is_elsewhere, is_of_program, release};
use crate::routing::router::{Router, deliver};
use crate::routing::transport::Receiver;
use crate::sync::{Mutex, OnceLock, PoisonError, RwLock, lock, simulated};
use crate::time::virtual_clock::{Clock, IdleError};
use crate::util::{block_on::block_on, debug::impl_debug};
use crate::{
    Address, NodeId, Package, Pid, Recipient, SendError, Spawn, call::package::Undeliverable, env::world::World,
    process::Process, routing::alias,
};
use std::{any::TypeId, collections::BTreeMap, future::Future, ops::Deref, panic::Location, ptr, time::Duration};

/// A scheduler with its own workers and limits, on which processes are spawned. `Copy`, and valid forever: a host
/// that was shut down refuses all requests, and its statistics are zero.
#[derive(Clone, Copy)]
pub struct Host {
    record: &'static HostRecord,
    /// The generation of the record. (Records are reused for later hosts.)
    generation: u32,
    number: u16,
    node: NodeId,
}

/// The scheduler of a host, and the process types, groups, topics and upgrades that were registered on it. Never freed,
/// but reused, like the scheduler.
pub(crate) struct HostRecord {
    pub(crate) scheduler: &'static Scheduler,
    pub(crate) registry: Registry,
    pub(crate) groups: GroupTable,
    pub(crate) topics: GroupTable,
    pub(crate) upgrades: Upgrades,
}

/// The hosts of the program by number. Numbers repeat after 65,535 hosts; the later host replaces the earlier one.
fn records() -> &'static RwLock<BTreeMap<u16, &'static HostRecord>> {
    static RECORDS: World<OnceLock<RwLock<BTreeMap<u16, &'static HostRecord>>>> = World::new(OnceLock::new());
    RECORDS.get_or_init(RwLock::default)
}

/// The records of hosts whose runtime is gone.
struct UnusedRecords {
    free: Vec<&'static HostRecord>,
    /// The records of hosts that were not entirely gone at the last check.
    ending: Vec<&'static HostRecord>,
}

static UNUSED_RECORDS: World<Mutex<UnusedRecords>> =
    World::new(Mutex::new(UnusedRecords { free: Vec::new(), ending: Vec::new() }));

impl UnusedRecords {
    /// Takes out the records of hosts that are entirely gone. Returns them, and the nodes whose last host was one of
    /// them. The caller [forgets](Router::forget) these nodes outside the lock.
    fn look(&mut self) -> (Vec<&'static HostRecord>, Vec<NodeId>) {
        let (mut free, mut nodes) = (Vec::new(), Vec::new());
        // Under this lock, the generation ends and its number is removed, so that a PID of this generation never leads
        // to the next one.
        let mut records = records().write().unwrap_or_else(PoisonError::into_inner);
        self.ending.retain(|record| {
            let number = record.scheduler.number();
            let is_free = record.scheduler.retire();
            if is_free {
                if records.get(&number).is_some_and(|of_number| std::ptr::eq(*of_number, *record)) {
                    records.remove(&number);
                    release(number);
                    let node = record.scheduler.node();
                    nodes.extend(Some(node).filter(|node| !is_of_program(*node)));
                }
                free.push(*record);
            }
            !is_free
        });
        (free, nodes)
    }

    fn take(&mut self, fits: impl Fn(&Scheduler) -> bool) -> Option<&'static HostRecord> {
        let place = self.free.iter().position(|record| fits(record.scheduler))?;
        Some(self.free.swap_remove(place))
    }
}

/// Frees the records of hosts that are entirely gone.
fn free_unused() {
    let (free, nodes) = lock(&UNUSED_RECORDS).look();
    debug_assert!(simulated::ARE_BUILT || nodes.is_empty(), "that of the program does not end");
    nodes.into_iter().for_each(Router::forget);
    // This is done outside the lock, because it drops user code. (A host that was shut down from inside may still hold
    // some.)
    free.iter().for_each(|record| record.forget_all());
    lock(&UNUSED_RECORDS).free.extend(free);
}

impl HostRecord {
    fn of(scheduler: &'static Scheduler) -> &'static Self {
        let record: &'static Self = Box::leak(Box::new(Self {
            scheduler,
            registry: Registry::default(),
            groups: GroupTable::default(),
            topics: GroupTable::default(),
            upgrades: Upgrades::default(),
        }));
        let _first = scheduler.handle.set(record);
        record
    }

    pub(crate) fn forget_all(&self) {
        self.registry.clear();
        // The tables may hold processes of other hosts.
        self.scheduler.names.clear();
        self.groups.clear();
        self.topics.clear();
        self.upgrades.clear();
    }

    /// Returns the record that all ended hosts share. It refuses every request.
    fn ended() -> &'static Self {
        static ENDED: World<OnceLock<&'static HostRecord>> = World::new(OnceLock::new());
        ENDED.get_or_init(|| Self::of(Scheduler::ended()))
    }
}

impl Host {
    /// Creates a host whose threads have not been started, reusing the record of an ended host with the same
    /// configuration if there is one.
    pub(crate) fn new(config: Config, identity: Identity, user: UserCode) -> Self {
        let number = identity.number;
        free_unused();
        let unused = lock(&UNUSED_RECORDS).take(|scheduler| scheduler.fits(&config, &identity, &user));
        let mut next = Some((identity, user));
        // A record that a late thread has returned to is abandoned.
        let renewed = unused.filter(|record| {
            record.forget_all();
            record.scheduler.renew(&mut next)
        });
        let record = match (renewed, next) {
            (None, Some((identity, user))) => {
                abroad::begin();
                #[cfg(feature = "spans")]
                crate::engine::context::spans::begin();
                HostRecord::of(Scheduler::new(config, identity, user))
            }
            (Some(record), _) => record,
            (None, None) => unreachable!("taken by the record that is renewed"),
        };
        records().write().unwrap_or_else(PoisonError::into_inner).insert(number, record);
        Self::now(record)
    }

    fn now(record: &'static HostRecord) -> Self {
        let scheduler = record.scheduler;
        let (number, node) = (scheduler.number(), scheduler.node());
        Self { record, generation: scheduler.generation(), number, node }
    }

    /// Returns the host of the process that the calling thread runs or starts.
    pub fn current() -> Option<Self> {
        Self::of_scheduler(current_host()?)
    }

    pub(crate) fn of_scheduler(scheduler: &Scheduler) -> Option<Self> {
        scheduler.handle.get()?.downcast_ref::<HostRecord>().map(Self::now)
    }

    /// Returns the host that the PID belongs to, if it is in this program and has not been shut down.
    pub fn of(pid: Pid) -> Option<Self> {
        let pid = pid.resolve().filter(|pid| !is_elsewhere(*pid))?;
        let records = records().read().unwrap_or_else(PoisonError::into_inner);
        let record = *records.get(&pid.host_number())?;
        // While the lock is held, this generation cannot end.
        let host = Self::now(record);
        (host.number == pid.host_number() && record.scheduler.node() == pid.node()).then_some(host)
    }

    /// Returns true once the host has begun to shut down. From then on, nothing can be spawned on it.
    pub fn is_shutting_down(self) -> bool {
        self.scheduler().gate.is_closed()
    }

    /// Hands over the record of a host whose runtime is gone. The record is reused once nothing is left of the host.
    pub(crate) fn retire(self) {
        lock(&UNUSED_RECORDS).ending.push(self.record);
        free_unused();
    }

    /// Leaks the runtime of a host whose simulation has not ended, so that the host is not shut down.
    #[cfg(feature = "test")]
    pub(crate) fn leave_behind(runtime: Runtime) {
        std::mem::forget(runtime);
    }

    pub(crate) fn has_ended(self) -> bool {
        self.reference().has_ended()
    }

    /// Returns the host's record, or the record of all ended hosts if this host has ended.
    pub(crate) fn host_record(self) -> &'static HostRecord {
        if self.has_ended() { HostRecord::ended() } else { self.record }
    }

    pub(crate) fn scheduler(self) -> &'static Scheduler {
        self.host_record().scheduler
    }

    pub(crate) fn reference(self) -> HostRef {
        HostRef { scheduler: self.record.scheduler, generation: self.generation }
    }

    pub(crate) fn groups(self) -> &'static GroupTable {
        &self.host_record().groups
    }

    pub(crate) fn topics(self) -> &'static GroupTable {
        &self.host_record().topics
    }

    /// Returns a table of the host's record, for a handle that may outlive the host.
    pub(crate) fn of_host(self, table: fn(&'static HostRecord) -> &'static GroupTable) -> TableOfHost {
        TableOfHost::new(table(self.record), self.reference())
    }

    /// Returns the name of the host: see [`Builder::name`](crate::Builder::name).
    pub fn name(self) -> &'static str {
        &self.record.scheduler.config.name
    }

    /// Returns the node of the host, as in its PIDs: that of the program, unless the runtime was built as a logical
    /// node.
    pub fn node(self) -> NodeId {
        self.node
    }

    /// Returns the number of the host within its node, as in its PIDs.
    pub fn number(self) -> u16 {
        self.number
    }

    /// Returns the number of workers, that is, the number of steps that can run at once.
    pub fn workers(self) -> usize {
        self.record.scheduler.permits.len()
    }

    /// Spawns a process: set its options, then call one of its entries. See [`Spawn`].
    #[track_caller]
    pub fn spawn<P>(self, process: P) -> Spawn<P>
    where
        P: Migratable,
    {
        Spawn::new(self.reference(), Location::caller(), process)
    }

    /// Spawns a process with its own thread, on which `make` creates its state. All its steps, its `close` and its drop
    /// run there, and it occupies no worker. Use this for state that must stay on one thread (a user interface, a C
    /// library, thread-local state), or that is not `Send` (this requires `#[process(pinned)]`). See [`Spawn`]; the
    /// entry returns when the process has started.
    ///
    /// Costs a thread. A message to the process wakes that thread (about 5 µs if it sleeps), and a message from the
    /// process wakes a worker.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use std::rc::Rc;
    /// use std::cell::RefCell;
    ///
    /// #[process(pinned)]
    /// struct Window { lines: Rc<RefCell<Vec<String>>> }
    ///
    /// #[process]
    /// impl Window {
    ///     #[entry]
    ///     fn open(&mut self, title: String) { self.lines.borrow_mut().push(title); }
    ///     #[message]
    ///     fn show(&mut self, line: String) -> usize {
    ///         self.lines.borrow_mut().push(line);
    ///         self.lines.borrow().len()
    ///     }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let window = runtime.spawn_pinned(|| Window { lines: Rc::default() }).open("Log".into())?;
    /// assert_eq!(window.show("begun".into()).wait()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn_pinned<P: Actor>(self, make: impl FnOnce() -> P + Send + 'static) -> Spawn<P> {
        Spawn::pinned(self.reference(), Location::caller(), make)
    }

    /// Spawns a hand-written [`Process`]. See [`SpawnProcess`].
    #[track_caller]
    pub fn spawn_process<P: Process + Send>(self, process: P) -> SpawnProcess<P> {
        SpawnProcess::new(self.reference(), Location::caller(), process)
    }

    /// Spawns a hand-written [`Process`] with its own thread, like [`Host::spawn_pinned`].
    #[track_caller]
    pub fn spawn_process_pinned<P: Process>(self, make: impl FnOnce() -> P + Send + 'static) -> SpawnProcess<P> {
        SpawnProcess::pinned(self.reference(), Location::caller(), make)
    }

    /// Sends a message. To a PID, it can be of any type, and the type is checked at delivery. To an address, the
    /// message must have a method, and the compiler checks that.
    ///
    /// # Errors
    /// Those of [`Call::send`](crate::Call::send). A type that the process of a PID does not handle is not an error:
    /// the message becomes a dead letter.
    pub fn send<M: Send + 'static>(self, to: impl SendTo<M>, message: M) -> Result<(), SendError<M>> {
        send(to.target(), message)
    }

    /// Sends a message like [`Host::send`] without ever waiting: see [`Call::try_send`](crate::Call::try_send).
    ///
    /// # Errors
    /// Those of [`Call::try_send`](crate::Call::try_send).
    pub fn try_send<M: Send + 'static>(self, to: impl SendTo<M>, message: M) -> Result<(), SendError<M>> {
        Recipient::<M>::of(to.target()).call(message).try_send()
    }

    /// Sends a message like [`Host::send`], and blocks the thread while the mailbox is full: see
    /// [`Call::send_wait`](crate::Call::send_wait).
    ///
    /// # Errors
    /// Those of [`Call::send_wait`](crate::Call::send_wait), which here has no deadline.
    pub fn send_wait<M: Send + 'static>(self, to: impl SendTo<M>, message: M) -> Result<(), SendError<M>> {
        Recipient::<M>::of(to.target()).call(message).send_wait()
    }

    /// Registers an upgrade from `Old` to another type, for [`Host::upgrade`]: `make` converts the state, and returns
    /// the new one or a `Result` with it. A second registration between the same types replaces the first. Has no
    /// effect on a host that has ended.
    pub fn register_upgrade<Old: Actor, S>(self, make: impl Fn(Old) -> S + Send + Sync + 'static)
    where
        S: IntoUpgrade<Error: Into<UpgradeFailure>>,
    {
        if !self.has_ended() {
            self.record.upgrades.add(make);
        }
    }

    /// Upgrades a process to the type called `to`, as registered for the process's current type. See [`Pid::upgrade`].
    ///
    /// # Errors
    /// [`UpgradeError::Missing`](crate::error::UpgradeError::Missing), which lists the alternatives; otherwise those of
    /// [`Pid::upgrade`].
    pub fn upgrade(self, pid: Pid, to: &str) -> Upgrading<Pid, UpgradeFailure> {
        self.host_record().upgrades.ask(pid, to)
    }

    /// Returns the typed address of a process: `address::<Disk>(pid)` if it is a `Disk`, `address::<dyn Storage>(pid)`
    /// if it implements the protocol `Storage`.
    ///
    /// # Errors
    /// [`AddressError`] if no such process is alive in this program, if it has another type, or if it does not
    /// implement the protocol.
    pub fn address<P: Addressed + ?Sized>(self, pid: Pid) -> Result<Address<P>, AddressError> {
        let kind = alias::kind(pid).ok_or(AddressError::Gone(pid))?;
        let (wanted, found) = (TypeId::of::<P>(), (kind.name)());
        match P::IS_PROTOCOL {
            true if (kind.answers)(wanted) => Ok(Address::new(pid)),
            true => Err(AddressError::Protocol { pid, protocol: P::LABEL, found }),
            false if kind.type_id == wanted => Ok(Address::new(pid)),
            false => Err(AddressError::Type { pid, expected: P::LABEL, found }),
        }
    }

    /// Returns the clock of the host's processes.
    pub fn clock(self) -> Clock {
        self.scheduler().clock()
    }

    /// Blocks the thread until no process runs or is ready to run, and no timer is due: by then, earlier messages
    /// have been handled, with everything that followed from them. With a manual clock, this covers all runtimes that
    /// use the clock.
    ///
    /// Work elsewhere (threads that handle commands, tasks of other executors) and later timers are not waited for.
    ///
    /// # Errors
    /// [`IdleError`] inside a process, for a runtime that is paused or was shut down, and if its processes do not
    /// become idle within a minute.
    pub fn until_idle(self) -> Result<(), IdleError> {
        match self.has_ended() {
            true => Err(IdleError::Shutdown(self.name().to_owned())),
            false => self.scheduler().wait_until_idle(),
        }
    }
}

/// Accepts packages for the host's own processes.
impl Receiver for Host {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        let pid = package.to();
        if pid.node() != self.node {
            return Err(Undeliverable { package, reason: SendFailure::UnknownNode(pid) });
        }
        if pid.host_number() != self.number {
            return Err(Undeliverable { package, reason: SendFailure::UnknownHost(pid) });
        }
        let (_, payload, caller) = package.into_parts();
        deliver(pid, payload, caller)
    }
}

impl_debug!([] Host, self => "Host" { name: self.name(), workers: self.workers(), .. });

impl PartialEq for Host {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.record, other.record) && self.generation == other.generation
    }
}

impl Eq for Host {}

/// The owner of a host: dropping the runtime shuts the host down, with the deadline that the runtime was built with.
///
/// The drop blocks until all processes have ended or the deadline has passed, and discards queued messages; call
/// [`drain`](Self::drain) to handle them first. Inside one of its own processes, a drop only begins the shutdown.
///
/// A runtime dereferences to its [`Host`]. The runtimes of a program reach each other: PIDs are valid in all of them.
///
/// ```
/// use postroom::prelude::*;
///
/// #[process]
/// struct Account { balance: i64 }
///
/// #[process]
/// impl Account {
///     #[entry]
///     fn serve(&mut self, opening: i64) { self.balance = opening; }
///     #[message]
///     fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
/// }
///
/// let runtime = Runtime::new()?;
/// let account = runtime.spawn(Account { balance: 0 }).serve(100)?;
/// account.deposit(20).send()?;
/// assert_eq!(account.deposit(5).wait()?, 125);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Runtime {
    pub(crate) host: Host,
    pub(crate) deadline: Duration,
}

impl Runtime {
    /// Returns the host of the runtime.
    pub fn host(&self) -> Host {
        self.host
    }

    /// Starts the workers of a runtime that was built [paused](crate::Builder::paused). Has no effect on a running one.
    ///
    /// # Errors
    /// [`BuildError`] if the threads cannot be started.
    pub fn resume(&self) -> Result<(), BuildError> {
        self.host.scheduler().start().map_err(BuildError::Threads)
    }

    /// Runs `future` to completion, blocking the calling thread. The future may await calls and, if the runtime has
    /// Tokio, Tokio's sockets and timers. Inside a process this costs a thread, as [`Call::wait`](crate::Call::wait)
    /// does, and the future is not part of the process: a request to end the process does not interrupt it.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.host.scheduler().within_reactor(|| while_blocked(|| outside(|| block_on(future))))
    }
}

impl Deref for Runtime {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl_debug!([] Runtime, self => "Runtime" { host: self.host, .. });
