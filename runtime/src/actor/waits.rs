//! What a process waits for, and how it finds its way back.
//!
//! Every call, timer and command that a process awaits is a row of a table of its own, under a tag that its answer brings
//! back. The table travels: it lies in the process's machine between steps, and with the thread while a step runs, so that
//! a future finds the table of the process that polls it without a lock, a reference or a lifetime.
//!
//! Deadlines of calls share one timer, for the earliest of them, which is set anew when it fires: an entry in the wheel for
//! each call would cost more than the call.

use super::beside::{Besides, BoxedFuture};
use super::waker::{self, Owner, foreign_waker};
use crate::caller::{Caller, Ticket};
use crate::clock::{Moment, TimerKey};
use crate::errors::{CallError, CommandError};
use crate::exit::{ExitReason, Signal};
use crate::package::Package;
use crate::payload::Payload;
use crate::scheduler::host::Host;
use crate::sync::{Arc, Mutex, lock};
use slab::Slab;
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::Weak;
use std::task::{Context, Poll, Waker};

pub(crate) type Answer = Result<Payload, CommandError>;

/// The tag of the timer that all deadlines of a process share.
const DEADLINES: u64 = u64::MAX;

/// Names a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitKey {
    row: u32,
    serial: u32,
}

impl WaitKey {
    pub(crate) fn tag(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.row)
    }

    fn of(tag: u64) -> Self {
        Self { row: tag as u32, serial: (tag >> 32) as u32 }
    }
}

struct Wait {
    serial: u32,
    state: State,
    deadline: Option<Moment>,
    ticket: Option<Ticket>,
    timer: Option<TimerKey>,
}

enum State {
    /// A future waits. Its waker, if that is not the process's own.
    Future(Option<Waker>),
    /// The answer is there, and the future has not been polled since.
    Answered(Answer),
    /// A continuation of that number runs with the answer.
    Continuation(usize),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Waits {
    owner: Owner,
    rows: Slab<Wait>,
    serial: u32,
    /// When the shared timer is due.
    armed: Option<(Moment, TimerKey)>,
    /// Those of `Context<P>`: a `Slab<Continuation<P>>`, if there are any.
    pub(crate) continuations: Option<Box<dyn Any + Send>>,
    /// Continuations that can run.
    pub(crate) ready: VecDeque<(usize, Answer)>,
    /// Made when it is needed, as are the shields.
    beside: Option<Box<Besides>>,
    /// A message that the process has asked for, and signals that a method wants.
    pub(crate) inbox: VecDeque<Package>,
    pub(crate) signals: VecDeque<Signal>,
    /// Whether something in the process wants the next message, and its waker if that is not the process's own.
    pub(crate) wants_message: bool,
    serve_waker: Option<Waker>,
    /// Whether the mailbox was found empty by the last look into it.
    pub(crate) seen_empty: bool,
    /// Whether a future that runs beside has not been polled yet.
    new_beside: bool,
    /// Messages that selective receives have set aside.
    pub(crate) aside: VecDeque<Package>,
    /// That the process was cancelled, and why.
    pub(crate) cancelled: Option<ExitReason>,
    /// Futures that wait for the cancellation.
    cancel_waits: Vec<Weak<CancelWait>>,
    /// Held by each future that may not be cut short by the cancellation, besides this table.
    shields: Option<Arc<()>>,
    /// That the process is to end.
    pub(crate) end: Option<ExitReason>,
    /// The same, once the last of those futures is over.
    pub(crate) end_after_shield: Option<ExitReason>,
}

/// A machine's place for its table.
#[derive(Default)]
pub(crate) struct Seat {
    /// The life that it belongs to, in one word; see [`waker::life_of`].
    pub(crate) life: u64,
    /// Made when it is needed: many processes never wait for anything but messages.
    pub(crate) waits: Option<Box<Waits>>,
}

/// What a thread knows of the process that it runs.
#[derive(Clone, Copy)]
struct Active {
    /// Null, or what the innermost `enter` of this thread borrows.
    seat: *mut Seat,
    /// When whoever called the method that runs now stops waiting.
    deadline: Option<Moment>,
}

thread_local! {
    static ACTIVE: Cell<Active> = const { Cell::new(Active::NOTHING) };
    /// Whether somebody looks at the table now.
    static LOOKING: Cell<bool> = const { Cell::new(false) };
    /// Whether the process has asked to end when the method that runs now is done. Apart from the table, which a process
    /// that asks for nothing else does not need.
    static STOP: Cell<bool> = const { Cell::new(false) };
}

impl Seat {
    /// The table, which is made if there is none.
    #[inline]
    fn table(&mut self) -> &mut Waits {
        let life = self.life;
        self.waits.get_or_insert_with(|| Waits::of(life))
    }

