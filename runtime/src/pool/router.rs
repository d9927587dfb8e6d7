//! The sending side of a pool: its plan, under a lock, and the execution of the plan's actions.
//!
//! Any thread that sends, answers, or keeps time changes the plan under the lock. The plan's actions are executed
//! without the lock, since they run other code (a refused message may be a dead letter, which goes to a user's hook).
//! Still, only one thread at a time executes them, in order: `acting` marks that a thread does so, and that thread also
//! executes the actions that others add. So two messages from one sender to one member stay in order, and an answer
//! that arrives while the pool acts causes no deadlock.
//!
//! A thread that must not run user code passes messages through [`Incoming`].

use super::completion::{CompletionListener, MemberCaller};
use super::incoming::{Incoming, RETRY};
use super::plan::{MemberId, PoolAction, PoolPlan, PoolRefusal, PoolStatistics, QueuedMessage};
use super::route::{Route, Routes};
use crate::call::dead_letter::{DeadLetterReason, Internal};
use crate::engine::backpressure::congestion::{SendMode, with_mode};
use crate::engine::{host::Scheduler, host::backlog::Backlog};
use crate::env::clock::{Moment, TimeKeeper, TimerKey, has_virtual_clock};
use crate::env::program::as_node;
use crate::routing::router::{route, send};
use crate::sync::{Arc, Mutex, MutexGuard, OnceLock, lock};
use crate::time::timekeeper::timekeeper;
use crate::util::notifiers;
use crate::util::panics::{Site, contain};
use crate::{
    CallError, ExitReason, Package, Payload, Pid, call::package::Undeliverable, errors::SendFailure,
    routing::alias::AliasTarget, slots::ProcessKind, util::oneshot::Oneshot,
};
use std::sync::Weak;

pub(crate) trait LaneKey: Clone + Ord + Send + Sync + 'static {}

impl<K: Clone + Ord + Send + Sync + 'static> LaneKey for K {}

pub(crate) struct PoolRouter<K: LaneKey> {
    state: Mutex<RouterState<K>>,
    routes: Routes<K>,
    incoming: Incoming<K>,
    host: &'static Scheduler,
    /// The pool's process, once it has started.
    pub(crate) process: OnceLock<Pid>,
    /// The type that addresses of the pool are checked against.
    pub(crate) kind: OnceLock<&'static ProcessKind>,
    itself: Weak<Self>,
}

struct RouterState<K> {
    plan: PoolPlan<K, Package>,
    /// Whether a thread is executing actions.
    acting: bool,
    alarm: Option<(Moment, TimerKey)>,
    /// Counters that the plan does not keep: messages, and members started.
    counted: PoolStatistics,
    /// Latest time that was passed to the plan. The approximate clocks of threads differ, and a plan for which time ran
    /// backwards would wait for a moment that has passed.
    latest: Option<Moment>,
    /// Waiters to be signalled when the pool may have room.
    rooms: Vec<Arc<Oneshot<()>>>,
}

impl<K> RouterState<K> {
    /// Returns the later of `now` and the latest time of the plan, and stores it as the latest.
    fn no_earlier(&mut self, now: Moment) -> Moment {
        *self.latest.insert(self.latest.map_or(now, |latest| latest.max(now)))
    }
}

impl<K: LaneKey> PoolRouter<K> {
    pub(crate) fn new(plan: PoolPlan<K, Package>, routes: Routes<K>, host: &'static Scheduler) -> Arc<Self> {
        let state = RouterState {
            plan,
            acting: false,
            alarm: None,
            counted: PoolStatistics::default(),
            latest: None,
            rooms: Vec::new(),
        };
        let router = Arc::new_cyclic(|itself| Self {
            state: Mutex::new(state),
            routes,
            incoming: Incoming::new(),
            host,
            process: OnceLock::new(),
            kind: OnceLock::new(),
            itself: itself.clone(),
        });
        host.backlogs.add(router.itself.clone());
        router
    }

    /// Calls the plan and executes its actions.
    pub(crate) fn tell<R>(&self, what: impl FnOnce(&mut PoolPlan<K, Package>, Moment) -> R) -> R {
        let mut state = lock(&self.state);
        let now = state.no_earlier(self.now());
        let told = what(&mut state.plan, now);
        self.act(state);
        told
    }

