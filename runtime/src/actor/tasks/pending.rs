//! The waits of a process, and the rows that their answers return to.
//!
//! Every call, timer and command that a process awaits is a row of its table, under a tag that the answer carries.
//! The table belongs to the process's machine; see [`current`](crate::actor::tasks::current) for how a future finds
//! it.
//!
//! An answer stays in the node that brought it until its future takes the value out. If a process awaits only one
//! thing, the row is stored inline in the table (see [`rows`](super::rows)).
//!
//! All deadlines of calls share one timer, which is set for the earliest of them and set again when it fires: a
//! separate entry in the wheel for each call would cost more than the call.

use super::attachment::{Attachment, StashedMessage};
use super::background::{Acts, BackgroundFutures, BoxedFuture};
use super::rows::Rows;
use super::waker::{self, TableOwner};
use crate::call::{answer::AnswerNode, call_id::CallId, caller::Caller};
use crate::deadlock::edges::{self, CallWait};
use crate::deadlock::{foreign_wakers::is_lent, wait_graph::Edge, wait_graph::Incarnation};
use crate::engine::{context::own::runs, lifecycle::spawn::current_host};
use crate::env::clock::{Moment, TimerKey};
use crate::sync::{Arc, Mutex, lock};
use crate::util::panics::Drops;
use crate::{
    CallError, CommandError, ExitReason, Payload, Signal, errors::Cycle, mailbox::node_pool,
    process::handover::Upgrade, time::timers::TimerAction,
};
use std::task::{Poll, Waker};
use std::{any::Any, collections::VecDeque};

pub(crate) type CommandResult = Result<Payload, CommandError>;

/// The tag of the timer that all deadlines of a process share.
pub(crate) const DEADLINES: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitKey {
    row: u32,
    serial: u32,
}

impl WaitKey {
    pub(crate) fn tag(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.row)
    }

    pub(crate) fn of(tag: u64) -> Self {
        Self { row: tag as u32, serial: (tag >> 32) as u32 }
    }
}

pub(crate) struct PendingWait {
    serial: u32,
    state: RowState,
    deadline: Option<Moment>,
    ticket: Option<CallId>,
    /// The called process and method, if a future awaits the answer and the process belongs to this program.
    called: Option<(Incarnation, &'static str)>,
    timer: Option<TimerKey>,
}

impl PendingWait {
    pub(crate) fn cancel(&self) {
        if let Some(ticket) = &self.ticket {
            ticket.abandon();
        }
        if let (Some(timer), Some(host)) = (self.timer, current_host()) {
            host.timers.cancel(timer);
        }
    }
}

pub(crate) enum RowState {
    /// A future waits; holds its waker, unless that is the process's own.
    Future(Option<Waker>),
    /// The answer has arrived; the future has not been polled since.
    Answered(AnswerNode),
    /// The continuation with this index runs with the answer.
    Continuation(usize),
}

#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) owner: TableOwner,
    /// The owning incarnation, packed in a word.
    pub(crate) incarnation: Incarnation,
    pub(crate) rows: Rows<PendingWait>,
    pub(crate) serial: u32,
    /// The due time and the key of the shared timer.
    pub(crate) armed: Option<(Moment, TimerKey)>,
    /// A `Slab<Continuation<P>>`, once there is one.
    pub(crate) continuations: Option<Box<dyn Any + Send>>,
    pub(crate) ready: VecDeque<(usize, CommandResult)>,
    /// Allocated on first use, as are the shields.
    pub(crate) background: Option<Box<BackgroundFutures>>,
    /// Messages to be handled before those in the mailbox: messages that were taken out of the mailbox, items of
    /// attached streams, and results that arrived after an upgrade.
    pub(crate) inbox: VecDeque<StashedMessage>,
    /// Signals that have arrived and have not been handled.
    pub(crate) signals: VecDeque<Signal>,
    /// Whether a future waits for the next message. `serve_waker` is its waker, unless that is the process's own.
    pub(crate) wants_message: bool,
    pub(crate) serve_waker: Option<Waker>,
    /// Whether the mailbox was empty when it was last checked.
    pub(crate) seen_empty: bool,
    /// Whether a background future has not been polled yet.
    pub(crate) new_background: bool,
    pub(crate) stash: VecDeque<StashedMessage>,
    pub(crate) handling: Option<Arc<Attachment>>,
    /// Whether an async entry awaits an async method that is handling a message.
    pub(crate) in_method: bool,
    /// Whether the slot shows the process as working on messages: see [`note_work`](Self::note_work).
    works: bool,
    pub(crate) cancelled: Option<ExitReason>,
    /// Futures that wait for a request to end, and requests with which no future has completed.
    pub(crate) cancel_waits: Vec<Arc<CancelWait>>,
    /// Cloned by each shielded future, which a cancellation must not cut short.
    pub(crate) shields: Option<Arc<()>>,
    /// The requested upgrades; never empty.
    #[expect(clippy::box_collection, reason = "nearly always none, and one word then")]
    upgrades: Option<Box<VecDeque<Upgrade>>>,
    pub(crate) end: Option<ExitReason>,
    /// The reason to end with after the last shielded future.
    pub(crate) end_after_shield: Option<ExitReason>,
    /// The row of the last polled call, if it is pending and was polled with the process's own waker.
    polled: Option<u32>,
    /// Published while the process waits for the answer to one call and nothing else.
    pub(crate) waiting: Option<CallWait>,
    /// The process's edge in the wait graph, once it has been looked up.
    edge: Option<&'static Edge>,
}

