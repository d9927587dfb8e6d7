//! State that few steps need: notices of ends, requests to stop, upgrades, descriptions, taps.

use super::input::StepInput;
use crate::exit::ExitReason;
use crate::links::message::SentLinkMessage;
use crate::links::protocol::LinkEffect;
use crate::mailbox::lanes::Controls;
use crate::mailbox::node::{Envelope, EnvelopeContent};
use crate::process::control::Join;
use crate::process::description::DescriptionRequest;
use crate::process::event::Event;
use crate::process::handover::Upgrade;
use crate::process::mail::Mail;
use crate::process::tap::TapSink;
use crate::signal::{Cancel, Down, Exit, Monitor, Signal};
use std::collections::VecDeque;

/// State that few steps need.
#[derive(Default)]
pub(crate) struct RareEvents {
    /// Envelopes addressed to an earlier process in the slot.
    pub(crate) stale: Vec<Envelope>,
    pub(crate) joins: Vec<Join>,
    #[expect(clippy::box_collection, reason = "nearly always none, and one word then")]
    pub(super) upgrades: Option<Box<Vec<Upgrade>>>,
    #[expect(clippy::box_collection, reason = "nearly always none, and one word then")]
    pub(super) descriptions: Option<Box<Vec<DescriptionRequest>>>,
    pub(crate) tap: Option<Box<TapSink>>,
    /// Controls that the step did not take.
    pub(crate) left: Controls,
    /// Notices of ends that were taken and not delivered, in their order.
    pub(crate) notices: VecDeque<Box<SentLinkMessage>>,
    pub(crate) end: Option<ExitReason>,
    /// Whether a request to stop is delivered to the step instead of ending the process.
    pub(super) holds_stop: bool,
    /// Whether a request to stop has arrived and has not been delivered yet.
    pub(super) stop: bool,
}

impl StepInput {
    pub(super) fn rare(&mut self) -> &mut RareEvents {
        self.rare.get_or_insert_default()
    }

    /// Takes the upgrade requests with which the step begins.
    pub(crate) fn take_upgrades(&mut self) -> Option<Vec<Upgrade>> {
        Some(*self.rare.as_mut()?.upgrades.take()?)
    }

    /// Takes the description requests with which the step begins.
    pub(crate) fn take_descriptions(&mut self) -> Option<Vec<DescriptionRequest>> {
        Some(*self.rare.as_mut()?.descriptions.take()?)
    }

    /// For the rest of this step, delivers a request to stop as a cancel signal, in its place among the messages,
    /// instead of ending the process.
    pub(crate) fn hold_stop(&mut self) {
        self.rare().holds_stop = true;
    }

    /// Restores notices that the previous step took and did not deliver. They precede the data lane.
    pub(crate) fn keep_notices(&mut self, notices: VecDeque<Box<SentLinkMessage>>) {
        if !notices.is_empty() {
            self.rare().notices = notices;
            self.note_control();
        }
    }

    /// Returns whether there are notices that the step has taken and not delivered yet.
    pub(crate) fn has_undelivered_notices(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.notices.is_empty())
    }

    /// Returns whether a notice may be delivered now. It may not while the control lane has nodes: they may have been
    /// sent before the notice, so the next step handles them first.
    pub(super) fn may_deliver_notice(&self) -> bool {
        self.has_undelivered_notices() && !self.holder.has_control_node()
    }

    /// Returns the next request to stop that the step handles itself, or the next notice that the process is to see.
    pub(super) fn next_stop_or_notice(&mut self) -> Option<Event> {
        if let Some(rare) = &mut self.rare
            && std::mem::take(&mut rare.stop)
        {
            return Some(Event::Signal(Signal::Cancel(Cancel { reason: ExitReason::Normal })));
        }
        while self.may_deliver_notice() && !self.ended {
            let sent = self.rare.as_mut()?.notices.pop_front()?;
            let from = sent.from();
            match self.receive(*sent) {
                LinkEffect::Down(number, reason) => {
                    let monitor = Monitor::new(from, self.incarnation()?, number);
                    return Some(Event::Signal(Signal::Down(Down::of(monitor, reason))));
                }
                LinkEffect::Exit(reason) => return Some(Event::Signal(Signal::Exit(Exit { pid: from, reason }))),
                _ => {}
            }
        }
        None
    }

    /// Lets the endpoint of the process receive a message of the link protocol, and ends the process if the endpoint
    /// demands it.
    pub(super) fn receive(&mut self, sent: SentLinkMessage) -> LinkEffect<ExitReason> {
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

    /// Shows the messages of this step to a tap.
    pub(crate) fn tap(&mut self, sink: Box<TapSink>) {
        self.rare().tap = Some(sink);
        self.filter.accept_none();
    }

    /// Shows a message to the tap, if there is one. Runs user code, which may do anything that a method may do.
    pub(super) fn show_message(&mut self, message: &mut EnvelopeContent) {
        // The tap is taken out during the call, and dropped after its last message.
        if let Some(tap) = self.rare.as_mut().and_then(|rare| rare.tap.take())
            && tap.note(&mut Mail::seen(message))
        {
            self.rare().tap = Some(tap);
        }
    }
}
