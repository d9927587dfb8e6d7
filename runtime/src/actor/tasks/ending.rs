//! Requests to end a process: the futures that wait for one, and the reason with which the process ends.

use crate::ExitReason;
use crate::sync::{Arc, Mutex, lock};
use std::task::{Poll, Waker};

/// The requested end of a process, the futures that wait for a request, and those that delay the end.
#[derive(Default)]
pub(crate) struct Ending {
    /// The reason of the most recent request to cancel.
    pub(crate) requested: Option<ExitReason>,
    /// Futures that wait for a request to end, and requests that no future has yielded yet.
    waits: Vec<Arc<CancelWait>>,
    /// Each shielded future holds a clone: a cancellation must not cut the future short. Allocated on first use.
    shields: Option<Arc<()>>,
    /// The reason with which the process ends now, if it does.
    reason: Option<ExitReason>,
    /// The reason with which the process ends after its last shielded future, if it does.
    after_shield: Option<ExitReason>,
}

impl Ending {
    /// Ends the process with `reason`. Returns the reason that this one replaces, to be dropped after the table is
    /// released.
    #[must_use = "it may hold user values"]
    pub(crate) fn end_with(&mut self, reason: ExitReason) -> Option<ExitReason> {
        self.reason.replace(reason)
    }

    /// Ends the process with `reason` after its shielded futures. Returns the reason that this one replaces, to be
    /// dropped after the table is released.
    #[must_use = "it may hold user values"]
    pub(crate) fn end_after_shield(&mut self, reason: ExitReason) -> Option<ExitReason> {
        self.after_shield.replace(reason)
    }

    /// Returns whether the process ends now.
    pub(crate) fn ends_now(&self) -> bool {
        self.reason.is_some()
    }

    /// Returns whether the process ends now or after its shielded futures.
    #[inline(always)]
    pub(crate) fn will_end(&self) -> bool {
        self.reason.is_some() || self.after_shield.is_some()
    }

    /// Takes the stored reasons, to be dropped separately when the process has ended.
    pub(crate) fn take_values(&mut self) -> [Option<ExitReason>; 3] {
        [self.requested.take(), self.reason.take(), self.after_shield.take()]
    }

    /// Returns whether [`take_values`](Self::take_values) would take any.
    pub(crate) fn has_values(&self) -> bool {
        self.requested.is_some() || self.will_end()
    }

    pub(crate) fn add_wait(&mut self, wait: &Arc<CancelWait>) {
        // Finished waits are removed whenever the list would grow.
        if self.waits.len() == self.waits.capacity() {
            self.waits.retain(|wait| !wait.is_over());
        }
        self.waits.push(wait.clone());
    }

    /// Passes a request to end to the futures that wait for one, and returns their wakers. Returns `None` if no future
    /// waits. Also returns an earlier request that this one replaces, to be dropped after the table is released.
    ///
    /// Each request completes each of these futures once. A future may be given a request and then be dropped before it
    /// returns that request, because another branch of a `select!` was ready too. The request then remains for the next
    /// future.
    pub(crate) fn give_request(&mut self, reason: &ExitReason) -> Option<(Vec<Waker>, Option<Arc<CancelWait>>)> {
        let (mut is_awaited, mut is_given, mut wakers) = (false, false, Vec::new());
        for wait in &self.waits {
            let is_held = Arc::strong_count(wait) > 1;
            match &mut *lock(&wait.0) {
                state @ CancelState::Waits(_) if is_held => {
                    let CancelState::Waits(waker) = std::mem::replace(state, CancelState::Given(reason.clone())) else {
                        continue;
                    };
                    wakers.extend(waker);
                    (is_awaited, is_given) = (true, true);
                }
                // This future is about to return an earlier request.
                CancelState::Given(_) if is_held => is_awaited = true,
                _ => {}
            }
        }
        let before = if is_awaited && !is_given { self.leave_request(reason.clone()) } else { None };
        is_awaited.then_some((wakers, before))
    }

