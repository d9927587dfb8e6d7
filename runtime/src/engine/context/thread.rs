//! A thread's own state, and how a thread finds it from the code of its processes.
//!
//! It belongs to one system thread for that thread's life. The permit of the thread changes (`handoff`): a thread may
//! lose it in the middle of a step without knowing, so nothing here may assume that no other has that permit.

use crate::call::caller::Caller;
use crate::engine::host::late_slot::LateSlot;
use crate::engine::host::{Scheduler, UserCode};
use crate::engine::workers::Permit;
use crate::engine::workers::pinned::PinnedThread;
use crate::engine::workers::worker::Worker;
use crate::env::chance::Random;
use crate::env::clock::{Moment, TimerKey};
#[cfg(feature = "test")]
use crate::env::program::Acting;
use crate::local;
use crate::local::evict::Evicted;
use crate::local::lock::{IS_ON, LOST, UNWATCHED};
use crate::local::tokens::{Following, KeepsNothing, Kept};
use crate::mailbox::payload::Payload;
use crate::pid::{Pid, Resident};
use crate::recorder::kind::RecordKind;
use crate::slots::Token;
use crate::slots::slot::last_permit::ParkKind;
use crate::sync::{Arc, Deque};
use crate::time::timers::TimerAction;
use crate::util::defer::defer;
use std::cell::{Cell, RefCell};
use std::ptr;

pub(crate) struct ThreadContext {
    pub(crate) host: &'static Scheduler,
    pub(crate) user: Arc<UserCode>,
    pub(crate) index: usize,
    /// The part that other threads may read.
    pub(crate) thread: &'static Worker,
    /// The permit that it holds, or held last.
    pub(crate) permit_index: Cell<usize>,
    pub(crate) permit: Cell<&'static Permit>,
    /// The thread that it got its permit from, which may have left work behind.
    pub(crate) behind: Cell<Option<usize>>,
    /// Whether it has not had a permit yet.
    pub(crate) is_new: Cell<bool>,
    /// The record of a pinned process's thread, which has no permit and no index.
    pub(crate) pinned_thread: Option<&'static PinnedThread>,
    pub(crate) deque: Deque<Token>,
    /// How many steps the thread had run when a shared queue came first most recently.
    pub(crate) fair: Cell<u64>,
    pub(crate) visits: Cell<u32>,
    /// How many time slices for the last request to time a message had none.
    pub(crate) untimed: Cell<u8>,
    /// How many visits to shared queues it must make before it keeps processes; [`NO_CACHE`] if it never does.
    pub(crate) cooldown: Cell<u8>,
    /// How many before it uses the table of its cache.
    pub(crate) until_table: Cell<u8>,
    /// How many steps the thread had run when it last looked elsewhere than at its run-next slot.
    pub(crate) streak_since: Cell<u64>,
    /// At how many steps a process [follows](Self::follow) another one no more; zero while the thread keeps none.
    pub(crate) follow_until: Cell<u64>,
    pub(crate) random: RefCell<Random>,
    /// How the last slice ended, if that is recorded and not written yet; zero otherwise.
    pub(crate) slice_end: Cell<u64>,
    /// When this thread last saw a process with a deficit.
    pub(crate) deficit_seen: Cell<Moment>,
    /// When a process last used up its time slice here.
    pub(crate) slice_used: Cell<Moment>,
}

/// For how many visits to shared queues a thread keeps no process after a tick, and has none in the table of its cache
/// after others have sent to one there: some 500 steps, or 25 µs of short ones.
const COOLDOWN: u8 = 25;

/// For a worker of a simulation, in which each message is a choice.
pub(crate) const NO_CACHE: u8 = u8::MAX;

thread_local! {
    static CURRENT: Cell<*const ThreadContext> = const { Cell::new(ptr::null()) };
}

/// Calls `body` with the calling thread's context, if it belongs to a host.
#[inline]
pub(crate) fn with_current<R>(body: impl FnOnce(Option<&ThreadContext>) -> R) -> R {
    let current = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: not null only inside `ThreadContext::enter` and outside of `ThreadContext::without_context`, during which
    // the context is borrowed and this thread is its only user.
    body(unsafe { current.as_ref() })
}

