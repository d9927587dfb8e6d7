//! What a process receives: an event, and the events of one step.

use super::input::StepInput;
use crate::call::answer::AnswerNode;
use crate::call::package::Package;
use crate::errors::CommandError;
use crate::mailbox::payload::Payload;
use crate::signal::Signal;
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

    /// Returns whether there may be controls. If this is false, [`next_control`](Self::next_control) has nothing to
    /// return.
    #[inline]
    pub(crate) fn has_controls(&self) -> bool {
        match &self.0 {
            EventSource::Lanes(input) => input.may_have_controls(),
            EventSource::Queue(_) => true,
        }
    }

    /// Takes the next control if it is an answer. The answer stays in the node that carried it.
    #[inline]
    pub(crate) fn next_answer(&mut self) -> Option<AnswerNode> {
        match &mut self.0 {
            EventSource::Lanes(input) => input.next_answer(),
            EventSource::Queue(_) => None,
        }
    }

    /// For the rest of this step, delivers a request to stop as a cancel signal with reason
    /// [`Normal`](crate::ExitReason::Normal), in its place among the messages, instead of ending the process. Must be
    /// called at the beginning of each step.
    pub(crate) fn hold_stop(&mut self) {
        if let EventSource::Lanes(input) = &mut self.0 {
            input.hold_stop();
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
            EventSource::Lanes(input) if input.has_mail_only() => Some(input),
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

    /// Like `next`, but for generated state machines. A call that this returns can be withdrawn until it is handled.
    #[inline]
    pub(crate) fn next_for_machine(&mut self) -> Option<Event> {
        match &mut self.0 {
            EventSource::Lanes(input) => input.next(),
            EventSource::Queue(events) => events.pop_front(),
        }
    }
}