impl Waits {
    #[cold]
    pub(crate) fn of(incarnation: u64) -> Box<Self> {
        Box::new(Self { owner: waker::owner_of(incarnation), incarnation, ..Self::default() })
    }

    #[inline]
    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        if self.serial == u32::MAX {
            // `u32::MAX` is skipped: a tag with it could be mistaken for `DEADLINES`.
            self.serial = 1;
        }
        self.serial
    }

    pub(crate) fn add(&mut self, state: RowState) -> WaitKey {
        let serial = self.next_serial();
        let wait = PendingWait { serial, state, deadline: None, ticket: None, called: None, timer: None };
        WaitKey { row: self.rows.insert(wait), serial }
    }

    /// Adds a row for a call that waits until `deadline`; `called` is the process and the method. Returns `None` in a
    /// machine driven by hand, which receives no answers. `is_own`: whether the call is polled with the process's own
    /// waker.
    #[inline(always)]
    pub(crate) fn add_call(
        &mut self,
        deadline: Option<Moment>,
        called: Option<(Incarnation, &'static str)>,
        is_own: bool,
    ) -> Option<(WaitKey, Caller)> {
        let (slot, generation) = self.owner?;
        let serial = self.next_serial();
        let (row, caller) = self.rows.insert_with(|row| {
            let tag = WaitKey { row, serial }.tag();
            let (caller, ticket) = Caller::process(slot, generation, tag, deadline);
            let state = RowState::Future(None);
            (PendingWait { serial, state, deadline, ticket: Some(ticket), called, timer: None }, caller)
        });
        let key = WaitKey { row, serial };
        if let Some(deadline) = deadline {
            self.arm(deadline);
        }
        if is_own {
            self.polled = Some(key.row);
        }
        Some((key, caller))
    }

    /// Records that the process that a call waits for is unknown.
    #[cold]
    pub(crate) fn forget_called(&mut self, key: WaitKey) {
        if let Some(wait) = self.get(key) {
            wait.called = None;
        }
    }

    #[inline(always)]
    fn get(&mut self, key: WaitKey) -> Option<&mut PendingWait> {
        self.rows.get_mut(key.row).filter(|wait| wait.serial == key.serial)
    }

    /// Creates the caller through which the row is answered; the answer must arrive before `deadline`.
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

    /// Called when the process is about to be suspended. If only the answer to one call can resume the process,
    /// publishes that wait. Returns true if the wait would have closed a cycle: the call has then failed, and its
    /// future must be polled again.
    #[inline(always)]
    pub(crate) fn suspend(&mut self) -> bool {
        // User code may drive several machines with this incarnation by hand, on any thread.
        self.owner.is_some_and(|(slot, generation)| runs(slot, generation)) && self.suspend_running()
    }

    /// Like [`suspend`](Self::suspend), in a step that the scheduler itself runs.
    #[inline(always)]
    pub(crate) fn suspend_running(&mut self) -> bool {
        let (Some(row), Some((slot, _))) = (self.polled, self.owner) else {
            return false;
        };
        if self.has_background() || (self.rows.has_others_than(row) && self.has_other_future(row)) {
            return false;
        }
        let Some(wait) = self.rows.get_mut(row) else { return false };
        let (Some(ticket), Some((on, method))) = (wait.ticket, wait.called) else { return false };
        // The order of the two checks matters: see `foreign_wakers`.
        if is_lent(self.incarnation) || slot.lanes.has_control() {
            return false;
        }
        let Some(edge) = self.own_edge() else { return false };
        match edges::wait_at(edge, self.incarnation, on, method, ticket, false) {
            Ok(waiting) => {
                self.waiting = Some(waiting);
                false
            }
            Err(cycle) => {
                self.fail(row, cycle);
                true
            }
        }
    }

    /// Returns the process's edge in the wait graph, which is looked up only once.
    #[inline(always)]
    fn own_edge(&mut self) -> Option<&'static Edge> {
        if self.edge.is_none() {
            self.edge = edges::own_edge(self.incarnation);
        }
        self.edge
    }

    /// Returns whether a future waits for another row. Continuations do not count, because they run only after the
    /// waiting method has returned. Background futures do count, because they run meanwhile.
    #[cold]
    fn has_other_future(&self, row: u32) -> bool {
        let is_future = |wait: &PendingWait| !matches!(wait.state, RowState::Continuation(_));
        self.rows.iter().any(|(other, wait)| other != row && is_future(wait))
    }

    /// Answers the row of a call that was withdrawn because it would have closed a cycle.
    #[cold]
    fn fail(&mut self, row: u32, cycle: Cycle) {
        if let Some(wait) = self.rows.get_mut(row) {
            let key = WaitKey { row, serial: wait.serial };
            // The row holds no foreign waker.
            let _no_waker = self.answer(key, AnswerNode::of(Err(CommandError::Call(CallError::Cycle(cycle)))));
        }
    }

    /// Called at the end of a step: publishes whether the process has taken messages that it has not handled, so that
    /// a drain waits for it. Background futures started by its methods count; entries that wait, and the pumps of
    /// streams, which are sources of messages, do not.
    #[inline]
    pub(crate) fn note_work(&mut self, in_method: bool) {
        let has_messages = !(self.inbox.is_empty() && self.stash.is_empty());
        let works = in_method
            || self.in_method
            || has_messages
            || self.background.as_ref().is_some_and(|background| background.works());
        if works != self.works {
            self.works = works;
            if let Some((slot, _)) = self.owner {
                slot.note_work(works);
            }
        }
    }

    fn has_background(&self) -> bool {
        self.background.as_ref().is_some_and(|background| !background.is_empty())
    }

    /// Returns whether a poll needs more than answers and messages.
    #[inline(always)]
    pub(crate) fn is_special(&self) -> bool {
        let ends = self.end.is_some() || self.end_after_shield.is_some();
        ends || self.wants_background() || self.serve_waker.is_some()
    }

    /// Sets a timer that answers the row at `due`.
    pub(crate) fn set_timer(&mut self, key: WaitKey, due: Moment) {
        let (Some((slot, generation)), Some(host)) = (self.owner, current_host()) else {
            return;
        };
        let tag = key.tag();
        let timer = host.set_timer(due, TimerAction::Complete { slot, generation, tag });
        if let Some(wait) = self.get(key) {
            wait.timer = timer;
        }
    }

    /// Ensures that the shared timer fires at `due` or earlier. Usually it already does: of several calls with the
    /// same timeout, the first has the earliest deadline, and the timer stays set when that call is answered.
    #[inline(always)]
    fn arm(&mut self, due: Moment) {
        if self.armed.is_none_or(|(armed, _)| due < armed) {
            self.arm_anew(due);
        }
    }

    #[cold]
    #[inline(never)]
    fn arm_anew(&mut self, due: Moment) {
        let Some(host) = current_host() else { return };
        self.disarm();
        let Some((slot, generation)) = self.owner else { return };
        let timer = host.set_timer(due, TimerAction::Complete { slot, generation, tag: DEADLINES });
        self.armed = timer.map(|timer| (due, timer));
    }

    pub(crate) fn disarm(&mut self) {
        if let (Some((_, key)), Some(host)) = (self.armed.take(), current_host()) {
            host.timers.cancel(key);
        }
    }

    /// Answers the row of a future that waits with the process's own waker. Runs no user destructor.
    ///
    /// # Errors
    /// The answer, if the row is of another kind or no longer exists.
    #[inline(always)]
    pub(crate) fn answer_own(&mut self, key: WaitKey, answer: AnswerNode) -> Result<(), AnswerNode> {
        match self.get(key) {
            Some(wait) if matches!(wait.state, RowState::Future(None)) => {
                // The old state needs no drop.
                std::mem::forget(std::mem::replace(&mut wait.state, RowState::Answered(answer)));
                (self.waiting, self.polled) = (None, None);
                Ok(())
            }
            _ => Err(answer),
        }
    }

    #[must_use = "the waker must be woken"]
    pub(crate) fn answer(&mut self, key: WaitKey, answer: AnswerNode) -> Option<Waker> {
        (self.waiting, self.polled) = (None, None);
        let answer = self.answer_own(key, answer).err()?;
        self.answer_another(key, answer)
    }

    /// Answers a row other than that of a future with the process's own waker.
    #[cold]
    #[inline(never)]
    fn answer_another(&mut self, key: WaitKey, answer: AnswerNode) -> Option<Waker> {
        let wait = self.get(key)?;
        match &mut wait.state {
            RowState::Future(waker) => {
                let waker = waker.take();
                wait.state = RowState::Answered(answer);
                waker
            }
            // A row is answered once; later answers are dropped.
            RowState::Answered(_) => None,
            RowState::Continuation(number) => {
                let number = *number;
                self.rows.remove(key.row);
                self.ready.push_back((number, answer.into_result()));
                None
            }
        }
    }

    /// Answers the rows whose deadline has passed, and sets the timer for the next deadline. Returns the wakers to
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
            .map(|(row, wait)| WaitKey { row, serial: wait.serial })
            .collect();
        let mut wakers = Vec::new();
        for key in expired {
            if let Some(wait) = self.get(key) {
                wait.deadline = None;
                if let Some(ticket) = wait.ticket.take() {
                    ticket.abandon();
                }
            }
            wakers.extend(self.answer(key, AnswerNode::of(Err(CommandError::Call(CallError::Timeout)))));
        }
        let next = self.rows.iter().filter(|(_, wait)| unanswered(wait)).filter_map(|(_, wait)| wait.deadline).min();
        if let Some(next) = next {
            self.arm(next);
        }
        wakers
    }

    /// Takes the answer out of a row that has one.
    #[inline(always)]
    pub(crate) fn take_answer(&mut self, key: WaitKey) -> Option<AnswerNode> {
        let wait = self.get(key)?;
        if !matches!(wait.state, RowState::Answered(_)) {
            return None;
        }
        match self.rows.remove(key.row)?.state {
            RowState::Answered(answer) => Some(answer),
            RowState::Future(_) | RowState::Continuation(_) => None,
        }
    }

    /// Polls a row. A foreign waker is stored until the answer arrives; the previous waker is returned in its place,
    /// to be dropped after the table is released.
    pub(crate) fn poll(&mut self, key: WaitKey, waker: &mut Option<Waker>) -> Poll<Option<AnswerNode>> {
        let Some(wait) = self.get(key) else { return Poll::Ready(None) };
        if let RowState::Future(kept) = &mut wait.state {
            std::mem::swap(kept, waker);
            return Poll::Pending;
        }
        Poll::Ready(self.take_answer(key))
    }

    /// Polls the row of a call.
    pub(crate) fn poll_call(&mut self, key: WaitKey, waker: &mut Option<Waker>) -> Poll<Option<AnswerNode>> {
        let is_own = waker.is_none();
        let poll = self.poll(key, waker);
        if poll.is_pending() {
            self.polled = is_own.then_some(key.row);
        }
        poll
    }

    /// Removes the row of a dropped future. Returns its answer or waker, to be dropped after the table is released.
    pub(crate) fn forget(&mut self, key: WaitKey) -> Option<RowState> {
        self.get(key)?;
        self.polled = None;
        let wait = self.rows.remove(key.row)?;
        wait.cancel();
        Some(wait.state)
    }

    pub(crate) fn run_in_background(&mut self, future: BoxedFuture, continuation: usize, acts: Acts) {
        self.background.get_or_insert_default().add(self.incarnation, future, continuation, acts);
        self.new_background = true;
    }

    pub(crate) fn add_cancel_wait(&mut self, wait: &Arc<CancelWait>) {
        // Finished waits are removed whenever the list would grow.
        if self.cancel_waits.len() == self.cancel_waits.capacity() {
            self.cancel_waits.retain(|wait| !wait.is_over());
        }
        self.cancel_waits.push(wait.clone());
    }

    /// Passes a request to end to the futures that wait for one, and returns their wakers; `None` if no future waits.
    /// Also returns an earlier request that this one replaces, to be dropped after the table is released.
    ///
    /// Each request completes each of these futures once. A future may be dropped after it was given a request and
    /// before it has completed with it, when another branch of a `select!` was ready too: the request then remains
    /// for the next future.
    pub(crate) fn give_request(&mut self, reason: &ExitReason) -> Option<(Vec<Waker>, Option<Arc<CancelWait>>)> {
        let (mut is_awaited, mut is_given, mut wakers) = (false, false, Vec::new());
        for wait in &self.cancel_waits {
            let is_held = Arc::strong_count(wait) > 1;
            match &mut *lock(&wait.0) {
                state @ CancelState::Waits(_) if is_held => {
                    let CancelState::Waits(waker) = std::mem::replace(state, CancelState::Given(reason.clone())) else {
                        continue;
                    };
                    wakers.extend(waker);
                    (is_awaited, is_given) = (true, true);
                }
                // This future is about to complete with an earlier request.
                CancelState::Given(_) if is_held => is_awaited = true,
                _ => {}
            }
        }
        let before = if is_awaited && !is_given { self.leave_request(reason.clone()) } else { None };
        is_awaited.then_some((wakers, before))
    }

    /// Stores a request for the next future that waits for one, at the end of the list: the latest request counts.
    /// Returns the stored request that it replaces.
    pub(crate) fn leave_request(&mut self, reason: ExitReason) -> Option<Arc<CancelWait>> {
        let before = self.cancel_waits.iter().rposition(CancelWait::is_left);
        let before = before.map(|at| self.cancel_waits.remove(at));
        self.cancel_waits.push(Arc::new(CancelWait(Mutex::new(CancelState::Given(reason)))));
        before
    }

    /// Takes the requests with which no future has completed or will complete; the last of them is the latest. A
    /// request that arrived while a future was shielded is thereby reported, so it must not end the process after the
    /// shield: its reason is taken too, and is not set at all if a future was already waiting for the request. The
    /// result must be dropped after the table is released.
    pub(crate) fn take_left_requests(&mut self) -> (Vec<Arc<CancelWait>>, Option<ExitReason>) {
        let left: Vec<_> = self.cancel_waits.extract_if(.., |wait| CancelWait::is_left(wait)).collect();
        let is_told = !left.is_empty() && self.is_shielded();
        (left, self.end_after_shield.take_if(|_| is_told))
    }

    /// Returns the guard of a shielded future, which must not be cut short.
    pub(crate) fn shield(&mut self) -> Arc<()> {
        self.shields.get_or_insert_default().clone()
    }

    pub(crate) fn is_shielded(&self) -> bool {
        self.shields.as_ref().is_some_and(|shields| Arc::strong_count(shields) > 1)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.end.is_some() || (self.end_after_shield.is_some() && !self.is_shielded())
    }

    pub(crate) fn take_end(&mut self) -> Option<ExitReason> {
        if self.end.is_none() && !self.is_shielded() {
            self.end = self.end_after_shield.take();
        }
        self.end.take()
    }

    pub(crate) fn has_something_to_serve(&self) -> bool {
        !(self.inbox.is_empty() && self.ready.is_empty() && self.signals.is_empty())
    }

    /// Takes the next message outside of the mailbox, and the stream whose previous item has now been handled.
    pub(crate) fn next_stashed(&mut self) -> (Option<StashedMessage>, Option<Arc<Attachment>>) {
        let handled = self.handling.take();
        // Stashed messages and stream items are charged to the budget here; messages from the mailbox were charged
        // when taken.
        let aside = self.stash.pop_front().inspect(|_| node_pool::spend(1));
        let next = aside.or_else(|| {
            let stashed = self.inbox.pop_front();
            stashed.inspect(|stashed| node_pool::spend(u32::from(stashed.from.is_some())))
        });
        (next, handled)
    }

    pub(crate) fn is_upgrading(&self) -> bool {
        self.upgrades.is_some()
    }

    #[cold]
    pub(crate) fn ask_to_upgrade(&mut self, upgrade: Upgrade) {
        self.upgrades.get_or_insert_default().push_back(upgrade);
    }

    pub(crate) fn next_upgrade(&mut self) -> Option<Upgrade> {
        let upgrades = self.upgrades.as_mut()?;
        let next = upgrades.pop_front();
        if upgrades.is_empty() {
            self.upgrades = None;
        }
        next
    }

    /// Returns whether the table of an ended process still holds user values, apart from those in its rows, its
    /// futures and its messages.
    pub(crate) fn has_rest(&self) -> bool {
        let ends = [&self.cancelled, &self.end, &self.end_after_shield];
        !(self.ready.is_empty() && self.signals.is_empty())
            || self.upgrades.is_some()
            || self.serve_waker.is_some()
            || ends.iter().any(|end| end.is_some())
    }

    /// Takes the values that [`has_rest`](Self::has_rest) reports; the result drops each of them separately.
    pub(crate) fn take_rest(&mut self) -> impl FnOnce(&mut Drops) + use<> {
        let (ready, signals, upgrades) =
            (std::mem::take(&mut self.ready), std::mem::take(&mut self.signals), self.upgrades.take());
        let (waker, ends) =
            (self.serve_waker.take(), [self.cancelled.take(), self.end.take(), self.end_after_shield.take()]);
        move |drops| {
            drops.drop_each(ready);
            drops.drop_each(signals);
            drops.drop_each(upgrades.into_iter().flat_map(|upgrades| *upgrades));
            drops.drop_each(waker);
            drops.drop_each(ends.into_iter().flatten());
        }
    }

    #[inline]
    pub(crate) fn wants_background(&self) -> bool {
        self.new_background || self.background.as_ref().is_some_and(|background| background.wanted() > 0)
    }

    /// Returns whether there is work besides the mailbox. Waiting rows are not work.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.has_something_to_serve()
            || !self.stash.is_empty()
            || self.handling.is_some()
            || self.wants_background()
            || self.is_upgrading()
            || self.end.is_some()
            || self.end_after_shield.is_some()
    }

    /// Returns whether the process waits for nothing and has no work.
    pub(crate) fn is_at_rest(&self) -> bool {
        let nothing_waits = self.rows.is_empty() && !self.has_background();
        nothing_waits && !self.has_something_to_serve() && self.end.is_none() && !self.is_upgrading()
    }
}

