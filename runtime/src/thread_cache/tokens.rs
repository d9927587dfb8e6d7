//! The tokens that a thread keeps to itself and moves without any atomic exchange: those of the process that it runs
//! next, of the processes in its [cache](super::cache), and of [vacant slots](super::vacant_slots).
//!
//! # Messages
//!
//! Keeping an idle process saves the exchange that would park its token. A message from the same thread then needs
//! neither the exchange that queues it nor the one that takes the token: the sender takes the token from here, stores
//! the message in the mailbox's first node, and makes the process run next ([`send`](super::send)). Other threads send
//! as usual and leave the rest to the thread that keeps the token.
//!
//! A small message is stored within the section of the lock that also moves the token ([`LocalTokens::begin_refill`]);
//! a message in a block is not, since the block may come from the user's allocator. A process that comes to rest while
//! another one is to run next changes places with it in one section ([`LocalTokens::keep_for_next`]), so two processes
//! that send to each other need two sections per message.
//!
//! # Answers
//!
//! A process that waits for control only, usually for an answer, is kept in the same way. An answer from the same
//! thread then needs none of three exchanges: the one that parks the token, the one that pushes the answer and takes
//! the token, and the one that takes the answer out of the control lane. The answering process makes the other one run
//! next, and the answer is stored beside the run-next slot ([`LocalTokens::put_answered_next`]). The answer stays with
//! the token. If the thread takes the token to run the process, the answer comes first in the step. If the token is
//! displaced or taken by another thread, its new holder pushes the answer into the control lane.
//!
//! An answer takes this path only while the control lane is empty, so it comes before anything that is pushed to that
//! lane later. There is one exception: if another thread takes the process at that moment, the answer may come after
//! something that the answering thread has sent later. No process notices, because processes that wait for control are
//! futures, and a future is polled only when all controls have been taken.
//!
//! # When
//!
//! A thread keeps processes only while it has others to run. It flushes everything before it blocks, sleeps or gives
//! its permit away. If a step does not end, the kept processes wait, like the one in the run-next slot, until the
//! watchdog moves them. After a watchdog tick the thread keeps nothing for a while (`ThreadContext::cooldown`), since a
//! thread whose steps are long sees a tick every few steps.
//!
//! # The flush
//!
//! No other thread looks at the tokens of a thread that blocks, sleeps, is spare or exits. So before any of these, and
//! before it gives its permit away, a thread takes its tokens of each kind until there are none
//! ([`LocalTokens::flush`]). A failure to take one does not prove that there are none: another thread may be [about to
//! take them](super::lock) and then give up. So the flush looks at the places themselves and tries again while one has
//! a token; the other thread takes that token or gives up soon. The functions by which a thread does any of these
//! things require a [`KeepsNothing`], which only the flush creates.
//!
//! Moving a token elsewhere runs no user code, since that might wake or spawn processes that the thread would keep
//! again.
//!
//! A model is in `tests/models`.

use super::cache::Cache;
use super::lock::{BiasedLock, LOST, NOTIFIED, UNWATCHED};
use super::vacant_slots::VacantSlots;
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{MailNode, NodeBox};
use crate::slots::slot::words::ParkKind;
use crate::slots::{Slot, Token};
use crate::sync::{AtomicPtr, Ordering, yield_now};
use std::ptr::{self, NonNull};

pub(crate) struct LocalTokens {
    pub(crate) lock: BiasedLock,
    run_next: AtomicPtr<Slot>,
    /// An answer for the process in `run_next`, or for the process that the thread has taken from `run_next`, until its
    /// step begins. It belongs to the holder of the token.
    answer: AtomicPtr<MailNode>,
    /// The process that the answer is for; meaningless if there is no answer.
    answered: AtomicPtr<Slot>,
    cache: Cache,
    vacant: VacantSlots,
}

/// Proves that the calling thread keeps no tokens, until it runs a process or user code.
#[must_use = "it lets the thread block, sleep, become spare, exit or give its permit away"]
pub(crate) struct KeepsNothing(());