    /// Ends the pool: no further actions are executed. Returns the queued messages, and the members that are still
    /// alive.
    pub(crate) fn close(&self) -> (Vec<Package>, Vec<Pid>) {
        let mut state = lock(&self.state);
        let left = state.plan.end_with(ExitReason::NoProcess);
        state.plan.close();
        if let Some((_, key)) = state.alarm.take() {
            self.host.forget(key);
        }
        let (members, rooms) = (state.plan.all(), std::mem::take(&mut state.rooms));
        drop(state);
        rooms.into_iter().for_each(|room| _ = room.put(()));
        (left, members)
    }

    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut PoolPlan<K, Package>, PoolStatistics) -> R) -> R {
        let mut state = lock(&self.state);
        let counted = state.counted;
        look(&mut state.plan, counted)
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut PoolStatistics)) {
        count(&mut lock(&self.state).counted);
    }

    fn now(&self) -> Moment {
        match self.host.clock_override() {
            // This is called often, and need not be exact; but on a thread with a virtual clock, `about_now` would
            // return that clock's time.
            None if !has_virtual_clock() => Moment::about_now(),
            told => Moment::now_by(told),
        }
    }

    /// Executes the plan's actions, unless another thread is doing so.
    fn act<'a>(&'a self, mut state: MutexGuard<'a, RouterState<K>>) {
        // Set even if another thread is executing actions, since that may take a long time.
        self.set_alarm(&mut state);
        if std::mem::replace(&mut state.acting, true) {
            return;
        }
        while let Some(action) = state.plan.action() {
            if matches!(action, PoolAction::Expire(_)) {
                state.counted.expired += 1;
            }
            drop(state);
            if let Err(panic) = contain(Site::Backstop, || as_node(self.host.node(), || self.carry_out(action))) {
                crate::util::log::error!(%panic, "an action of a pool panicked");
            }
            state = lock(&self.state);
        }
        self.set_alarm(&mut state);
        state.acting = false;
        let rooms = if state.plan.take_freed() { std::mem::take(&mut state.rooms) } else { Vec::new() };
        drop(state);
        rooms.into_iter().for_each(|room| _ = room.put(()));
    }

    fn carry_out(&self, action: PoolAction<K, Package>) {
        match action {
            PoolAction::Give(member, waiting) => self.give(member, waiting),
            PoolAction::Copy(member, package) => {
                let (to, payload, caller) = package.into_parts();
                let copy = Package::from_parts(member, payload, caller);
                if let Err(refused) = with_mode(SendMode::Try, || route(copy)) {
                    let reason = match refused.reason {
                        SendFailure::Full(_) => DeadLetterReason::Overflow,
                        _ => DeadLetterReason::Ended,
                    };
                    self.fail(refused.package.readdressed(to), reason, refused.reason.into());
                }
            }
            PoolAction::Start(_) | PoolAction::GiveUp(_) | PoolAction::Over => self.pass_on(action),
            PoolAction::Stop(member) => _ = member.stop(),
            PoolAction::Cancel(member) => _ = member.cancel(ExitReason::Shutdown),
            PoolAction::Kill(member) => _ = member.kill(),
            PoolAction::Expire(package) => self.fail(package, DeadLetterReason::Expired, CallError::Timeout),
            PoolAction::Fail(package, why) => self.fail(package, DeadLetterReason::Ended, CallError::Gone(why)),
        }
    }

    /// Passes an action on to the pool's process. If that process has ended, there is nothing left to do.
    fn pass_on(&self, action: PoolAction<K, Package>) {
        if let Some(process) = self.process.get() {
            let _ended = send(*process, Internal(Payload::new(action)));
        }
    }

    /// Gives a message to a member. A stand-in for the message's caller notifies the pool when the message is done.
    fn give(&self, member: MemberId, waiting: QueuedMessage<K, Package>) {
        let Some(itself) = self.itself.upgrade() else { return };
        let QueuedMessage { message, place } = waiting;
        let (to, payload, caller) = message.into_parts();
        let (member_caller, caller) = MemberCaller::new(itself, member.number, caller);
        // A process that sends to the pool, or answers, must not be suspended at a member's mailbox.
        let sent = Package::from_parts(member.pid, payload, Some(caller));
        let Err(refused) = with_mode(SendMode::Try, || route(sent)) else { return };
        let (_, payload, _unheard) = refused.package.into_parts();
        let message = Package::from_parts(to, payload, member_caller.take_back());
        let lives = match refused.reason {
            SendFailure::Full(_) | SendFailure::Restarting(_) => true,
            // The member has ended, and its end will be reported.
            SendFailure::Gone(_)
            | SendFailure::Shutdown(_)
            | SendFailure::UnknownNode(_)
            | SendFailure::UnknownHost(_) => false,
            // The member is alive but cannot get this message.
            reason => {
                self.fail(message, DeadLetterReason::Ended, reason.into());
                return self.tell(|plan, now| plan.unsent(now, member.number));
            }
        };
        // The message waits for another member, or for room in this one.
        self.tell(|plan, now| plan.bounced(now, member.number, lives, QueuedMessage { message, place }));
    }

    fn set_alarm(&self, state: &mut RouterState<K>) {
        let Some(due) = state.plan.due() else { return };
        if let Some((set, key)) = state.alarm {
            if set <= due {
                return;
            }
            self.host.forget(key);
        }
        let itself = self.itself.clone();
        let ring = move || {
            if let Some(router) = itself.upgrade() {
                router.ring(due);
            }
        };
        // `None` if the host is down and keeps no timers.
        state.alarm = self.host.later(due, Box::new(ring)).map(|key| (due, key));
    }

    fn ring(&self, due: Moment) {
        let mut state = lock(&self.state);
        // Another alarm may have been set while this one fired.
        if state.alarm.is_some_and(|(_, key)| !self.host.is_pending(key)) {
            state.alarm = None;
        }
        let now = state.no_earlier(self.now().max(due));
        state.plan.tick(now);
        self.act(state);
    }

    pub(crate) fn fail(&self, package: Package, reason: DeadLetterReason, error: CallError) {
        package.fail(self.host, reason, error);
    }
}

