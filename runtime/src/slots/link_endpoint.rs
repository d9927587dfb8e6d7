//! How a slot hears what is said about bonds.

use super::slot::Slot;
use crate::exit::ExitReason;
use crate::links::message::{Bindings, Bond, Ear};
use crate::links::protocol::Heard;
use crate::mailbox::node::{Kind, Letter};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::pid::{Pid, Resident};
use crate::process::control::Control;
use crate::util::panics::{Site, dispose};
use std::ptr;

impl Ear for Slot {
    fn tell(&'static self, to: Pid, bond: Bond) {
        let is_notice = bond.is_notice();
        let payload = Some(Payload::new(Control::Bond(Box::new(bond))));
        if is_notice {
            // Refused, it is dropped: nobody is left to hear it.
            drop(self.post(Kind::Notice, to, ptr::null_mut(), payload));
        } else if self.has_carried(to) {
            self.post_control(node_pool::empty(), Kind::Signal, to.generation(), ptr::null_mut(), payload);
        }
    }

    unsafe fn hear(&self, bond: Bond) -> Heard<ExitReason> {
        let (from, back, said) = bond.open();
        let (Some(said), Some(me)) = (said, self.resident()) else { return Heard::Nothing };
        // SAFETY: as the caller promises; the reference ends with this statement.
        let heard = unsafe { self.own_extras() }.bonds.get_or_insert_default().hear(from, &said);
        // Not before: the last holder of an exit reason runs the drop of its user's error, which may come back here.
        dispose(Site::ReasonDrop, said);
        let Heard::Answer(answer) = heard else { return heard };
        if let Some(back) = back {
            back.tell(from, Bond::new(me, from, None, answer));
        }
        Heard::Nothing
    }

    fn redeem(&'static self, generation: u64) -> Option<Letter> {
        self.home()?.keeper.redeem(self, generation)
    }

    unsafe fn inspect(&self) -> Bindings {
        // SAFETY: as the caller promises.
        unsafe { self.own_extras() }.bonds.as_deref().map(Bindings::of).unwrap_or_default()
    }
}