#[cfg(any(loom, test))]
impl KeepsNothing {
    /// Creates the proof in models and tests without these tokens.
    pub(crate) fn without_tokens() -> Self {
        Self(())
    }
}

/// A token that a thread has kept. The variant determines where it is moved.
pub(crate) enum Kept {
    /// The token of a process in the cache.
    Cached(Token),
    /// The token of the process to run next.
    Next(Token),
    /// The token of a vacant slot.
    Vacant(Token),
}

/// The tokens that were taken from a thread.
#[derive(Default)]
pub(crate) struct Revoked {
    pub(crate) run_next: Option<Token>,
    pub(crate) cached: Vec<Token>,
    pub(crate) vacant: Vec<Token>,
}

fn taken(token: *mut Slot) -> Option<Token> {
    // SAFETY: the pointers in places came from `into_raw`, and each is taken out once, by the holder of the lock.
    NonNull::new(token).map(|slot| unsafe { Token::from_raw(slot) })
}

/// Restores a token from the pointer that `into_raw` has returned.
fn kept_out(token: *mut Slot) -> Token {
    // SAFETY: it came from `into_raw`.
    unsafe { Token::from_raw(NonNull::new_unchecked(token)) }
}

/// Exchanges the content of a place. Must be called by the holder of the lock.
#[inline(always)]
fn exchange<T>(place: &AtomicPtr<T>, content: *mut T) -> *mut T {
    let before = place.load(Ordering::Relaxed);
    place.store(content, Ordering::Relaxed);
    before
}

impl LocalTokens {
    pub(crate) fn none() -> Self {
        Self {
            lock: BiasedLock::new(),
            run_next: AtomicPtr::new(ptr::null_mut()),
            answer: AtomicPtr::new(ptr::null_mut()),
            answered: AtomicPtr::new(ptr::null_mut()),
            cache: Cache::new(),
            vacant: VacantSlots::none(),
        }
    }

    /// Returns whether there is a process to run next. May be called from any thread. On the thread itself, the result
    /// is exact unless another thread is taking the token.
    #[inline(always)]
    pub(crate) fn has_next(&self) -> bool {
        !self.run_next.load(Ordering::Relaxed).is_null()
    }

    /// Returns whether there may be processes in the cache.
    #[inline(always)]
    pub(crate) fn has_cached(&self) -> bool {
        self.has_front() || self.has_table()
    }

    /// Returns whether there is a process at the front of the cache.
    #[inline(always)]
    pub(crate) fn has_front(&self) -> bool {
        self.cache.has_front()
    }

    /// Returns whether there may be processes in the table of the cache.
    #[inline(always)]
    pub(crate) fn has_table(&self) -> bool {
        self.cache.has_table()
    }

    /// Returns whether the process in `slot` is in the table of the cache. May be called from any thread; the result
    /// may already be out of date.
    pub(crate) fn has_in_table(&self, slot: &Slot) -> bool {
        self.cache.has(slot)
    }

    /// Returns whether the table of the cache is enabled.
    #[inline(always)]
    pub(crate) fn is_table_enabled(&self) -> bool {
        self.cache.is_enabled()
    }

    /// Enables or disables the table of the calling thread's cache.
    pub(crate) fn enable_table(&self, is_enabled: bool) {
        self.cache.enable(is_enabled);
    }

    /// Returns whether there is a process to run next, the process at the front of the cache has input, or the thread
    /// has been notified of input for one in the table. May be called from any thread; the result may already be out of
    /// date.
    pub(crate) fn has_work(&self) -> bool {
        self.has_next() || self.cache.has_filled_front() || self.has_table() && self.lock.attention() & NOTIFIED != 0
    }

    /// Returns whether the thread keeps vacant slots.
    #[inline(always)]
    pub(crate) fn has_vacant(&self) -> bool {
        self.vacant.has_some()
    }

    /// Returns whether there may be a token of any kind.
    fn has_any(&self) -> bool {
        self.has_next() || self.has_cached() || self.has_vacant()
    }
}