/// Drops the user's closures on a notifier if necessary: any sending thread may drop the last reference to the pool.
impl<K: LaneKey> Drop for PoolRouter<K> {
    fn drop(&mut self) {
        let routes = std::mem::replace(&mut self.routes, Routes::new(None));
        notifiers::run(move || drop(routes));
    }
}

impl<K: LaneKey> Backlog for PoolRouter<K> {
    fn is_empty(&self) -> bool {
        // `incoming` is checked first, since messages move from there to the plan.
        let none_comes = self.incoming.is_empty();
        let state = lock(&self.state);
        // A thread that executes actions may hold a message.
        none_comes && !state.acting && state.plan.statistics(state.counted).waiting == 0
    }
}

impl<K: LaneKey> CompletionListener for PoolRouter<K> {
    fn handled(&self, member: u64) {
        self.tell(|plan, now| plan.done(now, member));
    }
}

impl<K: LaneKey> AliasTarget for PoolRouter<K> {
    /// Returns `None`, because no single process stands behind the alias: through `take`, each message gets to the next
    /// member with room.
    fn now(&self) -> Option<Pid> {
        None
    }

    fn take(&self, package: Package) -> Result<(), Undeliverable> {
        let taken = match self.itself.upgrade().filter(|_| notifiers::is_needed()) {
            Some(itself) => itself.take_later(package),
            None => {
                let (package, route) = self.route(package);
                self.take_now(package, route)
            }
        };
        taken.inspect_err(|_| self.count(|counted| counted.refused += 1))
    }

    fn life(&self) -> Option<Pid> {
        self.process.get().copied()
    }

    fn kind(&self) -> Option<&'static ProcessKind> {
        self.kind.get().copied()
    }

    fn owner(&self) -> u16 {
        self.host.number()
    }

    fn room(&self) -> Option<Arc<Oneshot<()>>> {
        let mut state = lock(&self.state);
        if state.plan.has_room() {
            return None;
        }
        let room = Arc::new(Oneshot::new());
        state.rooms.retain(|room| !room.is_abandoned());
        state.rooms.push(room.clone());
        Some(room)
    }
}

impl<K: LaneKey> PoolRouter<K> {
    /// Takes a package on a thread that must not run user code.
    fn take_later(self: Arc<Self>, package: Package) -> Result<(), Undeliverable> {
        let to = package.to();
        if !self.look(|plan, _| plan.accepts()) {
            return Err(Undeliverable { package, reason: SendFailure::Gone(to) });
        }
        match self.incoming.push(package) {
            Ok(true) => notifiers::notify(Box::new(move || self.bring())),
            Ok(false) => {}
            Err(package) => return Err(Undeliverable { package, reason: SendFailure::Full(to) }),
        }
        Ok(())
    }

    /// Passes incoming packages to the plan until it has no room.
    fn bring(self: Arc<Self>) {
        while let Some((package, known)) = self.incoming.next() {
            let (package, route) = match known {
                Some(route) => (package, route),
                None => self.route(package),
            };
            let Err(Undeliverable { package, reason }) = self.take_now(package, route.clone()) else { continue };
            if !matches!(reason, SendFailure::Full(_)) {
                self.fail(package, DeadLetterReason::Ended, reason.into());
                continue;
            }
            self.incoming.put_back(package, route);
            let again = Arc::clone(&self);
            // Uses the system clock, even if a test controls the host's clock.
            let due = Moment::now_by(None).after(RETRY);
            if timekeeper().later(due, Box::new(move || again.bring())).is_some() {
                return;
            }
            // The system refused the thread that would wait, so the package fails instead.
            if let Some((package, _)) = self.incoming.next() {
                self.fail(package, DeadLetterReason::Overflow, CallError::Full);
            }
        }
    }

