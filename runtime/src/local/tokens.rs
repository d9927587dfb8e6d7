//! The tokens that a thread keeps to itself, and moves without any atomic exchange: of the process that it runs next,
//! of one *warm* process, of those in its [cache](super::idle_cache), of one *awaiting* process, and of
//! [vacant slots](super::vacant_slots).
//!
//! # The warm process
//!
//! A process is warm if it is idle and the thread that ran it last still holds its token, instead of parking that in
//! the mailbox. A message from the same thread then needs neither the exchange that queues it nor the one that takes
//! the token, and the process did not need the exchange that parks it: the sender takes the token from here, stores the
//! message in the mailbox's first node, and has the process run next ([`send`](super::send)). All others send as usual, and
//! leave the rest to the thread.
//!
//! A small message is stored within the section of the lock that also moves the token
//! ([`LocalTokens::begin_refill`]); one in a block is not, since the block may come from the users' allocator. And a
//! process that becomes idle when another one is to run next changes places with it in one section
//! ([`LocalTokens::keep_for_next`]): so a pair that sends to each other passes two sections a message.
//!
//! Only a thread that has a process to run next keeps a warm one. A newly idle process evicts it, into the cache or by
//! parking its token; so does taking a process from any other place. Everything is flushed before the thread blocks,
//! sleeps or gives its permit away. At each visit to the shared queues the thread checks whether others have sent to
//! the warm process, which waits that long: a few time slices of those that send to each other. Behind a step that does
//! not end it waits like the process in the run-next slot: until the watchdog moves both. After a watchdog tick nothing
//! is cached for a while (`ThreadContext::cooldown`): a thread whose steps are long sees one every few steps.
//!
//! # The awaiting process
//!
//! A process is awaiting if it waits for control only, usually for an answer, and the thread that ran it last still
//! holds its token. The thread keeps one, under the same conditions as a warm process. An answer from the same thread
//! then needs none of three exchanges: the one that parks the token, the one that pushes the answer and takes the
//! token, and the one that takes the answer out of the control lane. The answering process has the other one run next,
//! and the answer lies beside the run-next slot ([`LocalTokens::put_answered_next`]). It stays with the token: if the
//! thread takes that to run the process, the answer comes first in the step; if the token is displaced, or taken by
//! others, its new holder pushes the answer into the control lane.
//!
//! An answer goes this way only while the control lane is empty, and so comes before what is pushed there later. Only
//! if others take the process just then may it come after what the same thread has sent next. No process notices:
//! awaiting processes are futures, which are polled when all controls have been taken. What others send to an awaiting
//! process stays in its control lane, as what they send to a warm one does in its mailbox.
//!
//! # The flush
//!
//! No other thread looks at one that blocks, sleeps, is spare or exits. So before that, and before it gives its permit
//! away, the thread takes its tokens, of each kind, until there is none ([`LocalTokens::flush`]). That it finds none to
//! take is not enough: another thread may be [about to take them](super::lock), and then give up. So it looks at the
//! places themselves, and tries again while one has a token; the other thread takes that, or gives up soon. What
//! lets a thread do one of these things takes a [`KeepsNothing`], which only the flush makes.
//!
//! To put a token elsewhere runs no code of users, which may wake or spawn processes: then the thread would keep
//! something again.
//!
//! A model is in `tests/models`.

use super::idle_cache::IdleCache;
use super::lock::{BiasedLock, LOST, NOTIFIED, UNWATCHED};
use super::vacant_slots::VacantSlots;
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{MailNode, NodeBox};
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
    warm: AtomicPtr<Slot>,
    awaiting: AtomicPtr<Slot>,
    cache: IdleCache,
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
    /// Of a process that was warm, perhaps in the cache.
    Warm(Token),
    Awaiting(Token),
    Next(Token),
    /// Of a vacant slot.
    Vacant(Token),
}

