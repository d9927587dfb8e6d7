//! The input of a step, as the scheduler provides it: one [`StepInput`] for each thread.
//!
//! Its methods are in several files: [`input_controls`](super::input_controls) takes the control lane,
//! [`input_data`](super::input_data) the data lane, [`rare_events`](super::rare_events) has the state that few steps
//! need, and [`input_recording`](super::input_recording) records the events that a step takes.

#[cfg(test)]
mod tests;

use crate::exit::ExitReason;
use crate::links::message::LinkEndpoint;
use crate::mailbox::lanes::{Controls, Holder, Lanes};
use crate::mailbox::node::{EnvelopeContent, MessageFilter};
use crate::mailbox::node_pool;
use crate::process::event::Event;
use crate::process::rare_events::RareEvents;
use crate::process::slice::TimeSlice;
use crate::recorder::session::Recorder;
use crate::util::debug::impl_debug;
use crate::util::dispose::dispose;
use crate::util::panics::Site;

/// The lanes of a running process as its step sees them. One per thread, reused for each step.
pub(crate) struct StepInput {
    /// The lanes of the process that began a step most recently.
    pub(super) holder: Holder<'static>,
    pub(super) endpoint: Option<&'static dyn LinkEndpoint>,
    /// Accepts the messages of the process, or none while they are recorded or tapped.
    pub(super) filter: MessageFilter,
    pub(super) recording: StepRecording,
    /// Controls taken from the lane and not yet delivered.
    pub(super) controls: Controls,
    /// The thread's count of spent events when the time slice began.
    began: u64,
    /// The budget. It is zero once the process must end, or when the time slice has taken too long.
    pub(super) slice: &'static TimeSlice,
    /// Whether the step has had controls to deliver. These came from the control lane when the step began, or are
    /// notices and requests to stop that it took since then. Controls that enter an empty lane during a step are left
    /// to the next step, which follows at once.
    pub(super) controlled: bool,
    /// Whether the process ends before it takes another event; the reason is in `rare`.
    pub(super) ended: bool,
    pub(super) taken: EventsTaken,
    pub(super) rare: Option<Box<RareEvents>>,
    /// The message that replaced a placeholder.
    pub(super) redeemed: EnvelopeContent,
}

/// The recorder of the events that a step takes, if its time slice is recorded.
#[derive(Default)]
pub(super) struct StepRecording {
    pub(super) recorder: Option<&'static Recorder>,
    /// The recorder's stamp of the start of the time slice. It is set to zero when the first message of the slice is
    /// taken.
    pub(super) stamp: u64,
}

/// The numbers of events that a step has taken.
#[derive(Clone, Copy, Default)]
pub(super) struct EventsTaken {
    pub(super) messages: u32,
    pub(super) completions: u32,
    /// Events other than messages.
    pub(super) others: u32,
}

impl StepInput {
    /// Creates the input for the thread with this time slice. Until the first step, it reads from the lanes `nowhere`,
    /// which stay empty.
    ///
    /// # Safety
    /// The calling thread holds the token of `nowhere`, and uses it only through this input.
    pub(crate) unsafe fn new(slice: &'static TimeSlice, nowhere: &'static Lanes) -> Self {
        Self {
            // SAFETY: the caller's promise.
            holder: unsafe { Holder::new(nowhere) },
            endpoint: None,
            filter: MessageFilter::accepting(0),
            recording: StepRecording::default(),
            controls: Controls::none(),
            began: 0,
            slice,
            controlled: false,
            ended: false,
            taken: EventsTaken::default(),
            rare: None,
            redeemed: EnvelopeContent::empty(),
        }
    }

    /// Begins a time slice of at most `budget` events; it ends earlier if it takes too long.
    #[inline]
    pub(crate) fn begin_budget(&mut self, budget: u32) {
        self.began = node_pool::forget_congested();
        self.slice.begin(self.began, budget);
    }

    /// Begins a time slice of exactly `budget` events, however long they take. This is for simulations, and for timing
    /// a single event.
    pub(crate) fn begin_exact_budget(&mut self, budget: u32) {
        self.began = node_pool::forget_congested();
        self.slice.begin_exactly(self.began, budget);
    }

