//! What a thread knows of the process that it runs: where the table of what it waits for is, for whom it acts, and
//! whether it has asked to end.
//!
//! A machine lets the thread look at its table while a step runs ([`enter`]), by a pointer, so that a future finds the
//! table of the process that polls it without a lock, a reference or a lifetime.

use super::attachment::Inbound;
use super::pending::{Waits, host};
use super::waker::{self, foreign_waker, is_own};
use crate::call::package::Package;
use crate::engine::context::own::is_turn_over;
use crate::env::clock::Moment;
use crate::exit::ExitReason;
use crate::process::guardian::leave as leave_to_heir;
use crate::process::handover::Upgrade;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::task::{Context, Poll};

/// A machine's place for its table.
#[derive(Default)]
pub(crate) struct TableSeat {
    /// The life that it belongs to, in one word; see [`waker::life_of`].
    pub(crate) life: u64,
    /// Made when it is needed: many processes never wait for anything but messages.
    pub(crate) waits: Option<Box<Waits>>,
}

/// What a thread knows of the process that it runs.
#[derive(Clone, Copy)]
struct Active {
    /// Null, or what the innermost `enter` of this thread borrows.
    seat: *mut TableSeat,
    /// When the caller of the method that runs now stops waiting.
    deadline: Option<Moment>,
}

thread_local! {
    static ACTIVE: Cell<Active> = const { Cell::new(Active::NOTHING) };
    /// Whether the table is borrowed now.
    static LOOKING: Cell<bool> = const { Cell::new(false) };
    /// Whether the process has asked to end when the method that runs now is done. Apart from the table, which a
    /// process that asks for nothing else does not need.
    static STOP: Cell<bool> = const { Cell::new(false) };
    /// The life whose futures are polled now; zero while none are.
    static POLLED: Cell<u64> = const { Cell::new(0) };
}

impl TableSeat {
    /// The table, which is made if there is none.
    #[inline]
    fn table(&mut self) -> &mut Waits {
        let life = self.life;
        self.waits.get_or_insert_with(|| Waits::of(life))
    }

    /// Returns whether the table has more to see to than the messages in the mailbox.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.waits.as_ref().is_some_and(|waits| waits.is_busy())
    }

    pub(crate) fn ask_to_upgrade(&mut self, upgrade: Upgrade) {
        self.table().ask_to_upgrade(upgrade);
    }

    #[inline]
    pub(crate) fn is_upgrading(&self) -> bool {
        self.waits.as_ref().is_some_and(|waits| waits.is_upgrading())
    }

    pub(crate) fn next_upgrade(&mut self) -> Option<Upgrade> {
        self.waits.as_mut()?.next_upgrade()
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
        // Also whether the table is borrowed: a value that is dropped inside a look may start a process.
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

/// That the calling thread runs a process, with its table in place.
pub(crate) struct Entered<'a> {
    seat: *mut TableSeat,
    lent: PhantomData<&'a mut TableSeat>,
}

impl Entered<'_> {
    /// Returns whether the process has more to see to than the messages in its mailbox.
    #[inline(always)]
    pub(crate) fn is_busy(&self) -> bool {
        // SAFETY: what `enter` borrows while this lives, and has left to this pointer and to the same one in ACTIVE.
        // The table is not borrowed by that one: this is asked between two messages.
        STOP.get() || unsafe { &*self.seat }.is_busy()
    }
}

