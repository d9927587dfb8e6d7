//! Slots as receivers of link messages.

use super::slot::{SendPolicy, Slot};
use crate::exit::ExitReason;
use crate::links::message::{Bindings, LinkEndpoint, SentLinkMessage};
use crate::links::protocol::LinkEffect;
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::payload::Payload;
use crate::pid::{Pid, Resident};
use crate::process::control::Control;
use crate::util::dispose::dispose;
use crate::util::panics::Site;

impl LinkEndpoint for Slot {
    fn post(&'static self, to: Pid, sent: SentLinkMessage) {
        let is_notice = sent.is_notice();
        let control = Control::Link(Box::new(sent));
        if is_notice {
            // A refused message is dropped: there is no process to handle it.
            let payload = Some(Payload::new(control));
            drop(self.deliver(to, NodeKind::Notice, None, payload, SendPolicy::Anyway));
        } else if self.has_carried(to) {
            self.request(to.generation(), control);
        }
    }

    unsafe fn receive(&self, sent: SentLinkMessage) -> LinkEffect<ExitReason> {
        let (sender, back, message) = sent.open();
        let (Some(message), Some(me)) = (message, self.resident()) else { return LinkEffect::Nothing };
        // SAFETY: the caller's promise; the reference ends with this statement.
        let effect = unsafe { self.own_cold_state() }.links.get_or_insert_default().receive(sender, &message);
        // The message is dropped only now: dropping the last reference to an exit reason drops a user's error, and that
        // drop may call back.
        dispose(Site::ReasonDrop, message);
        let LinkEffect::Answer(answer) = effect else { return effect };
        if let Some(back) = back {
            let (from, _) = sender;
            back.post(from, SentLinkMessage::new(me, from, None, answer));
        }
        LinkEffect::Nothing
    }

    fn redeem(&'static self, generation: u64) -> Option<Envelope> {
        self.owner()?.host.redeem(self, generation)
    }

    unsafe fn inspect(&self) -> Bindings {
        // SAFETY: the caller's promise.
        unsafe { self.own_cold_state() }.links.as_deref().map(Bindings::of).unwrap_or_default()
    }
}
