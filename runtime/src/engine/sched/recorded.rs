//! The run loop of a thread whose host is being recorded: a variant that is entered through the attention word. It runs
//! [recorded time slices](crate::engine::slice::recorded).

use super::run_loop::Next;
use super::spare::Rest;
use crate::engine::context::thread::ThreadContext;
use crate::engine::host::Scheduler;
use crate::engine::permits::holders::At;
use crate::engine::workers::pinned::PinnedThread;
use crate::engine::workers::worker::RECORDED;
use crate::env::clock::Moment;
use crate::recorder::kind::RecordKind;
use crate::recorder::recording::SLICE_OVER;
use crate::recorder::session::Session;
use crate::recorder::track::forget_old_tracks;
use crate::sync::{Arc, Ordering, yield_now};
use std::time::Duration;

/// How long the start of a recording waits for threads that are between two steps. They stay between two steps for
/// microseconds, unless the system runs other threads instead, or a task of the reactor takes a long time.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// How long the start of a sample waits for such threads if it is one of many.
const SAMPLE_WAIT: Duration = Duration::from_millis(1);

impl ThreadContext {
    /// Returns the next action if the host is recorded. Called when the attention word is not zero.
    pub(super) fn next_recorded(&self) -> Option<Next> {
        if !self.is_recorded() {
            self.write_slice_end();
            return None;
        }
        Some(match self.take_near() {
            Some(token) => Next::Recorded(token),
            None => {
                self.write_slice_end();
                self.search(self.host.idle.start_searching())
            }
        })
    }

    /// Records the end of the last slice if the thread will do something time-consuming before the next slice.
    pub(super) fn write_slice_end_unless_at_once(&self) {
        if self.slice_end.get() != 0
            && (self.thread.has_more_to_see() || self.is_fairness_due() || self.pinned_thread.is_some())
        {
            self.write_slice_end();
        }
    }

    pub(crate) fn write_slice_end(&self) {
        let end = self.slice_end.take();
        if end != 0 {
            self.host.recorder.note(RecordKind::SliceEnd, 0, end & !SLICE_OVER, None);
        }
    }

    /// Turns a plain run into a recorded one if the host is being recorded.
    pub(super) fn recorded(&self, next: Next) -> Next {
        match next {
            Next::Run(token) | Next::RunTimed(token) if self.is_recorded() => Next::Recorded(token),
            next @ (Next::Run(_) | Next::RunTimed(_) | Next::Recorded(_) | Next::Park(_) | Next::Exit(_)) => next,
        }
    }

    /// Returns whether the slices of the host are recorded. If they no longer are, gives back the thread's ring, unless
    /// other events are still recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        if !self.thread.is_recorded() {
            return false;
        }
        let sample = self.host.recorder.sample();
        if self.thread.recorded_in.load(Ordering::Relaxed) != sample {
            self.thread.recorded_in.store(sample, Ordering::SeqCst);
        }
        if sample != 0 {
            return true;
        }
        self.thread.is_recorded_no_more();
        forget_old_tracks();
        if self.host.recorder.sample() == 0 {
            return false;
        }
        // Another sample has begun, perhaps before the flag was cleared.
        self.thread.call(RECORDED);
        true
    }

    /// Parks the thread, and records when it parks and wakes.
    pub(super) fn park_recorded(&self, rest: &Rest) {
        self.note(RecordKind::Park);
        self.park(rest);
        self.note(RecordKind::Wake);
    }

    pub(super) fn note(&self, kind: RecordKind) {
        if self.is_recorded() {
            self.host.recorder.note(kind, 0, 0, None);
        }
    }

    #[cold]
    pub(super) fn record_theft(&self, victim: usize, count: u64) {
        if self.is_recorded() {
            self.host.recorder.note(RecordKind::Steal, victim as u64, count, None);
        }
    }
}

/// While this guard is alive, the slices and messages of the host are recorded: for a sample, or for a whole recording.
pub(crate) struct OpenSample {
    host: &'static Scheduler,
    session: Arc<Session>,
}

impl OpenSample {
    /// Begins a sample that lasts as long as the recording.
    pub(crate) fn begin(host: &'static Scheduler, session: Arc<Session>) -> Self {
        Self::waiting(host, session, LONGEST_WAIT)
    }

    /// Begins one of many short samples.
    pub(crate) fn begin_brief(host: &'static Scheduler, session: Arc<Session>) -> Self {
        Self::waiting(host, session, SAMPLE_WAIT)
    }

    fn waiting(host: &'static Scheduler, session: Arc<Session>, longest: Duration) -> Self {
        session.open();
        host.fit_recorder_to(longest);
        Self { host, session }
    }
}

impl Drop for OpenSample {
    fn drop(&mut self) {
        if self.session.close() {
            self.host.fit_recorder();
        }
    }
}

impl Scheduler {
    /// Starts or stops the recording of threads and sends, as the recorder now requires.
    pub(crate) fn fit_recorder(&'static self) {
        self.fit_recorder_to(LONGEST_WAIT);
    }

    /// Starts or stops the recording of threads and sends, as the recorder now requires. Waits for threads, but for no
    /// longer than `longest`.
    ///
    /// At the start, all threads begin to record, and then all sends are recorded. Threads that start later record from
    /// the outset. At the end of the last recording, the threads give their rings back.
    fn fit_recorder_to(&'static self, longest: Duration) {
        let _fitting = self.recorder.fit();
        self.observe_recorded(self.recorder.is_on());
        if self.recorder.sample() == 0 {
            self.slot_owner().record_sends(false);
            self.pinned_threads.all().into_iter().for_each(|pinned| pinned.slot_owner().record_sends(false));
            if !self.recorder.is_on() {
                self.call_recorded();
                self.threads.first(usize::MAX).for_each(|(_, worker)| worker.unpark());
                self.pinned_threads.all().into_iter().for_each(PinnedThread::nudge);
            }
            return;
        }
        self.call_recorded();
        self.await_recorded(longest);
        self.slot_owner().record_sends(true);
        for pinned_thread in self.pinned_threads.all() {
            // Its thread may have started in the meantime.
            pinned_thread.thread.call(RECORDED);
            pinned_thread.slot_owner().record_sends(true);
        }
    }

    /// Makes each thread check before its next slice whether it is recorded.
    fn call_recorded(&'static self) {
        self.threads.first(usize::MAX).for_each(|(_, worker)| worker.call(RECORDED));
        self.pinned_threads.all().into_iter().for_each(|pinned| pinned.thread.call(RECORDED));
    }

    /// Waits until all threads that are between two steps have seen that they are recorded. Otherwise a thread that
    /// checked just before would run its next slice unrecorded. Threads in a step are not waited for.
    fn await_recorded(&'static self, longest: Duration) {
        if crate::sync::simulated::is_here() {
            return;
        }
        let sample = self.recorder.sample();
        let until = Moment::now_by(None).after(longest);
        for (number, worker) in self.threads_in_use() {
            let has_seen = || worker.recorded_in.load(Ordering::SeqCst) == sample;
            let is_between = || matches!(self.idle.at(number), At::Up(_)) && worker.running().is_none();
            while !has_seen() && is_between() && Moment::now_by(None) < until {
                yield_now();
            }
        }
    }
}