    /// Whether the table has more to see to than the messages in the mailbox.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.waits.as_ref().is_some_and(|waits| waits.is_busy())
    }

    /// The process is to end in its next step.
    pub(crate) fn end(&mut self, reason: ExitReason) {
        self.table().end = Some(reason);
    }
}

impl Active {
    const NOTHING: Self = Self { seat: ptr::null_mut(), deadline: None };
}

/// Puts back what was there before.
struct Restore(Active, bool, bool);

impl Restore {
    #[inline]
    fn with(active: Active) -> Self {
        // Also whether somebody looks: a value that is dropped inside a look may start a process.
        Self(ACTIVE.replace(active), STOP.replace(false), LOOKING.replace(false))
    }
}

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        ACTIVE.set(self.0);
        STOP.set(self.1);
        LOOKING.set(self.2);
    }
}

/// Runs `body` with `seat` as the calling thread's table, for someone who stops waiting at `deadline`.
#[inline]
pub(crate) fn enter<R>(seat: &mut Seat, deadline: Option<Moment>, body: impl FnOnce() -> R) -> R {
    let _restore = Restore::with(Active { seat, deadline });
    body()
}

/// Runs `body` as if this thread ran no process.
pub(crate) fn outside<R>(body: impl FnOnce() -> R) -> R {
    let _restore = Restore::with(Active::NOTHING);
    body()
}

/// The process that this thread runs, unless somebody looks at it already.
#[inline]
fn active<R>(look: impl FnOnce(&mut Seat) -> Option<R>) -> Option<R> {
    // Ends the look, also by a panic.
    struct Looked;
    impl Drop for Looked {
        #[inline]
        fn drop(&mut self) {
            LOOKING.set(false);
        }
    }
    let active = ACTIVE.try_with(Cell::get).unwrap_or(Active::NOTHING);
    // SAFETY: null, or what the innermost `enter` borrows and leaves to this pointer until it takes the pointer back.
    // LOOKING refuses a second look from inside the first, so that there is one reference at a time; this thread is the
    // only one that has the pointer.
    let seat = unsafe { active.seat.as_mut() }?;
    if LOOKING.replace(true) {
        return None;
    }
    let _looked = Looked;
    look(seat)
}

/// Whether the process that this thread runs has a table.
#[inline]
pub(crate) fn has_table() -> bool {
    // SAFETY: as in `active`, which is not at work: this is asked between two messages.
    unsafe { ACTIVE.get().seat.as_ref() }.is_some_and(|seat| seat.waits.is_some())
}

/// Whether the process that this thread runs has more to see to than the messages in its mailbox.
#[inline]
pub(crate) fn is_busy() -> bool {
    // SAFETY: as in `has_table`.
    STOP.get() || unsafe { ACTIVE.get().seat.as_ref() }.is_some_and(Seat::is_busy)
}

/// The process that this thread runs is to end when the method that runs now is done (in async code: at its next await).
pub(crate) fn stop() {
    STOP.set(!ACTIVE.get().seat.is_null());
}

/// Whether the process that this thread runs is to end now.
pub(crate) fn is_ending() -> bool {
    STOP.get() || peek(|waits| waits.is_ending()) == Some(true)
}

/// Whether there is more to see to than answers and messages: an end, a future that runs beside, or one that has put its own
/// waker there; and whether something wants the next message.
pub(crate) fn special() -> (bool, bool) {
    let (special, wants) = peek(|waits| {
        let ends = waits.end.is_some() || waits.end_after_shield.is_some();
        (ends || waits.wants_beside() || waits.serve_waker.is_some(), waits.wants_message)
    })
    .unwrap_or((false, false));
    (special || STOP.get(), wants)
}

/// Why the process that this thread runs is to end now, if it is.
pub(crate) fn take_end() -> Option<ExitReason> {
    if !(STOP.get() || has_table()) || !is_ending() {
        return None;
    }
    STOP.set(false);
    Some(peek(Waits::take_end).flatten().unwrap_or(ExitReason::Normal))
}

/// Looks at the table of the process that this thread runs, which is made if there is none; `None` outside of processes.
/// `look` must not run foreign code.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(&mut Waits) -> R) -> Option<R> {
    active(|seat| Some(look(seat.table())))
}

/// The same, if the process has a table.
#[inline]
pub(crate) fn peek<R>(look: impl FnOnce(&mut Waits) -> R) -> Option<R> {
    active(|seat| seat.waits.as_deref_mut().map(look))
}

