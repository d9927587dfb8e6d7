//! The tokens that a thread keeps to itself, and moves without any atomic exchange: of the process that it runs next,
//! of those in its [cache](super::cache), and of [vacant slots](super::vacant_slots).
//!
//! # Messages
//!
//! A process that is idle, and kept, needs no exchange that parks its token. A message from the same thread then needs
//! neither the exchange that queues it nor the one that takes the token: the sender takes the token from here, stores
//! the message in the mailbox's first node, and has the process run next ([`send`](super::send)). All others send as
//! usual, and leave the rest to the thread.
//!
//! A small message is stored within the section of the lock that also moves the token
//! ([`LocalTokens::begin_refill`]); one in a block is not, since the block may come from the users' allocator. And a
//! process that comes to rest when another one is to run next changes places with it in one section
//! ([`LocalTokens::keep_for_next`]): so a pair that sends to each other passes two sections a message.
//!
//! # Answers
//!
//! A process that waits for control only, usually for an answer, is kept likewise. An answer from the same thread then
//! needs none of three exchanges: the one that parks the token, the one that pushes the answer and takes the token, and
//! the one that takes the answer out of the control lane. The answering process has the other one run next, and the
//! answer lies beside the run-next slot ([`LocalTokens::put_answered_next`]). It stays with the token: if the thread
//! takes that to run the process, the answer comes first in the step; if the token is displaced, or taken by others,
//! its new holder pushes the answer into the control lane.
//!
//! An answer goes this way only while the control lane is empty, and so comes before what is pushed there later. Only
//! if others take the process just then may it come after what the same thread has sent next. No process notices: those
//! that wait for control are futures, which are polled when all controls have been taken.
//!
//! # When
//!
//! A thread keeps processes only while it has others to run. Everything is flushed before it blocks, sleeps or gives
//! its permit away. Behind a step that does not end, what it keeps waits like the process in the run-next slot: until
//! the watchdog moves them. After a watchdog tick nothing is kept for a while (`ThreadContext::cooldown`): a thread
//! whose steps are long sees one every few steps.
//!
//! # The flush
//!
//! No other thread looks at one that blocks, sleeps, is spare or exits. So before that, and before it gives its permit
//! away, the thread takes its tokens, of each kind, until there is none ([`LocalTokens::flush`]). That it finds none to
//! take is not enough: another thread may be [about to take them](super::lock), and then give up. So it looks at the
//! places themselves, and tries again while one has a token; the other thread takes that, or gives up soon. What lets a
//! thread do one of these things takes a [`KeepsNothing`], which only the flush makes.
//!
//! To put a token elsewhere runs no code of users, which may wake or spawn processes: then the thread would keep
//! something again.
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
    /// An answer for the process in `run_next`, or for the one that the thread has taken from there to run it, until
    /// its step begins. It belongs to the one who has the token.
    answer: AtomicPtr<MailNode>,
    /// Whom the answer is for; meaningless if there is none.
    answered: AtomicPtr<Slot>,
    cache: Cache,
    vacant: VacantSlots,
}

/// Proves that the calling thread keeps no token to itself, as long as it runs no process and no code of users.
#[must_use = "it lets the thread block, sleep, become spare, exit or give its permit away"]
pub(crate) struct KeepsNothing(());

#[cfg(loom)]
impl KeepsNothing {
    /// For models without these tokens.
    pub(crate) fn in_a_model() -> Self {
        Self(())
    }
}

/// A token that a thread has kept, by how it is put elsewhere.
pub(crate) enum Kept {
    /// Of a process in the cache.
    Cached(Token),
    Next(Token),
    /// Of a vacant slot.
    Vacant(Token),
}

/// What was taken from a thread.
#[derive(Default)]
pub(crate) struct Revoked {
    pub(crate) run_next: Option<Token>,
    pub(crate) cached: Vec<Token>,
    pub(crate) vacant: Vec<Token>,
}

fn taken(token: *mut Slot) -> Option<Token> {
    // SAFETY: what is in a place came from `into_raw`, and is taken out once, by the one who has the lock.
    NonNull::new(token).map(|slot| unsafe { Token::from_raw(slot) })
}

/// Returns a token that was not stored.
fn kept_out(token: *mut Slot) -> Token {
    // SAFETY: it came from `into_raw`.
    unsafe { Token::from_raw(NonNull::new_unchecked(token)) }
}

