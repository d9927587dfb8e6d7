//! The input of a step.

use super::control::{Control, Join};
use super::description::DescriptionRequest;
use super::tap::TapSink;
use super::wait_probe::WaitProbe;
use super::{handover::Upgrade, mail::Mail, slice::TimeSlice};
use crate::errors::CommandError;
use crate::exit::ExitReason;
use crate::links::message::{LinkEndpoint, SentLinkMessage};
use crate::mailbox::lanes::{Controls, Holder, Lanes};
use crate::mailbox::node::{Envelope, EnvelopeContent, MessageInPlace, NodeBox, NodeKind, poisoned, unpoisoned};
use crate::mailbox::{node_pool, payload::Payload};
#[cfg(feature = "spans")]
use crate::observe::spans;
use crate::recorder::{kind::RecordKind, ring::TypeName, session::Recorder};
use crate::signal::{Cancel, Down, Exit, Signal};
use crate::util::dispose::dispose;
use crate::util::panics::Site;
use crate::{call::answer::AnswerNode, call::package::Package, links::protocol::LinkEffect, util::debug::impl_debug};
use std::collections::VecDeque;

/// An event for a process.
#[derive(Debug)]
pub enum Event {
    /// A yield has completed.
    Completed {
        /// The tag of the yield.
        tag: u64,
        /// The answer.
        result: Result<Payload, CommandError>,
    },
    /// A message arrived.
    Message(Package),
    /// A signal from the runtime.
    Signal(Signal),
}

/// The input of one step, up to its budget: completions and cancels first, then messages in order of arrival, with
/// notices of other processes' ends in their place among them.
///
/// Input that a step does not take remains for the next one.
#[derive(Debug)]
pub struct Events<'a>(EventSource<'a>);

#[derive(Debug)]
enum EventSource<'a> {
    Lanes(&'a mut StepInput),
    Queue(VecDeque<Event>),
}

impl<'a> Events<'a> {
    /// Creates the input for a process that is driven by hand.
    pub fn of(events: impl IntoIterator<Item = Event>) -> Events<'static> {
        Events(EventSource::Queue(events.into_iter().collect()))
    }

    pub(crate) fn input(input: &'a mut StepInput) -> Self {
        Self(EventSource::Lanes(input))
    }

    /// Returns the next completion or signal. Leaves messages, and notices of ends among them, in their place.
    #[inline]
    pub(crate) fn next_control(&mut self) -> Option<Event> {
        match &mut self.0 {
            EventSource::Lanes(input) => input.next_control(),
            EventSource::Queue(events) => {
                let in_line = |event: &Event| {
                    matches!(event, Event::Message(_) | Event::Signal(Signal::Down(_) | Signal::Exit(_)))
                };
                let place = events.iter().position(|event| !in_line(event))?;
                events.remove(place)
            }
        }
    }

    /// Returns false only if [`next_control`](Self::next_control) has nothing to return.
    #[inline]
    pub(crate) fn has_controls(&self) -> bool {
        match &self.0 {
            EventSource::Lanes(input) => !input.controls.is_empty() || input.rare.is_some(),
            EventSource::Queue(_) => true,
        }
    }

    /// Takes the next control, in the node that carried it, if it is an answer.
    #[inline]
    pub(crate) fn next_answer(&mut self) -> Option<AnswerNode> {
        match &mut self.0 {
            EventSource::Lanes(input) => input.next_answer(),
            EventSource::Queue(_) => None,
        }
    }

    /// For the rest of this step, delivers a request to stop as a cancel signal with reason [`ExitReason::Normal`], in
    /// its place among the messages, instead of ending the process. Must be called at the beginning of each step.
    pub(crate) fn hold_stop(&mut self) {
        if let EventSource::Lanes(input) = &mut self.0 {
            input.rare().holds_stop = true;
        }
    }

    pub(crate) fn has_messages(&self) -> bool {
        match &self.0 {
            EventSource::Lanes(input) => !input.is_data_empty(),
            EventSource::Queue(events) => events.iter().any(|event| matches!(event, Event::Message(_))),
        }
    }

    #[inline]
    pub(crate) fn is_from_scheduler(&self) -> bool {
        matches!(self.0, EventSource::Lanes(_))
    }

    /// Returns the input, for [`mail`](StepInput::mail), if it consists only of messages.
    #[inline(always)]
    pub(crate) fn mail_only(&mut self) -> Option<&mut StepInput> {
        match &mut self.0 {
            EventSource::Lanes(input) if !input.controlled => Some(input),
            _ => None,
        }
    }

    /// Returns the input for messages, once the controls have been taken.
    pub(crate) fn input_mut(&mut self) -> Option<&mut StepInput> {
        match &mut self.0 {
            EventSource::Lanes(input) => Some(input),
            EventSource::Queue(_) => None,
        }
    }

    /// Returns the next event; `None` if nothing has arrived or the budget of this step is used up.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "what has arrived can change between two calls, unlike an iterator's rest"
    )]
    pub fn next(&mut self) -> Option<Event> {
        loop {
            match self.next_for_machine() {
                // A kept call can no longer be withdrawn, because the process may pass it on or answer it elsewhere.
                Some(Event::Message(package)) if !package.keep() => package.throw_away(),
                event => return event,
            }
        }
    }

    /// Like `next`, for generated state machines: a call can be withdrawn until it is handled.
    #[inline]
    pub(crate) fn next_for_machine(&mut self) -> Option<Event> {
        match &mut self.0 {
            EventSource::Lanes(input) => input.next(),
            EventSource::Queue(events) => events.pop_front(),
        }
    }
}