/// Operations of the thread itself.
impl LocalTokens {
    /// Makes the process of `token` run next. Returns the token that it displaces.
    ///
    /// # Errors
    /// The token, if another thread is taking the tokens of this one.
    #[inline(always)]
    pub(crate) fn put_next(&self, token: Token) -> Result<Option<Token>, Token> {
        let raw = token.into_raw();
        let put = || taken(exchange(&self.run_next, raw)).map(|displaced| self.push_answer(displaced));
        self.lock.section(0, put).ok_or_else(|| kept_out(raw))
    }

    /// Makes the process of `token` run next, if there is no process to run next yet, and the thread is watched and has
    /// its permit.
    ///
    /// # Errors
    /// The token otherwise, or if another thread is taking the tokens of this one.
    #[inline(always)]
    pub(super) fn put_only_next(&self, token: Token) -> Result<(), Token> {
        let raw = token.into_raw();
        let put = self.lock.section(LOST | UNWATCHED, || {
            let is_free = !self.has_next();
            if is_free {
                self.run_next.store(raw, Ordering::Relaxed);
            }
            is_free
        });
        if put == Some(true) { Ok(()) } else { Err(kept_out(raw)) }
    }

    /// Makes the process in `slot` run next with an answer. The process waits for control only. This is done only if
    /// the process is in the cache, its control lane is empty, there is no process to run next yet, and the thread is
    /// watched and has its permit.
    ///
    /// # Errors
    /// The answer otherwise, or if another thread is taking the tokens of this one.
    #[inline(always)]
    pub(super) fn put_answered_next(&self, slot: &'static Slot, answer: NodeBox) -> Result<(), NodeBox> {
        let put = self.lock.section(LOST | UNWATCHED, || {
            let place = self.cache.find(slot).filter(|_| !self.has_next() && !slot.lanes.has_control());
            place.is_some_and(|place| {
                place.store(ptr::null_mut(), Ordering::Relaxed);
                slot.permit.keep(None);
                answer.next().store(ptr::null_mut(), Ordering::Relaxed);
                self.answer.store(answer.as_ptr().as_ptr(), Ordering::Relaxed);
                self.answered.store(ptr::from_ref(slot).cast_mut(), Ordering::Relaxed);
                self.run_next.store(ptr::from_ref(slot).cast_mut(), Ordering::Relaxed);
                true
            })
        });
        if put != Some(true) {
            return Err(answer);
        }
        let _in_its_place = answer.into_raw();
        Ok(())
    }

    /// Takes the token of the process to run next, for a purpose other than running it here.
    pub(crate) fn take_next(&self) -> Option<Token> {
        Some(self.push_answer(self.take_next_to_run()?))
    }

    /// Takes the token of the process to run next. The step takes the answer that comes with the token, if there is
    /// one, by [`take_answer`](Self::take_answer).
    #[inline(always)]
    pub(crate) fn take_next_to_run(&self) -> Option<Token> {
        if !self.has_next() {
            return None;
        }
        taken(self.lock.section(0, || exchange(&self.run_next, ptr::null_mut()))?)
    }

    /// Returns whether there is an answer for the process of `token`.
    #[inline(always)]
    pub(crate) fn has_answer(&self, token: &Token) -> bool {
        !self.answer.load(Ordering::Relaxed).is_null() && ptr::eq(self.answered.load(Ordering::Relaxed), token.slot())
    }

    /// Takes the answer for the process of `token`.
    #[inline(always)]
    pub(crate) fn take_answer(&self, token: &Token) -> Option<NodeBox> {
        if !self.has_answer(token) {
            return None;
        }
        self.take_its_answer()
    }

    /// Takes the answer for a process whose token the calling thread holds, after [`has_answer`](Self::has_answer) has
    /// returned true.
    #[inline(always)]
    pub(crate) fn take_its_answer(&self) -> Option<NodeBox> {
        let answer = NonNull::new(self.answer.load(Ordering::Relaxed))?;
        self.answer.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: it came from `into_raw`, and is taken out once.
        Some(unsafe { NodeBox::from_raw(answer) })
    }