    /// Determines the route of a package. This runs user code.
    fn route(&self, package: Package) -> (Package, Route<K>) {
        let (to, mut payload, caller) = package.into_parts();
        let route = self.routes.of(&mut payload);
        (Package::from_parts(to, payload, caller), route)
    }

    fn take_now(&self, package: Package, route: Route<K>) -> Result<(), Undeliverable> {
        let to = package.to();
        let refused = match route {
            Route::Lane(key) => self.arrive(key, package),
            Route::All(copy) => self.spread(package, copy),
            Route::None => {
                self.fail(package, DeadLetterReason::Unhandled, CallError::Unhandled);
                return Ok(());
            }
        };
        refused.map_err(|(package, refusal)| {
            let reason = match refusal {
                PoolRefusal::Full => SendFailure::Full(to),
                PoolRefusal::Draining => SendFailure::Gone(to),
            };
            Undeliverable { package, reason }
        })
    }

    fn arrive(&self, key: K, package: Package) -> Result<(), (Package, PoolRefusal)> {
        let mut state = lock(&self.state);
        let now = state.no_earlier(self.now());
        let arrived = state.plan.arrive(now, key, package);
        state.counted.accepted += u64::from(arrived.is_ok());
        self.act(state);
        arrived
    }

    /// Sends a package to all members. A call is answered by the first member. Without members, a sent message is
    /// dropped and a call fails.
    fn spread(
        &self,
        package: Package,
        copy: fn(&mut Payload) -> Option<Payload>,
    ) -> Result<(), (Package, PoolRefusal)> {
        let (accepts, members) = self.look(|plan, _| (plan.accepts(), plan.members()));
        if !accepts {
            return Err((package, PoolRefusal::Draining));
        }
        let (to, mut payload, caller) = package.into_parts();
        // Copied outside the lock, since cloning is user code.
        let mut copied = || members.iter().skip(1).filter_map(|member| Some((*member, copy(&mut payload)?))).collect();
        let copies: Result<Vec<_>, _> = contain(Site::PoolCopy, &mut copied);
        let package = Package::from_parts(to, payload, caller);
        let copies = match copies {
            Ok(copies) => copies,
            Err(panic) => {
                // If one copy fails, no member gets the message.
                crate::util::log::error!(%panic, "cloning a message for the members of a pool panicked");
                self.fail(package, DeadLetterReason::Unhandled, CallError::Unhandled);
                return Ok(());
            }
        };
        self.count(|counted| counted.accepted += 1);
        match members.first() {
            Some(first) => self.tell(|plan, _| {
                plan.spread(*first, package);
                copies.into_iter().for_each(|(member, copy)| plan.spread(member, Package::from_parts(to, copy, None)));
            }),
            None if package.has_caller() => {
                self.fail(package, DeadLetterReason::Ended, CallError::Gone(ExitReason::NoProcess));
            }
            None => drop(package.into_parts()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::routing::router::route;
    use crate::sync::ThreadKind;
    use crate::{CallError, ExitReason, Package, Payload, Pid, Pool, Runtime, SpawnError};
    use std::sync::mpsc::channel;
    use std::thread;

    /// Catches: a message from another node that waits for room is counted as refused, or its key is determined anew,
    /// at each retry.
    #[test]
    fn a_message_that_waits_for_room_is_routed_once_and_not_refused() {
        // The pool's process never runs, so it starts no member.
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let (ask, asked) = channel();
        let key = move |number: &u32| {
            ask.send(*number).unwrap();
            0_u8
        };
        let pool = Pool::by_key(key).queue(0);
        let pool = pool.spawn(runtime.host(), |_, _: &u8| Err::<Pid, _>(SpawnError::Slots)).unwrap();
        let (tell, told) = channel();
        let package = |number: u32| {
            let tell = tell.clone();
            let then = move |answer: Result<Payload, CallError>| tell.send((number, answer.err())).unwrap();
            Package::with_answer(pool.pid(), Payload::new(number), None, then)
        };
        assert!(route(package(1)).is_ok(), "it waits for a member");
        let waits = package(2);
        let sent = thread::spawn(move || {
            ThreadKind::Cluster.enter();
            route(waits).is_ok()
        });
        assert!(sent.join().unwrap());
        assert_eq!([asked.recv(), asked.recv()], [Ok(1), Ok(2)]);
        assert!(route(package(3)).is_err());
        assert_eq!(asked.recv(), Ok(3));
        pool.stop();
        let gone = Some(CallError::Gone(ExitReason::NoProcess));
        assert!(told.iter().any(|answer| answer == (2, gone.clone())));
        assert_eq!(asked.try_recv().ok(), None);
        assert_eq!(pool.statistics().refused, 1);
    }
}