/// The lanes of a running process as its step sees them. One per thread, reused for each step.
pub(crate) struct StepInput {
    /// The lanes of the last process that began a step.
    holder: Holder<'static>,
    endpoint: Option<&'static dyn LinkEndpoint>,
    /// The generation of the process. While its messages are recorded or tapped, a value that matches no message, so
    /// that each message takes the slow path in [`meet`](Self::meet).
    generation: u64,
    /// The recorder of its steps, if there is one.
    recorder: Option<&'static Recorder>,
    /// The recorder's stamp of the start of the time slice, until its first message is taken; then zero.
    stamp: u64,
    /// Controls taken from the lane and not yet delivered.
    controls: Controls,
    /// The thread's count of spent events when the time slice began.
    began: u64,
    /// The budget: zero once the process must end, or when the time slice has taken too long.
    slice: &'static TimeSlice,
    /// Whether the step has had controls to deliver: from the control lane when it began, or notices and requests to
    /// stop since. Controls that enter an empty lane during a step are left to the next step, which follows at once.
    controlled: bool,
    /// Whether a cancel is among the controls.
    cancelled: bool,
    /// Whether the process ends before it takes another event; the reason is in `rare`.
    pub(crate) ended: bool,
    /// The number of events taken, not counting messages.
    others: u32,
    pub(crate) messages: u32,
    pub(crate) completions: u32,
    pub(crate) rare: Option<Box<RareEvents>>,
    /// The message that replaced a placeholder.
    redeemed: EnvelopeContent,
}

/// The outcome of [`StepInput::meet`], for an item of the data lane that is not a plain message.
enum Met {
    Nothing,
    /// An item to handle before the next message.
    Something,
    /// A message, which was moved to `redeemed`.
    Message,
    /// A message in its node, which was recorded or shown to a tap.
    Noted(MessageInPlace),
}

/// State that few steps need.
#[derive(Default)]
pub(crate) struct RareEvents {
    /// Envelopes addressed to an earlier process in the slot.
    pub(crate) stale: Vec<Envelope>,
    pub(crate) joins: Vec<Join>,
    #[expect(clippy::box_collection, reason = "nearly always none, and one word then")]
    pub(crate) upgrades: Option<Box<Vec<Upgrade>>>,
    #[expect(clippy::box_collection, reason = "nearly always none, and one word then")]
    pub(crate) descriptions: Option<Box<Vec<DescriptionRequest>>>,
    pub(crate) tap: Option<Box<TapSink>>,
    /// Controls that the step did not take.
    pub(crate) left: Controls,
    /// Notices of ends that were taken and not delivered, in their order.
    pub(crate) notices: VecDeque<Box<SentLinkMessage>>,
    pub(crate) end: Option<ExitReason>,
    /// Whether a request to stop is delivered to the step instead of ending the process.
    holds_stop: bool,
    /// Whether such a request has arrived and has not been delivered yet.
    stop: bool,
}

