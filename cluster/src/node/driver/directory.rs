//! The driver's work for the directory.

use super::Driver;
use crate::clock::Moment;

impl Driver {
    pub(super) fn advance_directory(&mut self, now: Moment) {
        let epoch = self.attempt.as_ref().and_then(|attempt| attempt.epoch);
        let epoch = epoch.filter(|_| self.leaving.is_none() && self.may_send(now));
        self.setup.directory.advance(now, epoch, &self.members);
    }
}
