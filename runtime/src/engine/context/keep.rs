//! Decides where a thread puts the tokens of processes: it keeps them (see [`tokens`](crate::thread_cache::tokens)),
//! queues them or parks them.

use super::thread::ThreadContext;
use crate::engine::host::late_slot::LateSlot;
use crate::slots::Token;
use crate::slots::slot::words::ParkKind;
use crate::thread_cache::evict::Evicted;
use crate::thread_cache::lock::{IS_ON, LOST, UNWATCHED};
use crate::thread_cache::tokens::{Following, KeepsNothing, Kept};

/// Number of visits to shared queues during which a thread keeps no process after a tick, and does not use the table of
/// its cache after other threads have sent to a process in that table: about 500 steps, or 25 µs if the steps are
/// short.
const COOLDOWN: u8 = 25;

/// A cooldown that never ends, for a worker in a simulation, where each message is a choice of the schedule.
pub(crate) const NO_CACHE: u8 = u8::MAX;

impl ThreadContext {
    /// Queues a process that this thread has woken or spawned: it runs next, before the process now in the run-next
    /// slot.
    #[inline]
    pub(crate) fn push_next(&self, token: Token) {
        if !IS_ON {
            return self.share(token);
        }
        let displaced = match self.thread.local.put_next(token) {
            Ok(displaced) => displaced,
            // The thread has been in its step for a long time, and another thread is moving its tokens to a shared
            // queue.
            Err(token) => return self.host.push_global(token),
        };
        // If this step does not end, the watchdog moves the process out of the run-next slot.
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

    /// Queues the processes where other threads look, since this thread has no permit to run them.
    #[cold]
    fn push_without_permit(&self, displaced: Option<Token>) {
        displaced.into_iter().chain(self.thread.local.take_next()).for_each(|token| self.host.push_global(token));
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

    /// Parks the token of a process that has nothing to do, or keeps it if another process is to run next or, for an
    /// idle process, if others are in the deque: see [`tokens`](crate::thread_cache::tokens). Returns the token if
    /// something has arrived.
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

    /// Parks a token with `park`. Returns it if something has arrived.
    #[inline(always)]
    pub(crate) fn park_token(&self, token: Token, park: impl FnOnce(Token) -> Option<Token>) -> Option<Token> {
        self.thread.running.end();
        let back = park(token)?;
        self.thread.running.begin(&back);
        Some(back)
    }

    /// Keeps the token of a process that has nothing to do, and takes that of the process to run next, if
    /// [`keep_or_park`](Self::keep_or_park) and [`next`](Self::next) would do exactly that. Marks the next process as
    /// running.
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
        // This must precede the check for requests of other threads, as in `park_token`.
        thread.running.end();
        match thread.local.keep_for_next(token.release(), kind) {
            Ok(Following { token: next, has_answer }) => {
                thread.running.begin(&next);
                Ok(Following { token: next.acquire(), has_answer })
            }
            Err(token) => {
                thread.running.begin(&token);
                Err(token.acquire())
            }
        }
    }

    /// Performs *flush* of `thread_cache::cache`: parks the tokens of the processes in the cache, and disables its
    /// table for a while.
    pub(crate) fn flush_cache(&self) {
        self.thread.local.enable_table(false);
        self.until_table.set(COOLDOWN);
        self.evict_cached();
        if self.thread.local.has_table() {
            // Other threads are taking the tokens, but may give up. Then this thread must flush again.
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

    /// Gives up all tokens that this thread keeps, because it is about to block, sleep, become spare, exit, or give its
    /// permit away.
    pub(crate) fn flush(&self) -> KeepsNothing {
        self.thread.local.flush(|kept| match kept {
            Kept::Cached(token) => self.evict(token),
            Kept::Next(token) => self.share(token),
            Kept::Vacant(token) => self.host.give_back_vacant(token),
        })
    }

    /// Empties the front of the cache.
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

    /// Empties the cache.
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

    /// Queues the processes in the cache that have input: the one at its front, and those that were put into its table
    /// since the last visit (*check* of `thread_cache::cache`).
    pub(crate) fn check_cache(&self) {
        while let Some(token) = self.thread.local.take_filled() {
            self.evict(token);
        }
    }

    /// Stops keeping processes for a while. Called after a tick: the steps of this thread may be long.
    pub(crate) fn cooldown(&self) {
        self.flush_cache();
        self.cooldown.set(self.cooldown.get().max(COOLDOWN));
        self.follow_until.set(0);
    }

    /// Counts a visit to a shared queue towards the end of the cooldown.
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

/// Returns whether a thread may keep a process: nothing has arrived, and neither senders nor its steps need to check
/// anything else.
#[inline(always)]
fn may_be_kept(token: &mut Token, kind: ParkKind) -> bool {
    let lanes = token.lanes();
    let is_empty = kind == ParkKind::Waiting || lanes.empty_first().is_some();
    is_empty && !lanes.has_control() && token.may_be_kept()
}
