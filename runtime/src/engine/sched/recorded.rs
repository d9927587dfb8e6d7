//! The run loop of a thread whose host is recorded: the copy of it that the attention byte leads to.

use super::run_loop::Next;
use super::spare::Rest;
use super::step::StepScratch;
use crate::engine::context::local::ThreadContext;
use crate::engine::host::Scheduler;
use crate::engine::permits::holders::At;
use crate::engine::workers::pinned::PinnedThread;
use crate::engine::workers::worker::RECORDED;
use crate::env::clock::Moment;
use crate::pid::incarnation;
use crate::recorder::kind::RecordKind;
use crate::recorder::track::forget_old_tracks;
use crate::slots::Token;
use crate::sync::{Ordering, yield_now};
use std::time::Duration;

/// How long the beginning of a recording waits for threads between two steps. They are there for microseconds, unless
/// the system runs others, or a task of the reactor takes long.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

impl ThreadContext {
    /// Returns what to do next if the host is recorded: called when the attention byte is not zero.
    pub(super) fn next_recorded(&self) -> Option<Next> {
        if !self.is_recorded() {
            return None;
        }
        Some(match self.take_near() {
            Some(token) => Next::Recorded(token),
            None => self.search(self.host.idle.start_searching()),
        })
    }

    /// Has the turn of the process recorded that runs next, if the host is.
    pub(super) fn recorded(&self, next: Next) -> Next {
        match next {
            Next::Run(token) | Next::RunTimed(token) if self.is_recorded() => Next::Recorded(token),
            other => other,
        }
    }

    /// Returns whether the host is recorded. Gives the thread's ring back if it was, and is no more.
    fn is_recorded(&self) -> bool {
        if !self.thread.is_recorded() {
            return false;
        }
        let session = self.host.recorder.current();
        if self.thread.recorded_in.load(Ordering::Relaxed) != session {
            self.thread.recorded_in.store(session, Ordering::SeqCst);
        }
        if session != 0 {
            return true;
        }
        self.thread.is_recorded_no_more();
        forget_old_tracks();
        if !self.host.recorder.is_on() {
            return false;
        }
        // Another recording has begun, perhaps before the bit was cleared.
        self.thread.call(RECORDED);
        true
    }

    #[cold]
    #[inline(never)]
    pub(super) fn run_recorded_slice(&self, scratch: &mut StepScratch, token: Token) {
        self.begin_recorded_turn(scratch, &token);
        match scratch.input.recorder() {
            None => self.run_slice(scratch, token),
            Some(_) if self.thread.take_request_for_time() => self.run_timed(scratch, token),
            Some(_) => self.run_slice_with::<true>(scratch, token),
        }
        self.end_recorded_turn(scratch);
    }

    /// Records the beginning of a turn, if the host is recorded.
    pub(super) fn begin_recorded_turn(&self, scratch: &mut StepScratch, token: &Token) {
        if !self.is_recorded() {
            return;
        }
        let (recorder, slot) = (&self.host.recorder, token.slot());
        let name = slot.metadata.kind().map(|kind| &kind.name);
        let process = incarnation(slot.index(), token.generation());
        // Not when the last turn ended, though the thread has done nothing since: what woke the process may have been
        // sent after that.
        let stamp = recorder.note(RecordKind::Turn, process, 0, name);
        scratch.input.record(Some(recorder), stamp);
        scratch.begin_turn(slot);
    }

    /// Records the end of a turn whose beginning was recorded.
    #[cold]
    #[inline(never)]
    pub(super) fn end_recorded_turn(&self, scratch: &mut StepScratch) {
        if let Some(recorder) = scratch.input.record(None, 0) {
            let turn = scratch.take_turn();
            recorder.note(RecordKind::TurnEnd, 0, turn, None);
        }
    }

    /// Parks the thread, and records that.
    pub(super) fn park_recorded(&self, rest: &Rest) {
        let is_recorded = self.is_recorded();
        if is_recorded {
            self.host.recorder.note(RecordKind::Park, 0, 0, None);
        }
        self.park(rest);
        if is_recorded && self.is_recorded() {
            self.host.recorder.note(RecordKind::Wake, 0, 0, None);
        }
    }

    #[cold]
    pub(super) fn record_theft(&self, victim: usize, count: u64) {
        if self.is_recorded() {
            self.host.recorder.note(RecordKind::Steal, victim as u64, count, None);
        }
    }
}

impl Scheduler {
    /// Has all threads record, and then all sends. Threads that begin later do from their start.
    pub(crate) fn arm_recorder(&'static self) {
        self.observe_recorded(true);
        for (_, worker) in self.threads.first(usize::MAX) {
            worker.call(RECORDED);
        }
        self.pinned_threads.all().into_iter().for_each(|pinned| pinned.thread.call(RECORDED));
        self.await_recorded();
        self.slot_owner().record_sends(true);
        for pinned_thread in self.pinned_threads.all() {
            // One that has begun meanwhile.
            pinned_thread.thread.call(RECORDED);
            pinned_thread.slot_owner().record_sends(true);
        }
    }

    /// Waits until all threads that are between two steps have seen that they are recorded: else one that has looked
    /// just before would run the next turn without that. A thread in a step is not waited for.
    fn await_recorded(&'static self) {
        #[cfg(feature = "test")]
        if crate::sync::simulated::is_here() {
            return;
        }
        let session = self.recorder.current();
        let until = Moment::now_by(None).after(LONGEST_WAIT);
        for (number, worker) in self.threads_in_use() {
            let has_seen = || worker.recorded_in.load(Ordering::SeqCst) == session;
            let is_between = || matches!(self.idle.at(number), At::Up(_)) && worker.running().is_none();
            while !has_seen() && is_between() && Moment::now_by(None) < until {
                yield_now();
            }
        }
    }

    /// Ends the recording of sends, and has the threads give their rings back.
    pub(crate) fn disarm_recorder(&'static self) {
        self.slot_owner().record_sends(false);
        self.pinned_threads.all().into_iter().for_each(|pinned| pinned.slot_owner().record_sends(false));
        self.observe_recorded(false);
        self.threads.first(usize::MAX).for_each(|(_, worker)| worker.unpark());
        self.pinned_threads.all().into_iter().for_each(PinnedThread::nudge);
    }
}