/// Runs `body` with `seat` as the calling thread's table, for someone who stops waiting at `deadline`.
#[inline]
pub(crate) fn enter<R>(seat: &mut TableSeat, deadline: Option<Moment>, body: impl FnOnce(&Entered<'_>) -> R) -> R {
    let seat: *mut TableSeat = seat;
    let _restore = Restore::with(Active { seat, deadline });
    body(&Entered { seat, lent: PhantomData })
}

/// Runs `body` as if this thread ran no process.
pub(crate) fn outside<R>(body: impl FnOnce() -> R) -> R {
    let _restore = Restore::with(Active::NOTHING);
    body()
}

/// From here on futures of the process of that life are polled; with zero, none are. After a panic it stays as it was
/// said last: that life is over then.
#[inline]
pub(crate) fn set_polled(life: u64) -> u64 {
    POLLED.replace(life)
}

/// Returns whether a future that is polled with that waker can get what it waits for by way of the process of that
/// life. It cannot if some other executor polls it, that a method waits in: the process sees nothing before the method
/// is done.
#[inline]
pub(crate) fn is_polled(life: u64, context: &Context<'_>) -> bool {
    is_own(context, life) || POLLED.get() == life
}

/// The process that this thread runs, unless it is borrowed already.
#[inline]
fn active<R>(look: impl FnOnce(&mut TableSeat) -> Option<R>) -> Option<R> {
    // Ends the look, also by a panic.
    struct Looked;
    impl Drop for Looked {
        #[inline]
        fn drop(&mut self) {
            // Not `set`, which may be no more than a call of another function.
            LOOKING.with(|looking| looking.set(false));
        }
    }
    let active = ACTIVE.try_with(Cell::get).unwrap_or(Active::NOTHING);
    // First, so that there is no second reference while the first one is used.
    if active.seat.is_null() || LOOKING.replace(true) {
        return None;
    }
    let _looked = Looked;
    // SAFETY: not null, so it is what the innermost `enter` borrows and leaves to this pointer until it takes the
    // pointer back. LOOKING has refused a second look from inside the first, so that there is one reference at a time;
    // this thread is the only one that has the pointer.
    look(unsafe { &mut *active.seat })
}

#[inline]
pub(crate) fn has_table() -> bool {
    // SAFETY: as in `active`, which is not at work: this is asked between two messages.
    unsafe { ACTIVE.get().seat.as_ref() }.is_some_and(|seat| seat.waits.is_some())
}

/// The process that this thread runs is to end when the method that runs now is done (in async code: at its next
/// await).
pub(crate) fn stop() {
    STOP.set(!ACTIVE.get().seat.is_null());
}

pub(crate) fn is_ending() -> bool {
    STOP.get() || peek(|waits| waits.is_ending()) == Some(true)
}

/// Returns whether the process that this thread runs is to end, or to hand its state over, before it takes another
/// message.
pub(crate) fn is_leaving() -> bool {
    STOP.get() || peek(|waits| waits.is_ending() || waits.is_upgrading()) == Some(true)
}

/// Returns whether the process that this thread runs is to hand its state over.
pub(crate) fn is_upgrading() -> bool {
    peek(|waits| waits.is_upgrading()) == Some(true)
}

/// Returns whether there is more to see to than answers and messages before a future is polled: an end, a future that
/// runs beside, one that has put its own waker there, or that others see the process wait, though it runs.
pub(crate) fn special() -> bool {
    STOP.get() || peek(|waits| waits.is_special() || waits.is_seen_waiting()) == Some(true)
}

/// What there is to do after a future was polled that is pending.
pub(crate) enum AfterPending {
    /// There is more to see to than answers and messages.
    Special,
    /// Something wants the next message.
    Wants,
    /// The process waits.
    Suspended,
    /// What it would have waited for is there.
    Again,
}

/// A future was polled, and is pending. `seen_to` says whether what was special about it has been seen to, and
/// `by_scheduler` whether it is the scheduler that drives its machine, and parks the process with it: else it may
/// go on by other means.
#[inline]
pub(crate) fn pending(seen_to: bool, by_scheduler: bool) -> AfterPending {
    if STOP.get() && !seen_to {
        return AfterPending::Special;
    }
    let pending = peek(|waits| {
        if !seen_to && waits.is_special() {
            AfterPending::Special
        } else if waits.wants_message {
            AfterPending::Wants
        } else if by_scheduler && waits.suspend() {
            AfterPending::Again
        } else {
            AfterPending::Suspended
        }
    });
    pending.unwrap_or(AfterPending::Suspended)
}

/// Returns whether others come first: the process has used its time slice, and what is left for it is not in its
/// mailbox, which would give nothing more: messages that it has set aside, items of a stream. Not for a machine that is
/// driven by hand, which has no turns. The request wakes the process.
pub(crate) fn is_to_pause() -> bool {
    peek(|waits| waits.owner().is_some() && !(waits.aside.is_empty() && waits.inbox.is_empty())) == Some(true)
        && is_turn_over()
}

/// Wakes the process that this thread runs: it takes another turn.
pub(crate) fn wake_self() {
    waker::wake(peek(|waits| waits.owner()).flatten());
}

/// Why the process that this thread runs is to end now, if it is.
pub(crate) fn take_end() -> Option<ExitReason> {
    if !has_table() {
        // Most often, and without a reason that would be copied.
        return STOP.replace(false).then_some(ExitReason::Normal);
    }
    if !is_ending() {
        return None;
    }
    STOP.set(false);
    Some(peek(Waits::take_end).flatten().unwrap_or(ExitReason::Normal))
}

/// Looks at the table of the process that this thread runs, which is made if there is none; `None` outside of
/// processes. `look` must not run foreign code.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(&mut Waits) -> R) -> Option<R> {
    active(|seat| Some(look(seat.table())))
}