    /// Pushes the answer for the process of `token`, if there is one, into that process's control lane. Needed if the
    /// process is to run elsewhere or later.
    pub(crate) fn push_answer(&self, token: Token) -> Token {
        if let Some(answer) = self.take_answer(&token) {
            let claim = token.slot().lanes.push_control(answer);
            debug_assert_eq!(claim, Claim::Nothing, "the token is here");
        }
        token
    }

    /// Returns whether the process in the slot `index` runs next; false if another thread is taking it. If the process
    /// runs next, the thread that runs it sees everything that this thread has done before the call, even if another
    /// thread takes the process from here later.
    #[inline(always)]
    pub(crate) fn is_next(&self, index: u32) -> bool {
        // SAFETY: null, or a slot; slots are never freed.
        let is_it =
            || unsafe { self.run_next.load(Ordering::Relaxed).as_ref() }.is_some_and(|slot| slot.index() == index);
        self.lock.section(0, is_it) == Some(true)
    }

    /// Keeps the token of a process that has nothing to do: at the front of the cache, or in its table. If there is no
    /// room for both this process and the one that it displaces, returns the token of the process to evict.
    #[inline(always)]
    pub(crate) fn keep(&self, token: Token, kind: ParkKind, at_front: bool) -> Option<Token> {
        token.slot().permit.keep(Some(kind));
        let raw = token.into_raw();
        let kept = self.lock.section(0, || {
            let behind = if at_front { exchange(&self.cache.front, raw) } else { raw };
            if behind.is_null() || self.lock.is_in_charge() && self.put_into_table(behind) {
                return None;
            }
            taken(behind)
        });
        kept.unwrap_or_else(|| Some(kept_out(raw)))
    }

    /// Keeps the token of a process that has nothing to do at the front of the cache, and takes that of the process to
    /// run next. Does so only if there is a process to run next, the front is free or its process fits into the table,
    /// and the thread has nothing to check between two steps.
    ///
    /// # Errors
    /// The token otherwise, or if light barriers are not enough.
    #[inline(always)]
    pub(crate) fn keep_for_next(&self, token: Token, kind: ParkKind) -> Result<Following, Token> {
        let attention = self.lock.begin();
        let next = NonNull::new(self.run_next.load(Ordering::Relaxed));
        let (front, answer) = (self.cache.front.load(Ordering::Relaxed), self.answer.load(Ordering::Relaxed));
        // The common case takes a single comparison.
        let result = match next {
            Some(next)
                if usize::from(attention) | front.addr() == 0 || attention == 0 && self.put_into_table(front) =>
            {
                self.run_next.store(ptr::null_mut(), Ordering::Relaxed);
                token.slot().permit.keep(Some(kind));
                self.cache.front.store(token.into_raw(), Ordering::Relaxed);
                Ok(Following { token: kept_out(next.as_ptr()), has_answer: !answer.is_null() })
            }
            _ => Err(token),
        };
        self.lock.end();
        result
    }

    /// Moves a kept process into the table, if there is room. Must be called by the holder of the lock.
    #[inline(never)]
    fn put_into_table(&self, slot: *mut Slot) -> bool {
        // SAFETY: slots are never freed, and the token is here; the caller removes it from its previous place.
        unsafe { self.cache.put(&*slot) }
    }

    /// Moves the process at the front of the cache into the table. If the process is not idle, or cannot be put into
    /// the table, returns its token.
    pub(crate) fn leave_front(&self) -> Option<Token> {
        let left = self.lock.section(0, || {
            let front = NonNull::new(exchange(&self.cache.front, ptr::null_mut()))?;
            // SAFETY: a slot, which is never freed.
            let is_idle = unsafe { front.as_ref() }.permit.is_kept_idle();
            let may_be_put = is_idle && self.lock.is_in_charge();
            if may_be_put && self.put_into_table(front.as_ptr()) { None } else { taken(front.as_ptr()) }
        });
        left?
    }

