//! What a process waits for, and how it finds its way back.
//!
//! Every call, timer and command that a process awaits is a row of a table of its own, under a tag that its answer
//! brings back. The table lies in the process's machine; how a future finds it is in
//! [`active`](crate::actor::tasks::current).
//!
//! Deadlines of calls share one timer, for the earliest of them, which is set anew when it fires: an entry in the wheel
//! for each call would cost more than the call.

use super::attachment::{Attachment, Inbound};
use super::background::{Acts, Besides, BoxedFuture};
use super::waker::{self, TableOwner};
use crate::call::call_id::CallId;
use crate::call::caller::Caller;
use crate::deadlock::edges::{self, CallWait};
use crate::deadlock::foreign_wakers::is_lent;
use crate::deadlock::wait_graph::Incarnation;
use crate::engine::context::own::runs;
use crate::engine::host::Scheduler;
use crate::env::clock::{Moment, TimerKey};
use crate::errors::{CallError, CommandError, Cycle};
use crate::exit::{ExitReason, Signal};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::process::handover::Upgrade;
use crate::sync::{Arc, Mutex, lock};
use crate::time::timers::TimerAction;
use slab::Slab;
use std::any::Any;
use std::collections::VecDeque;
use std::ptr;
use std::sync::Weak;
use std::task::{Poll, Waker};

pub(crate) type CommandResult = Result<Payload, CommandError>;

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

pub(crate) struct PendingWait {
    pub(crate) serial: u32,
    pub(crate) state: RowState,
    pub(crate) deadline: Option<Moment>,
    pub(crate) ticket: Option<CallId>,
    pub(crate) timer: Option<TimerKey>,
}

/// A call of a process of this program, which a future of the process waits for.
#[derive(Clone, Copy)]
pub(crate) struct Called {
    pub(crate) on: Incarnation,
    pub(crate) method: &'static str,
    pub(crate) ticket: CallId,
}

pub(crate) enum RowState {
    /// A future waits. Its waker, if that is not the process's own.
    Future(Option<Waker>),
    /// The answer is there, and the future has not been polled since.
    Answered(CommandResult),
    /// A continuation of that number runs with the answer.
    Continuation(usize),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) owner: TableOwner,
    /// The owner in one word.
    life: Incarnation,
    pub(crate) rows: Slab<PendingWait>,
    pub(crate) serial: u32,
    /// When the shared timer is due.
    pub(crate) armed: Option<(Moment, TimerKey)>,
    /// Those of `Context<P>`: a `Slab<Continuation<P>>`, if there are any.
    pub(crate) continuations: Option<Box<dyn Any + Send>>,
    /// Continuations that can run.
    pub(crate) ready: VecDeque<(usize, CommandResult)>,
    /// Made when it is needed, as are the shields.
    pub(crate) beside: Option<Box<Besides>>,
    /// A message that the process has asked for, and signals that a method wants.
    pub(crate) inbox: VecDeque<Inbound>,
    pub(crate) signals: VecDeque<Signal>,
    /// Whether something in the process wants the next message, and its waker if that is not the process's own.
    pub(crate) wants_message: bool,
    pub(crate) serve_waker: Option<Waker>,
    /// Whether the mailbox was found empty by the last look into it.
    pub(crate) seen_empty: bool,
    /// Whether a future that runs beside has not been polled yet.
    pub(crate) new_beside: bool,
    /// Messages that selective receives have set aside.
    pub(crate) aside: VecDeque<Inbound>,
    /// The stream whose item is being handled.
    pub(crate) handling: Option<Arc<Attachment>>,
    /// Whether an async entry waits for an async method, in the middle of a message.
    pub(crate) in_method: bool,
    /// Whether others see that the process works on messages: see [`note_work`](Self::note_work).
    works: bool,
    /// That the process was cancelled, and why.
    pub(crate) cancelled: Option<ExitReason>,
    pub(crate) cancel_waits: Vec<Weak<CancelWait>>,
    /// Held by each future that may not be cut short by the cancellation, besides this table.
    pub(crate) shields: Option<Arc<()>>,
    /// What the process was asked to upgrade to, and is to next; there is one in it.
    #[expect(clippy::box_collection, reason = "nearly always none, and one word then")]
    upgrades: Option<Box<VecDeque<Upgrade>>>,
    pub(crate) end: Option<ExitReason>,
    /// The same, once the last of those futures is over.
    pub(crate) end_after_shield: Option<ExitReason>,
    /// The call that was polled last, and its row, if it is pending and is polled with the process's own waker.
    polled: Option<(u32, Called)>,
    /// While the process waits for the answer to one call and nothing else, that all can see it.
    waiting: Option<CallWait>,
}