/// What was taken from a thread.
#[derive(Default)]
pub(crate) struct Revoked {
    pub(crate) run_next: Option<Token>,
    pub(crate) warm: Option<Token>,
    pub(crate) awaiting: Option<Token>,
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
            warm: AtomicPtr::new(ptr::null_mut()),
            awaiting: AtomicPtr::new(ptr::null_mut()),
            cache: IdleCache::new(),
            vacant: VacantSlots::none(),
        }
    }

    /// Returns whether there is a process to run next. From any thread; for the thread itself exact, but for what is
    /// being taken from it.
    #[inline(always)]
    pub(crate) fn has_next(&self) -> bool {
        !self.run_next.load(Ordering::Relaxed).is_null()
    }

    /// Returns whether a process may be warm, also in the cache, or is awaiting.
    #[inline(always)]
    pub(crate) fn has_kept(&self) -> bool {
        self.has_warm_or_awaiting() || self.has_cached()
    }

    /// Returns whether a process is warm and not in the cache, or awaiting.
    #[inline(always)]
    pub(crate) fn has_warm_or_awaiting(&self) -> bool {
        !self.warm.load(Ordering::Relaxed).is_null() || !self.awaiting.load(Ordering::Relaxed).is_null()
    }

    /// Returns whether there may be processes in the cache.
    #[inline(always)]
    pub(crate) fn has_cached(&self) -> bool {
        self.cache.is_used()
    }

    /// Returns whether that process is in the cache. From any thread, stale at once.
    pub(crate) fn has_cached_process(&self, slot: &Slot) -> bool {
        self.cache.has(slot)
    }

    /// Returns whether the thread caches idle processes.
    #[inline(always)]
    pub(crate) fn is_cache_enabled(&self) -> bool {
        self.cache.is_enabled()
    }

    /// Has the calling thread cache idle processes, or not.
    pub(crate) fn enable_cache(&self, is_enabled: bool) {
        self.cache.enable(is_enabled);
    }

    /// Returns whether there is an awaiting process with something in its control lane.
    pub(crate) fn is_awaiting_called(&self) -> bool {
        // SAFETY: null, or a slot; slots are never freed.
        unsafe { self.awaiting.load(Ordering::Relaxed).as_ref() }.is_some_and(|slot| slot.lanes.has_control())
    }

    /// Returns whether there is a process to run next, or a warm or awaiting one with input; of those in the cache,
    /// whether the thread has been notified. From any thread, stale at once.
    pub(crate) fn has_work(&self) -> bool {
        // SAFETY: null, or a slot; slots are never freed.
        let warm = || unsafe { self.warm.load(Ordering::Relaxed).as_ref() };
        self.has_next()
            || warm().is_some_and(|slot| slot.lanes.depth() > 0 || slot.lanes.has_control())
            || self.is_awaiting_called()
            || self.has_cached() && self.lock.attention() & NOTIFIED != 0
    }

    /// Returns whether it keeps vacant slots.
    #[inline(always)]
    pub(crate) fn has_vacant(&self) -> bool {
        self.vacant.has_some()
    }

    /// Returns whether there may be a token of any kind.
    fn has_any(&self) -> bool {
        self.has_next() || self.has_kept() || self.has_vacant()
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

    /// Has that process run next with an answer, if it is awaiting and its control lane is empty, there is none to run
    /// next yet, and the thread is watched and has its permit.
    ///
    /// # Errors
    /// The answer otherwise, or if others are taking what the thread has.
    #[inline(always)]
    pub(super) fn put_answered_next(&self, slot: &'static Slot, answer: NodeBox) -> Result<(), NodeBox> {
        let put = self.lock.section(LOST | UNWATCHED, || {
            let is_free = ptr::eq(self.awaiting.load(Ordering::Relaxed), slot) && !self.has_next();
            let may = is_free && !slot.lanes.has_control();
            if may {
                slot.permit.set_awaiting(false);
                answer.next().store(ptr::null_mut(), Ordering::Relaxed);
                self.answer.store(answer.as_ptr().as_ptr(), Ordering::Relaxed);
                self.answered.store(ptr::from_ref(slot).cast_mut(), Ordering::Relaxed);
                self.run_next.store(exchange(&self.awaiting, ptr::null_mut()), Ordering::Relaxed);
            }
            may
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

    /// Takes the answer for a process of which the calling thread has the token, and has seen that there
    /// [is one](Self::has_answer).
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

    /// Keeps the token of an idle process. Returns the one that was kept.
    ///
    /// # Errors
    /// The token, if others are taking what the thread has.
    #[inline(always)]
    pub(crate) fn keep_warm(&self, token: Token) -> Result<Option<Token>, Token> {
        let raw = token.into_raw();
        match self.lock.section(0, || exchange(&self.warm, raw)) {
            Some(before) => Ok(taken(before)),
            None => Err(kept_out(raw)),
        }
    }

    /// Keeps the token of an idle process, and takes that of the process to run next: if there is one, no process is
    /// warm or that one can be cached, and the thread has nothing to check between two steps.
    ///
    /// # Errors
    /// The token otherwise, or if light barriers are not enough.
    #[inline(always)]
    pub(crate) fn keep_for_next(&self, token: Token) -> Result<Following, Token> {
        let attention = self.lock.begin();
        let next = NonNull::new(self.run_next.load(Ordering::Relaxed));
        let (warm, answer) = (self.warm.load(Ordering::Relaxed), self.answer.load(Ordering::Relaxed));
        // Looked at together.
        let result = match next {
            Some(next) if usize::from(attention) | warm.addr() == 0 || attention == 0 && self.cache(warm) => {
                self.run_next.store(ptr::null_mut(), Ordering::Relaxed);
                token.slot().permit.set_warm(true);
                self.warm.store(token.into_raw(), Ordering::Relaxed);
                let next = kept_out(next.as_ptr());
                Ok(if answer.is_null() { Following::Message(next) } else { Following::Answer(next) })
            }
            _ => Err(token),
        };
        self.lock.end();
        result
    }

    /// Moves the warm process into the cache, if there is room, for another one that is to be warm. For the one who has
    /// the lock.
    #[inline(never)]
    fn cache(&self, warm: *mut Slot) -> bool {
        // SAFETY: the warm process, whose token is here and replaced by the caller.
        unsafe { self.cache.put(&*warm) }
    }

    /// Caches an idle process, if there is room and the thread is watched and has its permit.
    ///
    /// # Errors
    /// The token otherwise, or if others are taking what the thread has.
    pub(crate) fn keep_in_cache(&self, token: Token) -> Result<(), Token> {
        let raw = token.into_raw();
        // SAFETY: a slot, which is never freed, and its token.
        let put = self.lock.section(LOST | UNWATCHED, || unsafe { self.cache.put(&*raw) });
        if put == Some(true) { Ok(()) } else { Err(kept_out(raw)) }
    }

    /// Takes one of the processes cached lately to which others have sent something.
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

    /// Keeps the token of a process that waits for control only, and takes that of the process to run next: if there
    /// is one, without an answer, none is awaiting, and the thread has nothing to check between two steps.
    ///
    /// # Errors
    /// The token otherwise, or if light barriers are not enough.
    #[inline(always)]
    pub(crate) fn keep_awaiting_for_next(&self, token: Token) -> Result<Token, Token> {
        let attention = self.lock.begin();
        let next = NonNull::new(self.run_next.load(Ordering::Relaxed));
        let (awaiting, answer) = (self.awaiting.load(Ordering::Relaxed), self.answer.load(Ordering::Relaxed));
        let requests = usize::from(attention) | awaiting.addr() | answer.addr();
        let result = match next {
            Some(next) if requests == 0 => {
                self.run_next.store(ptr::null_mut(), Ordering::Relaxed);
                token.slot().permit.set_awaiting(true);
                self.awaiting.store(token.into_raw(), Ordering::Relaxed);
                Ok(kept_out(next.as_ptr()))
            }
            _ => Err(token),
        };
        self.lock.end();
        result
    }

    /// Begins the section in which the process in that slot gets a message: if it is warm, and its lane is empty.
    #[inline(always)]
    pub(super) fn begin_refill(&self, slot: &'static Slot) -> Option<Refill<'_>> {
        let attention = self.lock.begin();
        if self.lock.may_move(attention, 0)
            && let Some(place) = self.find(slot)
        {
            let mut token = kept_out(ptr::from_ref(slot).cast_mut()).acquire();
            if let Some(first) = token.lanes().empty_first() {
                // No other thread looks there before the section ends.
                place.store(ptr::null_mut(), Ordering::Relaxed);
                return Some(Refill { local: self, token, first, attention });
            }
            let _in_its_place = token.release();
        }
        self.lock.end();
        None
    }

    /// Returns where the token of that process is, if it is warm here. For the one who has the lock.
    #[inline(always)]
    fn find(&self, slot: &'static Slot) -> Option<&AtomicPtr<Slot>> {
        if ptr::eq(self.warm.load(Ordering::Relaxed), slot) { Some(&self.warm) } else { self.cache.find(slot) }
    }

    /// Takes the token of that process, if it is warm here.
    #[inline(always)]
    pub(super) fn take_warm_of(&self, slot: &'static Slot) -> Option<Token> {
        let take = |place: &AtomicPtr<Slot>| place.store(ptr::null_mut(), Ordering::Relaxed);
        let kept = self.lock.section(0, || self.find(slot).map(take).is_some());
        // The only token of a slot: it was in the place.
        if kept == Some(true) { Some(kept_out(ptr::from_ref(slot).cast_mut())) } else { None }
    }

    /// Keeps the token of a process that waits for control only. Returns the one that was kept.
    ///
    /// # Errors
    /// The token, if others are taking what the thread has.
    #[inline(always)]
    pub(crate) fn keep_awaiting(&self, token: Token) -> Result<Option<Token>, Token> {
        let raw = token.into_raw();
        match self.lock.section(0, || exchange(&self.awaiting, raw)) {
            Some(before) => Ok(taken(before)),
            None => Err(kept_out(raw)),
        }
    }

    /// Takes the token of that process, if it is awaiting.
    pub(super) fn take_awaiting_of(&self, slot: &'static Slot) -> Option<Token> {
        let take = || {
            let is_it = ptr::eq(self.awaiting.load(Ordering::Relaxed), slot);
            if is_it { exchange(&self.awaiting, ptr::null_mut()) } else { ptr::null_mut() }
        };
        taken(self.lock.section(0, take)?)
    }

    pub(crate) fn take_awaiting(&self) -> Option<Token> {
        taken(self.lock.section(0, || exchange(&self.awaiting, ptr::null_mut()))?)
    }

    pub(crate) fn take_warm(&self) -> Option<Token> {
        taken(self.lock.section(0, || exchange(&self.warm, ptr::null_mut()))?)
    }

    /// Takes all tokens, until there is none, and passes them to `put`, which keeps none here. Waits for others that
    /// are taking tokens: they have them soon, or give up.
    pub(crate) fn flush(&self, mut put: impl FnMut(Kept)) -> KeepsNothing {
        while self.has_any() {
            self.take_warm().map(Kept::Warm).into_iter().for_each(&mut put);
            self.take_cached().map(Kept::Warm).for_each(&mut put);
            self.take_awaiting().map(Kept::Awaiting).into_iter().for_each(&mut put);
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

/// The token of a process that was to run next, and what its time slice begins with.
pub(crate) enum Following {
    Message(Token),
    /// An answer that lies [here](LocalTokens::take_its_answer).
    Answer(Token),
}

/// The section in which a warm process gets a message: begun, and to be [finished](Self::finish) without running any
/// code of users.
#[must_use = "others wait for the end of the section"]
pub(super) struct Refill<'a> {
    local: &'a LocalTokens,
    token: Token,
    first: NonNull<MailNode>,
    attention: u16,
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
        let Self { local, mut token, first, attention } = self;
        token.lanes().refill(first);
        token.slot().permit.set_warm(false);
        let raw = token.release().into_raw();
        let may_run_next = attention & (LOST | UNWATCHED) == 0 && !local.has_next();
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
        let has_cached = self.has_cached();
        let (mut vacant, mut cached) = (VacantSlots::room(), IdleCache::room(has_cached));
        self.lock.revoke(|| {
            // SAFETY: within the lock.
            unsafe { self.vacant.take_all(&mut vacant) };
            if has_cached {
                self.cache.take_all(&mut cached);
            }
            let run_next = taken(exchange(&self.run_next, ptr::null_mut()));
            Revoked {
                run_next: run_next.map(|token| self.push_answer(token)),
                awaiting: taken(exchange(&self.awaiting, ptr::null_mut())),
                warm: taken(exchange(&self.warm, ptr::null_mut())),
                cached,
                vacant,
            }
        })
    }
}

#[cfg(all(test, not(loom)))]
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
            |local| assert!(local.keep_warm(token()).is_ok()),
            |local| {
                local.enable_cache(true);
                assert!(local.keep_in_cache(token()).is_ok());
            },
            |local| assert!(local.keep_awaiting(token()).is_ok()),
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