/// Returns the process whose step the calling thread runs.
pub(crate) fn current_pid() -> Option<Pid> {
    with_current(|context| context?.pid())
}

impl ThreadContext {
    /// Makes the context of the thread with this index and record, which begins with that permit or without one.
    pub(crate) fn new(
        host: &'static Scheduler,
        user: Arc<UserCode>,
        (index, thread): (usize, &'static Worker),
        permit: Option<usize>,
        deque: Deque<Token>,
    ) -> Self {
        thread.local.enable_table(false);
        Self {
            host,
            user,
            index,
            thread,
            permit_index: Cell::new(permit.unwrap_or(0)),
            permit: Cell::new(&host.permits[permit.unwrap_or(0)]),
            behind: Cell::new(None),
            is_new: Cell::new(permit.is_none()),
            pinned_thread: None,
            deque,
            fair: Cell::new(0),
            visits: Cell::new(0),
            untimed: Cell::new(0),
            deficit_seen: Cell::new(Moment::about_now()),
            slice_used: Cell::new(Moment::about_now()),
            cooldown: Cell::new(0),
            until_table: Cell::new(1),
            streak_since: Cell::new(0),
            follow_until: Cell::new(0),
            slice_end: Cell::new(0),
            random: RefCell::new(Random::new(host.seed(), index as u64)),
        }
    }

    pub(crate) fn enter<R>(&self, body: impl FnOnce(&Self) -> R) -> R {
        #[cfg(feature = "test")]
        let _acting = Acting::begin(self.host.node());
        CURRENT.set(ptr::from_ref(self));
        local::set_current(Some(&self.thread.local));
        let _leave = defer(|| {
            CURRENT.set(ptr::null());
            local::set_current(None);
        });
        body(self)
    }

    /// Calls `body` without the context: its actions count as done from outside.
    pub(crate) fn without_context<R>(&self, body: impl FnOnce() -> R) -> R {
        let context = CURRENT.replace(ptr::null());
        let local = local::set_current(None);
        let _return = defer(|| {
            CURRENT.set(context);
            local::set_current(local);
        });
        body()
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        self.thread.running()?.resident()
    }

    /// Queues a process that this thread has woken or spawned: it runs next, before the one in the run-next slot.
    #[inline]
    pub(crate) fn push_next(&self, token: Token) {
        if !IS_ON {
            return self.share(token);
        }
        let displaced = match self.thread.local.put_next(token) {
            Ok(displaced) => displaced,
            // The thread has been in its step for long: the process goes where the others are just being moved to.
            Err(token) => return self.host.push_global(token),
        };
        // The watchdog rescues it from the slot behind a step that does not end.
        let attention = self.thread.attention();
        if attention & (LOST | UNWATCHED) != 0 {
            if attention & LOST != 0 {
                return self.push_without_permit(displaced);
            }
            self.be_watched();
        }
        if let Some(displaced) = displaced {
            self.push_own(displaced);
        }
    }

    /// Queues a process in the thread's deque.
    fn push_own(&self, token: Token) {
        self.deque.push(token);
        if let Some(thread) = self.host.idle.announce_own() {
            self.host.unpark(thread);
        }
    }

    /// Queues the process where other threads look: this one has no permit to run it.
    #[cold]
    fn push_without_permit(&self, displaced: Option<Token>) {
        displaced.into_iter().chain(self.thread.local.take_next()).for_each(|token| self.host.push_global(token));
    }

    /// Parks the token of a process that has nothing to do, or keeps it while another process is to run next, or, if it
    /// is idle, while others are in the deque: see [`tokens`](crate::local::tokens). Returns it if something has
    /// arrived.
    #[inline(always)]
    pub(crate) fn keep_or_park(&self, mut token: Token, kind: ParkKind) -> Option<Token> {
        let local = &self.thread.local;
        let has_next = local.has_next();
        let has_others = has_next || kind == ParkKind::Idle && local.is_table_enabled() && !self.deque.is_empty();
        if !has_others || self.cooldown.get() > 0 || !may_be_kept(&mut token, kind) {
            return match kind {
                ParkKind::Idle => self.park_token(token, Token::park_idle),
                ParkKind::Waiting => self.park_token(token, Token::park_waiting),
            };
        }
        self.thread.running.end();
        if let Some(token) = local.keep(token.release(), kind, has_next) {
            self.evict(token);
        }
        None
    }

    /// Keeps the token of a process that has nothing to do, and takes that of the process to run next, if that is all
    /// that [`keep_or_park`](Self::keep_or_park) and [`next`](Self::next) would come to. Names that one as running.
    ///
    /// # Errors
    /// The token otherwise.
    #[inline(always)]
    pub(crate) fn follow(&self, mut token: Token, kind: ParkKind) -> Result<Following, Token> {
        let thread = self.thread;
        let may_follow = thread.counters.steps.get() < self.follow_until.get();
        if !may_follow || !may_be_kept(&mut token, kind) {
            return Err(token);
        }
        // Before the look at what others ask for, as in `park_token`.
        thread.running.end();
        match thread.local.keep_for_next(token.release(), kind) {
            Ok(Following::Message(next)) => {
                thread.running.begin(&next);
                Ok(Following::Message(next.acquire()))
            }
            Ok(Following::Answer(next)) => {
                thread.running.begin(&next);
                Ok(Following::Answer(next.acquire()))
            }
            Err(token) => {
                thread.running.begin(&token);
                Err(token.acquire())
            }
        }
    }

    /// *flush* of `local::cache`: parks the tokens of the processes in the cache, and disables its table for a while.
    pub(crate) fn flush_cache(&self) {
        self.thread.local.enable_table(false);
        self.until_table.set(COOLDOWN);
        self.evict_cached();
        if self.thread.local.has_table() {
            // Others are taking them, and may give up.
            self.thread.local.lock.notify();
        }
    }

    /// Parks the token of a process that was kept, or queues it if something has arrived.
    #[inline(never)]
    fn evict(&self, token: Token) {
        match token.evict() {
            Evicted::Parked => {}
            Evicted::HasEnded(token) => self.host.push_late(LateSlot::Listed(token)),
            Evicted::HasInput(token) => self.share(token),
        }
    }

    /// Queues a process where other threads look too.
    fn share(&self, token: Token) {
        if self.thread.attention() & LOST != 0 {
            return self.host.push_global(token);
        }
        #[cfg(all(test, not(loom)))]
        crate::sync::window::pass(crate::sync::window::Window::BeforeSharing);
        self.be_watched();
        self.push_own(token);
    }

    /// Leaves nothing to this thread alone: it is about to block, to sleep, to become spare, to exit, or to give its
    /// permit away.
    pub(crate) fn flush(&self) -> KeepsNothing {
        self.thread.local.flush(|kept| match kept {
            Kept::Cached(token) => self.evict(token),
            Kept::Next(token) => self.share(token),
            Kept::Vacant(token) => self.host.give_back_vacant(token),
        })
    }

    /// Leaves no process at the front of the cache.
    #[inline]
    pub(crate) fn leave_front(&self) {
        if self.thread.local.has_front() {
            self.leave_front_apart();
        }
    }

    #[inline(never)]
    fn leave_front_apart(&self) {
        if let Some(token) = self.thread.local.leave_front() {
            self.evict(token);
        }
    }

    /// Leaves no process in the cache.
    #[inline]
    pub(crate) fn evict_cached(&self) {
        if self.thread.local.has_cached() {
            self.evict_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn evict_all(&self) {
        self.thread.local.take_cached().for_each(|token| self.evict(token));
    }

    /// Queues the processes to which others have sent something: that at the front of the cache, and of those in its
    /// table the ones that have come there since the last visit (*check* of `local::cache`).
    pub(crate) fn check_cache(&self) {
        while let Some(token) = self.thread.local.take_filled() {
            self.evict(token);
        }
    }

    /// A tick has passed: the steps of this thread may be long.
    pub(crate) fn cooldown(&self) {
        self.flush_cache();
        self.cooldown.set(self.cooldown.get().max(COOLDOWN));
        self.follow_until.set(0);
    }

    /// Counts a visit to a shared queue.
    pub(crate) fn warm_up(&self) {
        let cooldown = self.cooldown.get();
        if cooldown == NO_CACHE {
            return;
        }
        self.cooldown.set(cooldown.saturating_sub(1));
        let until_table = self.until_table.get();
        if until_table > 0 {
            self.until_table.set(until_table - 1);
            self.thread.local.enable_table(until_table == 1);
        }
    }
}

/// Returns whether a thread may keep a process: nothing has arrived, and senders and its steps need look at nothing
/// else.
#[inline(always)]
fn may_be_kept(token: &mut Token, kind: ParkKind) -> bool {
    let lanes = token.lanes();
    let is_empty = kind == ParkKind::Waiting || lanes.empty_first().is_some();
    is_empty && !lanes.has_control() && token.may_be_kept()
}

/// Returns a command that is to be passed to its handler now. One that fails is dropped, with its caller, which
/// answers; one that is late comes by a timer.
#[cfg(feature = "test")]
fn simulate_dispatch(host: &'static Scheduler, command: Payload, caller: Caller) -> Option<(Payload, Caller)> {
    use crate::sync::simulated::{Mishap, mishap};
    let of = command.value_type();
    if mishap(Mishap::FailedCommand, of).is_some() {
        return None;
    }
    let Some(late) = mishap(Mishap::LateCommand, of) else { return Some((command, caller)) };
    let action = Box::new(move || _ = host.with_user(|user| user.handlers.dispatch(command, caller)));
    host.set_timer(Moment::now().after(late), TimerAction::Run(action));
    None
}

impl Scheduler {
    /// Calls `body` with the user code; `None` when the host has been shut down.
    pub(crate) fn with_user<R>(&self, body: impl FnOnce(&UserCode) -> R) -> Option<R> {
        with_current(|context| match context {
            Some(context) if ptr::eq(context.host, self) => Some(body(&context.user)),
            _ => self.user().map(|user| body(&user)),
        })
    }

    /// Passes a command to its handler. Errors are answers too.
    pub(crate) fn dispatch(&'static self, command: Payload, caller: Caller) {
        #[cfg(feature = "test")]
        let Some((command, caller)) = simulate_dispatch(self, command, caller) else { return };
        // Without the user code both are dropped, which answers.
        self.with_user(|user| user.handlers.dispatch(command, caller));
    }

    pub(crate) fn set_timer(&'static self, due: Moment, action: TimerAction) -> Option<TimerKey> {
        if self.recorder.is_sampling() {
            self.record_timer(due, action.process());
        }
        let (key, first) = self.timers.set(self.current_worker(), due, action)?;
        if first {
            self.wake_for_timer();
        }
        Some(key)
    }

    #[cold]
    #[inline(never)]
    fn record_timer(&'static self, due: Moment, process: u64) {
        self.recorder.note(RecordKind::TimerSet, process, due.nanoseconds(), None);
    }

    /// Returns the permit that the calling thread holds, if it belongs to this host.
    #[inline]
    pub(crate) fn current_worker(&self) -> Option<usize> {
        with_current(|context| {
            context.filter(|context| ptr::eq(context.host, self)).map(|context| context.permit_index.get())
        })
    }

    /// Returns the number of the calling thread, if it is one of this host's. That of a pinned process's thread is
    /// greater than any other.
    #[inline]
    pub(crate) fn current_thread(&self) -> Option<usize> {
        with_current(|context| context.filter(|context| ptr::eq(context.host, self)).map(|context| context.index))
    }

    /// Runs foreign code, which may take long, between two steps: the thread's permit can be taken over as in a step.
    pub(crate) fn while_visiting<R>(&self, body: impl FnOnce() -> R) -> R {
        with_current(|context| {
            let thread = context.filter(|context| ptr::eq(context.host, self)).map(|context| context.thread);
            match thread.filter(|thread| thread.running().is_none()) {
                Some(thread) => thread.visit(body),
                None => body(),
            }
        })
    }
}
