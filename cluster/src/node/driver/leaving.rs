//! Leaving the cluster, step by step, so that no accepted message is lost, and no name has two holders.

use super::Driver;
use super::ends::{Leaving, LeavingStep};
use crate::clock::Moment;
use crate::node::delivery::Arrival;
use crate::reply::Completer;
use std::time::Duration;

/// The time for which a leaving node waits for the store.
const FAREWELL: Duration = Duration::from_secs(2);

impl Driver {
    pub(super) fn leave(&mut self, now: Moment, then: Completer<()>) {
        if let Some(leaving) = &mut self.leaving {
            return leaving.then.push(then);
        }
        self.join_at = None;
        self.leaving = Some(Leaving {
            then: vec![then],
            step: LeavingStep::Holders,
            until: now + self.setup.timing.grace + crate::session::LINGER,
            awaits_children: false,
        });
        let held = self.setup.view.names().leave();
        let why = "its node leaves the cluster, and its names pass to others";
        self.condemn(held, why, now, now + self.setup.timing.grace);
    }

    /// Gives up the names of this node's processes.
    fn leave_names(&self) {
        // Holders that have ended may not have been reported yet, and are not reported when the runtime is shut down.
        let holders = self.setup.view.names().leave();
        // This is checked without the lock on the names.
        let ended: Vec<_> = holders.into_iter().filter(|pid| !pid.is_alive()).collect();
        let mut names = self.setup.view.names();
        ended.into_iter().for_each(|pid| names.ended(pid));
    }

    /// Closes the sessions that have nothing left to send, or all sessions if `is_late`. Returns whether all have
    /// ended.
    fn close_sessions(&mut self, now: Moment, is_late: bool) -> bool {
        for (node, connected) in &self.peers {
            if !connected.is_closing.get() && (connected.peer.is_flushed() || is_late) {
                connected.is_closing.set(true);
                connected.peer.close(now);
                self.ready.insert(*node);
            }
        }
        self.peers.values().all(|connected| connected.peer.has_ended())
    }

    /// Deletes this node's record and lease.
    fn leave_membership(&mut self) {
        let Some(attempt) = &mut self.attempt else { return };
        attempt.membership.leave();
        if let Some(lease) = &mut attempt.lease {
            lease.release();
        }
    }

    /// Takes the next step of leaving if it is due. Returns whether the node has left.
    pub(super) fn has_left(&mut self, now: Moment) -> bool {
        let is_refused = self.setup.view.lock().is_over.is_some();
        let Some(Leaving { step, until, awaits_children, .. }) = self.leaving else {
            return is_refused && self.end();
        };
        let is_late = now >= until;
        let awaits_children = || awaits_children && self.peers.values().any(|connected| connected.peer.has_children());
        match step {
            // The node waits no longer for a holder whose step does not end: the holder's fencing token makes it
            // harmless.
            LeavingStep::Holders if is_late || self.condemned.is_empty() && !awaits_children() => {
                self.leave_names();
                self.go_on_leaving(LeavingStep::Peers, now + crate::session::LINGER);
            }
            LeavingStep::Peers => {
                if self.close_sessions(now, is_late) || is_late {
                    self.leave_membership();
                    self.go_on_leaving(LeavingStep::Store, now + FAREWELL);
                }
            }
            LeavingStep::Store if is_late || (self.unanswered == 0 && self.setup.view.names().is_idle()) => {
                return self.end();
            }
            LeavingStep::Holders | LeavingStep::Store => {}
        }
        false
    }

    pub(super) fn go_on_leaving(&mut self, next: LeavingStep, until: Moment) {
        if let Some(leaving) = &mut self.leaving {
            (leaving.step, leaving.until) = (next, until);
        }
    }

    pub(super) fn end(&mut self) -> bool {
        self.has_ended = true;
        self.setup.gate.set(None);
        // If the node ends early for any reason, no process may act as the holder of a name any longer.
        let held = self.setup.view.names().fenced();
        held.into_iter().chain(self.condemned.drain(..).map(|condemned| condemned.pid)).for_each(|pid| _ = pid.kill());
        self.give_registrations_up();
        let peers: Vec<_> = self.peers.keys().copied().collect();
        peers.into_iter().for_each(|node| self.end_session(node));
        self.setup.view.change(|view| {
            view.is_member = false;
            view.clear_members();
            view.is_over.get_or_insert(None);
        });
        let then = self.leaving.take().map(|leaving| leaving.then).unwrap_or_default();
        self.setup.view.end_waits();
        self.setup.arrivals.push(Arrival::Closed(then));
        true
    }
}