/// The same, if the process has a table.
#[inline]
pub(crate) fn peek<R>(look: impl FnOnce(&mut Waits) -> R) -> Option<R> {
    active(|seat| seat.waits.as_deref_mut().map(look))
}

/// When the caller of the method that runs now stops waiting.
pub(crate) fn deadline() -> Option<Moment> {
    ACTIVE.get().deadline
}

#[inline]
pub(crate) fn has_deadline() -> bool {
    ACTIVE.get().deadline.is_some()
}

/// Sets when the caller of the method that runs now stops waiting. Returns what was set before.
#[inline]
pub(crate) fn set_deadline(deadline: Option<Moment>) -> Option<Moment> {
    let active = ACTIVE.get();
    ACTIVE.set(Active { deadline, ..active });
    active.deadline
}

/// The wish for the next message; it ends with this. A wait for messages holds one meanwhile.
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

/// Wakes the wait for something to serve, if there is something and if the process's own polls do not reach it.
pub(crate) fn rouse() {
    let waker = peek(|waits| if waits.has_something_to_serve() { waits.serve_waker.take() } else { None });
    if let Some(waker) = waker.flatten() {
        waker.wake();
    }
}

/// The process ends: what it waits for is cancelled, and what runs beside it is dropped.
pub(crate) fn leave() {
    let beside = peek(|waits| {
        waits.resume();
        waits.disarm();
        std::mem::take(&mut waits.beside)
    });
    // With the table in place, so that what these futures wait for is cancelled too.
    drop(beside);
    if peek(|waits| waits.aside.is_empty() && waits.inbox.is_empty()) == Some(false) {
        leave_unhandled();
    }
    drop(peek(|waits| waits.continuations.take()));
    if peek(|waits| waits.rows.is_empty()) == Some(true) {
        return;
    }
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

/// Leaves the messages that were taken out of the mailbox and not come to.
#[cold]
fn leave_unhandled() {
    let unhandled = peek(|waits| [std::mem::take(&mut waits.aside), std::mem::take(&mut waits.inbox)]);
    leave_to_heir(unhandled.into_iter().flatten().flatten().map(|inbound| inbound.package));
}

/// The next package that the process has to handle before it looks into its mailbox. What it handled before this is
/// done.
pub(crate) fn next_inbound() -> Option<Package> {
    loop {
        let (inbound, handled) = peek(Waits::next_inbound)?;
        if let Some(stream) = handled {
            stream.handled();
        }
        let inbound = inbound?;
        if let Some(package) = open_inbound(inbound) {
            return Some(package);
        }
    }
}

/// The package, unless it came from a stream that has been detached since.
pub(crate) fn open_inbound(inbound: Inbound) -> Option<Package> {
    let Inbound { package, from } = inbound;
    let Some(stream) = from else { return Some(package) };
    if stream.is_detached() {
        return None;
    }
    peek(|waits| waits.handling = Some(stream));
    Some(package)
}

/// Polls those futures beside the process's methods that want it now.
pub(crate) fn poll_beside() {
    if peek(|waits| waits.beside.is_some()) != Some(true) {
        return;
    }
    let wanted = peek(|waits| {
        waits.new_beside = false;
        (waits.life(), waits.beside.as_ref().map_or(0, |beside| beside.wanted()))
    });
    let (life, wanted) = wanted.unwrap_or_default();
    for _ in 0..wanted {
        // Taken out while it is polled: its code may look at the table.
        let Some(mut beside) = peek(|waits| waits.beside.as_mut()?.take()).flatten() else {
            continue;
        };
        let waker = beside.waker();
        // It acts for the caller of the method that started it.
        let outer = set_deadline(beside.acts.deadline());
        let polled = set_polled(life);
        let poll = beside.future.as_mut().poll(&mut Context::from_waker(&waker));
        set_polled(polled);
        set_deadline(outer);
        peek(|waits| match poll {
            Poll::Ready(output) => {
                if let Some(besides) = &mut waits.beside {
                    besides.remove(&beside);
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