/// Returns whether the tag is that of the timer that all deadlines of a process share.
pub(crate) fn is_deadline(tag: u64) -> bool {
    tag == DEADLINES
}

/// The host that the calling thread runs processes of.
pub(crate) fn host() -> Option<&'static Scheduler> {
    crate::engine::lifecycle::spawn::current_host()
}

impl Waits {
    #[cold]
    pub(crate) fn of(life: u64) -> Box<Self> {
        Box::new(Self { owner: waker::owner_of_life(life), life, ..Self::default() })
    }

    pub(crate) fn owner(&self) -> TableOwner {
        self.owner
    }

    /// Returns whether this is the table of that life.
    pub(crate) fn is_of(&self, owner: TableOwner) -> bool {
        match (self.owner, owner) {
            (Some((slot, generation)), Some((other, other_generation))) => {
                ptr::eq(slot, other) && generation == other_generation
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// The life that it belongs to, in one word.
    pub(crate) fn life(&self) -> Incarnation {
        self.life
    }

    #[inline]
    pub(crate) fn is_of_life(&self, life: Incarnation) -> bool {
        self.life == life
    }

    #[inline]
    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        if self.serial == u32::MAX {
            // Its tags could be mistaken for that of the deadlines.
            self.serial = 1;
        }
        self.serial
    }

    fn add(&mut self, state: RowState) -> WaitKey {
        let serial = self.next_serial();
        let row = self.rows.insert(PendingWait { serial, state, deadline: None, ticket: None, timer: None });
        WaitKey { row: row as u32, serial }
    }

    pub(crate) fn add_future(&mut self) -> WaitKey {
        self.add(RowState::Future(None))
    }

    /// A row for the future of a call that waits until `deadline`; `None` if this is the table of a machine that is
    /// driven by hand, which could not be answered.
    #[inline]
    pub(crate) fn add_call(&mut self, deadline: Option<Moment>) -> Option<(WaitKey, Caller, CallId)> {
        let (slot, generation) = self.owner?;
        let serial = self.next_serial();
        let place = self.rows.vacant_entry();
        let key = WaitKey { row: place.key() as u32, serial };
        let (caller, ticket) = Caller::process(slot, generation, key.tag(), deadline);
        place.insert(PendingWait {
            serial,
            state: RowState::Future(None),
            deadline,
            ticket: Some(ticket),
            timer: None,
        });
        if let Some(deadline) = deadline {
            self.arm(deadline);
        }
        Some((key, caller, ticket))
    }

    pub(crate) fn add_continuation(&mut self, number: usize) -> WaitKey {
        self.add(RowState::Continuation(number))
    }

    fn get(&mut self, key: WaitKey) -> Option<&mut PendingWait> {
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

    /// The process is about to be suspended. If the answer to one call is all that can make it go on, others see that
    /// from here on. Returns whether that call would wait for itself: then it has failed, and there is something to
    /// poll for.
    #[inline]
    pub(crate) fn suspend(&mut self) -> bool {
        let (Some((row, called)), Some((slot, generation))) = (&self.polled, self.owner) else {
            return false;
        };
        // A machine that is driven by hand may be one of several of the process, on any thread.
        if !runs(slot, generation) {
            return false;
        }
        if self.has_beside() || (self.rows.len() > 1 && self.has_other_future(*row)) {
            return false;
        }
        // In this order: see `lent`.
        if is_lent(self.life) || slot.lanes.has_control() {
            return false;
        }
        match edges::wait(self.life, called.on, called.method, called.ticket, false) {
            Ok(waiting) => {
                self.waiting = waiting;
                false
            }
            Err(cycle) => {
                self.fail(*row, cycle);
                true
            }
        }
    }

    /// Returns whether a future waits for another row. Continuations do not count: they run when the method that waits
    /// is done. (Futures beside do, for they run meanwhile.)
    #[cold]
    fn has_other_future(&self, row: u32) -> bool {
        let is_future = |wait: &PendingWait| !matches!(wait.state, RowState::Continuation(_));
        self.rows.iter().any(|(other, wait)| other != row as usize && is_future(wait))
    }

    /// The call of that row would have waited for itself, and has been withdrawn.
    #[cold]
    fn fail(&mut self, row: u32, cycle: Cycle) {
        if let Some(wait) = self.rows.get(row as usize) {
            let key = WaitKey { row, serial: wait.serial };
            // A row without a waker of its own.
            let _no_waker = self.answer_row(key, Err(CommandError::Call(CallError::Cycle(cycle))));
        }
    }

    /// At the end of a step: lets others know whether the process has messages in hand, or is in the middle of one, so
    /// that a drain waits for it. What it was asked to run beside its methods counts as that; the pump of a stream,
    /// which is a source of messages, and an entry that waits do not.
    #[inline]
    pub(crate) fn note_work(&mut self, in_method: bool) {
        let has_messages = !(self.inbox.is_empty() && self.aside.is_empty());
        let works =
            in_method || self.in_method || has_messages || self.beside.as_ref().is_some_and(|beside| beside.works());
        if works != self.works {
            self.works = works;
            if let Some((slot, _)) = self.owner {
                slot.note_work(works);
            }
        }
    }

    /// Returns whether a future runs beside the process's methods.
    fn has_beside(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| !beside.is_empty())
    }

    /// The process runs.
    #[inline]
    pub(crate) fn resume(&mut self) {
        self.waiting = None;
    }

    /// Returns whether there is more to see to than answers and messages.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        let ends = self.end.is_some() || self.end_after_shield.is_some();
        ends || self.wants_beside() || self.serve_waker.is_some()
    }

    /// Returns whether others see the process wait.
    #[inline]
    pub(crate) fn is_seen_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Answers the row when `due`.
    pub(crate) fn set_timer(&mut self, key: WaitKey, due: Moment) {
        let (Some((slot, generation)), Some(host)) = (self.owner, host()) else {
            return;
        };
        let tag = key.tag();
        let timer = host.set_timer(due, TimerAction::Complete { slot, generation, tag });
        if let Some(wait) = self.get(key) {
            wait.timer = timer;
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
        let timer = host.set_timer(due, TimerAction::Complete { slot, generation, tag: DEADLINES });
        self.armed = timer.map(|timer| (due, timer));
    }

    /// Cancels the timer that all deadlines share: the process ends.
    pub(crate) fn disarm(&mut self) {
        if let (Some((_, key)), Some(host)) = (self.armed.take(), host()) {
            host.timers.cancel(key);
        }
    }

    /// An answer has come. Returns a waker that the caller must wake.
    #[must_use = "the waker must be woken"]
    pub(crate) fn answer(&mut self, tag: u64, answer: CommandResult) -> Option<Waker> {
        self.answer_row(WaitKey::of(tag), answer)
    }

    fn answer_row(&mut self, key: WaitKey, answer: CommandResult) -> Option<Waker> {
        self.resume();
        self.polled = None;
        let wait = self.get(key)?;
        match &mut wait.state {
            RowState::Future(waker) => {
                let waker = waker.take();
                wait.state = RowState::Answered(answer);
                waker
            }
            // A row is answered once; what comes later is dropped.
            RowState::Answered(_) => None,
            RowState::Continuation(number) => {
                let number = *number;
                self.rows.remove(key.row as usize);
                self.ready.push_back((number, answer));
                None
            }
        }
    }

    /// Answers what is over its deadline, and arms the timer for what is not. Returns the wakers that the caller must
    /// wake.
    #[must_use = "the wakers must be woken"]
    pub(crate) fn expire(&mut self) -> Vec<Waker> {
        self.armed = None;
        let now = Moment::now();
        let late = |wait: &PendingWait| wait.deadline.is_some_and(|deadline| deadline <= now);
        let unanswered = |wait: &PendingWait| !matches!(wait.state, RowState::Answered(_));
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

    /// Looks for the answer to a future's row. A waker that is not the process's own is kept until it comes; the one
    /// before it is given back in its place, to be dropped when the table is not in use.
    pub(crate) fn poll(&mut self, key: WaitKey, waker: &mut Option<Waker>) -> Poll<Option<CommandResult>> {
        let Some(wait) = self.get(key) else {
            return Poll::Ready(None);
        };
        if let RowState::Future(kept) = &mut wait.state {
            std::mem::swap(kept, waker);
            return Poll::Pending;
        }
        match self.rows.remove(key.row as usize).state {
            RowState::Answered(answer) => Poll::Ready(Some(answer)),
            RowState::Future(_) | RowState::Continuation(_) => Poll::Ready(None),
        }
    }

    /// The same for a call.
    #[inline]
    pub(crate) fn poll_call(
        &mut self,
        key: WaitKey,
        waker: &mut Option<Waker>,
        called: &Option<Called>,
    ) -> Poll<Option<CommandResult>> {
        let is_own = waker.is_none();
        let poll = self.poll(key, waker);
        if poll.is_pending() {
            self.polled_call(key, if is_own { *called } else { None });
        }
        poll
    }

    /// A call was polled and is pending; `called` if it was polled with the process's own waker.
    #[inline]
    pub(crate) fn polled_call(&mut self, key: WaitKey, called: Option<Called>) {
        self.polled = called.map(|called| (key.row, called));
    }

    /// The future of a row is gone. Returns what is left of it, an answer or a waker, to be dropped when the table is
    /// not in use.
    pub(crate) fn forget(&mut self, key: WaitKey) -> Option<RowState> {
        self.get(key)?;
        self.polled = None;
        let wait = self.rows.remove(key.row as usize);
        if let Some(ticket) = wait.ticket {
            ticket.abandon();
        }
        if let (Some(timer), Some(host)) = (wait.timer, host()) {
            host.timers.cancel(timer);
        }
        Some(wait.state)
    }

    /// Keeps `future` to be polled beside the process's methods; its output goes to the continuation of that number.
    pub(crate) fn run_beside(&mut self, future: BoxedFuture, continuation: usize, acts: Acts) {
        self.beside.get_or_insert_default().add(self.owner, future, continuation, acts);
        self.new_beside = true;
    }

    /// Returns whether a future that runs beside has not been polled yet.
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

    /// Returns whether a future lives that may not be cut short.
    pub(crate) fn is_shielded(&self) -> bool {
        self.shields.as_ref().is_some_and(|shields| Arc::strong_count(shields) > 1)
    }

    /// The process is to end. Gives why it was to before, to be dropped when the table is not in use.
    #[must_use = "dropped when the table is not in use"]
    pub(crate) fn set_end(&mut self, reason: ExitReason) -> Option<ExitReason> {
        self.end.replace(reason)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.end.is_some() || (self.end_after_shield.is_some() && !self.is_shielded())
    }

    /// Why the process is to end now, if it is.
    pub(crate) fn take_end(&mut self) -> Option<ExitReason> {
        if self.end.is_none() && !self.is_shielded() {
            self.end = self.end_after_shield.take();
        }
        self.end.take()
    }

    pub(crate) fn has_something_to_serve(&self) -> bool {
        !(self.inbox.is_empty() && self.ready.is_empty() && self.signals.is_empty())
    }

    /// The next package that is in the mailbox no more, and the stream whose item has been handled by now.
    pub(crate) fn next_inbound(&mut self) -> (Option<Inbound>, Option<Arc<Attachment>>) {
        let handled = self.handling.take();
        // What was set aside was counted in another turn; what the mailbox gave in this one has been, an item of a
        // stream has not.
        let aside = self.aside.pop_front().inspect(|_| node_pool::spend(1));
        let next = aside.or_else(|| {
            let inbound = self.inbox.pop_front();
            inbound.inspect(|inbound| node_pool::spend(u32::from(inbound.from.is_some())))
        });
        (next, handled)
    }

    pub(crate) fn is_upgrading(&self) -> bool {
        self.upgrades.is_some()
    }

    /// The process is to upgrade when no method is at work.
    #[cold]
    pub(crate) fn ask_to_upgrade(&mut self, upgrade: Upgrade) {
        self.upgrades.get_or_insert_default().push_back(upgrade);
    }

    /// What the process is to upgrade to next.
    pub(crate) fn next_upgrade(&mut self) -> Option<Upgrade> {
        let upgrades = self.upgrades.as_mut()?;
        let next = upgrades.pop_front();
        if upgrades.is_empty() {
            self.upgrades = None;
        }
        next
    }

    pub(crate) fn wants_beside(&self) -> bool {
        self.new_beside || self.beside.as_ref().is_some_and(|beside| beside.wanted() > 0)
    }

    /// Returns whether there is more to see to than the messages in the mailbox. A row that waits is none of it.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_something_to_serve()
            || !self.aside.is_empty()
            || self.handling.is_some()
            || self.wants_beside()
            || self.is_upgrading()
            || self.end.is_some()
            || self.end_after_shield.is_some()
    }

    /// Returns whether the process waits for nothing and has nothing to do.
    pub(crate) fn is_at_rest(&self) -> bool {
        let nothing_waits = self.rows.is_empty() && !self.has_beside();
        nothing_waits
            && self.ready.is_empty()
            && self.signals.is_empty()
            && self.inbox.is_empty()
            && self.end.is_none()
            && !self.is_upgrading()
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