    /// Begins a step of the process with this generation.
    ///
    /// # Safety
    /// The caller holds the token of `lanes`, and uses it only through this input until the step is over.
    #[inline]
    pub(crate) unsafe fn begin(&mut self, lanes: &'static Lanes, endpoint: &'static dyn LinkEndpoint, generation: u64) {
        // SAFETY: the caller's promise.
        self.holder = unsafe { Holder::new(lanes) };
        self.endpoint = Some(endpoint);
        self.filter = MessageFilter::accepting(generation);
        self.taken.messages = 0;
    }

    /// Returns the slot and generation of the process, as one word.
    pub(super) fn incarnation(&self) -> Option<u64> {
        Some(self.endpoint?.resident()?.incarnation())
    }

    /// Returns the next event; `None` if there is none, or the budget is used up.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Event> {
        if self.controlled
            && let Some(event) = self.next_control()
        {
            return Some(event);
        }
        let to = self.endpoint.and_then(|endpoint| endpoint.resident());
        if let Some(mail) = self.mail() {
            return mail.into_package(to?).map(Event::Message);
        }
        let has_stop = self.rare.as_ref().is_some_and(|rare| rare.stop);
        if has_stop || self.may_deliver_notice() { self.next_control() } else { None }
    }

    /// Returns whether the step took messages, had no controls and needed no rare state.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.taken.messages > 0 && !self.controlled && self.rare.is_none()
    }

    /// Returns whether the step took all of its controls and needed no rare state.
    #[inline]
    pub(crate) fn is_simple(&self) -> bool {
        self.rare.is_none() && self.controls.is_empty() && !self.ended
    }

    /// Finishes a simple step.
    #[inline]
    pub(crate) fn end_simple(&mut self) {
        self.controlled = false;
        self.taken = EventsTaken::default();
    }

    /// Finishes a step that may have needed rare state. Returns that state, including the controls that the step did
    /// not take.
    pub(crate) fn finish(&mut self) -> Option<Box<RareEvents>> {
        if !self.controls.is_empty() {
            self.rare().left = std::mem::take(&mut self.controls);
        }
        (self.controlled, self.ended) = (false, false);
        self.taken = EventsTaken::default();
        let mut rare = self.rare.take()?;
        if rare.stop {
            // The step that would have handled the request to stop did not take it.
            rare.end.get_or_insert(ExitReason::Normal);
        }
        Some(rare)
    }

    #[inline]
    pub(crate) fn has_taken(&self) -> bool {
        self.taken.messages + self.taken.others > 0
    }

    /// Returns the number of messages that the step has taken.
    #[inline]
    pub(crate) fn messages(&self) -> u32 {
        self.taken.messages
    }

    /// Returns the number of answers that the step has taken.
    #[inline]
    pub(crate) fn completions(&self) -> u32 {
        self.taken.completions
    }

    /// Returns whether the process ends before it takes another event.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends the process. The first of several reasons is kept: a kill stays a kill.
    pub(super) fn end(&mut self, reason: ExitReason) {
        self.ended = true;
        self.slice.end();
        let end = &mut self.rare().end;
        match end {
            None => *end = Some(reason),
            // This is the reason of a later cancel. It may contain a user's error.
            Some(_) => dispose(Site::ReasonDrop, reason),
        }
    }

    #[inline]
    pub(crate) fn spent(&self) -> u64 {
        node_pool::spent() - self.began
    }

    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.slice.is_over(node_pool::spent())
    }
}

/// Disposes of controls that are left when the thread ends or after a panic. The drops of their envelopes notify
/// callers.
impl Drop for StepInput {
    fn drop(&mut self) {
        while let Some(mut node) = self.controls.pop() {
            let envelope = node.take();
            node_pool::recycle(node);
            dispose(Site::EventDrop, envelope);
        }
    }
}

impl_debug!([] StepInput, self => "StepInput" {
    generation: self.filter.generation(),
    messages: self.taken.messages,
    ..
});