impl StepInput {
    /// Creates the input for the thread with this time slice. Until the first step it reads from `nowhere`, whose lanes
    /// stay empty.
    ///
    /// # Safety
    /// The calling thread holds the token of `nowhere`, and uses it only through this input.
    pub(crate) unsafe fn new(slice: &'static TimeSlice, nowhere: &'static Lanes) -> Self {
        Self {
            // SAFETY: the caller's promise.
            holder: unsafe { Holder::new(nowhere) },
            endpoint: None,
            generation: 0,
            recorder: None,
            stamp: 0,
            controls: Controls::none(),
            began: 0,
            slice,
            controlled: false,
            cancelled: false,
            ended: false,
            others: 0,
            messages: 0,
            completions: 0,
            rare: None,
            redeemed: EnvelopeContent::empty(),
        }
    }

    #[inline]
    pub(crate) fn begin_slice(&mut self, budget: u32) {
        self.began = node_pool::begin_slice();
        self.slice.begin(self.began, budget);
    }

    /// Begins a time slice of exactly `budget` events, for a simulation or to time a single event.
    pub(crate) fn begin_slice_of(&mut self, budget: u32) {
        self.began = node_pool::begin_slice();
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
        self.generation = generation;
        self.messages = 0;
    }

    /// Sets the recorder of messages and answers for the current time slice, which began at `stamp`. Returns the
    /// previous recorder.
    pub(crate) fn record(&mut self, recorder: Option<&'static Recorder>, stamp: u64) -> Option<&'static Recorder> {
        self.stamp = stamp;
        std::mem::replace(&mut self.recorder, recorder)
    }

    pub(crate) fn recorder(&self) -> Option<&'static Recorder> {
        self.recorder
    }

    /// Starts to record the messages of a step that has just begun.
    pub(crate) fn record_messages(&mut self, begins_with_message: bool) {
        self.generation = poisoned(self.generation);
        if !begins_with_message {
            self.stamp = 0;
        }
    }

    /// Records the answers with which a step begins.
    pub(crate) fn record_answers(&self) {
        if !self.controls.is_empty()
            && let (Some(recorder), Some(process)) = (self.recorder, self.process())
        {
            self.controls.answers().for_each(|tag| _ = recorder.note(RecordKind::AnswerTaken, process, tag, None));
        }
    }

    /// Returns the slot and generation of the process.
    fn process(&self) -> Option<u64> {
        Some(self.endpoint?.resident()?.incarnation())
    }

    /// Begins a step with an answer for this incarnation, and no other controls.
    #[inline(always)]
    pub(crate) fn begin_with_answer(&mut self, answer: NodeBox) {
        self.note_control();
        self.controls.push_first(answer);
    }

    /// Counts an answer that the step has taken, from its controls or otherwise.
    #[inline(always)]
    pub(crate) fn count_answer(&mut self) {
        self.others += 1;
        self.completions += 1;
        node_pool::spend(1);
    }

    /// Takes the controls with which a step begins, `brought` before all others. Returns them unless all of them are
    /// answers for this generation.
    #[inline(always)]
    pub(crate) fn begin_answered(&mut self, brought: Option<NodeBox>) -> Option<Controls> {
        self.note_control();
        let mut taken = self.holder.take_control();
        if let Some(brought) = brought {
            taken.push_first(brought);
        }
        if taken.are_answers_for(self.generation) {
            self.controls = taken;
            return None;
        }
        Some(taken)
    }

    /// Begins a step that has controls: `taken` from its lane, `kept` from the last step, or `held` while the process
    /// was suspended. Returns whether a cancel is among them, in which case [`cancel`](Self::cancel) must be called.
    pub(crate) fn begin_controlled(&mut self, kept: Controls, held: Controls, taken: Controls) -> bool {
        self.note_control();
        self.controls = kept;
        self.absorb(held);
        self.absorb(taken);
        std::mem::take(&mut self.cancelled)
    }