    /// Stores a request for the next future that waits for one. It goes to the end of the list, since the latest
    /// request counts. Returns the earlier stored request that it replaces, if there is one.
    #[must_use = "it may hold user values"]
    pub(crate) fn leave_request(&mut self, reason: ExitReason) -> Option<Arc<CancelWait>> {
        let before = self.waits.iter().rposition(CancelWait::is_left);
        let before = before.map(|at| self.waits.remove(at));
        self.waits.push(Arc::new(CancelWait(Mutex::new(CancelState::Given(reason)))));
        before
    }

    /// Takes the requests that no future has returned or will return; the last of them is the latest. A request that
    /// arrived while a future was shielded is thereby reported. It must then not end the process after the shield, so
    /// its reason is taken, too. (That reason was never set if a future was already waiting when the request came.) The
    /// result must be dropped after the table is released.
    #[must_use = "they may hold user values"]
    pub(crate) fn take_left_requests(&mut self) -> (Vec<Arc<CancelWait>>, Option<ExitReason>) {
        let left: Vec<_> = self.waits.extract_if(.., |wait| CancelWait::is_left(wait)).collect();
        let is_told = !left.is_empty() && self.is_shielded();
        (left, self.after_shield.take_if(|_| is_told))
    }

    /// Returns a guard for a shielded future. While the guard is held, a cancellation must not cut the future short.
    pub(crate) fn shield(&mut self) -> Arc<()> {
        self.shields.get_or_insert_default().clone()
    }

    pub(crate) fn is_shielded(&self) -> bool {
        self.shields.as_ref().is_some_and(|shields| Arc::strong_count(shields) > 1)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.reason.is_some() || (self.after_shield.is_some() && !self.is_shielded())
    }

    pub(crate) fn take(&mut self) -> Option<ExitReason> {
        if self.reason.is_none() && !self.is_shielded() {
            self.reason = self.after_shield.take();
        }
        self.reason.take()
    }
}

/// A wait for a request to end. The table of the process and the future share it, because the future may be dropped on
/// any thread.
pub(crate) struct CancelWait(Mutex<CancelState>);

enum CancelState {
    /// No request yet; holds the waker of the future once that has been polled.
    Waits(Option<Waker>),
    /// A request that the future has not returned.
    Given(ExitReason),
    /// The future has completed, or was dropped before it was given a request.
    Over,
}

impl Default for CancelWait {
    fn default() -> Self {
        Self(Mutex::new(CancelState::Waits(None)))
    }
}

impl CancelWait {
    /// Returns whether this holds a request that no future will return.
    fn is_left(wait: &Arc<Self>) -> bool {
        Arc::strong_count(wait) == 1 && matches!(*lock(&wait.0), CancelState::Given(_))
    }

    fn is_over(&self) -> bool {
        matches!(*lock(&self.0), CancelState::Over)
    }

    /// Returns the request, if there is one; otherwise stores the waker.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<ExitReason> {
        let waker = waker.clone();
        let mut state = lock(&self.0);
        let next = if let CancelState::Given(_) = *state { CancelState::Over } else { CancelState::Waits(Some(waker)) };
        let before = std::mem::replace(&mut *state, next);
        drop(state);
        // A previous waker is dropped outside the lock.
        if let CancelState::Given(reason) = before { Poll::Ready(reason) } else { Poll::Pending }
    }

    /// Called when the future is dropped. A request that it was already given remains.
    pub(crate) fn leave(&self) {
        let mut state = lock(&self.0);
        let before = match *state {
            CancelState::Waits(_) => std::mem::replace(&mut *state, CancelState::Over),
            _ => CancelState::Over,
        };
        drop(state);
        drop(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_requests_that_are_left_the_latest_is_last_and_they_do_not_pile_up() {
        let mut ending = Ending::default();
        let dropped = Arc::new(CancelWait::default());
        ending.add_wait(&dropped);
        assert!(ending.leave_request("one".into()).is_none());
        assert!(ending.give_request(&"two".into()).is_some());
        drop(dropped);
        for reason in ["three", "four", "five"] {
            assert!(ending.leave_request(reason.into()).is_some());
        }
        let (left, _) = ending.take_left_requests();
        assert_eq!(left.len(), 2);
        let Some(Poll::Ready(latest)) = left.last().map(|wait| wait.poll(Waker::noop())) else { panic!("one is left") };
        assert_eq!(latest, ExitReason::from("five"));
    }
}