    /// Takes a process with input out of the cache: the one at the front, or one that was recently put into the table.
    pub(crate) fn take_filled(&self) -> Option<Token> {
        if !self.cache.begin_check() {
            return None;
        }
        taken(self.lock.section(0, || self.cache.take_filled())?)
    }

    /// Empties the cache, unless another thread is taking its tokens.
    pub(crate) fn take_cached(&self) -> impl Iterator<Item = Token> {
        let mut from = 0;
        std::iter::from_fn(move || {
            if !self.has_cached() {
                return None;
            }
            taken(self.lock.section(0, || self.cache.take_from(&mut from))?)
        })
    }

    /// Begins the section in which the idle process in `slot` gets a message, if it is in the cache and its lane is
    /// empty.
    #[inline(always)]
    pub(super) fn begin_refill(&self, slot: &'static Slot) -> Option<Refill<'_>> {
        let attention = self.lock.begin();
        if self.lock.may_move(attention, 0)
            && let Some(place) = self.cache.find(slot)
        {
            let mut token = kept_out(ptr::from_ref(slot).cast_mut()).acquire();
            if let Some(first) = token.lanes().empty_first() {
                // No other thread looks at the place before the section ends.
                place.store(ptr::null_mut(), Ordering::Relaxed);
                return Some(Refill { local: self, token, first });
            }
            let _in_its_place = token.release();
        }
        self.lock.end();
        None
    }

    /// Takes the token of the process in `slot`, if it is in the cache.
    #[inline(always)]
    pub(super) fn take(&self, slot: &'static Slot) -> Option<Token> {
        let take = |place: &AtomicPtr<Slot>| place.store(ptr::null_mut(), Ordering::Relaxed);
        let taken = self.lock.section(0, || self.cache.find(slot).map(take).is_some());
        if taken != Some(true) {
            return None;
        }
        slot.permit.keep(None);
        // This is the slot's only token, which was stored in the place.
        Some(kept_out(ptr::from_ref(slot).cast_mut()))
    }

    /// Takes tokens until there are none left, and passes them to `put`. `put` must not keep any for this thread. Waits
    /// for other threads that are taking tokens; those soon succeed or give up.
    pub(crate) fn flush(&self, mut put: impl FnMut(Kept)) -> KeepsNothing {
        while self.has_any() {
            self.take_cached().map(Kept::Cached).for_each(&mut put);
            self.take_next().map(Kept::Next).into_iter().for_each(&mut put);
            std::iter::from_fn(|| self.take_vacant()).map(Kept::Vacant).for_each(&mut put);
            if self.has_any() {
                #[cfg(all(test, not(loom)))]
                crate::sync::window::pass(crate::sync::window::Window::InFlush);
                yield_now();
            }
        }
        KeepsNothing(())
    }

    /// Keeps the token of a vacant slot, if the thread is watched and has its permit (*keep* in
    /// [`requests`](crate::slots::slot::requests)).
    ///
    /// # Errors
    /// The token otherwise, or if something has arrived in the slot or is about to, there is no room, or another thread
    /// is taking the tokens of this one.
    #[inline]
    pub(crate) fn keep_vacant(&self, token: Token) -> Result<(), Token> {
        if !token.vacate_unparked() {
            return Err(token);
        }
        let mut token = Some(token);
        // SAFETY: within the lock.
        let keep = || token = token.take().and_then(|token| unsafe { self.vacant.keep(token) });
        let _revoked = self.lock.section(LOST | UNWATCHED, keep);
        token.map_or(Ok(()), Err)
    }

    /// Takes the token of the vacant slot that was kept most recently.
    #[inline]
    pub(crate) fn take_vacant(&self) -> Option<Token> {
        if !self.has_vacant() {
            return None;
        }
        // SAFETY: within the lock.
        self.lock.section(0, || unsafe { self.vacant.take() })?
    }

    /// Takes the tokens of the vacant slots that have been kept since the previous tick or longer.
    #[cold]
    pub(crate) fn take_old_vacant(&self) -> Vec<Token> {
        let mut old = VacantSlots::room();
        // SAFETY: within the lock.
        let _revoked = self.lock.section(0, || unsafe { self.vacant.take_old(&mut old) });
        old
    }
}

/// A process whose time slice follows directly.
pub(crate) struct Following {
    pub(crate) token: Token,
    /// Whether its time slice begins with the answer beside its token: see [`LocalTokens::take_its_answer`].
    pub(crate) has_answer: bool,
}

/// A section in progress, in which a process gets a message. No user code may run until it is [finished](Self::finish).
#[must_use = "others wait for the end of the section"]
pub(super) struct Refill<'a> {
    local: &'a LocalTokens,
    token: Token,
    first: NonNull<MailNode>,
}