    /// Delivers a cancel to a process that `handles` it; ends a process that does not.
    pub(crate) fn cancel(&mut self, handles: bool) {
        let mut controls = std::mem::take(&mut self.controls);
        while let Some(mut node) = controls.pop() {
            let envelope = node.take();
            let is_cancel = envelope.kind == NodeKind::Signal;
            if handles || !is_cancel {
                node.put(envelope);
                self.controls.push(node);
                continue;
            }
            node_pool::recycle(node);
            if let Some(Ok(Control::Cancel(reason))) = envelope.payload.map(Payload::take) {
                self.end(reason);
            }
        }
    }

    /// Returns whether the step took messages, had no controls and needed no rare state.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.messages > 0 && !self.controlled && self.rare.is_none()
    }

    /// Returns whether the step took all of its controls and needed no rare state.
    #[inline]
    pub(crate) fn is_simple(&self) -> bool {
        self.rare.is_none() && self.controls.is_empty() && !self.ended
    }

    #[inline]
    pub(crate) fn end_simple(&mut self) {
        self.controlled = false;
        (self.others, self.messages, self.completions) = (0, 0, 0);
    }

    #[inline]
    pub(crate) fn has_taken(&self) -> bool {
        self.messages + self.others > 0
    }

    /// Returns whether there are controls other than a wake-up.
    pub(crate) fn has_control_node(&self) -> bool {
        !self.controls.is_empty() || self.holder.has_control_node()
    }

    #[inline]
    pub(crate) fn is_data_empty(&self) -> bool {
        self.holder.is_data_empty()
    }

    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        !self.controls.is_empty() || self.holder.has_control()
    }

    /// Finishes a step that was not plain. Returns the rare state, which includes the controls that the step did not
    /// take.
    pub(crate) fn finish(&mut self) -> Option<Box<RareEvents>> {
        if !self.controls.is_empty() {
            self.rare().left = std::mem::take(&mut self.controls);
        }
        (self.controlled, self.ended) = (false, false);
        (self.others, self.messages, self.completions) = (0, 0, 0);
        let mut rare = self.rare.take()?;
        if rare.stop {
            // The step that would have handled the request to stop did not take it.
            rare.end.get_or_insert(ExitReason::Normal);
        }
        Some(rare)
    }

    #[inline]
    pub(crate) fn note_control(&mut self) {
        self.controlled = true;
        self.slice.forget_message();
    }

    /// Restores notices that the last step took and did not deliver. They precede the data lane.
    pub(crate) fn keep_notices(&mut self, notices: VecDeque<Box<SentLinkMessage>>) {
        if !notices.is_empty() {
            self.rare().notices = notices;
            self.note_control();
        }
    }

    /// Shows the messages of this step to a tap.
    pub(crate) fn tap(&mut self, sink: Box<TapSink>) {
        self.rare().tap = Some(sink);
        self.generation = poisoned(self.generation);
    }

    fn rare(&mut self) -> &mut RareEvents {
        self.rare.get_or_insert_default()
    }

    /// Ends the process. The first of several reasons is kept: a kill stays a kill.
    fn end(&mut self, reason: ExitReason) {
        self.ended = true;
        self.slice.end();
        let end = &mut self.rare().end;
        match end {
            None => *end = Some(reason),
            // The reason of a later cancel, which may contain a user's error.
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

    #[inline]
    fn next(&mut self) -> Option<Event> {
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
        if has_stop || self.has_notice() { self.next_control() } else { None }
    }

    /// Returns the next message in its node; `None` if there is none, the budget is used up, or something else comes
    /// first.
    #[inline(always)]
    pub(crate) fn mail(&mut self) -> Option<Mail<'_>> {
        let slice = self.slice;
        loop {
            // A wake-up alone does not end the loop: a future may wake itself in each poll until it has a message.
            let goes_on = |holder: &Holder<'_>| !holder.has_control_node() && !slice.is_over(node_pool::spent());
            let envelope = self.holder.next_data_if(goes_on)?;
            node_pool::spend(1);
            if envelope.is_message_for(self.generation) {
                self.messages += 1;
                let message: *mut EnvelopeContent = envelope.content();
                // SAFETY: the message belongs to the holder until it takes the next item, which is after this borrow.
                let message = unsafe { &mut *message };
                return Some(Mail::new(message, slice));
            }
            match self.meet(envelope) {
                Met::Nothing => {}
                Met::Something => return None,
                Met::Message => return Some(Mail::new(&mut self.redeemed, slice)),
                Met::Noted(message) => {
                    let message: *mut EnvelopeContent = message.content();
                    // SAFETY: as above.
                    return Some(Mail::new(unsafe { &mut *message }, slice));
                }
            }
        }
    }

    /// Handles an item of the data lane that is not a plain message: a message to record or to tap, a placeholder, a
    /// notice, a request to stop, or an envelope for an earlier process.
    #[cold]
    fn meet(&mut self, envelope: MessageInPlace) -> Met {
        let sequence = envelope.sequence();
        if envelope.is_message_for(unpoisoned(self.generation)) {
            self.messages += 1;
            let message: *mut EnvelopeContent = envelope.content();
            // SAFETY: the message belongs to the holder until it takes the next item, which is after this borrow.
            let message = unsafe { &mut *message };
            if let Some(recorder) = self.recorder {
                self.record_message(recorder, sequence, message.payload.as_ref().map(Payload::name_of));
            }
            self.show_message(message);
            return Met::Noted(envelope);
        }
        let envelope = envelope.take();
        if envelope.generation != unpoisoned(self.generation) {
            self.rare().stale.push(envelope);
            return Met::Nothing;
        }
        if envelope.kind == NodeKind::Placeholder {
            let redeemed = self.endpoint.and_then(|endpoint| endpoint.redeem(envelope.generation));
            let Some(Envelope { word, payload, .. }) = redeemed else { return Met::Nothing };
            self.messages += 1;
            if let Some(recorder) = self.recorder {
                self.record_message(recorder, sequence, payload.as_ref().map(Payload::name_of));
            }
            let mut redeemed = EnvelopeContent { word, payload };
            self.show_message(&mut redeemed);
            self.redeemed = redeemed;
            return Met::Message;
        }
        self.others += 1;
        match (envelope.kind, envelope.payload) {
            (NodeKind::Stop, _) if self.rare.as_ref().is_some_and(|rare| rare.holds_stop) => {
                self.controlled = true;
                self.rare().stop = true;
            }
            #[cfg(feature = "spans")]
            (NodeKind::Stop, payload) => {
                spans::note_stop(payload.and_then(|payload| payload.origin()));
                self.end(ExitReason::Normal);
            }
            #[cfg(not(feature = "spans"))]
            (NodeKind::Stop, _) => self.end(ExitReason::Normal),
            (NodeKind::Notice, Some(payload)) => match payload.take() {
                Ok(Control::Link(sent)) => {
                    self.controlled = true;
                    self.rare().notices.push_back(sent);
                }
                Ok(_) => {}
                Err(payload) => {
                    if let Ok(probe) = payload.take::<WaitProbe>() {
                        probe.has_come();
                    }
                    return Met::Nothing;
                }
            },
            _ => {}
        }
        Met::Something
    }

    /// Shows a message to the tap, if there is one. Runs user code, which may do anything that a method may do.
    fn show_message(&mut self, message: &mut EnvelopeContent) {
        // The tap is taken out during the call, and dropped after its last message.
        if let Some(tap) = self.rare.as_mut().and_then(|rare| rare.tap.take())
            && tap.note(&mut Mail::seen(message))
        {
            self.rare().tap = Some(tap);
        }
    }

    fn record_message(&mut self, recorder: &'static Recorder, sequence: u64, name: Option<&'static TypeName>) {
        let Some(process) = self.process() else { return };
        match std::mem::take(&mut self.stamp) {
            0 => _ = recorder.note(RecordKind::Handle, process, sequence, name),
            // The first message of a slice is taken when the slice begins, which saves reading the clock.
            stamp => recorder.note_at(stamp, RecordKind::Handle, process, sequence, name),
        }
    }

    /// Returns whether [`next_control`](Self::next_control) has a notice to deliver. False while the control lane is
    /// not empty: its contents may have been sent before the notice, and the next step handles them first.
    fn has_notice(&self) -> bool {
        self.has_notices() && !self.holder.has_control_node()
    }

    /// Returns whether there are notices that the step has taken and not delivered yet.
    pub(crate) fn has_notices(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.notices.is_empty())
    }

    fn next_notice(&mut self) -> Option<Event> {
        if let Some(rare) = &mut self.rare
            && std::mem::take(&mut rare.stop)
        {
            return Some(Event::Signal(Signal::Cancel(Cancel { reason: ExitReason::Normal })));
        }
        while self.has_notice() && !self.ended {
            let sent = self.rare.as_mut()?.notices.pop_front()?;
            let from = sent.from();
            match self.receive(*sent) {
                LinkEffect::Down(number, reason) => {
                    return Some(Event::Signal(Signal::Down(Down::new(from, reason, number))));
                }
                LinkEffect::Exit(reason) => return Some(Event::Signal(Signal::Exit(Exit { pid: from, reason }))),
                _ => {}
            }
        }
        None
    }

    fn receive(&mut self, sent: SentLinkMessage) -> LinkEffect<ExitReason> {
        let (from, Some(endpoint)) = (sent.from(), self.endpoint) else { return LinkEffect::Nothing };
        // SAFETY: a step has begun, so its thread holds the token; neither this input nor the step refers to the cold
        // state.
        let effect = unsafe { endpoint.receive(sent) };
        if let LinkEffect::End(reason) = effect {
            self.end(ExitReason::linked(from, reason));
            return LinkEffect::Nothing;
        }
        effect
    }

    /// Sorts the controls: requests from the runtime take effect at once, the others are kept for the step.
    #[cold]
    fn absorb(&mut self, mut taken: Controls) {
        while let Some(mut node) = taken.pop() {
            let envelope = node.take();
            if envelope.generation != unpoisoned(self.generation) {
                node_pool::recycle(node);
                self.rare().stale.push(envelope);
                continue;
            }
            let control = match envelope.payload {
                Some(payload) if envelope.kind == NodeKind::Signal => payload.take::<Control>(),
                payload => {
                    node.put(Envelope { payload, ..envelope });
                    self.controls.push(node);
                    continue;
                }
            };
            match control {
                Ok(Control::Cancel(reason)) => {
                    self.cancelled = true;
                    let payload = Some(Payload::new(Control::Cancel(reason)));
                    node.put(Envelope { payload, ..envelope });
                    self.controls.push(node);
                    continue;
                }
                Ok(Control::Kill) => self.end(ExitReason::Killed),
                Ok(Control::Join(join)) => self.rare().joins.push(join),
                Ok(Control::Link(sent)) => drop(self.receive(*sent)),
                Ok(Control::Inspect(inspect)) => {
                    if let Some(endpoint) = self.endpoint {
                        // SAFETY: as in `receive`.
                        inspect.answer(unsafe { endpoint.inspect() });
                    }
                }
                Ok(Control::Describe(request)) => {
                    self.rare().descriptions.get_or_insert_default().push(request);
                }
                Ok(Control::Tap(sink)) => self.tap(sink),
                Ok(Control::Upgrade(upgrade)) => self.rare().upgrades.get_or_insert_default().push(upgrade),
                Err(_) => {}
            }
            node_pool::recycle(node);
        }
    }

    #[inline]
    fn next_answer(&mut self) -> Option<AnswerNode> {
        if self.ended {
            return None;
        }
        let node = self.controls.pop_answer()?;
        self.count_answer();
        Some(AnswerNode::new(node))
    }

    fn next_control(&mut self) -> Option<Event> {
        if let Some(answer) = self.next_answer() {
            return Some(Event::Completed { tag: answer.tag(), result: answer.into_result() });
        }
        if self.ended {
            return None;
        }
        let Some(mut node) = self.controls.pop() else { return self.next_notice() };
        let envelope = node.take();
        node_pool::recycle(node);
        match envelope.payload?.take::<Control>() {
            Ok(Control::Cancel(reason)) => {
                self.others += 1;
                node_pool::spend(1);
                Some(Event::Signal(Signal::Cancel(Cancel { reason })))
            }
            _ => None,
        }
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

impl_debug!([] StepInput, self => "StepInput" { generation: self.generation, messages: self.messages, .. });

#[cfg(test)]
mod tests;
