//! The data lane: messages, and the other items among them, in order of arrival.

use super::input::StepInput;
use crate::exit::ExitReason;
use crate::mailbox::lanes::Holder;
use crate::mailbox::node::{Envelope, EnvelopeContent, MessageFilter, MessageInPlace, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::observe::spans;
use crate::process::control::Control;
use crate::process::mail::Mail;
use crate::process::wait_probe::WaitProbe;

/// The result of examining an item of the data lane.
enum Examined {
    /// Nothing that the process takes.
    Nothing,
    /// An item to handle before the next message.
    Something,
    /// A message in its node.
    Message(MessageInPlace),
    /// The message that a placeholder stood for. It was moved to [`StepInput`]'s `redeemed`.
    Redeemed,
}

impl StepInput {
    #[inline]
    pub(crate) fn is_data_empty(&self) -> bool {
        self.holder.is_data_empty()
    }

    /// Returns the next message in its node; `None` if there is none, the budget is used up, or something else comes
    /// first.
    #[inline(always)]
    pub(crate) fn mail(&mut self) -> Option<Mail<'_>> {
        let slice = self.slice;
        loop {
            // A wake-up alone does not end the loop: a future may wake itself in each poll until it has a message.
            let continues = |holder: &Holder<'_>| !holder.has_control_node() && !slice.is_over(node_pool::spent());
            let item = self.holder.next_data_if(continues)?;
            node_pool::spend(1);
            if item.is_accepted_by(self.filter) {
                self.taken.messages += 1;
                let message: *mut EnvelopeContent = item.content();
                // SAFETY: the message belongs to the holder until it takes the next item, which is after this borrow.
                let message = unsafe { &mut *message };
                return Some(Mail::new(message, slice));
            }
            match self.examine(item) {
                Examined::Nothing => {}
                Examined::Something => return None,
                Examined::Redeemed => return Some(Mail::new(&mut self.redeemed, slice)),
                Examined::Message(item) => {
                    let message: *mut EnvelopeContent = item.content();
                    // SAFETY: as above.
                    return Some(Mail::new(unsafe { &mut *message }, slice));
                }
            }
        }
    }

    /// Takes an item of the data lane that is not a plain message: a message to record or to tap, a placeholder, a
    /// notice, a request to stop, or an envelope for an earlier process.
    #[cold]
    fn examine(&mut self, item: MessageInPlace) -> Examined {
        let (generation, sequence) = (self.filter.generation(), item.sequence());
        if item.is_accepted_by(MessageFilter::accepting(generation)) {
            let message: *mut EnvelopeContent = item.content();
            // SAFETY: the message belongs to the holder until it takes the next item, which is after this borrow.
            self.note_message(unsafe { &mut *message }, sequence);
            return Examined::Message(item);
        }
        let mut envelope = item.take();
        if envelope.generation != generation {
            self.rare().stale.push(envelope);
            return Examined::Nothing;
        }
        if envelope.kind == NodeKind::Placeholder {
            let redeemed = self.endpoint.and_then(|endpoint| endpoint.redeem(generation));
            let Some(redeemed) = redeemed else { return Examined::Nothing };
            envelope = redeemed;
        }
        let Envelope { kind, word, payload, .. } = envelope;
        if kind == NodeKind::Message {
            let mut message = EnvelopeContent { word, payload };
            self.note_message(&mut message, sequence);
            self.redeemed = message;
            return Examined::Redeemed;
        }
        self.taken.others += 1;
        match (kind, payload) {
            (NodeKind::Stop, payload) => self.take_stop(payload),
            (NodeKind::Notice, Some(payload)) => return self.take_notice(payload),
            _ => {}
        }
        Examined::Something
    }

    /// Counts a message that the step takes, and passes it to the recorder and the tap, if there are any.
    fn note_message(&mut self, message: &mut EnvelopeContent, sequence: u64) {
        self.taken.messages += 1;
        self.record_message(sequence, message.payload.as_ref().map(Payload::name_of));
        self.show_message(message);
    }

    /// Takes a request to stop.
    fn take_stop(&mut self, payload: Option<Payload>) {
        if self.rare.as_ref().is_some_and(|rare| rare.holds_stop) {
            self.controlled = true;
            self.rare().stop = true;
            return;
        }
        spans::note_stop(payload.as_ref().and_then(Payload::origin));
        drop(payload);
        self.end(ExitReason::Normal);
    }

    /// Takes a notice that another process has ended, or a probe that measures how long messages wait.
    fn take_notice(&mut self, payload: Payload) -> Examined {
        match payload.take() {
            Ok(Control::Link(sent)) => {
                self.controlled = true;
                self.rare().notices.push_back(sent);
            }
            Ok(_) => {}
            Err(payload) => {
                if let Ok(probe) = payload.take::<WaitProbe>() {
                    probe.has_come();
                }
                return Examined::Nothing;
            }
        }
        Examined::Something
    }
}
