//! The process that the current thread runs: its table of waits, the deadline it acts under, and its request to end.
//!
//! A machine installs its table for the duration of a step ([`enter`]), as a pointer, so that a future finds the table
//! of the polling process without a lock, a reference or a lifetime.

use super::waker::{self, foreign_waker, is_own};
use super::{attachment::StashedMessage, pending::WaitKey, pending::Waits, rows::Rows};
use crate::call::answer::AnswerNode;
use crate::engine::context::own::is_slice_over;
use crate::process::guardian::transfer_unhandled;
use crate::{ExitReason, Package, env::clock::Moment, util::defer::defer, util::panics::Drops};
use std::any::Any;
use std::task::{Context, Poll, Waker};
use std::{cell::Cell, marker::PhantomData, ptr};

/// The place where a machine keeps its table of waits.
#[derive(Default)]
pub(crate) struct TableCell {
    /// The incarnation that owns the table, packed in a word, or zero if the machine is driven by hand.
    pub(crate) incarnation: u64,
    /// Allocated on first use: many processes only ever wait for messages.
    pub(crate) waits: Option<Box<Waits>>,
}

/// The state set by the innermost [`enter`] on this thread. It is a single variable, because each step saves and
/// restores all of it.
struct Active {
    /// Null, or a pointer to the table that `enter` borrows.
    table: Cell<*mut TableCell>,
    /// The deadline of the current method's caller.
    deadline: Cell<Option<Moment>>,
    /// Whether the table is borrowed.
    looking: Cell<bool>,
    /// Whether the process has asked to end after its current method. Stored outside the table, so that this request
    /// alone does not allocate one.
    stop: Cell<bool>,
}

thread_local! {
    static ACTIVE: Active = const { Active::nothing() };
    /// The incarnation whose futures are being polled, or zero if none.
    static POLLED: Cell<u64> = const { Cell::new(0) };
}

impl TableCell {
    /// Returns the table, allocating it if needed.
    #[inline]
    pub(crate) fn allocated(&mut self) -> &mut Waits {
        let incarnation = self.incarnation;
        self.waits.get_or_insert_with(|| Waits::of(incarnation))
    }

    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.waits.as_ref().is_some_and(|waits| waits.is_busy())
    }

    #[inline]
    pub(crate) fn is_upgrading(&self) -> bool {
        self.waits.as_ref().is_some_and(|waits| waits.is_upgrading())
    }
}

impl Active {
    const fn nothing() -> Self {
        Self {
            table: Cell::new(ptr::null_mut()),
            deadline: Cell::new(None),
            looking: Cell::new(false),
            stop: Cell::new(false),
        }
    }

    fn is_nothing(&self) -> bool {
        self.table.get().is_null() && self.deadline.get().is_none() && !self.looking.get() && !self.stop.get()
    }
}

struct Restore {
    table: *mut TableCell,
    deadline: Option<Moment>,
    looking: bool,
    stop: bool,
}

impl Restore {
    #[inline]
    fn with(table: *mut TableCell, deadline: Option<Moment>) -> Self {
        ACTIVE.with(|active| Self {
            table: active.table.replace(table),
            deadline: active.deadline.replace(deadline),
            // A value dropped inside a borrow may start a process.
            looking: active.looking.replace(false),
            stop: active.stop.replace(false),
        })
    }
}

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        ACTIVE.with(|active| {
            active.table.set(self.table);
            active.deadline.set(self.deadline);
            active.looking.set(self.looking);
            active.stop.set(self.stop);
        });
    }
}

/// Clears the state that a step has set, on drop.
struct Leave;

impl Drop for Leave {
    #[inline]
    fn drop(&mut self) {
        ACTIVE.with(|active| {
            active.table.set(ptr::null_mut());
            active.deadline.set(None);
            active.looking.set(false);
            active.stop.set(false);
        });
    }
}

/// Proof that the calling thread runs a process whose table is installed.
pub(crate) struct Entered<'a> {
    table: *mut TableCell,
    lent: PhantomData<&'a mut TableCell>,
}