/// When whoever called the method that runs now stops waiting.
pub(crate) fn deadline() -> Option<Moment> {
    ACTIVE.get().deadline
}

/// Whether somebody waits.
#[inline]
pub(crate) fn has_deadline() -> bool {
    ACTIVE.get().deadline.is_some()
}

/// Says when whoever called the method that runs now stops waiting. Gives what was said before.
#[inline]
pub(crate) fn set_deadline(deadline: Option<Moment>) -> Option<Moment> {
    let active = ACTIVE.get();
    ACTIVE.set(Active { deadline, ..active });
    active.deadline
}

/// Whether the tag is that of the timer that all deadlines of a process share.
pub(crate) fn is_deadline(tag: u64) -> bool {
    tag == DEADLINES
}

/// The host that the calling thread runs processes of.
fn host() -> Option<&'static Host> {
    crate::scheduler::birth::current_host()
}

impl Waits {
    #[cold]
    fn of(life: u64) -> Box<Self> {
        Box::new(Self { owner: waker::owner_of_life(life), ..Self::default() })
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether this is the table of that life.
    pub(crate) fn is_of(&self, owner: Owner) -> bool {
        match (self.owner, owner) {
            (Some((slot, generation)), Some((other, other_generation))) => {
                ptr::eq(slot, other) && generation == other_generation
            }
            (None, None) => true,
            _ => false,
        }
    }

    fn add(&mut self, state: State) -> WaitKey {
        self.serial = self.serial.wrapping_add(1);
        if self.serial == u32::MAX {
            // Its tags could be mistaken for that of the deadlines.
            self.serial = 1;
        }
        let serial = self.serial;
        let row = self.rows.insert(Wait { serial, state, deadline: None, ticket: None, timer: None });
        WaitKey { row: row as u32, serial }
    }

    /// A row for a future.
    pub(crate) fn add_future(&mut self) -> WaitKey {
        self.add(State::Future(None))
    }

    /// A row for a continuation.
    pub(crate) fn add_continuation(&mut self, number: usize) -> WaitKey {
        self.add(State::Continuation(number))
    }

    fn get(&mut self, key: WaitKey) -> Option<&mut Wait> {
        self.rows.get_mut(key.row as usize).filter(|wait| wait.serial == key.serial)
    }

    /// A caller that answers the row, and must do so before `deadline`.
    pub(crate) fn caller(&mut self, key: WaitKey, deadline: Option<Moment>) -> Option<Caller> {
        let (slot, generation) = self.owner?;
        let (caller, ticket) = Caller::process(slot, generation, key.tag(), deadline);
        let wait = self.get(key)?;
        wait.ticket = Some(ticket);
        wait.deadline = deadline;
        if let Some(deadline) = deadline {
            self.arm(deadline);
        }
        Some(caller)
    }

    /// Answers the row when `due`.
    pub(crate) fn set_timer(&mut self, key: WaitKey, due: Moment) {
        let (Some((slot, generation)), Some(host)) = (self.owner, host()) else {
            return;
        };
        let tag = key.tag();
        let timer = host.set_timer(due, Box::new(move || crate::scheduler::step::complete(slot, generation, tag)));
        if let Some(wait) = self.get(key) {
            wait.timer = Some(timer);
        }
    }

    /// Sees to it that the shared timer fires at `due` or before.
    fn arm(&mut self, due: Moment) {
        let Some(host) = host() else { return };
        match self.armed {
            Some((armed, _)) if armed <= due => return,
            Some((_, key)) => {
                host.timers.cancel(key);
            }
            None => {}
        }
        let Some((slot, generation)) = self.owner else {
            return;
        };
        let fire = move || crate::scheduler::step::complete(slot, generation, DEADLINES);
        self.armed = Some((due, host.set_timer(due, Box::new(fire))));
    }

    /// Cancels the timer that all deadlines share: the process ends.
    pub(crate) fn disarm(&mut self) {
        if let (Some((_, key)), Some(host)) = (self.armed.take(), host()) {
            host.timers.cancel(key);
        }
    }

    /// An answer has come. Gives a waker that the caller must wake.
    #[must_use = "the waker must be woken"]
    pub(crate) fn answer(&mut self, tag: u64, answer: Answer) -> Option<Waker> {
        self.answer_row(WaitKey::of(tag), answer)
    }

    fn answer_row(&mut self, key: WaitKey, answer: Answer) -> Option<Waker> {
        let wait = self.get(key)?;
        match &mut wait.state {
            State::Future(waker) => {
                let waker = waker.take();
                wait.state = State::Answered(answer);
                waker
            }
            // A row is answered once; what comes later belongs to nobody.
            State::Answered(_) => None,
            State::Continuation(number) => {
                let number = *number;
                self.rows.remove(key.row as usize);
                self.ready.push_back((number, answer));
                None
            }
        }
    }

    /// Answers what is over its deadline, and arms the timer for what is not. Gives the wakers that the caller must wake.
    #[must_use = "the wakers must be woken"]
    pub(crate) fn expire(&mut self) -> Vec<Waker> {
        self.armed = None;
        let now = Moment::now();
        let late = |wait: &Wait| wait.deadline.is_some_and(|deadline| deadline <= now);
        let unanswered = |wait: &Wait| !matches!(wait.state, State::Answered(_));
        let expired: Vec<WaitKey> = self
            .rows
            .iter()
            .filter(|(_, wait)| late(wait) && unanswered(wait))
            .map(|(row, wait)| WaitKey { row: row as u32, serial: wait.serial })
            .collect();
        let mut wakers = Vec::new();
        for key in expired {
            if let Some(wait) = self.get(key) {
                wait.deadline = None;
                if let Some(ticket) = wait.ticket.take() {
                    ticket.abandon();
                }
            }
            wakers.extend(self.answer_row(key, Err(CommandError::Call(CallError::Timeout))));
        }
        let next = self.rows.iter().filter(|(_, wait)| unanswered(wait)).filter_map(|(_, wait)| wait.deadline).min();
        if let Some(next) = next {
            self.arm(next);
        }
        wakers
    }

    /// Looks for the answer to a future's row. A waker that is not the process's own is kept until it comes.
    pub(crate) fn poll(&mut self, key: WaitKey, waker: Option<Waker>) -> Poll<Option<Answer>> {
        let Some(wait) = self.get(key) else {
            return Poll::Ready(None);
        };
        if let State::Future(kept) = &mut wait.state {
            *kept = waker;
            return Poll::Pending;
        }
        match self.rows.remove(key.row as usize).state {
            State::Answered(answer) => Poll::Ready(Some(answer)),
            State::Future(_) | State::Continuation(_) => Poll::Ready(None),
        }
    }

    /// The future of a row is gone. Gives an answer that nobody looked at, to be dropped when the table is not in use.
    pub(crate) fn forget(&mut self, key: WaitKey) -> Option<Answer> {
        self.get(key)?;
        let wait = self.rows.remove(key.row as usize);
        if let Some(ticket) = wait.ticket {
            ticket.abandon();
        }
        if let (Some(timer), Some(host)) = (wait.timer, host()) {
            host.timers.cancel(timer);
        }
        match wait.state {
            State::Answered(answer) => Some(answer),
            State::Future(_) | State::Continuation(_) => None,
        }
    }

    /// Keeps `future` to be polled beside the process's methods; its output goes to the continuation of that number.
    pub(crate) fn run_beside(&mut self, future: BoxedFuture, continuation: usize) {
        self.beside.get_or_insert_default().add(self.owner, future, continuation, deadline());
        self.new_beside = true;
    }

    /// Whether a future that runs beside has not been polled yet.
    pub(crate) fn has_new_beside(&self) -> bool {
        self.new_beside
    }

    /// Adds a future to those that wait for the cancellation.
    pub(crate) fn add_cancel_wait(&mut self, wait: &Arc<CancelWait>) {
        // Those that are gone are let go whenever the list would grow.
        if self.cancel_waits.len() == self.cancel_waits.capacity() {
            self.cancel_waits.retain(|wait| wait.strong_count() > 0);
        }
        self.cancel_waits.push(Arc::downgrade(wait));
    }

    /// The wakers of the futures that wait for the cancellation; `None` if there is no such future.
    pub(crate) fn cancel_wakers(&mut self) -> Option<Vec<Waker>> {
        let waits: Vec<_> = self.cancel_waits.drain(..).filter_map(|wait| wait.upgrade()).collect();
        (!waits.is_empty()).then(|| waits.iter().filter_map(|wait| lock(&wait.0).take()).collect())
    }

    /// What a future holds that may not be cut short.
    pub(crate) fn shield(&mut self) -> Arc<()> {
        self.shields.get_or_insert_default().clone()
    }

    /// Whether a future lives that may not be cut short.
    pub(crate) fn is_shielded(&self) -> bool {
        self.shields.as_ref().is_some_and(|shields| Arc::strong_count(shields) > 1)
    }

    /// Whether the process is to end now.
    fn is_ending(&self) -> bool {
        self.end.is_some() || (self.end_after_shield.is_some() && !self.is_shielded())
    }

    /// Why the process is to end now, if it is.
    fn take_end(&mut self) -> Option<ExitReason> {
        if self.end.is_none() && !self.is_shielded() {
            self.end = self.end_after_shield.take();
        }
        self.end.take()
    }

    /// Whether there is anything to do for whoever serves.
    fn has_something_to_serve(&self) -> bool {
        !(self.inbox.is_empty() && self.ready.is_empty() && self.signals.is_empty())
    }

    /// Whether a future that runs beside wants to be polled.
    fn wants_beside(&self) -> bool {
        self.new_beside || self.beside.as_ref().is_some_and(|beside| beside.wanted() > 0)
    }

    /// Whether there is more to see to than the messages in the mailbox. A row that waits is none of it.
    fn is_busy(&self) -> bool {
        self.has_something_to_serve()
            || !self.aside.is_empty()
            || self.wants_beside()
            || self.end.is_some()
            || self.end_after_shield.is_some()
    }

    /// Whether the process waits for nothing and has nothing to do.
    pub(crate) fn is_at_rest(&self) -> bool {
        let nothing_waits = self.rows.is_empty() && self.beside.as_ref().is_none_or(|beside| beside.is_empty());
        nothing_waits && self.ready.is_empty() && self.signals.is_empty() && self.inbox.is_empty() && self.end.is_none()
    }
}

/// A future that waits for the cancellation, with its waker.
#[derive(Default)]
pub(crate) struct CancelWait(Mutex<Option<Waker>>);

impl CancelWait {
    /// The waker to wake from here on.
    pub(crate) fn keep(&self, waker: Waker) {
        let before = lock(&self.0).replace(waker);
        drop(before);
    }
}

/// The wish for the next message; it ends with this. Whoever waits for messages holds one meanwhile.
pub(crate) struct Wanting;

impl Wanting {
    /// The waker in `context` is woken when there is something to serve. That of the process itself need not be.
    pub(crate) fn keep_waker(&self, context: &Context<'_>) {
        let owner = peek(|waits| waits.owner).flatten();
        let waker = foreign_waker(context, owner);
        let before = peek(|waits| std::mem::replace(&mut waits.serve_waker, waker));
        drop(before);
    }
}

impl Drop for Wanting {
    fn drop(&mut self) {
        let waker = peek(|waits| {
            waits.wants_message = false;
            waits.serve_waker.take()
        });
        drop(waker);
    }
}

/// Wakes whoever waits for something to serve, if there is something and if the process's own polls do not reach it.
pub(crate) fn rouse() {
    let waker = peek(|waits| if waits.has_something_to_serve() { waits.serve_waker.take() } else { None });
    if let Some(waker) = waker.flatten() {
        waker.wake();
    }
}

/// The process ends: what it waits for is cancelled, and what runs beside it is dropped.
pub(crate) fn leave() {
    let beside = peek(|waits| {
        waits.disarm();
        std::mem::take(&mut waits.beside)
    });
    // With the table in place, so that what these futures wait for is cancelled too.
    drop(beside);
    drop(peek(|waits| waits.continuations.take()));
    let rows = peek(|waits| {
        let rows = std::mem::take(&mut waits.rows);
        for (_, wait) in &rows {
            if let Some(ticket) = &wait.ticket {
                ticket.abandon();
            }
            if let (Some(timer), Some(host)) = (wait.timer, host()) {
                host.timers.cancel(timer);
            }
        }
        rows
    });
    drop(rows);
}

/// Polls those futures beside the process's methods that want it now.
pub(crate) fn poll_beside() {
    if peek(|waits| waits.beside.is_some()) != Some(true) {
        return;
    }
    let wanted = peek(|waits| {
        waits.new_beside = false;
        waits.beside.as_ref().map_or(0, |beside| beside.wanted())
    });
    for _ in 0..wanted.unwrap_or(0) {
        // Taken out while it is polled: its code may look at the table.
        let Some(mut beside) = peek(|waits| waits.beside.as_mut()?.take()).flatten() else {
            continue;
        };
        let waker = beside.waker();
        // It acts for whoever called the method that started it.
        let outer = set_deadline(beside.deadline);
        let poll = beside.future.as_mut().poll(&mut Context::from_waker(&waker));
        set_deadline(outer);
        peek(|waits| match poll {
            Poll::Ready(output) => {
                if let Some(besides) = &mut waits.beside {
                    besides.remove(beside.row);
                }
                waits.ready.push_back((beside.continuation, Ok(output)));
                Some(beside)
            }
            Poll::Pending => match &mut waits.beside {
                Some(besides) => {
                    besides.put_back(beside);
                    None
                }
                None => Some(beside),
            },
        });
    }
}