/// Exchanges the content of a place. For the one who has the lock.
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

    /// Returns whether there is a process to run next. From any thread; for the thread itself exact, but for what is
    /// being taken from it.
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

    /// Returns whether that process is in the table of the cache. From any thread, stale at once.
    pub(crate) fn has_in_table(&self, slot: &Slot) -> bool {
        self.cache.has(slot)
    }

    /// Returns whether the table of the cache is in use.
    #[inline(always)]
    pub(crate) fn is_table_enabled(&self) -> bool {
        self.cache.is_enabled()
    }

    /// Has the calling thread use the table of its cache, or not.
    pub(crate) fn enable_table(&self, is_enabled: bool) {
        self.cache.enable(is_enabled);
    }

    /// Returns whether there is a process to run next, or one with input at the front of the cache; of those in its
    /// table, whether the thread has been notified. From any thread, stale at once.
    pub(crate) fn has_work(&self) -> bool {
        self.has_next() || self.cache.has_filled_front() || self.has_table() && self.lock.attention() & NOTIFIED != 0
    }

    /// Returns whether it keeps vacant slots.
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
    /// Has `token` run next. Returns the one that it displaces.
    ///
    /// # Errors
    /// The token, if others are taking what the thread has.
    #[inline(always)]
    pub(crate) fn put_next(&self, token: Token) -> Result<Option<Token>, Token> {
        let raw = token.into_raw();
        let put = || taken(exchange(&self.run_next, raw)).map(|displaced| self.push_answer(displaced));
        self.lock.section(0, put).ok_or_else(|| kept_out(raw))
    }

    /// Has `token` run next, if there is none yet, and the thread is watched and has its permit.
    ///
    /// # Errors
    /// The token otherwise, or if others are taking what the thread has.
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

    /// Has that process run next with an answer, if it is in the cache and waits for control only, its control lane is
    /// empty, there is none to run next yet, and the thread is watched and has its permit.
    ///
    /// # Errors
    /// The answer otherwise, or if others are taking what the thread has.
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

    /// Takes the token of the process to run next, for other uses than to run it here.
    pub(crate) fn take_next(&self) -> Option<Token> {
        Some(self.push_answer(self.take_next_to_run()?))
    }

    /// Takes the token of the process to run next. Its step takes the answer that comes with it, if there is one, by
    /// [`take_answer`](Self::take_answer).
    #[inline(always)]
    pub(crate) fn take_next_to_run(&self) -> Option<Token> {
        if !self.has_next() {
            return None;
        }
        taken(self.lock.section(0, || exchange(&self.run_next, ptr::null_mut()))?)
    }

    /// Returns whether there is an answer for the process with that token, which the calling thread has.
    #[inline(always)]
    pub(crate) fn has_answer(&self, token: &Token) -> bool {
        !self.answer.load(Ordering::Relaxed).is_null() && ptr::eq(self.answered.load(Ordering::Relaxed), token.slot())
    }

    /// Takes the answer for the process with that token, which the calling thread has.
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

    /// Pushes the answer for the process with that token, which the calling thread has, into its control lane: it does
    /// not run here, or not yet.
    pub(crate) fn push_answer(&self, token: Token) -> Token {
        if let Some(answer) = self.take_answer(&token) {
            let claim = token.slot().lanes.push_control(answer);
            debug_assert_eq!(claim, Claim::Nothing, "the token is here");
        }
        token
    }

    /// Returns whether the process in that slot runs next, unless others are taking it. The thread that
    /// runs it, this one or one that has taken it from here, sees what this thread has done before.
    #[inline(always)]
    pub(crate) fn is_next(&self, index: u32) -> bool {
        // SAFETY: null, or a slot; slots are never freed.
        let is_it =
            || unsafe { self.run_next.load(Ordering::Relaxed).as_ref() }.is_some_and(|slot| slot.index() == index);
        self.lock.section(0, is_it) == Some(true)
    }

    /// Keeps the token of a process that has nothing to do: at the front of the cache, or in its table. Returns the
    /// token of a process to evict, this one or another one, if there is no room for both.
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

    /// Keeps the token of a process that has nothing to do, and takes that of the process to run next: if there is one,
    /// there is no process at the front of the cache or the table has room for it, and the thread has nothing to check
    /// between two steps.
    ///
    /// # Errors
    /// The token otherwise, or if light barriers are not enough.
    #[inline(always)]
    pub(crate) fn keep_for_next(&self, token: Token, kind: ParkKind) -> Result<Following, Token> {
        let attention = self.lock.begin();
        let next = NonNull::new(self.run_next.load(Ordering::Relaxed));
        let (front, answer) = (self.cache.front.load(Ordering::Relaxed), self.answer.load(Ordering::Relaxed));
        // Looked at together.
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

    /// Moves a process that is kept into the table, if there is room. For the one who has the lock.
    #[inline(never)]
    fn put_into_table(&self, slot: *mut Slot) -> bool {
        // SAFETY: a slot, which is never freed, whose token is here; the caller takes it from where it was.
        unsafe { self.cache.put(&*slot) }
    }

    /// Moves an idle process from the front of the cache into the table. Returns the token of a process that was at the
    /// front otherwise, or if there is no room.
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

    /// Takes one of the processes in the cache to which others have sent something: that at the front, or one of those
    /// that have come into the table lately.
    pub(crate) fn take_filled(&self) -> Option<Token> {
        if !self.cache.begin_check() {
            return None;
        }
        taken(self.lock.section(0, || self.cache.take_filled())?)
    }

    /// Empties the cache, unless others are taking it.
    pub(crate) fn take_cached(&self) -> impl Iterator<Item = Token> {
        let mut from = 0;
        std::iter::from_fn(move || {
            if !self.has_cached() {
                return None;
            }
            taken(self.lock.section(0, || self.cache.take_from(&mut from))?)
        })
    }

    /// Begins the section in which the idle process in that slot gets a message: if it is in the cache, and its lane is
    /// empty.
    #[inline(always)]
    pub(super) fn begin_refill(&self, slot: &'static Slot) -> Option<Refill<'_>> {
        let attention = self.lock.begin();
        if self.lock.may_move(attention, 0)
            && let Some(place) = self.cache.find(slot)
        {
            let mut token = kept_out(ptr::from_ref(slot).cast_mut()).acquire();
            if let Some(first) = token.lanes().empty_first() {
                // No other thread looks there before the section ends.
                place.store(ptr::null_mut(), Ordering::Relaxed);
                return Some(Refill { local: self, token, first });
            }
            let _in_its_place = token.release();
        }
        self.lock.end();
        None
    }

    /// Takes the token of that process, if it is in the cache.
    #[inline(always)]
    pub(super) fn take(&self, slot: &'static Slot) -> Option<Token> {
        let take = |place: &AtomicPtr<Slot>| place.store(ptr::null_mut(), Ordering::Relaxed);
        let taken = self.lock.section(0, || self.cache.find(slot).map(take).is_some());
        if taken != Some(true) {
            return None;
        }
        slot.permit.keep(None);
        // The only token of a slot: it was in the place.
        Some(kept_out(ptr::from_ref(slot).cast_mut()))
    }

    /// Takes all tokens, until there is none, and passes them to `put`, which keeps none here. Waits for others that
    /// are taking tokens: they have them soon, or give up.
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

    /// Keeps the token of a vacant slot, if the thread is watched and has its permit (*keep* of
    /// [`requests`](crate::slots::slot::requests)).
    ///
    /// # Errors
    /// The token otherwise, or if something has been sent there or is about to be, or if there is no room, or if others
    /// are taking what the thread has.
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

    /// Takes the token of the vacant slot that was kept last.
    #[inline]
    pub(crate) fn take_vacant(&self) -> Option<Token> {
        if !self.has_vacant() {
            return None;
        }
        // SAFETY: within the lock.
        self.lock.section(0, || unsafe { self.vacant.take() })?
    }

    /// Takes the tokens of vacant slots that were there at the last tick.
    #[cold]
    pub(crate) fn take_old_vacant(&self) -> Vec<Token> {
        let mut old = VacantSlots::room();
        // SAFETY: within the lock.
        let _revoked = self.lock.section(0, || unsafe { self.vacant.take_old(&mut old) });
        old
    }
}

/// A process whose time slice follows at once.
pub(crate) struct Following {
    pub(crate) token: Token,
    /// Its time slice begins with the answer that was put beside its token: see [`LocalTokens::take_its_answer`].
    pub(crate) has_answer: bool,
}

/// The section in which a process gets a message: begun, and to be [finished](Self::finish) without running any
/// code of users.
#[must_use = "others wait for the end of the section"]
pub(super) struct Refill<'a> {
    local: &'a LocalTokens,
    token: Token,
    first: NonNull<MailNode>,
}

impl Refill<'_> {
    /// Returns the empty first node of its lane, for the message.
    #[inline(always)]
    pub(super) fn first(&self) -> NonNull<MailNode> {
        self.first
    }

    /// Has the process, which has its message now, run next. Returns the token if there is one to run next already, or
    /// the thread is not watched or has lost its permit: then the process is to be woken.
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

/// Operations of others.
impl LocalTokens {
    /// Takes all tokens. `None`: another thread is about to, or this one cannot be waited for.
    #[cold]
    pub(crate) fn revoke(&self) -> Option<Revoked> {
        if !self.has_any() {
            return Some(Revoked::default());
        }
        // Nothing is allocated under the lock. What has no room, as it has come only now, stays.
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

    /// Catches: a thread that rests with a token of one kind, because another thread was taking its tokens when it
    /// looked, and then gave up.
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