impl Entered<'_> {
    /// Returns whether the process needs attention besides its mailbox.
    #[inline(always)]
    pub(crate) fn is_busy(&self) -> bool {
        // SAFETY: `enter` borrows the table while this lives, and accesses it only through this pointer and its copy in
        // ACTIVE. The copy is not in use: this is called between two messages.
        is_stopping() || unsafe { &*self.table }.is_busy()
    }

    /// Returns whether a poll must handle more than answers and messages: an end, a background future, a foreign
    /// waker, or a published wait of a process that is running again.
    #[inline(always)]
    pub(crate) fn is_special(&self) -> bool {
        // SAFETY: as above, between two polls.
        let waits = unsafe { &*self.table }.waits.as_ref();
        is_stopping() || waits.is_some_and(|waits| waits.is_special() || waits.waiting.is_some())
    }

    /// Stores an answer in its row, if a future of the process awaits it with the process's own waker.
    ///
    /// # Errors
    /// The answer, if it must be passed to [`answer`] instead.
    #[inline(always)]
    pub(crate) fn answer(&self, key: WaitKey, answer: AnswerNode) -> Result<(), AnswerNode> {
        // SAFETY: as above; and no foreign code runs during this call, since nothing is dropped or woken.
        match unsafe { &mut *self.table }.waits.as_deref_mut() {
            Some(waits) => waits.answer_own(key, answer),
            None => Err(answer),
        }
    }
}

