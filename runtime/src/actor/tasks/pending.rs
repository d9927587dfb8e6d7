//! The waits of a process, and the rows that their answers return to.
//!
//! Every call, timer and command that a process awaits has a row in the process's table, under a tag that the answer
//! carries. The table belongs to the process's machine; see [`current`](crate::actor::tasks::current) for how a future
//! finds it.
//!
//! An answer stays in the node that brought it until its future takes the value out. If a process awaits only one
//! thing, the row is stored inline in the table (see [`rows`](super::rows)).
//!
//! All deadlines of calls share one timer, which is set for the earliest of them and set again when it fires: a
//! separate entry in the wheel for each call would cost more than the call.

use super::background::{Acts, BackgroundFutures, BoxedFuture};
use super::ending::Ending;
use super::inbox::ProcessInbox;
use super::rows::Rows;
use super::waker::{self, TableOwner};
use crate::call::{answer::AnswerNode, call_id::CallId, caller::Caller};
use crate::deadlock::edges::{self, CallWait};
use crate::deadlock::{foreign_wakers::is_lent, wait_graph::Edge, wait_graph::Incarnation};
use crate::engine::{context::own::runs, lifecycle::spawn::current_host};
use crate::env::clock::{Moment, TimerKey};
use crate::util::panics::Drops;
use crate::{CallError, CommandError, Payload, errors::Cycle, process::handover::Upgrade, time::timers::TimerAction};
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
    serial: u32,
    /// The due time and the key of the shared timer.
    pub(crate) armed: Option<(Moment, TimerKey)>,
    /// A `Slab<Continuation<P>>`, once there is one.
    pub(crate) continuations: Option<Box<dyn Any + Send>>,
    pub(crate) ready: VecDeque<(usize, CommandResult)>,
    /// Allocated on first use.
    pub(crate) background: Option<Box<BackgroundFutures>>,
    /// Whether a background future has not been polled yet.
    pub(crate) new_background: bool,
    pub(crate) inbox: ProcessInbox,
    /// Whether the slot shows the process as working on messages: see [`note_work`](Self::note_work).
    works: bool,
    pub(crate) ending: Ending,
    /// The requested upgrades. The queue is never empty: without upgrades this is `None`.
    #[expect(clippy::box_collection, reason = "nearly always none, and one word then")]
    upgrades: Option<Box<VecDeque<Upgrade>>>,
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
    /// machine driven by hand, because such a machine receives no answers. `is_own`: whether the call is polled with
    /// the process's own waker.
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

    /// Records that it is unknown which process a call waits for.
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

    /// Returns the process's edge in the wait graph. The edge is looked up only once.
    #[inline(always)]
    fn own_edge(&mut self) -> Option<&'static Edge> {
        if self.edge.is_none() {
            self.edge = edges::own_edge(self.incarnation);
        }
        self.edge
    }

    /// Returns whether a future waits for another row. Continuations do not count, because they run only after the
    /// waiting method has returned. Background futures do count, because they run in the meantime.
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

    /// Called at the end of a step: publishes whether the process has taken messages that it has not handled, so that a
    /// drain waits for it. Background futures started by its methods count. Waiting entries do not, nor do the pumps of
    /// streams, which are sources of messages.
    #[inline]
    pub(crate) fn note_work(&mut self, in_method: bool) {
        let has_messages = self.inbox.has_messages();
        let works = in_method
            || self.inbox.in_method
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
        self.ending.will_end() || self.wants_background() || self.inbox.waker.is_some()
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

    /// Answers a row that [`answer_own`](Self::answer_own) refuses.
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

    pub(crate) fn has_something_to_serve(&self) -> bool {
        !(self.inbox.messages.is_empty() && self.ready.is_empty() && self.inbox.signals.is_empty())
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
        !(self.ready.is_empty() && self.inbox.signals.is_empty())
            || self.upgrades.is_some()
            || self.inbox.waker.is_some()
            || self.ending.has_values()
    }

    /// Takes the values that [`has_rest`](Self::has_rest) reports; the returned closure drops them one by one.
    pub(crate) fn take_rest(&mut self) -> impl FnOnce(&mut Drops) + use<> {
        let (ready, signals, upgrades) =
            (std::mem::take(&mut self.ready), std::mem::take(&mut self.inbox.signals), self.upgrades.take());
        let (waker, ends) = (self.inbox.waker.take(), self.ending.take_values());
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
            || !self.inbox.stash.is_empty()
            || self.inbox.handling.is_some()
            || self.wants_background()
            || self.is_upgrading()
            || self.ending.will_end()
    }

    /// Returns true if the process waits for nothing and has no work.
    pub(crate) fn is_at_rest(&self) -> bool {
        let nothing_waits = self.rows.is_empty() && !self.has_background();
        nothing_waits && !self.has_something_to_serve() && !self.ending.ends_now() && !self.is_upgrading()
    }
}