impl Refill<'_> {
    /// Returns the empty first node of the process's lane, for the message.
    #[inline(always)]
    pub(super) fn first(&self) -> NonNull<MailNode> {
        self.first
    }

    /// Makes the process run next, after its message was stored. If there already is a process to run next, or the
    /// thread is not watched or has lost its permit, returns the token for the caller to wake.
    #[inline(always)]
    pub(super) fn finish(self) -> Option<Token> {
        let Self { local, mut token, first } = self;
        token.lanes().refill(first);
        token.slot().permit.keep(None);
        let raw = token.release().into_raw();
        let may_run_next = local.lock.is_in_charge() && !local.has_next();
        if may_run_next {
            local.run_next.store(raw, Ordering::Relaxed);
        }
        local.lock.end();
        if may_run_next { None } else { Some(kept_out(raw)) }
    }
}

/// Operations of other threads.
impl LocalTokens {
    /// Takes all tokens. Returns `None` if another thread is doing so, or if the owner takes too long to leave its
    /// section.
    #[cold]
    pub(crate) fn revoke(&self) -> Option<Revoked> {
        if !self.has_any() {
            return Some(Revoked::default());
        }
        // Nothing is allocated under the lock. Tokens that arrive after this point and find no room stay.
        let (mut vacant, mut cached) = (VacantSlots::room(), self.cache.room());
        let run_next = self.lock.revoke(|| {
            // SAFETY: within the lock.
            unsafe { self.vacant.take_all(&mut vacant) };
            self.cache.take_all(&mut cached);
            taken(exchange(&self.run_next, ptr::null_mut())).map(|token| self.push_answer(token))
        })?;
        Some(Revoked { run_next, cached, vacant })
    }
}

#[cfg(all(test, not(loom), not(postroom_no_local)))]
mod tests {
    use super::*;
    use crate::sync::window::{Window, do_in};

    fn token() -> Token {
        let slot: &'static Slot = Box::leak(Box::new(Slot::unused(0)));
        Token::claim_free(slot).expect("nothing else has it").release()
    }

    /// Catches: a thread that rests while it still keeps a token, because another thread was taking its tokens when it
    /// looked and then gave up.
    #[test]
    fn a_flush_takes_what_another_thread_does_not_get() {
        type Keep = fn(&LocalTokens);
        let kinds: [Keep; 5] = [
            |local| assert!(local.put_next(token()).is_ok()),
            |local| assert!(local.keep(token(), ParkKind::Idle, true).is_none()),
            |local| {
                local.enable_table(true);
                assert!(local.keep(token(), ParkKind::Idle, false).is_none());
            },
            |local| assert!(local.keep(token(), ParkKind::Waiting, true).is_none()),
            |local| assert!(local.keep_vacant(token()).is_ok()),
        ];
        for (kind, keep) in kinds.into_iter().enumerate() {
            let local: &'static LocalTokens = Box::leak(Box::new(LocalTokens::none()));
            keep(local);
            local.lock.note_revoked(true);
            do_in(Window::InFlush, || local.lock.note_revoked(false));
            let mut taken = 0;
            let _keeps_nothing = local.flush(|_| taken += 1);
            assert!(taken == 1 && !local.has_any(), "kind {kind}");
        }
    }
}