/// Runs `body` with `table` as the calling thread's table, under `deadline`.
#[inline]
pub(crate) fn enter<R>(table: &mut TableCell, deadline: Option<Moment>, body: impl FnOnce(&Entered<'_>) -> R) -> R {
    let table: *mut TableCell = table;
    let _restore = Restore::with(table, deadline);
    body(&Entered { table, lent: PhantomData })
}

/// Like [`enter`], without a deadline, for a step of the scheduler: the thread runs no process yet, so there is
/// nothing to save and restore.
#[inline(always)]
pub(crate) fn enter_first<R>(table: &mut TableCell, body: impl FnOnce(&Entered<'_>) -> R) -> R {
    let table: *mut TableCell = table;
    ACTIVE.with(|active| {
        debug_assert!(active.is_nothing(), "a thread makes its steps one after the other");
        active.table.set(table);
    });
    let _leave = Leave;
    body(&Entered { table, lent: PhantomData })
}

/// Runs `body` as if this thread ran no process.
pub(crate) fn outside<R>(body: impl FnOnce() -> R) -> R {
    let _restore = Restore::with(ptr::null_mut(), None);
    body()
}

/// Sets the incarnation whose futures are polled from here on, or zero for none, and returns the previous one. If a
/// poll panics, the value stays until the next call.
#[inline]
pub(crate) fn set_polled(incarnation: u64) -> u64 {
    POLLED.replace(incarnation)
}

/// Runs blocking code, which may poll futures in another executor: those futures are not served through the process.
pub(crate) fn unpolled<R>(body: impl FnOnce() -> R) -> R {
    let outer = set_polled(0);
    let _back = defer(|| _ = set_polled(outer));
    body()
}

/// Returns whether a future that is polled with the waker in `context` can be served through the process of
/// `incarnation`. It cannot if a method polls the future in another executor: the process reads no answers before the
/// method returns. (This is detected in sync methods and in [blocking code](unpolled). In an async method, the waker of
/// an executor that blocks the method cannot be distinguished from that of a `join!`.)
#[inline]
pub(crate) fn is_polled(incarnation: u64, context: &Context<'_>) -> bool {
    is_own(context, incarnation) || POLLED.get() == incarnation
}

#[inline]
fn is_stopping() -> bool {
    ACTIVE.with(|active| active.stop.get())
}

/// Returns the table of the innermost `enter`, or null.
#[inline]
fn table() -> *mut TableCell {
    ACTIVE.with(|active| active.table.get())
}

/// A borrow of the current process's table. Ends on drop, even during a panic.
struct Borrowed(*mut TableCell);

impl Borrowed {
    /// Borrows the current process's table, unless it is borrowed already.
    #[inline]
    fn begin() -> Option<Self> {
        let table = table();
        // The flag is set before the reference is created, so that there is never a second one.
        if table.is_null() || ACTIVE.with(|active| active.looking.replace(true)) { None } else { Some(Self(table)) }
    }

    #[inline]
    fn table(&mut self) -> &mut TableCell {
        // SAFETY: not null, so it points to the table that the innermost `enter` borrows and uses only through this
        // pointer. The flag refuses a second borrow inside the first, so there is one reference at a time.
        unsafe { &mut *self.0 }
    }
}

impl Drop for Borrowed {
    #[inline]
    fn drop(&mut self) {
        ACTIVE.with(|active| active.looking.set(false));
    }
}

/// Calls `look` with the current process's table, unless it is borrowed already.
#[inline(always)]
fn active<R>(look: impl FnOnce(&mut TableCell) -> Option<R>) -> Option<R> {
    look(Borrowed::begin()?.table())
}

#[inline]
pub(crate) fn has_table() -> bool {
    // SAFETY: as in `active`, which is not running: this is called between two messages.
    unsafe { table().as_ref() }.is_some_and(|table| table.waits.is_some())
}

/// Ends the current process when its method returns (in async code: at its next await).
#[inline]
pub(crate) fn stop() {
    ACTIVE.with(|active| active.stop.set(!active.table.get().is_null()));
}

#[inline]
pub(crate) fn is_ending() -> bool {
    is_stopping() || peek(|waits| waits.ending.is_ending()) == Some(true)
}

pub(crate) fn is_upgrading() -> bool {
    peek(|waits| waits.is_upgrading()) == Some(true)
}

/// The action that follows a poll that returned pending.
pub(crate) enum AfterPending {
    /// Handle what [`Entered::is_special`] reports.
    Special,
    /// Deliver the next message: a future waits for it.
    Wants,
    Suspended,
    /// Poll again: the wait would have closed a cycle, so the call has failed.
    Again,
}

/// Decides what follows a pending poll. `seen_to`: whether the conditions that [`Entered::is_special`] reports have
/// been handled. `by_scheduler`: whether the scheduler drives the machine, and so parks the process together with it.
/// If not, the process may be resumed by other means.
#[inline]
pub(crate) fn pending(seen_to: bool, by_scheduler: bool) -> AfterPending {
    if is_stopping() && !seen_to {
        return AfterPending::Special;
    }
    let pending = peek(|waits| {
        if !seen_to && waits.is_special() {
            AfterPending::Special
        } else if waits.inbox.wants_message {
            AfterPending::Wants
        } else if by_scheduler && waits.suspend() {
            AfterPending::Again
        } else {
            AfterPending::Suspended
        }
    });
    pending.unwrap_or(AfterPending::Suspended)
}

/// Like [`pending`], in a step that the scheduler itself runs. Always inlined, so written without a closure.
#[inline(always)]
pub(crate) fn pending_here() -> AfterPending {
    if is_stopping() {
        return AfterPending::Special;
    }
    let Some(mut borrowed) = Borrowed::begin() else { return AfterPending::Special };
    let Some(waits) = borrowed.table().waits.as_deref_mut() else { return AfterPending::Special };
    if waits.is_special() {
        AfterPending::Special
    } else if waits.inbox.wants_message {
        AfterPending::Wants
    } else if waits.suspend_running() {
        AfterPending::Again
    } else {
        AfterPending::Suspended
    }
}

/// Returns whether other processes must run first: the time slice is used up, and the remaining input consists of
/// stashed messages or stream items, which are not limited by the mailbox. Always false for a machine driven by hand.
pub(crate) fn is_to_pause() -> bool {
    peek(|waits| waits.owner.is_some() && waits.inbox.has_messages()) == Some(true) && is_slice_over()
}

pub(crate) fn wake_self() {
    waker::wake(peek(|waits| waits.incarnation).unwrap_or(0));
}

/// Returns whether the current process has been asked to [`stop`], and clears the request.
#[inline]
pub(crate) fn take_stop() -> bool {
    ACTIVE.with(|active| active.stop.replace(false))
}

/// Takes the reason with which the current process must end now, if any.
#[inline]
pub(crate) fn take_end() -> Option<ExitReason> {
    if !has_table() {
        // The common case, handled without copying a reason.
        return take_stop().then_some(ExitReason::Normal);
    }
    if !is_ending() {
        return None;
    }
    ACTIVE.with(|active| active.stop.set(false));
    Some(peek(|waits| waits.ending.take()).flatten().unwrap_or(ExitReason::Normal))
}

/// Stores an answer in its row. Returns the waker to wake.
#[inline(always)]
#[must_use = "the waker must be woken"]
pub(crate) fn answer(key: WaitKey, answer: AnswerNode) -> Option<Waker> {
    active(|table| table.allocated().answer(key, answer))
}

/// Calls `look` with the current process's table, allocating it if needed. Returns `None` outside of processes. `look`
/// must not run foreign code.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(&mut Waits) -> R) -> Option<R> {
    active(|table| Some(look(table.allocated())))
}

/// Takes the answer to a call that the process of `incarnation` made. Returns `None` if the calling thread runs another
/// process, or if the answer has not arrived.
#[inline(always)]
pub(crate) fn take_answer(key: WaitKey, incarnation: u64) -> Option<AnswerNode> {
    active(|table| {
        let waits = table.waits.as_deref_mut().filter(|waits| waits.incarnation == incarnation)?;
        waits.take_answer(key)
    })
}

/// Calls `look` with the table, if the process has one.
#[inline]
pub(crate) fn peek<R>(look: impl FnOnce(&mut Waits) -> R) -> Option<R> {
    active(|table| table.waits.as_deref_mut().map(look))
}

#[inline]
pub(crate) fn deadline() -> Option<Moment> {
    ACTIVE.with(|active| active.deadline.get())
}

#[inline]
pub(crate) fn has_deadline() -> bool {
    deadline().is_some()
}

#[inline]
pub(crate) fn set_deadline(deadline: Option<Moment>) -> Option<Moment> {
    ACTIVE.with(|active| active.deadline.replace(deadline))
}

/// The guard of a wait for the next message. Dropping it ends the wait.
pub(crate) struct Wanting;

impl Wanting {
    /// Stores the waker to wake when there is input, unless it is the process's own.
    pub(crate) fn keep_waker(&self, context: &Context<'_>) {
        let waker = foreign_waker(context, peek(|waits| waits.incarnation).unwrap_or(0));
        let before = peek(|waits| std::mem::replace(&mut waits.inbox.waker, waker));
        drop(before);
    }
}

impl Drop for Wanting {
    fn drop(&mut self) {
        let waker = peek(|waits| {
            waits.inbox.wants_message = false;
            waits.inbox.waker.take()
        });
        drop(waker);
    }
}

/// Wakes the future that waits for input, if there is input and the future was polled with a foreign waker. The
/// process's own polls may not reach such a future.
pub(crate) fn wake_server() {
    let waker = peek(|waits| if waits.has_something_to_serve() { waits.inbox.waker.take() } else { None });
    if let Some(waker) = waker.flatten() {
        waker.wake();
    }
}

/// Cancels the waits of an ending process and drops the user values in its table, one by one, so that a panic in one
/// drop does not skip the others.
pub(crate) fn leave(drops: &mut Drops, drop_continuations: fn(&mut Drops, Box<dyn Any + Send>)) {
    let background = peek(|waits| {
        waits.waiting = None;
        waits.disarm();
        std::mem::take(&mut waits.background)
    });
    // Dropped with the table installed, so that the waits of these futures are cancelled too.
    drops.drop_each(background.flatten().into_iter().flat_map(|background| background.into_futures()));
    if peek(|waits| waits.inbox.stash.is_empty() && waits.inbox.messages.is_empty()) == Some(false) {
        let unhandled =
            peek(|waits| [std::mem::take(&mut waits.inbox.stash), std::mem::take(&mut waits.inbox.messages)]);
        let packages = unhandled.into_iter().flatten().flatten().map(|stashed| stashed.package);
        drops.run(|| transfer_unhandled(packages));
    }
    if let Some(continuations) = peek(|waits| waits.continuations.take()).flatten() {
        drop_continuations(drops, continuations);
    }
    if peek(|waits| waits.rows.is_empty()) == Some(false) {
        let rows = peek(|waits| {
            let rows = std::mem::take(&mut waits.rows);
            rows.iter().for_each(|(_, wait)| wait.cancel());
            rows
        });
        drops.drop_each(rows.into_iter().flat_map(Rows::into_values));
    }
    if peek(|waits| waits.has_rest()) == Some(true)
        && let Some(drop_rest) = peek(Waits::take_rest)
    {
        drop_rest(drops);
    }
}

/// Takes the next message that is to be handled before those in the mailbox. From here on, the previous message of this
/// kind counts as handled.
pub(crate) fn next_stashed() -> Option<Package> {
    loop {
        let (stashed, handled) = peek(|waits| waits.inbox.next_stashed())?;
        if let Some(stream) = handled {
            stream.handled();
        }
        let stashed = stashed?;
        if let Some(package) = open_stashed(stashed) {
            return Some(package);
        }
    }
}

/// Returns the message, unless its stream has been detached.
pub(crate) fn open_stashed(stashed: StashedMessage) -> Option<Package> {
    let StashedMessage { package, from } = stashed;
    let Some(stream) = from else { return Some(package) };
    if stream.is_detached() {
        return None;
    }
    peek(|waits| waits.inbox.handling = Some(stream));
    Some(package)
}

pub(crate) fn poll_background() {
    if peek(|waits| waits.background.is_some()) != Some(true) {
        return;
    }
    let wanted = peek(|waits| {
        waits.new_background = false;
        (waits.incarnation, waits.background.as_ref().map_or(0, |background| background.wanted()))
    });
    let (incarnation, wanted) = wanted.unwrap_or_default();
    for _ in 0..wanted {
        // Taken out while it is polled, because its code may use the table.
        let Some(mut background) = peek(|waits| waits.background.as_mut()?.take()).flatten() else {
            continue;
        };
        let waker = background.waker();
        // The future runs under the deadline of the method that started it.
        let outer = set_deadline(background.acts.deadline());
        let polled = set_polled(incarnation);
        let poll = background.future.as_mut().poll(&mut Context::from_waker(&waker));
        set_polled(polled);
        set_deadline(outer);
        peek(|waits| match poll {
            Poll::Ready(output) => {
                if let Some(futures) = &mut waits.background {
                    futures.remove(&background);
                }
                waits.ready.push_back((background.continuation, Ok(output)));
                Some(background)
            }
            Poll::Pending => match &mut waits.background {
                Some(futures) => {
                    futures.put_back(background);
                    None
                }
                None => Some(background),
            },
        });
    }
}

#[cfg(test)]
mod tests {
    use crate as postroom;
    use crate::prelude::*;
    use crate::sync::{Arc, AtomicBool, Ordering};
    use std::process::Command as Program;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("as a drop may");
        }
    }

    /// Records the numbers that it receives. The first instance waits for another type of message until it is killed,
    /// and the drop of its state panics.
    #[postroom::process(crate = crate)]
    struct Stashes {
        book: Sender<u64>,
        bomb: Option<Bomb>,
    }

    #[postroom::process(crate = crate)]
    impl Stashes {
        #[entry]
        async fn serve(&mut self, ctx: &mut Context<Self>) {
            if self.bomb.is_some() {
                ctx.receive::<String>().await;
            }
            loop {
                let _is_read = self.book.send(ctx.receive::<u64>().await);
            }
        }
    }

    /// Catches: a panic in the drop of the state loses the messages that the process had stashed.
    #[test]
    fn what_a_process_has_stashed_is_kept_though_its_state_panics_when_it_is_dropped() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let (book, noted) = channel();
        let first = Arc::new(AtomicBool::new(true));
        let child = Child::new("stashes", move |spawn| {
            let bomb = first.swap(false, Ordering::SeqCst).then(|| Bomb);
            spawn.of(Stashes { book: book.clone(), bomb }).serve()
        });
        let tree = Supervisor::one_for_one().add(child.keep_messages()).spawn(&runtime).expect("it starts");
        let stashes: Address<Stashes> = tree.child("stashes").expect("it lives");
        [1_u64, 2].into_iter().for_each(|number| runtime.send(stashes.pid(), number).expect("it lives"));
        runtime.host().scheduler().wait_until_idle().expect("both are stashed");
        stashes.pid().kill();
        let limit = Duration::from_secs(60);
        assert_eq!([noted.recv_timeout(limit), noted.recv_timeout(limit)], [Ok(1), Ok(2)]);
    }

    #[postroom::process(crate = crate)]
    struct Plants {}

    #[postroom::process(crate = crate)]
    impl Plants {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn plant(&mut self, ctx: &mut Context<Self>) {
            for _ in 0..2 {
                let (runs, then) = (Bomb, Bomb);
                let run = async move {
                    let _bomb = runs;
                    std::future::pending::<()>().await;
                };
                ctx.run(run).then(move |_, (), _| drop(then));
            }
        }
    }

    /// Set in the child program, which may be aborted.
    const PLANTS: &str = "POSTROOM_PLANTS_BOMBS";

    /// Catches: two drops of one process panic, the second while the thread unwinds from the first, and that aborts the
    /// program.
    #[test]
    fn several_values_of_a_process_may_panic_when_they_are_dropped() {
        if std::env::var_os(PLANTS).is_none() {
            // Test names omit the name of the crate.
            let module = module_path!().split_once("::").expect("in the crate").1;
            let mut program = Program::new(std::env::current_exe().expect("it runs"));
            let test = format!("{module}::several_values_of_a_process_may_panic_when_they_are_dropped");
            let output = program.args(["--exact", &test]).env(PLANTS, "1").output().expect("it starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        for is_killed in [true, false] {
            let plants = runtime.spawn(Plants {}).serve().expect("it starts");
            plants.plant().wait().expect("it lives");
            let end = plants.pid().join();
            match is_killed {
                true => _ = plants.pid().kill(),
                false => _ = plants.pid().stop(),
            }
            let reason = end.wait();
            assert!(
                matches!((is_killed, &reason), (true, ExitReason::Killed) | (false, ExitReason::Panic(_))),
                "{reason}"
            );
        }
    }
}
