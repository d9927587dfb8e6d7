//! Failures of members: backoff of the lane, and giving up, by the same rules as for supervisors.
//!
//! 1. A member fails if it does not end normally, ends before it has finished any message, or cannot be started. A
//!    retired member cannot fail, nor can any member once the pool is ending.
//! 2. Each failure counts against the pool's intensity; one too many, and the pool gives up. (A start for which the
//!    host had no room does not count: it is not the member's fault.)
//! 3. A failure makes the member's lane *back off*: no member of the lane is started until the delay has passed.
//!    Failures during the delay do not lengthen it: members that fail together count as one round. A long run of a
//!    member resets the number of rounds.
//! 4. A pool that gives up accepts nothing new, fails queued messages with the reason, tells its members to end, kills
//!    those still alive after [`ENDS_WITHIN`], and is over when the last of them has ended.

use super::records::{Lane, MemberRecord};
use super::{PoolAction, PoolPlan};
use crate::{ExitReason, env::clock::Moment};
use std::time::Duration;

/// Time that members have to end when a pool gives up, the same as for a supervisor.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The error that ends a pool whose members fail too often: its exit reason is [`ExitReason::Error`] with this error
/// inside.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "a member of the pool failed once more ({reason}); no more than {most} restart{} within {within:?} {} allowed",
    if *.most == 1 { "" } else { "s" },
    if *.most == 1 { "is" } else { "are" }
)]
#[non_exhaustive]
pub struct PoolGaveUp {
    /// Number of restarts, of all members together, that are allowed within `within`.
    pub most: u32,
    /// The window for counting restarts.
    pub within: Duration,
    /// The reason of the failure that made the pool give up.
    pub reason: ExitReason,
}

impl<K: Clone + Ord, T> PoolPlan<K, T> {
    /// Handles the failure of a member that ran for `run`, or that could not be started (`None`).
    pub(super) fn fail(&mut self, now: Moment, key: &K, run: Option<Duration>, why: &ExitReason) {
        if self.ending.is_some() {
            return;
        }
        if self.intensity.allow(now) {
            self.back_off(now, key, run);
        } else {
            self.give_up(now, why);
        }
    }

    pub(super) fn back_off(&mut self, now: Moment, key: &K, run: Option<Duration>) {
        let Some(lane) = self.lanes.get_mut(key).filter(|lane| !lane.backs_off(now)) else { return };
        let delay = self.rules.backoff.failed(&mut lane.in_a_row, run, self.random.next());
        lane.backs_off_until = Some(now.after(delay));
    }

    fn give_up(&mut self, now: Moment, why: &ExitReason) {
        let (most, within) = self.intensity.limits();
        let reason = ExitReason::error(PoolGaveUp { most, within, reason: why.clone() });
        let waiting = self.end_with(reason.clone());
        self.actions.extend(waiting.into_iter().map(|message| PoolAction::Fail(message, reason.clone())));
        // Queued before any action that may end the pool, and its process with it.
        self.actions.push_back(PoolAction::GiveUp(reason));
        let members = self.all();
        self.actions.extend(members.into_iter().map(PoolAction::Cancel));
        self.kill_at = Some(now.after(ENDS_WITHIN));
        self.drain(now);
    }

    /// Ends the pool for this reason: it accepts no more messages. Returns the queued messages. Idle members are not
    /// stopped before [`drain`](Self::drain), so that the caller can end them for another reason first.
    pub(crate) fn end_with(&mut self, reason: ExitReason) -> Vec<T> {
        self.ending.get_or_insert(reason);
        self.waiting = 0;
        self.patience.clear();
        let lines = self.lanes.values_mut().flat_map(|lane| std::mem::take(&mut lane.queue));
        lines.map(|waiting| waiting.message).collect()
    }
}

impl<K> MemberRecord<K> {
    pub(super) fn has_failed(&self, why: &ExitReason) -> bool {
        !(self.let_go || self.served && why.is_normal())
    }
}

impl<K, T> Lane<K, T> {
    pub(super) fn backs_off(&self, now: Moment) -> bool {
        self.backs_off_until.is_some_and(|until| until > now)
    }
}