/// A wait for a request to end, shared by the table of the process and the future, which may be dropped on any
/// thread.
pub(crate) struct CancelWait(Mutex<CancelState>);

enum CancelState {
    /// No request yet; holds the waker of the future once that has been polled.
    Waits(Option<Waker>),
    /// A request with which the future has not completed.
    Given(ExitReason),
    /// The future has completed, or was dropped before it was given a request.
    Over,
}

impl Default for CancelWait {
    fn default() -> Self {
        Self(Mutex::new(CancelState::Waits(None)))
    }
}

impl CancelWait {
    /// Returns whether this holds a request with which no future will complete.
    fn is_left(wait: &Arc<Self>) -> bool {
        Arc::strong_count(wait) == 1 && matches!(*lock(&wait.0), CancelState::Given(_))
    }

    fn is_over(&self) -> bool {
        matches!(*lock(&self.0), CancelState::Over)
    }

    /// Returns the request, if there is one; otherwise stores the waker.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<ExitReason> {
        let waker = waker.clone();
        let mut state = lock(&self.0);
        let next = if let CancelState::Given(_) = *state { CancelState::Over } else { CancelState::Waits(Some(waker)) };
        let before = std::mem::replace(&mut *state, next);
        drop(state);
        // A previous waker is dropped outside the lock.
        if let CancelState::Given(reason) = before { Poll::Ready(reason) } else { Poll::Pending }
    }

    /// Called when the future is dropped. A request that it was already given remains.
    pub(crate) fn leave(&self) {
        let mut state = lock(&self.0);
        let before = match *state {
            CancelState::Waits(_) => std::mem::replace(&mut *state, CancelState::Over),
            _ => CancelState::Over,
        };
        drop(state);
        drop(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_requests_that_are_left_the_latest_is_last_and_they_do_not_pile_up() {
        let mut waits = Waits::default();
        let dropped = Arc::new(CancelWait::default());
        waits.add_cancel_wait(&dropped);
        assert!(waits.leave_request("one".into()).is_none());
        assert!(waits.give_request(&"two".into()).is_some());
        drop(dropped);
        for reason in ["three", "four", "five"] {
            assert!(waits.leave_request(reason.into()).is_some());
        }
        let (left, _) = waits.take_left_requests();
        assert_eq!(left.len(), 2);
        let Some(Poll::Ready(latest)) = left.last().map(|wait| wait.poll(Waker::noop())) else { panic!("one is left") };
        assert_eq!(latest, ExitReason::from("five"));
    }
}
